"""Encode Arrow columns as Avro records, without a Python object for each row: the reverse of `columns`.

Avro 1.11 specification, "Binary Encoding". The compiled schema is the same tree of columns as for reading. Each column is encoded in two steps:
first the byte size of each value, which gives every value its position in the buffer; then the bytes of all values at once. The work in Python
grows with the columns and the depth of the schema, not with the rows. A few rows are encoded value by value, because a small commit to the metadata
table has a handful of records with dozens of fields: then the cost of a field depends on its values, and nulls cost nothing.

Invariant: the bytes are those of fastavro and of Avro's Java encoder: an array is one block with a positive count, and ends with a 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.formats.avro import columns
from pyhudi_core.formats.avro.decimals import bytes_of_decimals
from pyhudi_core.formats.byte_columns import Bytes, Ints, big_endian, contents, put_rows, put_texts

_FEW = 64
"""A step over an array costs as much as some hundred values. Nine records of the metadata table: 1.6 ms by value, 3.1 to 4.3 ms by columns."""
_ONE_BYTE = [bytes([number]) for number in range(0x80)]
_ROWS_AT_ONCE = 16_384  # limits memory: the position of one byte takes eight bytes


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Consecutive records. Record n is at [starts[n], ends[n]) of the buffer."""

    buffer: pa.Buffer
    starts: Ints
    ends: Ints

    def values(self) -> pa.LargeBinaryArray:
        """Return each record as one binary value. Only for records encoded without ``head``."""
        offsets = np.append(self.starts, len(self.buffer))
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(self.starts), [None, pa.py_buffer(offsets), self.buffer]
        )


def encode_records(
    schema: str, rows: pa.RecordBatch | pa.Table, *, head: bool = False, few: int = _FEW
) -> EncodedRecords:
    """Encode rows as records of an Avro schema (JSON text).

    Args:
        schema: a record schema; its fields are matched by name with the rows' columns.
        rows: columns of the schema's types, or of types that convert to them without loss. A nullable field may be missing.
        head: write the length of each record before it, as big-endian 4 bytes (log blocks).
        few: up to this number, records are encoded value by value, otherwise by columns. The result is the same.

    Raises `SchemaMismatchError` for a value that the schema cannot hold, `CorruptAvroError` if the schema is not valid.
    """
    root = columns.compile_schema(schema)
    if 0 < rows.num_rows <= few:
        return _few(root, rows, head)
    parts: list[Bytes] = []
    starts: list[Ints] = []
    ends: list[Ints] = []
    behind = 0
    for first in range(0, rows.num_rows, _ROWS_AT_ONCE):
        record = _record(root, rows.slice(first, _ROWS_AT_ONCE))
        front = 4 if head else 0
        whole = record.sizes + front
        last = np.cumsum(whole)
        out = np.zeros(int(last[-1]), np.uint8)
        at = last - record.sizes
        if head:
            put_rows(out, at - 4, big_endian(record.sizes, ">i4"))
        record.write(out, at)
        parts.append(out)
        starts.append(at + behind)
        ends.append(last + behind)
        behind += len(out)
    nothing = np.zeros(0, np.int64)
    return EncodedRecords(
        pa.py_buffer(np.concatenate(parts) if parts else np.zeros(0, np.uint8)),
        np.concatenate(starts) if starts else nothing,
        np.concatenate(ends) if ends else nothing,
    )


class EncodedColumn(Protocol):
    """The values of one column, ready to be written: ``sizes`` has the byte size of each value."""

    @property
    def sizes(self) -> Ints: ...

    def write(self, out: Bytes, at: Ints) -> None:
        """Write each value's bytes at its position. ``out`` is zero there."""
        ...


@dataclass(frozen=True, slots=True)
class EncodedNulls:
    """Nulls take no bytes."""

    sizes: Ints

    def write(self, out: Bytes, at: Ints) -> None:
        return


class Varints:
    """Ints and longs: zigzag, then seven bits a byte, the lowest first."""

    def __init__(self, values: Ints) -> None:
        self._coded = ((values << 1) ^ (values >> 63)).view(np.uint64)
        self.sizes = np.ones(len(values), np.int64)
        most = int(self._coded.max(initial=0))
        self._longest = max(1, -(-most.bit_length() // 7))
        for power in range(7, 7 * self._longest, 7):
            self.sizes += self._coded >= np.uint64(1 << power)

    def write(self, out: Bytes, at: Ints) -> None:
        if self._longest == 1:
            out[at] = self._coded
            return
        for number in range(self._longest):
            which = np.flatnonzero(self.sizes > number) if number else slice(None)
            sizes = self.sizes[which]
            low = ((self._coded[which] >> np.uint64(7 * number)) & np.uint64(0x7F)).astype(np.uint8)
            out[at[which] + number] = low | ((sizes > number + 1) * np.uint8(0x80)).astype(np.uint8)


class Fixed:
    """Values of equal size: a matrix with one row for each value."""

    def __init__(self, values: Bytes) -> None:
        self._values = values
        self.sizes = np.full(len(values), values.shape[1], np.int64)

    def write(self, out: Bytes, at: Ints) -> None:
        put_rows(out, at, self._values)


class Texts:
    """Encodes strings and bytes: the length, then the bytes. ``data``: the bytes concatenated without gaps."""

    def __init__(self, data: Bytes, lengths: Ints) -> None:
        self._data, self._lengths = data, lengths
        self._heads = Varints(lengths)
        self.sizes = self._heads.sizes + lengths

    def write(self, out: Bytes, at: Ints) -> None:
        self._heads.write(out, at)
        put_texts(out, at + self._heads.sizes, self._data, self._lengths)


@dataclass(frozen=True, slots=True)
class Sequence:
    """Several consecutive pieces of one value: the fields of a record, or key and item of a map's entry."""

    parts: tuple[EncodedColumn, ...]
    sizes: Ints

    @classmethod
    def of(cls, parts: tuple[EncodedColumn, ...], count: int) -> Sequence:
        return cls(parts, sum((part.sizes for part in parts), np.zeros(count, np.int64)))

    def write(self, out: Bytes, at: Ints) -> None:
        for part in self.parts:
            part.write(out, at)
            at = at + part.sizes


class Chosen:
    """Encodes unions: the number of the branch, then the value of that branch. ``branches``: pairs (positions, values), by number."""

    def __init__(self, numbers: Ints, branches: tuple[tuple[Ints | slice, EncodedColumn], ...]) -> None:
        self._numbers, self._branches = Varints(numbers), branches
        self.sizes = self._numbers.sizes.copy()
        for where, piece in branches:
            self.sizes[where] += piece.sizes

    def write(self, out: Bytes, at: Ints) -> None:
        self._numbers.write(out, at)
        for where, piece in self._branches:
            piece.write(out, at[where] + self._numbers.sizes[where])


class Blocks:
    """Encodes arrays and maps: the count and the items, if there are any, then a 0."""

    def __init__(self, counts: Ints, items: EncodedColumn) -> None:
        self._counts, self._items = counts, items
        self._some = np.flatnonzero(counts)
        self._heads = Varints(counts[self._some])
        ends = np.append(0, np.cumsum(items.sizes))
        last = np.cumsum(counts)
        self._before = ends[:-1]  # bytes of all items before an item
        self._first = ends[last - counts]  # the number of bytes of all items before the items of a value
        self.sizes = ends[last] - self._first + 1
        self.sizes[self._some] += self._heads.sizes

    def write(self, out: Bytes, at: Ints) -> None:
        self._heads.write(out, at[self._some])
        begin = at - self._first
        begin[self._some] += self._heads.sizes
        self._items.write(out, np.repeat(begin, self._counts) + self._before)


def _few(root: columns.RecordColumn, rows: pa.RecordBatch | pa.Table, head: bool) -> EncodedRecords:
    """Encode a few rows, value by value."""
    count = rows.num_rows
    parts = []
    for name, column, values in _fields(root, rows):
        if values is not None:
            parts.append(_few_values(column, values, name))
        else:
            number = _null_branch(column, name)
            parts.append([b"" if number is None else _varint(number)] * count)
    records = _joined(parts, count)
    front = 4 if head else 0
    ends = list(accumulate(len(record) + front for record in records))
    starts = [end - len(record) for end, record in zip(ends, records, strict=True)]
    pieces = ((len(record).to_bytes(4, "big"), record) for record in records) if head else ((r,) for r in records)
    data = b"".join(part for piece in pieces for part in piece)
    return EncodedRecords(pa.py_buffer(data), np.array(starts, np.int64), np.array(ends, np.int64))


def _record(root: columns.RecordColumn, rows: pa.RecordBatch | pa.Table) -> Sequence:
    """Encode the rows' fields."""
    parts = [
        _nulls(column, rows.num_rows, name) if values is None else _piece(column, values, name)
        for name, column, values in _fields(root, rows)
    ]
    return Sequence.of(tuple(parts), rows.num_rows)


def _fields(
    root: columns.RecordColumn, rows: pa.RecordBatch | pa.Table
) -> Iterator[tuple[str, columns.AvroColumn, pa.Array | None]]:
    """Yield name, column and values of each field of the schema, in its order; None for a field that the rows do not have."""
    given = set(rows.schema.names)
    for name, column in zip(root.names, root.columns, strict=True):
        yield name, column, _converted(_one(rows.column(name)), column.type, name) if name in given else None


def _null_branch(column: columns.AvroColumn, name: str) -> int | None:
    """Return the number of the null branch; None for a column that is never null."""
    branches = column.branches if isinstance(column, columns.UnionColumn) else (column,)
    empty = [number for number, branch in enumerate(branches) if isinstance(branch, columns.NullColumn)]
    if not empty:
        raise _cannot(name, "null, which its Avro schema does not allow")
    return None if len(branches) == 1 else empty[0]


def _nulls(column: columns.AvroColumn, count: int, name: str) -> EncodedColumn:
    """Encode a number of nulls."""
    number = _null_branch(column, name)
    return EncodedNulls(np.zeros(count, np.int64)) if number is None else Chosen(np.full(count, number, np.int64), ())


def _piece(column: columns.AvroColumn, values: pa.Array, name: str) -> EncodedColumn:
    """Encode the values of a column, which have its type."""
    if not len(values):
        return EncodedNulls(np.zeros(0, np.int64))
    if isinstance(column, columns.UnionColumn):
        return _union(column, values, name)
    if isinstance(column, columns.NullColumn):
        return EncodedNulls(np.zeros(len(values), np.int64))
    if values.null_count:
        raise _cannot(name, "null, which its Avro schema does not allow")
    if isinstance(column, columns.RecordColumn):
        fields = zip(column.columns, values.flatten(), column.names, strict=True)
        return Sequence.of(tuple(_piece(each, part, f"{name}.{inner}") for each, part, inner in fields), len(values))
    if isinstance(column, columns.ArrayColumn):
        return _blocks(column, values, name)
    return _plain(column, values, name)


def _plain(column: columns.AvroColumn, values: pa.Array, name: str) -> EncodedColumn:
    """Encode values without nested parts."""
    if isinstance(column, columns.BooleanColumn):
        return Fixed(values.cast(pa.uint8()).to_numpy().reshape(-1, 1))
    if isinstance(column, columns.NumberColumn):
        return Varints(_numbers(column, values, name))
    if isinstance(column, columns.RealColumn):
        numbers = values.to_numpy()
        return Fixed(np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), numbers.itemsize))
    if isinstance(column, columns.EnumColumn):
        found = pc.index_in(values, value_set=pa.array(column.symbols, pa.string()))
        if found.null_count:
            raise _cannot(name, f"a text that is none of the enum's {len(column.symbols)} symbols")
        return Varints(found.to_numpy().astype(np.int64))
    decimal = pa.types.is_decimal(column.type)
    if isinstance(column, columns.FixedColumn):
        if not decimal:
            values = _converted(values, pa.binary(column.size), name)
            data = np.frombuffer(values.buffers()[1] or b"", np.uint8).reshape(-1, column.size)
            return Fixed(data[values.offset : values.offset + len(values)])
        wide, lengths = bytes_of_decimals(values)
        if lengths.max(initial=0) > column.size:
            raise _cannot(name, f"a decimal of more than {column.size} bytes")
        sign = np.where(wide[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
        front = np.broadcast_to(sign, (len(wide), max(0, column.size - wide.shape[1])))
        return Fixed(np.hstack([front, wide[:, max(0, wide.shape[1] - column.size) :]]))
    if decimal:
        wide, lengths = bytes_of_decimals(values)
        used = np.arange(wide.shape[1]) >= (wide.shape[1] - lengths)[:, None]
        return Texts(wide[used], lengths)
    return Texts(*contents(values))


def _numbers(column: columns.NumberColumn, values: pa.Array, name: str) -> Ints:
    width = pa.int32() if values.type.bit_width == 32 else pa.int64()
    found = values.cast(width).to_numpy().astype(np.int64)
    if column.multiply == column.divide:
        return found
    stored = found // column.multiply * column.divide
    if (stored // column.divide * column.multiply != found).any():
        raise _cannot(name, "a time that its Avro type cannot hold without loss")
    return stored


def _blocks(column: columns.ArrayColumn, values: pa.Array, name: str) -> Blocks:
    offsets = values.offsets.to_numpy().astype(np.int64)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    if not column.is_map:
        items = _piece(column.items, values.values.slice(first, count), f"{name}.element")
        return Blocks(np.diff(offsets), items)
    keys = _piece(columns.BytesColumn(pa.string()), values.keys.slice(first, count), f"{name}.key")
    items = _piece(column.items, values.items.slice(first, count), f"{name}.value")
    return Blocks(np.diff(offsets), Sequence.of((keys, items), count))


def _union(column: columns.UnionColumn, values: pa.Array, name: str) -> Chosen:
    real = [n for n, branch in enumerate(column.branches) if not isinstance(branch, columns.NullColumn)]
    empty = [n for n in range(len(column.branches)) if n not in real]
    numbers = np.full(len(values), empty[0] if empty else -1, np.int64)
    if empty and values.null_count == len(values):
        return Chosen(numbers, ())
    if len(real) == 1 and not values.null_count:
        numbers[:] = real[0]
        return Chosen(numbers, ((slice(None), _piece(column.branches[real[0]], values, name)),))
    parts = [values] if len(real) == 1 else values.flatten()
    taken = np.zeros(len(values), np.int64)
    branches = []
    for number, part in zip(real, parts, strict=True):
        if part.null_count == len(part):
            continue
        valid = part.is_valid().to_numpy(zero_copy_only=False)
        where = np.flatnonzero(valid)
        numbers[where] = number
        taken += valid
        kept = part if len(where) == len(part) else part.filter(pa.array(valid))
        branches.append((where, _piece(column.branches[number], kept, name)))
    if (taken > 1).any():
        raise _cannot(name, "values for several branches of a union in one row")
    if (numbers < 0).any():
        raise _cannot(name, "null, which its Avro schema does not allow")
    return Chosen(numbers, tuple(branches))


# --- a few records, value by value


def _few_values(column: columns.AvroColumn, values: pa.Array, name: str) -> list[bytes]:
    """Return the bytes of each value of a column, which have its type. Raises `SchemaMismatchError`."""
    if not len(values):
        return []
    if isinstance(column, columns.UnionColumn):
        return _few_in_union(column, values, name)
    if isinstance(column, columns.NullColumn):
        return [b""] * len(values)
    if values.null_count:
        raise _cannot(name, "null, which its Avro schema does not allow")
    if isinstance(column, columns.RecordColumn):
        fields = zip(column.columns, values.flatten(), column.names, strict=True)
        return _joined([_few_values(each, part, f"{name}.{inner}") for each, part, inner in fields], len(values))
    if isinstance(column, columns.ArrayColumn):
        return _few_blocks(column, values, name)
    if isinstance(column, columns.NumberColumn):
        return [_varint(number) for number in _numbers(column, values, name).tolist()]
    if isinstance(column, columns.BytesColumn) and not pa.types.is_decimal(column.type):
        data, lengths = contents(values)
        whole = data.tobytes()
        ends = accumulate(lengths.tolist(), initial=0)
        return [_varint(end - begin) + whole[begin:end] for begin, end in pairwise(ends)]
    if isinstance(column, columns.BooleanColumn):
        return [_ONE_BYTE[value] for value in values.to_pylist()]
    return _cut(column, values, name)


def _joined(parts: list[list[bytes]], count: int) -> list[bytes]:
    """Return for each of ``count`` records its encoded fields, one after the other."""
    return [b"".join(fields) for fields in zip(*parts, strict=True)] if parts else [b""] * count


def _varint(number: int) -> bytes:
    """Return an int or a long: zigzag, then seven bits a byte, the lowest first."""
    coded = (number << 1) ^ (number >> 63)
    if coded < 0x80:
        return _ONE_BYTE[coded]
    found = bytearray()
    while coded >= 0x80:
        found.append(coded & 0x7F | 0x80)
        coded >>= 7
    found.append(coded)
    return bytes(found)


def _cut(column: columns.AvroColumn, values: pa.Array, name: str) -> list[bytes]:
    found = _plain(column, values, name)
    ends = np.cumsum(found.sizes)
    out = np.zeros(int(ends[-1]), np.uint8)
    found.write(out, ends - found.sizes)
    whole = out.tobytes()
    return [whole[begin:end] for begin, end in pairwise([0, *ends.tolist()])]


def _few_blocks(column: columns.ArrayColumn, values: pa.Array, name: str) -> list[bytes]:
    offsets = values.offsets.to_pylist()
    first, count = offsets[0], offsets[-1] - offsets[0]
    if column.is_map:
        keys = _few_values(columns.BytesColumn(pa.string()), values.keys.slice(first, count), f"{name}.key")
        items = _joined([keys, _few_values(column.items, values.items.slice(first, count), f"{name}.value")], count)
    else:
        items = _few_values(column.items, values.values.slice(first, count), f"{name}.element")
    return [
        b"".join((_varint(end - begin), *items[begin - first : end - first], b"\0")) if end > begin else b"\0"
        for begin, end in pairwise(offsets)
    ]


def _few_in_union(column: columns.UnionColumn, values: pa.Array, name: str) -> list[bytes]:
    real = [n for n, branch in enumerate(column.branches) if not isinstance(branch, columns.NullColumn)]
    empty = [n for n in range(len(column.branches)) if n not in real]
    if empty and values.null_count == len(values):
        return [_varint(empty[0])] * len(values)
    found: list[bytes | None] = [_varint(empty[0]) if empty else None] * len(values)
    taken: set[int] = set()
    for number, part in zip(real, [values] if len(real) == 1 else values.flatten(), strict=True):
        if part.null_count == len(part):
            continue
        valid = part.is_valid() if part.null_count else None
        where = [n for n, known in enumerate(valid.to_pylist()) if known] if valid is not None else [*range(len(part))]
        if not taken.isdisjoint(where):
            raise _cannot(name, "values for several branches of a union in one row")
        taken.update(where)
        head = _varint(number)
        there = part
        if valid is not None:  # values of one kind are mostly neighbours, and filters of deep structs are slow
            near = where[-1] - where[0] < len(where)
            there = part.slice(where[0], len(where)) if near else part.filter(valid)
        inside = _few_values(column.branches[number], there, name)
        for place, piece in zip(where, inside, strict=True):
            found[place] = head + piece
    if None in found:
        raise _cannot(name, "null, which its Avro schema does not allow")
    return [piece for piece in found if piece is not None]


# --- both


def _converted(values: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    wide = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    if kind in (values.type, wide.get(values.type)):
        return values
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _cannot(name, f"{values.type}, which does not become {kind}: {error!s:.200}") from error


def _one(column: Any) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _cannot(name: str, what: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"Column {name} has {what}", hint="Change the rows to fit the schema that they are written with."
    )
