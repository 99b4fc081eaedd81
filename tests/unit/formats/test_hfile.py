"""HFiles: those of Hudi are read entry for entry, ours are read back, look-ups read one path of blocks, damage is a typed error."""

from __future__ import annotations

import gzip
import itertools
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.log_files import golden_hfiles, golden_logs
from support.samples import examples

from pyhudi_core.errors import CorruptHFileError, DataError, HudiError, LimitExceededError
from pyhudi_core.formats.avro.columns import decode_records
from pyhudi_core.formats.hfile import HFileReader, HFileWriter
from pyhudi_core.formats.hfile import data_block as blocks
from pyhudi_core.formats.hfile.data_block import Codec, parse_data, parse_together
from pyhudi_core.formats.hfile.protobuf import (
    number_field,
    read_hadoop_vlong,
    read_message,
    read_varint,
    write_hadoop_vlong,
    write_varint,
)
from pyhudi_core.formats.hfile.reader import TRAILER_MAGIC, TRAILER_SIZE
from pyhudi_core.formats.hfile.writer import encode_entries
from pyhudi_core.formats.log.blocks import BlockType
from pyhudi_core.formats.log.reader import LogReader


def opened(data: bytes, **limits: int) -> HFileReader:
    return HFileReader(pa.BufferReader(data), "file.hfile", **limits)


def pairs(reader: HFileReader) -> list[tuple[bytes, bytes]]:
    """All entries as (key, value)."""
    return [
        (key, found.data[start:end])
        for found in reader.scan()
        for key, start, end in zip(found.key_list(), found.value_starts, found.value_ends, strict=True)
    ]


def made(entries: int, codec: Codec = Codec.GZIP, block_bytes: int = 300, bloom: bytes | None = None) -> bytes:
    writer = HFileWriter("{}", codec, block_bytes)
    for number in range(entries):
        writer.add(b"key%06d" % number, b"value%d" % number)
    return writer.finish(bloom)


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("release", ["hudi-1.0.2", "hudi-1.2.0"])
def test_every_hfile_of_hudi_is_read_entry_for_entry(release: str, every: int) -> None:
    """The quick suite reads each tenth file."""
    files = rows = 0
    logs = (
        opened(log.content(block).to_pybytes())
        for _, data in golden_logs(release)
        for log in [LogReader(pa.BufferReader(data), "log")]
        for block in log.blocks()
        if block.type is BlockType.HFILE_DATA
    )
    for reader in itertools.islice((*(opened(data) for _, data in golden_hfiles(release)), *logs), 0, None, every):
        keys: list[bytes] = []
        for found in reader.scan():
            values = decode_records(reader.schema, found.data, found.value_starts, found.value_ends)
            assert set(values.column("key").to_pylist()) == {""}
            assert found.key_array().to_pylist() == found.key_list()
            keys += found.key_list()
        assert len(keys) == reader.entry_count
        assert keys == sorted(set(keys))
        assert [key for found in reader.lookup(keys[::2]) for key in found.key_list()] == keys[::2]
        files, rows = files + 1, rows + len(keys)
    assert files > 100 // every
    assert rows > 1000 // every


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("entries", [0, 1, 2, 500])
def test_what_we_write_we_read(codec: Codec, entries: int) -> None:
    reader = opened(made(entries, codec, bloom=b"a filter"))
    assert pairs(reader) == [(b"key%06d" % n, b"value%d" % n) for n in range(entries)]
    assert reader.entry_count == entries
    assert reader.meta(b"bloomFilter") == b"a filter"
    assert reader.meta(b"other") is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("cuts", [[], [1], [250, 251], list(range(1, 500))])
def test_entries_in_batches_make_the_same_file_as_one_by_one(codec: Codec, cuts: list[int]) -> None:
    keys = pa.array([b"key%06d" % number for number in range(500)])
    values = pa.array([b"value%d" % number for number in range(500)])
    writer = HFileWriter("{}", codec, 300)
    for first, end in itertools.pairwise([0, *cuts, 500]):
        writer.add_batch(keys.slice(first, end - first), values.slice(first, end - first))
    assert writer.finish(b"a filter") == made(500, codec, bloom=b"a filter")


def test_a_batch_may_be_larger_than_what_is_encoded_at_once() -> None:
    keys = [f"{number:08}" for number in range(40_000)]
    writer = HFileWriter("{}", block_bytes=64 << 10)
    writer.add_batch(pa.array(keys), pa.array([key[::-1] * (number % 4) for number, key in enumerate(keys)]))
    found = pairs(opened(writer.finish()))
    assert found == [(key.encode(), (key[::-1] * (number % 4)).encode()) for number, key in enumerate(keys)]


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (["b", "a"], ["", ""]),
        (["a", "a"], ["", ""]),
        (["a", None], ["", ""]),
        (["a"], ["", ""]),
        (["x" * 32_768], [""]),
    ],
)
def test_a_batch_out_of_order_or_with_gaps_is_refused(keys: list[str | None], values: list[str]) -> None:
    with pytest.raises(DataError):
        HFileWriter("{}").add_batch(pa.array(keys), pa.array(values))


def test_a_batch_must_go_on_behind_the_one_before_it() -> None:
    writer = HFileWriter("{}")
    writer.add_batch(pa.array(["m"]), pa.array([""]))
    with pytest.raises(DataError):
        writer.add_batch(pa.array(["a"]), pa.array([""]))


def test_a_look_up_reads_the_blocks_that_can_hold_its_keys_and_no_others() -> None:
    reader = opened(made(500))
    everything = len(list(reader.scan()))
    assert everything > 20
    reader.blocks_read = 0
    wanted = [b"key000000", b"key000250", b"key000251", b"none", b""]
    assert [k for found in reader.lookup(wanted) for k in found.key_list()] == wanted[:3]
    assert reader.blocks_read <= 4
    assert list(reader.lookup([])) == []


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sets(st.text(alphabet="ab\u00e9\ue000\uffee\U0001f600", max_size=4), min_size=1, max_size=60),
    st.lists(st.text(alphabet="abc\ue000\U0001f600", max_size=4), max_size=20),
    st.integers(30, 300),
)
def test_a_column_of_keys_is_looked_up_like_a_list_of_them(there: set[str], others: list[str], block: int) -> None:
    writer = HFileWriter("{}", Codec.NONE, block)
    for key in sorted(there, key=lambda text: text.encode()):
        writer.add(key.encode(), b"v" + key.encode())
    reader = opened(writer.finish(None))
    wanted = sorted({*others, *list(there)[::2]}, key=lambda text: text.encode())
    column = pa.array([key.encode() for key in wanted], pa.binary())
    found = [key for part in reader.lookup_column(column) for key in part.key_list()]
    assert sorted(found) == [key.encode() for key in wanted if key in there]


def test_a_column_of_keys_reads_the_blocks_that_can_hold_them_and_no_others() -> None:
    reader = opened(made(500))
    wanted = [b"", b"key000000", b"key000250", b"key000251", b"none"]
    found = [key for part in reader.lookup_column(pa.array(wanted, pa.binary())) for key in part.key_list()]
    assert found == wanted[1:4]
    assert reader.blocks_read <= 4
    assert list(reader.lookup_column(pa.array([], pa.binary()))) == []
    deep = opened(two_levels())
    assert [k for part in deep.lookup_column(pa.array([b"c"], pa.binary())) for k in part.key_list()] == [b"c"]
    assert deep.blocks_read == 2


def test_prefixes_are_looked_up_in_every_block_that_can_hold_them() -> None:
    reader = opened(made(500))
    reader.blocks_read = 0
    found = [k for part in reader.lookup_prefixes([b"key00012", b"key000003"]) for k in part.key_list()]
    assert found == [b"key000003", *(b"key00012%d" % n for n in range(10))]
    assert reader.blocks_read <= 4
    assert len([k for part in reader.lookup_prefixes([b""]) for k in part.key_list()]) == 500


def test_an_index_of_several_levels_is_followed() -> None:
    data = two_levels()
    reader = opened(data)
    assert [key for key, _ in pairs(reader)] == [b"a", b"b", b"c", b"d"]
    reader.blocks_read = 0
    assert [k for found in reader.lookup([b"c"]) for k in found.key_list()] == [b"c"]
    assert reader.blocks_read == 2


def two_levels() -> bytes:
    """A file whose root index leads to two leaf index blocks of two data blocks each, as HBase makes large ones."""
    parts: list[bytes] = []
    at = 0

    def put(magic: bytes, payload: bytes) -> tuple[int, int]:
        nonlocal at
        data = blocks.encode(magic, payload, Codec.NONE, -1)
        parts.append(data)
        at += len(data)
        return at - len(data), len(data)

    def full(key: bytes) -> bytes:
        return struct.pack(">h", len(key)) + key + b"\0" * 10

    def entry(key: bytes) -> bytes:
        return struct.pack(">ii", len(full(key)), 1) + full(key) + b"v\0"

    def leaf(keys: tuple[bytes, ...]) -> bytes:
        inner, offsets = b"", [0]
        for key in keys:
            offset, size = put(blocks.DATA, entry(key))
            inner += struct.pack(">qi", offset, size) + full(key)
            offsets.append(len(inner))
        return struct.pack(">i", len(keys)) + struct.pack(f">{len(offsets)}i", *offsets) + inner

    root = b""
    for keys in ((b"a", b"b"), (b"c", b"d")):
        offset, size = put(blocks.LEAF_INDEX, leaf(keys))
        root += struct.pack(">qi", offset, size) + write_hadoop_vlong(len(full(keys[0]))) + full(keys[0])
    whole = bytearray(made(0, Codec.NONE))
    load_on_open, _ = put(blocks.ROOT_INDEX, root)
    put(blocks.ROOT_INDEX, b"")
    info, _ = put(blocks.FILE_INFO, b"PBUF\0")
    from pyhudi_core.formats.hfile.protobuf import number_field

    numbers = {1: info, 2: load_on_open, 5: 2, 6: 0, 7: 4, 8: 2, 12: int(Codec.NONE)}
    message = b"".join(number_field(n, v) for n, v in numbers.items())
    trailer = (b'TRABLK"$' + write_varint(len(message)) + message).ljust(4092, b"\0") + bytes(whole[-4:])
    return b"".join(parts) + trailer


@pytest.mark.parametrize("entries", [0, 1, 100])
def test_the_trailer_says_where_the_first_and_the_last_data_block_are(entries: int) -> None:
    data = made(entries, Codec.NONE)
    trailer = data[-TRAILER_SIZE:]
    length, at = read_varint(trailer, len(TRAILER_MAGIC))
    numbers = dict(read_message(trailer[at : at + length]))
    places, at = [], 0
    while at < len(data) - TRAILER_SIZE:
        magic, size = blocks.header_of(data[at : at + blocks.HEADER.size])
        places += [at] if magic == blocks.DATA else []
        at += size
    assert len(places) == numbers[5]
    assert (numbers[9], numbers[10]) == ((places[0], places[-1]) if places else (2**64 - 1, 2**64 - 1))


def _with_trailer(data: bytes, changed: dict[int, int | None]) -> bytes:
    """The file with other numbers in its trailer; None leaves one out."""
    trailer = data[-TRAILER_SIZE:]
    length, at = read_varint(trailer, len(TRAILER_MAGIC))
    numbers = {n: v for n, v in read_message(trailer[at : at + length]) if isinstance(v, int)} | changed
    message = b"".join(number_field(n, v) for n, v in numbers.items() if v is not None)
    head = TRAILER_MAGIC + write_varint(len(message)) + message
    return data[:-TRAILER_SIZE] + head.ljust(TRAILER_SIZE - 4, b"\0") + trailer[-4:]


def test_what_a_trailer_leaves_out_is_one_level_and_no_count_and_a_place_must_be_there() -> None:
    data = made(3)
    entries = pairs(opened(data))
    plain = opened(_with_trailer(data, {7: None, 8: None}))
    assert (pairs(plain), plain.entry_count) == (entries, 0)
    for numbers in ({2: None}, {2: len(data)}, {8: 0}):
        with pytest.raises(CorruptHFileError):
            opened(_with_trailer(data, numbers))


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_block_of_a_negative_size_is_corrupt(size: int) -> None:
    head = blocks.HEADER.pack(blocks.DATA, size, 0, -1, 1, 16384, 33)
    with pytest.raises(HudiError, match="negative size"):
        blocks.header_of(head)


def test_blocks_hold_64_kilobytes_unless_told_otherwise() -> None:
    writer = HFileWriter("{}", Codec.NONE)
    keys = pa.array([f"key{number:06d}" for number in range(5000)])
    writer.add_batch(keys, pa.array(["x" * 40] * 5000))
    data, sizes, at = writer.finish(), [], 0
    while at < len(data) - TRAILER_SIZE:
        magic, size = blocks.header_of(data[at : at + blocks.HEADER.size])
        sizes += [blocks.HEADER.unpack_from(data, at)[2]] if magic == blocks.DATA else []
        at += size
    assert len(sizes) > 2
    assert all(64 << 10 <= size < (64 << 10) + 100 for size in sizes[:-1])


def test_a_file_that_was_opened_has_read_no_block_of_entries() -> None:
    reader = opened(made(100))
    assert reader.blocks_read == 0
    assert len(pairs(reader)) == 100
    assert reader.blocks_read > 1


@pytest.mark.parametrize("size", range(1, 9))
def test_numbers_of_hadoop_have_up_to_eight_bytes_and_a_sign(size: int) -> None:
    for value in (256**size // 2 + 1, 256**size - 1):
        body = value.to_bytes(size, "big")
        assert read_hadoop_vlong(struct.pack(">b", -112 - size) + body, 0) == (value, 1 + size)
        assert read_hadoop_vlong(struct.pack(">b", -120 - size) + body, 0) == (~value, 1 + size)


def test_keys_must_come_in_order_and_not_twice() -> None:
    writer = HFileWriter("{}")
    writer.add(b"b", b"")
    for key in (b"a", b"b", b"c" * 40_000):
        with pytest.raises(DataError):
            writer.add(key, b"")


def test_a_block_that_inflates_to_more_than_it_says_is_refused_without_inflating_it() -> None:
    bomb = gzip.compress(b"\0" * (64 << 20))
    size = len(bomb)
    block = blocks.HEADER.pack(blocks.DATA, size, 1000, -1, 0, 16384, 33 + size) + bomb
    with pytest.raises(HudiError):
        blocks.decode(block, Codec.GZIP, 1 << 30)
    honest = blocks.HEADER.pack(blocks.DATA, size, 64 << 20, -1, 0, 16384, 33 + size) + bomb
    with pytest.raises(LimitExceededError):
        blocks.decode(honest, Codec.GZIP, 1 << 20)


@pytest.mark.parametrize("chunk", [0, -1])
def test_a_block_whose_checksums_are_about_no_bytes_is_corrupt(chunk: int) -> None:
    data = bytearray(blocks.encode(blocks.DATA, b"payload", Codec.NONE, -1))
    assert blocks.decode(bytes(data), Codec.NONE, 100).payload == b"payload"
    magic, on_disk, plain, previous, kind, _, with_header = blocks.HEADER.unpack_from(data)
    blocks.HEADER.pack_into(data, 0, magic, on_disk, plain, previous, kind, chunk, with_header)
    with pytest.raises(HudiError, match="checksum"):
        blocks.decode(bytes(data), Codec.NONE, 100)


def test_a_flipped_bit_shows_in_the_checksum() -> None:
    data = bytearray(made(10, Codec.NONE))
    data[60] ^= 1
    with pytest.raises(HudiError, match="checksum"):
        pairs(opened(bytes(data)))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 65_536, 2**40])
def test_numbers_come_back(value: int) -> None:
    assert read_varint(write_varint(value), 0) == (value, len(write_varint(value)))
    assert read_hadoop_vlong(write_hadoop_vlong(value), 0) == (value, len(write_hadoop_vlong(value)))


GOLDEN = [data for _, data in golden_hfiles("hudi-1.0.2")][:3] + [made(40, bloom=b"x")]


@settings(max_examples=examples(500), deadline=2_000)
@given(st.data())
def test_a_damaged_file_is_entries_or_a_typed_error(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(GOLDEN)))
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.sampled_from(["anywhere", "trailer", "cut"]))
        at = data.draw(st.integers(0, len(damaged) - 1))
        if where == "cut":
            del damaged[at : at + data.draw(st.integers(1, 100))]
        elif where == "trailer":
            damaged[max(0, len(damaged) - 4096 + at % 120)] ^= 1 << data.draw(st.integers(0, 7))
        else:
            damaged[at] ^= 1 << data.draw(st.integers(0, 7))
        if not damaged:
            return
    try:
        reader = opened(bytes(damaged))
        found = pairs(reader)
        reader.meta(b"bloomFilter")
        list(reader.lookup([b"key000001", b"zz"]))
    except HudiError:
        return
    assert all(isinstance(key, bytes) for key, _ in found)


def test_entries_with_long_versions_are_found_like_those_with_short_ones() -> None:
    """Hadoop's numbers above 127 take several bytes; no release writes them, and the quick way to find entries does not know them."""
    keys = [b"a", b"bb", b"ccc"]
    encoded = encode_entries(*(pa.array(column, pa.large_binary()) for column in (keys, [b"1", b"22", b""])))
    usual = encoded.payload.tobytes()
    first = int(encoded.ends[0])
    long = usual[: first - 1] + write_hadoop_vlong(300) + usual[first:]
    for payload in (usual, long):
        found = parse_data(payload)
        assert found.key_list() == keys
        assert [payload[s:e] for s, e in zip(found.value_starts, found.value_ends, strict=True)] == [b"1", b"22", b""]
    both = parse_together([long, usual])
    assert both.key_list() == [*keys, *keys]
    few = both.copied(np.array([1, 5]))
    assert few.key_list() == [b"bb", b"ccc"]
    assert [few.data[s:e] for s, e in zip(few.value_starts, few.value_ends, strict=True)] == [b"22", b""]
    assert len(few.data) < 80
