"""Texts that a Parquet file stores as a dictionary: the numbers of the entries are read, and then replaced by the texts, in parts of bounded bytes.

A file of kilobytes can hold one long text for many rows. Most files hold short texts for many rows, which are decoded faster in this way, too.

Invariant: a part has at most `_SPREAD_BYTES` of texts, or one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from pyhudi_core.errors import LimitExceededError
from pyhudi_core.lazy import lazy

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

_SPREAD_BYTES = 64 << 20
MOST_ROW_BYTES = 256 << 20
"""Bytes of texts from dictionaries that one row may have."""


def spread_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types of the rows after the numbers are replaced by texts."""
    return pa.schema([_spread_field(item) for item in schema])


def spread(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows, with a text in place of each number of a dictionary entry.

    Raises pyarrow's error for a number without an entry, and `LimitExceededError` for a row that is too large.
    """
    changed = [number for number, item in enumerate(batch.schema) if _has_numbers(item.type)]
    if not changed:
        yield batch
        return
    wanted = spread_schema(batch.schema)
    for part in _parts(batch, changed):
        columns = list(part.columns)
        for number in changed:
            columns[number] = _texts(columns[number], wanted.field(number).type)
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _has_numbers(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(_has_numbers(kind.field(n).type) for n in range(kind.num_fields))


def _parts(batch: pa.RecordBatch, changed: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts that may be spread out at once."""
    size = sum(_bytes(batch.column(number)) for number in changed)
    if size <= _SPREAD_BYTES or (len(batch) == 1 and size <= MOST_ROW_BYTES):
        yield batch
        return
    if len(batch) == 1:
        raise LimitExceededError(
            "A row of a Parquet file has more bytes than the limit",
            limit=MOST_ROW_BYTES,
            seen=size,
            hint="Read other columns, or write the row again with less in one column.",
        )
    middle = len(batch) // 2
    for start, rows in ((0, middle), (middle, len(batch) - middle)):
        # A slice of a list still refers to all items, and these would be spread out; what is taken has its own alone.
        yield from _parts(batch.take(pa.array(range(start, start + rows))), changed)


def _bytes(values: pa.Array) -> int:
    """Return the number of bytes of the texts of an array, or slightly more."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        if not _is_text(kind.value_type):
            return len(values) * 16
        lengths = pc.binary_length(values.dictionary)
        longest = pc.max(lengths).as_py() or 0
        if longest * len(values) <= _SPREAD_BYTES >> 4:
            return int(longest * len(values))
        return int(pc.sum(lengths.take(values.indices)).as_py() or 0)
    if pa.types.is_map(kind):
        return _bytes(_inner(values, values.keys)) + _bytes(_inner(values, values.items))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _bytes(_inner(values, values.values))
    if pa.types.is_fixed_size_list(kind):
        return _bytes(values.flatten())
    if pa.types.is_struct(kind):
        return sum(_bytes(values.field(number)) for number in range(kind.num_fields))
    return 0


def _inner(values: pa.Array, items: pa.Array) -> pa.Array:
    """Return the items of the lists of an array that may be a slice."""
    if not len(values):
        return items.slice(0, 0)
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return items.slice(first, last - first)


def _texts(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(values.type):
        return values.cast(kind)
    if len(values.dictionary) == 1 and not values.null_count and not values.indices.to_numpy().any():
        return pa.repeat(values.dictionary[0], len(values))
    return values.dictionary_decode()


def _spread_field(item: pa.Field) -> pa.Field:
    return item.with_type(_spread_type(item.type))


def _spread_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_map(kind):
        return pa.map_(_spread_field(kind.key_field), _spread_field(kind.item_field), kind.keys_sorted)
    if pa.types.is_struct(kind):
        return pa.struct([_spread_field(child) for child in kind])
    if pa.types.is_list(kind):
        return pa.list_(_spread_field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_spread_field(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_spread_field(kind.value_field), kind.list_size)
    return kind


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return any(test(kind) for test in (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary))
