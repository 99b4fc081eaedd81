"""Convert decimals between Avro (two's complement, big-endian) and Arrow (16 bytes, little-endian)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.formats.avro.cursor import corrupt

_WIDTH = 16


def decimals_of_fixed(values: npt.NDArray[np.uint8], kind: pa.DataType) -> pa.Array:
    """Convert rows of equal length. Raises `CorruptAvroError` for numbers with more digits than the type has."""
    rows, size = values.shape
    negative = values[:, :1] >= 0x80 if size else np.zeros((rows, 1), bool)
    fill = np.where(negative, 0xFF, 0).astype(np.uint8)
    if size > _WIDTH:
        if (values[:, :-_WIDTH] != fill).any():
            raise corrupt("a decimal has more than 128 bits")
        values = values[:, -_WIDTH:]
    wide = np.broadcast_to(fill, (rows, _WIDTH)).copy()
    if values.shape[1]:
        wide[:, _WIDTH - values.shape[1] :] = values
    little = np.ascontiguousarray(wide[:, ::-1])
    found = pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(little)])
    try:
        found.validate(full=True)
    except pa.ArrowInvalid:
        raise corrupt(f"a decimal has more digits than {kind}") from None
    return found


def decimals_of_bytes(values: pa.BinaryArray, kind: pa.DataType) -> pa.Array:
    """Convert decimals of different byte lengths, in one pass for each length; there are few lengths."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    sizes = np.diff(offsets)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    wide = np.zeros((len(values), _WIDTH), np.uint8)
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        rows = data[offsets[which][:, None] + np.arange(size)]
        part = decimals_of_fixed(rows, kind)
        wide[which] = np.frombuffer(part.buffers()[1], np.uint8).reshape(-1, _WIDTH)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(wide)])


def bytes_of_decimals(values: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return decimals without nulls as big-endian rows of 16 bytes, and for each row how many bytes at its end suffice for the number."""
    little = np.frombuffer(values.buffers()[1] or b"", np.uint8).reshape(-1, _WIDTH)
    wide = np.ascontiguousarray(little[values.offset : values.offset + len(values), ::-1])
    fill = np.where(wide[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte can be dropped if it and the highest bit of the next byte only repeat the sign.
    repeats = (wide[:, :-1] == fill) & ((wide[:, 1:] >= 0x80) == (fill == 0xFF))
    return wide, _WIDTH - np.logical_and.accumulate(repeats, axis=1).sum(axis=1, dtype=np.int64)


def shortest_bytes(values: pa.Array) -> pa.BinaryArray:
    """Return decimals as big-endian values of the smallest number of bytes. Nulls stay."""
    wide, sizes = bytes_of_decimals(values.drop_null())
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    ends = wide[np.arange(_WIDTH) >= _WIDTH - sizes[:, None]]
    filled = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
    found = pa.BinaryArray.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(ends)])
    return found.take(pa.array(np.cumsum(filled) - 1, mask=~filled))
