"""The search of archived commits: newest first, each once, and only those that hold the entry and completed late enough."""

from __future__ import annotations

import pytest
from support.history import FOLDER, flush, instant, row, time, writer_on

from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.timeline.commit_search import commits_holding


def archived(number: int, key: str, completed: int | None = None) -> HistoryRow:
    commit = CommitMetadata("upsert", extra={key: str(number)})
    name = commit.record_name(Action.COMMIT)
    found = row(number, completed=completed)
    data = encode_record(name, commit.to_avro(Action.COMMIT), sync_marker=bytes(16))
    return HistoryRow(found.requested_time, found.completion_time, found.action, data)


@pytest.fixture
def folder(storage: Storage) -> TimelineFolder:
    """Two archived files, whose commits come in turns, and one commit that completed last though it began first."""
    writer = writer_on(storage)
    flush(
        writer, archived(0, "mine.late", completed=99), archived(1, "mine"), archived(3, "other"), archived(5, "mine")
    )
    flush(writer, archived(2, "mine.too"), archived(4, "mine"), row(6, "clean"))
    return TimelineFolder(storage, FOLDER)


@pytest.mark.timeout(30)
def test_archived_commits_come_in_the_order_of_their_completion_the_newest_first(folder: TimelineFolder) -> None:
    found = list(commits_holding(folder, "mine"))
    assert [one for one, _ in found] == [instant(0, completed=99), *map(instant, (5, 4, 2, 1))]
    assert [list(commit.extra.values()) for _, commit in found] == [["0"], ["5"], ["4"], ["2"], ["1"]]
    assert [one for one, _ in commits_holding(folder, "")] == [instant(0, completed=99), *map(instant, (5, 4, 3, 2, 1))]


@pytest.mark.timeout(30)
def test_a_search_ends_with_the_last_commit_that_completed_after_its_bound(folder: TimelineFolder) -> None:
    assert [one for one, _ in commits_holding(folder, "mine", time(45))] == [instant(0, completed=99), instant(5)]
    assert [one for one, _ in commits_holding(folder, "mine", time(44))][2:] == [instant(4)]
    assert list(commits_holding(folder, "mine", time(99))) == []
    assert list(commits_holding(folder, "nobody's")) == []
