"""The command ``pyhudi``: `main` lists the subcommands and names the module of each one. Some modules have several subcommands."""

from pyhudi_core.cli.main import main

__all__ = ["main"]
