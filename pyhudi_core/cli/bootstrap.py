"""``pyhudi bootstrap``: make a table of a folder of Parquet files. The next run continues an interrupted one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from pyhudi_core.cli.progress import bar_of
from pyhudi_core.cli.terminal import at_location, console, pairs, rename_option, reporting_errors, safe, table_option
from pyhudi_core.importing.bootstrap import bootstrap as load


@click.command()
@click.argument("source")
@at_location
@click.option("--record-key", multiple=True, required=True, help="A key column; may be repeated.")
@click.option(
    "--partition-by",
    multiple=True,
    help="A partition column; by default the columns in the names of the folders. May be repeated.",
)
@click.option(
    "--ordering", multiple=True, help="A column that decides which version of a row is newer; may be repeated."
)
@click.option("--table-type", help="copy_on_write (the default) or merge_on_read.")
@click.option("--name", help="The table's name; by default the last part of LOCATION.")
@rename_option
@click.option("--mode", default="FULL_RECORD", show_default=True, help="How the rows are taken over.")
@click.option(
    "--source-option",
    "source_options",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="An option of the source's storage; may be repeated.",
)
@table_option("hoodie.metadata.enable")
@click.option("--chunk-bytes", type=click.IntRange(min=1), help="Bytes of source files that become one commit.")
@click.option("--plan", is_flag=True, help="Show what would be loaded, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def bootstrap(context: click.Context, /, source: str, location: str, plan: bool, as_json: bool, **given: Any) -> None:
    """Copy the rows of the Parquet files below SOURCE into a new table at LOCATION, or continue a run that died.

    Exit code 0: done, or with --plan shown; 2: it failed. What was committed stays; run the command again to continue.
    """
    given["partition_by"] = given["partition_by"] or None
    with reporting_errors(context), bar_of() as bar:
        task = bar.add_task("files", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        found = load(source, location, plan=plan, progress=show, **given)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        console().print(safe(str(found)))
