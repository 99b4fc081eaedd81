"""Encode the entries of data blocks, many at once, from columns of sorted keys and their values.

HFile version 3: lengths of key and value, the key (its own length, the row, and a tail that is equal for all), the value, and one 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DataError
from pyhudi_core.formats.byte_columns import Bytes, Ints, big_endian, contents
from pyhudi_core.model.record_key import LONGEST_INDEXED

KEY_TAIL = struct.pack(">bqb", 0, 0x7FFFFFFFFFFFFFFF, 4)
KEY_OVERHEAD = 2 + len(KEY_TAIL)
_HEAD_BYTES = 10
"""The lengths before a key: of the full key and of the value (4 bytes each), and of the row (2 bytes)."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Consecutive entries: their bytes, the end of each, and the total bytes of keys and of values."""

    payload: Bytes
    ends: Ints
    key_bytes: int
    value_bytes: int


def refuse_disorder(previous: bytes | None, keys: pa.LargeBinaryArray) -> None:
    """Raise `DataError` unless all keys are short enough and in ascending order of their bytes, the first one after ``previous``."""
    longest = pc.max(pc.binary_length(keys)).as_py() or 0
    if longest > LONGEST_INDEXED:
        raise DataError(
            f"A key of {longest:,} bytes is too long for an index of the table, whose keys have at most {LONGEST_INDEXED:,} bytes",
            hint="Take a shorter record key, such as a hash of the text, or drop the index: table.indexes.drop(name).",
        )
    falls = pc.any(pc.less_equal(keys.slice(1), keys.slice(0, max(0, len(keys) - 1)))).as_py()
    if falls or (len(keys) and previous is not None and keys[0].as_py() <= previous):
        raise DataError("Keys of an HFile are sorted without repetition", hint="Sort them first.")


def encode_entries(keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray) -> Entries:
    """Encode the entries of keys and values; neither has nulls."""
    key_sizes, value_sizes = (
        pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64) for column in (keys, values)
    )
    full = key_sizes + KEY_OVERHEAD
    lengths = [big_endian(full, ">i4"), big_endian(value_sizes, ">i4"), big_endian(key_sizes, ">i2")]
    data = [None, pa.py_buffer(np.concatenate(lengths, axis=1).tobytes())]
    heads = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_HEAD_BYTES), len(keys), data).cast(pa.large_binary())
    tail, end, nothing = (pa.scalar(part, pa.large_binary()) for part in (KEY_TAIL, b"\0", b""))
    payload, sizes = contents(pc.binary_join_element_wise(heads, keys, tail, values, end, nothing))
    return Entries(payload, np.cumsum(sizes), int(full.sum()), int(value_sizes.sum()))
