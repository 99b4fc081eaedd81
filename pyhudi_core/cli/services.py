"""``pyhudi services``: list the table services and what each would do now. Changes nothing."""

from __future__ import annotations

import click

from pyhudi_core.cli.progress import with_estimate
from pyhudi_core.cli.terminal import at_location, print_shown, reporting_errors, rows_options
from pyhudi_core.opening import open_table
from pyhudi_core.services.service import refused_by


@click.command()
@at_location
@rows_options("services")
@click.pass_context
def services(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
) -> None:
    """List the table services and what each would do now, or why it would do nothing. Exit code 0: shown; 2: it failed."""
    with reporting_errors(context):
        found = open_table(location, storage_options).services
        planned = [(name, service.summary, service.plan()) for name, service in found.items()]
    full = [
        {
            "service": name,
            "due": bool(plan),
            "figures": dict(plan.figures),
            "why_not": plan.why_not,
            "refused": refused_by(plan) is not None,
        }
        for name, _, plan in planned
    ]
    shown = [{"service": name, "what it does": summary, "now": with_estimate(plan)} for name, summary, plan in planned]
    print_shown(shown, full, only, as_json=as_json, as_csv=as_csv)
