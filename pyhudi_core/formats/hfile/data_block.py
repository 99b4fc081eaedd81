"""Parse data blocks: where the key and the value of each entry are in the bytes. The module `entries` encodes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa

from pyhudi_core.formats.byte_columns import Ints, contents
from pyhudi_core.formats.hfile.protobuf import corrupt, read_hadoop_vlong
from pyhudi_core.model.record_key import LONGEST_INDEXED

_MOST_BLOCK_ENTRIES = 1 << 21
_ONE_BYTE = 0x80
"""Less than this is a number of Hadoop in one byte."""
_LEAST_ENTRY = 9
"""Bytes of an entry beside its key and its value: their lengths, and a version of one byte."""
_SIGNED, _UNSIGNED = struct.Struct(">ii"), struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries in the order of their keys: each key is at [key_starts, key_ends) of ``data``, each value likewise."""

    data: bytes
    key_starts: Ints
    key_ends: Ints
    value_starts: Ints
    value_ends: Ints

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        """Return the entries of several blocks, one after the other."""
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0, *(len(part.data) for part in parts[:-1])])

        def column(name: str) -> Ints:
            return np.concatenate([getattr(part, name) + shift for part, shift in zip(parts, shifts, strict=True)])

        data = b"".join(part.data for part in parts)
        return cls(data, *map(column, ("key_starts", "key_ends", "value_starts", "value_ends")))

    def __len__(self) -> int:
        return len(self.key_starts)

    def key_list(self) -> list[bytes]:
        """Return the keys."""
        return [self.data[s:e] for s, e in zip(self.key_starts.tolist(), self.key_ends.tolist(), strict=True)]

    def key_array(self) -> pa.BinaryArray:
        """Return the keys as an Arrow array."""
        return _parts(self.data, self.key_starts, self.key_ends).cast(pa.binary())

    def select(self, which: Ints) -> Entries:
        """Return the entries with these numbers."""
        return Entries(
            self.data, self.key_starts[which], self.key_ends[which], self.value_starts[which], self.value_ends[which]
        )

    def copied(self, which: Ints) -> Entries:
        """Return the same with their bytes alone, for a few of many entries; the numbers ascend."""
        chosen = self.select(which)
        whole = _parts(chosen.data, chosen.key_starts, chosen.value_ends)
        data, sizes = contents(whole)
        shifts = np.cumsum(sizes) - sizes - chosen.key_starts
        places = (chosen.key_starts, chosen.key_ends, chosen.value_starts, chosen.value_ends)
        return Entries(data.tobytes(), *(place + shifts for place in places))


def _parts(data: bytes, starts: Ints, ends: Ints) -> pa.LargeBinaryArray:
    """Return the bytes between starts and ends, which ascend, without gaps."""
    pairs = np.empty(2 * len(starts) + 1, np.int64)
    pairs[0:-1:2], pairs[1::2] = starts, ends
    pairs[-1] = ends[-1] if len(ends) else 0
    buffers = [None, pa.py_buffer(pairs), pa.py_buffer(data)]
    whole = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * len(starts), buffers)
    return whole.take(pa.array(np.arange(0, 2 * len(starts), 2)))


def parse_data(payload: bytes) -> Entries:
    """Parse the entries of a data block."""
    return parse_together([payload])


def parse_together(payloads: Sequence[bytes]) -> Entries:
    """Parse the entries of several data blocks, one after the other. Each length leads to the next entry, so there is a loop over lengths; the rest
    is done in columns, for all blocks at once.
    """
    starts, behind = [np.zeros(0, np.int64)], 0
    for payload in payloads:
        starts.append(np.array(_starts(payload), np.int64) + behind)
        behind += len(payload)
    return entries_at(payloads[0] if len(payloads) == 1 else b"".join(payloads), np.concatenate(starts))


def _starts(payload: bytes) -> list[int]:
    """Say where the entries of a block begin; quickly if each has a version of one byte, which is the usual case."""
    found: list[int] = []
    at, size = 0, len(payload)
    if size <= _MOST_BLOCK_ENTRIES * _LEAST_ENTRY:
        unpack_sizes = _UNSIGNED.unpack_from
        with suppress(struct.error):  # the entries are not as usual, or damaged: the exact loop says what is wrong
            while at < size:
                key_size, value_size = unpack_sizes(payload, at)
                found.append(at)
                at += _LEAST_ENTRY + key_size + value_size
        if at == size and (np.frombuffer(payload, np.uint8)[np.array([*found[1:], size]) - 1] < _ONE_BYTE).all():
            return found
    return _exact_starts(payload)


def _exact_starts(payload: bytes) -> list[int]:
    """Return the same for every block. Raises `CorruptHFileError`."""
    found: list[int] = []
    at, size = 0, len(payload)
    unpack_sizes, most = _SIGNED.unpack_from, _MOST_BLOCK_ENTRIES
    try:
        while at < size:
            key_size, value_size = unpack_sizes(payload, at)
            if key_size < 2 or value_size < 0:
                raise corrupt("an entry does not fit into its block")
            found.append(at)
            if len(found) > most:
                raise corrupt(f"a block has more than {most:,} entries")
            at += 8 + key_size + value_size
            at = at + 1 if payload[at] < _ONE_BYTE else read_hadoop_vlong(payload, at)[1]
    except struct.error:
        raise corrupt("a data block ends inside of an entry") from None
    except IndexError:
        raise corrupt("an entry does not fit into its block") from None
    return found


def entries_at(payload: bytes, starts: Ints) -> Entries:
    """Return the entries that begin at these places; each has the lengths of its key and its value, the length of its row, and these."""
    raw = np.frombuffer(payload, np.uint8)

    def number(first: int, count: int) -> Ints:
        digits = [raw[starts + place].astype(np.int64) for place in range(first, first + count)]
        return reduce(lambda high, low: high << 8 | low, digits)

    keys, values, rows = number(0, 4), number(4, 4), number(8, 2)
    if (rows > np.minimum(keys - 2, LONGEST_INDEXED)).any():
        raise corrupt("an entry does not fit into its block")
    behind = starts + 8 + keys
    return Entries(payload, starts + 10, starts + 10 + rows, behind, behind + values)
