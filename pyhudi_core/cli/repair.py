"""``pyhudi repair --duplicates``: show which surplus rows of a key would be removed; with ``--run``, remove them."""

from __future__ import annotations

import json

import click

from pyhudi_core.cli.terminal import (
    at_location,
    columns_option,
    console,
    csv_option,
    print_as,
    print_rows,
    reporting_errors,
    safe,
)
from pyhudi_core.opening import open_table

_SHOWN = 20


@click.command()
@at_location
@click.option("--duplicates", is_flag=True, required=True, help="Keys that a partition has in several file groups.")
@click.option("--plan", "only_plan", is_flag=True, help="Show the surplus rows, and change nothing: the default.")
@click.option("--run", "execute", is_flag=True, help="Remove the surplus rows. Without it, nothing is changed.")
@columns_option
@csv_option
@click.option("--json", "as_json", is_flag=True, help="Print the plan, or the commit, as JSON.")
@click.pass_context
def repair(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    duplicates: bool,
    only_plan: bool,
    execute: bool,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Repair what other writers left in a table. Shows the plan first; changes the table only with --run. --csv and --columns show every surplus row.

    Exit code 0: done, or nothing to do; 2: it failed.
    """
    assert duplicates
    if only_plan and execute:
        raise click.UsageError("give one of --plan and --run")
    if (as_csv or only) and (execute or as_json):
        raise click.UsageError("--csv and --columns go with the plan, and not with --run or --json")
    with reporting_errors(context):
        service = open_table(location, storage_options).duplicates
        plan = service.plan()
        commit = service.run() if execute and plan else None
    figures = dict(plan.figures)
    titles = ("partition", "key", "removed from", "stays in")
    if as_csv or only:
        rows = plan.surplus.rename_columns(titles).to_pylist()
        print_as(rows, titles, only, as_json=False, as_csv=as_csv)
        return
    if as_json:
        done = {} if commit is None else {"instant": commit.instant, "rows_deleted": commit.stats.rows_deleted}
        click.echo(json.dumps({**figures, "why_not": plan.why_not, **done}, indent=2))
        return
    console().print(safe(str(plan)))
    if plan:
        print_rows(plan.surplus.slice(0, _SHOWN).rename_columns(titles).to_pylist())
    if commit is not None:
        console().print(f"removed {commit.stats.rows_deleted:,} rows in the commit {commit.instant}")
    elif plan:
        console().print("Nothing was changed; --run removes these rows.")
