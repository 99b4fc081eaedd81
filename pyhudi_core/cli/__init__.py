"""The command ``pyhudi``: one module for each subcommand."""

from pyhudi_core.cli.main import main

__all__ = ["main"]
