"""``pyhudi sweep``: delete files that belong to nobody. Exit code 0: done, or nothing to do; 2: it failed."""

from __future__ import annotations

import json

import click

from pyhudi_core.cli.terminal import at_location, console, reporting_errors, safe
from pyhudi_core.opening import open_table


@click.command()
@at_location
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be deleted, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option, such as pyhudi.sweep.min.age.minutes; may be repeated.",
)
@click.pass_context
def sweep(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only_plan: bool,
    as_json: bool,
    options: tuple[str, ...],
) -> None:
    """Delete the files of the table at LOCATION that no commit, no plan and no running writer names.

    Exit code 0: done, or nothing to do; 2: it failed.
    """
    with reporting_errors(context):
        given = dict(text.partition("=")[::2] for text in options)
        service = open_table(location, storage_options, options=given).sweep
        found = service.plan() if only_plan else service.run()
        shown = {
            "due" if only_plan else "changed": bool(found),
            "figures": dict(found.figures),
            "why_not": found.why_not,
            "data_files": list(found.data_files),
        }
        click.echo(json.dumps(shown, indent=2)) if as_json else console().print(safe(str(found)))
