"""The tail of an ORC file: the rows of each stripe, and the writer's time zone, which pyarrow does not return.

Apache ORC specification, "File Tail" and "Stripe Footer": the last byte is the length of the postscript, which has the footer's length and
compression; the footer has the positions of the stripes; the last part of a stripe is its own footer. Other parts of the file are not read here.

Invariant: every length is checked against the file before it is used, and decompressed sizes are bounded.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.errors import CorruptHFileError, UnsupportedTableError
from pyhudi_core.formats.hfile.protobuf import read_message, read_varint

_NONE, _ZLIB, _SNAPPY, _ZSTD = 0, 1, 2, 5
_MOST_BYTES = 64 << 20
_HEADER_BYTES = 3


@dataclass(frozen=True, slots=True)
class Stripe:
    """One stripe: its rows, and the writer's time zone (empty if it has none)."""

    rows: int
    time_zone: str


def read_stripes(source: pa.NativeFile, path: str) -> list[Stripe]:
    """Return the stripes of a file, in order.

    Raises:
        ValueError: the file is damaged.
        UnsupportedTableError: the compression is not supported.
    """
    try:
        return _stripes(source, path)
    except CorruptHFileError as error:
        raise ValueError(error.message) from error


def _stripes(source: pa.NativeFile, path: str) -> list[Stripe]:
    size = source.size()
    last = _read(source, size - 1, 1, size)[0]
    postscript = dict(read_message(_read(source, size - 1 - last, last, size)))
    footer_length, codec = _number(postscript, 1), _number(postscript, 2)
    footer = read_message(_plain(_read(source, size - 1 - last - footer_length, footer_length, size), codec, path))
    found = []
    for field, value in footer:
        if field == 3 and isinstance(value, bytes):
            stripe = dict(read_message(value))
            place = _number(stripe, 1) + _number(stripe, 2) + _number(stripe, 3)
            tail = read_message(_plain(_read(source, place, _number(stripe, 4), size), codec, path))
            zone = next((text.decode() for field, text in tail if field == 3 and isinstance(text, bytes)), "")
            found.append(Stripe(_number(stripe, 5), zone))
    return found


def _number(message: dict[int, int | bytes], field: int) -> int:
    value = message.get(field, 0)
    if not isinstance(value, int):
        raise ValueError("a field of its tail is no number")
    return value


def _read(source: pa.NativeFile, offset: int, length: int, size: int) -> bytes:
    if offset < 0 or length < 0 or offset + length > size:
        raise ValueError("its tail points beyond the file")
    return bytes(source.read_at(length, offset))


def _plain(data: bytes, codec: int, path: str) -> bytes:
    """Decompress chunks, each with its length and a flag for uncompressed content."""
    if codec == _NONE:
        return data
    parts, at, total = [], 0, 0
    while at < len(data):
        head = int.from_bytes(data[at : at + _HEADER_BYTES], "little")
        length, original = head >> 1, head & 1
        chunk = data[at + _HEADER_BYTES : at + _HEADER_BYTES + length]
        if len(chunk) != length:
            raise ValueError("a compressed part of its tail does not end")
        parts.append(chunk if original else _decompressed(chunk, codec, path))
        total += len(parts[-1])
        if total > _MOST_BYTES:
            raise ValueError("its tail is larger than any that is written")
        at += _HEADER_BYTES + length
    return b"".join(parts)


def _decompressed(chunk: bytes, codec: int, path: str) -> bytes:
    if codec == _ZLIB:
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk, _MOST_BYTES)
        except zlib.error as error:
            raise ValueError(f"a part of its tail cannot be decompressed: {error}") from error
    if codec == _SNAPPY:
        length, _ = read_varint(chunk, 0)
        if length > _MOST_BYTES:
            raise ValueError("its tail is larger than any that is written")
        return bytes(pa.Codec("snappy").decompress(chunk, length, asbytes=True))
    if codec == _ZSTD:
        with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
            return bytes(stream.read(_MOST_BYTES))
    raise UnsupportedTableError(
        f"The ORC file is compressed with codec {codec}, which is not known here",
        path=path,
        hint="Write it with hoodie.orc.compression.codec=ZLIB, or read the table with Hudi.",
    )
