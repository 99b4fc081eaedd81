"""Savepoints: what they name, what they are refused for, and what they keep."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.disk import contents, data_files, files
from support.homes import context_of
from support.tables import make, orders, read_avro, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import CommitConflictError, InvalidOptionError, SnapshotExpiredError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import Action
from pyhudi_core.savepoints.savepoint_files import kept_files

SYNC = b"0123456789abcdef"


def table_of_three(location: str, **arguments: object) -> tuple[hudi.HudiTable, list[hudi.Commit]]:
    table = make(location, **arguments)
    done = [table.upsert(orders((1, "a", float(n)), (2, "b", 2.0))) for n in range(3)]
    return table, done


@pytest.mark.row("C9", "N15")
@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_a_savepoint_names_the_files_of_the_state_at_its_commit(location: str, kind: str) -> None:
    table, done = table_of_three(location, table_type=kind)
    began = context_of(table).runtime.clock.now_ms()
    made = table.savepoints.create(done[1].instant, "before the migration", "the platform team")
    state = table.snapshot(table.timeline.find(done[1].instant))
    assert made.paths == {file.path for piece in state.view.all_slices() for file in piece.files}
    assert made.paths <= set(files(location))
    assert any(".log." in path for path in made.paths) == (kind == "merge_on_read")
    instant = next(i for i in table.timeline if i.action is Action.SAVEPOINT)
    assert (instant.requested_time, instant.is_completed) == (done[1].instant, True)
    assert (instant.completion_time or "") > done[2].completion_time
    record = read_avro(table, instant, "HoodieSavepointMetadata")
    assert (record["savepointedBy"], record["comments"], record["version"]) == (
        "the platform team",
        "before the migration",
        1,
    )
    assert began <= record["savepointedAt"] <= context_of(table).runtime.clock.now_ms()
    assert list(table.savepoints) == [made]
    assert Path(location, f".hoodie/timeline/{done[1].instant}.savepoint.inflight").stat().st_size == 0
    assert table.check().ok, table.check().findings


@pytest.mark.row("C9", "N15")
def test_the_newest_commit_is_saved_once_and_its_savepoint_can_be_deleted(location: str) -> None:
    table, done = table_of_three(location)
    made = table.savepoints.create()
    assert made.instant == done[-1].instant
    assert table.savepoints.create(done[-1].instant, "again") == made
    assert kept_files(context_of(table).folder, table.timeline) == made.paths
    assert table.savepoints.delete(made.instant)
    assert not table.savepoints.delete(made.instant)
    assert len(table.savepoints) == 0
    assert not list(Path(location, ".hoodie/timeline").glob("*savepoint*"))
    assert not list(Path(location, ".hoodie/.heartbeat").iterdir())
    assert not list(Path(location, ".hoodie/.aux/.pyhudi/staged").glob("*"))
    assert rows(table, "id", "price") == [(1, 2.0), (2, 2.0)]


@pytest.mark.row("N15")
def test_a_savepoint_deletes_itself_and_no_newer_one_of_its_commit(location: str) -> None:
    table, _ = table_of_three(location)
    first = table.savepoints.create()
    assert table.savepoints.delete(first)
    second = table.savepoints.create()
    assert (second.instant, second == first) == (first.instant, False)
    assert not table.savepoints.delete(first)
    assert list(table.savepoints) == [second]
    assert table.savepoints.delete(second)


@pytest.mark.row("N15")
def test_what_is_no_completed_commit_is_refused_and_nothing_is_written(location: str) -> None:
    table, _ = table_of_three(location)
    with table.begin("upsert") as write:
        write.write(orders((9, "a", 9.0)))
        before = contents(location)
        for wrong in ("20200101000000000", "no time", str(write.instant)):
            with pytest.raises(InvalidOptionError, match="so it is no commit"):
                table.savepoints.create(wrong)
        assert contents(location) == before
    with pytest.raises(InvalidOptionError, match="no commit"):
        make(f"{location}_empty").savepoints.create()


@pytest.mark.row("N15")
def test_a_state_whose_files_are_cleaned_is_refused(location: str) -> None:
    table, done = table_of_three(location)
    first = next(path for path in data_files(location) if path.startswith("day=a") and done[0].instant in path)
    Path(location, first).unlink()
    before = contents(location)
    with pytest.raises(SnapshotExpiredError):
        table.savepoints.create(done[0].instant)
    assert contents(location) == before


@pytest.mark.row("N15")
@pytest.mark.parametrize("by_name", [False, True], ids=["as today", "as old releases write"])
def test_a_state_that_a_pending_clean_takes_files_from_is_refused(location: str, by_name: bool) -> None:
    table, done = table_of_three(location)
    first = next(path for path in data_files(location) if path.startswith("day=a") and done[0].instant in path)
    partition, _, name = first.rpartition("/")
    plan = {
        "policy": "KEEP_LATEST_COMMITS",
        "filePathsToBeDeletedPerPartition": {}
        if by_name
        else {partition: [{"filePath": f"file:/elsewhere/{first}", "isBootstrapBaseFile": False}]},
        "filesToBeDeletedPerPartition": {partition: [name]} if by_name else {},
    }
    time = done[-1].completion_time[:-1] + "9"
    path = Path(location, f".hoodie/timeline/{time}.clean.requested")
    path.write_bytes(encode_record("HoodieCleanerPlan", plan, sync_marker=SYNC))
    impatient = reopen(table, pyhudi__commit__retries=0)
    with pytest.raises(CommitConflictError, match="clean"):
        impatient.savepoints.create(done[0].instant)
    assert not list(table.savepoints)
    assert impatient.savepoints.create(done[1].instant).instant == done[1].instant, (
        "the clean takes nothing of this state"
    )
    assert name not in {name for names in impatient.savepoints.create(done[1].instant).files.values() for name in names}


@pytest.mark.row("N15")
def test_the_command_lists_makes_and_deletes_savepoints(location: str) -> None:
    table, done = table_of_three(location)

    def run(*arguments: str) -> tuple[int, str]:
        found = CliRunner().invoke(main, ["savepoint", location, *arguments])
        assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
        return found.exit_code, found.output

    code, text = run("create", "--instant", done[0].instant, "--comment", "kept [red]", "--by", "me", "--json")
    [shown] = json.loads(text)
    assert (code, shown["instant"], shown["comment"], shown["created_by"]) == (0, done[0].instant, "kept [red]", "me")
    code, text = run()
    assert code == 0
    assert done[0].instant in text
    assert "kept [red]" in text
    assert run("delete")[0] == 2
    assert run("delete", "--instant", done[0].instant)[0] == 0
    assert run("delete", "--instant", done[0].instant)[0] == 1
    assert json.loads(run("list", "--json")[1]) == []
    assert run("create", "--instant", "1")[0] == 2
    assert not list(table.savepoints)


def test_a_half_deleted_savepoint_is_named_by_the_clean_that_waits_for_it_and_by_the_doctor(location: str) -> None:
    table, done = table_of_three(location)
    table.savepoints.create(done[0].instant)
    [completed] = Path(location, ".hoodie/timeline").glob("*.savepoint")
    completed.unlink()
    kept = reopen(table, hoodie__clean__commits__retained=1)
    assert "table.savepoints.delete" in kept.cleaning.plan().why_not
    assert any("table.savepoints.delete" in finding.what_to_do for finding in table.check().findings)
    table.savepoints.delete(done[0].instant)
    assert table.check().ok
    assert kept.cleaning.run().files


@pytest.mark.parametrize("age", ["old", "of a day", "of an hour", "young"])
def test_a_savepoint_that_was_left_half_made_or_half_deleted_is_removed_by_the_repair(location: str, age: str) -> None:
    table, done = table_of_three(location)
    kept = table.savepoints.create(done[0].instant)
    table.savepoints.create(done[1].instant)
    half = next(i for i in table.timeline if i.action is Action.SAVEPOINT and i.requested_time == done[1].instant)
    folder = Path(location, ".hoodie/timeline")
    (folder / half.file_name()).unlink()
    left = folder / f"{done[1].instant}.savepoint.inflight"
    made = time.time() - {"old": 1e9, "of a day": 24 * 3600 + 60, "of an hour": 3600, "young": 0}[age]
    os.utime(left, (made, made))
    if age in ("of an hour", "young"):
        assert not table.failed_writes.plan()
        assert not table.failed_writes.run()
        assert left.exists()
        return
    plan = table.failed_writes.plan()
    assert str(plan) == f"remove the half-made savepoint of {done[1].instant}"
    assert [i.requested_time for i in table.failed_writes.run().instants] == [done[1].instant]
    assert not left.exists()
    assert list(table.savepoints) == [kept]
    assert not table.failed_writes.plan()
