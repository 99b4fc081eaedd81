"""Search completed commits, active and archived, newest first, for entries of their extra metadata.

A reader that looks for its own entry (a checkpoint, the identity of a run) skips the commits of other writers, possibly thousands. So the search is
lazy: it opens an archived file only if the file can have the next commit, compares bytes in columns, and decodes only commits that may have the
entry. The caller can stop at any commit.

Invariant: commits come strictly in the order of their completion, newest first. Each commit comes exactly once (if batches have the entry, once for
each batch), also while archival moves commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.formats.history_manifest import HistoryFile
from pyhudi_core.model.commit import READ_AS, CommitMetadata
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.model.shared_commits import holding
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.timeline.history import ArchivedTimeline, HistoryState

if TYPE_CHECKING:
    from pyhudi_core.formats.history_file import HistoryRow

_TRIES = 4


def commits_holding(
    folder: TimelineFolder, key: str, after: str = "", timeline: Timeline | None = None
) -> Iterator[tuple[Instant, CommitMetadata]]:
    """Iterate over commits that completed after a time and have an extra entry whose key begins with ``key`` (empty: all), newest first.

    A commit with batches of several writers comes once for each batch with such an entry, with the entries of that batch. ``timeline`` is the active
    one if the caller has just loaded it. Raises `CorruptTimelineError` if archived commits that completed after that time cannot be read.
    """
    # The active timeline is read before the archived one: an instant that archival moves meanwhile appears twice rather than never.
    timeline = folder.load() if timeline is None else timeline
    archived = _Archived(folder, key) if timeline.has_history else None
    seen = {instant.group for instant in timeline}
    for instant in reversed(timeline.commits.instants):
        completed = _completion(instant)
        if archived is not None:
            yield from archived.after(max(completed, after), seen)
        if completed <= after:
            return
        commit = folder.read_commit(instant)
        for found in holding(commit, key):
            yield instant, found
    if archived is not None:
        yield from archived.after(after, seen)


@dataclass(slots=True)
class _Archived:
    """The matching archived commits not returned yet, and the files not opened yet."""

    folder: TimelineFolder
    key: str
    _state: HistoryState | None = None
    _files: list[HistoryFile] = field(default_factory=list)
    _waiting: list[tuple[str, Instant, bytes]] = field(default_factory=list)
    _tries: int = 1

    def after(self, bound: str, but: set[tuple[str, Action]]) -> Iterator[tuple[Instant, CommitMetadata]]:
        """Iterate over commits that completed after ``bound``, newest first, except the instants in ``but``.

        Adds each returned instant to ``but``.
        """
        history, state = self.folder.history, self._looked()
        while True:
            try:
                if self._opened_next(history, state, bound):
                    continue
            except ObjectNotFoundError:  # a merge of archived files removed the file: another file has the same rows
                self._tries += 1
                if self._tries == _TRIES:
                    raise
                self._state, self._waiting = None, []
                state = self._looked()
                continue
            if not self._waiting or self._waiting[-1][0] <= bound:
                break
            _, instant, data = self._waiting.pop()
            if instant.group in but:
                continue
            but.add(instant.group)
            commit = CommitMetadata.from_avro(decode_record(data, READ_AS, path=history.path))
            for found in holding(commit, self.key):
                yield instant, found
        if state.problem is not None:
            raise history.lost(state)

    def _looked(self) -> HistoryState:
        if self._state is None:
            self._state = self.folder.history.state()
            self._files = sorted(self._state.files, key=lambda file: file.last, reverse=True)
        return self._state

    def _opened_next(self, history: ArchivedTimeline, state: HistoryState, bound: str) -> bool:
        """Open the newest file that can hold the next commit; False if the next commit is already decoded."""
        top = max(bound, self._waiting[-1][0] if self._waiting else "")
        file = next((file for file in self._files if history.completes_after(state, file, top)), None)
        if file is None:
            return False
        rows = history.rows_holding(state, file, self.key)
        self._files.remove(file)
        found = [
            (row.completion_time or row.requested_time, _instant(row), row.metadata) for row in rows if row.metadata
        ]
        wanted = [(time, i, data) for time, i, data in found if i is not None and i.action in DATA_ACTIONS]
        self._waiting = sorted([*self._waiting, *wanted], key=lambda one: one[0])
        return True


def _instant(row: HistoryRow) -> Instant | None:
    known = row.action in Action._value2member_map_
    return Instant(row.requested_time, Action(row.action), State.COMPLETED, row.completion_time) if known else None


def _completion(instant: Instant) -> str:
    return instant.completion_time or instant.requested_time
