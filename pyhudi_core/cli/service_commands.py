"""The commands of table services, each in one line of a table: ``clean``, ``cluster``, ``compact``, ``log-compact``, ``expire`` and ``sweep``.

Services with plans on the timeline (`_planned`) plan, schedule, execute, or schedule and execute. The others (`_immediate`) plan or run.
"""

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

Details = Callable[[Any], dict[str, Any]]
"""What JSON shows of a plan, or of a result, in addition to its figures."""
Option = Callable[[Any], Any]
_PLAN = "the plan of --instant is not pending"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The user's request."""

    only_plan: bool
    only_schedule: bool
    only_execute: bool
    instant: str | None
    due: bool
    as_json: bool
    options: dict[str, str] = field(repr=False)
    cancel: str | None = None


def refuse_instant_without_execute(instant: str | None, *, only_execute: bool) -> None:
    """Refuse a plan's time without --execute, because the command would execute a different plan."""
    if instant is not None and not only_execute:
        raise click.UsageError("--instant names the plan that --execute executes; give --execute, too")


def _planned(
    name: str, service: str, text: str, done: str, example: str, details: Details, missing: str = _PLAN, *more: Option
) -> click.Command:
    """Return the command of a service with plans on the timeline.

    Args:
        name: the name of the command.
        service: its property of `HudiTable`.
        text: the command in one sentence.
        done: the effect on files, for help.
        example: an option of the table, for help.
        details: returns the details of a plan.
        missing: the reason for exit code 1, for help.
        more: other parameters of the command.
    """

    def command(context: click.Context, location: str, storage_options: dict[str, str], **wanted: Any) -> None:
        asked = Wanted(**wanted)
        if asked.cancel is not None:
            _cancel(context, location, storage_options, service, asked)
        _carry_out(context, location, storage_options, service, asked, details)

    codes = (
        f"Exit code 0: done, or nothing to do; 1: {missing}, or with --plan, the command would be refused; "
        "2: the command was refused, or it failed."
    )
    return _with_options(
        click.command(name, help=f"{text}: plan, schedule and execute.\n\n{codes}"),
        command,
        click.option("--plan", "only_plan", is_flag=True, help=f"Show what would be {done}, and change nothing."),
        click.option("--schedule", "only_schedule", is_flag=True, help="Put the plan on the timeline; any process executes it."),
        click.option("--execute", "only_execute", is_flag=True, help="Execute the oldest plan that no process executes."),
        click.option("--instant", help="With --execute: the requested time of the plan."),
        click.option("--due", is_flag=True, help="Only if the trigger of the options says that it is due."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        table_option(example),
        *more,
    )  # fmt: skip


def _immediate(
    name: str, service: str, text: str, example: str, planned: Details, ran: Details, *more: Option
) -> click.Command:
    """Return the command of a service without plans on the timeline; ``planned`` and ``ran``: details of a plan and of a result."""

    def command(
        context: click.Context, location: str, storage_options: dict[str, str], only_plan: bool, as_json: bool,
        options: dict[str, str], days: int | None = None,
    ) -> None:  # fmt: skip
        with reporting_errors(context):
            kept = {} if days is None else {"hoodie.partition.ttl.strategy.days.retain": str(days)}
            opened = getattr(open_table(location, storage_options, options=options | kept), service)
            if only_plan:
                found, details = opened.plan(), planned
                said = with_estimate(found)
            else:
                with progress_bar(service) as progress:
                    found, details = opened.run(progress=progress), ran
                said = str(found)
            _show(details(found) | {"figures": dict(found.figures), "why_not": found.why_not}, said, as_json=as_json)

    return _with_options(
        click.command(name, help=text),
        command,
        click.option("--plan", "only_plan", is_flag=True, help="Show what would be deleted, and change nothing."),
        *more,
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        table_option(example),
    )


def _with_options(
    made: Callable[[Callable[..., None]], click.Command], command: Callable[..., None], *options: Option
) -> click.Command:
    added: tuple[Option, ...] = (at_location, *options, click.pass_context)
    for option in reversed(added):
        command = option(command)
    return made(command)


def _carry_out(
    context: click.Context, location: str, storage_options: dict[str, str], name: str, wanted: Wanted, details: Details
) -> None:
    """Do the user's request with the service of this name.

    Exit code 0: done, or nothing to do; 1: the plan that --instant names is not pending, or another process executes it, or with --plan, the command
    would be refused; 2: the command was refused, or it failed.
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
            **details(planned),
        }
        if wanted.only_plan:
            _show(shown, with_estimate(planned), as_json=wanted.as_json)
            context.exit(FOUND if refused else 0)
        elif wanted.only_schedule:
            found = service.schedule(triggered=wanted.due)
            text = f"Planned {found.requested_time}: {planned}" if found is not None else str(planned)
            _show(shown | {"instant": found.requested_time if found else None}, text, as_json=wanted.as_json)
        elif wanted.due and not planned and not refused and not wanted.only_execute:
            nothing = {"instants": [], "figures": {}, "why_not": planned.why_not}
            _show(nothing, str(planned), as_json=wanted.as_json)
        else:
            with progress_bar(service.noun) as progress:
                only = wanted.only_execute
                done = service.execute(wanted.instant, progress=progress) if only else service.run(progress=progress)
            result = {"instants": _times(done), "figures": dict(done.figures), "why_not": done.why_not}
            _show(result, str(done), as_json=wanted.as_json)
            if wanted.instant is not None and not done:
                context.exit(FOUND)


def _show(found: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        console().print(safe(text))


def _cancel(context: click.Context, location: str, storage_options: dict[str, str], name: str, wanted: Wanted) -> None:
    """Remove the plan that --cancel names. Exit code 1: it is not pending."""
    if wanted.instant is not None or wanted.only_plan or wanted.only_schedule or wanted.only_execute or wanted.due:
        raise click.UsageError("give --cancel alone; it removes the plan")
    with reporting_errors(context):
        done = getattr(open_table(location, storage_options, wanted.options), name).cancel(wanted.cancel)
        said = f"Removed the plan {wanted.cancel}" if done else f"No {name} {wanted.cancel} is pending"
        _show({"cancelled": done}, said, as_json=wanted.as_json)
        context.exit(0 if done else FOUND)


def _times(done: Any) -> list[str]:
    return [instant.requested_time for instant in done.instants]


def _cleaned(plan: Any) -> dict[str, Any]:
    earliest = plan.earliest.requested_time if plan.earliest is not None else None
    files = {partition: list(names) for partition, names in sorted(plan.files.items())}
    return {"earliest_to_retain": earliest, "files": files}


def _clustered(plan: Any) -> dict[str, Any]:
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


def _compacted(plan: Any) -> dict[str, Any]:
    groups = [
        {"partition": piece.partition, "file_id": piece.file_id, "log_files": len(piece.logs), "bytes": piece.size}
        for piece in (operation.piece for operation in plan.operations)
    ]
    return {"file_groups": groups}


def _expiring(plan: Any) -> dict[str, Any]:
    parts = [{"path": item.path, "since": item.since, "bytes": item.size} for item in plan.partitions]
    return {"due": bool(plan), "partitions": parts}


clean = _planned(
    "clean", "cleaning", "Delete older file slices of the table at LOCATION", "deleted", "hoodie.clean.commits.retained", _cleaned
)  # fmt: skip
cluster = _planned(
    "cluster", "clustering", "Cluster the table at LOCATION", "clustered", "hoodie.clustering.plan.strategy.sort.columns",
    _clustered, "the plan that --instant or --cancel names is not pending",
    click.option("--cancel", metavar="TIME", help="Remove the plan with this requested time, and what was written for it."),
)  # fmt: skip
compact = _planned(
    "compact", "compaction", "Compact the merge-on-read table at LOCATION", "compacted", "hoodie.compaction.strategy", _compacted
)  # fmt: skip
log_compact = _planned(
    "log-compact", "log_compaction", "Merge the logs of each file group of the table at LOCATION", "merged",
    "hoodie.log.compaction.blocks.threshold", _compacted,
)  # fmt: skip
expire = _immediate(
    "expire", "expiry", "Delete the expired partitions of the table at LOCATION. Exit code 0: done, or nothing to do; 2: it failed.",
    "hoodie.partition.ttl.management.strategy.type", _expiring, lambda done: {"instants": _times(done), "partitions": list(done.partitions)},
    click.option("--days", type=click.IntRange(min=1), help="The days to keep (hoodie.partition.ttl.strategy.days.retain)."),
)  # fmt: skip
sweep = _immediate(
    "sweep",
    "sweep",
    "Delete the files of the table at LOCATION that no commit, no plan and no running writer names.\n\n"
    "Exit code 0: done, or nothing to do; 2: it failed.",
    "pyhudi.sweep.min.age.minutes",
    lambda plan: {"due": bool(plan), "data_files": list(plan.data_files)},
    lambda done: {"changed": bool(done), "data_files": list(done.data_files)},
)  # fmt: skip
