"""The positions of record keys in a bloom filter: chained Murmur2 hashes over many keys at once.

Hudi takes ``s = murmur2(key, s)`` again and again, starting with 0, and each ``abs(s % bits)`` (as Java computes it)
is a position (specification, "Bloom filter", leaves it to the code). The bytes of a key enter a hash through words
that do not depend on ``s``, so they are mixed once and only the short chain is repeated. Keys are taken in groups of
equal length and in blocks that stay in the processor's cache; numpy does the arithmetic modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]

_M = np.uint32(0x5BD1E995)
_BLOCK = 1 << 14


@dataclass(frozen=True, slots=True)
class Keys:
    """Byte strings inside one buffer: ``starts`` and ``lengths`` in bytes."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    lengths: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def pick(self, where: slice | Ints) -> Keys:
        return Keys(self.data, self.starts[where], self.lengths[where])


@dataclass(slots=True)
class Block:
    """Keys of one length, mixed and ready to be hashed; ``index`` says which keys of the input they are."""

    index: Ints | slice
    length: int
    words: list[Words]
    tail: Words | None
    state: Words

    def advance(self) -> None:
        """Replace each key's ``state`` by the hash of the key with that state as its seed."""
        state = self.state
        state ^= np.uint32(self.length)
        for word in self.words:
            state *= _M
            state ^= word
        if self.tail is not None:
            state ^= self.tail
            state *= _M
        state ^= state >> np.uint32(13)
        state *= _M
        state ^= state >> np.uint32(15)

    def positions(self, bits: int) -> npt.NDArray[np.intp]:
        """``abs(state % bits)`` with Java's signs: the remainder of the absolute value."""
        # The absolute value of the smallest integer wraps to itself, which is right when it is read as unsigned.
        size = np.uint32(bits)
        value = np.abs(self.state.view(np.int32)).view(np.uint32)
        # A quotient by a constant is vectorised in numpy, a remainder is not.
        value -= value // size * size
        return value.astype(np.intp)

    def keep(self, mask: npt.NDArray[np.bool_]) -> Block:
        """The block with the keys under the mask only."""
        index = np.arange(len(mask)) + self.index.start if isinstance(self.index, slice) else self.index
        tail = None if self.tail is None else self.tail[mask]
        return Block(index[mask], self.length, [word[mask] for word in self.words], tail, self.state[mask])


def blocks(keys: Keys) -> Iterator[Block]:
    """All keys, in blocks of one length; every block begins with state 0."""
    lengths, groups = _groups(keys)
    for length, index in zip(lengths, groups, strict=True):
        count = len(keys) if index is None else len(index)
        for first in range(0, count, _BLOCK):
            last = min(first + _BLOCK, count)
            chosen: Ints | slice = slice(first, last) if index is None else index[first:last]
            yield _block(keys.data, keys.starts[chosen], length, chosen)


def _groups(keys: Keys) -> tuple[list[int], list[Ints | None]]:
    """The different lengths, and which keys have them (None for all)."""
    if len(keys) == 0:
        return [], []
    low, high = int(keys.lengths.min()), int(keys.lengths.max())
    if low == high:
        return [low], [None]
    order = np.argsort(keys.lengths.astype(np.uint16 if high < 1 << 16 else np.int64), kind="stable")
    ordered = keys.lengths[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    return ordered[np.concatenate(([0], cuts))].tolist(), list(np.split(order, cuts))


def _block(data: npt.NDArray[np.uint8], starts: Ints, length: int, index: Ints | slice) -> Block:
    whole = length // 4
    words = []
    if whole:
        # Keys begin at any byte, so the buffer is read as overlapping little-endian words.
        window: Words = np.ndarray((len(data) - 3,), dtype="<u4", buffer=data, strides=(1,))
        for number in range(whole):
            word = window[starts + 4 * number]
            word *= _M
            word ^= word >> np.uint32(24)
            word *= _M
            words.append(word)
    return Block(index, length, words, _tail(data, starts, length), np.zeros(len(starts), np.uint32))


def _tail(data: npt.NDArray[np.uint8], starts: Ints, length: int) -> Words | None:
    left = length % 4
    if not left:
        return None
    tail = np.zeros(len(starts), np.uint32)
    for number in range(left):
        # Hadoop takes the last byte first, and Java's bytes keep their sign when they are widened to be shifted.
        signed = data.view(np.int8)[starts + (length - 1 - number)].astype(np.int32)
        tail ^= (signed << np.int32(8 * number)).view(np.uint32)
    return tail
