"""Writes to tables whose rows are merged by a payload class of Hudi or by a merger of the user (merge mode CUSTOM)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.tables import FAST, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, UnsupportedTableError
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
    table = by_class(location, "AWSDmsAvroPayload", "merge_on_read")
    with pytest.raises(UnsupportedTableError, match="merger deletes rows"):
        table.upsert(STORED)


def test_what_a_merger_cannot_do_is_refused(location: str) -> None:
    table = by_class(location, "PartialUpdateAvroPayload")
    table.upsert(STORED)
    with pytest.raises(InvalidOptionError, match="needs whole rows"):
        table.upsert(STORED.select(["id", "ts", "name"]), partial=True)
    assert set(PAYLOADS) >= {f"{MODEL}.{name}" for name in EXPECTED}
