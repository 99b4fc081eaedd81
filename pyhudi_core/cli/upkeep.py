"""``pyhudi upkeep``: decide which services are due in tables, say why, and run them within limits.

Exit code 0: all that was due is done, or (with --plan) shown; 1: a table or a service failed, or one of several locations has no
table, and the others were looked after; 2: no table was found,
or the command is wrong; 130: interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from pyhudi_core.cli.progress import bar_of
from pyhudi_core.cli.terminal import (
    CANNOT_OPEN,
    FOUND,
    console,
    print_error,
    print_shown,
    refuse_wrong_form,
    reporting_errors,
    rows_options,
    safe,
    storage_option,
    table_option,
)
from pyhudi_core.lake_tables import no_tables, tables_below
from pyhudi_core.services.upkeep_rules import UpkeepRules
from pyhudi_core.upkeep_run import Outcome, UpkeepLine, UpkeepProgress
from pyhudi_core.upkeep_run import upkeep as look_after

_COLOURS = {Outcome.DUE: "cyan", Outcome.RAN: "green", Outcome.LEFT: "yellow", Outcome.FAILED: "red"}


@click.command()
@click.argument("locations", nargs=-1, required=True)
@storage_option
@click.option("--plan", "only_plan", is_flag=True, help="Only decide, and say why. Changes nothing.")
@click.option("--service", "services", multiple=True, help="Only this service; may be repeated.")
@click.option("--seconds", type=float, help="Begin no service if the run would take longer.")
@click.option("--bytes", "most_bytes", type=int, help="Begin no service if the run would rewrite more bytes.")
@click.option(
    "--log-ratio", type=float, default=0.3, show_default=True, help="Compact from this share of log bytes on."
)
@click.option(
    "--small-groups", type=int, default=10, show_default=True, help="Cluster if that saves so many file groups."
)
@table_option("hoodie.clean.commits.retained")
@click.option("--all", "show_all", is_flag=True, help="Show what is not due, too, as --plan does for one table.")
@rows_options("lines")
@click.pass_context
def upkeep(
    context: click.Context,
    locations: tuple[str, ...],
    storage_options: dict[str, str],
    only_plan: bool,
    services: tuple[str, ...],
    seconds: float | None,
    most_bytes: int | None,
    log_ratio: float,
    small_groups: int,
    options: dict[str, str],
    show_all: bool,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """Run the table services that are due in the tables at or below LOCATIONS, and say why.

    Exit code 0: done, or with --plan shown; 1: a table or a service failed, or one of several locations has no table, and the others were looked
    after; 2: there is no table, or the command is wrong; 130: interrupted, what had ended is done.
    """
    names = list(UpkeepLine("", "", Outcome.DUE, "").to_dict())
    refuse_wrong_form(names, only, as_json=as_json, as_csv=as_csv)
    with reporting_errors(context):
        rules = UpkeepRules(services or None, log_ratio, small_groups, seconds, most_bytes)
        below = {location: tables_below(location, storage_options, options) for location in locations}
        # A location without a table fails by a line, if others have tables.
        found = (
            [one for location, tables in below.items() for one in tables or [location]] if any(below.values()) else []
        )
        with _progress() as progress:
            report = look_after(
                found, rules, plan=only_plan, options=options, storage_options=storage_options, progress=progress
            )
    why_not = show_all or (only_plan and len(found) == 1)
    shown = [line for line in report.lines if why_not or line.outcome is not Outcome.NOT_DUE]
    full = [line.to_dict() for line in report.lines]
    if shown or as_json or as_csv or only:
        print_shown(list(map(_row, shown)), full, only, names=names, as_json=as_json, as_csv=as_csv)
    if not (as_json or as_csv):
        console().print(f"[bold]{safe(str(report))}[/]")
        if only_plan and len(shown) < len(report.lines):
            console().print("--all shows why the others are not due.")
    for location in locations if not found else ():
        print_error(no_tables(location, storage_options))
    context.exit(CANNOT_OPEN if not found else FOUND if report.failed else 0)


@contextmanager
def _progress() -> Iterator[UpkeepProgress]:
    """Show which service of which table is at work, if the output is a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with bar_of(*columns) as bar:
        task = bar.add_task("looking for tables", total=None)

        def show(table: str, service: str, done: int, total: int) -> None:
            bar.update(
                task,
                description=f"{safe(table)}: {service or 'deciding'}" + (f" ({done + 1} of {total})" if total else ""),
            )

        yield show


def _row(line: UpkeepLine) -> dict[str, Any]:
    colour = _COLOURS.get(line.outcome, "dim")
    why = f"{line.reason}. {line.result}" if line.result else line.reason
    due = line.outcome not in (Outcome.NOT_DUE, Outcome.SKIPPED, Outcome.FAILED)
    seconds = f"{line.took:.1f}" if line.took is not None else f"about {line.seconds:.1f}" if due else ""
    size, freed = (f"{line.bytes:,}", f"{line.freed:,}") if due else ("", "")
    return {
        "table": line.table,
        "service": line.service,
        "outcome": Text(str(line.outcome), colour),
        "why": why,
        "bytes": size,
        "frees": freed,
        "seconds": seconds,
    }
