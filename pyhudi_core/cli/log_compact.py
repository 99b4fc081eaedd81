"""``pyhudi log-compact``: merge the log files of a file group into one log file. Exit codes: see ``planned.py``."""

from __future__ import annotations

from typing import Any

import click

from pyhudi_core.cli.compact import groups_of
from pyhudi_core.cli.planned import Wanted, carry_out, planned_options


@click.command("log-compact")
@planned_options("merged", "hoodie.log.compaction.blocks.threshold")
def log_compact(context: click.Context, location: str, storage_options: dict[str, str], **wanted: Any) -> None:
    """Merge the logs of each file group of the table at LOCATION: plan, schedule and execute.

    Exit code 0: done, or nothing to do; 1: the plan of --instant is not pending, or --plan: it would be refused; 2: it was refused, or failed.
    """
    carry_out(context, location, storage_options, "log_compaction", Wanted(**wanted), groups_of)
