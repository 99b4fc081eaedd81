"""Hashes of record keys (Murmur2) over complete arrays: one hash for each key, and the chained hashes of a bloom filter.

Hudi computes ``s = murmur2(key, s)`` repeatedly, starting with 0, and each ``abs(s % bits)`` (as Java computes it) is a position in the filter (the
specification, "Bloom filter", does not define this). The bytes of a key enter a hash as words that do not depend on ``s``, so they are mixed once,
and only the short chain is repeated. Keys are grouped by length, in blocks that fit the processor's cache; numpy does the arithmetic modulo 2^32.
The hashes also show quickly whether a key is repeated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import InvalidRecordKeyError

Words = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]

_M = np.uint32(0x5BD1E995)
_BLOCK = 1 << 14
_MOST_SORTED = 5_000_000
"""The maximum length of a column of integers that is sorted, in 40 MB, to see whether a value occurs twice."""


def hash_keys(keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint32]:
    """Return one unsigned 32-bit hash for each key: Murmur2 with seed 0, the same on every machine. Raises `InvalidRecordKeyError` for nulls."""
    parts = []
    for chunk in key_chunks(keys):
        hashes = np.zeros(len(chunk), np.uint32)
        for block in blocks(chunk):
            block.advance()
            hashes[block.index] = block.state
        parts.append(hashes)
    return np.concatenate(parts) if parts else np.zeros(0, np.uint32)


def ascend(keys: pa.Array) -> bool:
    """Say whether each key is greater than the one before it, as in loads of numbered rows: a comparison costs a fiftieth of a hash table."""
    greater = pc.less(keys.slice(0, max(len(keys) - 1, 0)), keys.slice(1))
    return greater.null_count == 0 and bool(pc.all(greater, min_count=0).as_py())


def _all_ascend(column: pa.ChunkedArray) -> bool:
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    return all(map(ascend, chunks)) and all(one[-1].as_py() < other[0].as_py() for one, other in pairwise(chunks))


def are_distinct(column: pa.ChunkedArray) -> bool:
    """Say whether it is known that no value of a key column occurs twice. This is checked only if it is cheap, before keys become texts."""
    numbers = pa.types.is_integer(column.type)
    if column.null_count or not (numbers or pa.types.is_string(column.type)):
        return False
    if _all_ascend(column):
        return True
    if not numbers or len(column) > _MOST_SORTED:
        return False
    ordered = np.sort(column.to_numpy())
    return not (ordered[1:] == ordered[:-1]).any()


def repetitions(keys: pa.ChunkedArray) -> int:
    """Return how many keys are repetitions of an earlier one. Raises `InvalidRecordKeyError` for nulls.

    A sort of hashes shows the few keys that may be repeated, and only these are compared. This takes a tenth of the time of a hash table of all
    texts.
    """
    if _all_ascend(keys):
        return 0
    hashes = hash_keys(keys)
    ordered = np.sort(hashes)
    again = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(again):
        return 0
    doubtful = keys.filter(pa.array(np.isin(hashes, again)))
    return len(doubtful) - int(pc.count_distinct(doubtful).as_py())


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
class KeyBlock:
    """Keys of one length, mixed and ready to be hashed; ``index`` has their positions in the input."""

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
        """Return ``abs(state % bits)`` with Java's signs: the remainder of the absolute value."""
        # The absolute value of the smallest integer wraps to itself, which is right when read as unsigned.
        size = np.uint32(bits)
        value = np.abs(self.state.view(np.int32)).view(np.uint32)
        # A quotient by a constant is vectorised in numpy, a remainder is not.
        value -= value // size * size
        return value.astype(np.intp)

    def keep(self, mask: npt.NDArray[np.bool_]) -> KeyBlock:
        """Return the block with only the keys under the mask."""
        index = np.arange(len(mask)) + self.index.start if isinstance(self.index, slice) else self.index
        tail = None if self.tail is None else self.tail[mask]
        return KeyBlock(index[mask], self.length, [word[mask] for word in self.words], tail, self.state[mask])


def chains(keys: Keys, hashes: int, bits: int) -> list[int]:
    """Return the positions of a few keys after each step, as `KeyBlock` does for many keys. A few keys are hashed faster without arrays."""
    most, factor, found = 0xFFFFFFFF, int(_M), []
    for start, length in zip(keys.starts.tolist(), keys.lengths.tolist(), strict=True):
        key = keys.data[start : start + length].tobytes()
        words = struct.unpack_from(f"<{length // 4}I", key)
        mixed = [((scaled := word * factor & most) ^ scaled >> 24) * factor & most for word in words]
        tail = 0
        for number in range(length % 4):
            byte = key[length - 1 - number]
            tail ^= (byte - 256 if byte > 127 else byte) << 8 * number & most
        state = 0
        for _ in range(hashes):
            state ^= length
            for word in mixed:
                state = (state * factor & most) ^ word
            if length % 4:
                state = (state ^ tail) * factor & most
            state = (state ^ state >> 13) * factor & most
            state ^= state >> 15
            found.append((state if state < 1 << 31 else (1 << 32) - state) % bits)
    return found


def blocks(keys: Keys) -> Iterator[KeyBlock]:
    """Iterate over all keys, in blocks of one length; every block begins with state 0."""
    lengths, groups = _groups(keys)
    for length, index in zip(lengths, groups, strict=True):
        count = len(keys) if index is None else len(index)
        for first in range(0, count, _BLOCK):
            last = min(first + _BLOCK, count)
            chosen: Ints | slice = slice(first, last) if index is None else index[first:last]
            yield _block(keys.data, keys.starts[chosen], length, chosen)


def _groups(keys: Keys) -> tuple[list[int], list[Ints | None]]:
    """Return the distinct lengths, and the keys of each (None for all)."""
    if len(keys) == 0:
        return [], []
    low, high = int(keys.lengths.min()), int(keys.lengths.max())
    if low == high:
        return [low], [None]
    order = np.argsort(keys.lengths.astype(np.uint16 if high < 1 << 16 else np.int64), kind="stable")
    ordered = keys.lengths[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    return ordered[np.concatenate(([0], cuts))].tolist(), list(np.split(order, cuts))


def _block(data: npt.NDArray[np.uint8], starts: Ints, length: int, index: Ints | slice) -> KeyBlock:
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
    return KeyBlock(index, length, words, _tail(data, starts, length), np.zeros(len(starts), np.uint32))


def _tail(data: npt.NDArray[np.uint8], starts: Ints, length: int) -> Words | None:
    left = length % 4
    if not left:
        return None
    tail = np.zeros(len(starts), np.uint32)
    for number in range(left):
        # Hadoop takes the last byte first, and Java's bytes keep their sign when they are widened for the shift.
        signed = data.view(np.int8)[starts + (length - 1 - number)].astype(np.int32)
        tail ^= (signed << np.int32(8 * number)).view(np.uint32)
    return tail


def refuse_null(keys: pa.Array | pa.ChunkedArray) -> None:
    """Raise `InvalidRecordKeyError` for a null key."""
    if keys.null_count:
        raise InvalidRecordKeyError("A record key is null", hint="Fill or drop the rows without a key")


def key_chunks(keys: pa.Array | pa.ChunkedArray) -> list[Keys]:
    """Return the keys as bytes and offsets, one item for each chunk. Raises `InvalidRecordKeyError` for a null key."""
    refuse_null(keys)
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    return [_keys(chunk) for chunk in chunks if len(chunk)]


def _keys(array: Any) -> Keys:
    """Return the bytes of a string or binary array, without copying them."""
    if not _has_offsets(array.type):
        array = array.cast(pa.binary() if pa.types.is_fixed_size_binary(array.type) else pa.string())
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets_buffer, data_buffer = array.buffers()
    raw = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32, len(array) + 1 + array.offset)
    offsets: Ints = raw[array.offset :].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    return Keys(data, offsets[:-1], offsets[1:] - offsets[:-1])


def _has_offsets(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    )
