"""The payload classes of Hudi, a pair at a time; Hudi's own answers are in the golden tables and in the interop suite."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyhudi_core.errors import DataError
from pyhudi_core.merge.payloads import PAYLOADS

SCHEMA = pa.schema(
    [
        ("_hoodie_commit_time", pa.string()),
        ("id", pa.string()),
        ("ts", pa.int32()),
        ("a", pa.string()),
        ("l", pa.list_(pa.int64())),
    ]
)


def merge(name: str, older: dict[str, Any], newer: dict[str, Any], schema: pa.Schema = SCHEMA) -> dict[str, Any] | None:
    """The row, or None for a delete."""
    merger = PAYLOADS[f"org.apache.hudi.common.model.{name}"](("ts",))
    commits = ({"_hoodie_commit_time": "1", "id": "k"} | older, {"_hoodie_commit_time": "2", "id": "k"} | newer)
    tables = [pa.Table.from_pylist([row], schema=schema) for row in commits]
    made = merger.merge(*tables)
    assert made.rows.schema == schema
    return None if made.gone[0] else made.rows.to_pylist()[0]


def row(commit: str, ts: int | None, a: str | None, l: list[int] | None) -> dict[str, Any]:  # noqa: E741
    return {"_hoodie_commit_time": commit, "id": "k", "ts": ts, "a": a, "l": l}


@pytest.mark.row("J4")
@pytest.mark.parametrize(
    ("name", "older", "newer", "expected"),
    [
        ("OverwriteWithLatestAvroPayload", (9, "x", [1]), (1, None, None), row("2", 1, None, None)),
        ("HoodieAvroPayload", (9, "x", [1]), (1, None, None), row("2", 1, None, None)),
        ("DefaultHoodieRecordPayload", (9, "x", [1]), (1, "y", None), row("1", 9, "x", [1])),
        ("EventTimeAvroPayload", (9, "x", [1]), (9, "y", None), row("2", 9, "y", None)),
        ("EventTimeAvroPayload", (None, "x", [1]), (1, "y", None), row("2", 1, "y", None)),
        ("FirstValueAvroPayload", (9, "x", [1]), (9, "y", None), row("1", 9, "x", [1])),
        ("FirstValueAvroPayload", (9, "x", [1]), (10, "y", None), row("2", 10, "y", None)),
        ("FirstValueAvroPayload", (None, "x", [1]), (None, "y", None), row("2", None, "y", None)),
        ("OverwriteNonDefaultsWithLatestAvroPayload", (9, "x", [1]), (1, None, [2]), row("2", 1, "x", [2])),
        ("PartialUpdateAvroPayload", (9, "x", None), (10, None, [2]), row("2", 10, "x", [2])),
        ("PartialUpdateAvroPayload", (9, "x", None), (9, "y", None), row("2", 9, "y", None)),
        ("PartialUpdateAvroPayload", (9, None, [1]), (1, "y", [2]), row("2", 9, "y", [1])),
        ("PartialUpdateAvroPayload", (9, "x", [1]), (None, "y", None), row("2", 9, "x", [1])),
        ("PartialUpdateAvroPayload", (None, "x", [1]), (1, "y", None), row("2", 1, "y", [1])),
    ],
)
def test_the_row_of_a_pair(name: str, older: tuple[Any, ...], newer: tuple[Any, ...], expected: dict[str, Any]) -> None:
    names = ("ts", "a", "l")
    assert merge(name, dict(zip(names, older, strict=True)), dict(zip(names, newer, strict=True))) == expected


@pytest.mark.parametrize(
    ("kind", "high", "low", "compares"),
    [
        (pa.int64(), 9, 1, True),
        (pa.float64(), 9.5, 1.5, True),
        (
            pa.timestamp("us", "UTC"),
            dt.datetime(2025, 1, 1, tzinfo=dt.UTC),
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            True,
        ),
        (pa.string(), "9", "1", False),
        (pa.date32(), dt.date(2025, 1, 1), dt.date(2024, 1, 1), False),
        (pa.decimal128(10, 1), Decimal("9.5"), Decimal("1.5"), False),
    ],
)
def test_partial_updates_compare_ordering_values_of_one_java_class_only(
    kind: pa.DataType, high: Any, low: Any, compares: bool
) -> None:
    # Spark's value of a string, a day or a decimal is of another class than Avro's, and then the newer version counts as the later one.
    schema = SCHEMA.set(2, pa.field("ts", kind))
    found = merge("PartialUpdateAvroPayload", {"ts": high, "a": "x"}, {"ts": low, "a": "y"}, schema)
    assert found is not None
    assert (found["ts"], found["a"]) == ((high, "x") if compares else (low, "y"))


@pytest.mark.parametrize(("operation", "gone"), [("D", True), ("d", True), ("U", False), (None, False)])
def test_dms_deletes_by_its_operation(operation: str | None, gone: bool) -> None:
    schema = pa.schema([*SCHEMA, pa.field("Op", pa.string())])
    found = merge("AWSDmsAvroPayload", {"ts": 9, "Op": "I"}, {"ts": 1, "a": "y", "Op": operation}, schema)
    assert (found is None) is gone
    assert merge("AWSDmsAvroPayload", {"ts": 9}, {"ts": 1, "a": "y"}) == row("2", 1, "y", None), (
        "a table without the column"
    )


SOURCE = pa.schema(
    [*SCHEMA, pa.field("_change_operation_type", pa.string()), pa.field("_event_seq", pa.string()), pa.field("_event_lsn", pa.int64()),
     pa.field("raw", pa.binary())]
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "winner"),
    [
        ("1.10", "1.9", "old"),
        ("1.9", "1.10", "new"),
        ("9.1", "10.0", "new"),
        ("1.5", "1.5", "old"),
        (None, "0.1", "new"),
        ("1.5", "1.6.7", "new"),
    ],
)
def test_mysql_goes_by_file_and_position_of_its_log(old: str | None, new: str, winner: str) -> None:
    found = merge(
        "debezium.MySqlDebeziumAvroPayload", {"a": "old", "_event_seq": old}, {"a": "new", "_event_seq": new}, SOURCE
    )
    assert found is not None
    assert found["a"] == winner


@pytest.mark.parametrize("wrong", [None, "1", "a.b", "1." + "9" * 30])
def test_a_sequence_that_is_none_is_a_typed_error(wrong: str | None) -> None:
    with pytest.raises(DataError, match="_event_seq"):
        merge("debezium.MySqlDebeziumAvroPayload", {"_event_seq": "1.1"}, {"_event_seq": wrong}, SOURCE)


@pytest.mark.parametrize(
    ("name", "column", "late", "high"), [("MySql", "_event_seq", "1.1", "1.3"), ("Postgres", "_event_lsn", 1, 3)]
)
def test_a_change_that_deletes_does_so_if_it_is_not_late(name: str, column: str, late: Any, high: Any) -> None:
    middle = "1.2" if name == "MySql" else 2
    for value, gone in ((late, False), (high, True)):
        older = {"a": "old", column: middle, "_change_operation_type": "u"}
        found = merge(
            f"debezium.{name}DebeziumAvroPayload", older, {column: value, "_change_operation_type": "D"}, SOURCE
        )
        assert (found is None) is gone


@pytest.mark.parametrize(("name", "column", "value"), [("MySql", "_event_seq", "1.2"), ("Postgres", "_event_lsn", 2)])
def test_nothing_follows_a_row_that_says_it_is_deleted(name: str, column: str, value: Any) -> None:
    """Release 1.0.2 finds no row to merge with: between entries of the logs that row stays, a base row is dropped."""
    older = {"a": "old", column: value, "_change_operation_type": "d"}
    newer = {"a": "new", column: value.replace("1", "5") if name == "MySql" else 9, "_change_operation_type": "u"}
    assert merge(f"debezium.{name}DebeziumAvroPayload", older, newer, SOURCE) is None


def test_postgres_keeps_what_its_source_left_out() -> None:
    toasted = "__debezium_unavailable_value"
    older = {"a": "old", "raw": b"old", "_event_lsn": 2, "l": [1]}
    newer = {"a": toasted, "raw": toasted.encode(), "_event_lsn": 2}
    found = merge("debezium.PostgresDebeziumAvroPayload", older, newer, SOURCE)
    assert found is not None
    assert (found["a"], found["raw"], found["l"], found["_hoodie_commit_time"]) == ("old", b"old", None, "2")
    nulled = merge("debezium.PostgresDebeziumAvroPayload", older, newer | {"a": None}, SOURCE)
    assert nulled is not None
    assert (nulled["a"], nulled["raw"]) == (None, b"old"), "a null is a value of its own"
    late = merge("debezium.PostgresDebeziumAvroPayload", older, newer | {"_event_lsn": 1}, SOURCE)
    assert late is not None
    assert late["l"] == [1]
    with pytest.raises(DataError, match="_event_lsn"):
        merge("debezium.PostgresDebeziumAvroPayload", older, {"a": "new"}, SOURCE)
