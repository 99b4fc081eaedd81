"""Read the deletes of a log file as Arrow columns, without a Python object for each delete.

Specification, "Log Format"; inner version 3. A delete block is one Avro record with a list. ``delete_items`` finds where the items of the list begin
and end, one window after the other; then the items of a window are decoded column by column.

From the first part that this reader does not support to the end of the block, fastavro reads (`DeleteColumns.of_records`): deletes without a key,
more than 16 ordering values, lists and ordering values in several parts (no release writes any of these), and damaged bytes, for which it raises the
error. Older contents (versions 1 and 2, Java's Kryo) are refused, as in ``contents``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.formats.avro.columns import ArrayColumn, NullColumn, RecordColumn, UnionColumn, compile_schema
from pyhudi_core.formats.avro.cursor import ColumnsRefusedError, Cursor, Ints, Rounds, corrupt
from pyhudi_core.formats.log.contents import SEVERAL, DeleteRecord, decode_deletes, delete_list
from pyhudi_core.formats.log.delete_items import PADDING, Bytes, find_items
from pyhudi_core.model.delete_records import DELETE_LIST_SCHEMA

_SCHEMA = json.dumps(DELETE_LIST_SCHEMA)
_UNKNOWN = ""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Ordering values in wrappers of one class.

    Attributes:
        kind: the name of the wrapper; empty for values that are damaged.
        places: for each value the number of its delete.
        values: the values, in the wrapper's type.
    """

    kind: str
    places: Ints
    values: pa.Array

    def only(self, chosen: Mask, numbers: Ints) -> Wrapped:
        """Return the values of the chosen deletes, with the new numbers of these deletes."""
        inside = chosen[self.places]
        return Wrapped(self.kind, numbers[self.places[inside]], self.values.filter(pa.array(inside)))


@dataclass(frozen=True, slots=True)
class DeleteColumns:
    """Deletes of one block.

    Attributes:
        keys: record keys.
        partitions: partition paths.
        single: the ordering values of deletes with one value.
        several: the ordering values of deletes with several values: all first values, all second values, and so on.
        counts: the number of ordering values of deletes with several values; -1 for other deletes.
        size: the bytes of the block that hold these deletes.
    """

    keys: pa.StringArray
    partitions: pa.StringArray
    single: tuple[Wrapped, ...]
    several: tuple[tuple[Wrapped, ...], ...]
    counts: Ints
    size: int = 0

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of_records(cls, records: Sequence[DeleteRecord], size: int = 0) -> Self:
        """Return the deletes of decoded records, one by one."""
        counts = np.full(len(records), -1, np.int64)
        single: list[tuple[int, str, Any]] = []
        several: list[list[tuple[int, str, Any]]] = []
        for place, record in enumerate(records):
            if record.kind != SEVERAL:
                single += [] if record.kind is None else [(place, record.kind, record.ordering)]
                continue
            counts[place] = len(record.ordering)
            for number, part in enumerate(record.ordering):
                several += [[]] if number == len(several) else []
                several[number] += [] if part is None else [(place, *part)]
        return cls(
            pa.array([record.record_key for record in records], pa.string()),
            pa.array([record.partition_path for record in records], pa.string()),
            _by_kind(single),
            tuple(map(_by_kind, several)),
            counts,
            size,
        )

    def filter(self, chosen: Mask) -> DeleteColumns:
        """Return the chosen deletes."""
        numbers, mask = np.cumsum(chosen) - 1, pa.array(chosen)
        return DeleteColumns(
            self.keys.filter(mask),
            self.partitions.filter(mask),
            tuple(part.only(chosen, numbers) for part in self.single),
            tuple(tuple(part.only(chosen, numbers) for part in parts) for parts in self.several),
            self.counts[chosen],
            self.size,
        )


def read_delete_columns(content: pa.Buffer, path: str) -> Iterator[DeleteColumns]:
    """Yield the deletes of a delete block, part after part; an empty block has no part.

    Raises `CorruptLogBlockError`, `CorruptAvroError`, and `UnsupportedTableError` for deletes in Java's own serialisation.
    """
    listed = delete_list(content, path)
    size = len(listed)
    data = np.concatenate([np.frombuffer(listed, np.uint8), np.zeros(PADDING, np.uint8)])
    left, at = _first_count(data, size)
    if not left:
        return
    while left > 0:
        starts, ends = find_items(data, size, at, left)
        found = _decoded(data, starts, ends) if len(starts) else None
        if found is None:
            break
        left, at = left - len(starts), int(ends[-1])
        yield found
    if left or at == size or data[at]:
        rest = (_encoded_count(left) if left > 0 else b"") + data[at:size].tobytes()
        yield DeleteColumns.of_records(decode_deletes(rest, path), size - at)


def _first_count(data: Bytes, size: int) -> tuple[int, int]:
    """Return the number of items of the list, or of its first part, and their position; -1 and 0 if there is no number; fastavro then raises the
    error."""
    cursor = Cursor(data, np.zeros(1, np.int64), np.array([size]), Rounds(0))
    try:
        count = int(cursor.longs()[0])
        if count < 0:
            cursor.lengths()
    except CorruptAvroError:
        return -1, 0
    return abs(count), int(cursor.at[0])


def _encoded_count(count: int) -> bytes:
    """Return a positive number as Avro writes it."""
    left, found = count << 1, bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def _decoded(data: Bytes, starts: Ints, ends: Ints) -> DeleteColumns | None:
    """Return these items in columns; None if a value cannot be read."""
    keys, partitions, union = _item_columns()
    cursor = Cursor(data, starts.copy(), ends, Rounds(0))
    counts = np.full(len(starts), -1, np.int64)
    several: list[list[Wrapped]] = []
    try:
        key_column, partition_column = keys.read(cursor), partitions.read(cursor)
        single = _values(cursor, union, np.arange(len(starts)), counts, several)
        if (cursor.at != ends).any():
            return None
    except (CorruptAvroError, ColumnsRefusedError):
        return None
    size = int(ends[-1] - starts[0])
    return DeleteColumns(key_column, partition_column, tuple(single), tuple(map(tuple, several)), counts, size)


def _item_columns() -> tuple[UnionColumn, UnionColumn, UnionColumn]:
    """Return the readers of record key, partition path and ordering value."""
    items = cast("RecordColumn", cast("ArrayColumn", compile_schema(_SCHEMA).columns[0]).items)
    keys, partitions, union = (cast("UnionColumn", column) for column in items.columns)
    return keys, partitions, union


def _values(
    cursor: Cursor, union: UnionColumn, places: Ints, counts: Ints, several: list[list[Wrapped]]
) -> list[Wrapped]:
    """Return the values of a union of wrappers; values of the wrapper for several values are added to ``several`` and ``counts``."""
    chosen = cursor.longs()
    found = []
    for number in np.unique(chosen).tolist():
        if not 0 <= number < len(union.branches):
            raise corrupt("a union has no such branch")
        branch = union.branches[number]
        if isinstance(branch, NullColumn):
            continue
        which = np.flatnonzero(chosen == number)
        part = cursor.some(which)
        if union.names[number] == SEVERAL:
            _several(part, cast("RecordColumn", branch), places[which], counts, several)
        else:
            found.append(Wrapped(union.names[number], places[which], branch.read(part).field(0)))
        cursor.put_back(which, part)
    return found


def _several(cursor: Cursor, wrapper: RecordColumn, places: Ints, counts: Ints, several: list[list[Wrapped]]) -> None:
    """Read the wrapper for several values: all first values at once, then all second values, and so on."""
    maybe = cast("UnionColumn", wrapper.columns[0])
    (array,) = (branch for branch in maybe.branches if isinstance(branch, ArrayColumn))
    items = cast("UnionColumn", array.items)
    counts[places] = 0
    listed = np.flatnonzero(cursor.longs() != 0)
    part = cursor.some(listed)
    lengths = part.longs()
    counts[places[listed]] = lengths
    for number in range(int(lengths.max(initial=0))):
        which = np.flatnonzero(lengths > number)
        inner = part.some(which)
        several += [[]] if number == len(several) else []
        several[number] += _values(inner, items, places[listed[which]], counts, several)
        part.put_back(which, inner)
    ended = np.flatnonzero(lengths > 0)
    inner = part.some(ended)
    if inner.longs().any():
        raise ColumnsRefusedError("ordering values are in several parts")
    part.put_back(ended, inner)
    cursor.put_back(listed, part)


def _by_kind(values: Iterable[tuple[int, str, Any]]) -> tuple[Wrapped, ...]:
    """Return values with their places and wrappers, one by one."""
    grouped: dict[str, list[tuple[int, Any]]] = {}
    for place, kind, value in values:
        grouped.setdefault(kind if _fits(kind, value) else _UNKNOWN, []).append((place, value))
    return tuple(
        Wrapped(kind, np.array([place for place, _ in items], np.int64), _array(kind, [value for _, value in items]))
        for kind, items in grouped.items()
    )


def _fits(kind: str, value: Any) -> bool:
    """Say whether the wrapper can have this value: fastavro reads ints of any size."""
    return kind not in ("IntWrapper", "LocalDateWrapper") or -(2**31) <= value < 2**31


def _array(kind: str, values: list[Any]) -> pa.Array:
    """Return the values as an array of the wrapper's type. If a number is too long for this type, take a wider type; Hudi writes no such numbers."""
    if kind == _UNKNOWN:
        return pa.nulls(len(values))
    union = _item_columns()[2]
    names = dict(zip(union.names, union.branches, strict=True))
    branch = names.get(kind)
    stored = pa.int32() if branch is None else cast("RecordColumn", branch).type.field(0).type
    try:
        return pa.array(values, stored)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(values)
