"""Run the command ``pyhudi`` by ``python -m pyhudi``."""

from pyhudi_core.cli.main import main

main(prog_name="pyhudi")
