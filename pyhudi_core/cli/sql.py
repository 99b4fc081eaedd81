"""``pyhudi sql``: one statement of Spark SQL with Hudi at a table. Exit codes as everywhere (``terminal.py``)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
import pyarrow as pa

from pyhudi_core.cli.index import dropping, figures_of_plan, print_indexes, print_result
from pyhudi_core.cli.terminal import FOUND, at_location, pairs, print_as, reporting_errors, rows_options, table_option
from pyhudi_core.errors import DataError, TableHalfDroppedError, TableNotFoundError
from pyhudi_core.opening import open_table
from pyhudi_core.services.indexing.indexing_plan import IndexingPlan
from pyhudi_core.statements.names import parts_of
from pyhudi_core.statements.planning import StatementPlan, plan
from pyhudi_core.statements.run import read, sql
from pyhudi_core.statements.text import is_about_indexes, parse
from pyhudi_core.table import HudiTable
from pyhudi_core.write.result import Commit


@click.command("sql")
@at_location
@click.argument("statement")
@click.option(
    "--table",
    "tables",
    multiple=True,
    callback=pairs,
    metavar="NAME=LOCATION",
    help="Another table that the statement names; may be repeated.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and change nothing.")
@rows_options("result")
@table_option("hoodie.spark.sql.insert.into.operation")
@click.pass_context
def sql_(
    context: click.Context,
    location: str,
    storage_options: dict[str, str],
    statement: str,
    tables: dict[str, str],
    only_plan: bool,
    only: tuple[str, ...],
    as_csv: bool,
    as_json: bool,
    options: dict[str, str],
) -> None:
    """Carry out a STATEMENT of Spark SQL with Hudi. The table at LOCATION has its own name in it; CREATE TABLE makes one there (also: query).

    SELECT, INSERT, UPDATE, DELETE, MERGE INTO, CREATE TABLE, ALTER TABLE, DROP TABLE, TRUNCATE, SHOW, DESCRIBE, CREATE INDEX, CALL: see
    `pyhudi help sql`.

    Exit code 0: done, or nothing to do; 1: with --plan, the command would be refused; 2: the command was refused, or it failed.
    """
    with reporting_errors(context):
        known = {**tables, _name(location, storage_options, statement): location}
        of_indexes = is_about_indexes(parse(statement).words)
        if only_plan and of_indexes:
            table = open_table(location, storage_options, options)
            context.exit(_print_index_plan(table, statement, as_json=as_json))
        if only_plan:
            try:
                planned = plan(*read(statement, known, options, storage_options))
            except DataError as error:
                print_result(said := f"It would be refused: {error}", {"plan": said}, as_json=as_json)
                context.exit(FOUND)
            if planned is not None:
                _print_plan(planned, as_json=as_json)
                return
        found = sql(statement, known, options, storage_options)
        if of_indexes and isinstance(found, pa.Table):
            print_indexes(found, only, as_json=as_json, as_csv=as_csv)
        elif isinstance(found, pa.Table):
            print_as(found.to_pylist(), found.column_names, only, as_json=as_json, as_csv=as_csv)
        else:
            print_result(str(found), _of(found), as_json=as_json)


def _name(location: str, storage_options: dict[str, str], statement: str) -> str:
    """Return the name of the table at a location; for a table that does not exist, or is half dropped, the name in the statement."""
    try:
        return open_table(location, storage_options).name
    except (TableNotFoundError, TableHalfDroppedError):
        tree = parse(statement).tree
        if tree is None or type(tree).__name__ not in ("Create", "Drop"):
            raise
        return ".".join(parts_of((tree.args.get("tables") or [tree.this])[0]))


def _print_index_plan(table: HudiTable, statement: str, *, as_json: bool) -> int:
    planned = table.indexes.plan_sql(statement)
    if isinstance(planned, IndexingPlan):
        print_result(str(planned), figures_of_plan(planned), as_json=as_json)
        return FOUND if planned.refused else 0
    if isinstance(planned, tuple):
        print_result(dropping(planned), [asdict(one) for one in planned], as_json=as_json)
    else:
        print_indexes(planned, (), as_json=as_json, as_csv=False)
    return 0


def _print_plan(planned: StatementPlan, *, as_json: bool) -> None:
    print_result(str(planned), {"plan": str(planned), **planned.figures}, as_json=as_json)


def _of(found: Any) -> dict[str, Any]:
    """Return a result as JSON shows it."""
    if isinstance(found, Commit):
        stats = found.stats
        counts = {"inserted": stats.rows_inserted, "updated": stats.rows_updated, "deleted": stats.rows_deleted}
        return {"changed": found.changed, "instant": found.instant, **counts}
    if isinstance(found, HudiTable):
        return {"location": found.location, "name": found.name}
    return {"changed": bool(found), "result": str(found)}
