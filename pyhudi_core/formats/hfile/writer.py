"""Write an HFile that every release of Hudi reads.

HFile version 3 in the form that Hudi 1.0 to 1.2 accepts. Blocks are small, because Java's reader loses the last entries of a block whose checksums
are as long as these entries. Index keys have Hadoop's lengths, which all releases read, except 1.1.1 from 128 bytes on.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DataError
from pyhudi_core.formats.byte_columns import Bytes, Ints, contents
from pyhudi_core.formats.hfile import data_block as blocks
from pyhudi_core.formats.hfile.data_block import Codec
from pyhudi_core.formats.hfile.protobuf import bytes_field, number_field, write_hadoop_vlong, write_varint
from pyhudi_core.formats.hfile.reader import BLOOM_META, TRAILER_MAGIC, TRAILER_SIZE, IndexEntry
from pyhudi_core.model.record_key import LONGEST_INDEXED

BLOCK_BYTES = 64 << 10
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_FEW = 64  # a step over an array costs as much as some hundred bytes
_ENTRIES_AT_ONCE = 16_384  # limits memory: the position of one byte takes eight bytes


class HFileWriter:
    """Collects entries in ascending order of their keys' bytes; `finish` returns the file's bytes."""

    def __init__(self, schema: str, codec: Codec = Codec.GZIP, block_bytes: int = BLOCK_BYTES) -> None:
        self._schema = schema
        self._codec = codec
        self._block_bytes = block_bytes
        self._parts: list[bytes] = []
        self._at = 0
        self._index: list[IndexEntry] = []
        self._payload = bytearray()
        self._first = b""
        self._last: bytes | None = None
        self._count = 0
        self._key_bytes = 0
        self._value_bytes = 0
        self._plain = 0
        self._previous = -1

    def add(self, key: bytes, value: bytes) -> None:
        """Add one entry. Raises as `add_batch`."""
        self.add_batch(pa.array([key], pa.large_binary()), pa.array([value], pa.large_binary()))

    def add_batch(self, keys: pa.Array, values: pa.Array) -> None:
        """Add entries as two columns of bytes or texts without nulls. Raises `DataError` for keys that are too long or not in order.

        Few values that many keys share may be a dictionary of bytes (`encode_entries`).
        """
        keys = keys.cast(pa.large_binary())
        values = values if isinstance(values, pa.DictionaryArray) else values.cast(pa.large_binary())
        if len(keys) != len(values) or keys.null_count or values.null_count:
            raise DataError("Keys and values of an HFile are equally many, and none is null", hint="Leave nulls out.")
        refuse_disorder(self._last, keys)
        for first in range(0, len(keys), _ENTRIES_AT_ONCE):
            self._add(keys.slice(first, _ENTRIES_AT_ONCE), values.slice(first, _ENTRIES_AT_ONCE))

    def _add(self, keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray | pa.DictionaryArray) -> None:
        """Add entries in order; a block ends with the first entry that fills it."""
        entries = encode_entries(keys, values)
        begun = done = 0
        while done < len(keys):
            if not self._payload:
                self._first = keys[done].as_py()
            room = begun + self._block_bytes - len(self._payload)
            done = min(int(np.searchsorted(entries.ends, room)) + 1, len(keys))
            end = int(entries.ends[done - 1])
            self._payload += entries.payload[begun:end].data
            begun = end
            if len(self._payload) >= self._block_bytes:
                self._end_block()
        self._last = keys[-1].as_py()
        self._count += len(keys)
        self._key_bytes += entries.key_bytes
        self._value_bytes += entries.value_bytes

    def finish(self, bloom: bytes | None = None, info: Mapping[bytes, bytes] | None = None) -> bytes:
        """Return the file. ``bloom`` is the text of a bloom filter; ``info`` is added to the file info that every file has."""
        self._end_block()
        meta: list[IndexEntry] = []
        if bloom is not None:
            meta.append(IndexEntry(BLOOM_META, self._at, self._append(blocks.META, bloom, -1)))
        load_on_open = self._at
        root = _index_payload(self._index, full=True)
        self._append(blocks.ROOT_INDEX, root, -1)
        self._append(blocks.ROOT_INDEX, _index_payload(meta, full=False), load_on_open)
        info_at = self._at
        self._append(blocks.FILE_INFO, self._file_info(info or {}), -1)
        return b"".join(self._parts) + self._trailer(info_at, load_on_open, len(root), len(meta))

    def _end_block(self) -> None:
        if not self._payload:
            return
        at = self._at
        size = self._append(blocks.DATA, bytes(self._payload), self._previous)
        self._previous = at
        self._index.append(IndexEntry(self._first, at, size))
        self._payload.clear()

    def _append(self, magic: bytes, payload: bytes, previous: int) -> int:
        data = blocks.encode(magic, payload, self._codec, previous)
        self._parts.append(data)
        self._at += len(data)
        self._plain += blocks.HEADER.size + len(payload)
        return len(data)

    def _file_info(self, more: Mapping[bytes, bytes]) -> bytes:
        count = max(1, self._count)
        entries = {
            b"KEY_VALUE_VERSION": struct.pack(">i", 1),
            b"MAX_MEMSTORE_TS_KEY": struct.pack(">q", 0),
            b"hfile.AVG_KEY_LEN": struct.pack(">i", self._key_bytes // count),
            b"hfile.AVG_VALUE_LEN": struct.pack(">i", self._value_bytes // count),
            b"hfile.CREATE_TIME_TS": struct.pack(">q", 0),
            b"schema": self._schema.encode(),
            **({b"hfile.LASTKEY": _full_key(self._last)} if self._last is not None else {}),
            **more,
        }
        pairs = (bytes_field(1, key) + bytes_field(2, value) for key, value in sorted(entries.items()))
        message = b"".join(bytes_field(1, pair) for pair in pairs)
        return b"PBUF" + write_varint(len(message)) + message

    def _trailer(self, info_at: int, load_on_open: int, root_size: int, metas: int) -> bytes:
        first = self._index[0].offset if self._index else -1
        last = self._index[-1].offset if self._index else -1
        unsigned = (1 << 64) - 1
        numbers = {
            1: info_at,
            2: load_on_open,
            3: root_size,
            4: self._plain + TRAILER_SIZE,
            5: len(self._index),
            6: metas,
            7: self._count,
            8: 1,
            9: first & unsigned,
            10: last & unsigned,
        }
        fields = [number_field(number, value) for number, value in numbers.items()]
        message = b"".join((*fields, bytes_field(11, _COMPARATOR), number_field(12, self._codec)))
        head = TRAILER_MAGIC + write_varint(len(message)) + message
        return head.ljust(TRAILER_SIZE - 4, b"\0") + bytes((3, 0, 0, 3))


def _full_key(key: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + KEY_TAIL


def _index_payload(entries: list[IndexEntry], full: bool) -> bytes:
    """Encode the entries of a root index; entries of data blocks hold full keys, entries of meta blocks hold names."""
    parts: list[bytes] = []
    for entry in entries:
        key = _full_key(entry.key) if full else entry.key
        parts += [struct.pack(">qi", entry.offset, entry.size), write_hadoop_vlong(len(key)), key]
    return b"".join(parts)


KEY_TAIL = struct.pack(">bqb", 0, 0x7FFFFFFFFFFFFFFF, 4)
KEY_OVERHEAD = 2 + len(KEY_TAIL)
_HEAD = np.dtype([("full", ">i4"), ("value", ">i4"), ("row", ">i2")])
"""The lengths before a key: of the full key, of the value, and of the row."""


@dataclass(frozen=True, slots=True)
class EntryRuns:
    """Consecutive entries: their bytes, the end of each, and the total bytes of keys and of values."""

    payload: Bytes
    ends: Ints
    key_bytes: int
    value_bytes: int


def refuse_disorder(previous: bytes | None, keys: pa.LargeBinaryArray) -> None:
    """Raise `DataError` unless all keys are short enough and in ascending order of their bytes, beginning after ``previous``."""
    if len(keys) <= _FEW:
        listed = keys.to_pylist()
        longest = max(map(len, listed), default=0)
        falls = any(one >= other for one, other in pairwise(listed))
    else:
        longest = pc.max(pc.binary_length(keys)).as_py() or 0
        falls = pc.any(pc.less_equal(keys.slice(1), keys.slice(0, len(keys) - 1))).as_py()
    if longest > LONGEST_INDEXED:
        raise DataError(
            f"A key of {longest:,} bytes is too long for an index of the table, whose keys have at most {LONGEST_INDEXED:,} bytes",
            hint="Take a shorter record key, such as a hash of the text, or drop the index: table.indexes.drop(name).",
        )
    if falls or (len(keys) and previous is not None and keys[0].as_py() <= previous):
        raise DataError("Keys of an HFile are sorted without repetition", hint="Sort them first.")


def encode_entries(keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray | pa.DictionaryArray) -> EntryRuns:
    """Encode the entries of keys and values; neither has nulls. A dictionary of values is encoded once for each of them, not for each key."""
    if len(keys) <= _FEW:
        return _few_entries(keys.to_pylist(), values.to_pylist())
    key_sizes = pc.binary_length(keys).to_numpy(zero_copy_only=False).astype(np.int64)
    rest: list[pa.Array | pa.Scalar]
    if isinstance(values, pa.DictionaryArray):
        known = values.dictionary.to_pylist()
        value_sizes = np.array([len(value) for value in known], np.int64)[values.indices.to_numpy()]
        behind = pa.array([KEY_TAIL + value + b"\0" for value in known], pa.large_binary())
        rest = [behind[0] if len(known) == 1 else behind.take(values.indices)]
    else:
        value_sizes = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
        rest = [pa.scalar(KEY_TAIL, pa.large_binary()), values, pa.scalar(b"\0", pa.large_binary())]
    lengths = np.empty(len(keys), _HEAD)
    lengths["full"], lengths["value"], lengths["row"] = key_sizes + KEY_OVERHEAD, value_sizes, key_sizes
    places = np.arange(len(keys) + 1) * _HEAD.itemsize
    buffers = [None, pa.py_buffer(places), pa.py_buffer(lengths.tobytes())]
    heads = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(keys), buffers)
    payload, sizes = contents(pc.binary_join_element_wise(heads, keys, *rest, pa.scalar(b"", pa.large_binary())))
    return EntryRuns(payload, np.cumsum(sizes), int(lengths["full"].sum()), int(value_sizes.sum()))


def _few_entries(keys: list[bytes], values: list[bytes]) -> EntryRuns:
    pairs = zip(keys, values, strict=True)
    heads = struct.Struct(">iih")
    entries = [
        b"".join((heads.pack(len(key) + KEY_OVERHEAD, len(value), len(key)), key, KEY_TAIL, value, b"\0"))
        for key, value in pairs
    ]
    ends = np.cumsum(np.array([len(entry) for entry in entries], np.int64))
    key_bytes = sum(map(len, keys)) + KEY_OVERHEAD * len(keys)
    return EntryRuns(np.frombuffer(b"".join(entries), np.uint8), ends, key_bytes, sum(map(len, values)))
