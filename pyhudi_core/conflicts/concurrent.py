"""Find the operations that ran concurrently with a write.

The commit reads the timeline under the lock and compares it with the timeline at the write's start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa

from pyhudi_core.conflicts.conflict import (
    Concurrent,
    Conflict,
    ConflictKind,
    SameKeys,
    Strategy,
    Touched,
    find_conflict,
    is_log,
    mixed_indexes,
    not_compared,
    older_than_log_compaction,
    strategy_of,
)
from pyhudi_core.conflicts.explanation import of_conflict
from pyhudi_core.conflicts.matrix import Verdict
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    CorruptionError,
    CorruptTimelineError,
    ObjectNotFoundError,
    SnapshotExpiredError,
)
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.commit import READ_AS, CommitMetadata
from pyhudi_core.model.file_names import BaseFileName, parse_data_file, split
from pyhudi_core.model.instant import DATA_ACTIONS, WRITE_ACTIONS, Action, Instant, State
from pyhudi_core.model.operation import SERVICE_OPERATIONS, OperationType
from pyhudi_core.model.properties import TableType
from pyhudi_core.model.schema import from_avro
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, markers

_CREATE = "CREATE"


def running_writers(context: TableContext, found: Timeline, own: str) -> tuple[tuple[Instant, Touched], ...]:
    """Return the pending writes of the timeline, except of dead writers, with what they have announced."""
    pending = (i for i in found.pending if i.action in DATA_ACTIONS and i.requested_time != own)
    living = (i for i in pending if not heartbeat.is_dead(context, i))
    return tuple((instant, announced_by(context, instant)) for instant in living)


def announced_by(context: TableContext, instant: Instant) -> Touched:
    """Return the announced changes of a pending instant. New file groups count as insertions."""
    groups: set[tuple[str, str]] = set()
    appended: set[tuple[str, str]] = set()
    inserted: set[str] = set()
    for path, kind in markers.announced_kinds(context.storage, instant.requested_time).items():
        partition, file_name = split(path)
        name = parse_data_file(file_name)
        if name is None:
            continue
        groups.add((partition, name.file_id))
        if kind == _CREATE:
            inserted.add(partition)
        if not isinstance(name, BaseFileName):
            appended.add((partition, name.file_id))
    operation = pending_operation(context, instant)
    return Touched(frozenset(groups), frozenset(inserted), frozenset(), operation, frozenset(appended))


def pending_operation(context: TableContext, instant: Instant) -> OperationType:
    """Return the operation of a pending instant: its action, or for a write the operation in its inflight file."""
    if instant.action not in DATA_ACTIONS:
        return OperationType.of(instant.action)
    path = context.folder.file(Instant(instant.requested_time, instant.action, State.INFLIGHT))
    try:
        data = context.storage.get(path)
        commit = CommitMetadata.from_avro(decode_record(data, READ_AS, path=path) if data else {})
    except (ObjectNotFoundError, CorruptionError):
        return OperationType.UNKNOWN
    return OperationType.of(commit.operation)


_PLANNED = {
    Action.CLUSTERING: "HoodieRequestedReplaceMetadata",
    Action.COMPACTION: "HoodieCompactionPlan",
    Action.LOGCOMPACTION: "HoodieCompactionPlan",
}
"""Actions whose pending plans name file groups, and the record type of each plan."""


def since(
    context: TableContext, start: Timeline, found: Timeline, own: str, looked: Timeline | None = None
) -> Concurrent:
    """Return the instants that completed after ``start`` was read, and the pending plans of clusterings and compactions.

    A commit with a later requested time than this write always counts, because readers consider its files as newer. A pending restore always counts,
    too, because it deletes files that this write has read.

    ``looked`` is a later timeline than ``start`` that was already compared. If no write has ended after ``looked``, the history is not read again.
    """
    seen = {instant.group for instant in start.commits}
    archived = [] if looked and nothing_ended(looked, found) else _archived_since(context, start, found, own)
    commits = (*archived, *found.commits)
    new = {i.group: i for i in commits if i.group not in seen or i.requested_time > own}.values()
    ordered = sorted(new, key=lambda instant: instant.completion_time or instant.requested_time)
    completed = tuple((instant, context.folder.read_commit(instant)) for instant in ordered)
    known = {instant.group for instant in start if instant.is_completed}
    others = tuple(i for i in found.completed if i.action not in DATA_ACTIONS and i.group not in known)
    others += tuple(i for i in pending_restores(found) if i.requested_time != own)
    return Concurrent(completed, pending_plans(context, found, own), others)


def pending_plans(
    context: TableContext, found: Timeline, own: str = ""
) -> tuple[tuple[Instant, frozenset[tuple[str, str]]], ...]:
    """Return the pending plans of clusterings and compactions, except of the instant ``own``, with the file groups of each plan."""
    planned = _PLANNED if context.config.table_type is TableType.MERGE_ON_READ else {Action.CLUSTERING}
    plans = (i for i in found.pending if i.action in planned and i.requested_time != own)
    return tuple((plan, _planned_groups(context, plan)) for plan in plans)


def pending_restores(timeline: Timeline) -> tuple[Instant, ...]:
    """Return the planned and running restores. Until they end, the content of the table is unknown."""
    return tuple(instant for instant in timeline.pending if instant.action is Action.RESTORE)


def restore_error(context: TableContext, found: Timeline) -> CommitConflictError | None:
    """Return the error for operations that must not run during a pending restore; None if there is none."""
    restore = next(iter(pending_restores(found)), None)
    if restore is None:
        return None
    conflict = Conflict(ConflictKind.OPERATION, restore, operation=OperationType.RESTORE, verdict=Verdict.ABORT)
    return conflict_error(context, conflict, None)


def refuse_pending_restore(context: TableContext, found: Timeline) -> None:
    """Raise `CommitConflictError` if a restore is pending, before anything is written."""
    if error := restore_error(context, found):
        raise error


@contextmanager
def restores_as_conflicts(context: TableContext, start: Timeline, own: str) -> Iterator[None]:
    """Raise `CommitConflictError` instead of a missing-file error, if a restore deleted the file while a write read the state of ``start``.

    The timeline is read again only after such an error. ``own``: the requested time of the write.
    """
    try:
        yield
    except (SnapshotExpiredError, ObjectNotFoundError) as missing:
        found = context.folder.load()
        known = {instant.group for instant in start if instant.is_completed}
        ended = (i for i in found.completed if i.action is Action.RESTORE and i.group not in known)
        for restore in (*pending_restores(found), *ended):
            conflict = Conflict(ConflictKind.OPERATION, restore, operation=OperationType.RESTORE, verdict=Verdict.ABORT)
            raise conflict_error(context, conflict, own) from missing
        raise


def _archived_since(context: TableContext, start: Timeline, found: Timeline, own: str) -> list[Instant]:
    """Return the archived commits that may still have been on the active timeline when ``start`` was read.

    A commit that was archived earlier began before the first write of ``start``. A removed savepoint leaves an exception: such a commit completed
    before the newest commit of ``start``. Raises `CommitAbortedError` if the archived timeline ends after the requested time ``own``: readers
    consider every file from before that end as committed, also the files of ``own``.
    """
    if not found.has_history:
        return []
    saved = {instant.requested_time for instant in start if instant.action is Action.SAVEPOINT}
    writes = (i.requested_time for i in start if i.action in WRITE_ACTIONS and i.requested_time not in saved)
    last, archived = context.folder.history.begun_since(min(writes, default="") if start.has_history else "")
    if last >= own:
        raise CommitAbortedError(
            "Later instants than this one were archived, so it cannot be committed any more",
            table=context.table,
            instant=own,
            hint="Nothing was published; write again. Raise hoodie.client.heartbeat.interval_in_ms if writers are slow to begin.",
        )
    newest = max((i.completion_time or "" for i in start.completed), default="")
    return [i for i in archived if i.completion_time is None or i.completion_time > newest]


def nothing_ended(looked: Timeline, found: Timeline) -> bool:
    """Return whether no write ended between the two timelines. If so, no commit between them was archived, and the archived timeline need not be
    read. Reason: archival does not move the newest commits. If it had moved a commit between the timelines, ``found`` would have a newer commit, or
    would lack a pending instant of ``looked``.
    """
    before, now = {i.group: i.is_completed for i in looked}, {i.group: i.is_completed for i in found}
    writes = (i for i in found if i.is_completed and i.action in WRITE_ACTIONS)
    return before.keys() <= now.keys() and all(before.get(i.group, False) for i in writes)


def refuse_conflicts(
    context: TableContext,
    start: Timeline,
    found: Timeline,
    own: str,
    mine: Touched,
    schema: pa.Schema | None = None,
    same_keys: SameKeys = not_compared,
    looked: Timeline | None = None,
) -> None:
    """Raise `CommitConflictError` if the write cannot be committed on the timeline ``found``.

    Args:
        start: the timeline that the write was planned from.
        schema: the schema of the table after this write; None for an action that stores no schema.
        same_keys: compares the keys that two writes inserted into one partition; without it, two inserts into one partition always conflict.
        looked: an earlier compared timeline, see `since`.
    """
    if not context.protections.conflict_check:
        mine = replace(mine, file_groups=frozenset(), replaced=frozenset())
    strategy = _strategy(context, mine)
    concurrent = since(context, start, found, own, looked)
    if strategy.services_yield_to_writers and not mine.operation.is_writer:
        concurrent = replace(concurrent, writers=running_writers(context, found, own))
    key_check = context.protections.key_check and not context.options.conflict.allow_duplicate_keys
    conflict: Conflict | None = None
    if context.protections.conflict_check:
        conflict = mixed_indexes(mine, concurrent) or older_than_log_compaction(mine, concurrent, own)
    if conflict is None:
        conflict = find_conflict(mine, concurrent, key_check=key_check, strategy=strategy, same_keys=same_keys)
    if conflict is None and schema is not None:
        conflict = _other_schema(concurrent, schema)
    if conflict is not None:
        raise conflict_error(context, conflict, own, mine)


def planned_first(context: TableContext, found: Timeline, own: str, mine: Touched) -> CommitConflictError | None:
    """Return the error that `refuse_conflicts` would raise later for a write that changes file groups of a pending plan; None if there is none."""
    if not context.protections.conflict_check:
        return None
    plans = Concurrent(plans=pending_plans(context, found, own))
    conflict = find_conflict(mine, plans, key_check=False, strategy=_strategy(context, mine))
    return None if conflict is None else conflict_error(context, conflict, own, mine)


def keeps_its_groups(context: TableContext, action: Action, mine: Touched) -> bool:
    """Return whether writers must wait for this commit, because its plan reserves file groups.

    Such a commit does not yield to claims of writers; otherwise the writer would wait for the plan, and the plan for the writer.
    """
    return action is Action.CLUSTERING and _strategy(context, mine).writers_yield_to_plans


def _strategy(context: TableContext, mine: Touched) -> Strategy:
    strategy = strategy_of(context.options.conflict.strategy, mine)
    if context.options.clustering.updates == "allow":
        strategy = replace(strategy, writers_yield_to_plans=False)
    return strategy


def _other_schema(concurrent: Concurrent, schema: pa.Schema) -> Conflict | None:
    """Return the conflict with a concurrent commit that stored other columns; None if there is none.

    The commit with the latest requested time defines the columns of the table, so two concurrent writes must store the same columns.
    """
    for instant, commit in concurrent.completed:
        if commit.schema and commit.operation not in SERVICE_OPERATIONS and from_avro(commit.schema) != schema:
            return Conflict(ConflictKind.SCHEMA, instant, operation=OperationType.of(commit.operation))
    return None


def conflict_error(
    context: TableContext, conflict: Conflict, own: str | None, mine: Touched | None = None
) -> CommitConflictError:
    """Return the error for a conflict, with an explanation if the changes of the write are known."""
    again = conflict.verdict is not Verdict.ABORT
    do = (
        "write again, from the state after the other commit"
        if again
        else "read the table again, then begin a new write"
    )
    message = f"Another commit came first: {conflict.describe()}"
    if conflict.kind is ConflictKind.PENDING_CLUSTERING:
        message = f"A planned clustering comes first: {conflict.describe()}"
        do = (
            "write again when it has completed. If no process executes it, `table.clustering.run()` or `pyhudi cluster` does, and "
            "`table.clustering.cancel(instant)` or `pyhudi cluster --cancel` takes it back"
        )
    if conflict.instant.action is Action.RESTORE and conflict.instant.is_pending:
        message = f"The restore {conflict.instant.requested_time} is pending, so the content of the table is not known"
        do = "begin a new write when it has ended. If no process executes it, `table.restore.run()` or `pyhudi restore LOCATION --execute` does"
        if conflict.instant.state is State.REQUESTED:
            time = conflict.instant.requested_time
            do += f"; nothing is undone yet, and `table.restore.cancel('{time}')` or `pyhudi restore LOCATION --cancel {time}` takes it back"
    return CommitConflictError(
        message,
        conflict=conflict,
        explanation=of_conflict(own, mine, conflict) if own is not None and mine is not None else None,
        table=context.table,
        instant=own,
        hint=f"Nothing was published; {do}.",
    )


def _planned_groups(context: TableContext, plan: Instant) -> frozenset[tuple[str, str]]:
    path = context.folder.file(Instant(plan.requested_time, plan.action, State.REQUESTED))
    try:
        record = decode_record(context.storage.get(path), _PLANNED[plan.action], path=path)
    except ObjectNotFoundError:
        return frozenset()
    if plan.action is not Action.CLUSTERING:
        return frozenset(_slice_group(piece, path) for piece in record.get("operations") or ())
    groups = (record.get("clusteringPlan") or {}).get("inputGroups") or ()
    return frozenset(_slice_group(piece, path) for group in groups for piece in group.get("slices") or ())


def _slice_group(piece: dict[str, Any], path: str) -> tuple[str, str]:
    file_id = piece.get("fileId")
    if not file_id:
        name = parse_data_file(str(piece.get("dataFilePath") or "").rpartition("/")[2])
        file_id = name.file_id if isinstance(name, BaseFileName) else None
    if file_id is None:
        raise CorruptTimelineError(
            "A plan names a slice without a file id",
            path=path,
            hint="Roll the planned clustering or compaction back with Hudi, then write again.",
        )
    return (piece.get("partitionPath") or "", file_id)


class Read(Protocol):
    """One read of a table."""

    def may_read(self, partition: str) -> bool:
        """Return whether the partition may contain rows of the result, by the condition of the read."""
        ...


def refuse_changed_reads(
    context: TableContext, start: Timeline, found: Timeline, own: str, reads: Sequence[Read]
) -> None:
    """Raise `CommitConflictError` if a commit that completed after ``start`` was read has changed the rows that were read."""
    conflict = changed_read(reads, since(context, start, found, own))
    if conflict is not None:
        raise conflict_error(context, conflict, own)


def refuse_lost_rows(
    context: TableContext, read: Timeline, begun: Timeline, own: str, inserted: frozenset[str]
) -> None:
    """Raise `CommitConflictError` if a row may have been deleted after it was read and before the write began. The write would bring the row back.

    The write inserts such a row as new, so only partitions with inserted rows count. A later delete is a conflict of file groups.

    Args:
        read: the timeline at which rows were read.
        begun: the timeline from which the write was planned.
        inserted: the partitions with inserted rows.
    """
    same = {i.group for i in read.commits} == {i.group for i in begun.commits}
    if same or not inserted or not context.protections.conflict_check:
        return
    for instant, commit in since(context, read, begun, own).completed:
        places = () if commit.operation in SERVICE_OPERATIONS else tuple(sorted(_lost(commit) & inserted))
        if places:
            raise conflict_error(context, Conflict(ConflictKind.READ_SET, instant, (), places), own)


def _lost(commit: CommitMetadata) -> set[str]:
    """Return the partitions in which a commit may have deleted rows. Commits with logs do not always record deletes."""
    found = {stat.partition for stat in commit.stats if stat.deletes or is_log(stat.path)}
    return found | {partition for partition, ids in commit.replaced.items() if ids}


def changed_read(reads: Sequence[Read], concurrent: Concurrent) -> Conflict | None:
    """Return the first concurrent commit that changed rows of a partition that was read; table services change no rows."""
    for instant, commit in concurrent.completed:
        if commit.operation in SERVICE_OPERATIONS:
            continue
        seen = tuple(sorted(p for p in _changed(commit) if any(read.may_read(p) for read in reads)))
        if seen:
            return Conflict(ConflictKind.READ_SET, instant, (), seen)
    return None


def _changed(commit: CommitMetadata) -> set[str]:
    return {stat.partition for stat in commit.stats} | {partition for partition, ids in commit.replaced.items() if ids}
