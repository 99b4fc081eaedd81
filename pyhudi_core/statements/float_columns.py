"""Compare FLOAT columns as Spark does: Spark compares a FLOAT and a decimal as two DOUBLEs, and DuckDB as two FLOATs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import sqlglot.expressions as exp

_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.In,
    exp.Between,
)
_OPERANDS = ("this", "expression", "expressions", "low", "high")


def compared_as_spark_does(tree: Any, schemas: Mapping[str, pa.Schema]) -> None:
    """Cast FLOAT columns that a query compares with decimals to DOUBLE, in place.

    ``schemas``: the schemas of its tables, by their names in the tree.
    """
    for comparison in list(tree.find_all(*_COMPARISONS)):
        operands = list(_operands(comparison))
        if any(_has_decimal(operand, schemas) for operand in operands):
            for operand in operands:
                if isinstance(operand, exp.Column) and _is(operand, schemas, pa.types.is_float32):
                    operand.replace(exp.cast(operand.copy(), "double"))


def _operands(comparison: Any) -> Iterator[Any]:
    for name in _OPERANDS:
        found = comparison.args.get(name)
        for operand in found if isinstance(found, list) else [found]:
            if isinstance(operand, exp.Expression):
                yield operand.unnest()


def _has_decimal(operand: Any, schemas: Mapping[str, pa.Schema]) -> bool:
    if any(not literal.is_string and not literal.name.isdecimal() for literal in operand.find_all(exp.Literal)):
        return True
    return any(_is(column, schemas, pa.types.is_decimal) for column in operand.find_all(exp.Column))


def _is(column: Any, schemas: Mapping[str, pa.Schema], test: Any) -> bool:
    """Say whether a column with such a type belongs to a table in the same SELECT, or in an outer one. Columns of subqueries are not known."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        tables = [table for table in select.find_all(exp.Table) if table.find_ancestor(exp.Select) is select]
        kinds = [
            field.type
            for table in tables
            if table.name in schemas and column.table.lower() in ("", table.alias_or_name.lower())
            for field in schemas[table.name]
            if field.name.lower() == column.name.lower()
        ]
        if kinds:
            return all(map(test, kinds))
        select = select.find_ancestor(exp.Select)
    return False
