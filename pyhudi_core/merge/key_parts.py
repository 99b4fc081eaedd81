"""Divide the keys of a file group into parts by a hash. If the logs of a slice do not fit into memory, one part is merged at a time.

Every entry of a key and its base row are in one part, so each part is merged alone, and all parts together are the slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.merge.law import Mask

MOST_PARTS = 1 << 12
"""The maximum number of parts of a slice. If more are needed, a few keys have very many entries, and the slice is refused."""
_AT_ONCE = 64
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class LogsTooLargeError(Exception):
    """The entries of a part are larger than the memory for entries. ``parts``: the needed number of parts. This error is handled inside ``merge``."""

    def __init__(self, parts: int) -> None:
        super().__init__(parts)
        self.parts = parts


@dataclass(frozen=True, slots=True)
class KeyPart:
    """The keys whose hash modulo ``of`` is ``number``; all keys by default."""

    number: int = 0
    of: int = 1

    def holds(self, keys: pa.Array | pa.ChunkedArray) -> Mask:
        """Return which of the keys are in this part; the keys are not null."""
        if self.of == 1:
            return np.ones(len(keys), bool)
        # A file group of consistent hashing has only keys of one range of hashes. So the bits are mixed again.
        mixed = (hash_keys(keys.cast(pa.string())).astype(np.uint64) * _SPREAD) >> np.uint64(40)
        return np.asarray(mixed % np.uint64(self.of) == np.uint64(self.number), bool)

    def cut(self, parts: int) -> list[Self]:
        """Divide these keys into ``parts`` parts."""
        return [type(self)(self.number + self.of * place, self.of * parts) for place in range(parts)]


def parts_for(held: int, read: int, whole: int, most: int) -> int:
    """Return the number of parts into which a too large part is cut, a power of two. The logs have ``whole`` bytes. The ``read`` bytes that were
    read became ``held`` bytes of entries.
    """
    expected = held * max(1.0, whole / max(1, read))
    parts = 2
    while parts < _AT_ONCE and expected > parts * most * 0.75:
        parts *= 2
    return parts
