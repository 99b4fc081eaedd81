"""The subcommands that look at a table, make one and load files, and the help of all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from support.disk import contents
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.cli.main import _COMMANDS, main
from pyhudi_core.table_transactions import transaction


def run(*arguments: str) -> Result:
    found = CliRunner().invoke(main, arguments)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def told(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").output)


def test_commands_that_look_tell_what_the_table_says_and_change_nothing(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)), extra_metadata={"run": "7"})
    table.delete(where="id = 1")
    before = contents(location)
    assert told("show", location)["rows"] == told("count", location)["rows"] == 1
    assert told("count", location, "--as-of", first.instant) == {"rows": 2}
    assert told("head", location, "--column", "id", "--where", "price > 1") == [{"id": 2}]
    assert [(row["column"], row["role"]) for row in told("schema", location)][:2] == [
        ("id", "record key"),
        ("day", "partition"),
    ]
    assert [row["operation"] for row in told("history", location)] == ["DELETE", "UPSERT"]
    found = told("commit", location, first.instant)
    assert found["extra_metadata"]["run"] == "7"
    assert sum(file["inserted"] for file in found["files"]) == 2
    assert [row["operation"] for row in told("timeline", location)] == ["UPSERT", "DELETE"]
    assert told("timeline", location)[0]["extra_metadata"] == {"run": "7"}
    for command in ("show", "schema", "head", "count", "history", "timeline"):
        assert run(command, location).exit_code == 0
    assert "run=7" in run("history", location).output
    assert told("commit-status", location, first.token)["status"] == "committed"
    assert run("commit", location, "20200101000000000").exit_code == 1
    assert run("count", location, "--where", "nothing = 1").exit_code == 2
    assert contents(location) == before


def test_conditions_are_in_utc_unless_a_zone_is_given(location: str) -> None:
    moment = pa.array(["2026-06-01T12:00:00Z"]).cast(pa.timestamp("us", "UTC"))
    make(location, pa.schema([("id", pa.int64()), ("at", moment.type)])).upsert(pa.table({"id": [1], "at": moment}))
    where = ("--where", "hour(at) = 8 AND at = '2026-06-01 08:00:00'")
    assert told("count", location, *where) == {"rows": 0}
    assert told("count", location, *where, "--zone", "America/New_York") == {"rows": 1}
    assert told("head", location, "--column", "id", *where, "--zone", "-04:00") == [{"id": 1}]
    assert run("count", location, *where, "--zone", "Nowhere").exit_code == 2


def test_the_state_of_a_table_is_shown_under_both_names(location: str) -> None:
    table = make(location, table_type="merge_on_read")
    table.upsert(orders((1, "a", 1.0)))
    quiet = told("show", location)
    assert [quiet[name] for name in ("pending_writes", "pending_plans", "services_due")] == [[], [], []]
    assert quiet["lock"] == "file_system:.hoodie: free"
    table.upsert(orders((1, "a", 2.0)))
    plan = table.compaction.schedule()
    assert plan is not None
    with table.begin() as write:
        write.write(orders((7, "b", 7.0)))
        session = table.savepoints.context.lock.acquire(1.0, "a test")
        found = told("status", location)
        session.release()
        assert found["pending_writes"] == [write.instant]
    assert "The lock is held by process" in found["lock"]
    assert found["pending_plans"] == [f"compaction {plan.requested_time}"]
    assert found["services_due"] == ["compaction"]
    assert "also: status" in run("show", "--help").output
    assert "status" not in main.list_commands(click.Context(main))


def test_a_statement_is_carried_out_under_both_names(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    text = f"SELECT count(*) AS n FROM hudi.`{location}`"
    assert told("query", location, text) == told("sql", location, text) == [{"n": 1}]
    assert "also: query" in run("sql", "--help").output
    assert "query" not in main.list_commands(click.Context(main))


def test_a_lock_of_a_server_is_not_asked(location: str) -> None:
    from pyhudi_core.doctor.locks import lock_state

    table = make(location, options={"hoodie.write.lock.provider": "in_process"})
    assert lock_state(table.savepoints.context).startswith("in_process:")
    assert "free" not in lock_state(table.savepoints.context)


def test_the_instants_of_a_history_are_never_cut(location: str) -> None:
    table = make(location)
    long = {f"key_{number}": "a long value " * 5 for number in range(9)}
    first = table.upsert(orders((1, "a", 1.0)), extra_metadata=long)
    second = table.alter(add={"note": pa.string()}, extra_metadata=long)
    said = run("history", location).output
    assert first.instant in said
    assert second.instant in said
    assert "latest_schema" not in said


def test_files_are_imported_into_a_table_that_is_made_for_them(tmp_path: Path) -> None:
    location = str(tmp_path / "orders")
    pq.write_table(orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)), tmp_path / "one.parquet")
    pyarrow.csv.write_csv(orders((2, "b", 20.0, 2), (3, "c", 3.0, 1)), tmp_path / "two.csv")
    made = told("import", location, str(tmp_path / "one.parquet"), "--record-key", "id", "--partition-by", "day")
    assert made["inserted"] == 2
    assert told("import", location, str(tmp_path / "two.csv"))["updated"] == 1
    shown = run("import", location, str(tmp_path / "two.csv"), "--operation", "upsert").output.splitlines()
    assert [line.split()[0] for line in shown[1:3]] == ["operation", "instant"], "one line for each fact"
    table = hudi.open_table(location)
    assert sorted(table.scan(columns=["id", "price"]).to_arrow().to_pylist(), key=str) == [
        {"id": 1, "price": 1.0}, {"id": 2, "price": 20.0}, {"id": 3, "price": 3.0},
    ]  # fmt: skip
    before = contents(location)
    (tmp_path / "bad.csv").write_text("id,day\n1,a\n")
    (tmp_path / "typed.csv").write_text("id,day,price,ts\n1,a,many,1\n")
    (tmp_path / "no.parquet").write_bytes(b"PAR0")
    for wrong, word in (
        ("bad.csv", "The data has no columns 'price' and 'ts', which the table has"),
        ("typed.csv", "values of the table's types"),
        ("no.parquet", "cannot be read"),
        ("absent.csv", "The file does not exist"),
    ):
        found = run("import", location, str(tmp_path / wrong))
        assert found.exit_code == 2
        assert word in " ".join(found.output.split())
    assert run("import", location, str(tmp_path / "two.csv"), "--record-key", "day").exit_code == 2
    turned = run("import", str(tmp_path / "two.csv"), location)
    assert turned.exit_code == 2
    assert "The table comes first, then the files" in " ".join(turned.output.split())
    assert contents(location) == before


def test_an_empty_table_is_made(location: str) -> None:
    assert told("init", location, "--column", "id:int64", "--column", "day:string", "--record-key", "id")["name"]
    assert hudi.open_table(location).schema == pa.schema([("id", pa.int64()), ("day", pa.string())])
    assert run("init", location, "--column", "id:int64").exit_code == 2
    typed = {"id": pa.int64(), "price": pa.decimal128(9, 2), "at": pa.timestamp("us", "UTC")}
    columns = [argument for name, kind in typed.items() for argument in ("--column", f"{name}:{kind}")]
    told("init", f"{location}-typed", *columns, "--record-key", "id")
    assert hudi.open_table(f"{location}-typed").schema == pa.schema(typed), "types are written as pyarrow prints them"
    assert "is not NAME:TYPE" in run("init", f"{location}-2", "--column", "id:number").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed(shell: str) -> None:
    assert "_PYHUDI_COMPLETE" in run("completion", shell).output


def test_every_command_has_help_and_its_summary_is_in_the_list() -> None:
    listed = run("--help").output
    context = click.Context(main)
    for name, (_, summary) in _COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help
        assert name in listed
        assert summary.split(",")[0].split(":")[0][:30] in " ".join(listed.split())


def test_history_says_which_tables_a_transaction_changed_and_how_many_batches_a_commit_has(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "name": ["a"]})
    orders, lines = (hudi.create_table(str(tmp_path / name), rows.schema, "id") for name in ("orders", "lines"))
    orders.upsert(rows)
    assert "shared" not in run("history", orders.location).output
    with transaction([orders, lines]) as changes:
        for table in (orders, lines):
            changes.upsert(table, rows)
    orders.upsert(rows, batch=True)
    output = " ".join(run("history", orders.location).output.split())
    assert "shared" in output
    assert "lines, orders" in output
    assert "1 batches" in output
