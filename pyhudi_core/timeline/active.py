"""The active timeline as a value, and the folder it is loaded from.

Specification, section "Timeline". Loading lists ``.hoodie/<timeline path>/`` once, passes over names that are not instants, and keeps
the highest state of each (requested time, completed action), as Hudi does. Nothing is cached between loads except the content of
completed files, which never change, and the timeline that the same names gave the last time.

An archived instant can have a completed file here: archival is deleting it, died before it did, or a process that slept through it published it
again. It has no pending file any more then, by which it is known; the history decides, and its instants do not show here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from html import escape

from pyhudi_core.errors import CorruptTimelineError, ObjectNotFoundError
from pyhudi_core.formats.avro import decode_record
from pyhudi_core.model.commit import SERVICE_OPERATIONS, CommitMetadata
from pyhudi_core.model.instant import DATA_ACTIONS, WRITE_ACTIONS, Action, Instant, State, parse_file_name
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.timeline.history import History

_SHOWN = 20
_KEPT_COMMITS = 1_000
"""So many commits' content is kept beyond what is on the active timeline, for readers of older states."""
_ONE_PAGE = 250
"""So many names a storage lists at one moment: a disk more than this, object stores a thousand."""
Names = tuple[tuple[str, ...], tuple[str, ...]]
"""Of the files and of the folders in a folder."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Instants in the order of their requested times, newest last; iterable, and filterable by action and state.

    ``has_history``: whether there was a folder for archived instants when it was loaded.
    """

    instants: tuple[Instant, ...] = ()
    has_history: bool = False

    @classmethod
    def of(cls, files: Iterable[Instant], has_history: bool = False) -> Timeline:
        """Keep the highest state of each instant."""
        best: dict[tuple[str, Action], Instant] = {}
        for instant in files:
            known = best.get(instant.group)
            if known is None or instant.rank > known.rank:
                best[instant.group] = instant
        return cls(tuple(sorted(best.values())), has_history)

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def __getitem__(self, index: int) -> Instant:
        return self.instants[index]

    def filter(self, action: Action | str | None = None, state: State | str | None = None) -> Timeline:
        """The instants of one action, one state, or both."""
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
        """Requested or inflight."""
        return Timeline(tuple(instant for instant in self.instants if instant.is_pending))

    @property
    def commits(self) -> Timeline:
        """Completed commits, deltacommits and replacecommits, in the order of their completion."""
        data = (instant for instant in self.instants if instant.is_completed and instant.action in DATA_ACTIONS)
        return Timeline(tuple(sorted(data, key=lambda instant: instant.completion_time or instant.requested_time)))

    @property
    def first_write(self) -> str | None:
        """The least requested time of a commit, deltacommit or replacecommit, pending ones included; archived ones lie before it."""
        return min((i.requested_time for i in self.instants if i.action in WRITE_ACTIONS), default=None)

    @property
    def high_water_mark(self) -> str:
        """The greatest time on the timeline, requested or completed; empty for an empty timeline."""
        return max((instant.completion_time or instant.requested_time for instant in self.instants), default="")

    def find(self, requested_time: str, action: Action | None = None) -> Instant | None:
        """The instant with this requested time (and completed action); savepoints only when they are asked for."""
        for instant in self.instants:
            if instant.requested_time != requested_time:
                continue
            if instant.action is action or (action is None and instant.action is not Action.SAVEPOINT):
                return instant
            if action is not None and instant.action.completes_as is action.completes_as:
                return instant
        return None

    def __repr__(self) -> str:
        lines = [f"Timeline of {len(self)} instants"]
        if len(self) > _SHOWN:
            lines.append(f"  ... {len(self) - _SHOWN} older")
        for instant in self.instants[-_SHOWN:]:
            done = instant.completion_time or "-"
            lines.append(f"  {instant.requested_time}  {done:17}  {instant.action:13}  {instant.state}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(i.requested_time)}</td><td>{escape(i.completion_time or '')}</td>"
            f"<td>{i.action}</td><td>{i.state}</td></tr>"
            for i in self.instants[-_SHOWN:]
        )
        head = "<tr><th>requested</th><th>completed</th><th>action</th><th>state</th></tr>"
        return f"<table>{head}{rows}</table>"


@dataclass(slots=True)
class TimelineFolder:
    """Reads the active timeline of one table; ``history_path`` is relative to it. ``utc``: its times never go back (local ones do, once a year)."""

    storage: Storage
    path: str
    history_path: str = "history"
    _commits: dict[str, CommitMetadata] = field(default_factory=dict)
    _history: History | None = None
    utc: bool = False
    _latest: tuple[Names, Timeline] | None = None

    @property
    def history(self) -> History:
        """The archived timeline."""
        if self._history is None:
            self._history = History(self.storage, f"{self.path}/{self.history_path}")
        return self._history

    def load(self) -> Timeline:
        """List the folder once."""
        listed = self._names()
        if self._latest is not None and self._latest[0] == listed:
            return self._latest[1]
        files, has_history = self._instants(listed)
        self._forget_archived(listed)
        timeline = Timeline.of(files, has_history)
        pending = {file.group for file in files if file.is_pending}
        alone = {i for i in timeline.completed if i.action in DATA_ACTIONS and i.group not in pending}
        if not (has_history and alone):
            # Only then it is a function of the names; what is archived can change under the same names.
            self._latest = (listed, timeline)
            return timeline
        archived = self.history.among(alone)
        return replace(timeline, instants=tuple(i for i in timeline if i not in archived)) if archived else timeline

    def _forget_archived(self, listed: Names) -> None:
        """Let go of the content of files that are gone: a process that writes for months would keep every commit it ever looked at."""
        if len(self._commits) > _KEPT_COMMITS + len(listed[0]):
            shown = set(listed[0])
            for path in list(self._commits):
                if _name(path) not in shown:
                    self._commits.pop(path, None)

    def files(self) -> tuple[list[Instant], bool]:
        """Every file of the active timeline, also those of archived instants; and whether there is a folder for archived ones."""
        return self._instants(self._names())

    def _names(self) -> Names:
        """The names of files and folders at one moment.

        A listing of several pages shows a later moment on each page, so it may show a commit and not another one that completed before it. What
        completed until the end of a first listing shows in a second one, whatever its pages; newer ones are left out.
        """
        first = self._listed()
        if len(first[0]) <= _ONE_PAGE:
            return first
        newest = max((i.completion_time or "" for i in self._instants(first)[0]), default="")
        names, folders = self._listed()
        parsed = ((name, parse_file_name(name)) for name in names)
        return tuple(name for name, i in parsed if i is None or (i.completion_time or "") <= newest), folders

    def _listed(self) -> Names:
        """The names as the storage lists them. A disk tells them without a look at each file, which is most of the work."""
        if isinstance(self.storage, LocalStorage):
            return self.storage.list_names(self.path)
        folder = self.storage.list_folder(self.path)
        return tuple(_name(info.path) for info in folder.objects), tuple(_name(path) for path in folder.folders)

    def _instants(self, listed: Names) -> tuple[list[Instant], bool]:
        parsed = map(parse_file_name, listed[0])
        return [instant for instant in parsed if instant is not None], self.history_path.partition("/")[0] in listed[1]

    def archived(self, timeline: Timeline, requested_time: str, action: Action | None = None) -> Instant | None:
        """The archived instant with this requested time, where the timeline, loaded before, leaves room for one."""
        return self.history.find(requested_time, action) if timeline.has_history else None

    def file(self, instant: Instant) -> str:
        """The path of the instant's file, relative to the table."""
        return f"{self.path}/{instant.file_name()}"

    def read_commit(self, instant: Instant) -> CommitMetadata:
        """The content of a completed commit, deltacommit or replacecommit; an empty file is an empty commit, as for Hudi."""
        path = self.file(instant)
        known = self._commits.get(path)
        if known is not None:
            return known
        if instant.completion_time is None:
            raise CorruptTimelineError(
                "The completed instant has no completion time in its name: the table comes from before version 8",
                table=self.storage.location,
                path=path,
                instant=instant.requested_time,
                hint="Upgrade the table to version 8 with Hudi's own tools first.",
            )
        if self.utc and instant.completion_time <= instant.requested_time:
            raise CorruptTimelineError(
                "The instant's completion time is not after its requested time, so its place among the others is not known",
                table=self.storage.location,
                path=path,
                instant=instant.requested_time,
                hint="No writer of version 8 makes such a name. Roll the table back to before it, or give the file its right name again.",
            )
        data = self._completed(instant, path)
        record = "HoodieReplaceCommitMetadata" if instant.action is Action.REPLACECOMMIT else "HoodieCommitMetadata"
        commit = CommitMetadata.from_avro(decode_record(data, record, path=path)) if data else CommitMetadata(None)
        self._commits[path] = commit
        return commit

    def _completed(self, instant: Instant, path: str) -> bytes:
        """The bytes of a completed file, wherever they are by now."""
        try:
            return self.storage.get(path)
        except ObjectNotFoundError:
            row = self.history.content(instant)
            if row is None:
                raise
            return row.metadata or b""

    def archived_commits(self, after: str) -> Iterator[CommitMetadata]:
        """What archived commits say that completed after a time, newest first; their files are opened as they are needed."""
        for row in self.history.rows_newest_first(after) if self.load().has_history else ():
            record = CommitMetadata(None).record_name(Action(row.action))
            if row.metadata:
                yield CommitMetadata.from_avro(decode_record(row.metadata, record, path=self.history.path))

    def latest_schema(self, timeline: Timeline) -> str | None:
        """Avro JSON of the newest completed commit (by requested time) that defines a schema."""
        for instant in reversed(timeline.instants):
            if instant.is_completed and instant.action in DATA_ACTIONS:
                commit = self.read_commit(instant)
                if commit.schema and commit.operation not in SERVICE_OPERATIONS:
                    return commit.schema
        return None


def _name(path: str) -> str:
    return path.rpartition("/")[2]
