"""What changed for a key, by when, in which commit: only what touched the key, and how far back it is known."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.tables import archive_all_but_the_newest, make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import InvalidOptionError, UnsupportedTableError

KINDS = ["copy_on_write", "merge_on_read"]
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}


def seen(table: hudi.HudiTable, key: object) -> list[tuple[Any, ...]]:
    """Commit, action, changed columns, price before and after; oldest first."""
    rows = reversed(table.key_history(key).rows.to_pylist())
    return [
        (row["instant"], row["action"], row["changed"], (row["before"] or {}).get("price"), (row["after"] or {}).get("price"))
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, BUCKETS], ids=["simple", "buckets"])
def test_each_commit_that_touched_the_key_is_there_and_no_other(
    location: str, kind: str, options: dict[str, str]
) -> None:
    table = make(location, table_type=kind, options=options)
    made = table.upsert(orders((1, "a", 1.0, 1), (2, "a", 1.0, 1)))
    table.upsert(orders((2, "a", 5.0, 2)))  # of the neighbour in its file
    table.upsert(orders((30, "b", 5.0, 2)))  # in another partition
    risen = table.upsert(orders((1, "a", 2.0, 1), (3, "a", 1.0, 1)))
    same = table.upsert(orders((1, "a", 2.0, 1)))
    if kind == "merge_on_read":
        table.compaction.run()
    if not options:
        table.clustering.run()
    gone = table.delete(where="id = 1")
    table.upsert(orders((2, "a", 6.0, 3)))
    back = table.upsert(orders((1, "a", 9.0, 4)))
    found = table.key_history(1)
    assert seen(table, 1) == [
        (made.instant, "inserted", ["id", "day", "price", "ts"], None, 1.0),
        (risen.instant, "updated", ["price"], 1.0, 2.0),
        (same.instant, "updated", [], 2.0, 2.0),
        (gone.instant, "deleted", ["id", "day", "price", "ts"], 2.0, None),
        (back.instant, "inserted", ["id", "day", "price", "ts"], None, 9.0),
    ]
    assert (found.note, found.known_from, found.key) == ("", table.timeline.commits[0].requested_time, "1")
    assert not table.key_history(77)
    assert table.key_history("1").rows == found.rows


@pytest.mark.parametrize("kind", KINDS)
def test_an_overwrite_and_a_dropped_partition_touch_the_key(location: str, kind: str) -> None:
    table = make(location, table_type=kind)
    made = table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    written = table.insert_overwrite(orders((1, "a", 3.0)))
    table.insert_overwrite(orders((5, "b", 1.0)))
    dropped = table.delete_partitions(
        [piece.partition for piece in table.snapshot().view.all_slices() if piece.partition.endswith("a")]
    )
    assert [(instant, action, changed) for instant, action, changed, *_ in seen(table, 1)][1:] == [
        (written.instant, "updated", ["price"]),
        (dropped.instant, "deleted", ["id", "day", "price"]),
    ]
    assert seen(table, 1)[0][:2] == (made.instant, "inserted")
    assert [action for _, action, *_ in seen(table, 2)] == ["inserted", "deleted"]


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_clean_it_says_from_when_on_it_knows_and_who_wrote_what_was_there(location: str, kind: str) -> None:
    table = make(location, table_type=kind)
    made = [table.upsert(orders((1, "a", float(number)), (2, "a", float(number)))).instant for number in range(5)]
    if kind == "merge_on_read":
        table.compaction.run()
        made += [table.upsert(orders((1, "a", float(number)), (2, "a", float(number)))).instant for number in (5, 6)]
        table.compaction.run()
    reopen(table, hoodie__clean__commits__retained=1).cleaning.run()
    found = table.key_history(1)
    said = seen(table, 1)
    assert "not known" in found.note
    assert found.known_from in found.note
    known = [instant for instant, action, *_ in said if action != "written"]
    assert known == made[len(made) - len(known) :], "nothing is missing from there on"
    assert found.known_from <= min(known, default="9")
    [(oldest, _, _, _, price)] = [row for row in said if row[1] == "written"]
    assert (oldest, price) == (made[-1 - len(known)], float(len(made) - 1 - len(known)))


def test_archived_commits_are_said_to_be_unknown(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    archive_all_but_the_newest(table, orders((2, "b", 1.0)))
    found = table.key_history(1)
    assert "archived" in found.note
    assert [(row["instant"], row["action"]) for row in found.rows.to_pylist()] == [(first.instant, "written")]


def test_a_key_of_several_columns_is_a_mapping_or_its_text(location: str) -> None:
    table = make(location, record_key=["id", "ts"])
    first = table.upsert(orders((1, "a", 1.0, 7), (1, "a", 1.0, 8)))
    for key in ({"id": 1, "ts": 7}, "id:1,ts:7"):
        assert [row[0] for row in seen(table, key)] == [first.instant]
    with pytest.raises(InvalidOptionError, match="each key column"):
        table.key_history({"id": 1})


@pytest.mark.parametrize("text", ["1", "id:1", "ts:7,id:1", "day:a,ts:7", "id=1,ts=7"])
def test_a_text_that_is_no_key_of_several_columns_is_answered_with_how_one_looks(location: str, text: str) -> None:
    table = make(location, record_key=["id", "ts"])
    table.upsert(orders((1, "a", 1.0, 7)))
    with pytest.raises(InvalidOptionError, match="id:...,ts:..."):
        table.key_history(text)


@pytest.mark.parametrize("key", [None, "x", [1], {"day": "a"}, {"id": None}, 1 << 70, b"\xff"])
def test_what_is_no_key_of_the_table_is_refused(location: str, key: object) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with pytest.raises(InvalidOptionError):
        table.key_history(key)


def test_a_table_without_record_keys_is_refused(location: str) -> None:
    table = make(location, options={"hoodie.populate.meta.fields": False})
    with pytest.raises(UnsupportedTableError, match="record keys"):
        table.key_history(1)


def test_altered_columns_have_their_new_names_in_every_commit(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    table.alter(rename={"price": "cost"}, add={"note": pa.string()})
    table.upsert(pa.table({"id": [1], "day": ["a"], "cost": [2.0], "ts": pa.array([None], pa.int64()), "note": ["n"]}))
    last, first = table.key_history(1).rows.to_pylist()
    assert (last["changed"], last["before"]["cost"], last["after"]["cost"]) == (["cost", "note"], 1.0, 2.0)
    assert first["after"]["cost"] == 1.0


def test_only_the_bucket_of_the_key_is_read(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyhudi_core.read.changes import ChangeReader

    table = make(location, options=BUCKETS)
    table.upsert(orders(*((number, "a", 1.0) for number in range(40))))
    read: list[str] = []
    plain = ChangeReader.read
    monkeypatch.setattr(
        ChangeReader,
        "read",
        lambda self, storage, change: (read.append(change.after.file_id), plain(self, storage, change))[1],
    )
    assert table.key_history(7)
    assert (len(table.snapshot().view.all_slices()), len(read)) == (4, 1)


def test_the_command_prints_one_line_for_each_commit(location: str) -> None:
    table = make(location)
    first, second = (table.upsert(orders((1, "a", price))) for price in (1.0, 2.0))

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["key-history", location, *arguments])
        return done.exit_code, done.output

    code, said = run("1")
    assert (code, [line.split()[3] for line in said.splitlines()[1:]]) == (0, [second.instant, first.instant])
    assert "price: 1.0 -> 2.0" in said
    assert "id=1, day=a, price=1.0" in said
    told = json.loads(run("1", "--json")[1])
    assert (told["commits"][0]["before"]["price"], told["known_from"], told["note"]) == (1.0, first.instant, "")
    assert run("1", "--csv", "--columns", "instant,action")[1].splitlines() == [
        "instant,action", f"{second.instant},updated", f"{first.instant},inserted",
    ]  # fmt: skip
    assert run("99")[0] == 1
    assert "A key of this table is '1'" in run("99")[1]
    assert run("x")[0] == 2


def test_a_mapping_for_keys_with_times_is_answered_with_the_stored_key(location: str) -> None:
    rows = pa.table({"id": [1], "at": pa.array([0], pa.timestamp("us"))})
    table = hudi.create_table(location, rows.schema, ["id", "at"])
    made = table.upsert(rows)
    with pytest.raises(UnsupportedTableError, match="_hoodie_record_key"):
        table.key_history({"id": 1, "at": 0})
    [stored] = table.scan().to_arrow()["_hoodie_record_key"].to_pylist()
    assert table.key_history(stored).rows["instant"].to_pylist() == [made.instant]
