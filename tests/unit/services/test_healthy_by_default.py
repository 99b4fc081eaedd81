"""A table whose user sets nothing stays small: commits clean and compact, and after each commit one service works."""

from __future__ import annotations

import pytest
from support.cleanings import cleans
from support.tables import make, orders, rows

from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.services import registry
from pyhudi_core.services.registry import SERVICES
from pyhudi_core.services.service import TableService, Turn

PLAIN = {"hoodie.metadata.enable": "false"}


def test_commits_clean_after_ten_commits_and_the_first_clean_says_so(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(location, options=PLAIN)
    first = table.upsert(orders((1, "a", 0.0)))
    for number in range(1, 13):
        table.upsert(orders((1, "a", float(number))))
    assert len(cleans(table)) == 1
    assert caplog.text.count("its first clean deleted") == 1
    with pytest.raises(SnapshotExpiredError):
        table.scan(as_of=first).to_arrow()
    recent = [rows(table.scan(as_of=i), "price") for i in table.timeline.commits.instants[-10:]]
    assert recent == [[(float(number),)] for number in range(3, 13)]


def test_a_clean_that_finds_no_old_file_is_noted_so_that_the_next_commits_do_not_look_again(location: str) -> None:
    table = make(location, options=PLAIN)
    for number in range(14):
        table.upsert(orders((number, f"day{number}", 1.0)))
    assert len(cleans(table)) == 1
    assert table.count() == 14


def test_a_slice_with_many_logs_is_compacted_by_a_commit(location: str) -> None:
    table = make(location, options=PLAIN, table_type="mor")
    for number in range(18):
        table.upsert(orders((1, "a", float(number))))
    assert [i.action.value for i in table.timeline.commits].count("commit") == 1
    assert rows(table, "id", "price") == [(1, 17.0)]


def test_older_states_and_logs_stay_if_the_options_say_so(location: str) -> None:
    off = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}
    table = make(location, options={**PLAIN, **off}, table_type="mor")
    for number in range(18):
        table.upsert(orders((1, "a", float(number))))
    assert {i.action.value for i in table.timeline} == {"deltacommit"}


def test_a_service_can_wait_if_another_one_has_worked_after_the_same_commit(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    assert (Turn(busy=True).waits(10), Turn(busy=True).waits(1), Turn().waits(10)) == (5, 0, 0)

    def works(self: TableService, turn: Turn) -> bool:  # type: ignore[type-arg]
        seen.append(turn.waits(10))
        return self.name == "metadata_compaction"

    for kind in SERVICES:
        monkeypatch.setattr(kind, "after_commit", works)
    registry.after_commit(make(location)._opened.context(), Turn())
    assert seen[0] == 0
    assert set(seen[-2:]) == {5}
