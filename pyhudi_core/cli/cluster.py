"""``pyhudi cluster``: merge small files and sort rows into new file groups. Exit codes: see ``planned.py``."""

from __future__ import annotations

import json
from typing import Any

import click

from pyhudi_core.cli.planned import Wanted, carry_out, planned_options
from pyhudi_core.cli.terminal import FOUND, reporting_errors
from pyhudi_core.opening import open_table
from pyhudi_core.services.clustering.clustering_plan import ClusteringPlan


@click.command()
@planned_options("clustered", "hoodie.clustering.plan.strategy.sort.columns")
@click.option("--cancel", metavar="TIME", help="Remove the plan with this requested time, and what was written for it.")
def cluster(
    context: click.Context, location: str, storage_options: dict[str, str], cancel: str | None, **wanted: Any
) -> None:
    """Cluster the table at LOCATION: plan, schedule and execute.

    Exit code 0: done, or nothing to do; 1: the plan that --instant or --cancel names is not pending, or --plan: it would be
    refused; 2: it was refused, or failed.
    """
    if cancel is not None:
        if wanted["instant"] is not None or any(
            wanted[name] for name in ("only_plan", "only_schedule", "only_execute", "due")
        ):
            raise click.UsageError("give --cancel alone; it removes the plan")
        with reporting_errors(context):
            done = open_table(location, storage_options, wanted["options"]).clustering.cancel(cancel)
            said = f"Removed the plan {cancel}" if done else f"No clustering {cancel} is pending"
            click.echo(json.dumps({"cancelled": done}, indent=2) if wanted["as_json"] else said)
            context.exit(0 if done else FOUND)
    carry_out(context, location, storage_options, "clustering", Wanted(**wanted), _groups)


def _groups(plan: ClusteringPlan) -> dict[str, Any]:
    groups = [
        {
            "partition": group.partition,
            "file_ids": [piece.file_id for piece in group.slices],
            "new_file_groups": group.outputs,
            "bytes": group.size,
        }
        for group in plan.groups
    ]
    return {"file_groups": groups}
