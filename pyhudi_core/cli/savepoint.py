"""``pyhudi savepoint``: list, make and delete savepoints. Exit code 0: done; 1: there was nothing to delete; 2: it failed."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from pyhudi_core.cli.terminal import (
    FOUND,
    at_location,
    console,
    print_shown,
    refuse_of_other_actions,
    reporting_errors,
    rows_options,
    safe,
)
from pyhudi_core.opening import open_table
from pyhudi_core.savepoints.savepoint_files import Savepoint

_ACTIONS = ("list", "create", "delete")
_TAKERS = {
    **dict.fromkeys(("comment", "created_by"), ("create",)),
    "if_exists": ("delete",),
    **dict.fromkeys(("as_csv", "only"), ("list",)),
}
_COLUMNS = ("instant", "completed", "created_by", "created_at", "comment", "files")


@click.command()
@at_location
@click.argument("action", type=click.Choice(_ACTIONS), default="list")
@click.option("--instant", help="The requested time of the commit; without it, create takes the newest commit.")
@click.option("--comment", default="", help="With create: why the state is kept.")
@click.option("--by", "created_by", default="pyhudi", show_default=True, help="With create: who keeps it.")
@click.option("--if-exists", is_flag=True, help="With delete: no savepoint of this commit is no error.")
@rows_options("savepoints")
@click.pass_context
def savepoint(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    action: str,
    instant: str | None,
    comment: str,
    created_by: str,
    if_exists: bool,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """List, create or delete savepoints of the table at LOCATION. A savepoint keeps the files of the state at a commit.

    Exit code 0: done; 1: the commit that delete names has no savepoint; 2: it failed.
    """
    refuse_of_other_actions(context, action, _TAKERS)
    if action == "delete" and instant is None:
        raise click.UsageError("delete takes --instant")
    deleted = True
    shown: tuple[Savepoint, ...] = ()
    with reporting_errors(context):
        found = open_table(location, storage_options).savepoints
        if action == "create":
            shown = (found.create(instant, comment, created_by),)
        elif instant is not None and action == "delete":
            deleted, shown = found.delete(instant), tuple(found)
        else:
            shown = tuple(one for one in found if instant in (None, one.instant))
    print_shown(list(map(_row, shown)), list(map(_of, shown)), only, names=_COLUMNS, as_json=as_json, as_csv=as_csv)
    if not deleted:
        console(stderr=True).print(f"The commit {safe(str(instant))} has no savepoint")
        context.exit(0 if if_exists else FOUND)


def _of(one: Savepoint) -> dict[str, object]:
    files = {partition: list(names) for partition, names in one.files.items()}
    found = (one.instant, one.completion_time, one.created_by, _time(one), one.comment, files)
    return dict(zip(_COLUMNS, found, strict=True))


def _row(one: Savepoint) -> dict[str, object]:
    files = f"{len(one.paths):,}"
    return {"commit": one.instant, "made at": _time(one), "by": one.created_by, "files": files, "comment": one.comment}


def _time(one: Savepoint) -> str:
    try:
        return datetime.fromtimestamp(one.created_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(one.created_ms)  # no program makes such a time, but a file can hold it
