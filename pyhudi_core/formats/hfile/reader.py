"""Read an HFile: all entries, some keys, or the keys with some prefixes; only the needed blocks are read.

HFile version 3 as Hudi writes it (HBase's writer in release 1.0, its own since 1.1). The trailer is the last 4,096 bytes; the index of
data blocks may have several levels. Keys are in the order of their bytes, or, in release 1.0, in the order of Java's strings; the
two differ from U+E000 on.

Invariants
- sizes and offsets are checked against the file before they are used; payloads are bounded by a limit;
- an index that leads in circles, or to the same block repeatedly, is detected: levels are counted, and the bytes of all blocks on a
  walk through the file are at most the file's size;
- the objects made from a block are bounded by the file's size, or by a number of entries, even if the decompressed block is much larger.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import LimitExceededError, at_file
from pyhudi_core.formats.byte_columns import contents
from pyhudi_core.formats.hfile import data_block as blocks
from pyhudi_core.formats.hfile.data_block import Block, Entries, parse_data, parse_together
from pyhudi_core.formats.hfile.protobuf import corrupt, read_hadoop_vlong, read_message, read_varint

TRAILER_SIZE = 4096
TRAILER_MAGIC = b'TRABLK"$'
BLOOM_META = b"bloomFilter"
MAX_BLOCK_BYTES = 256 << 20
_MAX_LEVELS = 8
_MOST_ENTRIES = 1 << 26
_BYTES_AT_ONCE = 2 << 20
_REMEMBERED_BYTES, _REMEMBERED_PAYLOADS = 32 << 10, 256 << 10
"""Two limits in bytes for remembered files: of the file, and of its payloads. The payloads may have a thousand times as many bytes as the file."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The position of a block, and its first key (or a key between the previous block and it)."""

    key: bytes
    offset: int
    size: int


class HFileReader:
    """One HFile. ``blocks_read`` counts the data and index blocks read after opening.

    Raises `CorruptHFileError`, `LimitExceededError` or `UnsupportedTableError`.
    """

    def __init__(self, source: pa.NativeFile, path: str = "", max_block_bytes: int = MAX_BLOCK_BYTES) -> None:
        self._source = source
        self.path = path
        self._limit = max_block_bytes
        self._size: int = source.size()
        self.blocks_read = 0
        self._parsed: dict[int, Entries] | None = None
        with at_file(path):
            trailer = self._trailer()
            self.entry_count = trailer.get(7, 0)
            self._levels = trailer.get(8, 1)
            self._codec = blocks.codec_of(trailer.get(12, 0))
            at = trailer.get(2, -1)
            data_index, at = self._load(at, blocks.ROOT_INDEX)
            self._root = _root_entries(data_index.payload, self._possible(trailer.get(5, 0)), strip=True)
            meta_index, at = self._load(at, blocks.ROOT_INDEX)
            self._meta = _root_entries(meta_index.payload, self._possible(trailer.get(6, 0)), strip=False)
            info, _ = self._load(trailer.get(1, at), blocks.FILE_INFO)
            self.info = _file_info(info.payload)
            if not 1 <= self._levels <= _MAX_LEVELS or not 0 <= self.entry_count <= _MOST_ENTRIES:
                raise corrupt("its trailer holds impossible numbers")
            if struct.unpack(">q", self.info.get(b"MAX_MEMSTORE_TS_KEY", b"").rjust(8, b"\0")[:8])[0] > 0:
                raise corrupt("its entries have versions, which Hudi does not read")

    @classmethod
    def of_bytes(cls, content: pa.Buffer | bytes, path: str = "") -> HFileReader:
        """Read a file that is held in memory. A small file that was read before is not parsed again: blocks of logs never change, and each commit
        reads the blocks of earlier commits.
        """
        source = pa.BufferReader(content)
        if source.size() > _REMEMBERED_BYTES:
            return cls(source, path)
        try:
            with at_file(path):
                found = copy(_remembered(content if isinstance(content, bytes) else content.to_pybytes()))
        except LimitExceededError:
            return cls(source, path)
        found.path, found._source, found._limit = path, source, MAX_BLOCK_BYTES
        return found

    @property
    def schema(self) -> str:
        """The Avro schema of the values; empty if it has none."""
        return self.info.get(b"schema", b"").decode("utf-8", "replace")

    def meta(self, name: bytes) -> bytes | None:
        """Return the payload of a meta block, such as the bloom filter."""
        with at_file(self.path):
            for entry in self._meta:
                if entry.key == name:
                    return self._load(entry.offset, blocks.META)[0].payload
            return None

    def scan(self) -> Iterator[Entries]:
        """Iterate over all entries, a data block at a time."""
        with at_file(self.path):
            walk = self._walk()
            for leaf in self._leaves(self._root, self._levels, walk):
                walk.pay(leaf.size)
                yield self._entries(leaf)

    def lookup(self, keys: Sequence[bytes]) -> Iterator[Entries]:
        """Return the entries with these keys; every data block that can hold one is read once."""
        with at_file(self.path):
            wanted = sorted(set(keys))
            for leaf, inside in self._route(wanted):
                found = self._entries(leaf)
                here = {key: number for number, key in enumerate(found.key_list())}
                which = [here[key] for key in inside if key in here]
                if which:
                    yield found.select(np.array(which, np.int64))

    def lookup_column(self, keys: pa.BinaryArray) -> Iterator[Entries]:
        """Look up keys as `lookup`, for a column of keys in the order of their bytes.

        No key becomes a Python object, except keys from U+E000 on.
        """
        with at_file(self.path):
            odd = depend_on_order(keys)
            if odd.any():
                yield from self.lookup(keys.filter(pa.array(odd)).to_pylist())
                keys = keys.filter(pa.array(~odd))
            for payloads, inside in self._together(self._route_column(self._root, self._levels, keys)):
                found = parse_together(payloads)
                which = pc.index_in(inside, value_set=found.key_array()).drop_null()
                if len(which):
                    yield found.copied(np.sort(which.to_numpy().astype(np.int64)))

    def _together(
        self, routed: Iterator[tuple[IndexEntry, pa.BinaryArray]]
    ) -> Iterator[tuple[list[bytes], pa.ChunkedArray]]:
        """Yield several data blocks with their keys at a time, because each call with columns has a price. The memory of the blocks is limited."""
        payloads: list[bytes] = []
        keys: list[pa.BinaryArray] = []
        size = 0
        for leaf, inside in routed:
            payloads.append(self._payload(leaf))
            keys.append(inside)
            size += len(payloads[-1])
            if size >= _BYTES_AT_ONCE:
                yield payloads, pa.chunked_array(keys)
                payloads, keys, size = [], [], 0
        if payloads:
            yield payloads, pa.chunked_array(keys)

    def lookup_prefixes(self, prefixes: Sequence[bytes]) -> Iterator[Entries]:
        """Return the entries whose key begins with one of these prefixes."""
        with at_file(self.path):
            wanted = set(prefixes)
            lengths = sorted({len(prefix) for prefix in wanted})
            doubtful = [prefix for prefix in wanted if depends_on_order(prefix)]
            walk = self._walk()
            leaves = list(self._leaves(self._root, self._levels, walk))
            for number, leaf in enumerate(leaves):
                after = leaves[number + 1].key if number + 1 < len(leaves) else None
                first = leaf.key if number else b""
                if not any(_may_hold(prefix, first, after) for prefix in wanted) and not any(
                    _may_hold(java_order(prefix), java_order(first), None if after is None else java_order(after))
                    for prefix in doubtful
                ):
                    continue
                walk.pay(leaf.size)
                found = self._entries(leaf)
                which = [n for n, key in enumerate(found.key_list()) if any(key[:size] in wanted for size in lengths)]
                if which:
                    yield found.select(np.array(which, np.int64))

    def _route(self, wanted: list[bytes]) -> Iterator[tuple[IndexEntry, list[bytes]]]:
        """Return the data blocks for sorted keys, each with the keys that may be in the block."""

        def down(entries: list[IndexEntry], level: int, keys: list[bytes]) -> Iterator[tuple[IndexEntry, list[bytes]]]:
            starts = [entry.key for entry in entries]
            groups: dict[int, list[bytes]] = {}
            for key in keys:
                places = {bisect_right(starts, key) - 1}
                if depends_on_order(key):
                    places.add(bisect_right(starts, java_order(key), key=java_order) - 1)
                for place in places - {-1}:
                    groups.setdefault(place, []).append(key)
            for place, inside in groups.items():
                if level == 1:
                    yield entries[place], inside
                else:
                    yield from down(self._index(entries[place]), level - 1, inside)

        yield from down(self._root, self._levels, wanted)

    def _route_column(
        self, entries: list[IndexEntry], level: int, keys: pa.BinaryArray
    ) -> Iterator[tuple[IndexEntry, pa.BinaryArray]]:
        """Yield the data blocks for sorted keys, each with its part of the keys."""
        places = places_among([entry.key for entry in entries], keys)
        edges = np.flatnonzero(np.diff(places, prepend=-2, append=-2))
        for begin, end in pairwise(edges.tolist()):
            if places[begin] < 0:
                continue
            entry, inside = entries[places[begin]], keys.slice(begin, end - begin)
            if level == 1:
                yield entry, inside
            else:
                yield from self._route_column(self._index(entry), level - 1, inside)

    def _walk(self) -> _Walk:
        return _Walk(self._size)

    def _leaves(self, entries: list[IndexEntry], level: int, walk: _Walk) -> Iterator[IndexEntry]:
        for entry in entries:
            if level == 1:
                yield entry
            else:
                walk.pay(entry.size)
                yield from self._leaves(self._index(entry), level - 1, walk)

    def _index(self, entry: IndexEntry) -> list[IndexEntry]:
        found = self._block(entry.offset, entry.size)
        if found.magic not in (blocks.LEAF_INDEX, blocks.MIDDLE_INDEX):
            raise corrupt("its index leads to something else")
        return _inner_entries(found.payload, self._possible(_count(found.payload)))

    def _possible(self, count: int) -> int:
        """Check a number of blocks: each block takes at least its header in the file."""
        if not 0 <= count <= self._size // blocks.HEADER.size:
            raise corrupt("its index has impossible numbers")
        return count

    def _entries(self, entry: IndexEntry) -> Entries:
        if self._parsed is None:
            return parse_data(self._payload(entry))
        found = self._parsed.get(entry.offset)
        if found is not None:
            self.blocks_read += 1
            return found
        found = parse_data(self._payload(entry))
        if sum(len(known.data) for known in [*self._parsed.values(), found]) <= _REMEMBERED_PAYLOADS:
            self._parsed[entry.offset] = found
        return found

    def _payload(self, entry: IndexEntry) -> bytes:
        """Return the bytes of a data block."""
        found = self._block(entry.offset, entry.size)
        if found.magic != blocks.DATA:
            raise corrupt("its index leads to something that is no data")
        return found.payload

    def _block(self, offset: int, size: int) -> Block:
        self.blocks_read += 1
        return blocks.decode(self._read(offset, size), self._codec, self._limit)

    def _load(self, offset: int, magic: bytes) -> tuple[Block, int]:
        """Return the block at an offset, and the offset of the next one."""
        found, size = blocks.header_of(self._read(offset, blocks.HEADER.size))
        if found != magic:
            raise corrupt("there is no block where its trailer says")
        return blocks.decode(self._read(offset, size), self._codec, self._limit), offset + size

    def _trailer(self) -> dict[int, int]:
        if self._size < TRAILER_SIZE:
            raise corrupt("it is shorter than its trailer")
        data = self._read(self._size - TRAILER_SIZE, TRAILER_SIZE)
        if data[: len(TRAILER_MAGIC)] != TRAILER_MAGIC or data[-1] != 3:
            raise corrupt("it has no trailer of version 3")
        length, at = read_varint(data, len(TRAILER_MAGIC))
        if length > TRAILER_SIZE - at - 4:
            raise corrupt("its trailer has no end")
        return {number: value for number, value in read_message(data[at : at + length]) if isinstance(value, int)}

    def _read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise corrupt("a part of it lies outside of the file")
        self._source.seek(offset)
        data: bytes = self._source.read(length)
        return data


@lru_cache(maxsize=128)
def _remembered(content: bytes) -> HFileReader:
    """Return the reader of a small file, to be copied."""
    found = HFileReader(pa.BufferReader(content), max_block_bytes=_REMEMBERED_PAYLOADS)
    found._parsed = {}
    return found


@dataclass(slots=True)
class _Walk:
    """Limits the bytes of blocks that a walk through the complete file may still read: it reads each block once."""

    left: int

    def pay(self, size: int) -> None:
        """Count a block of this size before it is read."""
        self.left -= max(size, blocks.HEADER.size)
        if self.left < 0:
            raise corrupt("its index leads to the same blocks again and again")


def _root_entries(payload: bytes, count: int, strip: bool) -> list[IndexEntry]:
    """Parse the entries of a root index; ``strip`` extracts the row from full keys."""
    found: list[IndexEntry] = []
    at = 0
    for _ in range(count):
        if at + 12 > len(payload):
            raise corrupt("its index does not end")
        offset, size = struct.unpack_from(">qi", payload, at)
        length, start = _key_length(payload, at + 12)
        key = payload[start : start + length]
        at = start + length
        found.append(IndexEntry(_row(key) if strip else key, offset, size))
    return found


def _key_length(payload: bytes, at: int) -> tuple[int, int]:
    """Read the length of an index key: Hadoop's number, or protobuf's, which release 1.1.1 writes."""
    length, start = read_hadoop_vlong(payload, at)
    if 0 <= length <= len(payload) - start:
        return length, start
    length, start = read_varint(payload, at)
    if length > len(payload) - start:
        raise corrupt("a key of its index does not end")
    return length, start


def _count(payload: bytes) -> int:
    """Read the number of entries at the start of a leaf or middle index."""
    if len(payload) < 8:
        raise corrupt("an index block is too short")
    return int(struct.unpack_from(">i", payload)[0])


def _inner_entries(payload: bytes, count: int) -> list[IndexEntry]:
    """Parse the entries of a leaf or middle index: offsets of the entries first, then the entries."""
    first = 4 + 4 * (count + 1)
    if count > len(payload) // 16 or first > len(payload):
        raise corrupt("an index block has impossible numbers")
    places = struct.unpack_from(f">{count + 1}i", payload, 4)
    found: list[IndexEntry] = []
    for start, end in zip(places, places[1:], strict=False):
        if not 0 <= start <= end - 12 or first + end > len(payload):
            raise corrupt("an index block has impossible numbers")
        offset, size = struct.unpack_from(">qi", payload, first + start)
        found.append(IndexEntry(_row(payload[first + start + 12 : first + end]), offset, size))
    return found


def _row(key: bytes) -> bytes:
    """Return the row of a key: its length, the row, and HBase's tail."""
    if len(key) < 2:
        raise corrupt("a key is too short")
    (length,) = struct.unpack_from(">h", key)
    if not 0 <= length <= len(key) - 2:
        raise corrupt("a key does not end")
    return key[2 : 2 + length]


def _file_info(payload: bytes) -> dict[bytes, bytes]:
    if payload[:4] != b"PBUF":
        raise corrupt("its file info is in a form that Hudi does not write")
    length, at = read_varint(payload, 4)
    found: dict[bytes, bytes] = {}
    for number, pair in read_message(payload[at : at + length]):
        if number == 1 and isinstance(pair, bytes):
            parts = {n: v for n, v in read_message(pair) if isinstance(v, bytes)}
            found[parts.get(1, b"")] = parts.get(2, b"")
    return found


def _may_hold(prefix: bytes, first: bytes, after: bytes | None) -> bool:
    """Say whether a block from ``first`` up to (not including) ``after`` can hold a key with the prefix."""
    return (after is None or prefix < after) and (prefix >= first or first.startswith(prefix))


_DOUBTFUL = 0xEE
"""The first byte of U+E000 in UTF-8."""


def depends_on_order(key: bytes) -> bool:
    """Say whether a key has characters from U+E000 on."""
    return max(key, default=0) >= _DOUBTFUL


def depend_on_order(keys: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Say for which keys of a column the order of bytes and the order of Java strings differ."""
    data, lengths = contents(keys)
    found = np.zeros(len(keys), bool)
    found[np.searchsorted(np.cumsum(lengths), np.flatnonzero(data >= _DOUBTFUL), side="right")] = True
    return found


def places_among(starts: list[bytes], keys: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """Return for each key the number of the last start that is not above the key; -1 if all starts are above the key.

    The keys are sorted, and do not depend on the order of starts.
    """
    merged = pa.table(
        {
            "key": pa.chunked_array([pa.array(starts, pa.binary()), keys]),
            "is_key": pa.array(np.arange(len(starts) + len(keys)) >= len(starts)),
        }
    )
    order = pc.sort_indices(merged, [("key", "ascending"), ("is_key", "ascending")]).to_numpy()
    is_start = order < len(starts)
    return np.asarray(np.cumsum(is_start)[~is_start] - 1, np.int64)


def java_order(key: bytes) -> bytes:
    """Return the sort key of Java strings: UTF-16 units. Index keys may be cut inside a character."""
    return key.decode("utf-8", "ignore").encode("utf-16-be")
