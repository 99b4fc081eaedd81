"""``pyhudi tables``: list the tables of a lake by their names. Changes nothing."""

from __future__ import annotations

from typing import Any

import click

from pyhudi_core.cli.terminal import (
    CANNOT_OPEN,
    FOUND,
    at_location,
    print_error,
    print_shown,
    refuse_wrong_form,
    reporting_errors,
    rows_options,
    table_option,
)
from pyhudi_core.errors import HudiError
from pyhudi_core.lake_tables import Lake, lake, no_tables

_COLUMNS = ("name", "type", "version", "newest", "location", "problem")


@click.command()
@at_location
@table_option("pyhudi.catalog.tls")
@rows_options("tables")
@click.pass_context
def tables(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    options: dict[str, str],
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """List the tables of the lake at LOCATION: a folder, a bucket, or a database of a catalog (thrift://metastore:9083/sales, glue://sales).

    Exit code 0: shown; 1: a table cannot be opened, and the others are shown; 2: there is no table, or it failed.
    """
    refuse_wrong_form(_COLUMNS, only, as_json=as_json, as_csv=as_csv)
    with reporting_errors(context):
        opened = lake(location, storage_options, options)
        rows = [_row(opened, name) for name in opened.list()]
        if not rows:
            print_error(no_tables(opened.location, storage_options))
            context.exit(CANNOT_OPEN)
    problems = any(row["problem"] for row in rows)
    shown = rows if problems else [{name: row[name] for name in _COLUMNS[:-1]} for row in rows]
    print_shown(shown, rows, only, names=_COLUMNS, as_json=as_json, as_csv=as_csv)
    context.exit(FOUND if problems else 0)


def _row(opened: Lake, name: str) -> dict[str, Any]:
    """Return one table as a row; an error is its text."""
    try:
        table = opened.table(name)
        newest = table.timeline.commits.instants[-1:]
        found = (table.config.table_type.value, table.config.version, newest[0].requested_time if newest else None)
        return dict(zip(_COLUMNS, (name, *found, table.location, ""), strict=True))
    except HudiError as error:
        return dict(zip(_COLUMNS, (name, None, None, None, opened.location_of(name), str(error)), strict=True))
