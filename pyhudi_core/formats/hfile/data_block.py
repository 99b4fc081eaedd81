"""Blocks of an HFile, and the positions of the key and the value of each entry in a data block. The module `entries` encodes entries.

A block is a header of 33 bytes, a payload (compressed or not) and checksums (HBase reference, "HFile format with inline blocks (version 2)", as far
as Hudi uses it: no compression or gzip, no block encodings).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import LimitExceededError, UnsupportedTableError
from pyhudi_core.formats.byte_columns import Ints, contents
from pyhudi_core.formats.hfile.protobuf import corrupt, read_hadoop_vlong
from pyhudi_core.model.record_key import LONGEST_INDEXED

_MOST_BLOCK_ENTRIES = 1 << 21
_ONE_BYTE = 0x80
"""Hadoop stores numbers below this limit in one byte."""
_LEAST_ENTRY = 9
"""The minimum bytes of an entry in addition to its key and its value: the lengths of both, and a version of one byte."""
_SIGNED, _UNSIGNED = struct.Struct(">ii"), struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries in the order of their keys: in ``data`` each key is at [key_starts, key_ends), and each value at [value_starts, value_ends)."""

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
        """Return some of the entries, with a copy of only their bytes; the numbers ascend."""
        chosen = self.select(which)
        whole = _parts(chosen.data, chosen.key_starts, chosen.value_ends)
        data, sizes = contents(whole)
        shifts = np.cumsum(sizes) - sizes - chosen.key_starts
        places = (chosen.key_starts, chosen.key_ends, chosen.value_starts, chosen.value_ends)
        return Entries(data.tobytes(), *(place + shifts for place in places))


def _parts(data: bytes, starts: Ints, ends: Ints) -> pa.LargeBinaryArray:
    """Return the bytes between the starts and the ends, without gaps. Starts and ends ascend."""
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
    """Parse the entries of several data blocks, one after the other. Each length leads to the next entry, so there is a loop over lengths; all other
    work is done in columns, for all blocks at once.
    """
    starts, behind = [np.zeros(0, np.int64)], 0
    for payload in payloads:
        starts.append(np.array(_starts(payload), np.int64) + behind)
        behind += len(payload)
    return entries_at(payloads[0] if len(payloads) == 1 else b"".join(payloads), np.concatenate(starts))


def _starts(payload: bytes) -> list[int]:
    """Return the positions where the entries of a block begin; quickly if each entry has a version of one byte, the usual case."""
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
    """Return the positions where the entries of any block begin. Raises `CorruptHFileError`."""
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
    """Return the entries that begin at these places. An entry has the length of its key, the length of its value, the length of its row, then key and
    value."""
    raw = np.frombuffer(payload, np.uint8)

    def number(first: int, count: int) -> Ints:
        digits = [raw[starts + place].astype(np.int64) for place in range(first, first + count)]
        return reduce(lambda high, low: high << 8 | low, digits)

    keys, values, rows = number(0, 4), number(4, 4), number(8, 2)
    if (rows > np.minimum(keys - 2, LONGEST_INDEXED)).any():
        raise corrupt("an entry does not fit into its block")
    behind = starts + 8 + keys
    return Entries(payload, starts + 10, starts + 10 + rows, behind, behind + values)


HEADER = struct.Struct(">8siiqBii")
CHECKSUM_CHUNK = 16_384
_LEVEL = 3
"""The level of zlib. It takes less than half of the processor time of the default level, 6, and makes an eighth more bytes (measured with places of
500,000 record keys)."""
DATA, META, ROOT_INDEX, LEAF_INDEX, MIDDLE_INDEX, FILE_INFO = (
    b"DATABLK*", b"METABLKc", b"IDXROOT2", b"IDXLEAF2", b"IDXINTE2", b"FILEINF2",
)  # fmt: skip
_NO_CHECKSUM, _CRC32, _CRC32C = 0, 1, 2


class Codec(IntEnum):
    """The compression of payloads, by the number in the trailer."""

    GZIP = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Block:
    """One block: its kind, its payload, and its size in the file."""

    magic: bytes
    payload: bytes
    size: int


def header_of(data: bytes) -> tuple[bytes, int]:
    """Return kind and size of the block that begins with these 33 bytes."""
    magic, on_disk, _, _, _, _, _ = HEADER.unpack(data)
    if on_disk < 0:
        raise corrupt("a block has a negative size")
    return magic, HEADER.size + on_disk


def decode(data: bytes, codec: Codec, limit: int) -> Block:
    """Decode a complete block. Raises `CorruptHFileError`, or `LimitExceededError` for a payload larger than the limit."""
    if len(data) < HEADER.size:
        raise corrupt("it ends inside of a block")
    magic, on_disk, plain, _, kind, chunk, with_header = HEADER.unpack_from(data)
    stored = with_header - HEADER.size
    if not 0 <= stored <= on_disk or HEADER.size + on_disk > len(data) or plain < 0:
        raise corrupt("the sizes of a block do not agree")
    if plain > limit:
        raise LimitExceededError(
            "A block of an HFile is larger than the limit", limit=limit, seen=plain, hint="Raise the limit if the file is to be trusted."
        )  # fmt: skip
    if kind == _CRC32:
        _check(data, with_header, on_disk + HEADER.size, chunk)
    body = data[HEADER.size : with_header]
    payload = body if codec is Codec.NONE else _inflate(body, plain)
    if len(payload) != plain:
        raise corrupt("a block has another size than its header says")
    return Block(magic, payload, HEADER.size + on_disk)


def encode(magic: bytes, payload: bytes, codec: Codec, previous: int) -> bytes:
    """Encode a block with CRC-32 checksums; ``previous`` is the offset of the previous block of its kind, or -1."""
    body = payload if codec is Codec.NONE else _deflate(payload)
    with_header = HEADER.size + len(body)
    checksums = 4 * -(-with_header // CHECKSUM_CHUNK)
    head = HEADER.pack(magic, len(body) + checksums, len(payload), previous, _CRC32, CHECKSUM_CHUNK, with_header)
    return head + body + _checksums(head + body, CHECKSUM_CHUNK)


def codec_of(number: int) -> Codec:
    """Return the codec of a trailer's number. Raises `UnsupportedTableError` for codecs that Hudi does not read either."""
    try:
        return Codec(number)
    except ValueError:
        raise UnsupportedTableError(
            f"The HFile is compressed with codec {number}; Hudi has none (2) and gzip (1)",
            hint="Write the metadata table again with Hudi's defaults.",
        ) from None


def _check(data: bytes, covered: int, end: int, chunk: int) -> None:
    if chunk <= 0 or data[covered:end] != _checksums(data[:covered], chunk):
        raise corrupt("a checksum differs")


def _checksums(data: bytes, chunk: int) -> bytes:
    return b"".join(struct.pack(">I", zlib.crc32(data[at : at + chunk])) for at in range(0, len(data), chunk))


def _inflate(body: bytes, size: int) -> bytes:
    machine = zlib.decompressobj(wbits=31)
    try:
        # Ask for one byte more than declared: if it comes, the block is too large. The rest is never inflated.
        return machine.decompress(body, size + 1)
    except zlib.error as error:
        raise corrupt("a block cannot be decompressed") from error


def _deflate(payload: bytes) -> bytes:
    machine = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
    return machine.compress(payload) + machine.flush()
