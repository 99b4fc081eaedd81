"""``pyhudi clean``: delete older file slices of a table. Exit code 0: done, or nothing to do; 2: it failed."""

from __future__ import annotations

import json
from typing import Any

import click

from pyhudi_core.cli.planned import refuse_instant_without_execute
from pyhudi_core.cli.terminal import at_location, console, reporting_errors, safe
from pyhudi_core.opening import open_table
from pyhudi_core.services.cleaning import Cleaning, CleaningResult
from pyhudi_core.services.cleaning_plan import CleaningPlan


@click.command()
@at_location
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be deleted, and change nothing.")
@click.option(
    "--schedule", "only_schedule", is_flag=True, help="Put the plan on the timeline; any process executes it."
)
@click.option("--execute", "only_execute", is_flag=True, help="Execute the oldest plan that no process executes.")
@click.option("--instant", help="With --execute: the requested time of the plan.")
@click.option("--due", is_flag=True, help="Only if the trigger of the options says that it is due.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option, such as hoodie.clean.commits.retained; may be repeated.",
)
@click.pass_context
def clean(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only_plan: bool,
    only_schedule: bool,
    only_execute: bool,
    instant: str | None,
    due: bool,
    as_json: bool,
    options: tuple[str, ...],
) -> None:
    """Delete older file slices of the table at LOCATION: plan, schedule and execute. Exit code 0: done, or nothing to do; 2: it failed."""
    if sum((only_plan, only_schedule, only_execute)) > 1:
        raise click.UsageError("give one of --plan, --schedule and --execute")
    refuse_instant_without_execute(instant, only_execute=only_execute)
    with reporting_errors(context):
        given = dict(text.partition("=")[::2] for text in options)
        service = open_table(location, storage_options, options=given).cleaning
        if only_plan or only_schedule:
            planned = service.plan(triggered=due)
            found = service.schedule(triggered=due) if only_schedule else None
            text = f"Planned {found.requested_time}: {planned}" if found is not None else str(planned)
            _show(_of_plan(planned) | {"instant": found.requested_time if found else None}, text, as_json)
            return
        done = _done(service, only_execute, instant, due)
        times = [clean.requested_time for clean in done.instants]
        _show({"instants": times, "figures": dict(done.figures), "why_not": done.why_not}, str(done), as_json)


def _done(service: Cleaning, only_execute: bool, instant: str | None, due: bool) -> CleaningResult:
    if only_execute:
        return service.execute(instant)
    planned = service.plan(triggered=True) if due else None
    return service.run() if planned is None or planned.due else CleaningResult(why_not=planned.why_not)


def _of_plan(plan: CleaningPlan) -> dict[str, Any]:
    why = {"why_not": plan.why_not, "trigger": plan.trigger, "trigger_says_due": plan.due}
    earliest = plan.earliest.requested_time if plan.earliest is not None else None
    files = {partition: list(names) for partition, names in sorted(plan.files.items())}
    return {"due": bool(plan), "figures": dict(plan.figures), **why, "earliest_to_retain": earliest, "files": files}


def _show(found: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        console().print(safe(text))
