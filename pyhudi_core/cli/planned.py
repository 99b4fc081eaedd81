"""What the commands of services with plans on the timeline share: plan, schedule, execute, or schedule and execute (``compact``, ``cluster``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click

from pyhudi_core.cli.progress import progress_bar, with_estimate
from pyhudi_core.cli.terminal import FOUND, at_location, console, reporting_errors, safe, table_option
from pyhudi_core.opening import open_table
from pyhudi_core.services.planned_service import PlannedService
from pyhudi_core.services.service import refused_by

Groups = Callable[[Any], dict[str, Any]]
"""What JSON shows of the file groups of a plan, besides its figures."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for."""

    only_plan: bool
    only_schedule: bool
    only_execute: bool
    instant: str | None
    due: bool
    as_json: bool
    options: dict[str, str] = field(repr=False)


def planned_options(done: str, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The location and the options of such a command, such as ``compacted`` and ``hoodie.compaction.strategy``."""
    added = (
        at_location,
        click.option("--plan", "only_plan", is_flag=True, help=f"Show what would be {done}, and change nothing."),
        click.option(
            "--schedule", "only_schedule", is_flag=True, help="Put the plan on the timeline; any process executes it."
        ),
        click.option(
            "--execute", "only_execute", is_flag=True, help="Execute the oldest plan that no process executes."
        ),
        click.option("--instant", help="With --execute: the requested time of the plan."),
        click.option("--due", is_flag=True, help="Only if the trigger of the options says that it is due."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        table_option(example),
        click.pass_context,
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(added):
            command = option(command)
        return command

    return decorate


def carry_out(
    context: click.Context, location: str, storage_options: dict[str, str], name: str, wanted: Wanted, groups: Groups
) -> None:
    """Do what was asked for with the service of this name.

    Exit code 0: done, or nothing to do; 1: the plan that --instant names is not pending, or another process executes it, or --plan: it would be
    refused; 2: it was refused, or failed.
    """
    if sum((wanted.only_plan, wanted.only_schedule, wanted.only_execute)) > 1:
        raise click.UsageError("give one of --plan, --schedule and --execute")
    refuse_instant_without_execute(wanted.instant, only_execute=wanted.only_execute)
    with reporting_errors(context):
        table = open_table(location, storage_options, options=wanted.options)
        service: PlannedService[Any, Any, Any] = getattr(table, name)
        planned = service.plan(triggered=wanted.due)
        refused = refused_by(planned) is not None
        shown = {
            "due": bool(planned),
            "figures": dict(planned.figures),
            "why_not": planned.why_not,
            "refused": refused,
            "trigger": planned.trigger,
            "trigger_says_due": planned.due,
            **groups(planned),
        }
        if wanted.only_plan:
            _show(shown, with_estimate(planned), wanted)
            context.exit(FOUND if refused else 0)
        elif wanted.only_schedule:
            found = service.schedule(triggered=wanted.due)
            text = f"Planned {found.requested_time}: {planned}" if found is not None else str(planned)
            _show(shown | {"instant": found.requested_time if found else None}, text, wanted)
        elif wanted.due and not planned and not refused and not wanted.only_execute:
            _show({"instants": [], "figures": {}, "why_not": planned.why_not}, str(planned), wanted)
        else:
            with progress_bar(service.noun) as progress:
                only = wanted.only_execute
                done = service.execute(wanted.instant, progress=progress) if only else service.run(progress=progress)
            times = [instant.requested_time for instant in done.instants]
            _show({"instants": times, "figures": dict(done.figures), "why_not": done.why_not}, str(done), wanted)
            if wanted.instant is not None and not done:
                context.exit(FOUND)


def refuse_instant_without_execute(instant: str | None, *, only_execute: bool) -> None:
    """Refuse a plan's time where nothing asks for it: the command would plan and execute something else."""
    if instant is not None and not only_execute:
        raise click.UsageError("--instant names the plan that --execute executes; give --execute, too")


def _show(found: dict[str, Any], text: str, wanted: Wanted) -> None:
    if wanted.as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        console().print(safe(text))
