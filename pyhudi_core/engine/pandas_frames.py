"""Frames of pandas as Arrow tables. One rule for their index, for every door that takes a frame:

- an index with names becomes columns, as pandas' own writers have it;
- an unnamed index of integers numbers the rows, also after a filter or a sort, and is no column;
- any other unnamed index is refused, because its values would be lost, and no column could have a name for them.

pandas is not imported here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import SchemaMismatchError


def is_pandas(kind: type, name: str = "DataFrame") -> bool:
    """Whether a type is a frame of pandas of any release, or derived from one; ``name`` asks for another class, such as ``"Series"``."""
    return any(each.__name__ == name and each.__module__.partition(".")[0] == "pandas" for each in kind.__mro__)


def pandas_table(frame: Any) -> pa.Table:
    """The columns of a frame, and behind them those of its index. Raises `SchemaMismatchError` for an index or columns without names of their own."""
    _refuse_doubled(frame)
    table = pa.Table.from_pandas(frame, preserve_index=False)
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


def pandas_schema(frame: Any) -> pa.Schema:
    """The columns that the table of a frame has. No row is written, so an unnamed index is passed over. Raises as `pandas_table`."""
    unnamed = list(frame.index.names) == [None]
    return pandas_table(frame.reset_index(drop=True) if unnamed else frame).schema


def _names_of_index(frame: Any) -> list[Any]:
    """The names of the levels of the index; none for an index that only numbers the rows."""
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
