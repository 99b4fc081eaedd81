"""Rows, instants and writers of an archived timeline, by small numbers."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.formats.history_manifest import HistoryFile
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.history import ArchivedTimeline
from pyhudi_core.timeline.history_writing import HistoryWriter
from pyhudi_core.transaction.publication import create_once

FOLDER = "timeline"
PATH = f"{FOLDER}/history"


def time(number: int) -> str:
    return f"2026010100{number:07d}"


def row(number: int, action: str = "commit", completed: int | None = None) -> HistoryRow:
    """A row with a requested time of ``number * 10``; by default it completes 5 later."""
    return HistoryRow(time(number * 10), time(completed or number * 10 + 5), action, b"metadata %d" % number)


def instant(number: int, action: Action = Action.COMMIT, completed: int | None = None) -> Instant:
    return Instant(time(number * 10), action, State.COMPLETED, time(completed or number * 10 + 5))


def nonces() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"nonce {number}"


def writer_on(storage: Storage) -> HistoryWriter:
    source = nonces()
    return HistoryWriter(ArchivedTimeline(storage, PATH), create_once, lambda: next(source))


def flush(writer: HistoryWriter, *rows: HistoryRow) -> HistoryFile:
    state = writer.history.state()
    added = writer.add(sorted(rows, key=lambda r: r.requested_time), state)
    assert writer.decide(state, [*state.files, added])
    return added


def names(storage: Storage) -> list[str]:
    return [info.path.rpartition("/")[2] for info in storage.list(f"{PATH}/")]
