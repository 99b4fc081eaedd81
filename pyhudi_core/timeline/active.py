"""The active timeline as a value, and the folder it is loaded from.

Specification, section "Timeline". Loading lists ``.hoodie/<timeline path>/`` once, passes over names that are not instants, and keeps
the highest state of each (requested time, completed action), as Hudi does. Nothing is cached between loads except the content of
completed files, which never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape

from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.formats.avro import decode_record
from pyhudi_core.model.commit import SERVICE_OPERATIONS, CommitMetadata
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State, parse_file_name
from pyhudi_core.storage.base import Storage

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Timeline:
    """Instants in the order of their requested times, newest last; iterable, and filterable by action and state."""

    instants: tuple[Instant, ...] = ()

    @classmethod
    def of(cls, files: Iterable[Instant]) -> Timeline:
        """Keep the highest state of each instant."""
        best: dict[tuple[str, Action], Instant] = {}
        for instant in files:
            known = best.get(instant.group)
            if known is None or instant.rank > known.rank:
                best[instant.group] = instant
        return cls(tuple(sorted(best.values())))

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
            )
        )

    @property
    def completed(self) -> Timeline:
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
    """Reads the active timeline of one table."""

    storage: Storage
    path: str
    _commits: dict[str, CommitMetadata] = field(default_factory=dict)

    def load(self) -> Timeline:
        """List the folder once."""
        parsed = (parse_file_name(info.path.rpartition("/")[2]) for info in self.storage.list_folder(self.path).objects)
        return Timeline.of(instant for instant in parsed if instant is not None)

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
        data = self.storage.get(path)
        record = "HoodieReplaceCommitMetadata" if instant.action is Action.REPLACECOMMIT else "HoodieCommitMetadata"
        commit = CommitMetadata.from_avro(decode_record(data, record, path=path)) if data else CommitMetadata(None)
        self._commits[path] = commit
        return commit

    def latest_schema(self, timeline: Timeline) -> str | None:
        """Avro JSON of the newest completed commit (by requested time) that defines a schema."""
        for instant in reversed(timeline.instants):
            if instant.is_completed and instant.action in DATA_ACTIONS:
                commit = self.read_commit(instant)
                if commit.schema and commit.operation not in SERVICE_OPERATIONS:
                    return commit.schema
        return None
