"""Options: known, typed, in agreement with the table, documented from one source."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples
from support.sources import ROOT

from pyhudi_core.errors import HudiError, InvalidOptionError, UnknownOptionError
from pyhudi_core.lock.kind import LockKind
from pyhudi_core.lock.kinds import LOCK_OPTIONS, every_kind
from pyhudi_core.model.masking import Secret
from pyhudi_core.model.new_table import new_table_config
from pyhudi_core.model.properties import TableConfig, TableType
from pyhudi_core.options import TableOptions, WriteOptions, every_option, render_docs, without_secrets
from pyhudi_core.options.definitions import TABLE_OPTIONS, WRITE_OPTIONS
from pyhudi_core.options.fitting import refuse_unfit_options
from pyhudi_core.options.registry import read_value, render_own_options
from pyhudi_core.storage.kind import StorageKind
from pyhudi_core.storage.opening import every_kind as every_storage

OPTIONS = every_option()
IDS = [option.key for option in OPTIONS]


def table() -> TableConfig:
    return new_table_config("t", ["id"], ["a", "b"], ["ts"], TableType.COPY_ON_WRITE, None)


def test_secret_options_are_those_whose_values_are_not_shown_and_no_request_has_them() -> None:
    secret = {option.attribute for option in OPTIONS if option.secret}
    hidden = {
        f"{kind.name}.{each.name}"
        for kind in filter(LockKind.options, every_kind())
        for each in fields(kind.values)
        if not each.repr
    }
    assert secret == hidden
    said = re.compile("password|(access|secret) key|session token", re.IGNORECASE)
    assert secret >= {option.attribute for option in OPTIONS if said.search(option.doc)} != set()
    given = {option.key: "text" for option in OPTIONS}
    assert without_secrets(given).keys() == {option.key for option in OPTIONS if not option.secret}


def test_every_option_has_a_typed_attribute_and_every_attribute_an_option() -> None:
    shared = [option.attribute for option in WRITE_OPTIONS + LOCK_OPTIONS if option.attribute]
    assert sorted(_attributes(WriteOptions.parse({}))) == sorted([*shared, "lock.own"])
    for kind in filter(LockKind.options, every_kind()):
        assert sorted(_attributes(kind.values(), kind.name)) == sorted(o.attribute for o in kind.options())
    assert [field.name for field in fields(TableOptions)] == [o.attribute for o in TABLE_OPTIONS]


def _attributes(value: Any, path: str = "") -> list[str]:
    """The paths of all values: ``concern.field``."""
    if not is_dataclass(value):
        return [path]
    return [
        found
        for field in fields(value)
        for found in _attributes(getattr(value, field.name), f"{path}.{field.name}".lstrip("."))
    ]


def test_a_key_names_one_option() -> None:
    keys = Counter(key for option in OPTIONS for key in (option.key, *option.aliases))
    assert max(keys.values()) == 1


def test_the_default_of_an_option_is_one_of_its_values() -> None:
    given = [option for option in OPTIONS if option.default is not None]
    assert {option.key: read_value(option, option.default, option.key) for option in given} == {
        option.key: option.default for option in given
    }
    assert [option.key for option in given if type(option.default) is not option.kind] == []


def test_the_page_and_the_errors_show_bounds_with_all_their_digits() -> None:
    assert "e+" not in render_docs()
    with pytest.raises(InvalidOptionError, match=r"at most 99999999\."):
        WriteOptions.parse({"hoodie.bucket.index.num.buckets": 10**9})


def test_every_option_is_documented() -> None:
    docs = render_docs() + "".join(map(render_own_options, every_kind()))
    assert [option.key for option in OPTIONS if option.doc not in docs] == []
    assert [key for option in OPTIONS for key in (option.key, *option.aliases) if f"`{key}`" not in docs] == []


def test_without_options_the_defaults_of_hudi_and_of_the_design_hold() -> None:
    options = WriteOptions.parse({})
    assert (options.files.max_size, options.files.small_limit) == (125829120, 104857600)
    assert (options.files.compression, options.heartbeat.failed_writes_policy, options.lock.provider) == (
        "zstd",
        "LAZY",
        None,
    )
    assert (options.heartbeat.interval_ms, options.heartbeat.tolerable_misses) == (60000, 2)
    assert (options.files.bloom_entries, options.files.bloom_fpp, options.files.bloom_max_entries) == (
        60000,
        1e-9,
        100000,
    )
    assert (options.lock.wait_ms, options.clock.max_skew_ms, options.retry.limit) == (60000, 200, 5)


def test_values_may_be_text_or_python_values() -> None:
    text = WriteOptions.parse({"hoodie.combine.before.insert": "TRUE", "hoodie.parquet.block.size": "4096"})
    typed = WriteOptions.parse({"hoodie.combine.before.insert": True, "hoodie.parquet.block.size": 4096})
    assert text == typed
    assert text.rows.combine_before_insert and text.files.row_group_bytes == 4096


def test_a_smaller_target_size_brings_the_small_file_limit_down_with_it() -> None:
    options = WriteOptions.parse({"hoodie.parquet.max.file.size": 1_200_000})
    assert options.files.small_limit == 1_000_000


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("hoodie.parquet.max.file.sise", "hoodie.parquet.max.file.size"),
        ("hoodie.Index.type", "hoodie.index.type"),
        ("isolaton", "isolation"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_nearest_known_one(key: str, nearest: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"Did you mean {nearest}"):
        WriteOptions.parse({key: "1"})


def test_a_key_like_no_other_is_refused_too() -> None:
    with pytest.raises(UnknownOptionError, match="xyz"):
        WriteOptions.parse({"xyz": "1"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.parquet.max.file.size", "12MB"),
        ("hoodie.parquet.max.file.size", "-1"),
        ("hoodie.parquet.max.file.size", "1_000_000"),
        ("hoodie.parquet.compression.codec", "lzo"),
        ("hoodie.combine.before.upsert", "yes"),
        ("hoodie.index.bloom.fpp", "nan"),
        ("hoodie.index.bloom.fpp", "1"),
        ("hoodie.time.generator.max_expected_clock_skew_ms", "-1"),
        ("isolation", "dirty"),
        ("hoodie.write.lock.filesystem.path", "../x"),
        ("hoodie.write.lock.filesystem.path", "a\nb"),
        ("hoodie.write.lock.provider", "org.example.Mine"),
    ],
)
def test_a_bad_value_is_refused_and_the_possible_ones_are_told(key: str, value: str) -> None:
    with pytest.raises(InvalidOptionError) as error:
        WriteOptions.parse({key: value})
    assert key in str(error.value)
    assert error.value.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.index.type", "INMEMORY"),
    ],
)
def test_what_is_not_there_yet_is_refused_as_such(key: str, value: object) -> None:
    with pytest.raises(InvalidOptionError, match="not supported in this release"):
        WriteOptions.parse({key: value})


@pytest.mark.row("I13")
@pytest.mark.parametrize("kind", ["HBASE", "INMEMORY", "FLINK_STATE"])
def test_indexes_that_live_outside_the_table_are_refused_by_name(kind: str) -> None:
    with pytest.raises(InvalidOptionError, match=rf"(?i)hoodie\.index\.type.*{kind}") as caught:
        WriteOptions.parse({"hoodie.index.type": kind})
    assert "SIMPLE" in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("given_name", "meaning"),
    [
        ("in_process", "in_process"),
        ("org.apache.hudi.client.transaction.lock.InProcessLockProvider", "in_process"),
        ("org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider", "file_system"),
        ("org.apache.hudi.client.transaction.lock.StorageBasedLockProvider", "storage_based"),
    ],
)
def test_hudis_lock_classes_are_understood(given_name: str, meaning: str) -> None:
    assert WriteOptions.parse({"hoodie.write.lock.provider": given_name}).lock.provider == meaning
    assert WriteOptions.parse({"lock": given_name}).lock.provider == meaning


def test_two_keys_of_one_option_must_agree() -> None:
    same = {"lock": "in_process", "hoodie.write.lock.provider": "IN_PROCESS"}
    assert WriteOptions.parse(same).lock.provider == "in_process"
    with pytest.raises(InvalidOptionError, match="one option"):
        WriteOptions.parse({**same, "lock": "file_system"})


def test_a_small_file_limit_above_the_target_size_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match=r"small\.file\.limit"):
        WriteOptions.parse({"hoodie.parquet.small.file.limit": 200 << 20})


@pytest.mark.row("P14")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.name", "other"),
        ("hoodie.database.name", "db"),
        ("hoodie.table.type", "MERGE_ON_READ"),
        ("hoodie.datasource.write.table.type", "mor"),
        ("hoodie.datasource.write.recordkey.field", "ids"),
        ("hoodie.datasource.write.partitionpath.field", "a"),
        ("hoodie.datasource.write.precombine.field", "id"),
        ("hoodie.datasource.write.hive_style_partitioning", "false"),
        ("hoodie.datasource.write.partitionpath.urlencode", "false"),
        ("hoodie.write.record.merge.mode", "COMMIT_TIME_ORDERING"),
        ("hoodie.table.timeline.timezone", "LOCAL"),
        ("pyhudi.partition.random.prefix", "2"),
    ],
)
def test_an_option_that_contradicts_the_table_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match="contradicts the table"):
        WriteOptions.parse({key: value}, config=table())


def test_options_that_agree_with_the_table_are_fine() -> None:
    agreeing = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "cow",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "a:SIMPLE, b",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.write.record.merge.mode": "event_time_ordering",
        "hoodie.write.table.version": 8,
    }
    assert WriteOptions.parse(agreeing, config=table()) == WriteOptions.parse({})


def test_one_mapping_serves_the_new_table_and_its_writers() -> None:
    options = {"hoodie.database.name": "db", "pyhudi.partition.random.prefix": 2, "isolation": "snapshot"}
    made = TableOptions.parse(options)
    assert (made.database, made.prefix_width, made.hive_style, made.merge_mode) == ("db", 2, True, None)
    assert made.extra_properties()["pyhudi.partition.random.prefix"] == "2"
    assert WriteOptions.parse(options).conflict.isolation == "snapshot"


@settings(max_examples=examples(300), deadline=None)
@given(st.dictionaries(st.one_of(st.sampled_from(IDS), st.text(max_size=20)), st.text(max_size=20), max_size=4))
def test_any_mapping_gives_options_or_a_typed_error(options: dict[str, str]) -> None:
    try:
        WriteOptions.parse(options, config=table())
        TableOptions.parse(options)
    except HudiError as error:
        assert error.hint


@pytest.mark.parametrize("kind", every_storage(), ids=[kind.scheme for kind in every_storage()])
def test_a_storage_declares_its_options_where_they_are_read_and_they_are_on_the_page(kind: StorageKind) -> None:
    assert [option.key for option in kind.options()] == [each.name for each in fields(kind.values)]
    for option in kind.options():
        assert f"| `{option.key}` |" in render_docs()
        if option.kind is str:
            assert not isinstance(kind.values.parse({}, "").__getattribute__(option.key), Secret) or option.secret
        with pytest.raises(UnknownOptionError, match="It is an option of the storage"):
            WriteOptions.parse({option.key: "x"})


def test_the_page_of_options_has_each_default_and_meaning_as_the_code_has_them() -> None:
    assert render_docs() in (ROOT / "docs" / "options.md").read_text()


def test_a_lock_that_fits_the_place_of_a_table_is_taken_and_another_refused_before_there_is_a_table() -> None:
    stored = {"hoodie.write.lock.provider": "storage_based"}
    refuse_unfit_options(stored)
    refuse_unfit_options(stored, location="s3://bucket/orders")
    refuse_unfit_options({}, location="/lake/orders")
    with pytest.raises(InvalidOptionError, match="/lake/orders is a folder on a disk"):
        refuse_unfit_options(stored, location="/lake/orders")


@pytest.mark.parametrize(("kind", "shown"), [(None, "SIZE_BASED"), ("SINGLE_FILE_SORT", "SINGLE_FILE_SORT")])
def test_an_execution_of_other_clustering_plans_is_refused_with_the_plan_that_was_meant(
    kind: str | None, shown: str
) -> None:
    key = "hoodie.clustering.plan.strategy.class"
    given = {
        "hoodie.clustering.execution.strategy.class": "org.apache.hudi.client.clustering.run.strategy.SparkStreamCopyClusteringExecutionStrategy"
    }
    with pytest.raises(InvalidOptionError, match=f"does not execute plans of {shown}[.]"):
        WriteOptions.parse(given | ({} if kind is None else {key: kind}))
