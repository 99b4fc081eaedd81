"""``pyhudi inspect``: files, slices, partitions, commits and statistics of a table. It changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import pyarrow as pa

from pyhudi_core.cli.terminal import at_location, print_as, refuse_of_other_actions, reporting_errors, rows_options
from pyhudi_core.opening import open_table
from pyhudi_core.read.inspection import Inspection

_LOOKS: dict[str, Callable[[Inspection, dict[str, Any]], pa.Table]] = {
    "files": lambda look, how: look.files(how["as_of"]),
    "slices": lambda look, how: look.slices(how["as_of"]),
    "partitions": lambda look, how: look.partitions(how["as_of"]),
    "commits": lambda look, how: look.commits(how["last"]),
    "commit-files": lambda look, how: look.commit_files(how["instant"]),
    "statistics": lambda look, how: look.statistics(how["as_of"]),
    "file-group": lambda look, how: look.file_group(how["file_id"]),
}
_STATES = ("files", "slices", "partitions", "statistics")
_TAKERS = {"as_of": _STATES, "last": ("commits",), "instant": ("commit-files",), "file_id": ("file-group",)}
_SHOWN = {
    "commits": ("instant", "operation", "rows_written", "bytes", "amplification"),
    "slices": ("partition", "file_id", "log_files", "rows"),
    "partitions": ("partition", "file_groups", "log_files", "bytes", "rows"),
}
"""The columns of the printed table without --columns, so that a row fits into 80 characters; --csv and --json have all columns."""


@click.command("inspect")
@at_location
@click.argument("what", type=click.Choice(tuple(_LOOKS)))
@click.option("--as-of", help="A time with its zone, or an instant: the state of the table then.")
@click.option("--last", default=20, show_default=True, type=click.IntRange(min=1), help="How many commits to show.")
@click.option("--instant", help="The requested time of a commit, for commit-files.")
@click.option("--file-id", help="The id of a file group, or how it begins, for file-group.")
@rows_options("rows")
@click.pass_context
def inspect(
    context: click.Context,
    /,
    location: str,
    storage_options: dict[str, str],
    what: str,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Look into the table at LOCATION: files, slices, partitions, commits (with write amplification), commit-files, statistics or a file-group.

    The rows of a key are shown by key-history, bytes on disk by size. Exit code 0: shown; 2: it failed.
    """
    refuse_of_other_actions(context, what, _TAKERS)
    for name in ("instant", "file_id"):
        if what in _TAKERS[name] and how[name] is None:
            raise click.UsageError(f"{what} needs --{name.replace('_', '-')}")
    with reporting_errors(context):
        found = _LOOKS[what](open_table(location, storage_options).inspect, how)
    names = found.column_names if as_json or as_csv or only else _SHOWN.get(what, found.column_names)
    print_as(found.to_pylist(), names, only, as_json=as_json, as_csv=as_csv)
