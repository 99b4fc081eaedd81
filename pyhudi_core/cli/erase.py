"""``pyhudi erase``: delete rows, and all that is left of their keys.

Exit codes: 0 if no key is left, 1 if some are left, 2 if the erasure was refused or failed. With --plan: 0 if the erasure can be done, 1 if it would
be refused.
"""

from __future__ import annotations

import json

import click
import pyarrow as pa

from pyhudi_core.cli.progress import progress_bar
from pyhudi_core.cli.terminal import FOUND, at_location, console, reporting_errors, safe
from pyhudi_core.opening import open_table
from pyhudi_core.table import HudiTable


@click.command()
@at_location
@click.option("--key", "keys", multiple=True, required=True, metavar="KEY", help="A record key; may be repeated.")
@click.option("--plan", "only_plan", is_flag=True, help="Show where the keys are and what refuses, and change nothing.")
@click.option(
    "--verify", "only_verify", is_flag=True, help="Examine whether a file holds the keys, and change nothing."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report, with digests, as JSON.")
@click.pass_context
def erase(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    keys: tuple[str, ...],
    only_plan: bool,
    only_verify: bool,
    as_json: bool,
) -> None:
    """Erase the rows with these keys from the table at LOCATION. Exit code 0: no key is left; 1: some are left; 2: the command was refused, or it
    failed.
    """
    if only_plan and only_verify:
        raise click.UsageError("give one of --plan and --verify")
    with reporting_errors(context):
        table = open_table(location, storage_options)
        given = _keys(table, keys)
        if only_plan:
            plan = table.erasure.plan(given)
            found = {"figures": dict(plan.figures), "holders": plan.holders, "refused_by": plan.refused_by}
            click.echo(json.dumps(found, indent=2)) if as_json else console().print(safe(str(plan)))
            context.exit(FOUND if plan.refused_by else 0)
        if only_verify:
            proof = table.erasure.verify(given)
            shown = {"complete": bool(proof), "found": proof.found, "unread": proof.unread, "advice": proof.advice}
            click.echo(json.dumps(shown, indent=2)) if as_json else console().print(safe(str(proof)))
            context.exit(0 if proof else FOUND)
        with progress_bar("erasure") as progress:
            report = table.erasure.run(given, progress=progress)
        click.echo(report.to_json()) if as_json else console().print(safe(str(report)))
        context.exit(0 if report else FOUND)


def _keys(table: HudiTable, keys: tuple[str, ...]) -> pa.Table:
    """Return the keys in the type of the key column."""
    fields = table.config.record_key_fields
    if len(fields) != 1:
        raise click.UsageError("the key has several columns; call table.erasure.run(keys) in Python")
    kind = table.schema.field(fields[0]).type
    try:
        return pa.table({fields[0]: pa.array(keys, pa.string()).cast(kind)})
    except pa.ArrowInvalid as error:
        raise click.UsageError(f"the keys are no values of {kind}") from error
