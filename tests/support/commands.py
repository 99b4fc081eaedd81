"""Every command of `pyhudi` as people type it, for tests over all commands. A new command has a line in `RUNS`, or the tests over all commands fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner, Result

from pyhudi_core.cli.main import main

COMMANDS: dict[str, click.Command] = {
    name: command
    for name in main.list_commands(click.Context(main))
    if (command := main.get_command(click.Context(main), name)) is not None
}

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
    ("sql", "{table}", "UPDATE orders SET price = 2 WHERE id = 1"),
    ("sql", "{table}", "DELETE FROM orders WHERE id = 404"),
    (
        "sql",
        "{table}",
        "MERGE INTO orders t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = 3",
    ),
    ("metadata", "{table}", "create"),
    ("metadata", "{table}", "drop"),
    ("metadata", "{table}", "rebuild"),
    ("metadata", "{table}", "repair"),
    ("savepoint", "{table}", "create"),
    ("savepoint", "{table}", "delete", "--instant", "{newest}", "--if-exists"),
    ("hold", "{table}", "delete", "--name", "a hold that has ended", "--if-exists"),
    ("bootstrap", "{source}", "{copy}", "--record-key", "id"),
    ("import", "{imported}", "{source}/rows.parquet", "--record-key", "id"),
    ("import", "{table}", "{source}/orders.csv"),
    ("export", "{table}", "{copy}.csv", "--overwrite"),
    *(
        (name, "{table}")
        for name in ("compact", "cluster", "clean", "log-compact", "expire", "sweep", "upkeep", "iceberg")
    ),
    ("catalog-sync", "{table}", "--mode", "manifest"),
    ("repair", "{table}", "--duplicates"),
    ("restore", "{table}", "--to", "{newest}"),
    ("restore", "{table}", "--to", "{newest}", "--keep"),
    ("upgrade", "{table}"),
    ("downgrade", "{table}"),
    ("downgrade", "{table}", "--plan"),
    ("upgrade", "{table}", "--plan"),
    ("erase", "{table}", "--key", "2"),
    ("drop", "{new}", "--if-exists"),
]
"""Commands that change something. Each is no failure the second time."""

LOOKS = [
    *(
        (name, "{table}")
        for name in ("check", "count", "head", "history", "schema", "services", "show", "size", "tables", "timeline")
    ),
    ("commit", "{table}", "{newest}"),
    ("sql", "{table}", "SELECT count(*) FROM orders"),
    ("sql", "{table}", "CALL show_commits(table => 'orders')"),
    *(("inspect", "{table}", what) for what in ("files", "slices", "partitions", "commits", "statistics")),
    ("inspect", "{table}", "commit-files", "--instant", "{newest}"),
    ("drop", "{table}", "--plan"),
    ("help", "writing"),
    ("completion", "bash"),
]
"""Commands that change nothing, and that say yes."""

ANSWERS = [
    ("hold", "{table}", "create", "--hours", "1"),
    ("commit-status", "{table}", "20200101000000000-" + "0" * 32),
    ("key-history", "{table}", "1"),
    ("rollback", "{table}", "20200101000000000"),
    ("recover", "{table}", "--plan"),
]
"""Other commands: a hold, which refuses an erasure; and what says no, or is refused, at a table in which nothing is pending or lost."""

RUNS = [*LOOPS, *LOOKS, *ANSWERS]


def run(words: Iterable[str], places: Mapping[str, str] | None = None) -> Result:
    """The result of a command, with the placeholders of its words filled."""
    return CliRunner().invoke(main, [word.format(**places or {}) for word in words])


def places(folder: Path, **more: str) -> dict[str, str]:
    """Locations for the placeholders of `RUNS`: those of tables to make, and ``source``, a folder with files."""
    found = {name: str(folder / name) for name in ("new", "source", "copy", "imported")}
    Path(found["source"]).mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [1]}), f"{found['source']}/rows.parquet")
    Path(found["source"], "orders.csv").write_text("id,day,price,ts\n3,a,1.0,3\n")
    return found | more


def is_an_answer(done: Result) -> bool:
    """Whether the command ended by an exit code of its own: no exception came through."""
    return done.exception is None or isinstance(done.exception, SystemExit)
