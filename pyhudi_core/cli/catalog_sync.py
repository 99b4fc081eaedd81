"""``pyhudi catalog-sync``: the table in a Hive Metastore or in Glue, or as a manifest."""

from __future__ import annotations

import json
from typing import Any

import click

from pyhudi_core.cli.progress import progress_bar
from pyhudi_core.cli.terminal import FOUND, at_location, console, reporting_errors, safe, table_option
from pyhudi_core.opening import open_table
from pyhudi_core.options.catalog import GLUE, HMS, MANIFEST
from pyhudi_core.services.catalog_sync import refuse_ignored
from pyhudi_core.services.service import refused_by

_KEY = "hoodie.datasource.hive_sync."


@click.command("catalog-sync")
@at_location
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be synced, and change nothing.")
@click.option("--mode", type=click.Choice([HMS, GLUE, MANIFEST]), help="The kind of catalog.")
@click.option("--database", help="The database there.")
@click.option("--name", help="The table's name there; by default its own.")
@click.option("--uris", help="The metastores, such as thrift://host:9083.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@table_option(f"{_KEY}metastore.uris")
@click.pass_context
def catalog_sync(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only_plan: bool,
    mode: str | None,
    database: str | None,
    name: str | None,
    uris: str | None,
    as_json: bool,
    options: dict[str, str],
) -> None:
    """Create the table at LOCATION in a catalog, or update its entry there. A table of another owner is never overwritten.

    Exit code 0: done, or nothing to do; 1: with --plan, the command would be refused; 2: the command was refused, or it failed.
    """
    asked = {"mode": mode, "database": database, "table": name, "metastore.uris": uris, "enable": "true"}
    given = {**options, **{f"{_KEY}{key}": text for key, text in asked.items() if text is not None}}
    with reporting_errors(context):
        service = open_table(location, storage_options, options=given).catalog
        names = {"database": database, "table": name, "uris": uris}
        refuse_ignored(service.context.options.catalog.mode, [key for key, text in names.items() if text is not None])
        found: Any
        if only_plan:
            found = service.plan()
        else:
            with progress_bar("catalog-sync") as progress:
                found = service.sync(progress=progress)
    if as_json:
        shown = {
            "due" if only_plan else "changed": bool(found),
            "tables": list(found.tables),
            "changes": list(found.changes),
        }
        shown |= {"reason": found.reason, "figures": dict(found.figures), "why_not": found.why_not}
        click.echo(json.dumps(shown, indent=2))
    else:
        console().print(safe(str(found)))
    context.exit(FOUND if only_plan and refused_by(found) else 0)
