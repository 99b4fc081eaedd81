"""Where a key is among the first keys of blocks: by the order of bytes, or, in release 1.0, by the order of Java's strings.

The two orders differ from U+E000 on, so a key without such characters has the same place in both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.formats.byte_columns import contents

_DOUBTFUL = 0xEE
"""The first byte of U+E000 in UTF-8."""


def depends_on_order(key: bytes) -> bool:
    """Whether a key has characters from U+E000 on."""
    return max(key, default=0) >= _DOUBTFUL


def depend_on_order(keys: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """The same for a column of keys."""
    data, lengths = contents(keys)
    found = np.zeros(len(keys), bool)
    found[np.searchsorted(np.cumsum(lengths), np.flatnonzero(data >= _DOUBTFUL), side="right")] = True
    return found


def places_among(starts: list[bytes], keys: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """The number of the last start that is not above each key; -1 if all are. The keys are sorted, and do not depend on the order of starts."""
    merged = pa.table(
        {
            "key": pa.chunked_array([pa.array(starts, pa.binary()), keys]),
            "is_key": pa.array(np.arange(len(starts) + len(keys)) >= len(starts)),
        }
    )
    order = pc.sort_indices(merged, [("key", "ascending"), ("is_key", "ascending")]).to_numpy()
    is_start = order < len(starts)
    return np.asarray(np.cumsum(is_start)[~is_start] - 1, np.int64)


def java_order(key: bytes) -> bytes:
    """Return the sort key of Java strings: UTF-16 units. Index keys may be cut inside a character."""
    return key.decode("utf-8", "ignore").encode("utf-16-be")
