"""The commands of a loop: run a second time, each that makes or removes something does nothing, and ends with 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import LOOPS, places, run
from support.tables import make, orders


def test_the_second_run_of_a_command_is_no_failure(location: str, tmp_path: Path) -> None:
    table = make(location, name="orders", table_type="merge_on_read")
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0, 2)))
    for words in LOOPS:
        known = places(tmp_path, table=location, newest=table.timeline.commits[-1].requested_time)
        for number in ("first", "second"):
            done = run(words, known)
            assert done.exit_code == 0, f"{number} run of {words}: {done.output} {done.exception}"


ORDERS = [word for name in ("id:int64", "day:string", "price:double", "ts:int64") for word in ("--column", name)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("index", "{table}", "create", "by_day", "--column", "price"), "another definition"),
        (("index", "{table}", "drop", "by_day"), "no index"),
        (("init", "{table}", "--column", "id:int64", "--record-key", "id"), "already exists"),
        (("init", "{table}", "--column", "day:string", "--record-key", "day", "--if-not-exists"), "has record_key id"),
        (
            ("init", "{table}", *ORDERS, "--record-key", "id", "--ordering", "price", "--if-not-exists"),
            "has ordering none, not price",
        ),
        (("init", "{table}", *ORDERS, "--partition-by", "id", "--if-not-exists"), "has partition_by day, not id"),
        (("init", "{table}", *ORDERS, "--name", "other", "--if-not-exists"), "has name table, not other"),
        (
            ("init", "{table}", *ORDERS, "--table-type", "mor", "--if-not-exists"),
            "table_type copy_on_write, not merge_on_read",
        ),
        (
            ("init", "{table}", *ORDERS, "--option", "hoodie.table.type=MERGE_ON_READ", "--if-not-exists"),
            "COPY_ON_WRITE",
        ),
        (
            ("init", "{table}", *ORDERS, "--record-key", "day", "--ordering", "ts", "--if-not-exists"),
            "has record_key id, not day; ordering none, not ts",
        ),
        (("init", "{table}", "--column", "note:string", "--if-not-exists"), "without the column note"),
        (("init", "{table}", "--column", "id:string", "--if-not-exists"), "without the column id of type string"),
    ],
)
def test_what_is_there_with_another_meaning_is_refused(location: str, words: tuple[str, ...], why: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    if "create" in words:
        table.indexes.create("by_day", ["day"])
    known = {"table": location}
    done = run(words, known)
    assert done.exit_code == 2
    assert why in " ".join(done.output.split())
    if "create" in words:
        assert run((*words, "--plan"), known).exit_code == 1
        assert run((*words, "--if-not-exists"), known).exit_code == 0


def test_a_table_that_fits_is_taken(location: str) -> None:
    make(location, table_type="merge_on_read", ordering="ts", name="orders")
    keys = ("--record-key", "id", "--partition-by", "day", "--ordering", "ts", "--name", "orders")
    for kind in ("mor", "MERGE_ON_READ"):
        done = run(("init", location, *ORDERS, *keys, "--table-type", kind, "--if-not-exists"))
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "words", [("create", "x", "--if-exists"), ("drop", "x", "--if-not-exists"), ("list", "--if-exists")]
)
def test_a_flag_of_another_action_is_no_flag(location: str, words: tuple[str, ...]) -> None:
    make(location)
    done = run(("index", location, *words))
    assert done.exit_code == 2
    assert (
        f"{words[-1]} goes with {'drop' if words[-1] == '--if-exists' else 'create'}, not with {words[0]}"
        in done.output
    )
