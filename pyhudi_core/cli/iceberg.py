"""``pyhudi iceberg``: write Iceberg metadata next to the table, and into a catalog of pyiceberg."""

from __future__ import annotations

import json
from typing import Any

import click

from pyhudi_core.cli.progress import progress_bar
from pyhudi_core.cli.terminal import FOUND, at_location, console, reporting_errors, safe, table_option
from pyhudi_core.opening import open_table
from pyhudi_core.services.service import refused_by


@click.command("iceberg")
@at_location
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be synced, and change nothing.")
@click.option("--catalog", help="The name of a catalog in pyiceberg's configuration; it gets the same state.")
@click.option("--name", default="", help="With --catalog: the table's name there, such as sales.orders.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@table_option("pyhudi.iceberg.snapshots")
@click.pass_context
def iceberg(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only_plan: bool,
    catalog: str | None,
    name: str,
    as_json: bool,
    options: dict[str, str],
) -> None:
    """Make Iceberg metadata for the table at LOCATION, in its folder metadata/, or bring it to the newest state. No data file is copied.

    Exit code 0: done, or nothing to do; 1: with --plan, the sync would be refused; 2: the sync was refused, or it failed.
    """
    if bool(catalog) != bool(name):
        raise click.UsageError("give --catalog and --name together")
    if only_plan and catalog:
        raise click.UsageError("--plan looks at the table alone; leave --catalog and --name out")
    with reporting_errors(context):
        service = open_table(location, storage_options, options=options).iceberg
        found: Any
        if only_plan:
            found = service.plan(first=True)
            shown = {"due": bool(found), "reason": found.reason, "commits": [i.requested_time for i in found.commits]}
        else:
            with progress_bar("iceberg") as progress:
                found = service.sync(catalog, name, progress=progress)
            shown = {
                "changed": bool(found),
                "version": found.version,
                "commits": [i.requested_time for i in found.instants],
            }
        shown |= {"figures": dict(found.figures), "why_not": found.why_not}
    if as_json:
        click.echo(json.dumps(shown, indent=2))
    else:
        console().print(safe(str(found)))
    context.exit(FOUND if only_plan and refused_by(found) else 0)
