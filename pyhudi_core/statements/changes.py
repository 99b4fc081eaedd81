"""Statements that change rows: INSERT, UPDATE, DELETE, MERGE and TRUNCATE. Each statement is one call of a method of the table, so one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlglot.expressions as exp

from pyhudi_core.errors import DataError, InvalidOptionError
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.predicates.binding import field_path
from pyhudi_core.predicates.sql import SqlPart
from pyhudi_core.read.scan import Scan
from pyhudi_core.statements.fitting import fitted
from pyhudi_core.statements.insert_defaults import Cells, left_out, put_in, taken_out
from pyhudi_core.statements.names import Names
from pyhudi_core.statements.queries import query
from pyhudi_core.statements.text import not_understood, place_of, refuse_other_parts, refuse_unknown
from pyhudi_core.table import HudiTable
from pyhudi_core.write.merging import Merge
from pyhudi_core.write.result import Commit

INSERT_OPERATION = "hoodie.spark.sql.insert.into.operation"
"""Hudi's option that says what INSERT INTO does with keys that the table already has."""
INSERTS = ("insert", "bulk_insert", "upsert")
_KINDS_OF_TEXTS = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "TEXT")
"""Types that PARTITION may name before a text: the type of the column says how the text is read."""
_DIGITS = 38
"""The digits of the longest decimal."""


@dataclass(frozen=True, slots=True)
class Changing:
    """The inputs of every statement that changes rows: the names, the complete text, and the caller's arguments for the commit."""

    names: Names
    text: str
    insert: str = "insert"
    commit: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The arguments ``extra_metadata`` and ``pre_commit`` of the table's methods."""

    def part(self, tree: Any) -> SqlPart:
        """Return a condition or a value of the statement as a `SqlPart`. The methods of `HudiTable`, such as ``update``, accept a `SqlPart`."""
        return SqlPart(tree, self.text)


def update(how: Changing, tree: Any) -> Commit:
    """UPDATE table [AS alias] SET column = value, ... [WHERE condition]."""
    table, where = found_rows(how, tree)
    return table.update(values_of(how, tree.expressions), where, **how.commit)


def delete(how: Changing, tree: Any) -> Commit:
    """DELETE FROM table [AS alias] [WHERE condition]."""
    table, where = found_rows(how, tree)
    return table.delete(where=where or "true", **how.commit)


def found_rows(how: Changing, tree: Any) -> tuple[HudiTable, SqlPart | None]:
    """Return the table of UPDATE or DELETE, and the condition on its rows. The name of the table is removed from the names of columns in the tree."""
    refuse_other_parts(tree, "this", "expressions", "where")
    table = how.names.table(tree.this)
    for column in list(tree.find_all(exp.Column)):
        _without_name(column, tree.this.alias or tree.this.name)
    where = tree.args.get("where")
    return table, None if where is None else how.part(where.this)


def insert(how: Changing, tree: Any) -> Commit:
    """INSERT INTO or OVERWRITE table [PARTITION (column = value, column)] [(columns)] query or VALUES."""
    table, rows, fixed = rows_to_insert(how, tree)
    if where := tree.args.get("where"):  # older releases of sqlglot have False for a part that is not there
        return table.replace(rows, how.part(where.this if isinstance(where, exp.Where) else where), **how.commit)
    if not tree.args.get("overwrite"):
        verb: Callable[..., Commit] = getattr(table, how.insert)
        return verb(rows, **how.commit)
    if fixed:
        return _overwritten(table, how, rows, fixed)
    if table.config.partition_fields:
        return table.insert_overwrite(rows, **how.commit)
    return table.insert_overwrite_table(rows, **how.commit)


def rows_to_insert(how: Changing, tree: Any) -> tuple[HudiTable, pa.Table, dict[str, object]]:
    """Return the table of INSERT, its rows, and the values of the PARTITION clause. The rows have the columns and types of the table."""
    refuse_other_parts(tree, "this", "expression", "overwrite", "where", "by_name", "with_", "is_function")
    named = tree.this
    table = how.names.table(named)
    target = named.this if isinstance(named, exp.Schema) else named
    listed = [column.name for column in named.expressions] if isinstance(named, exp.Schema) else None
    fixed, dynamic = _partition(target.args.get("partition"), table)
    asked, defaults = taken_out(tree.expression)
    if tree.args.get("with_") is not None:
        asked = asked.copy()
        asked.set("with_", tree.args["with_"].copy())
    rows = query(as_query(asked), how.names)
    order = _order(table, rows, listed, fixed, dynamic, by_name=bool(tree.args.get("by_name")))
    return table, _in_columns(table, rows, order, fixed, defaults), fixed


def merge(how: Changing, tree: Any) -> Commit:
    """MERGE INTO table [AS t] USING source [AS s] ON condition WHEN ... THEN ..."""
    return merge_of(how, tree).run()


def merge_of(how: Changing, tree: Any) -> Merge:
    """Return the merge that a statement describes."""
    refuse_other_parts(tree, "this", "using", "on", "whens")
    if tree.args.get("on") is None:
        raise not_understood("MERGE INTO has no condition after ON", "Write ON t.id = s.id. Nothing was changed.")
    table = how.names.table(tree.this)
    source, alias = _source(how, tree.args["using"])
    target = tree.this.alias or tree.this.name
    found = table.merge(source, how.part(tree.args["on"]), alias, target, **how.commit)
    for when in tree.args["whens"].expressions:
        found = _clause(how, found, when, target)
    return found


def truncate(how: Changing, tree: Any) -> Commit:
    """TRUNCATE TABLE table [PARTITION (column = value, ...)]."""
    table, partition = what_truncate_says(how, tree)
    return table.truncate(**how.commit) if partition is None else drop_partitions(how, table, [partition])


def what_truncate_says(how: Changing, tree: Any) -> tuple[HudiTable, Any]:
    """Return the table of TRUNCATE and its PARTITION clause; None for the complete table."""
    refuse_other_parts(tree, "expressions", "partition", "is_database")
    if len(tree.expressions) != 1:
        raise not_understood("TRUNCATE takes one table")
    return how.names.table(tree.expressions[0]), tree.args.get("partition")


def drop_partitions(how: Changing, table: HudiTable, partitions: Sequence[Any], *, missing_ok: bool = False) -> Commit:
    """Delete the rows of partitions that the statement names as ``PARTITION (column = value, ...)``."""
    return table.delete_partitions(paths_named(table, partitions), missing_ok, **how.commit)


def paths_named(table: HudiTable, partitions: Sequence[Any]) -> list[str]:
    """Return the paths of partitions that the statement names as ``PARTITION (column = value, ...)``."""
    wanted = [_partition(one, table)[0] for one in partitions]
    fields = table.config.partition_fields
    for values in wanted:
        if {*values} != {*fields}:
            raise InvalidOptionError(
                f"The statement names a partition by {', '.join(values) or 'nothing'}, and the table has {', '.join(fields) or 'no partitions'}",
                table=table.location,
                hint="Give each partition column a value, or DELETE FROM ... WHERE. Nothing was changed.",
            )
    return [path for values in wanted for path in partition_paths_of(table, values)]


def partition_paths_of(table: HudiTable, values: Mapping[str, object]) -> list[str]:
    """Return the path of the partition with these values."""
    schema = pa.schema([table.schema.field(name) for name in values])
    row = fitted(pa.table({name: [value] for name, value in values.items()}), schema, table.location)
    return [str(path) for path in partition_paths(row.combine_chunks().to_batches()[0], table.config).to_pylist()]


def _overwritten(table: HudiTable, how: Changing, rows: pa.Table, fixed: Mapping[str, object]) -> Commit:
    """Replace the rows of the partitions that PARTITION names by value. Without new rows, the partitions become empty."""
    if {*fixed} != {*table.config.partition_fields}:
        equal = [_is_value(exp.column(name, quoted=True), value) for name, value in fixed.items()]
        return table.replace(rows, how.part(exp.and_(*equal)), **how.commit)
    if len(rows):
        return table.insert_overwrite(rows, **how.commit)
    return table.delete_partitions(partition_paths_of(table, fixed), missing_ok=True, **how.commit)


def _is_value(column: Any, value: object) -> Any:
    if value is None:
        return exp.Is(this=column, expression=exp.null())
    return exp.EQ(this=column, expression=exp.convert(value))


def as_query(tree: Any) -> Any:
    """Return the source of the rows of a statement, such as INSERT, as a query."""
    if isinstance(tree, exp.Values):
        values = exp.Subquery(this=tree.copy(), alias=exp.TableAlias(this=exp.to_identifier("_values")))
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=values))
    if isinstance(tree, exp.Table):
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=tree.copy()))
    if not isinstance(tree, exp.Query):
        raise not_understood(f"rows come from VALUES or from a query, not from {type(tree).__name__}")
    return tree


def _partition(partition: Any, table: HudiTable) -> tuple[dict[str, object], list[str]]:
    """Return the values of a PARTITION clause, and the columns that the clause names without a value. The rows have the latter columns last."""
    fixed: dict[str, object] = {}
    dynamic: list[str] = []
    for part in () if partition is None else partition.expressions:
        value = _constant(part.expression) if isinstance(part, exp.EQ) else None
        name = _known((part.this if isinstance(part, exp.EQ) else part).name, table, part)
        if name not in table.config.partition_fields or name in fixed or name in dynamic:
            raise not_understood(
                f"PARTITION names {name!r}{place_of(part)}, which is no partition column, or is named twice"
            )
        if isinstance(part, exp.EQ):
            fixed[name] = value
        else:
            dynamic.append(name)
    return fixed, dynamic


def _constant(tree: Any) -> object:
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Cast) and tree.to.this.name in _KINDS_OF_TEXTS and tree.this.is_string:
        return str(tree.this.name)
    number = tree.this if isinstance(tree, exp.Neg) else tree
    if not isinstance(number, exp.Literal) or (number.is_string and number is not tree):
        raise not_understood(
            f"PARTITION takes values{place_of(tree)}, not {tree.sql(dialect='spark')[:60]!r}",
            "Write a text, a number, a date (DATE '2024-01-01'), true, false or NULL. Nothing was changed.",
        )
    if number.is_string:
        return number.name
    return _number(f"-{number.name}" if number is not tree else number.name, tree)


def _number(text: str, tree: Any) -> object:
    """Return a number of the statement: a float if it has an exponent, a decimal if it has a point, as in Spark."""
    if "e" in text.lower():
        return float(text)
    value = Decimal(text)
    if len(value.as_tuple().digits) > _DIGITS:
        raise not_understood(
            f"PARTITION has a number{place_of(tree)} of more than {_DIGITS} digits, which no column holds",
            "Write a shorter one. Nothing was changed.",
        )
    return int(text) if "." not in text and abs(int(text)) < 2**63 else value


def _order(
    table: HudiTable,
    rows: pa.Table,
    listed: Sequence[str] | None,
    fixed: Mapping[str, object],
    dynamic: Sequence[str],
    *,
    by_name: bool,
) -> list[str]:
    """Return the columns of the table, in the order of the columns of ``rows``.

    The statement may list the columns, or say BY NAME. Otherwise the order is the order of the table's columns.
    """
    order = [name for name in table.schema.names if name not in fixed]
    if listed is not None and by_name:
        raise not_understood(
            f"INSERT lists columns ({', '.join(listed[:30])}) and has BY NAME",
            "Leave one of them out: with BY NAME the columns of the query have the names of the table's. Nothing was changed.",
        )
    if listed is not None:
        order = [_known(name, table, None) for name in listed]
    elif by_name:
        order = [_known(name, table, None) for name in rows.column_names]
    elif dynamic:
        order = [*(name for name in order if name not in dynamic), *dynamic]
    repeated = [name for name in order if order.count(name) > 1 or name in fixed]
    if repeated:
        raise not_understood(f"INSERT gives the column {repeated[0]!r} twice")
    if len(order) != rows.num_columns:
        raise DataError(
            f"INSERT has rows of {rows.num_columns} columns for {len(order)}: {', '.join(order[:30])}",
            table=table.location,
            hint="Columns come in the order of the table, without those that PARTITION gives a value; or list them: INSERT INTO orders (id, price)"
            " ... Nothing was changed.",
        )
    return order


def _in_columns(
    table: HudiTable, rows: pa.Table, order: Sequence[str], fixed: Mapping[str, object], defaults: Cells
) -> pa.Table:
    """Return the rows with the names and the types of the table's columns."""
    schema = table.schema
    by_default = left_out(defaults, order, len(rows), table)
    given = {name: column for name, column in zip(order, rows.columns, strict=True) if name not in by_default}
    given |= {name: pa.chunked_array([pa.repeat(value, len(rows))]) for name, value in fixed.items()}
    by_rules = table.rules.given  # columns that the rows lack are null, except these columns
    wanted = pa.schema([field for field in schema if field.name in given or field.name not in by_rules])
    made = {field.name: given.get(field.name, pa.nulls(len(rows), field.type)) for field in wanted}
    return put_in(fitted(pa.table(made), wanted, table.location), defaults, order, table)


def _known(name: str, table: HudiTable, part: Any) -> str:
    path = field_path(table.schema, (name,))
    if path is None:
        raise InvalidOptionError(
            f"The statement names the column {name!r}{'' if part is None else place_of(part)}, which the table lacks",
            table=table.location,
            hint=f"It has {', '.join(table.schema.names[:30])}. Nothing was changed.",
        )
    return path[0]


def values_of(how: Changing, parts: Sequence[Any]) -> dict[str, object]:
    """Return the new values of ``column = value, ...``, by column."""
    values: dict[str, object] = {}
    for part in parts:
        if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column):
            raise not_understood(f"SET takes column = value{place_of(part)}")
        if len(part.this.parts) > 1:
            raise not_understood(
                f"SET{place_of(part)} names a field of a struct, {part.this.sql(dialect='spark')!r}",
                "Set the whole column. Nothing was changed.",
            )
        if part.this.name in values:
            raise not_understood(f"SET gives {part.this.name!r} twice{place_of(part)}")
        values[part.this.name] = how.part(part.expression)
    return values


def _without_name(column: Any, name: str) -> None:
    """Remove the name of a table from the name of a column, in place."""
    parts = column.parts
    if len(parts) > 1 and parts[0].name.lower() == name.lower():
        keys = ("this", "table", "db", "catalog")
        column.replace(exp.Column(**{key: part.copy() for key, part in zip(keys, reversed(parts[1:]), strict=False)}))


_OF_A_NAME = ("this", "db", "catalog", "alias")


def _source(how: Changing, using: Any) -> tuple[Any, str]:
    alias = using.alias or (using.name if isinstance(using, exp.Table) else "")
    if not alias:
        raise not_understood(f"the source of the merge{place_of(using)} has no name", "Write USING (SELECT ...) AS s.")
    columns = using.args["alias"].args.get("columns") if using.args.get("alias") is not None else None
    only_named = not columns and all(part in _OF_A_NAME for part, found in using.args.items() if found)
    if isinstance(using, exp.Table) and isinstance(using.this, exp.Identifier) and only_named:
        found = how.names.source(using)
        return found.to_arrow() if isinstance(found, HudiTable | Scan) else found, alias
    refuse_unknown(using, "the source of the merge", *_OF_A_NAME, "version", "sample", "expressions")
    return query(exp.Select(expressions=[exp.Star()], from_=exp.From(this=using.copy())), how.names), alias


def _clause(how: Changing, found: Merge, when: Any, target: str) -> Merge:
    where = None if when.args.get("condition") is None else how.part(when.args["condition"])
    refuse_unknown(when, "a clause of the merge", "matched", "source", "condition", "then")
    then = when.args["then"]
    matched, by_source = bool(when.args.get("matched")), bool(when.args.get("source"))
    if isinstance(then, exp.Insert | exp.Update) and then.args.get("where"):
        raise not_understood(
            f"a clause of the merge{place_of(then)} has a WHERE", "Write WHEN MATCHED AND condition THEN ..."
        )
    if isinstance(then, exp.Insert) and not matched and not by_source:
        refuse_unknown(then, "INSERT of the merge", "this", "expression")
        if isinstance(then.this, exp.Star):
            return found.when_not_matched_insert_all(where, _but(then.this))
        return found.when_not_matched_insert(_insert_values(how, then), where)
    if isinstance(then, exp.Update) and isinstance(then.args.get("expressions"), list) and matched != by_source:
        refuse_unknown(then, "UPDATE of the merge", "expressions")
        if matched and len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star):
            return found.when_matched_update_all(where, _but(then.expressions[0]))
        for part in then.expressions:
            if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column):
                _without_name(part.this, target)
        values = values_of(how, then.expressions)
        return (
            found.when_matched_update(values, where)
            if matched
            else found.when_not_matched_by_source_update(values, where)
        )
    if then.name.upper() == "DELETE" and matched != by_source:
        return found.when_matched_delete(where) if matched else found.when_not_matched_by_source_delete(where)
    raise not_understood(
        f"a clause of the merge{place_of(when)} is not one of UPDATE, DELETE and INSERT in its place",
        "Rows that are MATCHED, or NOT MATCHED BY SOURCE, take UPDATE SET and DELETE; those that are NOT MATCHED take INSERT. Nothing was changed.",
    )


def _but(star: Any) -> list[str]:
    """Return the columns that ``* EXCEPT (column, ...)`` omits."""
    refuse_unknown(star, "* in the merge", "except_", "except")
    return [column.name for column in star.args.get("except_") or star.args.get("except") or ()]


def _insert_values(how: Changing, then: Any) -> dict[str, object]:
    columns = then.this.expressions if isinstance(then.this, exp.Tuple | exp.Schema) else [then.this]
    given = then.expression
    values = (
        given.expressions if isinstance(given, exp.Tuple) else [given.this if isinstance(given, exp.Paren) else given]
    )
    if then.this is None or len(columns) != len(values):
        raise not_understood(
            f"INSERT of the merge{place_of(then)} lists {len(columns)} columns and {len(values)} values",
            "Write INSERT (id, price) VALUES (s.id, s.price), or INSERT *.",
        )
    found: dict[str, object] = {}
    for column, value in zip(columns, values, strict=True):
        if column.name in found:
            raise not_understood(f"INSERT of the merge{place_of(column)} gives {column.name!r} twice")
        found[column.name] = how.part(value)
    return found
