"""``pyhudi sweep``: delete files that belong to nobody. Exit code 0: done, or nothing to do; 2: it failed."""

from __future__ import annotations

import json

import click

from pyhudi_core.cli.progress import progress_bar, with_estimate
from pyhudi_core.cli.terminal import at_location, console, reporting_errors, safe, table_option
from pyhudi_core.opening import open_table
from pyhudi_core.services.sweep.files_to_sweep import SweepPlan
from pyhudi_core.services.sweep.sweep import Sweep, SweepResult


@click.command()
@at_location
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be deleted, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@table_option("pyhudi.sweep.min.age.minutes")
@click.pass_context
def sweep(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only_plan: bool,
    as_json: bool,
    options: dict[str, str],
) -> None:
    """Delete the files of the table at LOCATION that no commit, no plan and no running writer names.

    Exit code 0: done, or nothing to do; 2: it failed.
    """
    with reporting_errors(context):
        service = open_table(location, storage_options, options=options).sweep
        found: SweepPlan | SweepResult
        found, text = _planned(service) if only_plan else _ran(service)
        shown = {
            "due" if only_plan else "changed": bool(found),
            "figures": dict(found.figures),
            "why_not": found.why_not,
            "data_files": list(found.data_files),
        }
        click.echo(json.dumps(shown, indent=2)) if as_json else console().print(safe(text))


def _planned(service: Sweep) -> tuple[SweepPlan, str]:
    plan = service.plan()
    return plan, with_estimate(plan)


def _ran(service: Sweep) -> tuple[SweepResult, str]:
    with progress_bar("sweep") as progress:
        done = service.run(progress=progress)
    return done, str(done)
