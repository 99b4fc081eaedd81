"""Tables of version 9 that Hudi 1.1 and 1.2 wrote are continued: every operation and service, with their indexes.

The rows are compared with a dictionary; the doctor and `assert_metadata_is_true` compare the metadata table with files and rows. That Hudi goes on
with such tables is shown by ``tests/interop``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.disk import contents
from support.golden import FIXTURES, OTHER_VERSIONS, unpack
from support.metadata_tables import assert_metadata_is_true, metadata_of

import pyhudi_core as hudi
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.record_schema import STATS_FIELD, VALUE_TYPE

TABLES = ["hudi-1.2.0/cow_v9", "hudi-1.2.0/mor_v9", "hudi-1.2.0/cow_indexed", "hudi-1.1.1/cow_plain"]
WITHOUT_SOME_COLUMNS = ("hudi-1.2.0/cow_indexed",)
"""The writer of this table keeps statistics of fewer columns than we do."""
WITH_MARKS = ["mor_delete_marker", "mor_dms", "mor_pg"]
PARTIAL = {"mor_non_defaults_migrated": False, "mor_partial_migrated": True}
"""Tables with the mode IGNORE_DEFAULTS, and whether the ordering column decides."""
_MODEL = "org.apache.hudi.common.model"


def opened(name: str, place: Path) -> hudi.HudiTable:
    root = OTHER_VERSIONS if (OTHER_VERSIONS / name).exists() else FIXTURES
    return hudi.open_table(unpack(name, place, root), options={"pyhudi.expression.index.timezone": "UTC"})


def state(table: hudi.HudiTable) -> dict[str, Any]:
    return {row["id"]: row for row in table.scan(meta=False).to_arrow().to_pylist()}


def statistics(table: hudi.HudiTable, partition: str) -> Iterator[dict[str, Any]]:
    for record in metadata_of(table).scan(partition).values():
        yield record[STATS_FIELD]


@pytest.mark.row("Q2")
@pytest.mark.parametrize("name", TABLES)
def test_every_operation_goes_on_with_a_table_of_hudi(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path)
    expected = state(table)
    assert table.config.version == 9
    rows = table.scan(meta=False).to_arrow()
    changed = rows.slice(0, 9).set_column(
        rows.schema.get_field_index("ts"), "ts", pa.array([10**6] * 9, rows.schema.field("ts").type)
    )
    table.upsert(changed)
    expected |= {row["id"]: row for row in changed.to_pylist()}
    late = rows.slice(3, 3).set_column(
        rows.schema.get_field_index("ts"), "ts", pa.array([-1] * 3, rows.schema.field("ts").type)
    )
    table.upsert(late)
    new = rows.slice(0, 4).set_column(rows.schema.get_field_index("id"), "id", pa.array([f"n{n}" for n in range(4)]))
    table.insert(new)
    expected |= {row["id"]: row for row in new.to_pylist()}
    gone = [*rows.column("id").to_pylist()[9:12], "n3"]
    table.delete(where=f"id IN ({', '.join(map(repr, gone))})")
    expected = {key: row for key, row in expected.items() if key not in gone}
    assert state(table) == expected
    if name not in WITHOUT_SOME_COLUMNS:
        assert_metadata_is_true(table)
    for service in (table.compaction, table.clustering, table.cleaning, table.archival):
        service.run()
    assert state(table) == expected
    if name not in WITHOUT_SOME_COLUMNS:
        assert_metadata_is_true(table)
    assert not table.check().errors


@pytest.mark.row("I2", "I3")
@pytest.mark.parametrize("name", ["hudi-1.2.0/cow_v9", "hudi-1.2.0/cow_indexed"])
def test_statistics_are_written_in_the_version_of_their_definition(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path)
    table.upsert(table.scan(meta=False).to_arrow().slice(0, 5))
    kept = [one for one in table.config.metadata_partitions if one in (names.COLUMN_STATS, names.PARTITION_STATS)]
    assert kept
    assert all(stats.get(VALUE_TYPE) is not None for one in kept for stats in statistics(table, one))
    file = tmp_path / ".hoodie" / ".index_defs" / "index.json"
    file.write_text(
        file.read_text().replace('"version" : "V2"', '"version" : "V1"')
    )  # as in a table that was raised from 8
    before = sum(1 for _ in statistics(table, names.COLUMN_STATS))
    table.upsert(table.scan(meta=False).to_arrow().slice(5, 5))
    typed = [stats.get(VALUE_TYPE) is not None for stats in statistics(table, names.COLUMN_STATS)]
    assert sum(typed) == before, "the new files have statistics of the other version"
    assert len(typed) > before


@pytest.mark.row("Q2")
@pytest.mark.parametrize("name", WITH_MARKS)
def test_a_table_of_hudi_whose_rows_mark_deletes_goes_on(name: str, tmp_path: Path) -> None:
    table = opened(f"hudi-1.2.0/{name}", tmp_path)
    expected, mark = state(table), table.config.merge_rules.mark
    by = table.config.ordering_fields[0]
    rows = table.scan(meta=False).to_arrow().sort_by("id").slice(0, 6)
    newest = [10**6 + number for number in range(6)]
    changed = rows.set_column(rows.schema.get_field_index(by), by, pa.array(newest, rows.schema.field(by).type))
    words = [mark[1] if number % 2 else "another" for number in range(6)]
    changed = changed.set_column(rows.schema.get_field_index(mark[0]), mark[0], pa.array(words))
    table.upsert(changed)
    for number, row in enumerate(changed.to_pylist()):
        if number % 2:
            del expected[row["id"]]
        else:
            expected[row["id"]] = row
    assert state(table) == expected
    for service in (table.log_compaction, table.compaction, table.clustering):
        service.run()
        assert state(table) == expected
    assert not table.check().errors


def filled(old: dict[str, Any] | None, new: dict[str, Any], by_ordering: bool) -> dict[str, Any]:
    """The version that wins, with the values of the other one where its own are null."""
    if old is None:
        return new
    late = by_ordering and new["ts"] < old["ts"]
    high, low = (old, new) if late else (new, old)
    return {name: low[name] if value is None else value for name, value in high.items()}


def tell(table: hudi.HudiTable, by_ordering: bool) -> None:
    """Upsert newer, late and new rows with nulls in turn; after each of them, and after each service, the rows are those of `filled`."""
    expected = state(table)
    schema, keys = table.schema, sorted(expected)
    columns = [name for name in schema.names if name not in ("id", "ts", *table.config.partition_fields)]
    for number, ts in enumerate((10**6, -(10**6), 2 * 10**6)):
        known = [dict(expected[key]) for key in keys[number : number + 6]]
        given = [
            row | {"ts": ts} | {name: None for place, name in enumerate(columns) if (place + at + number) % 2}
            for at, row in enumerate([*known, known[0] | {"id": f"new{number}"}])
        ]
        table.upsert(pa.Table.from_pylist(given, schema))
        expected |= {row["id"]: filled(expected.get(row["id"]), row, by_ordering) for row in given}
        assert state(table) == expected, number
    table.delete(where=f"id = '{keys[1]}'")
    del expected[keys[1]]
    assert state(table) == expected
    table.compaction.run()
    table.clustering.run()
    assert state(table) == expected
    assert not table.check().errors


@pytest.mark.row("Q2")
@pytest.mark.parametrize("name", PARTIAL)
def test_partial_updates_of_a_table_of_hudi_are_filled(name: str, tmp_path: Path) -> None:
    tell(opened(f"hudi-1.2.0/{name}", tmp_path), PARTIAL[name])


@pytest.mark.row("Q2")
@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("payload", ["OverwriteNonDefaultsWithLatestAvroPayload", "PartialUpdateAvroPayload"])
def test_a_payload_class_of_a_new_table_of_version_9_becomes_a_mode_of_partial_updates(
    kind: str, payload: str, tmp_path: Path
) -> None:
    schema = pa.schema(
        [("id", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.int32()), ("c", pa.float64())]
    )
    options = {"hoodie.compaction.payload.class": f"{_MODEL}.{payload}"}
    table = hudi.create_table(str(tmp_path), schema, "id", ordering="ts", table_type=kind, version=9, options=options)
    assert table.config.raw["hoodie.table.partial.update.mode"] == "IGNORE_DEFAULTS"
    assert table.config.raw["hoodie.table.legacy.payload.class"] == options["hoodie.compaction.payload.class"]
    assert "hoodie.compaction.payload.class" not in table.config.raw
    rows = [{"id": f"k{n:02d}", "ts": n, "a": f"a{n}", "b": None if n % 3 else n, "c": n / 4} for n in range(12)]
    table.upsert(pa.Table.from_pylist(rows, schema))
    tell(table, payload.startswith("Partial"))


@pytest.mark.row("Q2")
def test_a_table_of_a_plug_in_is_read_and_not_written(tmp_path: Path) -> None:
    table = opened("hudi-1.2.0/cow_v9", tmp_path)
    expected = state(table)
    file = tmp_path / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.format=native", "hoodie.table.format=iceberg"))
    before = contents(str(tmp_path))
    rows, refused = table.scan(meta=False).to_arrow(), []
    for write in (lambda: table.upsert(rows), table.cleaning.run, lambda: table.begin("insert").write(rows)):
        try:
            assert not write(), "a service with nothing to do"
        except UnsupportedTableError as error:
            refused.append(error.message)
    assert len(refused) == 2
    assert all("format 'iceberg'" in message for message in refused)
    assert state(table) == expected
    assert contents(str(tmp_path)) == before


def test_a_new_table_of_version_9_has_the_properties_of_hudis(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("n", pa.int32())])
    for number, kind in enumerate(("copy_on_write", "merge_on_read")):
        table = hudi.create_table(str(tmp_path / kind), schema, "id", "region", ("ts", "n"), kind, version=9)
        ours = table.config.raw
        theirs = opened(f"hudi-1.2.0/{('cow_v9', 'mor_v9')[number]}", tmp_path / f"{kind}-hudi").config.raw
        of_place = {"hoodie.table.partition_extractor_class", "hoodie.table.cdc.supplemental.logging.mode"}
        only = {"hoodie.table.create.schema", "hoodie.datasource.write.partitionpath.urlencode"}
        assert theirs.keys() - ours.keys() <= of_place
        assert ours.keys() - theirs.keys() <= only
        assert (ours["hoodie.table.version"], ours["hoodie.table.initial.version"]) == ("9", "9")
        assert ours["hoodie.table.ordering.fields"] == "ts,n"
        assert (
            not {"hoodie.table.precombine.field", "hoodie.record.merge.strategy.id", "hoodie.compaction.payload.class"}
            & ours.keys()
        )
        definitions = json.loads((tmp_path / kind / ".hoodie" / ".index_defs" / "index.json").read_text())
        assert {item["version"] for item in definitions["indexDefinitions"].values()} == {"V2"}
    payload = {"hoodie.compaction.payload.class": f"{_MODEL}.FirstValueAvroPayload"}
    with pytest.raises(UnsupportedTableError, match=r"version 9 whose rows are merged by .*FirstValue"):
        hudi.create_table(str(tmp_path / "first"), schema, "id", ordering="ts", version=9, options=payload)
    assert not (tmp_path / "first").exists()
