"""A listing of the timeline that is older than what is known is not believed; an instant that was archived is not missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.archival import filled
from support.homes import StandingClock

import pyhudi_core as hudi
from pyhudi_core.errors import StorageError
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.archival.archival import ArchivalRules, archive
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.freshness import load_showing


class LaggingFolder:
    """A folder of the timeline whose listings show an old state for a while."""

    def __init__(self, folder: Any, old: Timeline, looks: int) -> None:
        self._folder, self._old, self._looks = folder, old, looks

    def load(self) -> Timeline:
        self._looks -= 1
        return self._old if self._looks >= 0 else self._folder.load()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._folder, name)


def lagging(table: hudi.HudiTable, old: Timeline, looks: int) -> tuple[TableContext, StandingClock]:
    context, clock = table._opened.context(), StandingClock()
    folder: Any = LaggingFolder(context.folder, old, looks)
    protocol = replace(context.protocol, runtime=replace(context.runtime, clock=clock))
    return replace(context, folder=folder, protocol=protocol), clock


@pytest.mark.parametrize("looks", [0, 1, 19])
def test_a_listing_that_lacks_a_commit_is_asked_for_again(location: str, looks: int) -> None:
    table, _ = filled(location, 1)
    old = table._opened.context().folder.load()
    table.upsert(table.scan().to_arrow())
    newest = table.timeline.commits[-1]
    context, clock = lagging(table, old, looks)
    assert load_showing(context, [newest]).find(newest.requested_time) == newest
    assert len(clock.slept) == looks


def test_a_listing_that_stays_old_is_an_error_and_nothing_is_decided_on_it(location: str) -> None:
    table, _ = filled(location, 1)
    old = table._opened.context().folder.load()
    table.upsert(table.scan().to_arrow())
    context, clock = lagging(table, old, 20)
    with pytest.raises(StorageError, match=r"did not show the newest instants in 1 s"):
        load_showing(context, [table.timeline.commits[-1]])
    assert len(clock.slept) == 19


def test_what_was_archived_or_was_never_there_is_not_waited_for(location: str) -> None:
    table, _ = filled(location, 7)
    first = table.timeline.commits[0]
    file = Path(location, ".hoodie/timeline", first.file_name())
    body = file.read_bytes()
    archive(table._opened.context(), ArchivalRules(keep_min=2, keep_max=None))
    archived = table._opened.context().folder.load()
    assert archived.find(first.requested_time) is None
    context, clock = lagging(table, archived, 1)
    never = replace(first, requested_time="20990101000000000", completion_time="20990101000000001")
    assert load_showing(context, [first, never]) is archived
    file.write_bytes(body)  # archival wrote its history, and has not removed the file yet
    context, clock = lagging(table, archived, 1)
    assert load_showing(context, [first]) is archived
    assert clock.slept == []
