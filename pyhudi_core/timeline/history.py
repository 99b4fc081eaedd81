"""Read the archived timeline in ``<timeline>/history/``: the instants that archival moved there (specification, "LSM Timeline").

The newest readable manifest counts. ``_version_`` only names the manifest that Hudi's readers read; it may be old (a process ended between the two
writes), or missing for a moment (a writer deletes and creates it again). An unreadable manifest newer than ``_version_`` was never in use and is
ignored. If the manifest in ``_version_`` is unreadable, its newest entries are lost. Then the previous manifest is read, the state records the
problem, and a look-up without a result raises an error instead of a wrong answer.

Invariants
- a file is read only when it is needed, and only if its range of times can have the answer;
- every look-up makes a new listing; cached manifests and times of data files belong to one entity tag.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from pyhudi_core.errors import CorruptionError, CorruptTimelineError, LimitExceededError, ObjectNotFoundError
from pyhudi_core.formats.history_manifest import (
    VERSION_FILE,
    HistoryFile,
    decode_manifest,
    decode_version,
    manifest_name,
    manifest_number,
)
from pyhudi_core.lazy import lazy_call
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.storage.base import ObjectInfo, Storage

if TYPE_CHECKING:
    from pyhudi_core.formats.history_file import HistoryFileReader, HistoryRow
else:
    HistoryFileReader = lazy_call("pyhudi_core.formats.history_file", "HistoryFileReader")

_log = logging.getLogger(__name__)
_TRIES = 4
_MOST_FOUND = 10_000
"""How many archived instants are remembered."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HistoryState:
    """The content of the history's folder at one moment.

    Attributes:
        number: the greatest manifest number; the next manifest has the number after it.
        version: the number in ``_version_``; None if it has none.
        files: the files of the newest readable manifest, by name.
        objects: all objects of the folder, by name.
        problem: why instants may be missing from ``files``; None if none are.
    """

    number: int
    version: int | None
    files: tuple[HistoryFile, ...]
    objects: Mapping[str, ObjectInfo]
    problem: str | None = None

    @property
    def last(self) -> str:
        """The greatest archived requested time; empty if nothing is archived."""
        return max((file.last for file in self.files), default="")


@dataclass(slots=True)
class ArchivedTimeline:
    """The archived timeline in one folder. Raises `CorruptTimelineError` if an answer depends on a file that cannot be read. ``raised``: the table
    may have been raised from version 6. Hudi's upgrade puts the times of the first and the last row into the name of a file, although the rows are
    not ordered by time. So for a file that this package did not write, the range is read from the file.
    """

    storage: Storage
    path: str
    raised: bool = False
    _manifests: dict[tuple[str, str], tuple[HistoryFile, ...]] = field(default_factory=dict)
    _times: dict[tuple[str, str], tuple[Instant, ...]] = field(default_factory=dict)
    _completions: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _found: dict[tuple[str, Action | None], Instant] = field(default_factory=dict)

    def exists(self) -> bool:
        """Say whether anything was ever archived."""
        if self.storage.head(f"{self.path}/{VERSION_FILE}") is not None:
            return True
        return bool(self.storage.list(f"{self.path}/{manifest_name(0)[:-1]}"))

    def state(self) -> HistoryState:
        """Read the pointer, list the folder, and read its newest readable manifest.

        If a file looks damaged, the folder is read again: other processes may have changed the folder while this process was paused during its
        listing.
        """
        for _ in range(_TRIES - 1):
            with suppress(ObjectNotFoundError):
                state = self._look()
                if state.problem is None:
                    return state
        state = self._look()
        if state.problem is not None:
            _log.warning("the history of %s: %s", self.storage.location, state.problem)
        return state

    def _look(self) -> HistoryState:
        # The pointer is read first: a manifest that it names is older than the listing, so the listing must show it.
        pointed, version = self._version()
        listed = {info.path.rpartition("/")[2]: info for info in self.storage.list_folder(self.path).objects}
        self._forget_gone(listed)
        numbers = sorted((n for n in map(manifest_number, listed) if n is not None), reverse=True)
        problem = None
        if version is not None and version > (numbers[0] if numbers else -1):
            problem = f"{VERSION_FILE} names manifest_{version}, which is not there"
        for number in numbers:
            try:
                files = self._manifest(listed[manifest_name(number)])
                missing = [file.name for file in files if file.name not in listed]
                if not missing:
                    state = HistoryState(numbers[0], version, files, listed, problem)
                    return replace(state, files=tuple(self._with_times(state, file) for file in files))
                found = f"manifest_{number} lists {missing[0]}, which is not there"
            except (CorruptionError, LimitExceededError) as error:
                found = str(error.message)
            if not _was_never_in_force(number, version, pointed, numbers):
                problem = problem or found
        return HistoryState(numbers[0] if numbers else 0, version, (), listed, problem)

    def _forget_gone(self, listed: Collection[str]) -> None:
        """Drop cached content of files that a merge or a newer manifest has replaced."""
        _drop_gone(self._manifests, listed)
        _drop_gone(self._times, listed)
        _drop_gone(self._completions, listed)

    # --- look-ups

    def find(self, requested_time: str, action: Action | None = None) -> Instant | None:
        """Return the archived instant with this requested time and action (by default a commit, deltacommit or replacecommit).

        Found instants are remembered, because they stay archived.
        """
        known = self._found.get((requested_time, action))
        if known is not None:
            return known

        def look(state: HistoryState) -> Instant | None:
            for instant in self._between(state, requested_time, requested_time):
                wanted = instant.action in DATA_ACTIONS if action is None else instant.action is action.completes_as
                if wanted and instant.requested_time == requested_time:
                    return instant
            return None

        found = self._ask(look, lambda found: found is None)
        if found is not None:
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            self._found[requested_time, action] = found
        return found

    def completed_at(self, requested_time: str) -> str:
        """Return the completion time of an archived commit, deltacommit or replacecommit; its requested time if it is not archived."""
        found = self.find(requested_time)
        return requested_time if found is None else found.completion_time or requested_time

    def content(self, instant: Instant) -> HistoryRow | None:
        """Return the row of an archived instant, with the bytes of its files."""

        def look(state: HistoryState) -> HistoryRow | None:
            for file in _may_hold(state.files, instant.requested_time, instant.requested_time):
                for row in self.rows(state, file, [instant.requested_time]):
                    if row.action == instant.action.completes_as:
                        return row
            return None

        return self._ask(look, lambda found: found is None)

    def contents(self, requested_times: Collection[str]) -> dict[str, HistoryRow]:
        """Return the rows, with the bytes of their files, of archived commits, deltacommits and replacecommits with these requested times."""

        def look(state: HistoryState) -> dict[str, HistoryRow]:
            found = {}
            for file in state.files:
                wanted = [time for time in requested_times if file.may_hold(time, time)]
                rows = self.rows(state, file, wanted) if wanted else []
                found.update({row.requested_time: row for row in rows if row.action in DATA_ACTIONS})
            return found

        return self._ask(look, lambda found: len(found) < len(set(requested_times)))

    def completed_between(self, after: str, until: str) -> list[Instant]:
        """Archived commits, deltacommits and replacecommits with ``after`` < completion time <= ``until``, by requested time."""

        def look(state: HistoryState) -> list[Instant]:
            chosen = [file for file in state.files if file.first <= until and self.completes_after(state, file, after)]
            instants = [instant for file in chosen for instant in self._instants(state, file)]
            return _unique(i for i in instants if i.action in DATA_ACTIONS and after < _completion(i) <= until)

        return self._ask(look, lambda _: True)

    def rows_completed_after(self, after: str) -> list[HistoryRow]:
        """Return the rows and the bytes of archived commits, deltacommits and replacecommits that completed later, in that order."""

        def look(state: HistoryState) -> list[HistoryRow]:
            files = [file for file in state.files if self.completes_after(state, file, after)]
            rows = (row for file in files for row in self.rows(state, file) if row.action in DATA_ACTIONS)
            found = {(row.requested_time, row.action): row for row in rows if _completed(row) > after}
            return sorted(found.values(), key=_completed)

        return self._ask(look, lambda _: True)

    def rows_newest_first(self, after: str) -> Iterator[HistoryRow]:
        """Iterate over the same rows, beginning with the newest file; files are opened when they are needed."""
        state = self.state()
        for file in sorted(state.files, key=lambda file: file.last, reverse=True):
            if self.completes_after(state, file, after):
                rows = (row for row in reversed(self.rows(state, file)) if row.action in DATA_ACTIONS)
                yield from (row for row in rows if _completed(row) > after)
        if state.problem is not None:
            raise self.lost(state)

    def holds(self, action: Action, after: str) -> bool:
        """Say whether an archived instant of this action completed later. Opens no content."""

        def look(state: HistoryState) -> bool:
            files = (file for file in state.files if self.completes_after(state, file, after))
            instants = (instant for file in files for instant in self._instants(state, file))
            return any(i.action is action and _completion(i) > after for i in instants)

        return self._ask(look, lambda found: not found)

    def begun_since(self, first: str) -> tuple[str, list[Instant]]:
        """Return the greatest archived requested time, and the archived commits, deltacommits and replacecommits from ``first`` on."""

        def look(state: HistoryState) -> tuple[str, list[Instant]]:
            instants = self._between(state, first, max(first, state.last))
            return state.last, _unique(i for i in instants if i.action in DATA_ACTIONS and i.requested_time >= first)

        return self._ask(look, lambda _: True)

    def newest_completion(self, until: str) -> str:
        """Return the greatest completion time of a commit at or before ``until``; empty if there is none."""

        def look(state: HistoryState) -> str:
            best = ""
            for file in sorted(state.files, key=lambda file: file.last, reverse=True):
                if file.first <= until and self.completes_after(state, file, best):
                    times = (_completion(i) for i in self._instants(state, file) if i.action in DATA_ACTIONS)
                    best = max([best, *(time for time in times if time <= until)])
            return best

        return self._ask(look, lambda _: True)

    def newest_first(self, until: str) -> Iterator[Instant]:
        """Iterate over commits that had completed at ``until``, the greatest requested time first; files are opened when they are needed."""
        state = self.state()
        reached = (file for file in state.files if file.first <= until)
        files = sorted(reached, key=lambda file: file.last, reverse=True)
        waiting: list[Instant] = []
        for number, file in enumerate(files):
            found = (i for i in self._instants(state, file) if i.action in DATA_ACTIONS and _completion(i) <= until)
            waiting = sorted({*waiting, *found})
            behind = files[number + 1].last if number + 1 < len(files) else ""
            while waiting and waiting[-1].requested_time > behind:
                yield waiting.pop()
        if state.problem is not None:
            raise self.lost(state)

    def among(self, instants: Iterable[Instant], state: HistoryState | None = None) -> set[Instant]:
        """Return which of these instants of the active timeline are archived. Never includes an instant that is not archived.

        Completed instants are matched by requested time, action and completion time, pending instants by the first two.
        """
        found = state or self.state()
        wanted = {instant for instant in instants if instant.requested_time <= found.last}
        if not wanted:
            return set()
        low, high = min(wanted).requested_time, max(wanted).requested_time
        try:
            known = set(self._between(found, low, high))
        except (CorruptTimelineError, LimitExceededError, ObjectNotFoundError) as error:
            _log.warning("the history of %s: %s", self.storage.location, error)
            return set()
        groups = {instant.group for instant in known}
        return {i for i in wanted if (i in known if i.is_completed else i.group in groups)}

    # --- files

    def rows(
        self, state: HistoryState, file: HistoryFile, requested_times: Collection[str] | None = None
    ) -> list[HistoryRow]:
        """Return rows of a data file with their bytes."""
        path = self._path(state, file)
        with self.storage.open_input(path) as source:
            return list(HistoryFileReader(source, path).rows(requested_times))

    def rows_holding(self, state: HistoryState, file: HistoryFile, text: str) -> list[HistoryRow]:
        """Return rows of a data file whose metadata may contain a text, without their plans."""
        path = self._path(state, file)
        with self.storage.open_input(path) as source:
            return list(HistoryFileReader(source, path).rows_holding(text))

    def _instants(self, state: HistoryState, file: HistoryFile) -> tuple[Instant, ...]:
        path = self._path(state, file)
        key = (file.name, state.objects[file.name].etag)
        known = self._times.get(key)
        if known is None:
            with self.storage.open_input(path) as source:
                rows = HistoryFileReader(source, path).times()
            known = self._times[key] = tuple(
                Instant(row.requested_time, Action(row.action), State.COMPLETED, row.completion_time)
                for row in rows
                if row.action in Action._value2member_map_
            )
        return known

    def _with_times(self, state: HistoryState, file: HistoryFile) -> HistoryFile:
        """Return the file with the times that are in it, if its name may be false."""
        if file.completed is not None or not (self.raised or file.has_false_name):
            return file
        found = [instant.requested_time for instant in self._instants(state, file)]
        return replace(file, times=(min(found), max(found))) if found else file

    def _between(self, state: HistoryState, first: str, last: str) -> list[Instant]:
        return [i for file in _may_hold(state.files, first, last) for i in self._instants(state, file)]

    def completes_after(self, state: HistoryState, file: HistoryFile, after: str) -> bool:
        """Say whether a file can hold a completion time after this one; read from the footer if the manifest does not have it."""
        if file.last > after:
            return True
        if file.completed is not None:
            return file.completed > after
        greatest = self._greatest(state, file)
        return greatest is None or greatest > after

    def _greatest(self, state: HistoryState, file: HistoryFile) -> str | None:
        """Return the greatest completion time in the file's footer; None if the footer has none."""
        path = self._path(state, file)
        key = (file.name, state.objects[file.name].etag)
        if key not in self._completions:
            with self.storage.open_input(path) as source:
                self._completions[key] = HistoryFileReader(source, path).greatest_completion_time()
        return self._completions[key]

    def _path(self, state: HistoryState, file: HistoryFile) -> str:
        path = f"{self.path}/{file.name}"
        if file.name not in state.objects:
            raise CorruptTimelineError("A file of the history is missing", path=path, hint="Restore it from a copy.")
        return path

    def _manifest(self, info: ObjectInfo) -> tuple[HistoryFile, ...]:
        key = (info.path, info.etag)
        known = self._manifests.get(key)
        if known is None:
            known = self._manifests[key] = decode_manifest(self.storage.get(info.path), info.path)
        return known

    def _version(self) -> tuple[bool, int | None]:
        """Return whether the pointer exists, and its number."""
        try:
            return True, decode_version(self.storage.get(f"{self.path}/{VERSION_FILE}"))
        except ObjectNotFoundError:
            return False, None  # the history does not exist, or the pointer is being replaced

    def _ask(self, look: Callable[[HistoryState], T], is_incomplete: Callable[[T], bool]) -> T:
        """Answer from the newest state; if a merge removes files meanwhile, read the newer state and try again."""
        for attempt in range(1, _TRIES + 1):
            try:
                state = self.state()
                found = look(state)
            except ObjectNotFoundError:
                if attempt == _TRIES:
                    raise
                continue
            if state.problem is not None and is_incomplete(found):
                raise self.lost(state)
            return found
        raise AssertionError("the last attempt returns or raises")

    def lost(self, state: HistoryState) -> CorruptTimelineError:
        """Return the error for an answer that depends on an unreadable file."""
        return CorruptTimelineError(
            f"The archived timeline is damaged, so the answer is not known: {state.problem}",
            table=self.storage.location,
            path=self.path,
            hint="Restore the files of the history from a copy. What is on the active timeline can be read; nothing is written until then.",
        )


def _was_never_in_force(number: int, version: int | None, pointed: bool, numbers: list[int]) -> bool:
    """Say whether a process ended while it wrote this unreadable manifest. A finished manifest has the pointer, which moves before any deletion."""
    if not pointed:
        return len(numbers) == 1  # the very first manifest
    return version is not None and version < number


def _may_hold(files: Iterable[HistoryFile], first: str, last: str) -> list[HistoryFile]:
    return [file for file in files if file.may_hold(first, last)]


def _drop_gone(kept: dict[tuple[str, str], T], listed: Collection[str]) -> None:
    for key in list(kept):  # other threads may change it meanwhile
        if key[0].rpartition("/")[2] not in listed:
            kept.pop(key, None)


def _completion(instant: Instant) -> str:
    return instant.completion_time or instant.requested_time


def _completed(row: HistoryRow) -> str:
    return row.completion_time or row.requested_time


def _unique(instants: Iterable[Instant]) -> list[Instant]:
    return sorted({instant.group: instant for instant in instants}.values())
