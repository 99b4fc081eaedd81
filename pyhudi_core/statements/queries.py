"""Queries: DuckDB computes them over scans. Each scan has the columns that the query needs, and the conditions with which the scan can skip files.

A query is text in Spark's dialect; sqlglot translates the text for DuckDB, and a query that sqlglot cannot translate is refused. DuckDB sees only the
tables that the caller gave. DuckDB may not open files or load extensions, and does not look for variables of Python.

A condition of WHERE reaches the scan of a table if four things hold: AND joins the condition to the other conditions; the condition names only
columns of this table; the condition has no function; and `scan(where=...)` takes the condition. DuckDB evaluates all conditions again, so a condition
that does not reach a scan only costs time. In an outer join, if rows of a table may have no partner, no condition reaches its scan: no rows of this
table are omitted before the join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot.expressions as exp
from sqlglot import ErrorLevel
from sqlglot.errors import SqlglotError

from pyhudi_core.engine.local import as_table
from pyhudi_core.errors import ConfigError, HudiError, InvalidOptionError, PredicateError, needing
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.predicates import Predicate
from pyhudi_core.predicates.sql import SqlPart
from pyhudi_core.read.scan import Scan
from pyhudi_core.statements.float_columns import compared_as_spark_does
from pyhudi_core.statements.insert_defaults import is_default, misplaced
from pyhudi_core.statements.names import Names, parts_of
from pyhudi_core.statements.points import point_of
from pyhudi_core.statements.reads import changes_of, timeline_of
from pyhudi_core.statements.spark_functions import add_functions, as_spark_computes
from pyhudi_core.statements.text import not_understood, place_of
from pyhudi_core.table import HudiTable
from pyhudi_core.write.meeting import spark_of

_SETTINGS = (
    ("error_on_division_by_zero", "false"),  # of new releases; `ieee_floating_point_ops` of older releases
    ("ieee_floating_point_ops", "false"),
    ("TimeZone", "'UTC'"),
    ("enable_external_access", "false"),
    ("python_enable_replacements", "false"),
    ("lock_configuration", "true"),
)
_NEEDED = ("enable_external_access", "python_enable_replacements", "lock_configuration", "TimeZone")
_OPTIONAL_SIDES = ("RIGHT", "FULL")


@dataclass(slots=True)
class _Sources:
    """The tables of one query, under the names that DuckDB knows."""

    names: Names
    meta: bool
    rows: dict[str, Any] = field(default_factory=dict)

    def add(self, found: object) -> str:
        name = f"__table_of_the_statement_{len(self.rows)}"
        self.rows[name] = found
        return name


def query(tree: Any, names: Names) -> pa.Table:
    """Return the rows of a query. Raises `InvalidOptionError` and `PredicateError` for a query that is not understood, before rows are read."""
    with needing("duckdb", "a query in SQL"):
        import duckdb  # noqa: PLC0415  (an extra)
    tree = tree.copy()
    meta = any(column.name.lower() in META_FIELDS for column in tree.find_all(exp.Column))
    sources = _Sources(names, meta)
    for table in list(tree.find_all(exp.Table)):
        if not _is_of_the_query(table):
            _replace(table, sources)
    for call in list(tree.find_all(exp.TsOrDsAdd, exp.DateAdd, exp.DateSub)):
        _as_date(call)
    as_spark_computes(tree)
    compared_as_spark_does(tree, {name: rows.schema for name, rows in sources.rows.items()})
    for pattern in list(tree.find_all(exp.Like, exp.ILike)):
        _with_escapes(pattern)
    try:
        text = tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise not_understood(f"a part of the query is not supported: {error}") from None
    with _connected(duckdb) as connection:
        for name, rows in sources.rows.items():
            connection.register(name, rows)
        add_functions(connection, text)
        try:
            relation = connection.sql(text)
            if relation is None:
                raise not_understood("it is no query")
            kinds, rows = [str(kind) for kind in relation.types], relation.to_arrow_table()
            del relation
            for name in sources.rows:
                connection.unregister(name)
            return _in_spark_types(rows, kinds)
        except duckdb.Error as error:
            raise _refused(error, tree) from error


@contextmanager
def _connected(duckdb: Any) -> Iterator[Any]:
    connection = duckdb.connect(":memory:")
    try:
        for name, value in _SETTINGS:
            try:
                connection.execute(f"SET {name}={value}")
            except duckdb.Error:
                if name in _NEEDED:
                    raise
        yield connection
    finally:
        connection.close()


def _is_of_the_query(table: Any) -> bool:
    """Say whether the query defines this table name in a WITH clause."""
    if table.args.get("db") is not None or not isinstance(table.this, exp.Identifier):
        return False
    below = table
    while (node := below.parent) is not None:
        parts = node.expressions if isinstance(node, exp.With) else []  # a part of WITH sees the earlier parts
        if (found := node.args.get("with_")) is not None and found is not below:
            parts = found.expressions
        at = next((place for place, part in enumerate(parts) if part is below), len(parts))
        if any(part.alias.lower() == table.name.lower() for part in parts[:at]):
            return True
        below = node
    return False


def _replace(table: Any, sources: _Sources) -> None:
    """Replace a table in the query by the name that DuckDB has for it."""
    alias = table.alias or (table.name if isinstance(table.this, exp.Identifier) else "")
    name = sources.add(_rows(table, sources))
    made = exp.to_table(name)
    made.set(
        "alias",
        table.args.get("alias") or (exp.TableAlias(this=exp.to_identifier(alias, quoted=True)) if alias else None),
    )
    for kept in ("joins", "pivots", "sample", "laterals"):
        if table.args.get(kept):
            made.set(kept, table.args[kept])
    table.replace(made)


def _rows(table: Any, sources: _Sources) -> object:
    """Return the object that DuckDB reads for a table of the query."""
    if not isinstance(table.this, exp.Identifier):
        return _called(table, sources)
    found = sources.names.source(table)
    version = table.args.get("version")
    if not isinstance(found, HudiTable):
        if version is not None:
            raise not_understood(f"{'.'.join(parts_of(table))!r} is data in this process, which has no earlier states")
        return found.to_dataset() if isinstance(found, Scan) else _as_rows(found, table)
    as_of = None if version is None else point_of(version)
    return found.scan(where=_where(table, found.schema), as_of=as_of, meta=sources.meta).to_dataset()


def _as_rows(given: Any, table: Any) -> pa.Table:
    """Return the data that the caller gave for a name, as an Arrow table. The rows of a PySpark DataFrame come to this process."""
    name = ".".join(parts_of(table))
    if spark_of(given) is not None:
        from pyhudi_core.engine.spark_collect import collect_arrow  # noqa: PLC0415 (an extra)
        from pyhudi_core.engine.spark_rows import arrow_schema  # noqa: PLC0415

        return collect_arrow(given, arrow_schema(given))
    try:
        return as_table(given)
    except ConfigError as error:
        kind = type(given)
        raise InvalidOptionError(
            f"tables= gives {name!r}{place_of(table)} something that is neither a table nor rows: {kind.__module__}.{kind.__qualname__}",
            hint="Give a table of Hudi, its location, or rows: a pyarrow Table, a DataFrame of pandas, polars or PySpark.",
        ) from error


def _called(table: Any, sources: _Sources) -> object:
    call = table.this
    arguments = [
        argument.name if isinstance(argument, exp.Literal) else None for argument in getattr(call, "expressions", [])
    ]
    name = str(getattr(call, "name", "")).lower()
    if name not in ("hudi_table_changes", "hudi_query_timeline") or not arguments or None in arguments:
        raise not_understood(
            f"{table.sql(dialect='spark')[:80]!r}{place_of(table)} is no table",
            "Functions that give tables are hudi_table_changes('orders', 'latest_state', begin, end) and hudi_query_timeline('orders', 'false').",
        )
    given = [str(argument) for argument in arguments]
    found = sources.names.table(tuple(given[0].split(".")))
    if name == "hudi_query_timeline":
        return timeline_of(found, archived=given[1:2] == ["true"])
    changes = changes_of(found, given[1:])
    return changes.to_dataset() if isinstance(changes, Scan) else changes.to_arrow()


def _where(table: Any, schema: pa.Schema) -> pc.Expression | None:
    """Return the conditions of the query that the scan of a table can use; None if there are none."""
    select = table.find_ancestor(exp.Select, exp.Subquery)
    where = select.args.get("where") if isinstance(select, exp.Select) else None
    if where is None or not _keeps_meaning(table, select):
        return None
    alone = not select.args.get("joins") and not select.args.get("laterals")
    own = (table.alias or table.name).lower()
    found = []
    for part in where.this.flatten() if isinstance(where.this, exp.And) else (where.this,):
        columns = list(part.find_all(exp.Column))
        if part.find(exp.Query) is not None or not columns:
            continue
        if all(column.table.lower() == own if column.table else alone for column in columns):
            condition = _condition(part, schema)
            if condition is not None:
                found.append(condition)
    return reduce(lambda left, right: left & right, found) if found else None


def _keeps_meaning(table: Any, select: Any) -> bool:
    """Say whether rows of a table may be removed before the joins of a query."""
    joins: Sequence[Any] = select.args.get("joins") or ()
    source = select.args.get("from_")
    if any(join.side in _OPTIONAL_SIDES for join in joins):
        return False
    if source is not None and source.this is table:
        return True
    return any(join.this is table and not join.side and join.kind not in ("SEMI", "ANTI") for join in joins)


def _condition(part: Any, schema: pa.Schema) -> pc.Expression | None:
    plain = part.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    try:
        condition = Predicate.of(SqlPart(plain, plain.sql(dialect="spark")), schema)
    except HudiError:
        return None
    # DuckDB may compute functions and casts in another way, so they are left to DuckDB. So are texts with a backslash, because a backslash is no
    # escape character in DuckDB.
    if condition is None or condition.calls or any("\\" in text.name for text in plain.find_all(exp.Literal)):
        return None
    return condition.expression


def _as_date(call: Any) -> None:
    """Cast date_add and date_sub to a date: they give dates in Spark, and times in DuckDB."""
    if not isinstance(call.parent, exp.Cast):
        call.replace(exp.cast(call.copy(), "date"))


def _with_escapes(like: Any) -> None:
    """Make the backslash the escape character of a pattern, as in Spark. In DuckDB the backslash is an ordinary character."""
    if isinstance(like.parent, exp.Escape):
        return
    several = like.expression
    if not isinstance(several, exp.Any | exp.All):
        like.replace(exp.Escape(this=like.copy(), expression=exp.Literal.string("\\")))
        return
    patterns = several.this.unnest()
    parts = []
    for pattern in patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]:
        part = like.copy()
        part.set("expression", pattern.copy())
        parts.append(exp.Escape(this=part, expression=exp.Literal.string("\\")))
    join = exp.or_ if isinstance(several, exp.Any) else exp.and_
    like.replace(exp.paren(join(*parts, copy=False), copy=False))


def _in_spark_types(rows: pa.Table, kinds: Sequence[str]) -> pa.Table:
    """Return the rows with sums of integers as 64-bit integers, as in Spark."""
    for number, kind in enumerate(kinds):
        if kind == "HUGEINT":
            try:
                column = rows.column(number).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            rows = rows.set_column(number, rows.column_names[number], column)
    return rows


def _refused(error: Exception, tree: Any) -> HudiError:
    """Return the error for an error of DuckDB. If DuckDB names a column, the error has the place of the column in the statement."""
    first = str(error).splitlines()[0][:300]
    cause = error.__cause__ or error.__context__
    if isinstance(cause, HudiError):
        return cause
    named = next((column for column in tree.find_all(exp.Column) if f'"{column.name}"' in first), None)
    if named is not None and is_default(named):
        return misplaced(named)
    place = "" if named is None else place_of(named)
    kind = PredicateError if named is not None else InvalidOptionError
    return kind(f"The query cannot be computed{place}: {first}", hint="Correct the query; nothing was changed.")
