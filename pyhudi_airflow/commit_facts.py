"""The facts about a commit for Airflow, in the event of an asset and in the XCom of a task. Does not depend on Airflow."""

from __future__ import annotations

from typing import Any

import pyhudi as hudi
from pyhudi_core import orchestration

_SHOWN = 100
"""The maximum number of partitions in the facts of one commit, because events and XComs are small."""


def commit_facts(table: hudi.HudiTable, instant: hudi.Instant, commit: hudi.CommitMetadata) -> dict[str, Any]:
    """Return the facts of a commit as JSON values: its instant, file, operation, numbers of rows, partitions, and the run of Airflow that made it."""
    stats = hudi.CommitStats.of(commit)
    partitions = sorted(commit.partitions)
    moment = orchestration.moment_of(table, instant.completion_time or instant.requested_time)
    return {
        "table": table.location,
        "instant": instant.requested_time,
        "commit_url": orchestration.place_of(table, instant),
        "completion_time": instant.completion_time or instant.requested_time,
        "completed_at": moment.isoformat() if moment is not None else None,
        "action": str(instant.action),
        "operation": hudi.OperationType.of(commit.operation).word,
        "rows_inserted": stats.rows_inserted,
        "rows_updated": stats.rows_updated,
        "rows_deleted": stats.rows_deleted,
        "bytes_written": stats.bytes_written,
        "files": len(stats.files),
        "partitions": partitions[:_SHOWN],
        "partition_count": len(partitions),
        "run": {
            name: commit.extra[f"airflow.{name}"] for name in ("dag_id", "run_id") if f"airflow.{name}" in commit.extra
        },
    }


def partition_keys(table: hudi.HudiTable, commit: hudi.CommitMetadata) -> list[str]:
    """Return a key for each folder of a commit, for Airflow's partitioned DAGs: the partition values, joined by ``|``."""
    columns = table.config.partition_fields
    return ["|".join(orchestration.value_of_path(path, columns)) for path in sorted(commit.partitions) if path]
