"""Plan a batch read or a batch of a stream: a scan of one state or a change feed, and its tasks.

A DataFrame always reads the same state of the table: the newest state at the creation of the DataFrame. The newest instant of this state identifies
it. As long as no commit was added, the newest snapshot is read, with all indexes. After a new commit, the state as of this instant is read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.schema import reconcile
from pyhudi_core.predicates import Predicate
from pyhudi_core.read.bounds import TimePoint, archived_of, interval_bound
from pyhudi_core.read.changes import ChangeFeed, ChangeReader
from pyhudi_core.read.scan import Scan
from pyhudi_core.read.tasks import Task
from pyhudi_core.spark.settings import CHANGES, INCREMENTAL, READ_OPTIMIZED, Settings
from pyhudi_core.table import HudiTable

TASK_BYTES = 32 << 20
"""Small slices are combined into one partition up to this size; a larger slice has its own partition."""

Read = Scan | ChangeFeed
_FOREVER = "99991231235959999"
_IMAGES = ("before", "after")


@dataclass(frozen=True, slots=True)
class Pinned:
    """A table at the creation of a DataFrame. ``newest`` is the latest instant of the table; None if the table had no instant."""

    settings: Settings
    newest: Instant | None

    @classmethod
    def now(cls, settings: Settings) -> Pinned:
        """Read the newest state. Raises as `open_table`."""
        commits = settings.open().timeline.commits
        return cls(settings, commits[-1] if len(commits) else None)

    def schema(self) -> pa.Schema:
        """Return the columns of a read, also of a stream; reads no data file."""
        settings, table = self.settings, self.settings.open()
        if settings.mode not in (INCREMENTAL, CHANGES) and not settings.until:
            return self._state(
                table, settings.as_of, lambda point: table.scan(settings.columns, settings.where, point)
            ).schema
        # A range without commits: only the columns are needed.
        state = self._state(
            table, settings.until, lambda point: table.incremental(point or _FOREVER, point, settings.columns)
        )
        if settings.mode != CHANGES:
            return state.schema
        known = state.snapshot.schema
        chosen = tuple(known.names if settings.columns is None else _among(settings.columns, known.names))
        return ChangeReader(chosen, known, None, state.merging).result_schema

    def read(self, mode: str, columns: tuple[str, ...]) -> Read | None:
        """Return the scan or the changes of a batch read; None if the table had no commit."""
        if self.newest is None:
            return None
        settings, table = self.settings, self.settings.open()
        if mode == CHANGES:
            return table.changes(settings.after, self._until(table, self.newest), settings.columns, settings.where)
        if mode == INCREMENTAL:
            return self._state(
                table,
                settings.until,
                lambda point: table.incremental(settings.after, point, columns, settings.where),
            )
        return self._state(
            table,
            settings.as_of,
            lambda point: table.scan(
                columns,
                settings.where,
                point,
                mode="read_optimized" if mode == READ_OPTIMIZED else "snapshot",
                refuse_pending_deletes=settings.refuse_pending_deletes,
            ),
        )

    def _state(self, table: HudiTable, point: str | None, ask: Callable[[TimePoint | None], Scan]) -> Scan:
        """Return the state at a point in time, or the pinned state if the pinned state is older. A commit that completes during the call changes
        nothing."""
        found = ask(point or self._added_since(table))
        if self.newest is None or found.completion_time <= _completed(self.newest):
            return found
        return ask(self.newest)

    def _until(self, table: HudiTable, newest: Instant) -> str:
        if not self.settings.until:
            return _completed(newest)
        utc = table.config.timeline_timezone == "UTC"
        until = interval_bound(self.settings.until, table.timeline, archived_of(table), utc=utc, name="until")
        return min(until, _completed(newest))

    def _added_since(self, table: HudiTable) -> Instant | None:
        """Return the pinned instant if later commits were added; None if the pinned instant is still the newest."""
        commits = table.timeline.commits
        return None if self.newest is None or (len(commits) and commits[-1] == self.newest) else self.newest


def stream_read(table: HudiTable, settings: Settings, mode: str, after: str, until: str) -> Read:
    """Return the read of a batch of a stream: the commits completed in (after, until]; an empty ``after`` is the table's beginning.

    It has all columns, since some columns of the stream may be newer than its rows.
    """
    if mode == CHANGES:
        return table.changes(after or None, until, None, settings.where)
    return table.incremental(after or None, until, None, settings.where)


def narrowed(read: Read, schema: pa.Schema) -> Read:
    """Limit a read to the columns of a stream that the read has, too. Reads at least one column, because a read without columns has no rows."""
    if isinstance(read, ChangeFeed):
        wanted = {field.name for name in _IMAGES if name in schema.names for field in schema.field(name).type}
        reader = read.reader
        return replace(read, reader=replace(reader, columns=_among(reader.columns, wanted) or reader.columns[:1]))
    kept = _among(schema.names, read.schema.names) or read.schema.names[:1]
    return replace(read, rows=replace(read.rows, columns=tuple(kept)), _chosen=[])


def _completed(instant: Instant) -> str:
    return instant.completion_time or instant.requested_time


def _among(names: Iterable[str], known: Container[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in known)


def with_predicate(read: Scan, predicate: Predicate | None) -> Scan:
    """Return the same scan with another condition."""
    return replace(read, rows=replace(read.rows, predicate=predicate), _chosen=[])


def tasks_of(read: Read) -> list[Task]:
    """Return the tasks of a read, each with a few small slices or one large slice."""
    return read.tasks(TASK_BYTES)


def refuse_other_types(given: pa.Schema, known: pa.Schema, table: str, *, of_older: bool = False) -> None:
    """Raise `SchemaMismatchError` if a schema has a duplicate or unknown column, or a column with another type.

    ``of_older``: also accept types from which the table's types were widened.
    """
    for item in given:
        if given.names.count(item.name) > 1:
            raise SchemaMismatchError(f"Duplicate column: {item.name!r}", table=table, hint="Give each column once.")
        found = known.field(item.name).type if item.name in known.names else None
        if found != item.type and not (of_older and found is not None and _was(item.type, found)):
            raise SchemaMismatchError(
                f"The given schema has {item.name!r} as {item.type}, the table has {found or 'no such column'}",
                table=table,
                hint="Omit schema(), or give columns of the table with their own types.",
            )


def _was(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether the table's evolution can widen one type to the other."""
    try:
        return bool(reconcile(pa.schema([("", old)]), pa.schema([("", new)])).field(0).type == new)
    except SchemaMismatchError:
        return False
