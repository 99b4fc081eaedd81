"""``pyhudi hold``: list, make and delete holds. Exit code 0: done; 1: there was nothing to delete; 2: it failed."""

from __future__ import annotations

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
from pyhudi_core.savepoints.hold_files import Hold

_ACTIONS = ("list", "create", "delete")
_TAKERS = {
    **dict.fromkeys(("as_of", "hours", "comment"), ("create",)),
    **dict.fromkeys(("name", "if_exists"), ("delete",)),
    **dict.fromkeys(("as_csv", "only"), ("list",)),
}
_COLUMNS = ("name", "token", "ends", "comment", "files")


@click.command()
@at_location
@click.argument("action", type=click.Choice(_ACTIONS), default="list")
@click.option("--as-of", help="With create: a snapshot token, an instant or a time; without it, the newest state.")
@click.option("--hours", type=float, help="With create: how long the files stay.")
@click.option("--name", help="With delete: the hold.")
@click.option("--comment", default="", help="With create: why the files are kept.")
@click.option("--if-exists", is_flag=True, help="With delete: no hold of this name is no error.")
@rows_options("holds")
@click.pass_context
def hold(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    action: str,
    as_of: str | None,
    hours: float | None,
    name: str | None,
    comment: str,
    if_exists: bool,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """List, create or delete holds of the table at LOCATION. A hold keeps the files of one state from being cleaned until its end.

    Exit code 0: done; 1: delete names no hold; 2: it failed.
    """
    refuse_of_other_actions(context, action, _TAKERS)
    if action == "create" and hours is None:
        raise click.UsageError("create takes --hours")
    if action == "delete" and name is None:
        raise click.UsageError("delete takes --name")
    deleted = True
    with reporting_errors(context):
        holds = open_table(location, storage_options).holds
        if action == "create" and hours is not None:
            shown: tuple[Hold, ...] = (holds.create(as_of, seconds=hours * 3600, comment=comment),)
        else:
            if action == "delete" and name is not None:
                deleted = holds.delete(name)
            shown = tuple(holds)
    print_shown(list(map(_row, shown)), list(map(_of, shown)), only, names=_COLUMNS, as_json=as_json, as_csv=as_csv)
    if not deleted:
        console(stderr=True).print(f"There is no hold {safe(str(name))}")
        context.exit(0 if if_exists else FOUND)


def _of(one: Hold) -> dict[str, object]:
    files = {partition: list(names) for partition, names in one.files.items()}
    ends = one.ends.isoformat(timespec="seconds")
    return dict(zip(_COLUMNS, (one.name, str(one.token), ends, one.comment, files), strict=True))


def _row(one: Hold) -> dict[str, object]:
    ends = one.ends.isoformat(timespec="seconds")
    return {"name": one.name, "until": ends, "files": f"{len(one.paths):,}", "state": one.token, "comment": one.comment}
