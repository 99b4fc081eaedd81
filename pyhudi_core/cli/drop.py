"""``pyhudi drop``: delete a table for good. Exit codes as everywhere (``terminal.py``)."""

from __future__ import annotations

import json

import click

from pyhudi_core.cli.progress import progress_bar, with_estimate
from pyhudi_core.cli.terminal import FOUND, at_location, console, reporting_errors, safe
from pyhudi_core.errors import TableNotFoundError
from pyhudi_core.opening import drop_of
from pyhudi_core.repairs.catalog_drop import CatalogDrop
from pyhudi_core.repairs.drop import DroppedTable
from pyhudi_core.storage.paths import is_catalog_address


@click.command()
@at_location
@click.option(
    "--plan", "only_plan", is_flag=True, help="Show what would be deleted and who uses the table, and change nothing."
)
@click.option("--if-exists", is_flag=True, help="No table is no error.")
@click.option(
    "--names-only",
    is_flag=True,
    help="Of a table of a catalog only the names go there; its files stay, if there are any.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def drop(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only_plan: bool,
    if_exists: bool,
    names_only: bool,
    as_json: bool,
) -> None:
    """Delete the table at LOCATION for good: rows, history, savepoints. The deletion is refused while a writer or a service is running, and while a
    hold has not ended. Files of other programs stay.

    Exit code 0: done; 1: with --plan, the command would be refused; 2: the command was refused, or it failed.
    """
    with reporting_errors(context):
        if names_only and not (is_catalog_address(location) and not only_plan):
            raise click.UsageError(
                "--names-only is for a table of a catalog (thrift:// or glue://), and without --plan"
            )
        try:
            wanted = drop_of(location, storage_options)
        except TableNotFoundError as error:
            if not if_exists:
                raise
            _print(DroppedTable(location, why_not=error.message), as_json=as_json)
            return
        if only_plan:
            planned = wanted.plan()
            shown = {
                "figures": dict(planned.figures),
                "savepoints": planned.savepoints,
                "left": planned.left,
                "half_dropped": planned.half_dropped,
                "why_not": planned.why_not,
            }
            click.echo(json.dumps(shown, indent=2)) if as_json else console().print(safe(with_estimate(planned)))
            context.exit(0 if planned else FOUND)
        with progress_bar("drop") as progress:
            done = (
                wanted(progress=progress, names_only=names_only)
                if isinstance(wanted, CatalogDrop)
                else wanted(progress=progress)
            )
        _print(done, as_json=as_json)


def _print(done: DroppedTable, *, as_json: bool) -> None:
    found = {"figures": dict(done.figures), "left": done.left, "why_not": done.why_not}
    click.echo(json.dumps(found, indent=2)) if as_json else console().print(safe(str(done)))
