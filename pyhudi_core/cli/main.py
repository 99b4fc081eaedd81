"""The command group ``pyhudi``."""

from __future__ import annotations

from typing import Any

import click

from pyhudi_core.cli.bootstrap import bootstrap
from pyhudi_core.cli.check import check
from pyhudi_core.cli.clean import clean
from pyhudi_core.cli.cluster import cluster
from pyhudi_core.cli.compact import compact
from pyhudi_core.cli.erase import erase
from pyhudi_core.cli.expire import expire
from pyhudi_core.cli.index import index, sql
from pyhudi_core.cli.log_compact import log_compact
from pyhudi_core.cli.metadata import metadata
from pyhudi_core.cli.recover import recover
from pyhudi_core.cli.repair import repair
from pyhudi_core.cli.restore import restore
from pyhudi_core.cli.rollback import rollback
from pyhudi_core.cli.savepoint import savepoint
from pyhudi_core.cli.services import services
from pyhudi_core.cli.status import status
from pyhudi_core.cli.sweep import sweep
from pyhudi_core.cli.terminal import INTERRUPTED, console
from pyhudi_core.cli.timeline import timeline
from pyhudi_core.cli.upkeep import upkeep


class _Commands(click.Group):
    """The group; an interrupt ends a command with one line and its own exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            console(stderr=True).print(
                "Interrupted. What had ended is done; the next writer or service removes what had not."
            )
            ctx.exit(INTERRUPTED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pyhudi")
def main() -> None:
    """Examine Apache Hudi tables (version 8), and look after them."""


_COMMANDS = (  # one a line
    bootstrap,
    check,
    clean,
    cluster,
    compact,
    erase,
    expire,
    log_compact,
    index,
    metadata,
    recover,
    repair,
    restore,
    rollback,
    savepoint,
    services,
    sql,
    status,
    sweep,
    timeline,
    upkeep,
)

for _command in _COMMANDS:
    main.add_command(_command)
