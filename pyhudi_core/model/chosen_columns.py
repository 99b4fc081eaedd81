"""Check the key, partition and ordering columns and the delete mark of a new table: they must exist, and their types must fit."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.model.key_text import can_mark, text_problem
from pyhudi_core.model.properties import TableConfig

_KEY_NAME = re.compile(r"(^|_)(id|key|code|uuid|number|num|no|nr)$|[a-z](Id|ID|Key|Code)$", re.IGNORECASE)
_FIELD, _MARKER = "hoodie.payload.delete.field", "hoodie.payload.delete.marker"


def refuse_absent(schema: pa.Schema, arguments: Mapping[str, tuple[str, ...]]) -> None:
    """Raise `InvalidOptionError` if an argument names a column that does not exist."""
    for argument, names in arguments.items():
        absent = [name for name in names if name not in schema.names]
        if absent:
            raise InvalidOptionError(
                f"{argument} names columns that do not exist: {', '.join(map(repr, absent))}",
                hint=_rather(argument, absent, schema.names) or f"The schema has: {', '.join(schema.names)}.",
            )


def _rather(argument: str, absent: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the probable meaning of ``"id,day"``, the form of Hudi's options, or of a misspelt name."""
    parts = [part.strip() for part in absent[0].split(",")]
    if len(parts) > 1 and set(parts) <= {*names}:
        return f"Give a list: {argument}={parts!r}."
    by_letters = {name.lower(): name for name in names}
    near = difflib.get_close_matches(absent[0].lower(), by_letters, n=1, cutoff=0.75)
    if near:
        return f"Did you mean {by_letters[near[0]]!r}? The schema has: {', '.join(names)}."
    likely = [name for name in names if _KEY_NAME.search(name)] if argument == "record_key" else []
    return (
        f"Columns with the name of a key: {', '.join(likely)}. The schema has: {', '.join(names)}." if likely else None
    )


def refuse_types(
    schema: pa.Schema, keys: Iterable[str], partitions: Iterable[str], orderings: Iterable[str], *, pandas: bool = False
) -> None:
    """Raise `InvalidOptionError` for column types with which every later write fails: types without a text for the key or the folder, or without an
    order.

    ``pandas``: whether the schema comes from a DataFrame of pandas, in which a missing value turns integers into floating-point numbers.
    """
    nested = "nested values have no order"
    problems = [
        *(("record_key", name, text_problem(schema.field(name).type, timestamps=True)) for name in keys),
        *(("partition_by", name, text_problem(schema.field(name).type, timestamps=False)) for name in partitions),
        *(("ordering", name, nested) for name in orderings if pa.types.is_nested(schema.field(name).type)),
    ]
    for argument, name, problem in problems:
        if problem is not None:
            hint = "Choose another column, or give it another type."
            if pandas and pa.types.is_floating(schema.field(name).type):
                hint = (
                    "In pandas, a missing value turns integers into floating-point numbers. Drop such rows"
                    f" (frame.dropna(subset=[{name!r}])), and make the others integers: frame.astype({{{name!r}: 'Int64'}})."
                )
            raise InvalidOptionError(
                f"{argument} names {name!r} of type {schema.field(name).type}: {problem}", hint=hint
            )


def refuse_mark(schema: pa.Schema, config: TableConfig, column: str, word: str) -> None:
    """Raise `InvalidOptionError` for a delete mark (a column and a text) that the table cannot store, or that no row can have."""
    if not column and not word:
        return
    nothing = "Nothing was created."
    if not column or not word:
        missing = _MARKER if column else _FIELD
        raise InvalidOptionError(
            f"Deletes are marked by a column and a text, and {missing} is not given",
            hint=f"Give both {_FIELD} and {_MARKER}, or neither of them. {nothing}",
        )
    if config.merge_rules.mark != (column, word):
        raise InvalidOptionError(
            f"The table would not keep {_FIELD}={column} and {_MARKER}={word}",
            hint="Create it with version=9, and without a payload class that has a mark of its own. In version 8 the column _hoodie_is_deleted "
            f"marks deletes. {nothing}",
        )
    if column not in schema.names or not can_mark(schema.field(column).type):
        says = f"is {schema.field(column).type}" if column in schema.names else "is not there"
        raise InvalidOptionError(
            f"The column {column} of {_FIELD} {says}",
            hint=f"Name a column of text, integers or booleans of the table. {nothing}",
        )
