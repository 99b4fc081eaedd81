"""``pyhudi check``: examine a table. Exit code 0: no findings except information; 1: findings; 2: no table to examine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

import click
from rich.console import Console
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from pyhudi_core.cli.progress import Description, bar_of
from pyhudi_core.cli.terminal import (
    CANNOT_OPEN,
    FOUND,
    at_location,
    columns_option,
    console,
    csv_option,
    print_as,
    print_rows,
    refuse_wrong_form,
    reporting_errors,
    safe,
)
from pyhudi_core.doctor import CheckReport, Finding, Limits, Progress, Severity
from pyhudi_core.errors import StorageError
from pyhudi_core.opening import check_table, record_incident

_COLOURS = {Severity.INFO: "dim", Severity.REPAIRABLE: "cyan", Severity.WARNING: "yellow", Severity.ERROR: "red"}
_SHOWN_OF_A_KIND = 20
_COLUMNS = tuple(one.name for one in fields(Finding))


@click.command()
@at_location
@columns_option
@csv_option
@click.option("--json", "as_json", is_flag=True, help="Print the complete report as JSON.")
@click.option(
    "--keys/--no-keys", default=True, show_default=True, help="Compare all record keys (reads a column of every file)."
)
@click.option(
    "--key-rows", type=click.IntRange(min=1), help="Compare the keys of only about this many rows in each partition."
)
@click.option("--all", "show_all", is_flag=True, help="Show every finding, including information.")
@click.option(
    "--record", type=click.Path(dir_okay=False, writable=True), help="Write the incident to this file, for replay."
)
@click.pass_context
def check(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
    keys: bool,
    key_rows: int | None,
    show_all: bool,
    record: str | None,
) -> None:
    """Examine the table at LOCATION and change nothing. --csv and --columns show every finding, including information.

    Exit code 0: no findings except information; 1: findings; 2: no table to examine.
    """
    refuse_wrong_form(_COLUMNS, only, as_json=as_json, as_csv=as_csv)
    rows_only = as_csv or bool(only)
    with reporting_errors(context):
        limits = Limits(key_rows=key_rows, shown=10_000 if show_all or as_json or rows_only else _SHOWN_OF_A_KIND)
        with _progress() as progress:
            report = check_table(location, storage_options, keys, limits, progress)
        if record is not None:
            _write(record, record_incident(location, storage_options).to_bytes())
    if rows_only:
        findings = [asdict(finding) for finding in report.findings]
        print_as(findings, _COLUMNS, only, as_json=as_json, as_csv=as_csv)
    elif as_json:
        click.echo(report.to_json())
    else:
        _show(report, console(), show_all)
    if record is not None:
        console(stderr=True).print(f"The incident was written to {safe(record)}")
    context.exit(CANNOT_OPEN if not report.opened else 0 if report.ok else FOUND)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Show a progress line while the examination runs, if the output is a terminal."""
    columns = (
        SpinnerColumn(),
        Description(),
        TextColumn("{task.fields[seen]}"),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
    )
    with bar_of(*columns) as bar:
        task = bar.add_task("opening", seen="", total=None)

        def show(area: str, done: int, total: int) -> None:
            seen = f"{done:,} of {total:,}" if total else f"{done:,}" if done else ""
            bar.update(task, description=area, seen=seen)

        yield show


def _write(path: str, data: bytes) -> None:
    try:
        with click.open_file(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise StorageError(
            f"The incident could not be written: {error.strerror}", path=path, hint="Give another file."
        ) from error


def _show(report: CheckReport, out: Console, show_all: bool) -> None:
    worst = max(
        (finding.severity for finding in report.findings), key=lambda severity: severity.rank, default=Severity.INFO
    )
    colour = "green" if report.ok else _COLOURS[worst]
    out.print(f"{safe(report.location)}: [bold {colour}]{safe(report.verdict)}[/]")
    if report.opened:
        print_rows(_areas(report), out)
    shown = [finding for finding in report.findings if show_all or finding.severity is not Severity.INFO]
    if shown:
        print_rows([_row(finding) for finding in shown], out)
    hidden = len(report.findings) - len(shown)
    if hidden:
        out.print(f"[dim]{hidden} findings for information only; --all shows them[/]")


def _areas(report: CheckReport) -> list[dict[str, Any]]:
    return [
        {
            "area": summary.area,
            "state": Text(
                summary.state, "green" if summary.state == "ok" else _COLOURS[summary.worst or Severity.INFO]
            ),
            "examined": summary.examined,
        }
        for summary in report.areas
    ]


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "severity": Text(str(finding.severity), _COLOURS[finding.severity]),
        "what": f"{finding.kind} {finding.what}",
        "where": finding.place(),
        "what to do": finding.what_to_do,
    }
