"""``pyhudi commit-status``: report a write whose outcome is unknown.

The command publishes a commit that was decided and is not yet published, as every writer does.
"""

from __future__ import annotations

import json

import click

from pyhudi_core.cli.terminal import FOUND, at_location, reporting_errors
from pyhudi_core.opening import open_table
from pyhudi_core.transaction.status import CommitStatus


@click.command()
@at_location
@click.argument("token")
@click.option("--json", "as_json", is_flag=True, help="Print the status as JSON.")
@click.pass_context
def commit_status(
    context: click.Context, location: str, storage_options: dict[str, str], token: str, as_json: bool
) -> None:
    """Report whether the write with this TOKEN is committed. Exit code 0: committed; 1: not committed, or not decided yet."""
    with reporting_errors(context):
        found = open_table(location, storage_options).commit_status(token)
    click.echo(json.dumps({"token": token, "status": str(found)}, indent=2) if as_json else str(found))
    context.exit(0 if found is CommitStatus.COMMITTED else FOUND)
