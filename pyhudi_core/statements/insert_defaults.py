"""DEFAULT in the VALUES of an INSERT. DuckDB computes the rows with NULL for each DEFAULT. Then the table's default value replaces each of these
NULLs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot.expressions as exp

from pyhudi_core.errors import InvalidOptionError, at_table
from pyhudi_core.statements.text import not_understood, place_of
from pyhudi_core.table import HudiTable
from pyhudi_core.write.default_values import WORD, default_of

Cells = Mapping[int, Mapping[int, str]]
"""For each column number, the numbers of the rows that have DEFAULT in this column. Each row number has the place in the statement, in words."""


def is_default(tree: Any) -> bool:
    """Say whether a part of a statement is the word DEFAULT. A name in quotes, or a column with the name of its table, is not this word."""
    if not isinstance(tree, exp.Column) or len(tree.parts) > 1 or not isinstance(tree.this, exp.Identifier):
        return False
    return bool(tree.name.upper() == WORD and not tree.this.args.get("quoted"))


def misplaced(tree: Any) -> InvalidOptionError:
    """Return the error for a DEFAULT that is only a part of a value."""
    return not_understood(
        f"{WORD}{place_of(tree)} is no value that can be computed with",
        "DEFAULT is a whole value by itself, in VALUES (1, DEFAULT), SET price = DEFAULT, and INSERT of a merge. A column that INSERT does not list"
        " gets its default, too. Nothing was changed.",
    )


def taken_out(asked: Any) -> tuple[Any, Cells]:
    """Return the source of the rows of INSERT, with NULL for each DEFAULT, and return the places of the DEFAULTs.

    Raises `InvalidOptionError` for a DEFAULT in an expression.
    """
    if not isinstance(asked, exp.Values) or not any(map(is_default, asked.find_all(exp.Column))):
        return asked, {}
    asked = asked.copy()
    cells: dict[int, dict[int, str]] = {}
    for row, given in enumerate(asked.expressions):
        for number, value in enumerate(given.expressions if isinstance(given, exp.Tuple) else [given]):
            if is_default(value):
                cells.setdefault(number, {})[row] = place_of(value)
                value.replace(exp.Null())
            elif (inner := next(filter(is_default, value.find_all(exp.Column)), None)) is not None:
                raise misplaced(inner)
    return asked, cells


def left_out(cells: Cells, order: Sequence[str], rows: int, table: HudiTable) -> list[str]:
    """Return the columns that have DEFAULT in every row and get their values by the rules of the table. Raises `InvalidOptionError` for columns that
    cannot have DEFAULT.
    """
    found = []
    for number, places in cells.items():
        name, place = order[number], next(iter(places.values()))
        if name in table.rules.generated and len(places) < rows:
            raise not_understood(
                f"Column {name} is generated, and has DEFAULT{place} and a value in another row",
                "Write DEFAULT in every row, or leave the column out. Nothing was changed.",
            )
        if name not in table.rules.generated:
            with at_table(table.location):
                default_of(name, table.rules, table.schema, place)
        if len(places) == rows:
            found.append(name)
    return found


def put_in(rows: pa.Table, cells: Cells, order: Sequence[str], table: HudiTable) -> pa.Table:
    """Return the rows with the table's default values in the places of the DEFAULTs. ``rows`` have the types of the table."""
    for number, places in cells.items():
        name = order[number]
        if name in rows.column_names:
            default = default_of(name, table.rules, table.schema, "").computed(rows)[name]
            asked = pa.array([row in places for row in range(len(rows))])
            at = rows.schema.get_field_index(name)
            mixed = pc.if_else(asked, default, rows.column(name).cast(default.type))
            rows = rows.set_column(at, name, mixed)
    return rows
