"""One rule for all commands of `pyhudi`: their flags, and what their exit codes mean (docs/upkeep.md)."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.cli import main

ABSENT = "20200101000000000"
"""The requested time of no instant."""
READ_ONLY = {
    "check",
    "commit",
    "completion",
    "count",
    "head",
    "export",
    "help",
    "history",
    "inspect",
    "key-history",
    "schema",
    "services",
    "show",
    "size",
    "commit-status",
    "tables",
    "timeline",
}
NAMES = main.list_commands(click.Context(main))
OF_PLANS = ("compact", "cluster", "clean", "log-compact")


@pytest.mark.parametrize("name", NAMES)
def test_a_command_has_the_flags_of_all_others_and_says_its_exit_codes(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    flags = {flag: option for option in command.params for flag in option.opts}
    assert "--json" in flags or name in ("completion", "help")
    assert "--plan" in flags or name in READ_ONLY | {"savepoint", "hold", "init", "import"}
    assert "Exit code 0: " in (command.help or "")
    if "--option" in flags:
        option = flags["--option"]
        assert isinstance(option, click.Option)
        assert (option.name, str(option.help)[:16]) == ("options", "An option, such "), "an option of the table"


def results(table: hudi.HudiTable, source: str) -> list[tuple[int, tuple[str, ...]]]:
    """Commands with the exit code that each must have. Nothing is pending in the table."""
    place, newest = table.location, table.timeline.commits[-1].requested_time
    name = table.config.name
    return [
        *((0, (command, place)) for command in OF_PLANS),
        *((0, (command, place, "--plan")) for command in OF_PLANS),
        *((0, (command, place, "--execute")) for command in OF_PLANS),
        *((1, (command, place, "--execute", "--instant", ABSENT)) for command in OF_PLANS),
        (1, ("cluster", place, "--cancel", ABSENT)),
        (0, ("restore", place, "--to", newest)),
        (0, ("restore", place, "--to", newest, "--plan")),
        (0, ("restore", place, "--to", newest, "--schedule")),
        (0, ("restore", place, "--execute")),
        (1, ("restore", place, "--execute", "--instant", ABSENT)),
        (1, ("restore", place, "--cancel", ABSENT)),
        (1, ("restore", place, "--to", ABSENT, "--plan")),
        (2, ("restore", place, "--to", ABSENT)),
        (1, ("rollback", place, ABSENT)),
        (1, ("rollback", place, ABSENT, "--plan")),
        (0, ("index", place)),
        (0, ("index", place, "execute")),
        (1, ("index", place, "execute", ABSENT)),
        (1, ("index", place, "cancel", ABSENT)),
        (2, ("index", place, "drop", "nothing")),
        (0, ("index", place, "create", "record_index", "--plan", "--option", "pyhudi.commit.retries=1")),
        (0, ("index", place, "create", "by_day", "--column", "day", "--using", "column_stats", "--index-option", "expr=lower", "--plan")),
        (0, ("sql", place, f"SHOW INDEXES FROM {name}")),
        (0, ("sql", place, f"CREATE INDEX record_index ON {name} (id)", "--plan")),
        (0, ("sql", place, f"DROP INDEX IF EXISTS nothing ON {name}", "--plan")),
        (2, ("sql", place, f"DROP INDEX nothing ON {name}", "--plan")),
        (0, ("sql", place, f"SELECT index FROM (SELECT id AS index FROM {name})")),
        (2, ("sql", place, f"CREATE VIEW {name} AS SELECT 1 AS id", "--plan")),
        (2, ("sql", place, f"MERGE INTO {name} AS t USING {name} AS s ON t.id = s.id WHEN MATCHED THEN DELETE RETURNING *", "--plan")),
        (0, ("metadata", place)),
        (0, ("metadata", place, "drop", "--plan")),
        (0, ("erase", place, "--key", "77", "--plan")),
        (0, ("expire", place)),
        (0, ("sweep", place)),
        (0, ("iceberg", place, "--plan")),
        (0, ("catalog-sync", place, "--plan", "--mode", "manifest")),
        (1, ("catalog-sync", place, "--plan", "--uris", "thrift://127.0.0.1:1")),
        (0, ("repair", place, "--duplicates", "--plan")),
        (0, ("savepoint", place)),
        (1, ("savepoint", place, "delete", "--instant", ABSENT)),
        (0, ("hold", place)),
        (1, ("hold", place, "delete", "--name", ABSENT)),
        (0, ("services", place)),
        (0, ("timeline", place)),
        (0, ("tables", f"{place}/..")),
        (0, ("tables", place)),
        (2, ("tables", f"{place}_none")),
        (0, ("check", place, "--no-keys")),
        (0, ("upkeep", place, "--plan")),
        *((0, (command, place, *more)) for command in ("upgrade", "downgrade") for more in ((), ("--plan",))),
        (0, ("drop", place, "--plan")),
        (0, ("drop", f"{place}_new", "--if-exists")),
        (2, ("drop", f"{place}_new")),
        (2, ("upgrade", place, "--to", "7")),
        (2, ("downgrade", place, "--to", "7")),
        (1, ("commit-status", place, f"{ABSENT}-{'0' * 32}")),
        (2, ("recover", place, "--plan")),
        *((0, (command, place)) for command in ("show", "size", "schema", "head", "count", "history")),
        (0, ("commit", place, newest)),
        *((0, ("inspect", place, what)) for what in ("files", "slices", "partitions", "commits", "statistics")),
        (2, ("inspect", place, "commit-files", "--instant", ABSENT)),
        (0, ("export", place, f"{source}/rows.csv", "--where", "id = 1")),
        (2, ("export", place, f"{source}/rows.csv")),
        (0, ("key-history", place, "1")),
        (1, ("key-history", place, "77")),
        (1, ("commit", place, ABSENT)),
        (2, ("init", place, "--column", "id:int64", "--record-key", "id")),
        (2, ("import", place, f"{source}/nothing.parquet")),
        (0, ("bootstrap", source, f"{place}_new", "--record-key", "id", "--plan")),
    ]  # fmt: skip


def test_an_exit_code_means_the_same_for_every_command(location: str, tmp_path: Path) -> None:
    table = make(location, name="orders")
    table.upsert(orders((1, "a", 1.0)))
    source = tmp_path / "source"
    source.mkdir()
    pq.write_table(pa.table({"id": [1]}), source / "rows.parquet")
    before = [instant.file_name() for instant in table.timeline]
    found = results(table, str(source))
    assert {arguments[0] for _, arguments in found} == {*NAMES} - {"completion", "help"}, "every command is tried"
    for expected, arguments in found:
        done = CliRunner().invoke(main, [*arguments, "--json"])
        assert done.exit_code == expected, f"{arguments}: {done.output} {done.exception}"
        if expected != 2:
            json.loads(done.stdout)
    assert [instant.file_name() for instant in table.timeline] == before


def test_what_refuses_an_erasure_is_the_answer_of_its_plan(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    table.savepoints.create()
    for flag, code in (("--plan", 1), ("--json", 2)):
        assert CliRunner().invoke(main, ["erase", location, "--key", "1", flag]).exit_code == code


def test_the_plan_of_an_index_on_a_column_says_from_which_commit_on_writers_keep_it(location: str) -> None:
    table = make(location, options={"hoodie.metadata.enable": True})
    table.upsert(orders((1, "a", 1.0)))
    done = CliRunner().invoke(main, ["index", location, "create", "by_day", "--column", "day", "--plan"])
    assert (done.exit_code, "up to" in done.output) == (0, True), done.output


def test_a_rollback_that_was_done_ends_with_0(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    write = table.begin("upsert").write(orders((2, "a", 1.0)))
    assert write.instant is not None
    assert CliRunner().invoke(main, ["rollback", location, write.instant, "--force", "--plan"]).exit_code == 0
    done = CliRunner().invoke(main, ["rollback", location, write.instant, "--force"])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(main, ["rollback", location, write.instant]).exit_code == 1
