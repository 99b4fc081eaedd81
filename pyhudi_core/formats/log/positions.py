"""Positions of records in a base file, as in headers of log blocks: a 64-bit Roaring bitmap in Base64.

Roaring's portable format for 64 bits (its format specification; Chambi, Lemire, Kaser and Godin, "Better bitmap performance with Roaring bitmaps",
2016). This package merges by record key, so positions are only checked and shown; a writer may always omit them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from pyhudi_core.errors import CorruptLogBlockError

MAX_POSITIONS = 1 << 24
"""Of one block: blocks are cut at 256 MB, and runs of positions take next to no bytes, so a small text could ask for any amount of memory."""


def decode_positions(text: str) -> npt.NDArray[np.uint64]:
    """Return the positions, ascending. Raises `CorruptLogBlockError`."""
    try:
        found = BitMap64.deserialize(base64.b64decode(text, validate=True))
    except (ValueError, IndexError, binascii.Error, MemoryError) as error:
        raise _corrupt("they are no bitmap") from error
    if len(found) > MAX_POSITIONS:
        raise _corrupt(f"there are {len(found)} of them")
    return np.fromiter(found, np.uint64, len(found))


def encode_positions(positions: Iterable[int]) -> str:
    """Return the text for a header; runs of positions are short, as Hudi writes them."""
    found = BitMap64(positions)
    found.run_optimize()
    return base64.b64encode(found.serialize()).decode()


def _corrupt(reason: str) -> CorruptLogBlockError:
    return CorruptLogBlockError(
        f"The positions in a log block are damaged: {reason}",
        hint="Restore the file from a copy, or roll its instant back.",
    )
