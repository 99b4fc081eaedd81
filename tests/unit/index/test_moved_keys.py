"""Under a global index a key is in one partition: a row of another partition moves it there by one commit, or updates it where it is."""

from __future__ import annotations

import random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from support.metadata_tables import assert_metadata_is_true, build
from support.tables import create_plain, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError, DuplicateKeyError, InvalidOptionError
from pyhudi_core.metadata_table import names

META = ("_hoodie_record_key", "_hoodie_partition_path")
SMALL = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 100}
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
FILES = ("GLOBAL_SIMPLE", "GLOBAL_BLOOM")


def made(kind: str = "COPY_ON_WRITE", index: str = "GLOBAL_SIMPLE", **more: Any) -> hudi.HudiTable:
    """Keys 1 and 2 in partition a, 3 in b, each in its own file group."""
    options = SMALL | {"hoodie.index.type": index if index != "RECORD_INDEX" else "SIMPLE"}
    arguments: dict[str, Any] = {"partition_by": "day", "table_type": kind, "options": options, **more}
    table = create_plain(f"memory://moves/{uuid4()}", orders().schema, "id", **arguments)
    for row in ((1, "a", 1.0, 5), (2, "a", 2.0, 5), (3, "b", 3.0, 5)):
        table.bulk_insert(orders(row))
    if index == "RECORD_INDEX":
        build(table, names.FILES, names.RECORD_INDEX)
        options |= {"hoodie.index.type": index, "hoodie.record.index.update.partition.path": "true"}
    return hudi.open_table(table.location, options=options)


def stored(table: hudi.HudiTable) -> list[tuple[Any, ...]]:
    return rows(table, *META, "price")


@pytest.mark.one_in(5)
@pytest.mark.row("I10", "I11", "I5", "K14")
@pytest.mark.parametrize(
    ("kind", "index"),
    [*((kind, index) for kind in TYPES for index in FILES), *((kind, "RECORD_INDEX") for kind in TYPES)],
)
@pytest.mark.parametrize("ordering", ["ts", None])
def test_a_key_moves_to_the_partition_of_its_new_row_in_one_commit(kind: str, index: str, ordering: str | None) -> None:
    table = made(kind, index, ordering=ordering)
    commit = table.upsert(orders((1, "b", 9.0, 6), (2, "a", 8.0, 6), (3, "c", 7.0, 6), (4, "c", 6.0, 6)))
    assert commit.stats.index == f"{index}: named by hoodie.index.type"
    assert commit.stats.rows_inserted == 3
    assert commit.stats.rows_deleted == 2
    assert stored(table) == [("1", "day=b", 9.0), ("2", "day=a", 8.0), ("3", "day=c", 7.0), ("4", "day=c", 6.0)]
    assert table.delete(pa.table({"id": [1, 4, 77], "day": ["a", "nowhere", "c"]})).stats.rows_deleted == 2
    assert [key for key, *_ in stored(table)] == ["2", "3"]
    if index == "RECORD_INDEX":
        assert_metadata_is_true(table)


@pytest.mark.parametrize("kind", TYPES)
def test_a_row_that_is_older_than_the_stored_one_does_not_move_it(kind: str) -> None:
    table = made(kind, ordering="ts")
    table.upsert(orders((1, "b", 9.0, 4), (2, "b", 8.0, 5)))
    assert stored(table) == [("1", "day=a", 1.0), ("2", "day=b", 8.0), ("3", "day=b", 3.0)]


@pytest.mark.parametrize("index", FILES)
def test_hudis_option_lets_rows_stay_where_their_keys_are(index: str) -> None:
    table = made(index=index)
    name = f"hoodie.{index.partition('_')[2].lower()}.index.update.partition.path"
    table = hudi.open_table(table.location, options={"hoodie.index.type": index, name: False})
    commit = table.upsert(orders((1, "b", 9.0, 6), (4, "b", 7.0, 6)))
    assert (commit.stats.rows_updated, commit.stats.rows_inserted, commit.stats.rows_deleted) == (1, 1, 0)
    assert stored(table) == [("1", "day=a", 9.0), ("2", "day=a", 2.0), ("3", "day=b", 3.0), ("4", "day=b", 7.0)]


@pytest.mark.parametrize("kind", TYPES)
def test_an_insert_is_refused_for_a_key_of_any_partition(kind: str) -> None:
    table = made(kind)
    with pytest.raises(DuplicateKeyError, match="1 rows of the batch"):
        table.insert(orders((3, "a", 5.0, 6), (9, "a", 5.0, 6)))
    drop = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.datasource.write.insert.drop.duplicates": True}
    skipping = hudi.open_table(table.location, options=drop)
    assert skipping.insert(orders((3, "a", 5.0, 6), (9, "a", 5.0, 6))).stats.rows_inserted == 1
    with pytest.raises(DuplicateKeyError, match="repeat a record key"):
        table.insert(orders((50, "a", 5.0, 6), (50, "b", 5.0, 6)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", TYPES)
def test_a_key_that_was_deleted_comes_back_into_the_partition_of_its_new_row(kind: str) -> None:
    """In a merge-on-read table the old base file still has the key; the logs say that it is gone."""
    table = made(kind, ordering="ts")
    table.delete(pa.table({"id": [1, 2], "day": ["a", "a"]}))
    table.insert(orders((1, "b", 9.0, 6)))
    table.upsert(orders((2, "b", 8.0, 6)))
    for price in (7.0, 6.0):
        # The key is in two base files now, in one of them deleted by a log.
        table.upsert(orders((1, "b", price, 7), (2, "b", price, 7)))
        assert stored(table) == [("1", "day=b", price), ("2", "day=b", price), ("3", "day=b", 3.0)]
    table.upsert(orders((1, "a", 5.0, 8)))
    table.upsert(orders((1, "b", 4.0, 9)))
    assert stored(table)[0] == ("1", "day=b", 4.0)
    assert hudi.open_table(table.location).upsert(orders((1, "b", 3.0, 9))).stats.index.startswith("SIMPLE"), (
        "the simple index sees it, too"
    )
    assert stored(table)[0] == ("1", "day=b", 3.0)


def test_a_row_that_says_that_it_is_deleted_deletes_the_key_where_it_is() -> None:
    schema = orders().schema.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = create_plain(
        f"memory://moves/{uuid4()}", schema, "id", "day", options={"hoodie.index.type": "GLOBAL_SIMPLE"}
    )
    whole = [(1, "a", 1.0, 1, False), (2, "a", 1.0, 1, False)]
    table.insert(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in whole], schema))
    table.upsert(pa.Table.from_pylist([dict(zip(schema.names, (1, "b", 2.0, 2, True), strict=True))], schema))
    assert rows(table, *META) == [("2", "day=a")]


def test_readers_of_changes_see_a_move_as_a_delete_and_an_insert() -> None:
    table = made()
    before = table.snapshot().completion_time
    table.upsert(orders((1, "b", 9.0, 6)))
    found = table.incremental(after=before).to_arrow()
    assert rows(found, *META, "price") == [("1", "day=b", 9.0)]
    changed = table.changes(after=before).to_arrow().to_pylist()
    assert len(changed) == 2, changed


@pytest.mark.one_in(3)
@pytest.mark.row("I10", "K2")
@pytest.mark.parametrize(
    ("kind", "index"), [*((kind, "GLOBAL_BLOOM") for kind in TYPES), *((kind, "RECORD_INDEX") for kind in TYPES)]
)
def test_any_sequence_of_writes_leaves_each_key_once_where_its_last_row_said(kind: str, index: str) -> None:
    chosen = random.Random(17)
    table = create_plain(
        f"memory://moves/{uuid4()}", orders().schema, "id", "day", table_type=kind, ordering="ts",
        options=SMALL | ({"hoodie.index.type": index} if index != "RECORD_INDEX" else {}),
    )  # fmt: skip
    model: dict[int, tuple[str, float, int]] = {0: ("a", -1.0, -1)}
    table.insert(orders((0, "a", -1.0, -1)))
    if index == "RECORD_INDEX":
        build(table, names.FILES, names.RECORD_INDEX)
        options = {"hoodie.index.type": index, "hoodie.record.index.update.partition.path": True}
        table = hudi.open_table(table.location, options=SMALL | options)
    for step in range(14):
        keys = chosen.sample(range(12), 5)
        if chosen.random() < 0.25:
            table.delete(pa.table({"id": keys[:2], "day": [chosen.choice("abc")] * 2}))
            for key in keys[:2]:
                model.pop(key, None)
        else:
            batch = [(key, chosen.choice("abc"), float(step), step + chosen.randint(-1, 1)) for key in keys]
            table.upsert(orders(*batch))
            for key, day, price, ts in batch:
                if key not in model or model[key][2] <= ts:
                    model[key] = (day, price, ts)
        expected = sorted((str(key), f"day={day}", price) for key, (day, price, _) in model.items())
        assert sorted(stored(table)) == expected, step
        if index == "RECORD_INDEX":
            assert_metadata_is_true(table)


@pytest.mark.row("I10")
@pytest.mark.parametrize(("first", "second"), ["ab", "ba"])
def test_two_writers_that_bring_one_deleted_key_back_in_two_partitions_do_not_both_commit(
    first: str, second: str
) -> None:
    table = made("MERGE_ON_READ", ordering="ts")
    table.delete(pa.table({"id": [1], "day": ["a"]}))
    with table.begin("upsert") as early:
        early.write(orders((1, first, 9.0, 9)))
        table.upsert(orders((1, second, 8.0, 9)))
        with pytest.raises(CommitConflictError, match="same record keys"):
            early.commit()
    assert [row for row in stored(table) if row[0] == "1"] == [("1", f"day={second}", 8.0)]


# --- pyhudi.update.moves.rows: every update is a delete in one file group and an insert in another


MOVES = {"pyhudi.update.moves.rows": True}


def moving(index: str = "", **more: Any) -> hudi.HudiTable:
    """Keys 1 and 2 of partition a in one file group, 3 of b in another."""
    options = SMALL | {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": index == "RECORD_INDEX"}
    place = f"memory://moves/{uuid4()}"
    table = create_plain(place, orders().schema, "id", "day", ordering="ts", options=options)
    table.insert(orders((1, "a", 1.0, 5), (2, "a", 2.0, 5), (3, "b", 3.0, 5)))
    named = {"hoodie.index.type": index} if index else {}
    return hudi.open_table(table.location, options=options | MOVES | named | more)


def groups(table: hudi.HudiTable) -> dict[str, str]:
    found = rows(table, "_hoodie_record_key", "_hoodie_file_name")
    return {key: name.partition("_")[0] for key, name in found}


@pytest.mark.row("K14")
def test_every_update_may_be_a_delete_in_one_file_group_and_an_insert_in_another() -> None:
    table = moving()
    first, before = groups(table), table.snapshot().completion_time
    commit = table.upsert(orders((1, "a", 9.0, 6), (2, "a", 8.0, 4), (3, "b", 7.0, 6), (4, "b", 6.0, 6)))
    assert (commit.stats.rows_inserted, commit.stats.rows_deleted) == (3, 2)
    assert stored(table) == [("1", "day=a", 9.0), ("2", "day=a", 2.0), ("3", "day=b", 7.0), ("4", "day=b", 6.0)]
    second = groups(table)
    assert second["2"] == first["2"], "an older row loses where the stored one is"
    assert {first[key] for key in "123"}.isdisjoint(second[key] for key in "134")
    assert rows(table.incremental(after=before).to_arrow(), "id") == [(1,), (3,), (4,)]
    table.upsert(orders((1, "a", 5.0, 5)))
    assert stored(table)[0] == ("1", "day=a", 9.0), "a late row finds the key in its new place"
    assert table.delete(pa.table({"id": [1, 3], "day": ["a", "b"]})).stats.rows_deleted == 2
    assert [key for key, *_ in stored(table)] == ["2", "4"]
    assert_metadata_is_true(table)
    assert table.check().ok


@pytest.mark.one_in(4, first=3)
@pytest.mark.row("K14")
@pytest.mark.parametrize("index", ["", "BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX"])
def test_any_sequence_of_moving_updates_leaves_each_key_once(index: str) -> None:
    chosen = random.Random(23)
    named = {"hoodie.record.index.update.partition.path": True} if index == "RECORD_INDEX" else {}
    table = moving(index, **named)
    across = index in ("GLOBAL_SIMPLE", "RECORD_INDEX")
    model: dict[int, tuple[str, float, int]] = {1: ("a", 1.0, 5), 2: ("a", 2.0, 5), 3: ("b", 3.0, 5)}
    for step in range(10):
        keys = chosen.sample(range(8), 4)
        home = {key: chosen.choice("ab") if across else "ab"[key % 2] for key in keys}
        home |= {key: model[key][0] for key in keys if key in model and not across}
        if chosen.random() < 0.25:
            table.delete(pa.table({"id": keys[:2], "day": [home[key] for key in keys[:2]]}))
            for key in keys[:2]:
                model.pop(key, None)
        else:
            batch = [(key, home[key], float(step), 5 + step + chosen.randint(-1, 1)) for key in keys]
            table.upsert(orders(*batch))
            for key, day, price, ts in batch:
                if key not in model or model[key][2] <= ts:
                    model[key] = (day, price, ts)
        expected = sorted((str(key), f"day={day}", price) for key, (day, price, _) in model.items())
        assert sorted(stored(table)) == expected, step
        assert_metadata_is_true(table)


@pytest.mark.row("K14")
def test_two_writers_that_move_one_key_do_not_both_commit() -> None:
    table = moving()
    with table.begin("upsert") as early:
        early.write(orders((1, "a", 9.0, 9)))
        table.upsert(orders((1, "a", 8.0, 9)))
        with pytest.raises(CommitConflictError):
            early.commit()
    assert stored(table)[0] == ("1", "day=a", 8.0)


@pytest.mark.row("K14")
def test_moving_updates_are_refused_where_a_row_has_one_place_or_is_not_whole() -> None:
    with pytest.raises(InvalidOptionError, match="a partial update takes"):
        moving().upsert(orders((1, "a", 9.0, 9)).select(["id", "day", "ts"]), partial=True)

    def new(**how: Any) -> hudi.HudiTable:
        return create_plain(f"memory://moves/{uuid4()}", orders().schema, "id", "day", **how)

    with pytest.raises(InvalidOptionError, match="merge-on-read"):
        new(table_type="MERGE_ON_READ", options=MOVES).upsert(orders((1, "a", 9.0, 9)))
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}
    with pytest.raises(InvalidOptionError, match=r"moves\.rows=true, but a bucket index"):
        new(options=buckets | MOVES).upsert(orders((1, "a", 9.0, 9)))
