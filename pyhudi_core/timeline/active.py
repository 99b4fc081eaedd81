"""The active timeline as a value, and its folder.

Specification, section "Timeline". Loading lists ``.hoodie/<timeline path>/`` once, ignores names that are not instants, and keeps
the highest state of each (requested time, completed action), as Hudi does. Between loads only two things are cached: the content of
completed files, which never change, and the timeline made from the same names by the previous load.

On a disk, Hudi creates a completed file and writes its content afterwards. For a moment the file is empty or incomplete. `read_commit` waits until
the content is complete, and never caches an empty file. Otherwise a reader would see an empty commit and miss its rows, and a writer would rewrite
older files and lose these rows.

An archived instant can still have a completed file here: archival has not deleted the file yet, or a delayed process has published it again. Such an
instant is known by its missing pending files. The active timeline omits it, because the archived timeline decides. The active timeline also omits
instants that a restore undoes (``timeline/restored.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from pyhudi_core.errors import CorruptionError, CorruptTimelineError, ObjectNotFoundError, SnapshotExpiredError
from pyhudi_core.lazy import lazy_call
from pyhudi_core.model.commit import READ_AS, CommitMetadata
from pyhudi_core.model.instant import COMPLETES_AS, DATA_ACTIONS, WRITE_ACTIONS, Action, Instant, State
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.naming import set_module
from pyhudi_core.runtime.base import Clock, Executor
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.storage.at_once import each
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.settled_files import SettledFiles
from pyhudi_core.timeline import restored
from pyhudi_core.timeline.history import ArchivedTimeline
from pyhudi_core.timeline.layouts import LAYOUT_TWO, Names, TimelineLayout

if TYPE_CHECKING:
    from pyhudi_core.formats.avro.container import decode_record
    from pyhudi_core.timeline.layout_one.layout import LayoutOne
else:
    LayoutOne = lazy_call("pyhudi_core.timeline.layout_one.layout", "LayoutOne")
    decode_record = lazy_call("pyhudi_core.formats.avro.container", "decode_record")

_SHOWN = 20
_TIME_AND_ACTION = attrgetter("requested_time", "action")
_KEPT_COMMITS = 1_000
"""Number of commits whose content is cached in addition to the active timeline, for readers of older states."""
_BEING_WRITTEN_S = 5.0
"""A completed file that is younger than this may still be written by Hudi."""
_POLL_S = 0.02
_LOOKS = 10
_ONE_PAGE = 250
"""How many names a storage lists in one atomic call: a disk more than this, object stores a thousand."""


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Timeline:
    """Instants ordered by requested time, newest last; iterable, and filterable by action and state.

    ``has_history``: whether the folder of archived instants existed at loading. ``unsettled``: the requested time after which commits may still
    appear between the listed ones; None if none can (`TimelineLayout.first_unsettled`).
    """

    instants: tuple[Instant, ...] = ()
    has_history: bool = False
    unsettled: str | None = None

    @classmethod
    def of(cls, files: Iterable[Instant], has_history: bool = False) -> Timeline:
        """Build a timeline with the highest state of each instant."""
        best: dict[tuple[str, Action], Instant] = {}
        for instant in files:
            action = instant.action
            group = (instant.requested_time, COMPLETES_AS.get(action, action))
            known = best.get(group)
            if known is None or instant.rank > known.rank:
                best[group] = instant
        # No two instants have the same time and action.
        return cls(tuple(sorted(best.values(), key=_TIME_AND_ACTION)), has_history)

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def __getitem__(self, index: int) -> Instant:
        return self.instants[index]

    def filter(self, action: Action | str | None = None, state: State | str | None = None) -> Timeline:
        """Return the instants of one action, one state, or both."""
        return Timeline(
            tuple(
                instant
                for instant in self.instants
                if (action is None or instant.action == action) and (state is None or instant.state == state)
            ),
            self.has_history,
        )

    @property
    def completed(self) -> Timeline:
        """Completed instants of every action."""
        return Timeline(tuple(instant for instant in self.instants if instant.is_completed))

    @property
    def pending(self) -> Timeline:
        """Requested and inflight instants."""
        return Timeline(tuple(instant for instant in self.instants if instant.is_pending))

    @property
    def commits(self) -> Timeline:
        """Completed commits, deltacommits and replacecommits, ordered by completion."""
        done = State.COMPLETED
        data = [instant for instant in self.instants if instant.state is done and instant.action in DATA_ACTIONS]
        return Timeline(tuple(sorted(data, key=_completion)))

    @property
    def newest_completion(self) -> str:
        """Return the completion time of the newest of the `commits`; empty if there are none."""
        return max((instant.completion_time or "" for instant in self.commits), default="")

    @property
    def settled_commits(self) -> tuple[Instant, ...]:
        """The `commits` before the first position at which another commit may still appear. A reader of changes that continues after them misses no
        commit.
        """
        return tuple(i for i in self.commits if self.unsettled is None or i.requested_time < self.unsettled)

    @property
    def first_write(self) -> str | None:
        """The smallest requested time of a commit, deltacommit or replacecommit, pending ones included. Archived commits are older."""
        return min((i.requested_time for i in self.instants if i.action in WRITE_ACTIONS), default=None)

    @property
    def high_water_mark(self) -> str:
        """The greatest time on the timeline, requested or completed; empty for an empty timeline."""
        return max((instant.completion_time or instant.requested_time for instant in self.instants), default="")

    def find(self, requested_time: str, action: Action | None = None) -> Instant | None:
        """Return the instant with this requested time (and completed action). Savepoints are found only if their action is given."""
        for instant in self.instants:
            if instant.requested_time != requested_time:
                continue
            if instant.action is action or (action is None and instant.action is not Action.SAVEPOINT):
                return instant
            if action is not None and instant.action.completes_as is action.completes_as:
                return instant
        return None

    def __repr__(self) -> str:
        newest = f", newest {self.instants[-1].action} {self.instants[-1].requested_time}" if self.instants else ""
        return f"Timeline of {len(self):,} instants, {len(self.pending):,} pending{newest}"

    def __str__(self) -> str:
        lines = [f"Timeline of {len(self)} instants"]
        if len(self) > _SHOWN:
            lines.append(f"  ... {len(self) - _SHOWN} older")
        for instant in self.instants[-_SHOWN:]:
            done = instant.completion_time or "-"
            lines.append(f"  {instant.requested_time}  {done:17}  {instant.action:13}  {instant.state}")
        return "\n".join(lines)

    def _shown(self) -> list[dict[str, object]]:
        """Return the instants to print, the newest first."""
        return [
            {"requested": i.requested_time, "completed": i.completion_time, "action": i.action, "state": i.state}
            for i in reversed(self.instants)
        ]


@dataclass(slots=True)
class TimelineFolder:
    """Reads the active timeline of one table.

    ``history_path`` is relative to it; ``layout`` says how both are stored; for ``raised`` see `ArchivedTimeline`. ``utc``: whether the times are in
    UTC, so that they never go back (local times go back once a year). ``clock`` waits for completed files that another process is still writing;
    without a clock they are read at once. ``executor`` makes independent calls concurrently. ``latest`` is the result of the last `load`, ``listed``
    the names from its listing, and ``undone`` the requested times that it omitted because restores name them. Two caches have the lifetime of a
    handle: ``settled_files`` for listings of the table's data, and ``small_files`` for files of the metadata table's list of files, by path, each
    with its tag.
    """

    storage: Storage
    path: str
    history_path: str = "history"
    raised: bool = False
    layout: TimelineLayout = LAYOUT_TWO
    _commits: dict[str, CommitMetadata] = field(default_factory=dict)
    _history: ArchivedTimeline | None = None
    utc: bool = False
    clock: Clock | None = None
    executor: Executor = SerialExecutor()
    _parsed: tuple[Names, Timeline] | None = None
    latest: Timeline | None = None
    listed: Names = ((), ())
    undone: frozenset[str] = frozenset()
    _restores: dict[str, frozenset[str]] = field(default_factory=dict)
    settled_files: SettledFiles = field(default_factory=SettledFiles)
    small_files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    _below: dict[str, TimelineFolder] = field(default_factory=dict)
    _own: tuple[str, bytes] = ("", b"")
    _held: list[Names] | None = None

    @classmethod
    def of(
        cls, storage: Storage, config: TableConfig, clock: Clock | None = None, executor: Executor | None = None
    ) -> TimelineFolder:
        """Return the timeline folder of the table with these properties, in the layout that the properties name."""
        utc, path = config.timeline_timezone == "UTC", config.timeline_folder
        layout = LayoutOne() if config.timeline_layout == 1 else LAYOUT_TWO
        calls = executor or SerialExecutor()
        return cls(storage, path, config.history_path, config.was_raised, layout, utc=utc, clock=clock, executor=calls)

    @property
    def history(self) -> ArchivedTimeline:
        """The archived timeline."""
        if self._history is None:
            self._history = self.layout.history(self.storage, f"{self.path}/{self.history_path}", self.raised)
        return self._history

    def below(self, table: str) -> TimelineFolder:
        """Return the timeline folder of a table inside this one, in the same layout, with its cache."""
        own, history = self.layout.in_table
        path = f"{table}/{own}"
        made = TimelineFolder(self.storage, path, history, layout=self.layout, executor=self.executor)
        return self._below.setdefault(path, made)

    def load(self) -> Timeline:
        """List the folder once."""
        self.latest = self._load()
        return self.latest

    def hold(self) -> None:
        """List the folder once at most from now on, so that all questions are about one state. Nothing may be written with this object."""
        self._held = []

    def _load(self) -> Timeline:
        listed = self._names()
        if self._parsed is not None and self._parsed[0] == listed:
            return self._parsed[1]
        files, has_history = self._instants(listed)
        files = self._not_undone(files)
        self._forget_archived(listed)
        timeline = Timeline.of(files, has_history)
        if unsettled := self.layout.first_unsettled(timeline):
            timeline = replace(timeline, unsettled=unsettled)
        alone = _without_pending_file(timeline, files) if has_history else set()
        if not alone:
            # Only then does the result depend on the names alone: instants can be archived without a change of the names.
            self._parsed = (listed, timeline)
            return timeline
        archived = self.history.among(alone)
        return replace(timeline, instants=tuple(i for i in timeline if i not in archived)) if archived else timeline

    def _not_undone(self, files: list[Instant]) -> list[Instant]:
        """Return the files of instants that no restore names. A restore's plan does not change, so each is read once."""
        found = restored.begun(files)
        self.undone = frozenset[str]().union(*map(self._named_by, found.values()))
        return [file for file in files if not restored.is_undone(file, self.undone)] if self.undone else files

    def undone_by_restores(self) -> Mapping[str, frozenset[str]]:
        """Return the requested times that each restore undoes, by the requested time of the restore. Lists the folder."""
        self.load()
        return dict(self._restores)

    def _named_by(self, restore: Instant) -> frozenset[str]:
        known = self._restores.get(restore.requested_time)
        if known is None:
            plan = Instant(restore.requested_time, Action.RESTORE, State.REQUESTED)
            completed = self.file(restore) if restore.is_completed else None
            known = restored.named_by(self.storage, self.file(plan), completed)
            self._restores[restore.requested_time] = known
        return known

    def _forget_archived(self, listed: Names) -> None:
        """Drop the cached content of deleted files, so that a process that writes for months does not keep every commit it ever read."""
        if len(self._commits) > _KEPT_COMMITS + len(listed[0]):
            shown = set(listed[0])
            for path in list(self._commits):
                if path.rpartition("/")[2] not in shown:
                    self._commits.pop(path, None)

    def files(self) -> tuple[list[Instant], bool]:
        """Return every file of the active timeline, including those of archived and undone instants, and whether the folder of the archived timeline
        exists.
        """
        return self._instants(self._names())

    def _names(self) -> Names:
        """Return the names of files and folders now, or at the moment of the first question after `hold`."""
        if self._held is None:
            return self._names_now()
        if not self._held:
            self._held.append(self._names_now())
        return self._held[0]

    def _names_now(self) -> Names:
        """Return the names of files and folders at one moment.

        Each page of a long listing shows a later moment, so a listing may show a commit without a commit that completed before it. A second
        listing shows everything that had completed by the end of the first, on whatever page; newer instants are omitted.
        """
        first = self.listed = self._listed()
        if len(first[0]) <= _ONE_PAGE:
            return first
        newest = max((i.completion_time or "" for i in self._instants(first)[0]), default="")
        names, folders = self._listed()
        parsed = ((name, self.layout.parse(name)) for name in names)
        return tuple(name for name, i in parsed if i is None or (i.completion_time or "") <= newest), folders

    def _listed(self) -> Names:
        """Return the names as the storage lists them.

        Raises `CorruptTimelineError` if an instant is a folder; otherwise its commit would be missing silently.
        """
        names, folders = self.storage.list_names(self.path)
        for folder in folders:
            if folder not in names and self.layout.parse(folder) is not None:
                raise CorruptTimelineError(
                    "An instant of the timeline is a folder",
                    table=self.storage.location,
                    path=f"{self.path}/{folder}",
                    hint="Remove the folder, and restore the file from a copy.",
                )
        return names, folders

    def _instants(self, listed: Names) -> tuple[list[Instant], bool]:
        found = self.layout.instants(self.storage, self.path, listed)
        return found, self.history_path.partition("/")[0] in listed[1]

    def archived(self, timeline: Timeline, requested_time: str, action: Action | None = None) -> Instant | None:
        """Return the archived instant with this requested time; None if there is none. If the loaded timeline shows this, there is no search."""
        return self.history.find(requested_time, action) if timeline.has_history else None

    def file(self, instant: Instant) -> str:
        """Return the path of the instant's file, relative to the table."""
        return f"{self.path}/{self.layout.file_name(instant)}"

    def read_commit(self, instant: Instant) -> CommitMetadata:
        """Read a completed commit, deltacommit or replacecommit; an empty file is an empty commit, as for Hudi."""
        path = self.file(instant)
        known = self._commits.get(path)
        if known is not None:
            return known
        self.layout.refuse_false_time(instant, self.storage.location, path, utc=self.utc)
        commit = self._written(instant, path)
        if commit is None:
            return CommitMetadata(None)
        self._commits[path] = commit
        return commit

    def read_commits(self, instants: Iterable[Instant]) -> None:
        """Read these commits concurrently, so that later calls of `read_commit` find them in the cache. Raises as `read_commit`."""
        unknown = self.unread(instants)
        if self.storage.capabilities.parallel_calls > 1 and len(unknown) > 1:
            each(self.storage, self.executor, self.read_commit, unknown)

    def unread(self, instants: Iterable[Instant]) -> list[Instant]:
        """Return the instants whose files this handle has not read."""
        return [instant for instant in instants if self.file(instant) not in self._commits]

    def keep(self, instant: Instant, body: bytes) -> None:
        """Use these bytes as the content of a completed instant whose file is lost."""
        path = self.file(instant)
        self._commits[path] = self.layout.decode(body, instant, path)

    def published(self, instant: Instant, body: bytes) -> None:
        """Remember the file of a completed instant that this process has just created. Then it need not be read from a network storage."""
        if self.storage.capabilities.parallel_calls > 1:
            self._own = (self.file(instant), body)

    def _written(self, instant: Instant, path: str) -> CommitMetadata | None:
        """Return the content of a completed file, after a wait if another process still writes it; None if the file stays empty."""
        started = self.clock.monotonic() if self.clock is not None else 0.0
        seen, looks = -1, 0
        while True:
            data = self._completed(instant, path)
            if not data:
                if not self._being_written(path, started):
                    self._refuse_emptied(instant, path)
                    return None
                continue
            try:
                return self.layout.decode(data, instant, path)
            except CorruptionError:
                # A file that stops growing is damaged.
                seen, looks = len(data), looks + 1 if len(data) == seen else 1
                if looks == _LOOKS or not self._being_written(path, started):
                    raise

    def _refuse_emptied(self, instant: Instant, path: str) -> None:
        """Raise `CorruptTimelineError` for an empty file of an instant that began with content: no writer completes such an instant with an empty
        file.
        """
        infos = [self.storage.head(self.file(begun)) for begun in _begun(instant)]
        if any(info is not None and info.size for info in infos):
            raise CorruptTimelineError(
                "The completed file of a commit is empty, so its files are not known",
                table=self.storage.location,
                path=path,
                instant=instant.requested_time,
                hint="Run `pyhudi recover LOCATION`, which publishes it again or says what is missing. Nothing was changed.",
            )

    def _being_written(self, path: str, started: float) -> bool:
        """Wait a moment if an incomplete file is so young that another process may still write it. Return whether it is that young."""
        if self.clock is None or self.clock.monotonic() - started > _BEING_WRITTEN_S:
            return False
        info = self.storage.head(path)
        if info is None or self.clock.now_ms() - info.modified_ms > 1000 * _BEING_WRITTEN_S:
            return False
        self.clock.sleep(_POLL_S)
        return True

    def _completed(self, instant: Instant, path: str) -> bytes:
        """Return the bytes of a completed file, which may be archived by now.

        Raises `SnapshotExpiredError` if the file is neither active nor archived.
        """
        own, body = self._own
        if path == own:
            return body
        try:
            return self.storage.get(path)
        except ObjectNotFoundError as error:
            row = self.history.content(instant)
            if row is None:
                raise SnapshotExpiredError(
                    "The commit is gone: a rollback or a restore undid it after the timeline was read",
                    table=self.storage.location,
                    path=path,
                    instant=instant.requested_time,
                    hint="Do it again: it begins with the table as it is now.",
                ) from error
            return row.metadata or b""

    def archived_commits(self, after: str) -> Iterator[CommitMetadata]:
        """Iterate over archived commits that completed after a time, newest first; each file is opened when it is needed."""
        for row in self.history.rows_newest_first(after) if self.load().has_history else ():
            if row.metadata:
                yield CommitMetadata.from_avro(decode_record(row.metadata, READ_AS, path=self.history.path))

    def latest_schema(self, timeline: Timeline) -> str | None:
        """Return the Avro JSON of the newest completed commit (by requested time) that has a schema."""
        for instant in reversed(timeline.instants):
            if instant.is_completed and instant.action in DATA_ACTIONS:
                commit = self.read_commit(instant)
                if commit.schema and commit.operation not in SERVICE_OPERATIONS:
                    return commit.schema
        return None


def _begun(instant: Instant) -> Iterator[Instant]:
    """Yield the pending files that can belong to a completed instant."""
    for action in WRITE_ACTIONS:
        if action.completes_as is instant.action:
            yield from (Instant(instant.requested_time, action, state) for state in (State.REQUESTED, State.INFLIGHT))


def _completion(instant: Instant) -> str:
    return instant.completion_time or instant.requested_time


def _without_pending_file(timeline: Timeline, files: Iterable[Instant]) -> set[Instant]:
    """Return the completed instants of data without a requested or inflight file."""
    done = State.COMPLETED
    begun = {(i.requested_time, COMPLETES_AS.get(i.action, i.action)) for i in files if i.state is not done}
    data = (i for i in timeline.instants if i.state is done and i.action in DATA_ACTIONS)
    return {i for i in data if (i.requested_time, i.action) not in begun}
