"""The command group ``pyhudi``."""

from __future__ import annotations

import click

from pyhudi_core.cli.check import check
from pyhudi_core.cli.services import services
from pyhudi_core.cli.status import status
from pyhudi_core.cli.timeline import timeline


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pyhudi")
def main() -> None:
    """Examine Apache Hudi tables (version 8)."""


for _command in (check, services, status, timeline):
    main.add_command(_command)
