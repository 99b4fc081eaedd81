"""The tail of an ORC file: the rows of each stripe, and the writer's time zone, which pyarrow does not return.

Apache ORC specification, "File Tail" and "Stripe Footer": the last byte is the length of the postscript, which has the footer's length and
compression; the footer has the positions of the stripes; the last part of a stripe is its own footer. Other parts of the file are not read here.

pyarrow decodes the footer in this process. The footer says how much memory that takes, and each level of nested columns takes a call. So this module
checks the footer before pyarrow opens the file.

Invariants
- every length is checked against the file before it is used;
- the decompressed bytes of a footer are bounded, and the decompressed bytes of the footers of all stripes together;
- the number of parts of a footer and the depth of nested columns are bounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.errors import CorruptHFileError, UnsupportedTableError
from pyhudi_core.formats.hfile.protobuf import read_message, read_varint

_NONE, _ZLIB, _SNAPPY, _ZSTD = 0, 1, 2, 5
_MOST_BYTES, _MOST_FOOTER_BYTES = 64 << 20, 16 << 20
"""The maximum decompressed bytes of the footers of all stripes, and of the footer of the file, which has the bloom filter."""
_MOST_DEPTH, _MOST_PARTS = 64, 40_000
"""The maximum number of levels of nested columns, and of the kinds, names and links of all columns."""
_HEADER_BYTES = 3


@dataclass(frozen=True, slots=True)
class Stripe:
    """One stripe: its rows, and the writer's time zone (empty if it has none)."""

    rows: int
    time_zone: str


@dataclass(frozen=True, slots=True)
class Tail:
    """The footer of a file, in its parts, and how stripes are compressed."""

    codec: int
    parts: list[tuple[int, int | bytes]]


def read_tail(source: pa.NativeFile, path: str) -> Tail:
    """Return the tail of a file that pyarrow can open in bounded time and memory.

    Raises:
        ValueError: the file is damaged.
        UnsupportedTableError: the compression is not supported.
    """
    with _as_damage():
        size = source.size()
        last = _read(source, size - 1, 1, size)[0]
        postscript = dict(read_message(_read(source, size - 1 - last, last, size)))
        length, codec = _number(postscript, 1), _number(postscript, 2)
        footer = _plain(_read(source, size - 1 - last - length, length, size), codec, path, _MOST_FOOTER_BYTES)
        found = Tail(codec, read_message(footer))
        _refuse_deep([value for field, value in found.parts if field == 4 and isinstance(value, bytes)])
        return found


def _refuse_deep(columns: Sequence[bytes]) -> None:
    """Raise ValueError for columns with too many parts, or nested in too many levels. Only an earlier column may link to a column."""
    depths, parts = [0] * len(columns), 0
    for number, column in enumerate(columns):
        fields = read_message(column)
        links = [each for field, value in fields if field == 2 for each in _numbers(value)]
        parts += len(fields) + len(links)
        for link in links:
            if not number < link < len(columns):
                raise ValueError("its columns have a link that leads nowhere")
            depths[link] = depths[number] + 1
        if depths[number] > _MOST_DEPTH or parts > _MOST_PARTS:
            raise ValueError("its columns are nested too deeply, or are too many")


def _numbers(value: int | bytes) -> Iterator[int]:
    """Iterate over the numbers of a repeated field: one number, or the bytes of many numbers."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = read_varint(value, at)
        yield number


def read_stripes(source: pa.NativeFile, path: str, tail: Tail) -> list[Stripe]:
    """Return the stripes of a file, in order. Raises as `read_tail`."""
    size, found, left = source.size(), [], _MOST_BYTES
    with _as_damage():
        for field, value in tail.parts:
            if field == 3 and isinstance(value, bytes):
                stripe = dict(read_message(value))
                place = _number(stripe, 1) + _number(stripe, 2) + _number(stripe, 3)
                plain = _plain(_read(source, place, _number(stripe, 4), size), tail.codec, path, left)
                left -= len(plain)
                texts = [text for field, text in read_message(plain) if field == 3 and isinstance(text, bytes)]
                found.append(Stripe(_number(stripe, 5), texts[0].decode() if texts else ""))
    return found


@contextmanager
def _as_damage() -> Iterator[None]:
    """Convert the error of the parser, which speaks of HFiles."""
    try:
        yield
    except CorruptHFileError as error:
        raise ValueError(error.message.replace("HFile", "file")) from error


def _number(message: dict[int, int | bytes], field: int) -> int:
    value = message.get(field, 0)
    if not isinstance(value, int):
        raise ValueError("a field of its tail is no number")
    return value


def _read(source: pa.NativeFile, offset: int, length: int, size: int) -> bytes:
    if offset < 0 or length < 0 or offset + length > size:
        raise ValueError("its tail points beyond the file")
    return bytes(source.read_at(length, offset))


def _plain(data: bytes, codec: int, path: str, most: int) -> bytes:
    """Decompress chunks, each with its length and a flag for uncompressed content. Raises ValueError for more than ``most`` bytes."""
    if codec == _NONE:
        if len(data) > most:
            raise ValueError("its tail is larger than any that is written")
        return data
    parts, at, left = [], 0, most
    while at < len(data):
        head = int.from_bytes(data[at : at + _HEADER_BYTES], "little")
        length, original = head >> 1, head & 1
        chunk = data[at + _HEADER_BYTES : at + _HEADER_BYTES + length]
        if len(chunk) != length:
            raise ValueError("a compressed part of its tail does not end")
        parts.append(chunk if original else _decompressed(chunk, codec, path, left + 1))
        left -= len(parts[-1])
        if left < 0:
            raise ValueError("its tail is larger than any that is written")
        at += _HEADER_BYTES + length
    return b"".join(parts)


def _decompressed(chunk: bytes, codec: int, path: str, most: int) -> bytes:
    """Decompress a chunk, to at most ``most`` bytes."""
    if codec == _ZLIB:
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk, most)
        except zlib.error as error:
            raise ValueError(f"a part of its tail cannot be decompressed: {error}") from error
    if codec == _SNAPPY:
        length, _ = read_varint(chunk, 0)
        if length > most:
            raise ValueError("its tail is larger than any that is written")
        return bytes(pa.Codec("snappy").decompress(chunk, length, asbytes=True))
    if codec == _ZSTD:
        with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
            return bytes(stream.read(most))
    raise UnsupportedTableError(
        f"The ORC file is compressed with codec {codec}, which is not known here",
        path=path,
        hint="Write it with hoodie.orc.compression.codec=ZLIB, or read the table with Hudi.",
    )
