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
from pyhudi_core.lake_tables import no_tables, tables_below
from pyhudi_core.opening import open_table
from pyhudi_core.options import WriteOptions
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.paths import is_catalog_address

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
    """List the tables at or below LOCATION: a folder, a bucket, or a database of a catalog (thrift://metastore:9083/sales, glue://sales).

    Exit code 0: shown; 1: a table cannot be opened, and the others are shown; 2: there is no table, or it failed.
    """
    refuse_wrong_form(_COLUMNS, only, as_json=as_json, as_csv=as_csv)
    with reporting_errors(context):
        WriteOptions.parse(options)  # a wrong option is no problem of each table
        places = tables_below(location, storage_options, options)
        if not places:
            print_error(no_tables(location, storage_options))
            context.exit(CANNOT_OPEN)
        given = location if is_catalog_address(location) else open_storage(location, storage_options).location
        names = [place.removeprefix(given.rstrip("/")).strip("/") or place.rpartition("/")[2] for place in places]
        rows = [_row(place, name, storage_options, options) for place, name in zip(places, names, strict=True)]
    problems = any(row["problem"] for row in rows)
    shown = rows if problems else [{name: row[name] for name in _COLUMNS[:-1]} for row in rows]
    print_shown(shown, rows, only, names=_COLUMNS, as_json=as_json, as_csv=as_csv)
    context.exit(FOUND if problems else 0)


def _row(place: str, name: str, storage_options: dict[str, str], options: dict[str, str]) -> dict[str, Any]:
    """Return one table as a row; an error is its text."""
    try:
        table = open_table(place, storage_options, options)
        newest = table.timeline.commits.instants[-1:]
        found = (table.config.table_type.value, table.config.version, newest[0].requested_time if newest else None)
        return dict(zip(_COLUMNS, (name, *found, table.location, ""), strict=True))
    except HudiError as error:
        return dict(zip(_COLUMNS, (name, None, None, None, place, str(error)), strict=True))
