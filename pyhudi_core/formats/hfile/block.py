"""Blocks of an HFile: a header of 33 bytes, a payload (compressed or not), checksums.

HBase reference, "HFile format with inline blocks (version 2)", as far as Hudi uses it: no compression or gzip, no block encodings.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from pyhudi_core.errors import LimitExceededError, UnsupportedTableError
from pyhudi_core.formats.hfile.protobuf import corrupt

HEADER = struct.Struct(">8siiqBii")
CHECKSUM_CHUNK = 16_384
_LEVEL = 3
"""Of zlib: less than half of the processor time of its default, 6, for an eighth more bytes (measured with places of 500,000 record keys)."""
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
        # One byte more than declared shows that a block inflates further, without inflating it.
        return machine.decompress(body, size + 1)
    except zlib.error as error:
        raise corrupt("a block cannot be decompressed") from error


def _deflate(payload: bytes) -> bytes:
    machine = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
    return machine.compress(payload) + machine.flush()
