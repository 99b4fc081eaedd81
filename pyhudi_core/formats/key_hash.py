"""A hash of each record key that is the same on every machine: Murmur2 with seed 0, over whole arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.formats.bloom import key_chunks
from pyhudi_core.formats.murmur import blocks


def hash_keys(keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint32]:
    """One unsigned 32-bit hash a key. Raises `InvalidRecordKeyError` for nulls."""
    parts = []
    for chunk in key_chunks(keys):
        hashes = np.zeros(len(chunk), np.uint32)
        for block in blocks(chunk):
            block.advance()
            hashes[block.index] = block.state
        parts.append(hashes)
    return np.concatenate(parts) if parts else np.zeros(0, np.uint32)
