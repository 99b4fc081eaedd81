"""``pyhudi clean``: delete older file slices of a table. Exit codes: see ``planned.py``."""

from __future__ import annotations

from typing import Any

import click

from pyhudi_core.cli.planned import Wanted, carry_out, planned_options
from pyhudi_core.services.cleaning.clean_plan import CleaningPlan


@click.command()
@planned_options("deleted", "hoodie.clean.commits.retained")
def clean(context: click.Context, location: str, storage_options: dict[str, str], **wanted: Any) -> None:
    """Delete older file slices of the table at LOCATION: plan, schedule and execute.

    Exit code 0: done, or nothing to do; 1: the plan of --instant is not pending, or --plan: it would be refused; 2: it was
    refused, or failed.
    """
    carry_out(context, location, storage_options, "cleaning", Wanted(**wanted), _files)


def _files(plan: CleaningPlan) -> dict[str, Any]:
    earliest = plan.earliest.requested_time if plan.earliest is not None else None
    return {
        "earliest_to_retain": earliest,
        "files": {partition: list(names) for partition, names in sorted(plan.files.items())},
    }
