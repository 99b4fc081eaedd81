"""``pyhudi restore``: go back to the state of an earlier commit.

Exit code 0: done, or with --plan, the command can be executed; 1: there is nothing to undo, to execute or to cancel, or with --plan, the command
would be refused; 2: the command was refused, or it failed.
"""

from __future__ import annotations

import json
from typing import Any

import click

from pyhudi_core.cli.progress import progress_bar, with_estimate
from pyhudi_core.cli.service_commands import refuse_instant_without_execute
from pyhudi_core.cli.terminal import FOUND, at_location, console, print_rows, reporting_errors, safe
from pyhudi_core.opening import open_table
from pyhudi_core.services.restore.restore_plan import RestorePlan, UndoneCommit
from pyhudi_core.services.restore.restores import RestoreResult, Restores


@click.command()
@at_location
@click.option(
    "--to",
    help="What comes back: a time with its zone, such as '2026-11-27 18:00:00+01:00', or the requested time of a commit.",
)
@click.option("--before", help="Instead: the requested time of the first commit that is undone.")
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be undone, and change nothing.")
@click.option(
    "--schedule",
    "only_schedule",
    is_flag=True,
    help="Put the plan on the timeline; until it is executed nothing is written.",
)
@click.option(
    "--execute", "only_execute", is_flag=True, help="Execute the restore that is pending, and that no process executes."
)
@click.option("--instant", help="With --execute: the requested time of the restore.")
@click.option(
    "--cancel", metavar="TIME", help="Take the planned restore with this requested time back; nothing was undone yet."
)
@click.option(
    "--keep",
    is_flag=True,
    help="Undo nothing: write the rows of that state again, and keep the state until now under a savepoint.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def restore(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    to: str | None,
    before: str | None,
    only_plan: bool,
    only_schedule: bool,
    only_execute: bool,
    instant: str | None,
    cancel: str | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Bring back the state of an earlier commit or time of the table at LOCATION. Later commits are undone, and their files are deleted permanently.
    The command first shows what will be deleted. With --keep nothing is deleted, and a restore to the savepoint brings back the present state.

    Exit code 0: done, or nothing to do; 1: the restore that --instant or --cancel names is not pending, or with --plan, the command would be refused;
    2: the command was refused, or it failed.
    """
    if sum((only_plan, only_schedule, only_execute, cancel is not None)) > 1:
        raise click.UsageError("give one of --plan, --schedule, --execute and --cancel")
    refuse_instant_without_execute(instant, only_execute=only_execute)
    if (to is None) == (before is None) and not (only_execute or cancel is not None):
        raise click.UsageError("give --to or --before")
    if keep and (only_schedule or only_execute or cancel is not None):
        raise click.UsageError("--keep goes with --to or --before, and with --plan")
    with reporting_errors(context):
        service = open_table(location, storage_options).restore
        if keep:
            found, text, code = _keeping(service, to, before, only_plan=only_plan)
        elif only_plan:
            plan = service.plan(to, before=before)
            # A plan without a commit to go back to is a refusal.
            found, text, code = of_plan(plan), with_estimate(plan), 0 if plan or plan.to is not None else FOUND
        elif only_schedule:
            found, text, code = _scheduled(service, to, before)
        elif cancel is not None:
            gone = service.cancel(cancel)
            found = {"cancelled": gone}
            text, code = f"The restore {cancel} {'was taken back' if gone else 'is not planned'}", 0 if gone else FOUND
        else:
            if not (only_execute or as_json) and (planned := service.plan(to, before=before)):
                console(stderr=True).print(safe(str(planned)))
            with progress_bar("restore") as bar:
                done = (
                    service.execute(instant, progress=bar)
                    if only_execute
                    else service.run(to, before=before, progress=bar)
                )
            found, text, code = of_result(done), str(done), 0 if done or instant is None else FOUND
        if as_json:
            click.echo(json.dumps(found, indent=2))
        else:
            console().print(safe(text))
            if found.get("undone"):
                print_rows([{**one, "files": len(one["files"])} for one in found["undone"]])
        context.exit(code)


def _scheduled(service: Restores, to: str | None, before: str | None) -> tuple[dict[str, Any], str, int]:
    plan = service.plan(to, before=before)
    scheduled = service.schedule(to, before=before)
    found = of_plan(plan) | {"instant": scheduled.requested_time if scheduled else None}
    return found, f"Planned {scheduled.requested_time}: {plan}" if scheduled else str(plan), 0


def _keeping(
    service: Restores, to: str | None, before: str | None, *, only_plan: bool
) -> tuple[dict[str, Any], str, int]:
    planned = service.plan_keeping(to, before=before)
    if only_plan:
        found = {"due": bool(planned), "to": planned.to.requested_time, "kept": planned.kept.requested_time}
        return {**found, "figures": dict(planned.figures), "why_not": planned.why_not}, str(planned), 0
    done = service.run_keeping(to, before=before)
    return of_result(done), str(done), 0


def of_plan(plan: RestorePlan) -> dict[str, Any]:
    """Return a plan as JSON shows it."""
    return {
        "due": bool(plan),
        "to": plan.to.requested_time if plan.to is not None else None,
        "completed": plan.completed or None,
        "figures": dict(plan.figures),
        "why_not": plan.why_not,
        "undone": [_undone(one) for one in plan.commits],
        "plans": [instant.requested_time for instant in (*plan.plans, *plan.cleans)],
        "metadata_partitions": list(plan.metadata_partitions),
        "tables": list(plan.tables),
    }


def _undone(one: UndoneCommit) -> dict[str, Any]:
    return {
        "instant": one.instant.requested_time,
        "completed": one.instant.completion_time,
        "operation": one.operation,
        "user": one.user,
        "inserted": one.inserted,
        "updated": one.updated,
        "deleted": one.deleted,
        "bytes": one.size,
        "files": list(one.files),
    }


def of_result(done: RestoreResult) -> dict[str, Any]:
    """Return a result as JSON shows it."""
    times = [instant.requested_time for instant in done.instants]
    found = {"instants": times, "to": done.to, "figures": dict(done.figures), "why_not": done.why_not}
    return {**found, "kept": done.kept} if done.kept else found
