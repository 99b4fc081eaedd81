"""``pyhudi timeline``: the active timeline, newest last."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from pyhudi_core.cli.terminal import at_location, console, print_shown, reporting_errors, rows_options
from pyhudi_core.model.commit import SCHEMA_KEY
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.opening import open_table
from pyhudi_core.table import HudiTable

_COLUMNS = ("requested", "completed", "action", "state", "operation", "rows", "extra_metadata")
_COLOURS = {State.REQUESTED: "yellow", State.INFLIGHT: "yellow", State.COMPLETED: "green"}


@click.command()
@at_location
@click.option("--last", default=20, show_default=True, type=click.IntRange(min=1), help="How many instants to show.")
@click.option("--action", type=click.Choice([action.value for action in Action]), help="Only instants of this action.")
@rows_options("instants")
@click.pass_context
def timeline(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    last: int,
    action: str | None,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show the active timeline of the table at LOCATION. Exit code 0: shown; 2: it failed."""
    with reporting_errors(context):
        opened = open_table(location, storage_options)
        instants = opened.timeline.filter(action=action)
        shown = instants.instants[-last:]
        details = [_details(opened, instant) for instant in shown]
    full = [
        {"requested": i.requested_time, "completed": i.completion_time, "action": str(i.action), "state": str(i.state), **what}
        for i, what in zip(shown, details, strict=True)
    ]  # fmt: skip
    print_shown(list(map(_row, shown, details)), full, only, names=_COLUMNS, as_json=as_json, as_csv=as_csv)
    if len(shown) < len(instants) and not (as_json or as_csv):
        console().print(f"[dim]{len(instants) - len(shown)} older instants; --last shows more[/]")


def _details(table: HudiTable, instant: Instant) -> dict[str, Any]:
    """Return the content of a completed commit: operation, rows and the caller's metadata; nothing for other instants."""
    if not instant.is_completed or instant.action not in DATA_ACTIONS:
        return {}
    commit = table.commit_metadata(instant)
    own = {
        key: value
        for key, value in commit.extra_metadata.items()
        if key != SCHEMA_KEY and not key.startswith("pyhudi.")
    }
    return {"operation": commit.operation, "rows": sum(stat.rows for stat in commit.stats), "extra_metadata": own}


def _row(instant: Instant, details: dict[str, Any]) -> dict[str, Any]:
    own = ", ".join(f"{key}={value}" for key, value in details.get("extra_metadata", {}).items())
    return {
        "requested": instant.requested_time,
        "completed": instant.completion_time,
        "action": instant.action,
        "state": Text(str(instant.state), _COLOURS[instant.state]),
        "operation": details.get("operation"),
        "rows written": f"{details['rows']:,}" if details else None,
        "metadata": own,
    }
