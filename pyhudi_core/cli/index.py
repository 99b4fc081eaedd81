"""``pyhudi index``: the indexes of a table. ``pyhudi sql``: the same by a statement of Hudi's SQL.

Exit code 0: done, or nothing to do; 2: it failed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import click
import pyarrow as pa

from pyhudi_core.cli.terminal import at_location, console, reporting_errors, safe
from pyhudi_core.opening import open_table
from pyhudi_core.table import HudiTable

_ACTIONS = ("list", "create", "drop", "schedule", "execute", "cancel")
_Shown = tuple[str, Any]


@click.command()
@at_location
@click.argument("action", type=click.Choice(_ACTIONS), default="list")
@click.argument("names", nargs=-1)
@click.option("--column", "columns", multiple=True, help="With create: a column of the index; may be repeated.")
@click.option("--using", default="", help="With create: column_stats or bloom_filters, for an index on an expression.")
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the index; may be repeated."
)
@click.pass_context
def index(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    action: str,
    names: tuple[str, ...],
    columns: tuple[str, ...],
    using: str,
    only_plan: bool,
    as_json: bool,
    options: tuple[str, ...],
) -> None:
    """Indexes of the table at LOCATION: list; create or drop NAMES; schedule NAMES for any process to build; execute or cancel a plan by its time.

    Indexes of the whole table are built while writers write. One on a column is built in one decision, which begins again if a commit completes.

    Exit code 0: done, or nothing to do; 2: it failed.
    """
    if action in ("create", "drop", "schedule", "cancel") and not names:
        raise click.UsageError(f"{action} needs at least one name")
    if only_plan and action not in ("create", "drop", "schedule"):
        raise click.UsageError("--plan goes with create, drop and schedule")
    if (columns or using or options) and (action != "create" or len(names) != 1):
        raise click.UsageError("--column, --using and --option go with create and one name")
    with reporting_errors(context):
        given = _Given(action, names, columns, using, dict(text.partition("=")[::2] for text in options), only_plan)
        _print(*_carried_out(open_table(location, storage_options), given), as_json=as_json)


@click.command()
@at_location
@click.argument("statement")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def sql(context: click.Context, location: str, storage_options: dict[str, str], statement: str, as_json: bool) -> None:
    """Carry out a STATEMENT of Hudi's SQL about indexes of the table at LOCATION: CREATE INDEX, DROP INDEX or SHOW INDEXES."""
    with reporting_errors(context):
        found = open_table(location, storage_options).sql(statement)
        if isinstance(found, pa.Table):
            rows = found.to_pylist()
            _print(_lines(rows), rows, as_json=as_json)
        else:
            _print(str(found), {"changed": bool(found), "result": str(found)}, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Given:
    """What the user asked for."""

    action: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    using: str
    options: dict[str, str]
    only_plan: bool


def _carried_out(table: HudiTable, given: _Given) -> _Shown:
    """Do it, unless only the plan is wanted; returns what to print, as text and for JSON."""
    if given.action == "list":
        rows = table.indexes.to_arrow().to_pylist()
        return _lines(rows), rows
    if given.action in ("create", "schedule"):
        return _planned(table, given) if given.only_plan else _made(table, given)
    if given.action == "drop":
        if given.only_plan:
            there = dict.fromkeys(one for name in given.names for one in table.indexes.plan_drop(name))
            return f"Drop: {', '.join(one.name for one in there)}", [asdict(one) for one in there]
        dropped = [str(table.indexes.drop(name)) for name in given.names]
        return "\n".join(dropped), {"result": dropped}
    if given.action == "cancel":
        done = {time: table.indexing.cancel(time) for time in given.names}
        said = [f"{'Removed the plan' if gone else 'No pending plan'} {time}" for time, gone in done.items()]
        return "\n".join(said), done
    result = table.indexing.execute(given.names[0] if given.names else None)
    return str(result), {"instants": [one.requested_time for one in result.instants], "why_not": result.why_not}


def _planned(table: HudiTable, given: _Given) -> _Shown:
    if given.action == "schedule":
        plans = [table.indexing.plan(given.names)]
    else:
        plans = [table.indexes.plan(name, given.columns, given.using, given.options) for name in given.names]
    shown = [{"partitions": dict(plan.partitions), "up_to": plan.up_to, "why_not": plan.why_not} for plan in plans]
    return "\n".join(map(str, plans)), shown


def _made(table: HudiTable, given: _Given) -> _Shown:
    if given.action == "schedule":
        plan = table.indexing.plan(given.names)
        instant = table.indexing.schedule(given.names)
        time = instant.requested_time if instant is not None else None
        return (f"Planned {time}: {plan}" if time else str(plan)), {"instant": time, "why_not": plan.why_not}
    made = [table.indexes.create(name, given.columns, given.using, given.options) for name in given.names]
    times = [instant.requested_time for result in made for instant in result.instants]
    return "\n".join(map(str, made)), {"instants": times, "partitions": [name for one in made for name in one.names]}


def _lines(rows: list[dict[str, str]]) -> str:
    """One line for each index."""
    found = [f"{row['index_name']}  {row['index_type']}  {row['col_name'] or '-'}  {row['state']}" for row in rows]
    return "\n".join(found) or "The table has no index"


def _print(text: str, found: Any, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for line in text.splitlines():
            console().print(safe(line))
