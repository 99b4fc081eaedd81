"""What hoodie.properties says, typed and checked."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import (
    CorruptPropertiesError,
    HudiError,
    InvalidOptionError,
    TableVersionError,
    UnsafePathError,
    UnsupportedTableError,
)
from pyhudi_core.model.merge_mode import MergeRules
from pyhudi_core.model.new_table import new_table_config
from pyhudi_core.model.properties import (
    CdcMode,
    KeyGenerator,
    MergeMode,
    TableConfig,
    TableType,
    checksum,
    parse,
    verify,
)

GOLDEN = {path.stem: path for path in (Path(__file__).parents[2] / "golden" / "properties").glob("*.properties")}
MINIMAL = {
    "hoodie.table.name": "t",
    "hoodie.table.version": "8",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.recordkey.fields": "id",
}


def config(**changes: str) -> TableConfig:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return TableConfig.from_properties({**MINIMAL, **named}, table="/lake/t")


def with_property(key: str, value: str) -> TableConfig:
    return TableConfig.from_properties({**MINIMAL, key: value}, table="/lake/t")


def golden(name: str) -> TableConfig:
    return TableConfig.from_properties(parse(GOLDEN[name].read_bytes(), path=name), table=name)


@pytest.mark.row("P9")
def test_the_checksum_is_that_of_hudi() -> None:
    assert checksum({"hoodie.table.name": "cow1"}) == "3815464323"
    assert checksum({"hoodie.table.name": "sqlt", "hoodie.database.name": "default"}) == "312390142"


@pytest.mark.row("P9")
def test_an_absent_checksum_is_fine_and_a_wrong_one_is_damage() -> None:
    assert verify(MINIMAL)
    assert not verify(MINIMAL, required=True)
    with pytest.raises(CorruptPropertiesError, match="checksum"):
        with_property("hoodie.table.checksum", "1")


@pytest.mark.row("A8")
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_a_table_of_hudi_opens_and_keeps_every_property(name: str) -> None:
    properties = parse(GOLDEN[name].read_bytes(), path=name)
    found = TableConfig.from_properties(properties, table=name)
    assert found.to_properties() == properties
    assert found.with_properties({}).to_properties() == properties
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.row("P2")
@pytest.mark.row("P3")
@pytest.mark.row("P5")
@pytest.mark.row("P6")
@pytest.mark.row("P8")
def test_a_table_of_hudi_says_what_it_is() -> None:
    found = golden("hudi-1.0.2-cow_rich_types")
    assert (found.name, found.table_type) == ("cow_rich_types", TableType.COPY_ON_WRITE)
    assert (found.record_key_fields, found.partition_fields, found.ordering_fields) == (("a", "b"), ("day",), ("ev",))
    assert (found.keygenerator_type, found.merge_mode) == (KeyGenerator.COMPLEX, MergeMode.EVENT_TIME_ORDERING)
    assert found.metadata_partitions == ("column_stats", "files", "partition_stats")
    assert (found.timeline_path, found.history_path, found.timeline_timezone) == ("timeline", "history", "LOCAL")
    metadata = golden("hudi-1.0.2-mor_avro_metadata")
    assert (metadata.base_file_format, metadata.merge_mode, metadata.populate_meta_fields) == (
        "HFILE",
        MergeMode.CUSTOM,
        False,
    )
    changes = golden("hudi-1.0.2-mor_cdc_data_before")
    assert (changes.cdc_enabled, changes.cdc_mode) == (True, CdcMode.DATA_BEFORE)


@pytest.mark.row("P7")
def test_both_spellings_of_the_ordering_columns_are_read_with_all_columns() -> None:
    assert golden("hudi-1.2.0-cow_plain").ordering_fields == golden("hudi-1.0.2-cow_plain").ordering_fields == ("ts",)
    assert with_property("hoodie.table.precombine.field", "a, b").ordering_fields == ("a", "b")


@pytest.mark.row("P4")
@pytest.mark.row("Q1")
@pytest.mark.parametrize("version", ["2", "10", "7", "eight", "", " "])
def test_another_version_is_refused_and_the_way_out_is_told(version: str) -> None:
    with pytest.raises(TableVersionError) as error:
        with_property("hoodie.table.version", version)
    assert error.value.found == (version.strip() or "missing")
    assert error.value.table == "/lake/t"
    if version in ("10", ""):
        assert "hoodie.write.auto.upgrade=false" in str(error.value)


_MODEL = "org.apache.hudi.common.model"


@pytest.mark.row("Q2")
@pytest.mark.parametrize(
    ("said", "mode", "rules"),
    [
        ({}, "EVENT_TIME_ORDERING", MergeRules()),
        (
            {
                "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
                "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            },
            "COMMIT_TIME_ORDERING",
            MergeRules(partial_update="IGNORE_DEFAULTS"),
        ),
        (
            {
                "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
                "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value": "?",
                "hoodie.record.merge.property.hoodie.payload.delete.field": "Op",
                "hoodie.record.merge.property.hoodie.payload.delete.marker": "D",
            },
            "EVENT_TIME_ORDERING",
            MergeRules(partial_update="FILL_UNAVAILABLE", unavailable="?", delete_column="Op", delete_word="D"),
        ),
    ],
)
def test_version_9_says_with_properties_what_a_payload_class_said(
    said: dict[str, str], mode: str, rules: MergeRules
) -> None:
    found = {**golden("hudi-1.2.0-cow_plain").raw, "hoodie.table.version": "9", **said}
    config = TableConfig.from_properties(found, table="/lake/t")
    assert (config.version, config.merge_mode.value, config.merge_rules) == (9, mode, rules)
    config.refuse_writing("/lake/t")


def test_a_table_format_of_a_plug_in_is_read_and_not_written() -> None:
    with_property("hoodie.table.format", "native").refuse_writing("/lake/t")
    config = with_property("hoodie.table.format", "iceberg")
    with pytest.raises(UnsupportedTableError, match="format 'iceberg'") as error:
        config.refuse_writing("/lake/t")
    assert "plug-in" in (error.value.hint or "")


def test_a_write_that_began_with_another_version_is_refused() -> None:
    before, now = with_property("hoodie.table.version", "8"), with_property("hoodie.table.version", "9")
    now.refuse_writing("/lake/t", now)
    with pytest.raises(TableVersionError, match="has version 9 now, and had 8") as error:
        now.refuse_writing("/lake/t", before)
    assert error.value.hint == "Nothing was published. Begin again."


def test_a_mode_of_partial_updates_that_is_not_known_is_refused() -> None:
    with pytest.raises(CorruptPropertiesError, match="KEEP_ALL"):
        with_property("hoodie.table.partial.update.mode", "KEEP_ALL")


OLDER = {"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        ({}, MergeMode.COMMIT_TIME_ORDERING),
        (
            {"hoodie.compaction.payload.class": f"{_MODEL}.OverwriteWithLatestAvroPayload"},
            MergeMode.COMMIT_TIME_ORDERING,
        ),
        ({"hoodie.compaction.payload.class": f"{_MODEL}.DefaultHoodieRecordPayload"}, MergeMode.EVENT_TIME_ORDERING),
        ({"hoodie.compaction.payload.class": f"{_MODEL}.PartialUpdateAvroPayload"}, MergeMode.CUSTOM),
    ],
    ids=str,
)
def test_the_payload_class_of_version_6_decides_and_its_strategy_id_does_not(
    said: dict[str, str], mode: MergeMode
) -> None:
    """The id of event time means the default merger there, whatever that is."""
    strategy = {"hoodie.compaction.record.merger.strategy": MergeMode.EVENT_TIME_ORDERING.strategy_id}
    config = TableConfig.from_properties({"hoodie.table.name": "t", **OLDER, **strategy, **said}, table="/lake/t")
    assert (config.merge_mode, config.merge_rules) == (mode, MergeRules(precombines=True))


def test_the_timeline_of_version_6_is_the_folder_of_the_properties() -> None:
    said = {"hoodie.timeline.path": "elsewhere", "hoodie.archivelog.folder": "old"}
    config = TableConfig.from_properties({"hoodie.table.name": "t", **OLDER, **said}, table="/lake/t")
    assert (config.timeline_folder, config.history_path) == (".hoodie", "old")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.hudi.keygen.ComplexAvroKeyGenerator", KeyGenerator.COMPLEX),
        ("org.apache.hudi.keygen.TimestampBasedKeyGenerator", KeyGenerator.TIMESTAMP),
        ("org.apache.hudi.keygen.CustomKeyGenerator", KeyGenerator.OTHER),
        ("com.example.Own", KeyGenerator.OTHER),
    ],
)
def test_version_6_names_key_generators_by_class(name: str, kind: KeyGenerator) -> None:
    said = {"hoodie.table.name": "t", **OLDER, "hoodie.table.keygenerator.class": name}
    assert TableConfig.from_properties(said, table="/lake/t").keygenerator_type is kind


@pytest.mark.row("A5")
def test_a_table_without_partition_columns_in_its_files_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedTableError, match="drop.partition.columns"):
        with_property("hoodie.datasource.write.drop.partition.columns", "true")


@pytest.mark.row("E5")
@pytest.mark.parametrize("kind", ["LANCE", "CSV"])
def test_other_base_file_formats_are_refused_by_name(kind: str) -> None:
    with pytest.raises(UnsupportedTableError, match=kind):
        with_property("hoodie.table.base.file.format", kind)


@pytest.mark.row("P8")
@pytest.mark.parametrize("layout", ["1", "", "3"])
def test_another_timeline_layout_is_refused(layout: str) -> None:
    with pytest.raises(UnsupportedTableError, match=r"layout\.version"):
        with_property("hoodie.timeline.layout.version", layout)


@pytest.mark.row("A1")
@pytest.mark.parametrize(
    "key", ["hoodie.timeline.path", "hoodie.timeline.history.path", "hoodie.table.index.defs.path"]
)
@pytest.mark.parametrize("path", ["../x", "/etc", "s3://other/b", "a/../../b"])
def test_a_folder_outside_of_the_table_is_hostile(key: str, path: str) -> None:
    with pytest.raises(UnsafePathError):
        with_property(key, path)


def test_index_definitions_may_be_named_with_the_tables_own_location() -> None:
    found = with_property("hoodie.table.index.defs.path", "/lake/t/.hoodie/.index_defs/index.json")
    assert found.index_defs_path == ".hoodie/.index_defs/index.json"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.name", ""),
        ("hoodie.table.type", "COPY"),
        ("hoodie.record.merge.mode", "LATEST"),
        ("hoodie.table.timeline.timezone", "CET"),
        ("hoodie.populate.meta.fields", "yes"),
        ("pyhudi.partition.random.prefix", "-1"),
    ],
)
def test_a_value_that_a_property_cannot_have_is_damage(key: str, value: str) -> None:
    with pytest.raises(CorruptPropertiesError, match="hoodie|pyhudi"):
        with_property(key, value)


@pytest.mark.row("P12")
@pytest.mark.parametrize(
    ("properties", "mode"),
    [
        ({}, MergeMode.COMMIT_TIME_ORDERING),
        ({"hoodie.table.precombine.field": "ts"}, MergeMode.EVENT_TIME_ORDERING),
        (
            {"hoodie.record.merge.strategy.id": MergeMode.COMMIT_TIME_ORDERING.strategy_id},
            MergeMode.COMMIT_TIME_ORDERING,
        ),
        ({"hoodie.record.merge.strategy.id": "11111111-0000-0000-0000-000000000000"}, MergeMode.CUSTOM),
        ({"hoodie.compaction.payload.class": "org.example.Mine"}, MergeMode.CUSTOM),
        (
            {"hoodie.compaction.payload.class": MergeMode.EVENT_TIME_ORDERING.payload_class},
            MergeMode.EVENT_TIME_ORDERING,
        ),
        ({"hoodie.record.merge.mode": "CUSTOM"}, MergeMode.CUSTOM),
    ],
)
def test_the_merge_mode_is_read_or_inferred(properties: dict[str, str], mode: MergeMode) -> None:
    assert TableConfig.from_properties({**MINIMAL, **properties}, table="t").merge_mode is mode


@pytest.mark.row("P6")
def test_the_types_of_a_custom_key_generator_are_kept_apart_from_the_columns() -> None:
    found = with_property("hoodie.table.partition.fields", "city:SIMPLE,evt:timestamp")
    assert found.partition_fields == ("city", "evt")
    assert found.partition_types == ("SIMPLE", "TIMESTAMP")


@pytest.mark.row("J7")
@pytest.mark.parametrize(
    ("keys", "partitions", "generator", "fields"),
    [
        (["id"], [], "NON_PARTITION", ""),
        (["a", "b"], [], "NON_PARTITION", ""),
        (["id"], ["day"], "SIMPLE", "day"),
        (["id"], ["a", "b"], "CUSTOM", "a:SIMPLE,b:SIMPLE"),
        (["a", "b"], ["day"], "COMPLEX", "day"),
        (["a", "b"], ["c", "d"], "COMPLEX", "c,d"),
    ],
)
def test_a_new_table_gets_the_key_generator_that_all_releases_agree_on(
    keys: list[str], partitions: list[str], generator: str, fields: str
) -> None:
    made = new_table_config("t", keys, partitions, [], TableType.COPY_ON_WRITE, None)
    assert made.raw["hoodie.table.keygenerator.type"] == generator
    assert made.raw["hoodie.table.partition.fields"] == fields
    assert made.partition_fields == tuple(partitions)


@pytest.mark.row("P13")
@pytest.mark.row("P12")
@pytest.mark.row("P14")
def test_a_new_table_has_every_property_of_hudis_dataframe_writer() -> None:
    made = new_table_config("t", ["id"], ["day"], ["ts"], TableType.MERGE_ON_READ, '{"type": "record"}')
    written_by_hudi = set(golden("hudi-1.0.2-cow_hive_services").raw) | set(golden("hudi-1.0.2-cow_plain").raw)
    assert written_by_hudi - set(made.raw) <= {"hoodie.table.metadata.partitions", "hoodie.database.name"}
    assert made.timeline_timezone == "UTC"
    assert made.hive_style_partitioning and made.url_encode_partitioning
    assert made.merge_mode is MergeMode.EVENT_TIME_ORDERING
    assert made.raw["hoodie.record.merge.strategy.id"] == "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
    assert made.metadata_partitions == ()
    assert verify(made.raw, required=True)


@pytest.mark.row("P1")
def test_the_database_name_takes_part_in_the_checksum() -> None:
    made = new_table_config("sqlt", ["id"], [], [], TableType.COPY_ON_WRITE, None, database="default")
    assert made.raw["hoodie.table.checksum"] == "312390142"
    assert made.merge_mode is MergeMode.COMMIT_TIME_ORDERING


def test_taking_a_property_away_keeps_the_rest() -> None:
    before = golden("hudi-1.0.2-cow_plain")
    after = before.with_properties({"hoodie.table.metadata.partitions": None})
    assert after.metadata_partitions == ()
    assert set(before.raw) - set(after.raw) == {"hoodie.table.metadata.partitions"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("", ["id"], [], []),
        ("a/b", ["id"], [], []),
        ("t", ["a,b"], [], []),
        ("t", ["a", "a"], [], []),
        ("t", ["a"], ["b:SIMPLE"], []),
        ("t", ["a"], [], [" "]),
    ],
)
def test_a_new_table_that_cannot_be_is_refused(arguments: tuple[str, list[str], list[str], list[str]]) -> None:
    with pytest.raises(InvalidOptionError):
        new_table_config(*arguments, TableType.COPY_ON_WRITE, None)


def test_event_time_ordering_needs_an_ordering_column() -> None:
    with pytest.raises(InvalidOptionError, match="ordering"):
        new_table_config("t", ["id"], [], [], TableType.COPY_ON_WRITE, None, merge_mode=MergeMode.EVENT_TIME_ORDERING)


@settings(max_examples=examples(500), deadline=None)
@given(st.data())
def test_damaged_properties_give_a_typed_error_or_a_configuration(data: st.DataObject) -> None:
    raw = bytearray(GOLDEN[data.draw(st.sampled_from(sorted(GOLDEN)))].read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = TableConfig.from_properties(parse(bytes(raw), path="p"), table="t")
    except HudiError:
        return
    assert found.name
