"""A commit whose completed file is lost is still a commit: readers show its rows, and no write goes over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.homes import context_of
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.model.instant import Action
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
    before = rows(table, "id", "price")
    stored = Path(location, ".hoodie/timeline", table.timeline.commits[-1].file_name()).read_bytes()
    path = lose(table)
    assert rows(reopen(table), "id", "price") == before, "a reader has the rows"
    assert not path.exists(), "a reader writes nothing"
    found = [(str(one.kind), str(one.severity)) for one in table.check().findings if one.severity != "info"]
    assert found == [("decided_not_published", "repairable")]
    reopen(table).upsert(orders((9, "a", 9.0)))
    assert path.read_bytes() == stored
    assert rows(table, "id", "price") == sorted([*before, (9, 9.0)])
    assert not [one for one in table.check().findings if one.severity != "info"]


@pytest.mark.parametrize("with_metadata_table", [False, True])
def test_an_older_commit_that_is_lost_is_refused_by_readers_and_writers(
    location: str, with_metadata_table: bool
) -> None:
    table = make(location, options={"hoodie.metadata.enable": with_metadata_table})
    for n in range(3):
        table.upsert(orders((n, "a", 1.0)))
    path = lose(table, 1)
    names = sorted(one.name for one in path.parent.iterdir())
    for use in (reopen(table).scan, lambda: reopen(table).upsert(orders((9, "a", 9.0)))):
        with pytest.raises(CorruptTimelineError, match="lost") as caught:
            use()
        assert caught.value.instant == path.name[:17]
        assert "pyhudi recover" in str(caught.value.hint)
    assert sorted(one.name for one in path.parent.iterdir()) == names


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
