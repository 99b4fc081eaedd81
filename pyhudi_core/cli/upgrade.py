"""``pyhudi upgrade`` and ``pyhudi downgrade``: change the version of tables.

Exit code 0: done, or nothing to do, or (--plan) the change is possible; 1: (--plan) a table would be refused; 2: the change was refused, or it
failed.
"""

from __future__ import annotations

import json
from typing import Any

import click

from pyhudi_core.cli.progress import progress_bar
from pyhudi_core.cli.terminal import (
    CANNOT_OPEN,
    FOUND,
    at_location,
    console,
    print_error,
    print_rows,
    reporting_errors,
    safe,
)
from pyhudi_core.errors import HudiError
from pyhudi_core.lake_tables import no_tables, tables_below
from pyhudi_core.opening import open_table
from pyhudi_core.services.versions.version_plan import VersionPlan, VersionResult


@click.command()
@at_location
@click.option("--to", type=int, default=8, show_default=True, help="The version of the table format.")
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    help="Show what would be done in the tables at or below LOCATION, and change nothing.",
)
@click.option(
    "--roll-back",
    is_flag=True,
    help="Also roll back pending writes without a heartbeat. Pass it only if the programs of these writes have ended.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def upgrade(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    to: int,
    only_plan: bool,
    roll_back: bool,
    as_json: bool,
) -> None:
    """Raise the table at LOCATION to a newer version; no row changes. With --plan, LOCATION may be a folder with tables.

    Exit code 0: done, or nothing to do, or (--plan) the change is possible; 1: (--plan) a table would be refused; 2: the change was refused, or it
    failed.
    """
    with reporting_errors(context):
        if only_plan:
            _plan(context, location, storage_options, to, roll_back=roll_back, as_json=as_json)
            return
        with progress_bar("look at the table") as progress:
            done = open_table(location, storage_options).upgrade(to, roll_back=roll_back, progress=progress)
        if as_json:
            click.echo(json.dumps(of_result(done), indent=2))
        else:
            console().print(safe(str(done)))


@click.command()
@at_location
@click.option("--to", type=int, default=8, show_default=True, help="The version of the table format.")
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def downgrade(
    context: click.Context, location: str, storage_options: dict[str, str], to: int, only_plan: bool, as_json: bool
) -> None:
    """Lower the table at LOCATION to version 8 (for Hudi 1.0), or with --to 6 to version 6 (for Hudi 0.15). No row changes.

    A change to version 8 drops the indexes that version 8 does not support. A change to version 6 drops the metadata table, and the older states of
    a merge-on-read table.

    Exit code 0: done, or nothing to do, or (--plan) the change is possible; 1: (--plan) it would be refused; 2: the command was refused, or it
    failed.
    """
    with reporting_errors(context):
        service = open_table(location, storage_options).downgrade
        if only_plan:
            plan = service.plan(to)
            found, text, code = of_plan(plan), str(plan), FOUND if plan.refused is not None else 0
        else:
            done = service(to)
            found, text, code = of_result(done), str(done), 0
        if as_json:
            click.echo(json.dumps(found, indent=2))
        else:
            console().print(safe(text))
        context.exit(code)


def _plan(
    context: click.Context, location: str, storage_options: dict[str, str], to: int, *, roll_back: bool, as_json: bool
) -> None:
    """Show the plans of all tables at or below a location."""
    found = tables_below(location, storage_options)
    if not found:
        print_error(no_tables(location, storage_options))
        context.exit(CANNOT_OPEN)
    lines = [_line(table, storage_options, to, roll_back=roll_back) for table in found]
    if as_json:
        click.echo(json.dumps(lines, indent=2))
    else:
        print_rows(
            [{name: line[name] for name in ("table", "version", "to", "pending", "seconds", "what")} for line in lines]
        )
    context.exit(FOUND if any(line["refused"] for line in lines) else 0)


def _line(table: str, storage_options: dict[str, str], to: int, *, roll_back: bool) -> dict[str, Any]:
    """Return the plan of one table as a row of the output. For a table that cannot be opened, the column ``what`` has the text of the error."""
    try:
        plan = open_table(table, storage_options).upgrade.plan(to, roll_back=roll_back)
    except HudiError as error:
        return {
            "table": table,
            "version": None,
            "to": to,
            "pending": None,
            "seconds": None,
            "what": str(error),
            "refused": True,
        }
    return {"table": table, **of_plan(plan)}


def of_plan(plan: VersionPlan) -> dict[str, Any]:
    """Return the plan as plain values for JSON."""
    return {
        "version": plan.found,
        "to": plan.to,
        "due": bool(plan),
        "refused": plan.refused is not None,
        "pending": len(plan.pending),
        "seconds": plan.figures["estimated_seconds"],
        "what": str(plan),
        "figures": dict(plan.figures),
        "properties": dict(plan.properties),
    }


def of_result(done: VersionResult) -> dict[str, Any]:
    """Return the result as plain values for JSON."""
    return {
        "done": bool(done),
        "version": done.found,
        "to": done.to,
        "figures": dict(done.figures),
        "indexes": list(done.indexes),
        "why_not": done.why_not,
        "left": done.left,
    }
