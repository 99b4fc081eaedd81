"""Convert Avro records to Arrow columns, without a Python object for each row.

Avro 1.11 specification, "Binary Encoding"; used for the contents of log blocks and HFiles, where records follow one schema. A schema is compiled to
a tree of column readers; each reader reads its value of all records at once (``cursor``), so the work in Python grows with the columns and the
longest array. Types become the types of the table's logical schema (``model.schema_avro``); a union of several types becomes a struct with one field
for each branch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.formats.avro.cursor import ColumnsRefusedError, Cursor, Ints, corrupt
from pyhudi_core.formats.avro.decimals import decimals_of_bytes, decimals_of_fixed
from pyhudi_core.formats.avro.schema import different

_MAX_DEPTH = 32
_MAX_TYPES = 20_000
_MAX_ROUNDS = 10_000
_MOST_ITEMS = 1 << 18
"""Items that are read at once."""
_MOST_LONG = 2**63 - 1
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_TO_MICROS = {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}


class AvroColumn(Protocol):
    """Reads one value of every record."""

    @property
    def type(self) -> pa.DataType: ...

    def read(self, cursor: Cursor) -> pa.Array:
        """Return one value for each position, and move each position behind its value. Raises `CorruptAvroError`."""
        ...


def decode_records(schema: str, buffer: bytes | pa.Buffer, starts: Ints, ends: Ints) -> pa.RecordBatch:
    """Return the records that lie between the starts and the ends, in the order of the buffer.

    Raises `CorruptAvroError` if the bytes are not records of the schema, `ColumnsRefusedError` if arrays are too long for this reader.
    """
    root = compile_schema(schema)
    cursor = Cursor.over(buffer, starts, ends)
    found = root.read(cursor)
    if (cursor.at != ends).any():
        raise corrupt("a record has bytes left over")
    return pa.RecordBatch.from_struct_array(found)


@lru_cache(maxsize=64)
def compile_schema(text: str) -> RecordColumn:
    """Return the reader of a record schema, given as JSON text. Raises `CorruptAvroError` if the text is not a record schema."""
    try:
        root = _Compiler().column(json.loads(text), "", 0)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise CorruptAvroError(
            f"Not an Avro schema: {error!s:.200}", hint="Restore the file from a copy, or roll its instant back."
        ) from error
    if not isinstance(root, RecordColumn):
        raise CorruptAvroError("The schema is not a record", hint="Restore the file from a copy.")
    return root


@dataclass(frozen=True, slots=True)
class NullColumn:
    """Nulls, which take no bytes."""

    type: pa.DataType = pa.null()

    def read(self, cursor: Cursor) -> pa.Array:
        return pa.nulls(len(cursor))


@dataclass(frozen=True, slots=True)
class BooleanColumn:
    """One byte, 0 or 1."""

    type: pa.DataType = pa.bool_()

    def read(self, cursor: Cursor) -> pa.Array:
        found = cursor.fixed(1)[:, 0]
        if (found > 1).any():
            raise corrupt("a boolean is neither 0 nor 1")
        return pa.array(found.astype(bool))


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """An int or a long; ``multiply`` and ``divide`` convert times to microseconds."""

    type: pa.DataType
    narrow: bool = False
    multiply: int = 1
    divide: int = 1

    def read(self, cursor: Cursor) -> pa.Array:
        found = cursor.longs()
        if self.narrow and (found != found.astype(np.int32)).any():
            raise corrupt("an int has more than 32 bits")
        limit = _MOST_LONG // self.multiply
        if self.multiply > 1 and ((found > limit) | (found < -limit)).any():
            raise corrupt("a time is too far away for microseconds")
        found = found * self.multiply // self.divide
        if pa.types.is_date32(self.type):
            return pa.array(found.astype(np.int32)).cast(self.type)
        return pa.array(found.astype(np.int32)) if self.type == pa.int32() else pa.array(found).cast(self.type)


@dataclass(frozen=True, slots=True)
class RealColumn:
    """A float or double, little-endian."""

    type: pa.DataType

    def read(self, cursor: Cursor) -> pa.Array:
        size, kind = (4, "<f4") if self.type == pa.float32() else (8, "<f8")
        return pa.array(np.ascontiguousarray(cursor.fixed(size)).view(kind)[:, 0])


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """Bytes, strings, and decimals that are stored as bytes."""

    type: pa.DataType

    def read(self, cursor: Cursor) -> pa.Array:
        found = cursor.bytes()
        if pa.types.is_decimal(self.type):
            return decimals_of_bytes(found, self.type)
        if self.type == pa.binary():
            return found
        try:
            return found.cast(self.type)
        except pa.ArrowInvalid:
            raise corrupt("a string is not UTF-8") from None


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """Values of equal length; decimals if the schema says so."""

    type: pa.DataType
    size: int

    def read(self, cursor: Cursor) -> pa.Array:
        found = np.ascontiguousarray(cursor.fixed(self.size))
        if pa.types.is_decimal(self.type):
            return decimals_of_fixed(found, self.type)
        whole = pa.FixedSizeBinaryArray.from_buffers(pa.binary(self.size), len(found), [None, pa.py_buffer(found)])
        return whole.cast(pa.binary())


@dataclass(frozen=True, slots=True)
class EnumColumn:
    """The number of a symbol, read as its text."""

    symbols: tuple[str, ...]
    type: pa.DataType = pa.string()

    def read(self, cursor: Cursor) -> pa.Array:
        found = cursor.longs()
        if ((found < 0) | (found >= len(self.symbols))).any():
            raise corrupt("an enum has no such symbol")
        return pa.array(self.symbols, pa.string()).take(pa.array(found))


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """The fields of a record, one after the other."""

    names: tuple[str, ...]
    columns: tuple[AvroColumn, ...]
    type: pa.DataType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fields = [pa.field(n, c.type) for n, c in zip(self.names, self.columns, strict=True)]
        object.__setattr__(self, "type", pa.struct(fields))

    def read(self, cursor: Cursor) -> pa.Array:
        found = [column.read(cursor) for column in self.columns]
        return pa.StructArray.from_arrays(found, fields=list(self.type))


@dataclass(frozen=True, slots=True)
class UnionColumn:
    """A union. ``branches``: the branches by number; one of them may be null. Values of a single other branch stay as they are, values of several
    become a struct."""

    branches: tuple[AvroColumn, ...]
    names: tuple[str, ...]
    type: pa.DataType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        real = self._real
        fields = [pa.field(self.names[n], self.branches[n].type) for n in real]
        object.__setattr__(self, "type", fields[0].type if len(real) == 1 else pa.struct(fields))

    @property
    def _real(self) -> list[int]:
        return [n for n, branch in enumerate(self.branches) if not isinstance(branch, NullColumn)]

    def read(self, cursor: Cursor) -> pa.Array:
        chosen = cursor.longs()
        if ((chosen < 0) | (chosen >= len(self.branches))).any():
            raise corrupt("a union has no such branch")
        read = {n: self._read_branch(cursor, chosen, n) for n in self._real}
        if len(read) == 1:
            return next(iter(read.values()))
        absent = pa.array(~np.isin(chosen, self._real))
        return pa.StructArray.from_arrays(list(read.values()), fields=list(self.type), mask=absent)

    def _read_branch(self, cursor: Cursor, chosen: Ints, number: int) -> pa.Array:
        which = np.flatnonzero(chosen == number)
        if len(which) == len(chosen):
            return self.branches[number].read(cursor)
        part = cursor.some(which)
        values = self.branches[number].read(part)
        cursor.put_back(which, part)
        return spread(values, which, len(chosen))


@dataclass(frozen=True, slots=True)
class ArrayColumn:
    """An array; with ``keys`` a map."""

    items: AvroColumn
    is_map: bool = False
    type: pa.DataType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        items = self.items.type
        object.__setattr__(self, "type", pa.map_(pa.string(), items) if self.is_map else pa.list_(items))

    def read(self, cursor: Cursor) -> pa.Array:
        rounds: list[tuple[Ints, list[pa.Array]]] = []
        left = np.zeros(len(cursor), np.int64)
        open_ = np.arange(len(cursor))
        while len(open_):
            open_ = self._next_blocks(cursor, left, open_)
            if not len(open_):
                break
            if len(rounds) == _MAX_ROUNDS:
                raise ColumnsRefusedError(f"an array has more than {_MAX_ROUNDS} items")
            cursor.rounds.take()
            part = cursor.some(open_)
            width = 0 if self.is_map else _width(self.items)
            if width:
                counts = np.minimum(left[open_], max(_MOST_ITEMS // len(open_), 1))
                rounds.append((np.repeat(open_, counts), [self._read_many(part, counts, width)]))
                left[open_] -= counts
            else:
                values = [BytesColumn(pa.string()).read(part)] if self.is_map else []
                rounds.append((open_, [*values, self.items.read(part)]))
                left[open_] -= 1
            cursor.put_back(open_, part)
        return self._assemble(rounds, len(cursor))

    def _read_many(self, cursor: Cursor, counts: Ints, width: int) -> pa.Array:
        """Read so many items at each position. They lie one behind the other, so their places are known before they are read."""
        ends = np.cumsum(counts)
        row = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(row)) - (ends - counts)[row]
        starts = cursor.at[row] + number * width if width > 0 else cursor.numbers(counts)
        items = Cursor(cursor.data, starts, cursor.ends[row], cursor.rounds)
        found = self.items.read(items)
        cursor.at = items.at[ends - 1]
        return found

    @staticmethod
    def _next_blocks(cursor: Cursor, left: Ints, open_: Ints) -> Ints:
        """Read the count of the next block for rows whose block has ended; return the rows with items left."""
        ended = open_[left[open_] == 0]
        if len(ended):
            part = cursor.some(ended)
            counts = part.longs()
            sized = np.flatnonzero(counts < 0)
            if len(sized):
                inner = part.some(sized)
                inner.lengths()
                part.put_back(sized, inner)
            counts = np.abs(counts)
            if (counts > part.ends - part.at).any():
                raise corrupt("a block has more items than bytes")
            cursor.put_back(ended, part)
            left[ended] = counts
        return open_[left[open_] > 0]

    def _assemble(self, rounds: Sequence[tuple[Ints, list[pa.Array]]], rows: int) -> pa.Array:
        """Join the items of all rounds, and sort them by row; the sort is stable."""
        row_of = np.concatenate([which for which, _ in rounds]) if rounds else np.array([], np.int64)
        is_sorted = bool((row_of[1:] >= row_of[:-1]).all())
        order = None if is_sorted else pa.array(np.argsort(row_of, kind="stable"))
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(np.bincount(row_of, minlength=rows), out=offsets[1:])
        kinds = [pa.string(), self.items.type] if self.is_map else [self.items.type]
        columns = [
            pa.concat_arrays([values[n] for _, values in rounds]) if rounds else pa.array([], kind)
            for n, kind in enumerate(kinds)
        ]
        if order is not None:
            columns = [column.take(order) for column in columns]
        places = pa.array(offsets.astype(np.int32))
        if self.is_map:
            return pa.MapArray.from_arrays(places, *columns)
        return pa.ListArray.from_arrays(places, columns[0])


def _width(column: AvroColumn) -> int:
    """Return the number of bytes of each value; -1 if a value ends at the first byte below 0x80, 0 if its end is known only when it is read."""
    match column:
        case BooleanColumn():
            return 1
        case RealColumn():
            return column.type.byte_width
        case FixedColumn():
            return column.size
        case NumberColumn() | EnumColumn():
            return -1
    return 0


def spread(values: pa.Array, which: Ints, length: int) -> pa.Array:
    """Return an array of ``length`` with the values at these positions, and nulls elsewhere."""
    places = np.zeros(length, np.int64)
    present = np.zeros(length, bool)
    places[which], present[which] = np.arange(len(which)), True
    return values.take(pa.array(places, mask=~present))


class _Compiler:
    """One pass over one schema; a named type may be used again after its definition."""

    def __init__(self) -> None:
        self._named: dict[str, AvroColumn] = {}
        self._count = 0

    def column(self, raw: Any, namespace: str, depth: int) -> AvroColumn:
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_TYPES:
            raise ValueError("it is nested too deeply or has too many types")
        if isinstance(raw, list):
            if any(isinstance(branch, list) for branch in raw):
                raise ValueError("a union lies directly in another")
            branches = tuple(self.column(branch, namespace, depth + 1) for branch in raw)
            return UnionColumn(branches, different([_branch_name(branch) for branch in raw]))
        if isinstance(raw, str):
            return _primitive(raw, {}) if raw in _PRIMITIVES else self._reference(raw, namespace)
        kind = raw["type"]
        if kind in ("record", "fixed", "enum"):
            return self._defined(raw, kind, namespace, depth)
        if kind == "array":
            return ArrayColumn(self._item(raw["items"], namespace, depth))
        if kind == "map":
            return ArrayColumn(self._item(raw["values"], namespace, depth), is_map=True)
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return _primitive(kind, raw)
        return self.column(kind, namespace, depth + 1)

    def _item(self, raw: Any, namespace: str, depth: int) -> AvroColumn:
        if not _takes_bytes(found := self.column(raw, namespace, depth + 1)):
            raise ValueError("items without bytes")
        return found

    def _defined(self, raw: dict[str, Any], kind: str, namespace: str, depth: int) -> AvroColumn:
        name, own = str(raw["name"]), str(raw.get("namespace", namespace))
        full = name if "." in name or not own else f"{own}.{name}"
        if kind == "record":
            inner = full.rpartition(".")[0]
            if depth and not raw["fields"]:
                raise ValueError("a record without fields")
            fields = [(str(field["name"]), self.column(field["type"], inner, depth + 1)) for field in raw["fields"]]
            found: AvroColumn = RecordColumn(different([n for n, _ in fields]), tuple(c for _, c in fields))
        elif kind == "fixed":
            size = int(raw["size"])
            if not 0 < size <= 1 << 20:
                raise ValueError(f"a fixed of {size} bytes")
            found = FixedColumn(_bytes_type(raw), size)
        else:
            found = EnumColumn(different(list(map(str, raw["symbols"]))))
        self._named[full] = found
        return found

    def _reference(self, name: str, namespace: str) -> AvroColumn:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise ValueError(f"type {name:.100} is not defined before it is used")
        return found


def _takes_bytes(column: AvroColumn) -> bool:
    """Say whether each value takes at least one byte, so that the bytes bound the number of values."""
    inner = column.columns if isinstance(column, RecordColumn) else None
    return not isinstance(column, NullColumn) if inner is None else any(map(_takes_bytes, inner))


def _branch_name(raw: Any) -> str:
    return raw.rpartition(".")[2] if isinstance(raw, str) else str(raw.get("name") or raw.get("type"))


def _primitive(kind: str, raw: dict[str, Any]) -> AvroColumn:
    if kind == "null":
        return NullColumn()
    if kind == "boolean":
        return BooleanColumn()
    if kind in ("float", "double"):
        return RealColumn(pa.float32() if kind == "float" else pa.float64())
    if kind in ("bytes", "string"):
        return BytesColumn(pa.string() if kind == "string" else _bytes_type(raw))
    return _number(kind, str(raw.get("logicalType") or ""))


def _number(kind: str, logical: str) -> AvroColumn:
    narrow = kind == "int"
    if logical == "date" and narrow:
        return NumberColumn(pa.date32(), narrow)
    name, _, unit = logical.rpartition("-")
    if unit in _TO_MICROS and name in ("time", "timestamp", "local-timestamp"):
        zone = "UTC" if name == "timestamp" else None
        made = pa.time64("us") if name == "time" else pa.timestamp("us", zone)
        return NumberColumn(made, narrow, *_TO_MICROS[unit])
    return NumberColumn(pa.int32() if narrow else pa.int64(), narrow)


def _bytes_type(raw: dict[str, Any]) -> pa.DataType:
    if raw.get("logicalType") != "decimal":
        return pa.binary()
    return pa.decimal128(int(raw["precision"]), int(raw.get("scale", 0)))
