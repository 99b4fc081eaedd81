"""Read one Avro value of many records at once: numbers, lengths and bytes at an array of positions.

Avro 1.11 specification, "Binary Encoding". Every function takes the positions (one for each record with the value) and moves them behind the values
it read. numpy does the work, for any number of records. A position never leaves its record: every length is checked against the record's end before
memory of that size is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.errors import CorruptAvroError

Ints = npt.NDArray[np.int64]
_PAD = 16
_LONGEST = 10
_FEW_ROUNDS = 50_000
_BYTES_A_ROUND = 64


class ColumnsRefusedError(Exception):
    """The data is valid as far as it was read, but this reader cannot read it; another reader may."""


@dataclass(slots=True)
class Rounds:
    """Limits the rounds over items of arrays: a round takes the same time for one record as for many."""

    left: int

    def take(self) -> None:
        """Count one round. Raises `ColumnsRefusedError` if none is left."""
        self.left -= 1
        if self.left < 0:
            raise ColumnsRefusedError("arrays in arrays have very many items")


@dataclass(slots=True)
class Cursor:
    """Positions in one buffer. ``data`` is padded at its end, so that reading just behind a position is always possible."""

    data: npt.NDArray[np.uint8]
    at: Ints
    ends: Ints
    rounds: Rounds

    @classmethod
    def over(cls, buffer: bytes | pa.Buffer, starts: Ints, ends: Ints) -> Cursor:
        """Create positions at the starts of records; no position may pass the end of its record."""
        raw = np.frombuffer(buffer, np.uint8)
        rounds = Rounds(max(_FEW_ROUNDS, len(raw) // _BYTES_A_ROUND))
        return cls(np.concatenate([raw, np.zeros(_PAD, np.uint8)]), starts.copy(), ends, rounds)

    def __len__(self) -> int:
        return len(self.at)

    def some(self, which: Ints) -> Cursor:
        """Return a cursor with the positions that have these numbers; call `put_back` after the positions have moved."""
        return Cursor(self.data, self.at[which], self.ends[which], self.rounds)

    def put_back(self, which: Ints, moved: Cursor) -> None:
        """Store the moved positions of a cursor from `some`, which have these numbers."""
        self.at[which] = moved.at

    def skip(self, count: int | Ints) -> None:
        """Move each position, and check that no position has left its record."""
        self.at = self.at + count
        if (self.at > self.ends).any():
            raise corrupt("a value goes beyond its record")

    def longs(self) -> Ints:
        """Read an int or long at every position: base-128, zigzag."""
        first = self.data[self.at].astype(np.uint64)
        value = first & np.uint64(0x7F)
        length = np.ones(len(self.at), np.int64)
        going = np.flatnonzero(first >= 0x80)
        for number in range(1, _LONGEST):
            if not len(going):
                break
            byte = self.data[self.at[going] + number].astype(np.uint64)
            value[going] |= (byte & np.uint64(0x7F)) << np.uint64(7 * number)
            length[going] += 1
            going = going[byte >= 0x80]
        if len(going):
            raise corrupt("a number has more than ten bytes")
        self.skip(length)
        half: Ints = (value >> np.uint64(1)).astype(np.int64)
        return half ^ -(value & np.uint64(1)).astype(np.int64)

    def numbers(self, counts: Ints) -> Ints:
        """Return the places of so many ints or longs at every position; moves nothing. Each of them ends at its first byte below 0x80."""
        sizes = np.minimum(counts * _LONGEST, self.ends - self.at)
        after = np.cumsum(sizes)
        places = np.repeat(self.at - (after - sizes), sizes) + np.arange(sizes.sum())
        last = np.flatnonzero(self.data[places] < 0x80)
        first = np.searchsorted(last, after - sizes)
        if (np.searchsorted(last, after) - first < counts).any():
            raise corrupt("an array goes beyond its record, or a number has more than ten bytes")
        which = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        starts = places[last[which - 1]] + 1
        starts[np.cumsum(counts) - counts] = self.at
        return starts

    def fixed(self, size: int) -> npt.NDArray[np.uint8]:
        """Read ``size`` bytes at every position; returns an array of (positions, size)."""
        here = self.at
        self.skip(size)
        return self.data[here[:, None] + np.arange(size)]

    def lengths(self) -> Ints:
        """Read a length at every position, checked against the rest of the record."""
        found = self.longs()
        if ((found < 0) | (found > self.ends - self.at)).any():
            raise corrupt("a length goes beyond its record")
        return found

    def bytes(self) -> pa.BinaryArray:
        """Read length-prefixed bytes at every position."""
        sizes = self.lengths()
        starts = self.at
        self.skip(sizes)
        # The starts and the ends, in turn, are the offsets of an array. Every second entry of the array is a value.
        pairs = np.empty(2 * len(starts) + 1, np.int64)
        pairs[0:-1:2], pairs[1::2] = starts, self.at
        pairs[-1] = self.at[-1] if len(starts) else 0
        if (np.diff(pairs) < 0).any():
            raise ColumnsRefusedError("values are not in the order of their records")
        offsets = pa.py_buffer(pairs)
        whole = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), 2 * len(starts), [None, offsets, pa.py_buffer(self.data)]
        )
        return whole.take(pa.array(np.arange(0, 2 * len(starts), 2))).cast(pa.binary())


def corrupt(what: str) -> CorruptAvroError:
    """Return the error for bytes that do not fit their Avro schema."""
    return CorruptAvroError(
        f"Avro records are damaged: {what}", hint="Restore the file from a copy, or roll its instant back."
    )
