"""The command ``pyhudi``: one module a command."""

from pyhudi_core.cli.main import main

__all__ = ["main"]
