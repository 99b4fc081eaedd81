"""``pyhudi compact``: rewrite the log files of a merge-on-read table as base files. Exit codes: see ``planned.py``."""

from __future__ import annotations

from typing import Any

import click

from pyhudi_core.cli.planned import Wanted, carry_out, planned_options
from pyhudi_core.services.compaction.compaction_plan import CompactionPlan


@click.command()
@planned_options("compacted", "hoodie.compaction.strategy")
def compact(context: click.Context, location: str, storage_options: dict[str, str], **wanted: Any) -> None:
    """Compact the merge-on-read table at LOCATION: plan, schedule and execute.

    Exit code 0: done, or nothing to do; 1: the plan of --instant is not pending, or --plan: it would be refused; 2: it was
    refused, or failed.
    """
    carry_out(context, location, storage_options, "compaction", Wanted(**wanted), groups_of)


def groups_of(plan: CompactionPlan) -> dict[str, Any]:
    """What JSON shows of the file groups of a plan."""
    groups = [
        {"partition": piece.partition, "file_id": piece.file_id, "log_files": len(piece.logs), "bytes": piece.size}
        for piece in (operation.piece for operation in plan.operations)
    ]
    return {"file_groups": groups}
