"""The command ``pyhudi``: `main` lists the subcommands and names the module of each one. Some modules have several subcommands.

How to add a subcommand: write a module here, or extend one with similar commands, and add a line to ``_COMMANDS`` of `main`; the command of a
table service is a line of `service_commands`. It has ``--json``, and ``--plan`` if it changes a table; ``tests/unit/cli/test_exit_codes.py`` has its
flags and exit codes.
"""

from pyhudi_core.cli.main import main

__all__ = ["main"]
