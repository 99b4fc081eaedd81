"""The word DEFAULT in place of a value: the default of the column in the table's rules (``model/table_rules.py``).

A default means the same for every writer, so its times are in UTC, also if the other values of a statement have another zone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from pyhudi_core.errors import PredicateError
from pyhudi_core.model.table_rules import TableRules
from pyhudi_core.model.time_zone import UTC
from pyhudi_core.predicates.assignments import Assignments
from pyhudi_core.predicates.binding import field_path

WORD = "DEFAULT"


def with_defaults(
    values: Mapping[str, object], rules: TableRules, columns: pa.Schema, seen: Collection[str]
) -> Mapping[str, object]:
    """Return the new values of columns, with Arrow expressions in place of the word DEFAULT.

    Args:
        values: as for `Assignments.of`.
        rules: the rules of the table.
        columns: the table's columns that can be set.
        seen: the columns that an expression can name; if a column is called default, the word means that column.

    Raises `PredicateError` for a column without a default.
    """
    asked = [name for name, value in values.items() if isinstance(value, str) and value.strip().upper() == WORD]
    if not asked or WORD.lower() in {name.lower() for name in seen}:
        return values
    found = dict(values)
    for name in asked:
        path = field_path(columns, (name,))
        if path is not None:  # `Assignments` refuses a column that does not exist
            found[name] = default_of(path[0], rules, columns, _place(values[name])).values[path[0]]
    return found


def default_of(column: str, rules: TableRules, columns: pa.Schema, place: str) -> Assignments:
    """Return the assignment of a column's default to the column. Raises `PredicateError` if the column has no default."""
    own = {name.lower(): text for name, text in rules.defaults.items()}
    if column.lower() not in own:
        raise PredicateError(
            f"Column {column} has no default{place}",
            hint="Give a value, or NULL. ALTER TABLE ... ALTER COLUMN ... SET DEFAULT, or table.alter(default=...), gives a column a default."
            " Nothing was changed.",
        )
    return Assignments.of({column: own[column.lower()]}, columns, pa.schema([]), UTC)


def _place(value: object) -> str:
    at = getattr(getattr(value, "tree", None), "this", None)
    start = None if at is None else at.meta.get("start")
    return "" if start is None else f" at character {start + 1}"
