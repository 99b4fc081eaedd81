"""``pyhudi metadata``: the metadata table of a table. Shows it, makes it, removes it, or replaces it; ``--plan`` only says what would be done."""

from __future__ import annotations

import json

import click

from pyhudi_core.cli.terminal import FOUND, at_location, console, refuse_of_other_actions, reporting_errors, safe
from pyhudi_core.doctor.kinds import Area, Severity
from pyhudi_core.opening import open_table
from pyhudi_core.services.metadata.metadata_tables import MetadataTableOf
from pyhudi_core.table import HudiTable

_ACTIONS = ("show", "create", "drop", "rebuild", "repair")


@click.command()
@at_location
@click.argument("action", type=click.Choice(_ACTIONS), default="show")
@click.option(
    "--index",
    "indexes",
    multiple=True,
    help="A partition to make (column_stats, record_index, ...); may be given several times.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the listed partitions and the result as JSON.")
@click.pass_context
def metadata(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    action: str,
    indexes: tuple[str, ...],
    only_plan: bool,
    as_json: bool,
) -> None:
    """Show, create, drop or rebuild a table's metadata table; repair rebuilds it if `pyhudi check` finds that it is stale or broken.

    Exit code 0: done, or nothing to do; 1: with --plan, create would be refused; 2: the command was refused, or it failed.
    """
    refuse_of_other_actions(context, action, {"indexes": ("create",)})
    with reporting_errors(context):
        table, refused = open_table(location, storage_options), False
        if action == "repair":
            said = _repaired(table, only_plan=only_plan)
        elif action == "create" and only_plan:
            plan = table.metadata_table.plan(list(indexes) or None)
            said, refused = str(plan), plan.refused
        else:
            said = _said(table.metadata_table, action, list(indexes) or None, only_plan=only_plan)
        shown = {"partitions": list(table.metadata_table.partitions), "result": said}
        click.echo(json.dumps(shown, indent=2)) if as_json else console().print(safe(said))
        context.exit(FOUND if refused else 0)


def _repaired(table: HudiTable, *, only_plan: bool) -> str:
    """Replace the metadata table if the doctor finds an error in it; return the output, a line for each finding."""
    report = table.check()
    wrong = [item for item in report.findings if item.area is Area.METADATA_TABLE and item.severity is Severity.ERROR]
    if not wrong:
        return "The metadata table needs no repair"
    lines = [f"{item.kind}: {item.what}" for item in wrong]
    end = "It would be removed and made again" if only_plan else str(table.metadata_table.rebuild())
    return "\n".join([*lines, end])


def _said(found: MetadataTableOf, action: str, indexes: list[str] | None, *, only_plan: bool) -> str:
    """Do it, unless only the plan is wanted; return the output."""
    listed = ", ".join(found.partitions) or "none"
    if action == "show":
        return f"The table lists: {listed}"
    if action == "create":
        return str(found.create(indexes))
    if only_plan:
        return f"Remove: {listed}" + (", and make them again" if action == "rebuild" else "")
    return str(found.drop() if action == "drop" else found.rebuild())
