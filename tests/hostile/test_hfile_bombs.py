"""HFiles whose index leads to the same blocks again and again, and small files that unfold to very much (promise P9)."""

from __future__ import annotations

import struct
import time
from functools import cache

import pyarrow as pa
import pytest
from support.fuzzing import MEGABYTE, measured_memory
from support.speed import slowness

from pyhudi_core.errors import HudiError
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.formats.hfile import data_block as blocks
from pyhudi_core.formats.hfile.data_block import Codec
from pyhudi_core.formats.hfile.protobuf import bytes_field, number_field, write_hadoop_vlong, write_varint
from pyhudi_core.formats.hfile.reader import TRAILER_MAGIC, TRAILER_SIZE

TAIL = struct.pack(">bqb", 0, 0x7FFFFFFFFFFFFFFF, 4)


def full(key: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + TAIL


def root_entry(offset: int, size: int, key: bytes = b"k") -> bytes:
    return struct.pack(">qi", offset, size) + write_hadoop_vlong(len(full(key))) + full(key)


def data_block(entries: int, codec: Codec = Codec.NONE) -> bytes:
    rows = (struct.pack(">ii", len(full(key)), 0) + full(key) + b"\0" for key in (b"k%06d" % n for n in range(entries)))
    return blocks.encode(blocks.DATA, b"".join(rows), codec, -1)


def inner_block(entries: int, offset: int, size: int) -> bytes:
    """An index block, all entries of which lead to one block."""
    entry = struct.pack(">qi", offset, size) + full(b"k")
    places = [len(entry) * number for number in range(entries + 1)]
    payload = struct.pack(f">{entries + 2}i", entries, *places) + entry * entries
    return blocks.encode(blocks.LEAF_INDEX, payload, Codec.NONE, -1)


def hfile(
    parts: bytes, root: bytes, roots: int, metas: bytes = b"", meta_count: int = 0, levels: int = 1, codec: Codec = Codec.NONE
) -> bytes:  # fmt: skip
    """A file with these blocks and indexes."""
    head = parts + blocks.encode(blocks.ROOT_INDEX, root, codec, -1)
    head += blocks.encode(blocks.ROOT_INDEX, metas, codec, -1)
    info = blocks.encode(blocks.FILE_INFO, b"PBUF" + write_varint(0), codec, -1)
    numbers = {1: len(head), 2: len(parts), 5: roots, 6: meta_count, 7: 5, 8: levels, 12: codec}
    message = b"".join(number_field(number, value) for number, value in numbers.items())
    message += bytes_field(11, b"org.apache.hudi.io.storage.HoodieHBaseKVComparator")
    trailer = TRAILER_MAGIC + write_varint(len(message)) + message
    return head + info + trailer.ljust(TRAILER_SIZE - 4, b"\0") + bytes((3, 0, 0, 3))


def same_block() -> bytes:
    found = data_block(500)
    return hfile(found, root_entry(0, len(found)) * 500, 500)


def fan_of_levels() -> bytes:
    """Seven levels of indexes, each of which leads a hundred times to the next: 10^14 ways to one block."""
    parts = data_block(2)
    at, size = 0, len(parts)
    for _ in range(7):
        level = inner_block(100, at, size)
        at, size = len(parts), len(level)
        parts += level
    return hfile(parts, root_entry(at, size), 1, levels=8)


@cache
def many_entries() -> bytes:
    """170 KB that unfold to eight million entries."""
    payload = (struct.pack(">ii", 2, 0) + b"\0\0\0") * 8_000_000
    found = blocks.encode(blocks.DATA, payload, Codec.GZIP, -1)
    return hfile(found, root_entry(0, len(found)), 1, codec=Codec.GZIP)


@cache
def many_metas() -> bytes:
    """130 KB that unfold to an index of ten million blocks."""
    return hfile(b"", b"", 0, bytes(13) * 10_000_000, 10_000_000, codec=Codec.GZIP)


def use(data: bytes, how: str) -> None:
    reader = HFileReader(pa.BufferReader(data), "f.hfile")
    reader.meta(b"bloomFilter")
    found = {
        "scan": reader.scan,
        "keys": lambda: reader.lookup([b"k", b"k000001", b"zz"]),
        "prefixes": lambda: reader.lookup_prefixes([b"k"]),
    }
    for part in found[how]():
        len(part)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("make", [same_block, fan_of_levels, many_entries, many_metas])
@pytest.mark.parametrize("how", ["scan", "keys", "prefixes"])
def test_a_file_that_unfolds_is_refused_within_bounds(make, how: str) -> None:
    data = make()
    started = time.process_time()
    with measured_memory() as memory:
        if (make, how) in ((same_block, "keys"), (same_block, "prefixes"), (fan_of_levels, "keys")):
            use(data, how)  # one way is followed, and it ends
        else:
            with pytest.raises(HudiError):
                use(data, how)
    assert time.process_time() - started < 3.0 * slowness()
    assert memory.grown < 600 * MEGABYTE


def test_an_index_of_several_levels_is_read() -> None:
    one, other = (
        data_block(3),
        blocks.encode(blocks.DATA, struct.pack(">ii", 13, 0) + full(b"z") + b"\0", Codec.NONE, -1),
    )
    parts = one + other
    for offset, size in ((0, len(one)), (len(one), len(other))):
        parts += inner_block(1, offset, size)
    first, second = len(one) + len(other), len(one) + len(other) + len(inner_block(1, 0, 0))
    size = len(inner_block(1, 0, 0))
    data = hfile(parts, root_entry(first, size) + root_entry(second, size, b"z"), 2, levels=2)
    found = [key for part in HFileReader(pa.BufferReader(data)).scan() for key in part.key_list()]
    assert found == [b"k000000", b"k000001", b"k000002", b"z"]
