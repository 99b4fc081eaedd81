"""``pyhudi rollback``: roll a pending write back, or undo the newest commit.

Exit code 0: done, or with --plan, the command can be executed; 1: there is nothing to roll back, or with --plan, the command would be refused; 2: the
command was refused, or it failed.
"""

from __future__ import annotations

import json
from typing import Any

import click

from pyhudi_core.cli.restore import of_plan
from pyhudi_core.cli.terminal import CANNOT_OPEN, FOUND, at_location, console, reporting_errors, safe
from pyhudi_core.opening import open_table
from pyhudi_core.services.restore.rollbacks import RollbackPlan


@click.command()
@at_location
@click.argument("instant")
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and change nothing.")
@click.option(
    "--force",
    is_flag=True,
    help="Also if the writer of the pending write seems to be alive: it cannot commit any more.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def rollback(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    instant: str,
    only_plan: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Roll back a pending write of the table at LOCATION, or undo its newest commit. INSTANT is the requested time.

    Exit code 0: done, or with --plan, the command can be executed; 1: there is nothing to roll back, or with --plan, the command would be refused; 2:
    the command was refused, or it failed.
    """
    with reporting_errors(context):
        service = open_table(location, storage_options).rollback
        plan = service.plan(instant)
        if only_plan:
            found, text, code = _of(plan), str(plan), 0 if plan and (force or not plan.alive) else FOUND
        elif plan.alive and not force:
            found, text, code = _of(plan), f"{plan}. Nothing was changed; end it, or give --force.", CANNOT_OPEN
        else:
            done = service(instant, completed=True)
            made = done.instant.requested_time if done.instant is not None else None
            found, text, code = (
                {"of": done.of, "instant": made, "why_not": done.reason},
                str(done),
                0 if done else FOUND,
            )
        if as_json:
            click.echo(json.dumps(found, indent=2))
        else:
            console().print(safe(text))
        context.exit(code)


def _of(plan: RollbackPlan) -> dict[str, Any]:
    return {
        "due": bool(plan),
        "of": plan.of,
        "pending": plan.pending is not None,
        "alive": plan.alive,
        "figures": dict(plan.figures),
        "why_not": plan.why_not,
        "files": list(plan.files),
        "restore": of_plan(plan.restore) if plan.restore is not None else None,
    }
