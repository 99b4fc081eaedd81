"""`sql` reads one statement and executes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import sqlglot.expressions as exp

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lake_tables import Lake
from pyhudi_core.model.masking import takes_options
from pyhudi_core.naming import set_module
from pyhudi_core.statements import changes, definitions, procedures, showing
from pyhudi_core.statements.changes import INSERT_OPERATION, INSERTS, Changing
from pyhudi_core.statements.names import Names
from pyhudi_core.statements.queries import query
from pyhudi_core.statements.text import Statement, not_understood, parse
from pyhudi_core.table import HudiTable
from pyhudi_core.validators import Validator
from pyhudi_core.write.result import Commit

_CHANGES: dict[type[Any], Callable[[Changing, Any], pa.Table | Commit | HudiTable]] = {
    exp.Insert: changes.insert,
    exp.Update: changes.update,
    exp.Delete: changes.delete,
    exp.Merge: changes.merge,
    exp.TruncateTable: changes.truncate,
    exp.Create: definitions.create,
    exp.Alter: definitions.alter,
    exp.Comment: definitions.comment,
    exp.Drop: definitions.drop,
}


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def sql(
    statement: str,
    tables: Mapping[str, object] | Lake | None = None,
    options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, str] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    pre_commit: Sequence[Validator] = (),
) -> pa.Table | Commit | HudiTable:
    """Carry out one statement of Spark SQL with Hudi's extensions: a query, INSERT, UPDATE, DELETE, MERGE, CREATE TABLE, ALTER TABLE, DROP TABLE,
    SHOW, DESCRIBE, CALL.

    A statement that writes is one commit. A statement that is not understood, or whose values do not fit, raises an error before anything is written.

    Args:
        statement: the text, as for Spark: texts in single quotes, names with special letters in backquotes.
        tables: what the names in the statement mean: a table of Hudi, its location, or data with ``__arrow_c_stream__``. The rows of a PySpark
            DataFrame come to this process, except for the source of a MERGE without a query around the source. The statement names a table that is
            not in ``tables`` by its path, as in hudi.`/lake/orders`. ``tables`` may be a `Lake`: its tables have their names in the lake, with dots
            for slashes (``sales.orders``).
        options: for tables that are named by a location, as in `open_table` and `create_table`; and ``hoodie.spark.sql.insert.into.operation``:
            ``insert`` (a key that the table already has is an error), ``upsert`` or ``bulk_insert``.
        storage_options: for tables that are named by a location.
        extra_metadata: entries for the extra metadata of the commit.
        pre_commit: validators of the commit.

    Returns:
        The rows of a query, of SHOW, DESCRIBE, CALL and DROP TABLE as a ``pyarrow.Table``; for a statement that writes, its `Commit`; for CREATE
        TABLE, the new table.

    Raises:
        InvalidOptionError: the statement is not understood (the error names the place), or a table is not known.
        PredicateError: a condition or value is not valid.
        MissingExtraError: a query needs DuckDB (``pip install 'pyhudi[sql]'``).
    """
    return _carried_out(*read(statement, tables, options, storage_options, extra_metadata, pre_commit))


def read(
    statement: str,
    tables: Mapping[str, object] | Lake | None = None,
    options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, str] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    pre_commit: Sequence[Validator] = (),
) -> tuple[Statement, Changing]:
    """Return a parsed statement, and the inputs with which the statement is carried out. Raises `InvalidOptionError`. Arguments as for `sql`."""
    given = dict(options or {})
    whole = isinstance(tables, Lake)
    if isinstance(tables, Lake):
        given, storage_options = {**tables.options, **given}, {**tables.storage_options, **(storage_options or {})}
        tables = _of_lake(tables)
    insert = str(given.pop(INSERT_OPERATION, "insert"))
    if insert not in INSERTS:
        raise InvalidOptionError(f"{INSERT_OPERATION}={insert!r} is unknown", hint=f"Give one of {', '.join(INSERTS)}.")
    if not isinstance(tables or {}, Mapping):
        raise InvalidOptionError("tables= takes a dict from names to tables", hint="Write tables={'orders': table}.")
    names = Names(tables or {}, given, storage_options or {}, whole)
    found = parse(statement)
    return found, Changing(names, found.text, insert, {"extra_metadata": extra_metadata, "pre_commit": pre_commit})


def _of_lake(lake: Lake) -> dict[str, object]:
    """Return the locations of a lake's tables by their names in statements. Raises `InvalidOptionError` if two tables have the same name in
    statements.
    """
    found: dict[str, str] = {}
    for name in lake.list():
        other = found.setdefault(name.replace("/", "."), name)
        if other != name:
            raise InvalidOptionError(
                f"Two tables of the lake {lake.location}, {other!r} and {name!r}, have one name in statements: dots stand for slashes",
                hint=f"Rename one, or give tables={{'orders': lake.location_of({name!r})}}. Nothing was changed.",
            )
    return {dotted: lake.location_of(name) for dotted, name in found.items()}


def _carried_out(found: Statement, how: Changing) -> pa.Table | Commit | HudiTable:
    tree = found.tree
    if tree is None:
        first = found.words.tokens[0].text.upper()
        if first == "CALL":
            return procedures.call(found.words, how.names)
        return showing.show(found.words, how.names)
    if isinstance(tree, exp.Query | exp.Values):
        return query(changes.as_query(tree), how.names)
    carry_out = _CHANGES.get(type(tree))
    if carry_out is None:
        raise not_understood(f"{found.words.tokens[0].text.upper()} is no statement here")
    return carry_out(how, tree)
