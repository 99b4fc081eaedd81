"""Encode the deletes of a log file from Arrow columns, without a Python object for each row.

Specification, "Log Format"; inner version 3, one Avro record for each block. An ordering value is in a wrapper that names its Java class; readers
compare it with the ordering column, so the class is the class that Hudi's readers use for a value of that column.

Invariant: all deletes of one block have the same wrapper, or none has one. Some readers refuse a mixture.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.formats.avro.columns import compile_schema
from pyhudi_core.formats.avro.encoding import encode_records
from pyhudi_core.formats.log.blocks import CONTENT_VERSION
from pyhudi_core.formats.log.contents import SEVERAL
from pyhudi_core.model.delete_records import DELETE_LIST_SCHEMA

_SCHEMA = json.dumps(DELETE_LIST_SCHEMA)
_LIST = "deleteRecordList"
_HEAD = struct.Struct(">ii")
_DECIMAL = pa.decimal128(30, 15)
_WRAPPERS: dict[pa.DataType, tuple[str, pa.DataType]] = {
    pa.bool_(): ("BooleanWrapper", pa.bool_()),
    pa.int32(): ("IntWrapper", pa.int32()),
    pa.int64(): ("LongWrapper", pa.int64()),
    pa.float32(): ("FloatWrapper", pa.float32()),
    pa.float64(): ("DoubleWrapper", pa.float64()),
    pa.binary(): ("BytesWrapper", pa.binary()),
    pa.string(): ("StringWrapper", pa.string()),
    pa.date32(): ("DateWrapper", pa.date32()),
    # For a time, Hudi's readers have the stored number, and no time.
    pa.time64("us"): ("LongWrapper", pa.int64()),
    pa.timestamp("us"): ("LongWrapper", pa.int64()),
    pa.timestamp("us", "UTC"): ("LongWrapper", pa.int64()),
}


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deleted keys of one file group.

    Attributes:
        keys: record keys.
        partition: the partition path of all keys.
        orderings: the ordering values, one column for each ordering field; no column in tables without ordering.
        positions: the positions of the rows in the base file; None unless all positions are known.
    """

    keys: pa.Array | pa.ChunkedArray
    partition: str
    orderings: pa.Table
    positions: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def homogeneous(self) -> Iterator[Deletes]:
        """Yield parts in which all deletes have an ordering value, or none has; in the order of positions, if known."""
        whole = self._sorted()
        none = _has_none(whole.orderings, len(whole))
        for chosen in (~none, none):
            if chosen.all():
                yield whole
            elif chosen.any():
                yield whole._only(pa.array(chosen))

    def encode(self) -> bytes:
        """Return the content of a delete block; the deletes are one part of `homogeneous`. Raises `SchemaMismatchError`."""
        kind = compile_schema(_SCHEMA).type.field(_LIST).type
        count = len(self)
        names = ("recordKey", "partitionPath", "orderingVal")
        columns = [
            _whole(self.keys),
            pa.repeat(self.partition, count),
            _wrapped(self.orderings, count, kind.value_type),
        ]
        items = pa.StructArray.from_arrays(columns, fields=[kind.value_type.field(name) for name in names])
        listed = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), items)
        data = encode_records(_SCHEMA, pa.table({_LIST: listed})).buffer.to_pybytes()
        return _HEAD.pack(CONTENT_VERSION, len(data)) + data

    def _sorted(self) -> Deletes:
        if self.positions is None:
            return self
        order = pc.sort_indices(self.positions)
        return Deletes(self.keys.take(order), self.partition, _taken(self.orderings, order), self.positions.take(order))

    def _only(self, mask: pa.Array) -> Deletes:
        positions = None if self.positions is None else self.positions.filter(mask)
        orderings = self.orderings.filter(mask) if self.orderings.num_columns else self.orderings
        return Deletes(self.keys.filter(mask), self.partition, orderings, positions)


def _taken(table: pa.Table, order: pa.Array) -> pa.Table:
    return table.take(order) if table.num_columns else table


def _has_none(orderings: pa.Table, count: int) -> np.ndarray:
    """Say which deletes have no ordering value at all."""
    none = np.full(count, bool(orderings.num_columns))
    for column in orderings.columns:
        none &= pc.is_null(column).to_numpy()
    return none


def _wrapped(orderings: pa.Table, count: int, record: pa.StructType) -> pa.Array:
    """Return the ordering value of each delete in its wrapper. Tables without ordering have an int of 0 there, as Hudi writes it."""
    union = record.field("orderingVal").type
    if not orderings.num_columns:
        return _union(pa.array(np.zeros(count, np.int32)), union)
    if orderings.num_columns == 1:
        return _union(_whole(orderings.column(0)), union)
    items = union.field(SEVERAL).type.field("wrappedValues").type
    parts = [_union(_whole(column), items.value_type) for column in orderings.columns]
    order = np.arange(count * len(parts)).reshape(len(parts), count).T.ravel()
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * len(parts))
    values = pa.ListArray.from_arrays(offsets, pa.concat_arrays(parts).take(pa.array(order)))
    wrapper = pa.StructArray.from_arrays([values.cast(items)], fields=list(union.field(SEVERAL).type))
    return _branch(SEVERAL, wrapper, union)


def _union(values: pa.Array, union: pa.StructType) -> pa.Array:
    """Return the values as a union, in the branch for their Java class."""
    kind = values.type
    name, stored = ("DecimalWrapper", _DECIMAL) if pa.types.is_decimal(kind) else _WRAPPERS.get(kind, ("", None))
    if stored is None:
        raise SchemaMismatchError(
            f"An ordering column of {kind} has no place in a log of deletes", hint="Choose another ordering column."
        )
    try:
        found = values if kind == stored else values.cast(stored)
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"An ordering value of {kind} does not fit into the logs of Hudi, which have {stored}: {error!s:.200}",
            hint="Use smaller values in the ordering column.",
        ) from error
    mask = values.is_null() if values.null_count else None
    wrapper = pa.StructArray.from_arrays([found], fields=list(union.field(name).type), mask=mask)
    return _branch(name, wrapper, union)


def _branch(name: str, wrapper: pa.Array, union: pa.StructType) -> pa.Array:
    fields = [wrapper if field.name == name else pa.nulls(len(wrapper), field.type) for field in union]
    mask = wrapper.is_null() if wrapper.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(union), mask=mask)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
