"""The instants that rollbacks on a timeline name, and the records of a rollback (specification, "Rollback")."""

from __future__ import annotations

from typing import Any

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.file_names import split
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.active import Timeline


def names_rolled_back(place: TableContext, timeline: Timeline, since: str) -> frozenset[str]:
    """Return the requested times that rollbacks name. Only rollbacks with a requested time after ``since`` count; pending rollbacks count, too."""
    rollbacks = (i for i in timeline if i.action is Action.ROLLBACK and i.requested_time > since)
    named = (rolled_back_by(place, rollback.requested_time) for rollback in rollbacks)
    return frozenset(time for time in named if time is not None)


def rolled_back_by(place: TableContext, requested_time: str) -> str | None:
    """Return the requested time that a rollback's plan names. Return None if the plan is empty, or if the plan is gone because the rollback ended."""
    path = place.folder.file(Instant(requested_time, Action.ROLLBACK, State.REQUESTED))
    try:
        data = place.storage.get(path)
    except ObjectNotFoundError:
        return None
    plan = decode_record(data, "HoodieRollbackPlan", path=path) if data else {}
    return (plan.get("instantToRollback") or {}).get("commitTime")


def plan_record(context: TableContext, victim: Instant, paths: list[str]) -> dict[str, Any]:
    """Return a rollback's plan. The plan names the write to roll back, and the data files that the write created."""
    return {
        "instantToRollback": {"commitTime": victim.requested_time, "action": str(victim.action)},
        "RollbackRequests": [
            {
                "partitionPath": partition,
                "fileId": "",
                "latestBaseInstant": "",
                "filesToBeDeleted": named,
                "logBlocksToBeDeleted": {},  # Hudi fails on a null value when Hudi continues the plan
            }
            for partition, named in sorted(_by_partition(context, paths).items())
        ],
    }


def metadata_record(context: TableContext, victim: Instant, paths: list[str]) -> dict[str, Any]:
    """Return the content of a completed rollback."""
    return {
        "startRollbackTime": context.now(),
        "timeTakenInMillis": 0,
        "totalFilesDeleted": len(paths),
        "commitsRollback": [victim.requested_time],
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "successDeleteFiles": files,
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition, files in sorted(_by_partition(context, paths).items())
        },
        "instantsRollback": [{"commitTime": victim.requested_time, "action": str(victim.action)}],
    }


def _by_partition(context: TableContext, paths: list[str]) -> dict[str, list[str]]:
    """Return the absolute paths of files, by partition."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(split(path)[0], []).append(f"{context.table}/{path}")
    return found
