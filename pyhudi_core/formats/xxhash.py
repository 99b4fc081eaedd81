"""Compute XXH32 of texts, as Hudi's consistent hashing needs it: vectorised over texts of the same number of bytes, without an object for each text.

The algorithm is that of the xxHash specification, version 0.1.1 ("XXH32"), with seed 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.formats.byte_columns import contents

_P1, _P2, _P3, _P4, _P5 = (
    np.uint32(number) for number in (2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393)
)
_STRIPE, _WORD = 16, 4

Words = npt.NDArray[np.uint32]


def xxh32(texts: pa.Array) -> Words:
    """Return the hash of the UTF-8 bytes of each text; no text is null."""
    data, lengths = contents(texts)
    begins = np.cumsum(lengths) - lengths
    found = np.empty(len(texts), np.uint32)
    for size in np.unique(lengths).tolist():
        which = np.flatnonzero(lengths == size)
        found[which] = _of_equal_size(data[begins[which][:, None] + np.arange(size)], size)
    return found


def _of_equal_size(rows: npt.NDArray[np.uint8], size: int) -> Words:
    """Return the hash of each row of bytes."""
    whole = size // _WORD
    words = np.ascontiguousarray(rows[:, : whole * _WORD]).view("<u4").astype(np.uint32)
    stripes = size // _STRIPE
    state = _of_stripes(words, stripes) if stripes else np.full(len(rows), _P5, np.uint32)
    state += np.uint32(size)
    for place in range(stripes * (_STRIPE // _WORD), whole):
        state = _turned(state + words[:, place] * _P3, 17) * _P4
    for place in range(whole * _WORD, size):
        state = _turned(state + rows[:, place] * _P5, 11) * _P1
    state ^= state >> np.uint32(15)
    state *= _P2
    state ^= state >> np.uint32(13)
    state *= _P3
    return state ^ (state >> np.uint32(16))


def _of_stripes(words: Words, stripes: int) -> Words:
    """Return the state after the stripes of 16 bytes, in which each of four lanes takes a word."""
    with np.errstate(over="ignore"):
        lanes = np.tile(np.array([_P1 + _P2, _P2, 0, np.uint32(0) - _P1], np.uint32), (len(words), 1))
    for stripe in range(stripes):
        lanes = _turned(lanes + words[:, stripe * 4 : stripe * 4 + 4] * _P2, 13) * _P1
    turned = [_turned(lanes[:, lane], bits) for lane, bits in enumerate((1, 7, 12, 18))]
    return turned[0] + turned[1] + turned[2] + turned[3]


def _turned(words: Words, bits: int) -> Words:
    """Return the words with their bits rotated to the left."""
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
