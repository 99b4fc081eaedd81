"""Writes to tables whose rows are merged by a payload class of Hudi or by a merger of the user (merge mode CUSTOM)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.tables import FAST, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError, UnsupportedTableError
from pyhudi_core.merge import register_merger, unregister_merger
from pyhudi_core.merge.payloads import PAYLOADS

MODEL = "org.apache.hudi.common.model"
SUM = "3f1c2b8e-6a51-4a1c-9a60-6f2f6c1f9f11"
SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("name", pa.string()), ("price", pa.float64()), ("Op", pa.string())]
)


class Sums:
    """Adds prices; everything else is that of the newer version."""

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        total = pc.add(older.column("price"), newer.column("price"))
        return newer.set_column(newer.schema.get_field_index("price"), "price", total)


@pytest.fixture
def sums() -> Any:
    register_merger(
        SUM, Sums(), schema=SCHEMA, record_key=["id"], ordering=["ts"], waive=("idempotent", "commutative"), triples=20
    )
    yield SUM
    unregister_merger(SUM)


def rows(*given: tuple[int, int, str | None, float | None, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def made(
    location: str, table_type: str = "copy_on_write", ordering: str | None = "ts", **options: object
) -> hudi.HudiTable:
    given = {key.replace("__", "."): value for key, value in options.items()}
    return hudi.create_table(
        location, SCHEMA, record_key="id", ordering=ordering, table_type=table_type, storage_options=FAST, options=given
    )


def by_class(location: str, name: str, table_type: str = "copy_on_write", **options: object) -> hudi.HudiTable:
    return made(location, table_type, hoodie__compaction__payload__class=f"{MODEL}.{name}", **options)


def left(table: hudi.HudiTable) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.scan(meta=False).to_arrow().to_pylist())


STORED = rows((1, 5, "a", 1.0, "I"), (2, 5, "b", 2.0, "I"), (3, 5, "c", 3.0, "I"))
NEWER = rows((1, 6, None, 10.0, "U"), (2, 4, "late", None, "U"), (3, 5, "d", None, "D"), (4, 1, "new", 4.0, "I"))
FOUR = (4, 1, "new", 4.0, "I")
EXPECTED = {
    "OverwriteNonDefaultsWithLatestAvroPayload": [
        (1, 6, "a", 10.0, "U"),
        (2, 4, "late", 2.0, "U"),
        (3, 5, "d", 3.0, "D"),
        FOUR,
    ],
    "PartialUpdateAvroPayload": [(1, 6, "a", 10.0, "U"), (2, 5, "b", 2.0, "I"), (3, 5, "d", 3.0, "D"), FOUR],
    "FirstValueAvroPayload": [(1, 6, None, 10.0, "U"), (2, 5, "b", 2.0, "I"), (3, 5, "c", 3.0, "I"), FOUR],
}


@pytest.mark.row("J3", "J4", "M4")
@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("name", EXPECTED)
def test_an_upsert_merges_by_the_payload_class_of_the_table(location: str, name: str, table_type: str) -> None:
    table = by_class(location, name, table_type)
    table.upsert(STORED)
    table.upsert(NEWER.slice(0, 3))
    table.upsert(NEWER.slice(3))
    assert left(table) == EXPECTED[name]


@pytest.mark.row("J4")
def test_compaction_merges_by_the_payload_class_of_the_table(location: str) -> None:
    name = "PartialUpdateAvroPayload"
    table = by_class(location, name, "merge_on_read", hoodie__compact__inline__max__delta__commits=1)
    table.upsert(STORED)
    table.upsert(NEWER.slice(0, 3))
    assert left(table) == EXPECTED[name][:3]
    assert table.compaction.run()
    assert left(table) == EXPECTED[name][:3]
    assert left(table) == sorted(
        tuple(row.values()) for row in table.scan(meta=False, mode="read_optimized").to_arrow().to_pylist()
    )


@pytest.mark.row("J4")
def test_a_payload_that_marks_deletes_removes_rows_and_inserts_none(location: str) -> None:
    table = by_class(location, "AWSDmsAvroPayload")
    table.upsert(STORED)
    table.upsert(rows((3, 6, "gone", None, "D"), (9, 1, "never there", None, "D"), (1, 6, "x", 7.0, "U")))
    assert left(table) == [(1, 6, "x", 7.0, "U"), (2, 5, "b", 2.0, "I")]


@pytest.mark.row("J3", "M4")
@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
def test_an_upsert_asks_the_merger_of_the_user_also_within_a_batch(location: str, table_type: str, sums: str) -> None:
    table = made(location, table_type, hoodie__record__merge__mode="CUSTOM", hoodie__record__merge__strategy__id=sums)
    table.upsert(STORED)
    table.upsert(rows((1, 6, "x", 10.0, "U"), (1, 7, "y", 100.0, "U"), (8, 1, "z", 1.0, "I"), (8, 2, "z", 1.0, "I")))
    assert left(table) == [(1, 7, "y", 111.0, "U"), (2, 5, "b", 2.0, "I"), (3, 5, "c", 3.0, "I"), (8, 2, "z", 2.0, "I")]


def test_a_row_that_the_merger_keeps_as_it_is_stays_in_its_commit(location: str) -> None:
    table = by_class(location, "FirstValueAvroPayload")
    first = table.upsert(STORED)
    table.upsert(NEWER)
    times = {row["id"]: row["_hoodie_commit_time"] for row in table.scan().to_arrow().to_pylist()}
    assert [times[2], times[3]] == [first.instant, first.instant]
    assert times[1] != first.instant


def test_deletes_are_no_matter_of_the_merger(location: str, sums: str) -> None:
    table = made(location, hoodie__record__merge__mode="CUSTOM", hoodie__record__merge__strategy__id=sums)
    table.upsert(STORED)
    table.delete(STORED.slice(0, 1).select(["id"]))
    table.delete(where="price > 2.5")
    assert left(table) == [(2, 5, "b", 2.0, "I")]


def test_without_its_merger_a_table_is_not_written(location: str, sums: str) -> None:
    table = made(location, hoodie__record__merge__mode="CUSTOM", hoodie__record__merge__strategy__id=sums)
    table.upsert(STORED)
    unregister_merger(sums)
    before = sorted(path.name for path in Path(location).rglob("*"))
    with pytest.raises(UnsupportedTableError, match="Register a merger"):
        reopen(table).upsert(NEWER)
    assert sorted(path.name for path in Path(location).rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"hoodie.record.merge.mode": "CUSTOM"}, UnsupportedTableError, "not known here"),
        ({"hoodie.compaction.payload.class": "com.example.Own"}, UnsupportedTableError, "com.example.Own"),
        (
            {
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.compaction.payload.class": f"{MODEL}.PartialUpdateAvroPayload",
            },
            InvalidOptionError,
            "one way of merging",
        ),
    ],
)
def test_a_table_whose_merger_is_not_known_is_not_made(
    location: str, options: dict[str, object], error: type[Exception], word: str
) -> None:
    with pytest.raises(error, match=word):
        hudi.create_table(location, SCHEMA, record_key="id", ordering="ts", storage_options=FAST, options=options)
    assert not Path(location, ".hoodie").exists()


def test_a_payload_class_of_a_mode_means_that_mode(location: str) -> None:
    assert by_class(location, "DefaultHoodieRecordPayload").config.merge_mode.value == "EVENT_TIME_ORDERING"


def test_logs_whose_merger_deletes_rows_are_not_written(location: str) -> None:
    table = by_class(location, "AWSDmsAvroPayload")
    file = Path(location, ".hoodie", "hoodie.properties")
    file.write_text(file.read_text().replace("COPY_ON_WRITE", "MERGE_ON_READ"))
    with pytest.raises(UnsupportedTableError, match="merger deletes rows"):
        reopen(table).upsert(STORED)


@pytest.mark.parametrize("name", ["AWSDmsAvroPayload", "debezium.MySqlDebeziumAvroPayload"])
def test_a_table_whose_logs_could_not_be_written_is_not_made(location: str, name: str) -> None:
    with pytest.raises(
        UnsupportedTableError, match=f"(?s)merger deletes rows.*{name}.*copy-on-write.*Nothing was created"
    ):
        by_class(location, name, "merge_on_read")
    assert not Path(location, ".hoodie").exists()


def test_the_error_for_an_unknown_payload_class_names_the_known_ones(location: str) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        by_class(location, "AwsDmsAvroPayloads")
    text = str(caught.value)
    assert f"Did you mean {MODEL}.AWSDmsAvroPayload?" in text
    assert all(name in text for name in PAYLOADS)
    assert "register_merger" in text
    assert "compact the table" not in text


def test_what_a_merger_cannot_do_is_refused(location: str) -> None:
    table = by_class(location, "PartialUpdateAvroPayload")
    table.upsert(STORED)
    with pytest.raises(InvalidOptionError, match="needs whole rows"):
        table.upsert(STORED.select(["id", "ts", "name"]), partial=True)
    assert set(PAYLOADS) >= {f"{MODEL}.{name}" for name in EXPECTED}


def instants(location: str) -> list[str]:
    return sorted(path.name for path in Path(location, ".hoodie/timeline").rglob("*"))


EVENTS = pa.schema(
    [
        ("id", pa.int64()),
        ("_event_seq", pa.string()),
        ("_event_lsn", pa.int64()),
        ("_change_operation_type", pa.string()),
    ]
)
NEEDED = [
    ("AWSDmsAvroPayload", "Op"),
    ("debezium.MySqlDebeziumAvroPayload", "_event_seq"),
    ("debezium.MySqlDebeziumAvroPayload", "_change_operation_type"),
    ("debezium.PostgresDebeziumAvroPayload", "_event_lsn"),
    ("debezium.PostgresDebeziumAvroPayload", "_change_operation_type"),
]


def asking(name: str) -> dict[str, object]:
    return {"hoodie.compaction.payload.class": f"{MODEL}.{name}"}


@pytest.mark.parametrize(("name", "column"), NEEDED)
def test_the_columns_of_the_payload_class_are_not_altered(location: str, name: str, column: str) -> None:
    schema = SCHEMA if column == "Op" else EVENTS
    table = hudi.create_table(location, schema, record_key="id", storage_options=FAST, options=asking(name))
    for change in ({"rename": {column: "other"}}, {"drop": [column]}):
        with pytest.raises(SchemaMismatchError, match=f"(?s){column}.*a column of the merger"):
            table.alter(**change)
    assert instants(location) == []
    other = next(each for each in schema.names if each != "id" and (name, each) not in NEEDED)
    table.alter(rename={other: "other"})
    assert "other" in reopen(table).schema.names


@pytest.mark.parametrize(("name", "column"), NEEDED)
def test_a_table_whose_columns_have_types_that_its_payload_class_cannot_merge_by_is_not_made(
    location: str, name: str, column: str
) -> None:
    kind = pa.float64() if column == "_event_lsn" else pa.int32()
    schema = SCHEMA if column == "Op" else EVENTS
    schema = schema.set(schema.get_field_index(column), pa.field(column, kind))
    with pytest.raises(InvalidOptionError, match=f"(?s){name} needs a .* in the column {column}, which is {kind}"):
        hudi.create_table(location, schema, record_key="id", storage_options=FAST, options=asking(name))


@pytest.mark.parametrize(("name", "column"), NEEDED)
def test_a_table_without_the_columns_of_its_payload_class_is_not_made(location: str, name: str, column: str) -> None:
    schema = pa.schema([field for field in (SCHEMA if column == "Op" else EVENTS) if field.name != column])
    with pytest.raises(InvalidOptionError, match=f"(?s){name}.*no column '{column}'"):
        hudi.create_table(location, schema, record_key="id", storage_options=FAST, options=asking(name))
    assert not Path(location, ".hoodie").exists()


def given_to(location: str, name: str) -> hudi.HudiTable:
    """The table at a location, with another payload class in its properties."""
    path = Path(location, ".hoodie/hoodie.properties")
    path.write_text(path.read_text().replace("OverwriteNonDefaultsWithLatestAvroPayload", name))
    return hudi.open_table(location, storage_options=FAST)


@pytest.mark.parametrize(("name", "column"), [NEEDED[1], NEEDED[3]])
def test_a_table_of_others_without_the_columns_of_its_payload_class(location: str, name: str, column: str) -> None:
    table = by_class(location, "OverwriteNonDefaultsWithLatestAvroPayload", "merge_on_read")
    table.upsert(STORED)
    table.upsert(NEWER.slice(0, 3))
    with pytest.raises(UnsupportedTableError, match=f"no columns '{column}' and '_change_operation_type'"):
        given_to(location, name).scan().to_arrow()


@pytest.mark.parametrize(("name", "column"), NEEDED[1:])
def test_a_write_needs_the_columns_of_the_payload_class(location: str, name: str, column: str) -> None:
    table = by_class(location, "OverwriteNonDefaultsWithLatestAvroPayload")
    table.upsert(STORED)
    table, before = given_to(location, name), instants(location)
    with pytest.raises(UnsupportedTableError, match=f"(?s){name}.*{column}"):
        table.upsert(NEWER)
    assert instants(location) == before


class Highest:
    """The row with the highest price, the older one of two equal ones; it takes the columns of `SCHEMA` only."""

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        higher = pc.fill_null(pc.greater(newer.column("price"), older.column("price")), False)
        columns = [pc.if_else(higher, newer.column(name), older.column(name)) for name in SCHEMA.names]
        return pa.table(columns, schema=SCHEMA)


@pytest.fixture
def highest() -> Any:
    name = "9d1f0a52-92f4-4f0e-8d0b-0f3cc0a1a4c7"
    register_merger(name, Highest(), schema=SCHEMA, record_key=["id"], waive=("associative", "commutative"), triples=20)
    yield name
    unregister_merger(name)


@pytest.mark.parametrize("change", [{"rename": {"price": "cost"}}, {"drop": ["price"]}, {"add": {"more": pa.int64()}}])
def test_a_change_of_columns_that_the_merger_of_the_user_cannot_take(
    location: str, highest: str, change: dict[str, Any]
) -> None:
    table = made(location, hoodie__record__merge__strategy__id=highest)
    table.upsert(STORED)
    before = instants(location)
    with pytest.raises(UnsupportedTableError, match=highest):
        table.alter(**change)
    with pytest.raises(UnsupportedTableError, match=highest):
        table.upsert(NEWER.append_column("more", pa.array([1, 2, 3, 4])))
    assert instants(location) == before


def test_a_change_of_columns_that_the_merger_of_the_user_takes(location: str, sums: str) -> None:
    table = made(location, hoodie__record__merge__strategy__id=sums)
    table.upsert(STORED)
    table.alter(rename={"name": "title"})
    table.upsert(NEWER.slice(0, 1).rename_columns(["id", "ts", "title", "price", "Op"]))
    assert left(table)[0] == (1, 6, None, 11.0, "U")


def test_a_table_with_columns_that_the_merger_of_the_user_cannot_take_is_not_made(location: str, highest: str) -> None:
    with pytest.raises(InvalidOptionError, match=highest):
        hudi.create_table(
            location,
            EVENTS,
            record_key="id",
            options={"hoodie.record.merge.strategy.id": highest},
            storage_options=FAST,
        )
    assert not Path(location, ".hoodie").exists()


@pytest.mark.parametrize("table_type", ["copy_on_write", "merge_on_read"])
def test_a_row_that_the_merger_of_the_user_keeps_stays_in_its_commit(
    location: str, table_type: str, highest: str
) -> None:
    table = made(location, table_type, None, hoodie__record__merge__strategy__id=highest)
    stored = rows((1, 5, "a", 0.0, "I"), (2, 5, None, float("nan"), "I"), (3, 5, "c", 3.0, "I"))
    first = table.upsert(stored)
    second = table.upsert(rows((1, 6, "x", -1.0, "U"), (2, 6, "y", 1.0, "U"), (3, 6, "z", 4.0, "U")))
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [row["_hoodie_commit_time"] for row in found] == [first.instant, first.instant, second.instant]
    assert [row["name"] for row in found] == ["a", None, "z"]


class Signs(Highest):
    """Takes the newer price, so that 0.0 may become -0.0."""

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        return older.set_column(3, "price", newer.column("price"))


def test_a_zero_that_changes_its_sign_is_another_row(location: str) -> None:
    name = "5c8be0fb-0e33-4f7d-8e65-b2c5e4f2c6aa"
    register_merger(name, Signs(), schema=SCHEMA, record_key=["id"], waive=("commutative",), triples=20)
    try:
        table = made(location, ordering=None, hoodie__record__merge__strategy__id=name)
        table.upsert(rows((1, 5, "a", 0.0, "I")))
        table.upsert(rows((1, 5, "a", -0.0, "I")))
        assert repr(left(table)[0][3]) == "-0.0"
    finally:
        unregister_merger(name)
