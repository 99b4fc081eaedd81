"""Bad data: a typed error that says what, where and what to do, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime

import pyarrow as pa
import pytest
from support.disk import contents
from support.tables import make, orders, rows

from pyhudi_core.errors import (
    ConfigError,
    DataError,
    DuplicateKeyError,
    InvalidOptionError,
    InvalidPartitionValueError,
    InvalidRecordKeyError,
    SchemaMismatchError,
)
from pyhudi_core.table import HudiTable

GOOD = orders((1, "a", 1.0, 1), (2, "b", 2.0, 2))
OPERATIONS = ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"]


def _with(column: str, values: pa.Array) -> pa.Table:
    return GOOD.set_column(GOOD.schema.get_field_index(column), column, values)


NUL, SLASH = "a\0b", "a/b"

CASES: dict[str, tuple[pa.Table, type[DataError], list[str]]] = {
    "no key column": (GOOD.drop_columns(["id"]), DataError, ["id"]),
    "null key": (_with("id", pa.array([1, None])), InvalidRecordKeyError, ["At least 1 of the rows", "'id'", "Fill in or drop"]),
    "float key": (_with("id", pa.array([1.5, 2.5])), DataError, ["id"]),
    "no partition column": (GOOD.drop_columns(["day"]), DataError, ["day"]),
    "NUL in partition": (_with("day", pa.array(["a", NUL])), InvalidPartitionValueError, ["'day'", "not a safe folder name"]),
    "long partition": (_with("day", pa.array(["a", "x" * 300])), InvalidPartitionValueError, ["'day'", "255", "shorter column"]),
    "long partition in bytes": (_with("day", pa.array(["a", "漢" * 90])), InvalidPartitionValueError, ["'day'", "255"]),
    "text for a number": (_with("price", pa.array(["1", "2"])), SchemaMismatchError, ["Column price", "double", "string", "cast"]),
    "list for a number": (_with("ts", pa.array([[1], [2]])), SchemaMismatchError, ["Column ts"]),
    "number too large": (_with("ts", pa.array([2**63, 2**64 - 1], pa.uint64())), SchemaMismatchError, ["ts"]),
    "a column less": (GOOD.drop_columns(["price"]), SchemaMismatchError, ["'price'", "Add the columns"]),
    "a column in another case": (GOOD.append_column("PRICE", pa.array([1.0, 2.0])), SchemaMismatchError, ["PRICE", "case alone"]),
    "a column twice": (GOOD.append_column("price", pa.array([1.0, 2.0])), SchemaMismatchError, ["price", "twice"]),
    "a bad column name": (GOOD.append_column("my col", pa.array([1.0, 2.0])), SchemaMismatchError, ["'my col'", "Rename"]),
    "a new column of nulls": (GOOD.append_column("n", pa.nulls(2)), SchemaMismatchError, ["Column n", "only nulls"]),
    "a type nobody has": (GOOD.append_column("d", pa.array([1, 2], pa.duration("s"))), SchemaMismatchError, ["Column d", "duration"]),
    "a map with number keys": (
        GOOD.append_column("m", pa.array([[(1, 2)], []], pa.map_(pa.int64(), pa.int64()))), SchemaMismatchError, ["Column m", "map"],
    ),
    "a struct without fields": (GOOD.append_column("s", pa.array([{}, {}], pa.struct([]))), SchemaMismatchError, ["Column s"]),
    "nanoseconds that do not fit": (
        GOOD.append_column("t", pa.array([1, 2], pa.timestamp("ns"))), SchemaMismatchError, ["t"],
    ),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("case", CASES)
def test_bad_data_is_an_error_and_the_disk_stays_as_it_was(location: str, case: str, operation: str) -> None:
    batch, kind, words = CASES[case]
    table = make(location)
    if operation != "insert_overwrite":
        table.upsert(orders((7, "q", 7.0)))
    before = contents(location)
    with pytest.raises(kind) as caught:
        getattr(table, operation)(batch)
    _says_all(caught.value, table, words)
    assert contents(location) == before


def _says_all(error: DataError, table: HudiTable, words: list[str]) -> None:
    text = str(error)
    missing = [word for word in words if word not in text]
    assert not missing, text
    assert error.table == table.location
    assert error.hint, text


@pytest.mark.row("A1", "A7")
@pytest.mark.parametrize(
    ("value", "hive", "encode"),
    [
        ("..", "false", "true"), ("..", "false", "false"), (".", "false", "true"), (".hoodie", "false", "true"),
        (".hoodie", "true", "true"), ("..", "true", "true"), (".hoodie_partition_metadata", "false", "true"), ("a/b", "true", "false"),
        ("a/b", "false", "false"), ("/etc", "false", "false"), ("../..", "false", "false"), ("a\nb", "true", "false"),
        ("a\0", "true", "true"), ("a\0", "false", "false"), ("a\x1fb", "false", "false"),
    ],
)  # fmt: skip
def test_a_partition_value_that_would_leave_the_table_is_refused(
    location: str, value: str, hive: str, encode: str
) -> None:
    options = {
        "hoodie.datasource.write.hive_style_partitioning": hive,
        "hoodie.datasource.write.partitionpath.urlencode": encode,
    }
    table = make(location, options=options)
    table.upsert(orders((7, "q", 7.0)))
    before = contents(location)
    with pytest.raises(InvalidPartitionValueError) as caught:
        table.upsert(orders((1, "fine", 1.0), (2, value, 1.0)))
    assert "'day'" in str(caught.value)
    assert caught.value.table == location
    assert "Nothing was written" in str(caught.value)
    assert contents(location) == before
    # Deleting is held to the same.
    with pytest.raises(InvalidPartitionValueError):
        table.delete(pa.table({"id": [2], "day": [value]}))
    assert contents(location) == before


@pytest.mark.parametrize("path", ["..", "../x", "/etc", ".hoodie", ".hoodie/timeline", "a/../..", "a\0", "", "."])
def test_paths_of_partitions_to_delete_stay_inside(location: str, path: str) -> None:
    from pyhudi_core.errors import HudiError

    table = make(location)
    table.upsert(orders((7, "q", 7.0)))
    before = contents(location)
    with pytest.raises(HudiError) as caught:
        table.delete_partitions([path])
    assert contents(location) == before
    assert caught.value.hint


def test_a_schema_that_cannot_be_reconciled_deep_inside_names_the_path(location: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.list_(pa.int64()))]))])
    table = make(location, schema)
    table.upsert(pa.table([[1], [{"x": [1]}]], schema=schema))
    before = contents(location)
    other = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.list_(pa.string()))]))])
    with pytest.raises(SchemaMismatchError, match=r"Column s\.x\.element"):
        table.upsert(pa.table([[1], [{"x": ["t"]}]], schema=other))
    assert contents(location) == before


@pytest.mark.parametrize("data", [[{"id": 1}], {"id": [1]}, "path.parquet", 7, None, iter([])])
def test_data_of_another_kind_is_refused_by_name(location: str, data: object) -> None:
    table = make(location)
    before = contents(location)
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        table.upsert(data)
    assert caught.value.hint is not None
    assert "pyarrow" in caught.value.hint
    assert contents(location) == before


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda t: t.delete(pa.table({"day": ["a"]})), DataError),
        (lambda t: t.delete(pa.table({"id": [1]})), DataError),
        (lambda t: t.delete(pa.table({"id": pa.array([None], pa.int64()), "day": ["a"]})), InvalidRecordKeyError),
        (lambda t: t.delete(where="nothing = 1"), DataError),
        (lambda t: t.insert(orders((7, "q", 1.0))), DuplicateKeyError),
    ],
)
def test_bad_deletes_and_inserts_change_no_row(
    location: str, call: Callable[[HudiTable], object], kind: type[DataError]
) -> None:
    table = make(location)
    table.upsert(orders((7, "q", 7.0)))
    before = rows(table)
    with pytest.raises(kind) as caught:
        call(table)
    assert caught.value.hint
    assert rows(table) == before


def test_an_empty_string_is_no_key(location: str) -> None:
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    table = make(location, schema)
    before = contents(location)
    with pytest.raises(InvalidRecordKeyError, match="At least 1 of the rows have no value in the key column 'id'"):
        table.upsert(pa.table([["x", ""], [1, 2]], schema=schema))
    assert contents(location) == before


def test_a_complex_key_may_miss_a_part_and_not_all(location: str) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    table = make(location, schema, record_key=["a", "b"])
    before = contents(location)
    with pytest.raises(InvalidRecordKeyError, match="no value in any of the key columns a, b"):
        table.upsert(pa.table([["x", None], ["y", ""]], schema=schema))
    assert contents(location) == before


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.float64(), 1.5), (pa.list_(pa.string()), ["x"]), (pa.timestamp("us"), datetime(2026, 1, 1))]
)
def test_partitions_by_types_without_an_agreed_text_are_refused(
    location: str, kind: pa.DataType, value: object
) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", kind), ("d", pa.date32())])
    with pytest.raises(ConfigError, match="'p'"):
        make(location, schema, partition_by="p")
    table = make(location, schema.set(1, pa.field("p", pa.string())), partition_by="p")
    with pytest.raises(DataError, match="p"):
        table.upsert(pa.table([[1], pa.array([value], kind), [date(2026, 1, 1)]], schema=schema))


INCOMPLETE = "\ud800"


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("The merge", lambda table: table.merge(GOOD, on="id", source_alias=INCOMPLETE).when_matched_update_all().run()),
        ("The merge", lambda table: table.merge(GOOD, on="id", target_alias=INCOMPLETE).when_matched_delete().run()),
        ("A clause", lambda table: table.merge(GOOD, on="id").when_matched_update({INCOMPLETE: "source.price"}).run()),
        ("A clause", lambda table: table.merge(GOOD, on="id").when_not_matched_insert({INCOMPLETE: "source.id"}).run()),
        ("alter", lambda table: table.alter(add={INCOMPLETE: pa.string()})),
        ("alter", lambda table: table.alter(rename={"price": INCOMPLETE})),
        ("pandas", lambda table: table.upsert(GOOD.to_pandas().rename(columns={"price": INCOMPLETE}))),
        ("pandas", lambda table: table.upsert(GOOD.to_pandas().replace({"day": {"a": INCOMPLETE}}))),
        ("pandas", lambda table: table.upsert(GOOD.to_pandas().replace({"day": {"a": INCOMPLETE}}).set_index("day"))),
    ],
)  # fmt: skip
def test_a_name_or_a_text_that_utf8_cannot_hold_is_refused(
    location: str, said: str, call: Callable[[HudiTable], object]
) -> None:
    table = make(location)
    table.upsert(GOOD)
    before = contents(location)
    with pytest.raises((InvalidOptionError, SchemaMismatchError), match=f"{said}.*lone surrogate"):
        call(table)
    assert contents(location) == before
