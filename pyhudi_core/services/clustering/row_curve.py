"""Compute the position of rows on a curve through several columns: Z-order and Hilbert, as one integer for each row (Hudi's layouts ZORDER and
HILBERT).

The values of each column first become small numbers. Each column is divided into parts with about equally many rows; a value's number is the number
of its part. So all columns have the same weight, independent of their values. The bounds of the parts come from a sample of the rows (`sample`,
`bounds_of`), as in Hudi's build method SAMPLE. The position on the curve only determines the order of rows; no query result depends on it.

All functions work on complete columns in NumPy; their loops run over columns and bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.model.key_text import without_dictionary

Ints = npt.NDArray[np.uint64]

_BITS = 62
"""The number of bits of a position; less than 64, so that it is a positive int64."""
_MOST_BITS = 12
"""The maximum number of bits of a column: 4096 parts are enough for the files of a table."""
_SAMPLED = 20_000
"""The maximum number of sampled rows of a slice."""
_WORD = 8


@dataclass(frozen=True, slots=True)
class CurveBounds:
    """The lower bounds of the parts of a column; for texts, also the common prefix of all sampled values."""

    parts: npt.NDArray[np.generic]
    prefix: int = 0


def sample(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return some evenly spread rows, each with the number of rows that it represents (column ``weight``)."""
    step = max(1, -(-len(rows) // _SAMPLED))
    taken = rows.select(list(columns)).take(pa.array(np.arange(0, len(rows), step)))
    return taken.append_column("weight", pa.array(np.full(len(taken), step, np.int64)))


def bounds_of(sampled: pa.Table, columns: Sequence[str]) -> tuple[CurveBounds, ...]:
    """Return the parts of each column, from the samples of all slices."""
    bits = bits_of(len(columns))
    weights = sampled.column("weight").to_numpy()
    found: list[CurveBounds] = []
    for name in columns:
        column = sampled.column(name)
        prefix = _common_prefix(column)
        values = _numbers(column, prefix)
        order = np.argsort(values, kind="stable")
        shares = np.cumsum(weights[order])
        wanted = np.arange(1, 1 << bits) * (shares[-1] / (1 << bits)) if len(shares) else np.array([])
        found.append(CurveBounds(np.unique(values[order][np.searchsorted(shares, wanted)]), prefix))
    return tuple(found)


def bits_of(columns: int) -> int:
    """Return the number of bits per column for this number of columns."""
    return max(1, min(_MOST_BITS, _BITS // max(1, columns)))


def places(
    rows: pa.Table | pa.RecordBatch, columns: Sequence[str], bounds: Sequence[CurveBounds], layout: str
) -> pa.Array:
    """Return the position of each row on the curve ``layout`` (ZORDER or HILBERT), as int64. A null is in the first part of its column."""
    bits = bits_of(len(columns))
    axes: list[Ints] = []
    for name, bound in zip(columns, bounds, strict=True):
        part = np.searchsorted(bound.parts, _numbers(rows.column(name), bound.prefix), side="right").astype(np.uint64)
        # If a few values fill many parts, the remaining parts are spread over all bits; otherwise the highest bits of the column would be zero.
        scale = (1 << bits) // (len(bound.parts) + 1)
        axes.append(part * np.uint64(max(1, scale)))
    if layout == "HILBERT":
        axes = _hilbert_axes(axes, bits)
    return pa.array(_interleaved(axes, bits).astype(np.int64))


def _interleaved(axes: Sequence[Ints], bits: int) -> Ints:
    """Interleave the bits of all axes, the highest bits first."""
    found = np.zeros_like(axes[0])
    one = np.uint64(1)
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            found = (found << one) | ((axis >> np.uint64(bit)) & one)
    return found


def _hilbert_axes(axes: Sequence[Ints], bits: int) -> list[Ints]:
    """Return the transposed Hilbert index of points. Its interleaved bits are the position on the curve (J. Skilling, 2004)."""
    found = [axis.copy() for axis in axes]
    one = np.uint64(1)
    for bit in range(bits - 1, 0, -1):
        high = one << np.uint64(bit)
        low = high - one
        for number in range(len(found)):
            is_set = (found[number] & high) != 0
            swapped = np.where(is_set, np.uint64(0), (found[0] ^ found[number]) & low)
            found[0] = np.where(is_set, found[0] ^ low, found[0] ^ swapped)
            found[number] = found[number] ^ swapped if number else found[0]
    for number in range(1, len(found)):
        found[number] ^= found[number - 1]
    turned = np.zeros_like(found[0])
    for bit in range(bits - 1, 0, -1):
        high = one << np.uint64(bit)
        turned = np.where((found[-1] & high) != 0, turned ^ (high - one), turned)
    return [axis ^ turned for axis in found]


def _common_prefix(column: pa.ChunkedArray) -> int:
    """Return the number of common leading bytes of all texts of the column; 0 for other columns."""
    if not _is_text(column.type) or column.null_count == len(column):
        return 0
    found = pc.min_max(column.cast(pa.large_binary()))
    least, greatest = found["min"].as_py(), found["max"].as_py()
    differ = (at for at, (one, other) in enumerate(zip(least, greatest, strict=False)) if one != other)
    return next(differ, min(len(least), len(greatest)))


def _numbers(column: pa.Array | pa.ChunkedArray, prefix: int) -> npt.NDArray[np.generic]:
    """Return numbers in the order of the values, with nulls before all others. Values close to each other may have the same number."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    whole = without_dictionary(whole)
    if _is_text(whole.type):
        return _words(whole, prefix)
    nulls = whole.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_temporal(whole.type):
        whole = whole.cast(pa.int32() if whole.type.bit_width == pa.int32().bit_width else pa.int64())
    values: npt.NDArray[np.float64] = (
        whole.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    )
    values[np.isnan(values)] = np.inf
    values[nulls] = -np.inf
    return values


def _words(texts: pa.Array, prefix: int) -> npt.NDArray[np.generic]:
    """Return the eight bytes after the common prefix, as integers; 0 for nulls."""
    raw = texts.cast(pa.large_binary())
    _, offsets, data = raw.buffers()
    bounds = np.frombuffer(offsets, np.int64)[raw.offset : raw.offset + len(raw) + 1]
    held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    starts, ends = bounds[:-1] + prefix, bounds[1:]
    found = np.zeros(len(raw), np.uint64)
    for byte in range(_WORD):
        at = starts + byte
        value = np.where(at < ends, held[np.minimum(at, len(held) - 1)], 0)
        found = (found << np.uint64(8)) | value.astype(np.uint64)
    found[raw.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
