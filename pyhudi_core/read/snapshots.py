"""The states from which reads start: the newest state, or the state at a time, an instant or a token; and the scan of a state."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.errors import (
    CorruptionError,
    InvalidOptionError,
    LimitExceededError,
    ObjectNotFoundError,
    SchemaMismatchError,
    SnapshotExpiredError,
    UnsupportedTableError,
    columns_named,
)
from pyhudi_core.metadata_table.names import FILES
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.meta_fields import OPERATION, with_meta_fields
from pyhudi_core.model.snapshot_token import SnapshotToken
from pyhudi_core.opened_table.table_context import METADATA_TABLE, TableContext
from pyhudi_core.predicates import Predicate
from pyhudi_core.read.bounds import Archived, TimePoint, completion_bound, token_of
from pyhudi_core.read.expired import naming_clean, to_keep_files
from pyhudi_core.read.retention import refuse_cleaned, refuse_forgotten
from pyhudi_core.read.row_filter import RowFilter
from pyhudi_core.read.scan import Scan
from pyhudi_core.snapshot.snapshot import Beside, Snapshot, build
from pyhudi_core.storage.at_once import both
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.lost_files import newest_policy
from pyhudi_core.transaction import lost_completions
from pyhudi_core.transaction.begin import metadata_timeline, timelines_of

Columns = Sequence[str] | None


@dataclass(frozen=True, slots=True)
class StateSeen:
    """The state of a table that a read has loaded: its timeline, and its metadata table."""

    timeline: Timeline
    beside: Beside | None


def look(context: TableContext) -> StateSeen:
    """Read the timelines of a table concurrently. Raises as `snapshot`."""
    storage, executor = context.root, context.runtime.executor
    network = storage.capabilities.parallel_calls > 1
    lists = network and any(place.prefix == METADATA_TABLE for place in context.companions)
    timelines, files = both(
        storage,
        executor,
        lambda: timelines_of(context) if lists else (context.folder.load(),),
        lambda: storage.list_folder(f"{METADATA_TABLE}/{FILES}").objects if lists else None,
    )
    own = metadata_timeline(context, timelines[1:])
    return StateSeen(lost_completions.restored(context, timelines[0]), None if own is None else Beside(own, files))


def snapshot(context: TableContext, as_of: TimePoint | None = None, seen: StateSeen | None = None) -> Snapshot:
    """Return the table's current state, or the state at a time, an instant or a token. ``seen``: the state that the caller has just loaded.

    Raises `SnapshotExpiredError` if files of an older state are missing, or if the time is before everything known, and `CorruptTimelineError` if the
    completed file of a commit is lost, and the commit record does not have it.
    """
    seen = look(context) if seen is None else seen
    timeline = seen.timeline

    def archived(requested_time: str) -> Instant | None:
        return context.folder.archived(timeline, requested_time)

    token = token_of(as_of)
    if token is not None:
        bound: str | None = token.completion_time
    else:
        bound = None if as_of is None else completion_bound(as_of, timeline, archived, utc=context.utc)
    by_name = context.protections.admission_by_name
    found = build(
        context.storage,
        context.folder,
        context.config,
        timeline,
        bound,
        by_name=by_name,
        executor=context.runtime.executor,
        beside=seen.beside,
    )
    if token is not None and token_for(found) != token:
        raise SnapshotExpiredError(
            f"The state {token} no longer exists: some of its files were cleaned, or commits of it were rolled back",
            table=context.table,
            hint=f"Read the newest state. {to_keep_files(newest_policy(context.folder) or '')}",
        )
    if token is None:
        refuse_forgotten(found, context.table)
    with naming_clean(context.folder):
        refuse_cleaned(found, context.table)
    return found


def token_for(state: Snapshot) -> SnapshotToken:
    """Return the token of a state; lists every partition."""
    paths: list[str] = []
    for piece in state.view.all_slices():
        paths.extend(() if piece.base is None else (piece.base.path,))
        paths.extend(log.path for log in piece.logs)
    return SnapshotToken.naming(state.completion_time, paths)


def archived_between(context: TableContext, state: Snapshot, lower: str) -> Iterable[str]:
    """Return the requested times of archived commits that completed after ``lower`` and within the snapshot's bound."""
    upper = state.visibility.completed_until
    if not state.timeline.has_history or lower >= upper:
        return ()
    with _needing_history(context, lower, max(upper, lower)):
        return [i.requested_time for i in context.folder.history.completed_between(lower, upper)]


def search_archived(context: TableContext, timeline: Timeline) -> Archived:
    """Return the search for the instants at the ends of an interval. It raises as `archived_between`."""

    def search(time: str) -> Instant | None:
        commits = timeline.commits
        newest = commits[-1].completion_time if len(commits) else None
        with _needing_history(context, time, newest or time):
            return context.folder.archived(timeline, time)

    return search


@contextmanager
def _needing_history(context: TableContext, lower: str, newest: str) -> Iterator[None]:
    """Raise `SnapshotExpiredError` if commits are needed that only the archived timeline has, and it cannot be read."""
    try:
        yield
    except (CorruptionError, LimitExceededError, ObjectNotFoundError) as error:
        raise SnapshotExpiredError(
            f"Commits after {lower} may have been archived, and the archived timeline cannot be read: {error.message}",
            table=context.table,
            path=error.path,
            hint=f"Read the complete table with scan(), then continue from {newest}.",
        ) from error


def did_you_mean(name: object, known: Sequence[str]) -> str:
    """Return a question with the most similar name, followed by a space; empty if none is similar."""
    near = difflib.get_close_matches(str(name), known, n=1)
    return f"Did you mean {near[0]!r}? " if near else ""


def make_scan(
    context: TableContext,
    state: Snapshot,
    columns: Columns,
    where: object,
    changed: frozenset[str] | None = None,
    keys: pa.Array | None = None,
    *,
    meta: bool = True,
) -> Scan:
    """Return the scan of a state. ``changed`` limits it to rows that these instants wrote, ``keys`` to record keys. Without ``columns`` it reads all
    columns, with ``meta`` also the meta columns.

    Raises `SchemaMismatchError`, `PredicateError` or `InvalidOptionError` if a column does not exist or is given twice, or if the condition does not
    match the columns' types.
    """
    if not context.config.populate_meta_fields and (changed is not None or keys is not None):
        raise UnsupportedTableError(
            "The table has no meta columns (hoodie.populate.meta.fields=false), which this read needs",
            table=context.table,
            hint="Read it with scan(where=...).",
        )
    listed = columns is None or (isinstance(columns, Iterable) and not isinstance(columns, str))
    asked = None if columns is None or not listed else tuple(columns)
    full = with_meta_fields(state.schema, operation=context.config.operation_field or OPERATION in (asked or ()))
    if not listed or asked == ():
        raise InvalidOptionError(
            f"columns={columns!r:.200} is not a list of column names",
            table=context.table,
            hint=_columns_meant(columns, full.names),
        )
    every = full.names if meta else state.schema.names
    chosen = tuple(every if asked is None else asked)
    unknown = [name for name in chosen if name not in full.names]
    if unknown:
        raise SchemaMismatchError(
            f"The table has no {columns_named(unknown)}",
            table=context.table,
            hint=f"{did_you_mean(unknown[0], full.names)}It has: {', '.join(state.schema.names)}; and the meta columns that begin with _hoodie_.",
        )
    twice = [name for name in dict.fromkeys(chosen) if chosen.count(name) > 1]
    if twice:
        raise InvalidOptionError(
            f"Duplicate columns: {', '.join(map(repr, twice))}",
            table=context.table,
            hint="Name each once; select() it again in the result where it is needed twice.",
        )
    rows = RowFilter(chosen, full, Predicate.of(where, full, context.options.condition_zone), changed, keys)
    return Scan(
        state, context.storage, context.runtime.executor, rows, changed, indexes_in_utc=context.options.index.in_utc
    )


def _columns_meant(columns: Columns | str, names: Sequence[str]) -> str:
    """Return the suggestion for a text or an empty list in place of columns. A text that cannot be a name is a condition, or several names."""
    if not isinstance(columns, str):
        return "Name at least one column in a list, or omit columns to read all."
    if columns in names or columns.isidentifier():
        return f"Write columns=[{columns!r}]."
    if columns.strip() == "*":
        return "Omit columns to read all."
    listed = [part.strip() for part in columns.split(",")]
    if set(listed) <= {*names}:
        return f"Write columns={listed!r}."
    return f"A condition is where={columns!r}; columns are a list of names."
