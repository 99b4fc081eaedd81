"""The blocks of a log file: their names in the format, their layout in bytes, and their creation.

Specification, "Log Format", corrected by files that Hudi wrote: type and header numbers begin at 0, and there are no header or footer lengths. All
integers are big-endian. A block is

    magic 6 | length 8 | version 4 | type 4 | header map | content length 8 | content | footer map | total length 8

where ``length`` counts the bytes after it, and the total length at the end is ``length`` + 6, so that the file can be read backwards. A map is an
int count and, for each entry, an int key, an int length and UTF-8 text.

Version 0 of the format has no header, no footer and no total length, as its flags say; the content has the schema of records. No release of
table version 8 writes it.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from pyhudi_core.errors import CorruptLogBlockError

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
OLD_VERSION = 0
CONTENT_VERSION = 3
"""The first int of the content of Avro, CDC and delete blocks."""
LARGEST_BLOCK = (1 << 31) - 1


class BlockType(IntEnum):
    """Kinds of blocks, by their number in the file."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


DATA_BLOCKS = frozenset({BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA})
"""Blocks that hold rows."""
_ORDERED_BY_POSITION = frozenset({BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.DELETE})


class Header(IntEnum):
    """Keys of the header map, by their number in the file."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


ROLLBACK_COMMAND = "0"
"""The one command: forget the blocks of the target instant."""


@dataclass(frozen=True, slots=True)
class LogBlock:
    """A complete block of a log file; its content is read on request.

    Attributes:
        type: the kind of content.
        headers: texts by the number of their key; unknown numbers are kept.
        offset, size: position and size in the file, from the magic to the end of the block.
        content_offset, content_size: position and size of its content.
        version: the version of the format.
    """

    type: BlockType
    headers: Mapping[int, str]
    offset: int
    size: int
    content_offset: int
    content_size: int
    version: int = FORMAT_VERSION

    @property
    def instant_time(self) -> str:
        """The requested time of the deltacommit that wrote the block; empty if the block does not have it."""
        return self.headers.get(Header.INSTANT_TIME, "")

    @property
    def is_partial(self) -> bool:
        """Whether records hold only some of the columns."""
        return self.headers.get(Header.IS_PARTIAL, "").lower() == "true"

    def has_positions(self, base_time: str) -> bool:
        """Return whether the block has positions in the base file with this requested time. In blocks of some types, the entries are
        not in the order of the positions."""
        stated = self.headers.get(Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)
        return stated == base_time and self.type in _ORDERED_BY_POSITION and self.version != OLD_VERSION

    @property
    def compacted_times(self) -> tuple[str, ...]:
        """Return the instants whose blocks this block replaces (log compaction), newest first."""
        text = self.headers.get(Header.COMPACTED_BLOCK_TIMES, "")
        return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class DamagedBlock:
    """Bytes between two valid blocks, or after the last block, that are not a block: readers skip and report them."""

    offset: int
    size: int
    reason: str

    def __str__(self) -> str:
        return f"{self.size:,} bytes at offset {self.offset} are no log block ({self.reason})"


def encode_block(kind: BlockType, headers: Mapping[Header, str], content: bytes) -> bytes:
    """Return the bytes of one block. Raises ValueError if it would be larger than readers accept."""
    head = encode_map(headers)
    foot = encode_map({})
    length = 4 + 4 + len(head) + 8 + len(content) + len(foot) + 8
    if length > LARGEST_BLOCK:
        raise ValueError(f"a log block of {length} bytes; readers take {LARGEST_BLOCK}")
    start = struct.pack(">6sqii", MAGIC, length, FORMAT_VERSION, kind)
    return b"".join(
        (start, head, struct.pack(">q", len(content)), content, foot, struct.pack(">q", length + len(MAGIC)))
    )


def encode_map(entries: Mapping[Header, str]) -> bytes:
    """Encode a header or footer map; keys in the order of their numbers."""
    parts = [struct.pack(">i", len(entries))]
    for key, text in sorted(entries.items()):
        data = text.encode("utf-8")
        parts += [struct.pack(">ii", key, len(data)), data]
    return b"".join(parts)


# --- positions of records in a base file, as in headers of log blocks: a 64-bit Roaring bitmap in Base64
# Roaring's portable format for 64 bits (its format specification; Chambi, Lemire, Kaser and Godin, "Better bitmap performance with Roaring
# bitmaps", 2016). A writer may always omit them.

MAX_POSITIONS = 1 << 24
"""The maximum number of positions of one block, whose rows have at most 256 MB. Runs of positions take almost no bytes, so without a limit a small
text could take any amount of memory."""


def decode_positions(text: str, most: int = MAX_POSITIONS) -> npt.NDArray[np.uint64]:
    """Return the positions, ascending. Raises `CorruptLogBlockError`, also for more than ``most`` positions."""
    try:
        found = BitMap64.deserialize(base64.b64decode(text, validate=True))
    except (ValueError, IndexError, binascii.Error, MemoryError) as error:
        raise _corrupt("they are no bitmap") from error
    if len(found) > most:
        raise _corrupt(f"there are {len(found)} of them")
    return np.fromiter(found, np.uint64, len(found))


def encode_positions(positions: Iterable[int]) -> str:
    """Return the text for a header. Runs of positions are encoded as runs, as by Hudi, so they take few bytes."""
    found = BitMap64(positions)
    found.run_optimize()
    return base64.b64encode(found.serialize()).decode()


def _corrupt(reason: str) -> CorruptLogBlockError:
    return CorruptLogBlockError(
        f"The positions in a log block are damaged: {reason}",
        hint="Restore the file from a copy, or roll its instant back.",
    )
