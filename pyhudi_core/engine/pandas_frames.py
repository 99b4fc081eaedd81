"""Convert pandas DataFrames to Arrow tables, with one rule for the index in all functions that take a DataFrame:

- an index with names becomes columns, as in pandas' own writers;
- an unnamed index of integers only numbers the rows, also after a filter or a sort, and becomes no column;
- any other unnamed index is refused: its values would be lost, because a column for them would have no name.

A DataFrame has lists of pairs for maps. They become maps again if the table has maps in these columns.

pandas is not imported here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError


def is_pandas(kind: type, name: str = "DataFrame") -> bool:
    """Return whether a type is a pandas DataFrame, or derived from one, in any release of pandas.

    ``name``: the name of another class to check, such as ``"Series"``.
    """
    return any(each.__name__ == name and each.__module__.partition(".")[0] == "pandas" for each in kind.__mro__)


def pandas_table(frame: Any, known: pa.Schema | None = None) -> pa.Table:
    """Return the columns of a frame, followed by the columns of its index. Raises `SchemaMismatchError` for an index or columns without names of
    their own.

    ``known``: the columns of the table. Map columns take their type from the table, because a frame has lists of pairs for maps.
    """
    _refuse_doubled(frame)
    try:
        return _converted(frame, known)
    except UnicodeEncodeError as error:
        raise SchemaMismatchError(
            f"The pandas DataFrame has a name or a text with an incomplete character (a lone surrogate): {error.object!r:.80}",
            hint="Decode the bytes from which the text comes as UTF-8.",
        ) from error


def _converted(frame: Any, known: pa.Schema | None) -> pa.Table:
    maps = {} if known is None else _maps(frame, known)
    table = pa.Table.from_pandas(frame.drop(columns=[*maps]) if maps else frame, preserve_index=False)
    if maps:
        table = pa.table({name: maps[name] if name in maps else table.column(name) for name in map(str, frame.columns)})
    for level, name in enumerate(_names_of_index(frame)):
        values = pa.Array.from_pandas(frame.index.get_level_values(level))
        if str(name) not in table.column_names:
            table = table.append_column(str(name), values)
        elif not table.column(str(name)).equals(pa.chunked_array([values])):
            raise SchemaMismatchError(
                f"The pandas DataFrame has {name!r} as a column and as the name of its index, with other values",
                hint=f"Rename one of them: frame.rename_axis(index={{{name!r}: ...}}), or drop the index: frame.reset_index(drop=True).",
            )
    return table


def _maps(frame: Any, known: pa.Schema) -> dict[str, pa.Array]:
    """Return the columns that are maps in the table and lists of pairs in the DataFrame. Arrow converts all other columns.

    Keys and values have the types that Arrow finds, so the rule for types is the same as for other data.
    """
    found = {}
    for field in known:
        if field.name in frame.columns and _is_of_maps(field.type):
            with suppress(pa.ArrowException, TypeError, ValueError):  # then Arrow says what is wrong with these values
                found[field.name] = _of_pairs(frame[field.name].tolist(), field.type)
    return found


def _is_of_maps(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or (pa.types.is_list(kind) and _is_of_maps(kind.value_type))


def _of_pairs(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return lists of pairs, or lists of such lists, as maps. Raises an error for other values."""
    if not _is_of_maps(kind):
        found = pa.array(values, from_pandas=True)
        return found.cast(kind) if pa.types.is_null(found.type) else found
    missing = np.fromiter((_is_missing(value) for value in values), bool, len(values))
    present = [() if absent else value for value, absent in zip(values, missing, strict=True)]
    if not {*map(type, present)} <= {list, tuple, np.ndarray}:
        raise TypeError
    ends = np.cumsum([0, *map(len, present)], dtype=np.int32)
    offsets = pa.array(ends, mask=np.append(missing, False))
    inside = list(chain.from_iterable(present))
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(offsets, _of_pairs(inside, kind.value_type))
    if not {*map(type, inside)} <= {tuple}:
        raise TypeError
    keys, items = zip(*inside, strict=True) if inside else ((), ())
    return pa.MapArray.from_arrays(offsets, _of_pairs(keys, kind.key_type), _of_pairs(items, kind.item_type))


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value)) or type(value).__name__ == "NAType"


def pandas_schema(frame: Any) -> pa.Schema:
    """Return the columns that the table of a frame has. No row is written, so an unnamed index is passed over. Raises as `pandas_table`."""
    unnamed = list(frame.index.names) == [None]
    return pandas_table(frame.reset_index(drop=True) if unnamed else frame).schema


def _names_of_index(frame: Any) -> list[Any]:
    """Return the names of the levels of the index; none for an index that only numbers the rows."""
    index = frame.index
    names = list(index.names)
    if None not in names:
        return names
    if len(names) == 1 and (index.dtype.kind in "iu" or not len(index)):
        return []
    raise SchemaMismatchError(
        f"The pandas DataFrame has an index without a name, {_shown(index)}, whose values would be lost",
        hint="frame.reset_index() makes it a column, and frame.reset_index(drop=True) leaves it out.",
    )


def _shown(index: Any) -> str:
    values = ", ".join(str(value) for value in index[:3].tolist())
    return f"{values}, ..." if len(index) > 3 else values


def _refuse_doubled(frame: Any) -> None:
    doubled = [str(name) for name, count in Counter(map(str, frame.columns)).items() if count > 1]
    if doubled:
        raise SchemaMismatchError(
            f"The pandas DataFrame has several columns with the name {', '.join(doubled)}",
            hint="Give each column a name of its own: frame.columns = [...].",
        )
