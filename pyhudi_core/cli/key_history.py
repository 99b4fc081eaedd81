"""``pyhudi key-history``: show the changes of a key's row by commits. It changes nothing."""

from __future__ import annotations

from typing import Any

import click

from pyhudi_core.cli.json_text import json_text
from pyhudi_core.cli.terminal import (
    FOUND,
    at_location,
    columns_option,
    console,
    csv_option,
    print_as,
    reporting_errors,
    safe,
)
from pyhudi_core.model.meta_fields import RECORD_KEY
from pyhudi_core.opening import open_table
from pyhudi_core.table import HudiTable


@click.command("key-history")
@at_location
@click.argument("key")
@columns_option
@csv_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the complete rows before and after.")
@click.pass_context
def key_history(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    key: str,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show which commits inserted, updated or deleted the row with the record key KEY of the table at LOCATION, newest first.

    For a key with several columns, give the text that Hudi stores, such as id:1,day:a. Exit code 0: shown; 1: no commit is known that touched the
    key; 2: it failed.
    """
    with reporting_errors(context):
        table = open_table(location, storage_options)
        found = table.key_history(key)
        example = None if found else _example(table)
    rows = found.rows.to_pylist()
    if as_json and not as_csv and not only:
        told = {"key": found.key, "known_from": found.known_from or None, "note": found.note, "commits": rows}
        click.echo(json_text(told, 1))
    else:
        shown = [_row(row) for row in rows]
        print_as(shown, tuple(_row(None)), only, as_json=as_json, as_csv=as_csv)
        if found.note:
            console(stderr=as_csv or as_json).print(safe(f"Note: {found.note}."))
        if example is not None:
            said = f"No known commit touched the key {found.key!r}. A key of this table is {example!r}."
            console(stderr=True).print(safe(said))
    context.exit(0 if found else FOUND)


def _example(table: HudiTable) -> str | None:
    """Return a record key of the table; None if it has no row."""
    keys: list[str] = table.scan(columns=[RECORD_KEY]).limit(1).to_arrow()[RECORD_KEY].to_pylist()
    return next(iter(keys), None)


def _row(row: dict[str, Any] | None) -> dict[str, Any]:
    row = row or {}
    when = row.get("completed")
    return {
        "completed": f"{when:%Y-%m-%d %H:%M:%S} UTC" if when is not None else row.get("completion_time"),
        "instant": row.get("instant"),
        "operation": row.get("operation"),
        "action": row.get("action"),
        "user": row.get("user"),
        "program": row.get("program"),
        "run": row.get("run"),
        "values": _values(row.get("before"), row.get("after"), row.get("changed") or []),
    }


def _values(before: dict[str, Any] | None, after: dict[str, Any] | None, changed: list[str]) -> str:
    """Return the differences, or the values of the only row."""
    if before is not None and after is not None:
        return ", ".join(f"{name}: {before[name]} -> {after[name]}" for name in changed) or "no column differs"
    return ", ".join(f"{name}={value}" for name, value in (after or before or {}).items() if value is not None)
