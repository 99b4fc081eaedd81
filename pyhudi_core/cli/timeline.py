"""``pyhudi timeline``: the active timeline, newest last."""

from __future__ import annotations

import json

import click
from rich.table import Table

from pyhudi_core.cli.terminal import at_location, console, reporting_errors, safe
from pyhudi_core.model.instant import Action, State
from pyhudi_core.opening import open_table

_COLOURS = {State.REQUESTED: "yellow", State.INFLIGHT: "yellow", State.COMPLETED: "green"}


@click.command()
@at_location
@click.option("--last", default=20, show_default=True, type=click.IntRange(min=1), help="How many instants to show.")
@click.option("--action", type=click.Choice([action.value for action in Action]), help="Only instants of this action.")
@click.option("--json", "as_json", is_flag=True, help="Print the instants as JSON.")
@click.pass_context
def timeline(
    context: click.Context, location: str, storage_options: dict[str, str], last: int, action: str | None, as_json: bool
) -> None:
    """Show the active timeline of the table at LOCATION. Exit code 0: shown; 2: it failed."""
    with reporting_errors(context):
        instants = open_table(location, storage_options).timeline.filter(action=action)
    shown = instants.instants[-last:]
    if as_json:
        rows = [
            {"requested": i.requested_time, "completed": i.completion_time, "action": str(i.action), "state": str(i.state)}
            for i in shown
        ]  # fmt: skip
        click.echo(json.dumps(rows, indent=1))
        return
    table = Table("requested", "completed", "action", "state", box=None, pad_edge=False, header_style="bold")
    for instant in shown:
        state = f"[{_COLOURS[instant.state]}]{instant.state}[/]"
        table.add_row(safe(instant.requested_time), safe(instant.completion_time or ""), str(instant.action), state)
    out = console()
    out.print(table)
    if len(shown) < len(instants):
        out.print(f"[dim]{len(instants) - len(shown)} older instants; --last shows more[/]")
