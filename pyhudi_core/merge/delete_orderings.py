"""The ordering values of deletes from delete blocks, in the types of the ordering columns.

Specification, "Log Format" and "Merge Modes". A delete block stores the Java class of each ordering value. If the class does not fit the ordering
column, the values cannot be compared, and the delete counts as a delete without an ordering value. The same is true for a value that the column
cannot hold, and for a single int of 0, which writers store for deletes without an ordering value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.formats.log.delete_columns import DeleteColumns, Wrapped
from pyhudi_core.merge.law import Ints, Mask

_CAST_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
_INTEGER = "IntWrapper"


def comparable(deletes: DeleteColumns, columns: Sequence[pa.DataType]) -> tuple[list[pa.Array], Mask]:
    """Return the ordering values for columns of these types, and a mask of the deletes that can be compared with rows. The other deletes win
    outright.

    The values of deletes that win outright are null. Missing values of deletes with several ordering values are null, too.
    """
    count = len(deletes)
    compared = deletes.counts == len(columns) if columns else np.zeros(count, bool)
    if len(columns) == 1:
        for part in deletes.single:
            compared[part.places] = True
    found = []
    for number, column in enumerate(columns):
        parts = deletes.several[number] if number < len(deletes.several) else ()
        if len(columns) == 1:
            parts += deletes.single
        found.append([_as_column(part, column, compared, len(columns) == 1) for part in parts])
    return [_joined(parts, column, compared) for parts, column in zip(found, columns, strict=True)], compared


def _as_column(part: Wrapped, column: pa.DataType, compared: Mask, only: bool) -> tuple[Ints, pa.Array]:
    """Return the positions and the values of the deletes in a wrapper whose value the column can store. The other deletes are not compared.

    ``only``: the table has no other ordering column.
    """
    if part.kind not in _classes_of(column):
        compared[part.places] = False
        return np.zeros(0, np.int64), pa.array([], column)
    values, fits = _cast(part.values, column)
    if only and part.kind == _INTEGER:
        fits &= np.asarray(pc.not_equal(part.values, 0), bool)
    if fits.all():
        return part.places, values
    compared[part.places[~fits]] = False
    return part.places[fits], values.filter(pa.array(fits))


def _cast(values: pa.Array, column: pa.DataType) -> tuple[pa.Array, Mask]:
    """Return the values in the column's type, and a mask of the values that the column can store without loss."""
    try:
        return values.cast(column), np.ones(len(values), bool)
    except _CAST_ERRORS:
        pass
    try:
        whole = column.precision - column.scale if pa.types.is_decimal(column) else 0
        if pa.types.is_decimal(column) and whole < values.type.precision - values.type.scale:
            # An unsafe cast drops digits behind the point; the cast back shows this loss. The cast back does not show if there are too many digits
            # before the point.
            limit = pa.scalar(Decimal(10) ** whole)
            values = pc.if_else(pc.less(pc.abs(values), limit), values, pa.scalar(None, values.type))
        found = values.cast(column, safe=False)
        return found, np.asarray(pc.fill_null(pc.equal(found.cast(values.type, safe=False), values), False), bool)
    except _CAST_ERRORS:
        return pa.nulls(len(values), column), np.zeros(len(values), bool)


def _joined(parts: Iterable[tuple[Ints, pa.Array]], column: pa.DataType, compared: Mask) -> pa.Array:
    """Return one value for each delete; null for a delete without a value, and for a delete that is not compared."""
    found = list(parts)
    if len(found) == 1 and len(found[0][0]) == len(compared) and compared.all():
        return found[0][1]
    at = np.full(len(compared), -1, np.int64)
    first = 0
    for places, values in found:
        at[places] = np.arange(first, first + len(values))
        first += len(values)
    whole = pa.concat_arrays([values for _, values in found]) if found else pa.array([], column)
    return whole.take(pa.array(at, mask=(at < 0) | ~compared))


def _classes_of(column: pa.DataType) -> frozenset[str]:
    """Return the wrappers that Java writers use for values of a column."""
    types = pa.types
    if types.is_int32(column):
        return frozenset({_INTEGER})
    if types.is_int64(column):
        return frozenset({"LongWrapper"})
    if types.is_timestamp(column):
        return frozenset({"LongWrapper", "TimestampMicrosWrapper"})
    if types.is_date32(column):
        return frozenset({"DateWrapper", "LocalDateWrapper", _INTEGER})
    if types.is_decimal(column):
        return frozenset({"DecimalWrapper"})
    if types.is_string(column):
        return frozenset({"StringWrapper"})
    named = {pa.float32(): "FloatWrapper", pa.float64(): "DoubleWrapper", pa.bool_(): "BooleanWrapper"}
    return frozenset({named[column]}) if column in named else frozenset()
