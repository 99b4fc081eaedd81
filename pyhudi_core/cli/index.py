"""``pyhudi index``: the indexes of a table. Exit codes as everywhere (``terminal.py``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import click
import pyarrow as pa

from pyhudi_core.cli.progress import progress_bar, with_estimate
from pyhudi_core.cli.terminal import (
    FOUND,
    at_location,
    columns_option,
    console,
    csv_option,
    pairs,
    print_as,
    refuse_of_other_actions,
    reporting_errors,
    safe,
    table_option,
)
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.opening import open_table
from pyhudi_core.services.indexing.indexes import IndexState
from pyhudi_core.services.indexing.indexing_plan import IndexingPlan
from pyhudi_core.table import HudiTable

_ACTIONS = ("list", "create", "drop", "schedule", "execute", "cancel")
_TAKERS = {
    "names": ("create", "drop", "schedule", "execute", "cancel"),
    "only_plan": ("create", "drop", "schedule"),
    **dict.fromkeys(("columns", "using", "index_options"), ("create", "schedule")),
    "if_not_exists": ("create",),
    "if_exists": ("drop",),
    **dict.fromkeys(("only", "as_csv"), ("list",)),
}
_Shown = tuple[str, Any, int]
"""The text to print, the same for JSON, and the exit code."""


@click.command()
@at_location
@click.argument("action", type=click.Choice(_ACTIONS), default="list")
@click.argument("names", nargs=-1)
@click.option(
    "--column", "columns", multiple=True, help="With create and schedule: a column of the index; may be repeated."
)
@click.option(
    "--using",
    default="",
    help="With create and schedule: column_stats, for an index on an expression; without it, a secondary index.",
)
@click.option("--if-not-exists", is_flag=True, help="With create: an index of this name is left as it is.")
@click.option("--if-exists", is_flag=True, help="With drop: no index of this name is no error.")
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and change nothing.")
@columns_option
@csv_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--index-option",
    "index_options",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="With create and schedule: an option of the index, such as expr=lower; may be repeated.",
)
@table_option("hoodie.metadata.index.bloom.filter.enable")
@click.pass_context
def index(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    action: str,
    names: tuple[str, ...],
    columns: tuple[str, ...],
    using: str,
    if_not_exists: bool,
    if_exists: bool,
    only_plan: bool,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
    index_options: dict[str, str],
    options: dict[str, str],
) -> None:
    """Indexes of the table at LOCATION: list; create or drop NAMES; schedule NAMES for any process to build; execute or cancel a plan by its time.

    Indexes are built while writers write. Create does nothing if the index exists; an index of that name on other columns is refused.

    Exit code 0: done, or nothing to do; 1: a plan that is named is not pending, or with --plan, the command would be refused; 2: the command was
    refused, or it failed.
    """
    refuse_of_other_actions(context, action, _TAKERS)
    if action in ("create", "drop", "schedule", "cancel") and not names:
        raise click.UsageError(f"{action} needs at least one name")
    if action == "execute" and len(names) > 1:
        raise click.UsageError("execute takes the time of one plan, or none for the oldest")
    if (columns or using or index_options) and len(names) != 1:
        raise click.UsageError("--column, --using and --index-option go with one name")
    if (using or index_options) and not columns:
        raise click.UsageError("--using and --index-option describe an index on a --column")
    with reporting_errors(context):
        table = open_table(location, storage_options, options=options)
        if action == "list":
            print_indexes(table.indexes.to_arrow(), only, as_json=as_json, as_csv=as_csv)
            return
        given = _Given(action, names, columns, using, index_options, if_not_exists or if_exists, only_plan)
        text, found, code = _carried_out(table, given)
        print_result(text, found, as_json=as_json)
        context.exit(code)


@dataclass(frozen=True, slots=True)
class _Given:
    """The user's request. ``lenient``: whether an existing index (or a missing one, for a drop) is no error."""

    action: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    using: str
    options: dict[str, str] = field(repr=False)
    lenient: bool
    only_plan: bool

    @property
    def of_index(self) -> tuple[tuple[str, ...], str, dict[str, str]]:
        """Return the parts of an index on a column: columns, kind and options."""
        return self.columns, self.using, self.options

    @property
    def is_of_column(self) -> bool:
        return bool(self.columns)


def _plan_of(table: HudiTable, given: _Given) -> IndexingPlan:
    return table.indexes.plan(given.names[0], *given.of_index)


def _carried_out(table: HudiTable, given: _Given) -> _Shown:
    """Do it, unless only the plan is wanted; return the output, as text and for JSON."""
    if given.action in ("create", "schedule"):
        return _planned(table, given) if given.only_plan else _made(table, given)
    if given.action == "drop":
        if given.only_plan:
            plans = [table.indexes.plan_drop(name, if_exists=given.lenient) for name in given.names]
            there = dict.fromkeys(one for plan in plans for one in plan)
            return dropping(there), [asdict(one) for one in there], 0
        dropped = [str(table.indexes.drop(name, if_exists=given.lenient)) for name in given.names]
        return "\n".join(dropped), {"result": dropped}, 0
    if given.action == "cancel":
        done = {time: table.indexing.cancel(time) for time in given.names}
        said = [f"{'Removed the plan' if gone else 'No pending plan'} {time}" for time, gone in done.items()]
        return "\n".join(said), done, 0 if all(done.values()) else FOUND
    with progress_bar("indexing") as progress:
        result = table.indexing.execute(given.names[0] if given.names else None, progress=progress)
    times = [one.requested_time for one in result.instants]
    return str(result), {"instants": times, "why_not": result.why_not}, FOUND if given.names and not times else 0


def _planned(table: HudiTable, given: _Given) -> _Shown:
    if given.action == "schedule":
        plans = [table.indexing.plan(given.names)] if not given.is_of_column else [_plan_of(table, given)]
    else:
        plans = [table.indexes.plan(name, *given.of_index) for name in given.names]
    refused = any(plan.refused for plan in plans) or (given.action == "create" and not _may_be_there(table, given))
    return "\n".join(map(with_estimate, plans)), [figures_of_plan(plan) for plan in plans], FOUND if refused else 0


def _may_be_there(table: HudiTable, given: _Given) -> bool:
    """Say whether `create` may leave each existing index unchanged: none of them is on other columns."""
    try:
        for name in () if given.lenient else given.names:
            table.indexes.has(name, *given.of_index)
    except InvalidOptionError:
        return False
    return True


def figures_of_plan(plan: IndexingPlan) -> dict[str, Any]:
    """Return a plan as JSON shows it."""
    figures = dict(plan.figures)
    return {
        "partitions": dict(plan.partitions),
        "figures": figures,
        "up_to": plan.up_to or None,
        "why_not": plan.why_not,
        "refused": plan.refused is not None,
    }


def dropping(there: Iterable[IndexState]) -> str:
    """Return what a drop would remove, as a sentence."""
    return f"Drop: {', '.join(one.name for one in there) or 'nothing'}"


def _made(table: HudiTable, given: _Given) -> _Shown:
    if given.action == "schedule":
        if given.is_of_column:
            plan, instant = _plan_of(table, given), table.indexes.schedule(given.names[0], *given.of_index)
        else:
            plan, instant = table.indexing.plan(given.names), table.indexing.schedule(given.names)
        time = instant.requested_time if instant is not None else None
        return (f"Planned {time}: {plan}" if time else str(plan)), {"instant": time, "why_not": plan.why_not}, 0
    made = []
    for name in given.names:
        there = given.lenient or table.indexes.has(name, *given.of_index)
        with progress_bar(f"index {name}") as bar:
            made.append(table.indexes.create(name, *given.of_index, if_not_exists=there, progress=bar))
    times = [instant.requested_time for result in made for instant in result.instants]
    return "\n".join(map(str, made)), {"instants": times, "partitions": [name for one in made for name in one.names]}, 0


def print_indexes(found: pa.Table, only: tuple[str, ...], *, as_json: bool, as_csv: bool) -> None:
    """Print the rows of SHOW INDEXES."""
    rows, as_text = found.to_pylist(), not (as_json or as_csv or only)
    if as_text and not rows:
        console().print("The table has no index")
        return
    shown = [{**row, "col_name": row["col_name"] or "-"} for row in rows] if as_text else rows
    print_as(shown, found.column_names, only, as_json=as_json, as_csv=as_csv)


def print_result(text: str, found: Any, *, as_json: bool) -> None:
    """Print a result as text, or as JSON."""
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for line in text.splitlines():
            console().print(safe(line))
