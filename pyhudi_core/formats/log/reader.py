"""Read the blocks of a log file one after the other.

Specification, "Log Format". A block is valid if its two lengths agree and the next block, or the end of the file, follows it. A block that a crash
truncated, and damaged bytes, are skipped up to the next magic and reported. The search for the next magic begins one byte after the start of the
damaged block, since a valid block may directly follow a torn write.

Invariants
- no memory is allocated by a length before it is checked against the size of the file;
- reading takes time linear in the file's size, however many false magics it has; a large hole ends the reading.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator

import pyarrow as pa

from pyhudi_core.errors import CorruptLogBlockError, LimitExceededError, UnsupportedTableError
from pyhudi_core.formats.log.blocks import (
    FORMAT_VERSION,
    MAGIC,
    OLD_VERSION,
    BlockType,
    DamagedBlock,
    Header,
    LogBlock,
)
from pyhudi_core.model.file_names import parse_data_file, split

_log = logging.getLogger(__name__)
_FIRST_CHUNK = 64
_CHUNK = 1 << 20
_FIXED = struct.Struct(">6sqii")
_SMALLEST = _FIXED.size - len(MAGIC) - 8 + 4 + 8 + 4 + 8  # the length of an empty block
_MOST_HEADERS = 1024
_MOST_WARNINGS = 3
MAX_HEADER_BYTES = 64 << 20
"""The maximum bytes of a header. A header can be large, because it has the schema and a bitmap of positions."""
MAX_BLOCK_BYTES = 1 << 30
MAX_SKIPPED_BYTES = 320 << 20
"""The maximum bytes to skip: an unfinished block. Writers make blocks of at most 256 MiB, without the header."""


class LogReader:
    """The blocks of one log file.

    Args:
        source: the file, with random access.
        path: for messages.
        max_block_bytes: largest content that is read at once.
    """

    def __init__(self, source: pa.NativeFile, path: str, max_block_bytes: int = MAX_BLOCK_BYTES) -> None:
        self._source = source
        self._path = path
        self._size: int = source.size()
        self._limit = max_block_bytes
        self.damaged: list[DamagedBlock] = []

    def blocks(self) -> Iterator[LogBlock]:
        """Iterate over the valid blocks, in the order of the file; `damaged` has the skipped bytes so far.

        Raises `UnsupportedTableError` for a block of a kind or version that no release of version 8 writes, and `LimitExceededError` for a hole of
        more than `MAX_SKIPPED_BYTES`.
        """
        at = 0
        while at < self._size:
            found = self._block_at(at)
            if isinstance(found, LogBlock):
                yield found
                at += found.size
            else:
                after = self._next_magic(at + 1)
                self.damaged.append(DamagedBlock(at, after - at, found))
                at = after

    def warn_of_damage(self, table: str) -> None:
        """Log the skipped bytes: as in Hudi the read continues without them, so the user must be informed."""
        for piece in self.damaged[:_MOST_WARNINGS]:
            _log.warning(
                "%s: in %s %s; they were skipped, so rows of its commit may be missing or old. "
                "Restore the file from a copy; `pyhudi check` shows all such files.",
                table,
                self._path,
                piece,
            )
        if len(self.damaged) > _MOST_WARNINGS:
            _log.warning(
                "%s: in %s %d more such pieces were skipped",
                table,
                self._path,
                len(self.damaged) - _MOST_WARNINGS,
            )

    def refuse_damage(self, hint: str) -> None:
        """Raise `CorruptLogBlockError` if bytes were skipped."""
        for piece in self.damaged:
            raise CorruptLogBlockError(str(piece), path=self._path, offset=piece.offset, hint=hint)

    def content(self, block: LogBlock) -> pa.Buffer:
        """Return the content of a block. Raises `LimitExceededError` if it is larger than the limit."""
        if block.content_size > self._limit:
            raise LimitExceededError(
                "A log block is larger than the limit",
                limit=self._limit,
                seen=block.content_size,
                path=self._path,
                hint="Raise the limit if the file is to be trusted, or compact the file group with the writer that made it.",
            )
        return pa.py_buffer(self._read(block.content_offset, block.content_size))

    def _block_at(self, at: int) -> LogBlock | str:
        """Return the block at this position, or the reason why there is no block."""
        if self._size - at < _FIXED.size:
            return "the file ends inside of a block"
        magic, length, version, kind = _FIXED.unpack(self._read(at, _FIXED.size))
        if magic != MAGIC:
            return "there is no block"
        end = at + len(MAGIC) + 8 + length
        if version == OLD_VERSION:
            return self._old_block(kind, at, end)
        if not _SMALLEST <= length <= self._size - at - len(MAGIC) - 8:
            return f"its length {length} does not fit into the file"
        if struct.unpack(">q", self._read(end - 8, 8))[0] != length + len(MAGIC):
            return "its two lengths differ"
        if end < self._size and self._read(end, len(MAGIC)) != MAGIC[: self._size - end]:
            return "no block follows it"
        if version != FORMAT_VERSION:
            raise UnsupportedTableError(
                f"A log block has format version {version}; version {FORMAT_VERSION} is the one of table version 8",
                path=self._path,
                hint="Compact the file group with the release of Hudi that wrote it.",
            )
        return self._parse(self._type(kind), at, end)

    def _old_block(self, kind: int, at: int, end: int) -> LogBlock | str:
        """Return a block of version 0: its content follows its type. The instant in the file's name wrote it."""
        content_offset = at + _FIXED.size + 8
        if not content_offset <= end <= self._size:
            return "its length does not fit into the file"
        if struct.unpack(">q", self._read(content_offset - 8, 8))[0] != end - content_offset:
            return "its two lengths differ"
        if end < self._size and self._read(end, len(MAGIC)) != MAGIC[: self._size - end]:
            return "no block follows it"
        name = parse_data_file(split(self._path)[1])
        headers = {} if name is None else {int(Header.INSTANT_TIME): name.requested_time}
        return LogBlock(self._type(kind), headers, at, end - at, content_offset, end - content_offset, OLD_VERSION)

    def _type(self, kind: int) -> BlockType:
        if kind not in BlockType._value2member_map_:
            raise UnsupportedTableError(
                f"A log block has type {kind}, which no release of table version 8 writes",
                path=self._path,
                hint="Compact the file group with the release of Hudi that wrote it.",
            )
        return BlockType(kind)

    def _parse(self, kind: BlockType, at: int, end: int) -> LogBlock:
        headers, after = self._map(at + _FIXED.size, end - 8)
        (content_size,) = struct.unpack(">q", self._read(self._inside(after, 8, end), 8))
        content_offset = after + 8
        if not 0 <= content_size <= end - 8 - 4 - content_offset:
            raise self._corrupt(f"its content has {content_size} bytes, which do not fit into the block", at)
        _, after_footer = self._map(content_offset + content_size, end - 8)
        if after_footer != end - 8:
            raise self._corrupt("there are bytes between its footer and its end", at)
        return LogBlock(kind, headers, at, end - at, content_offset, content_size)

    def _map(self, at: int, end: int) -> tuple[dict[int, str], int]:
        """Parse a header map; return it and the position behind it."""
        start = at
        (count,) = struct.unpack(">i", self._read(self._inside(at, 4, end), 4))
        if not 0 <= count <= _MOST_HEADERS:
            raise self._corrupt(f"a header map has {count} entries", at)
        at += 4
        found: dict[int, str] = {}
        for _ in range(count):
            key, length = struct.unpack(">ii", self._read(self._inside(at, 8, end), 8))
            at += 8
            if length < 0 or at + length - start > MAX_HEADER_BYTES:
                raise self._corrupt(f"a header has a length of {length}", at)
            text = self._read(self._inside(at, length, end), length)
            try:
                found[key] = text.decode("utf-8")
            except UnicodeDecodeError:
                raise self._corrupt(f"header {key} is not UTF-8", at) from None
            at += length
        return found, at

    def _inside(self, at: int, length: int, end: int) -> int:
        if at + length > end:
            raise self._corrupt("a part of it lies outside of the block", at)
        return at

    def _next_magic(self, at: int) -> int:
        """Find the next magic, or the end of the file. Chunks grow, so that a file of false magics is not read repeatedly."""
        length, start = _FIRST_CHUNK, at
        while at < self._size:
            if at - start > MAX_SKIPPED_BYTES:
                raise LimitExceededError(
                    "A log file has no block in more bytes than the limit",
                    limit=MAX_SKIPPED_BYTES,
                    seen=self._size - start,
                    path=self._path,
                    hint="No writer leaves such a hole: restore the file from a copy.",
                )
            chunk = self._read(at, min(length, self._size - at))
            length = min(length * 2, _CHUNK)
            found = chunk.find(MAGIC)
            if found >= 0:
                return at + found
            if at + len(chunk) >= self._size:
                return self._size
            at += len(chunk) - len(MAGIC) + 1
        return self._size

    def _read(self, at: int, length: int) -> bytes:
        self._source.seek(at)
        data: bytes = self._source.read(length)
        return data

    def _corrupt(self, reason: str, at: int) -> CorruptLogBlockError:
        return CorruptLogBlockError(
            f"A log block is damaged: {reason}",
            path=self._path,
            offset=at,
            hint="Its lengths are consistent, so it was written like this or changed later; restore the file from a copy.",
        )
