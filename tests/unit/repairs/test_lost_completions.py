"""A commit whose completed file is lost is still a commit: readers show its rows, and no write goes over it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.homes import context_of
from support.tables import ORDERS, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import CorruptionError, CorruptTimelineError, TableExistsError
from pyhudi_core.model.instant import Action
from pyhudi_core.storage.memory import memory_bucket
from pyhudi_core.transaction import lost_completions
from pyhudi_core.transaction.record import record_store

KINDS = ["copy_on_write", "merge_on_read"]


def lose(table: hudi.HudiTable, number: int = -1) -> Path:
    """Delete the completed file of a commit, the newest by default."""
    path = Path(table.location, ".hoodie/timeline", table.timeline.commits[number].file_name())
    path.unlink()
    return path


@pytest.mark.parametrize("with_metadata_table", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_commit_is_read_from_the_commit_record_and_published_again(
    location: str, kind: str, with_metadata_table: bool
) -> None:
    table = make(location, table_type=kind, options={"hoodie.metadata.enable": with_metadata_table})
    for n in range(3):
        table.upsert(orders((n, "a", 1.0), (0, "a", float(n))))
    before, history, past = rows(table, "id", "price"), table.key_history(0).rows, table.history().rows
    stored = Path(location, ".hoodie/timeline", table.timeline.commits[-1].file_name()).read_bytes()
    path = lose(table)
    assert rows(reopen(table), "id", "price") == before, "a reader has the rows"
    assert reopen(table).key_history(0).rows == history
    assert reopen(table).history().rows == past
    assert [i.requested_time for i, _ in reopen(table).commits_with("")] == past.column("instant").to_pylist()
    assert not path.exists(), "a reader writes nothing"
    found = [(str(one.kind), str(one.severity)) for one in table.check().findings if one.severity != "info"]
    assert found == [("decided_not_published", "repairable")]
    reopen(table).upsert(orders((9, "a", 9.0)))
    assert path.read_bytes() == stored
    assert rows(table, "id", "price") == sorted([*before, (9, 9.0)])
    assert not [one for one in table.check().findings if one.severity != "info"]


def filled_in_memory(name: str, with_metadata_table: bool) -> hudi.HudiTable:
    """A table of three commits; its storage keeps one commit record."""
    options = {"hoodie.metadata.enable": with_metadata_table}
    table = hudi.create_table(f"memory://{name}/t", ORDERS, "id", "day", options=options)
    for n in range(3):
        table.upsert(orders((n, "a", 1.0)))
    return table


@pytest.mark.parametrize("with_metadata_table", [False, True])
def test_an_older_commit_that_is_lost_is_refused_by_readers_and_writers(with_metadata_table: bool) -> None:
    table = filled_in_memory(f"older-{with_metadata_table}", with_metadata_table)
    bucket = memory_bucket(f"older-{with_metadata_table}")
    lost = table.timeline.commits[1]
    bucket.remove(f"t/.hoodie/timeline/{lost.file_name()}")
    before = dict(bucket._objects)
    uses = (
        table.scan,
        table.history,
        lambda: list(table.commits_with("")),
        lambda: table.upsert(orders((9, "a", 9.0))),
        lambda: hudi.recover(table.location),
    )
    for use in uses:
        with pytest.raises(CorruptTimelineError, match="lost") as caught:
            use()
        assert caught.value.instant == lost.requested_time
        assert caught.value.hint
    assert bucket._objects == before
    found = [one for one in table.check().findings if one.kind == "completed_file_lost"]
    assert [one.instant for one in found] == [lost.requested_time]
    assert "pyhudi recover" in found[0].what_to_do


@pytest.mark.parametrize("number", [-1, -2, -3])
def test_a_disk_has_the_newest_commits_in_its_records(location: str, number: int) -> None:
    table = make(location)
    for n in range(3):
        table.upsert(orders((n, "a", 1.0)))
    path = lose(table, number)
    assert rows(reopen(table), "id") == [(0,), (1,), (2,)]
    hudi.recover(location)
    assert path.exists()
    with pytest.raises(TableExistsError):
        hudi.recover(location)


@pytest.mark.parametrize("left", [0, 100])
def test_a_completed_file_that_is_cut_off_is_published_again_by_recover(location: str, left: int) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    path = Path(location, ".hoodie/timeline", table.timeline.commits[-1].file_name())
    body = path.read_bytes()
    path.write_bytes(body[:left])
    os.utime(path, (0, 0))
    with pytest.raises(CorruptionError):
        rows(reopen(table))
    shown = CliRunner().invoke(main, ["recover", location])
    assert shown.exit_code == 0, shown.output
    assert path.name in shown.output.replace("\n", "")
    assert path.read_bytes() == body
    assert rows(reopen(table), "id") == [(1,)]


def test_a_rollback_does_not_undo_a_lost_commit_that_the_record_has(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    lost = table.timeline.commits[-1].requested_time
    path = lose(table)
    assert not reopen(table).rollback(lost)
    assert path.exists()
    assert rows(table, "id") == [(1,)]


def test_a_pending_write_of_another_program_is_no_lost_commit(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    folder = Path(location, ".hoodie/timeline")
    (folder / "20260101000000000.commit.requested").write_bytes(b"")
    (folder / "20260101000000000.inflight").write_bytes(b"")
    context = context_of(table)
    assert not list(lost_completions.find(context, context.folder.load()))
    assert rows(table, "id") == [(1,)]


def test_a_write_that_is_running_is_no_lost_commit(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((2, "a", 2.0)))
        assert rows(reopen(table), "id") == [(1,)]
        write.commit()
    assert rows(table, "id") == [(1,), (2,)]


def test_the_record_keeps_the_completed_file_of_commits_alone(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    context = context_of(table)
    record = record_store(context.root).read()
    assert record is not None
    assert record.last_file == context.storage.get(record.intent.publications[-1].path)
    table.savepoints.create()
    record = record_store(context.root).read()
    assert record is not None
    assert record.intent.action == str(Action.SAVEPOINT)
    assert not record.last_file
