"""The command group ``pyhudi``."""

from __future__ import annotations

import click

from pyhudi_core.cli.check import check
from pyhudi_core.cli.clean import clean
from pyhudi_core.cli.cluster import cluster
from pyhudi_core.cli.compact import compact
from pyhudi_core.cli.expire import expire
from pyhudi_core.cli.index import index, sql
from pyhudi_core.cli.log_compact import log_compact
from pyhudi_core.cli.metadata import metadata
from pyhudi_core.cli.repair import repair
from pyhudi_core.cli.restore import restore
from pyhudi_core.cli.rollback import rollback
from pyhudi_core.cli.savepoint import savepoint
from pyhudi_core.cli.services import services
from pyhudi_core.cli.status import status
from pyhudi_core.cli.sweep import sweep
from pyhudi_core.cli.timeline import timeline


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pyhudi")
def main() -> None:
    """Examine Apache Hudi tables (version 8), and look after them."""


for _command in (
    check,
    clean,
    cluster,
    compact,
    expire,
    log_compact,
    index,
    metadata,
    repair,
    restore,
    rollback,
    savepoint,
    services,
    sql,
    status,
    sweep,
    timeline,
):
    main.add_command(_command)
