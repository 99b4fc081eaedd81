"""``pyhudi expire``: delete partitions that are older than the options say. Exit code 0: done, or nothing to do; 2: it failed."""

from __future__ import annotations

import json

import click

from pyhudi_core.cli.progress import progress_bar, with_estimate
from pyhudi_core.cli.terminal import at_location, console, reporting_errors, safe, table_option
from pyhudi_core.opening import open_table
from pyhudi_core.services.expiry.expiry import ExpiryResult
from pyhudi_core.services.expiry.partitions_to_expire import ExpiryPlan


@click.command()
@at_location
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be deleted, and change nothing.")
@click.option(
    "--days", type=click.IntRange(min=1), help="The days to keep (hoodie.partition.ttl.strategy.days.retain)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@table_option("hoodie.partition.ttl.management.strategy.type")
@click.pass_context
def expire(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only_plan: bool,
    days: int | None,
    as_json: bool,
    options: dict[str, str],
) -> None:
    """Delete the expired partitions of the table at LOCATION. Exit code 0: done, or nothing to do; 2: it failed."""
    with reporting_errors(context):
        kept = {} if days is None else {"hoodie.partition.ttl.strategy.days.retain": str(days)}
        service = open_table(location, storage_options, options=options | kept).expiry
        if only_plan:
            planned = service.plan()
            parts = [{"path": item.path, "since": item.since, "bytes": item.size} for item in planned.partitions]
            _show({"due": bool(planned), "partitions": parts}, planned, as_json)
        else:
            with progress_bar("expiry") as progress:
                done = service.run(progress=progress)
            times = [instant.requested_time for instant in done.instants]
            _show({"instants": times, "partitions": list(done.partitions)}, done, as_json)


def _show(found: dict[str, object], said: ExpiryPlan | ExpiryResult, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found | {"figures": dict(said.figures), "why_not": said.why_not}, indent=2))
    else:
        console().print(safe(with_estimate(said) if isinstance(said, ExpiryPlan) else str(said)))
