"""Partial updates: `upsert(..., partial=True)` changes the given columns and leaves the others, in both table types and both orders of versions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.tables import ORDERS, create_plain, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError, InvalidOptionError, SchemaMismatchError
from pyhudi_core.formats.log.blocks import Header, LogBlock
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.model.schema import from_avro

TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]


@pytest.fixture(params=TYPES)
def table(location: str, request: pytest.FixtureRequest) -> hudi.HudiTable:
    """Three rows in one partition."""
    made = make(location, table_type=request.param, ordering="ts")
    made.upsert(orders((1, "a", 1.0, 10), (2, "a", 2.0, 10), (3, "a", 3.0, 10)))
    return made


def some(*given: tuple[Any, ...], names: tuple[str, ...] = ("id", "day", "ts")) -> pa.Table:
    """Rows with some columns of `ORDERS`."""
    columns = [
        pa.array(values, ORDERS.field(name).type) for name, values in zip(names, zip(*given, strict=True), strict=True)
    ]
    return pa.table(columns, names=list(names))


def blocks(table: hudi.HudiTable) -> list[LogBlock]:
    """The blocks of the newest commit's log file."""
    [stat] = table.commit_metadata(table.timeline.commits[-1]).stats
    with table._opened.storage.open_input(stat.path) as source:
        return list(LogReader(source, stat.path).blocks())


@pytest.mark.row("J5")
def test_columns_that_are_not_given_keep_their_values(table: hudi.HudiTable) -> None:
    commit = table.upsert(some((1, "a", 11), (3, "a", 12)), partial=True)
    assert commit.stats.rows_updated == 2
    assert rows(table, "id", "price", "ts") == [(1, 1.0, 11), (2, 2.0, 10), (3, 3.0, 12)]
    table.upsert(orders((1, "a", 5.0, 20)))
    table.upsert(some((1, "a", 21)), partial=True)
    assert rows(table, "id", "price", "ts")[0] == (1, 5.0, 21)


@pytest.mark.row("J5")
def test_a_partial_row_that_is_older_than_the_row_changes_nothing_of_it(table: hudi.HudiTable) -> None:
    table.upsert(some((1, 99.0, "a", 9), (2, 22.0, "a", 11), names=("id", "price", "day", "ts")), partial=True)
    assert rows(table, "id", "price", "ts") == [(1, 1.0, 10), (2, 22.0, 11), (3, 3.0, 10)]


def test_the_newest_of_several_partial_rows_of_a_key_counts(table: hudi.HudiTable) -> None:
    names = ("id", "day", "ts", "price")
    table.upsert(some((1, "a", 12, 12.0), (1, "a", 13, 13.0), (1, "a", 11, 11.0), names=names), partial=True)
    assert rows(table, "id", "price", "ts")[0] == (1, 13.0, 13)


@pytest.mark.row("J5", "H7")
def test_logs_say_that_a_block_is_partial_and_hold_the_given_columns_only(location: str) -> None:
    table = make(location, table_type="MERGE_ON_READ", ordering="ts")
    table.upsert(orders((1, "a", 1.0, 10), (2, "a", 2.0, 10)))
    table.upsert(some((1, "a", 11)), partial=True)
    [block] = blocks(table)
    assert block.is_partial
    assert [name for name in from_avro(block.headers[Header.SCHEMA]).names if name[0] != "_"] == ["id", "day", "ts"]
    assert (
        table.commit_metadata(table.timeline.commits[-1]).schema
        == table.commit_metadata(table.timeline.commits[0]).schema
    )


@pytest.mark.parametrize("why", ["commit time", "deleted column"])
def test_where_hudi_cannot_merge_partial_rows_the_logs_hold_whole_ones(location: str, why: str) -> None:
    schema = ORDERS.append(pa.field("_hoodie_is_deleted", pa.bool_())) if why == "deleted column" else ORDERS
    ordering = "ts" if why == "deleted column" else None
    table = make(location, schema, table_type="MERGE_ON_READ", ordering=ordering)
    table.upsert(orders((1, "a", 1.0, 10)), partial=True) if schema is ORDERS else table.upsert(
        orders((1, "a", 1.0, 10)).append_column("_hoodie_is_deleted", pa.array([False]))
    )
    table.upsert(some((1, "a", 11)), partial=True)
    [block] = blocks(table)
    assert not block.is_partial
    assert "price" in from_avro(block.headers[Header.SCHEMA]).names
    assert rows(table, "id", "price", "ts") == [(1, 1.0, 11)]


def test_a_partial_update_with_all_columns_is_an_upsert(table: hudi.HudiTable) -> None:
    table.upsert(orders((1, "a", 7.0, 11), (4, "b", 4.0, 1)), partial=True)
    assert rows(table, "id", "price") == [(1, 7.0), (2, 2.0), (3, 3.0), (4, 4.0)]


@pytest.mark.parametrize("new", [(4, "a", 11), (4, "b", 11)])
def test_a_new_key_that_lacks_columns_is_refused(table: hudi.HudiTable, new: tuple[int, str, int]) -> None:
    with pytest.raises(
        SchemaMismatchError,
        match="1 rows of the partial update have a record key that the table does not have in their partition, and no 'price'",
    ):
        table.upsert(some((1, "a", 11), new), partial=True)
    assert len(table.timeline.commits) == 1
    assert rows(reopen(table), "id", "ts") == [(1, 10), (2, 10), (3, 10)]


def test_a_deleted_key_is_a_new_one(table: hudi.HudiTable) -> None:
    table.delete(pa.table({"id": [1], "day": ["a"]}))
    with pytest.raises(SchemaMismatchError, match="does not have"):
        table.upsert(some((1, "a", 99)), partial=True)
    assert rows(table, "id", "ts") == [(2, 10), (3, 10)]


@pytest.mark.parametrize("lacking", ["id", "day", "ts"])
def test_columns_that_name_or_order_a_row_are_needed(table: hudi.HudiTable, lacking: str) -> None:
    with pytest.raises(SchemaMismatchError, match=f"no column '{lacking}'"):
        table.upsert(orders((1, "a", 1.0, 11)).drop([lacking]), partial=True)


def test_without_event_time_the_ordering_column_may_be_left_out(location: str) -> None:
    for number, kind in enumerate(TYPES):
        table = make(f"{location}{number}", table_type=kind)
        table.upsert(orders((1, "a", 1.0, 10)))
        table.upsert(some((1, "a", 7.0), names=("id", "day", "price")), partial=True)
        assert rows(table, "id", "price", "ts") == [(1, 7.0, 10)]


def test_a_partial_row_may_say_that_its_row_is_deleted(location: str) -> None:
    for number, kind in enumerate(TYPES):
        schema = ORDERS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
        table = create_plain(f"{location}{number}", schema, "id", "day", ordering="ts", table_type=kind)
        table.upsert(
            orders((1, "a", 1.0, 10), (2, "a", 2.0, 10)).append_column("_hoodie_is_deleted", pa.array([False, False]))
        )
        table.upsert(some((1, "a", 11)).append_column("_hoodie_is_deleted", pa.array([True])), partial=True)
        assert rows(table, "id", "ts") == [(2, 10)]


def test_a_partial_update_can_bring_a_new_column(table: hudi.HudiTable) -> None:
    table.upsert(some((1, "a", 11)).append_column("note", pa.array(["new"])), partial=True)
    assert rows(table, "id", "price", "note") == [(1, 1.0, "new"), (2, 2.0, None), (3, 3.0, None)]


def test_a_write_in_steps_can_be_partial(table: hudi.HudiTable) -> None:
    with table.begin("upsert", partial=True) as write:
        write.write(some((2, "a", 15)))
        assert rows(write.staged().to_arrow().filter(pc.field("ts") == 15), "id", "price", "ts") == [(2, 2.0, 15)]
        write.commit()
    with pytest.raises(InvalidOptionError, match="whole rows"):
        table.begin("insert_overwrite", partial=True)


def test_a_partial_update_beside_another_writer_of_the_row_is_a_conflict(table: hudi.HudiTable) -> None:
    with table.begin("upsert", partial=True) as write:
        write.write(some((1, "a", 15)))
        table.upsert(orders((1, "a", 9.0, 20)))
        with pytest.raises(CommitConflictError):
            write.commit()


@pytest.mark.one_in(3)
@pytest.mark.row("J5")
@pytest.mark.parametrize("ordering", [None, "ts"])
@pytest.mark.parametrize("block", ["parquet", "avro"])
def test_any_sequence_of_partial_and_whole_rows_leaves_the_same_in_both_table_types(
    location: str, ordering: str | None, block: str
) -> None:
    """No row is late: logs meet each other before they meet the base file, so a late whole row can fill what a partial one left out (merging.md)."""
    chance = random.Random(11)
    options = {"hoodie.logfile.data.block.format": block}
    tables = [make(f"{location}{kind[:4]}", table_type=kind, ordering=ordering, options=options) for kind in TYPES]
    model: dict[int, dict[str, Any]] = {}
    for step in range(14):
        names = ("id", "day", "ts", *(() if step and chance.random() < 0.5 else ("price",)))
        if ordering is None and chance.random() < 0.3 and step:
            names = ("id", "day", "price")
        keys = range(6) if not step else sorted(chance.sample(range(6), 3))
        batch = [
            {
                "id": key,
                "day": "ab"[key % 2],
                "ts": step // 2 if ordering else chance.randrange(9),
                "price": float(step),
            }
            for key in keys
        ]
        data = some(*(tuple(row[name] for name in names) for row in batch), names=names)
        for row in batch:
            old = model.get(row["id"])
            if old is None or ordering is None or row["ts"] >= old["ts"]:
                model[row["id"]] = (old or {}) | {name: row[name] for name in names}
        for table in tables:
            table.upsert(data, partial=True)
            expected = [(key, model[key]["price"], model[key]["ts"]) for key in sorted(model)]
            assert rows(table, "id", "price", "ts") == expected, (table, step)


def test_a_compaction_keeps_what_partial_rows_left_out(location: str) -> None:
    table = make(location, table_type="MERGE_ON_READ", ordering="ts")
    table.upsert(orders((1, "a", 1.0, 10), (2, "a", 2.0, 10)))
    table.upsert(some((1, "a", 11)), partial=True)
    before = rows(table, "id", "price", "ts")
    assert table.compaction.run()
    assert rows(table, "id", "price", "ts") == rows(table.scan(mode="read_optimized"), "id", "price", "ts") == before
    table.upsert(some((1, "a", 12)), partial=True)
    assert rows(table, "id", "price", "ts")[0] == (1, 1.0, 12)


@pytest.mark.row("J5", "D6")
def test_changes_show_whole_rows(table: hudi.HudiTable) -> None:
    began = table.timeline.commits[-1].completion_time
    table.upsert(some((1, "a", 11)), partial=True)
    [change] = table.changes(after=began).to_arrow().to_pylist()
    assert change["op"] == "u"
    assert change["before"] == {"id": 1, "day": "a", "price": 1.0, "ts": 10}
    assert change["after"] == {"id": 1, "day": "a", "price": 1.0, "ts": 11}


def test_statistics_of_a_partial_log_hide_no_row(tmp_path: Path) -> None:
    table = make(str(tmp_path / "t"), table_type="MERGE_ON_READ", ordering="ts")
    table.upsert(orders((1, "a", 1.0, 10), (2, "a", 2.0, 10)))
    table.upsert(some((1, "a", 11)), partial=True)
    assert rows(table.scan(where="price = 1.0"), "id", "ts") == [(1, 11)]
    assert rows(table.scan(where="ts = 11"), "id", "price") == [(1, 1.0)]


@pytest.mark.parametrize("kind", TYPES)
def test_a_new_key_is_refused_with_a_bucket_index_too(location: str, kind: str) -> None:
    """There the place of a key is computed, and nothing was looked up."""
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    table = make(location, table_type=kind, ordering="ts", options=options)
    table.upsert(orders((1, "a", 1.0, 10)))
    table.upsert(some((1, "a", 11)), partial=True)
    with pytest.raises(SchemaMismatchError, match="does not have"):
        table.upsert(some((7, "a", 11)), partial=True)
    assert rows(table, "id", "price", "ts") == [(1, 1.0, 11)]


def test_a_partial_row_of_another_partition_updates_its_key_or_says_why_it_cannot_move(table: hudi.HudiTable) -> None:
    """Under a global index the key is known; but the new place of a row needs all its columns."""
    index = {"hoodie__index__type": "GLOBAL_SIMPLE"}
    with pytest.raises(SchemaMismatchError, match=r"update\.partition\.path=false\): a partial row cannot move"):
        reopen(table, **index).upsert(some((1, "b", 11)), partial=True)
    commit = reopen(table, **index, hoodie__simple__index__update__partition__path=False).upsert(
        some((1, "b", 11)), partial=True
    )
    assert commit.stats.rows_updated == 1
    assert rows(table, "id", "price", "ts")[0] == (1, 1.0, 11)
