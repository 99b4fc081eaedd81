"""The command group ``pyhudi``. The module of a subcommand is imported when the subcommand runs, so that help and completion are quick."""

from __future__ import annotations

import importlib
from typing import Any

import click

from pyhudi_core.naming import nearest

INTERRUPTED = 130
"""The exit code of an interrupted command."""

_COMMANDS = {
    "bootstrap": ("bootstrap", "Copy the rows of Parquet files into a new table, or continue a run that died."),
    "commit": ("look", "Show a commit: its counts, files and extra metadata."),
    "commit-status": ("commit_status", "Report whether the write with a token is committed."),
    "completion": ("make", "Print the completion of this command for a shell."),
    "count": ("look", "Count the rows."),
    "head": ("look", "Show some rows."),
    "history": ("look", "Show the commits, archived ones included."),
    "import": ("make", "Write the rows of Parquet or CSV files into a table."),
    "init": ("make", "Make an empty table."),
    "schema": ("look", "Show the columns."),
    "show": (
        "look",
        "Show what a table is and its state: size, newest commit, pending work, lock, services due; also: status.",
    ),
    "size": ("look", "Show the bytes on disk: newest state, old versions, metadata table, what nothing names."),
    "catalog-sync": (
        "catalog_sync",
        "Create the table in a Hive Metastore or in Glue, or bring it to the newest state there.",
    ),
    "check": ("check", "Examine a table and change nothing."),
    "clean": ("service_commands", "Delete older file slices: plan, schedule and execute."),
    "cluster": ("service_commands", "Merge small files and sort rows: plan, schedule and execute."),
    "compact": ("service_commands", "Compact a merge-on-read table: plan, schedule and execute."),
    "drop": ("drop", "Delete a table for good, or finish a drop that died."),
    "export": ("export", "Write the rows of a table into a Parquet, CSV or JSON file."),
    "inspect": ("inspect", "Show files, slices, partitions, commits with write amplification, or statistics."),
    "downgrade": (
        "upgrade",
        "Lower a table to version 8, which Hudi 1.0 opens, or 6, which 0.15 opens; no row changes.",
    ),
    "erase": ("erase", "Erase the rows with given keys, and all that is left of them."),
    "expire": ("service_commands", "Delete expired partitions."),
    "help": ("help", "Show the page about a topic, or list the topics."),
    "hold": ("hold", "List, create or delete holds, which keep a state from being cleaned for a time."),
    "iceberg": (
        "iceberg",
        "Make Iceberg metadata beside the table, for other engines, or bring it to the newest state.",
    ),
    "index": ("index", "List, create, drop, schedule, execute or cancel indexes."),
    "key-history": ("key_history", "Show which commits inserted, updated or deleted the row of a key."),
    "log-compact": ("service_commands", "Merge the log files of each file group: plan, schedule and execute."),
    "metadata": ("metadata", "Show, create, drop, rebuild or repair the metadata table."),
    "recover": ("recover", "Rebuild timeline and properties from names and footers of data files."),
    "repair": ("repair", "Repair what other writers left in a table."),
    "restore": ("restore", "Bring the state of an earlier commit back."),
    "rollback": ("rollback", "Roll a pending write back, or undo the newest commit."),
    "savepoint": ("savepoint", "List, create or delete savepoints."),
    "services": ("services", "List the table services and what each would do now, or why nothing."),
    "sql": ("sql", "Carry out a statement of Spark SQL with Hudi: a query, a change, CALL; also: query."),
    "sweep": ("service_commands", "Delete files that no commit, no plan and no running writer names."),
    "tables": ("tables", "List the tables of a lake: a folder, or a database of a catalog."),
    "timeline": ("timeline", "Show the active timeline."),
    "upgrade": ("upgrade", "Raise tables to a newer version of the format; no row changes."),
    "upkeep": ("upkeep", "Run the table services that are due in tables, and say why."),
}
"""Module and summary of each subcommand."""
_OTHER_NAMES = {"query": "sql", "status": "show"}
"""Names that people look for; the list of commands does not show them."""


class _Commands(click.Group):
    """The group; an interrupt ends a command with one line and its own exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = _OTHER_NAMES.get(cmd_name, cmd_name)
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"pyhudi_core.cli.{_COMMANDS[cmd_name][0]}")
        name = cmd_name.replace("-", "_")
        found: click.Command = getattr(module, f"{name}_", None) or getattr(module, name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = nearest(args[0], (*_COMMANDS, *_OTHER_NAMES))
            if near is None:
                raise
            raise click.UsageError(f"There is no command {args[0]!r}. Did you mean {near!r}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(
                "Interrupted. What had ended is done; the next writer or service removes what had not.", err=True
            )
            ctx.exit(INTERRUPTED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pyhudi")
def main() -> None:
    """Examine Apache Hudi tables, and look after them."""
