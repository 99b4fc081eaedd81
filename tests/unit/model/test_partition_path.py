"""Partition values to folders and back; nothing leaves the table."""

from __future__ import annotations

import datetime as dt
import json
import posixpath
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import InvalidPartitionValueError, UnsupportedTableError
from pyhudi_core.model.new_table import new_table_config
from pyhudi_core.model.partition_path import (
    parse_partition,
    parse_partition_path,
    partition_path,
    partition_paths,
    random_prefix,
)
from pyhudi_core.model.properties import TableConfig, TableType

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "keys.json").read_text())
VALUES = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.sampled_from(["..", ".", "/", "\\", "%2e", "a", ".hoodie", "=", ":", " "]), max_size=5).map("".join),
)
DEFAULT = "__HIVE_DEFAULT_PARTITION__"


def table(partition_by: list[str], **options: object) -> TableConfig:
    return new_table_config("t", ["id"], partition_by, [], TableType.COPY_ON_WRITE, None, **options)  # type: ignore[arg-type]


@pytest.mark.row("A2")
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_paths_equal_those_of_hudi(name: str) -> None:
    golden = GOLDEN[name]
    fields = [*golden["key"], *golden["partition"]]
    columns = list(zip(*golden["rows"], strict=True))
    batch = pa.record_batch({field: pa.array(column) for field, column in zip(fields, columns, strict=False)})
    config = table(golden["partition"], hive_style=golden["hive"], url_encode=False)
    assert partition_paths(batch, config).to_pylist() == list(columns[-1])


@pytest.mark.row("A2")
@pytest.mark.parametrize(
    ("value", "hive", "encode", "path"),
    [
        ("2026-01-01", True, True, "day=2026-01-01"),
        ("2026-01-01", False, False, "2026-01-01"),
        (None, True, True, f"day={DEFAULT}"),
        ("", False, True, DEFAULT),
        ("s f/x=y", True, True, "day=s f%2Fx%3Dy"),
        ("\"#%'*/:=?\\{[]^\x01\x7f", False, True, "%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E%01%7F"),
        ("a}b é😀", False, True, "a}b é😀"),
        ("../../etc", True, True, "day=..%2F..%2Fetc"),
    ],
)
def test_a_value_is_written_as_hudi_writes_it(value: str | None, hive: bool, encode: bool, path: str) -> None:
    assert partition_path(["day"], [value], hive, encode) == path
    assert parse_partition_path(path, ["day"], hive, encode) == (value or None,)


@pytest.mark.row("A7")
@pytest.mark.parametrize("hive", [True, False])
@pytest.mark.parametrize("encode", [True, False])
@pytest.mark.parametrize("value", ["..", ".", ".hoodie", "a\0b", "x" * 300, "é" * 128])
def test_a_value_that_makes_no_safe_folder_is_refused_before_anything_is_written(
    value: str, hive: bool, encode: bool
) -> None:
    with pytest.raises(InvalidPartitionValueError) as error:
        partition_paths(
            pa.record_batch({"id": [1], "day": [value]}), table(["day"], hive_style=hive, url_encode=encode)
        )
    assert "'day'" in str(error.value)
    assert error.value.hint


@pytest.mark.row("A7")
@pytest.mark.parametrize("value", ["a/b", "/abs", "../x", "a\nb", "a\\..\\b", "C:\\x", ".hoodie_partition_metadata"])
def test_without_encoding_a_value_must_be_one_plain_folder_name(value: str) -> None:
    with pytest.raises(InvalidPartitionValueError):
        partition_path(["day"], [value], False, False)


@pytest.mark.row("A1")
@pytest.mark.row("A7")
@settings(max_examples=examples(500), deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=3), st.booleans(), st.booleans())
def test_whatever_the_values_are_the_folder_stays_below_the_table(
    values: list[str | None], hive: bool, encode: bool
) -> None:
    fields = [f"f{index}" for index in range(len(values))]
    try:
        path = partition_path(fields, values, hive, encode)
    except InvalidPartitionValueError:
        return
    resolved = posixpath.normpath(posixpath.join("/base", path))
    assert resolved == f"/base/{path}"
    assert not path.startswith(".hoodie")
    assert len(path.split("/")) == len(values)
    readable = tuple(None if value in ("", DEFAULT) else value for value in values)
    assert parse_partition_path(path, fields, hive, encode) == readable


@pytest.mark.row("A2")
@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([True, None, False]), ["true", DEFAULT, "false"]),
        (pa.array([1, None, -5], pa.int8()), ["1", DEFAULT, "-5"]),
        (pa.array([Decimal("1.50"), None, Decimal("0E-2")]), ["1.50", DEFAULT, "0.00"]),
        (pa.array([dt.date(2024, 1, 2), None, dt.date(1, 1, 1)]), ["2024-01-02", DEFAULT, "0001-01-01"]),
        (pa.array(["a", None, ""]), ["a", DEFAULT, DEFAULT]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", DEFAULT, "a"]),
        (pa.array(["a", None, "b"], pa.large_string()), ["a", DEFAULT, "b"]),
        (pa.nulls(3), [DEFAULT] * 3),
    ],
)
def test_values_of_every_plain_type_become_java_text(column: pa.Array, texts: list[str]) -> None:
    paths = partition_paths(pa.record_batch({"v": column}), table(["v"]))
    assert paths.type == pa.string()
    assert paths.to_pylist() == [f"v={text}" for text in texts]


@pytest.mark.parametrize(
    "column",
    [pa.array([1.5]), pa.array([b"x"]), pa.array([[1]]), pa.array([0], pa.timestamp("us")), pa.array([{"a": 1}])],
)
def test_a_type_whose_text_differs_between_releases_is_refused(column: pa.Array) -> None:
    with pytest.raises(InvalidPartitionValueError, match="'v'"):
        partition_paths(pa.record_batch({"v": column}), table(["v"]))


def test_a_missing_partition_column_is_named() -> None:
    with pytest.raises(InvalidPartitionValueError, match="'day'"):
        partition_paths(pa.record_batch({"id": [1]}), table(["day"]))


@pytest.mark.row("A4")
def test_rows_of_a_table_without_partitions_lie_in_the_table_folder_itself() -> None:
    assert partition_paths(pa.record_batch({"id": [1, 2]}), table([])).to_pylist() == ["", ""]
    assert parse_partition_path("", [], True, True) == ()


def test_nested_partition_fields_are_found_in_structs() -> None:
    batch = pa.record_batch({"s": pa.array([{"day": "x"}, None])})
    assert partition_paths(batch, table(["s.day"])).to_pylist() == ["s.day=x", f"s.day={DEFAULT}"]


@pytest.mark.row("A2")
def test_a_slice_of_a_batch_gives_the_paths_of_its_rows() -> None:
    batch = pa.record_batch({"a": ["x", None, "y", "x"], "b": [1, 2, None, 4]}).slice(1, 2)
    assert partition_paths(batch, table(["a", "b"])).to_pylist() == [f"a={DEFAULT}/b=2", f"a=y/b={DEFAULT}"]


@pytest.mark.row("A3")
def test_prefix_folders_are_the_same_for_every_writer_and_of_varying_depth() -> None:
    extra = {"pyhudi.partition.random.prefix": "2", "pyhudi.partition.random.prefix.depth": "3"}
    config = table(["day"], extra=extra)
    days = [f"2026-01-{day:02}" for day in range(1, 29)]
    paths = partition_paths(pa.record_batch({"day": days}), config).to_pylist()
    assert paths == [f"{random_prefix(f'day={day}', 2, 3)}/day={day}" for day in days]
    assert {path.count("/") for path in paths} == {1, 2, 3}
    assert all(len(part) == 2 for path in paths for part in path.split("/")[:-1])
    assert [parse_partition(path, config) for path in paths] == [(day,) for day in days]


def test_a_folder_that_does_not_show_its_values_is_unknown() -> None:
    assert parse_partition_path("2026/01/02", ["a", "b"], False, False) is None
    assert parse_partition_path("b=1", ["a"], True, True) is None


def test_folders_of_formatted_times_need_a_format() -> None:
    raw = {**table(["ts"]).raw, "hoodie.table.keygenerator.type": "TIMESTAMP"}
    config = TableConfig.from_properties(raw, table="t")
    assert parse_partition("ts=2026", config) is None
    with pytest.raises(UnsupportedTableError, match="output.dateformat=nothing"):
        partition_paths(pa.record_batch({"ts": [1]}), config)
