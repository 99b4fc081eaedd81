"""Writes that are still running: what their markers announce. Others look at them before the commit tells (markers are made before the files)."""

from __future__ import annotations

from pyhudi_core.errors import CorruptionError, ObjectNotFoundError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import BaseFileName, parse_data_file, split
from pyhudi_core.model.instant import DATA_ACTIONS, Instant, State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, markers
from pyhudi_core.transaction.conflict import Touched
from pyhudi_core.transaction.context import TableContext

_CREATE = "CREATE"


def running_writers(context: TableContext, found: Timeline, own: str) -> tuple[tuple[Instant, Touched], ...]:
    """The pending writes of the timeline that are not known to be dead, and what they have announced."""
    pending = (i for i in found.pending if i.action in DATA_ACTIONS and i.requested_time != own)
    living = (i for i in pending if not heartbeat.is_dead(context, i))
    return tuple((instant, announced_by(context, instant)) for instant in living)


def announced_by(context: TableContext, instant: Instant) -> Touched:
    """What a pending instant has announced so far; new file groups count as inserted into."""
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
    """What a pending instant is doing: its action, or for a write what its inflight file says."""
    if instant.action not in DATA_ACTIONS:
        return OperationType.of(instant.action)
    path = context.folder.file(Instant(instant.requested_time, instant.action, State.INFLIGHT))
    try:
        data = context.storage.get(path)
        commit = CommitMetadata.from_avro(decode_record(data, "HoodieCommitMetadata", path=path) if data else {})
    except (ObjectNotFoundError, CorruptionError):
        return OperationType.UNKNOWN
    return OperationType.of(commit.operation)
