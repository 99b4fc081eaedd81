"""``python -m pyhudi_core.cli`` is the command ``pyhudi``."""

from pyhudi_core.cli.main import main

main(prog_name="pyhudi")
