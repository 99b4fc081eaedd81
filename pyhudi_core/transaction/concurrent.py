"""What ran at the same time as a write: read from the timeline that the commit finds under the lock."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyhudi_core.errors import CommitConflictError, CorruptTimelineError, ObjectNotFoundError
from pyhudi_core.formats.avro import decode_record
from pyhudi_core.model.commit import SERVICE_OPERATIONS
from pyhudi_core.model.file_names import BaseFileName, parse_data_file
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.schema import from_avro
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.conflict import Concurrent, Conflict, ConflictKind, Touched, find_conflict
from pyhudi_core.transaction.context import TableContext


def since(context: TableContext, start: Timeline, found: Timeline, own: str) -> Concurrent:
    """The commits that completed after ``start`` was read, and the pending clustering plans."""
    seen = {instant.group for instant in start.commits}
    completed = tuple(
        (instant, context.folder.read_commit(instant)) for instant in found.commits if instant.group not in seen
    )
    plans = (i for i in found.pending if i.action is Action.CLUSTERING and i.requested_time != own)
    return Concurrent(completed, tuple((plan, _planned_groups(context, plan)) for plan in plans))


def refuse_conflicts(
    context: TableContext, start: Timeline, found: Timeline, own: str, mine: Touched, schema: pa.Schema | None = None
) -> None:
    """Raise `CommitConflictError` if the write may not stand on the timeline that was found.

    ``schema`` is the table's after this write; None for an action that stores none.
    """
    if not context.protections.conflict_check:
        return
    concurrent = since(context, start, found, own)
    conflict = find_conflict(mine, concurrent, key_check=context.protections.key_check)
    if conflict is None and schema is not None:
        conflict = _other_schema(concurrent, schema)
    if conflict is not None:
        raise conflict_error(context, conflict, own)


def _other_schema(concurrent: Concurrent, schema: pa.Schema) -> Conflict | None:
    """The newest requested time says what a table's columns are, so of two writes at one time neither may say other ones than the other."""
    for instant, commit in concurrent.completed:
        if commit.schema and commit.operation not in SERVICE_OPERATIONS and from_avro(commit.schema) != schema:
            return Conflict(ConflictKind.SCHEMA, instant)
    return None


def conflict_error(context: TableContext, conflict: Conflict, own: str) -> CommitConflictError:
    """The error that names the conflict."""
    return CommitConflictError(
        f"Another commit came first: {conflict.describe()}",
        conflict=conflict,
        table=context.table,
        instant=own,
        hint="Nothing was published; write again, from the state that the other commit left.",
    )


def _planned_groups(context: TableContext, plan: Instant) -> frozenset[tuple[str, str]]:
    path = context.folder.file(Instant(plan.requested_time, Action.CLUSTERING, State.REQUESTED))
    try:
        record = decode_record(context.storage.get(path), "HoodieRequestedReplaceMetadata", path=path)
    except ObjectNotFoundError:
        return frozenset()
    groups = (record.get("clusteringPlan") or {}).get("inputGroups") or ()
    return frozenset(_slice_group(piece, path) for group in groups for piece in group.get("slices") or ())


def _slice_group(piece: dict[str, Any], path: str) -> tuple[str, str]:
    file_id = piece.get("fileId")
    if not file_id:
        name = parse_data_file(str(piece.get("dataFilePath") or "").rpartition("/")[2])
        file_id = name.file_id if isinstance(name, BaseFileName) else None
    if file_id is None:
        raise CorruptTimelineError(
            "A clustering plan names a slice without a file id",
            path=path,
            hint="Roll the clustering back with Hudi, then write again.",
        )
    return (piece.get("partitionPath") or "", file_id)
