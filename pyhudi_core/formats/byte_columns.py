"""Bytes of many values at once, shared by the column encoders: take them from Arrow's binary columns, and copy them into a buffer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


def contents(values: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of texts or binary values without nulls, concatenated without gaps, and the length of each."""
    if not len(values):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64)
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, places, data = values.buffers()
    offsets = np.frombuffer(places, np.int64 if wide else np.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]], np.diff(offsets)


def big_endian(numbers: Ints, kind: str) -> Bytes:
    """Return numbers as rows of bytes; ``kind``: a NumPy type such as ``">i4"``."""
    found = numbers.astype(kind)
    return found.view(np.uint8).reshape(len(numbers), found.itemsize)


def put_rows(out: Bytes, at: Ints, rows: Bytes) -> None:
    """Write values of equal length at their positions; each is a row of the matrix."""
    out[at[:, None] + np.arange(rows.shape[1])] = rows


def put_texts(out: Bytes, at: Ints, data: Bytes, lengths: Ints) -> None:
    """Write values of different lengths, concatenated in ``data``, at their positions."""
    before = np.cumsum(lengths) - lengths
    out[np.repeat(at - before, lengths) + np.arange(len(data))] = data
