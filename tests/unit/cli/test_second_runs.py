"""The commands of a loop: run a second time, each that makes or removes something does nothing, and ends with 0."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from support.tables import make, orders

from pyhudi_core.cli.main import main


def command(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


LOOPS = [
    ("init", "{new}", "--column", "id:int64", "--column", "day:string", "--record-key", "id", "--if-not-exists"),
    ("index", "{table}", "create", "bloom_filters"),
    ("index", "{table}", "create", "bloom_filters", "--if-not-exists"),
    ("index", "{table}", "create", "by_day", "--column", "day"),
    ("index", "{table}", "create", "by_day", "--column", "day", "--plan"),
    ("index", "{table}", "schedule", "bloom_filters"),
    ("index", "{table}", "execute"),
    ("index", "{table}", "drop", "by_day", "bloom_filters", "--if-exists", "--plan"),
    ("index", "{table}", "drop", "by_day", "bloom_filters", "--if-exists"),
    ("sql", "{table}", "CREATE INDEX IF NOT EXISTS by_day ON orders (day)"),
    ("sql", "{table}", "DROP INDEX IF EXISTS by_day ON orders"),
    ("metadata", "{table}", "create"),
    ("metadata", "{table}", "drop"),
    ("metadata", "{table}", "rebuild"),
    ("metadata", "{table}", "repair"),
    ("savepoint", "{table}", "create"),
    ("savepoint", "{table}", "delete", "--instant", "{newest}", "--if-exists"),
    ("hold", "{table}", "delete", "--name", "a hold that has ended", "--if-exists"),
    ("bootstrap", "{source}", "{copy}", "--record-key", "id"),
    ("import", "{imported}", "{source}/rows.parquet", "--record-key", "id"),
    *((name, "{table}") for name in ("compact", "cluster", "clean", "log-compact", "expire", "sweep", "upkeep")),
    ("repair", "{table}", "--duplicates"),
    ("restore", "{table}", "--to", "{newest}"),
    ("erase", "{table}", "--key", "2"),
]


def test_the_second_run_of_a_command_is_no_failure(location: str, tmp_path: Path) -> None:
    table = make(location, name="orders", table_type="merge_on_read")
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0, 2)))
    (tmp_path / "source").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "source" / "rows.parquet")
    for words in LOOPS:
        newest = table.timeline.commits[-1].requested_time
        places = {name: str(tmp_path / name) for name in ("new", "source", "copy", "imported")}
        filled = [word.format(table=location, newest=newest, **places) for word in words]
        for run in ("first", "second"):
            done = command(*filled)
            assert done.exit_code == 0, f"{run} run of {words}: {done.output} {done.exception}"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("index", "{table}", "create", "by_day", "--column", "price"), "another definition"),
        (("index", "{table}", "drop", "by_day"), "no index"),
        (("init", "{table}", "--column", "id:int64", "--record-key", "id"), "already exists"),
        (("init", "{table}", "--column", "day:string", "--record-key", "day", "--if-not-exists"), "has record_key id"),
        (("init", "{table}", "--column", "note:string", "--if-not-exists"), "without the column note"),
        (("init", "{table}", "--column", "id:string", "--if-not-exists"), "without the column id of type string"),
    ],
)
def test_what_is_there_with_another_meaning_is_refused(location: str, words: tuple[str, ...], why: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    if "create" in words:
        table.indexes.create("by_day", ["day"])
    done = command(*(word.format(table=location) for word in words))
    assert done.exit_code == 2
    assert why in " ".join(done.output.split())
    if "create" in words:
        assert command(*(word.format(table=location) for word in words), "--plan").exit_code == 1
        assert command(*(word.format(table=location) for word in words), "--if-not-exists").exit_code == 0


@pytest.mark.parametrize(
    "words", [("create", "x", "--if-exists"), ("drop", "x", "--if-not-exists"), ("list", "--if-exists")]
)
def test_a_flag_of_another_action_is_no_flag(location: str, words: tuple[str, ...]) -> None:
    make(location)
    assert "goes with create" in command("index", location, *words).output
