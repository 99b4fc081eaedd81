"""Bloom filters: the bytes of Hudi's, against its files and against its algorithm written out one key at a time."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import CorruptBaseFileError, InvalidRecordKeyError
from pyhudi_core.formats.bloom import DYNAMIC, SIMPLE, BloomBuilder, BloomFilter, BloomSizing

GOLDEN = Path(__file__).parents[2] / "golden" / "formats" / "rich_types.parquet"


def golden() -> tuple[str, str, pa.ChunkedArray]:
    values = pq.read_metadata(GOLDEN).metadata
    keys = pq.read_table(GOLDEN, columns=["_hoodie_record_key"])["_hoodie_record_key"]
    return values[b"org.apache.hudi.bloomfilter"].decode(), values[b"hoodie_bloom_filter_type_code"].decode(), keys


def murmur2(data: bytes, seed: int) -> int:
    """Hadoop's MurmurHash, with Java's signed arithmetic taken modulo 2^32."""
    mask, mixer = 0xFFFFFFFF, 0x5BD1E995
    state = (seed ^ len(data)) & mask
    whole = len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: 4 * whole]):
        mixed = word * mixer & mask
        mixed = (mixed ^ mixed >> 24) * mixer & mask
        state = (state * mixer & mask) ^ mixed
    rest = [byte - 256 if byte > 127 else byte for byte in data[4 * whole :]]
    if rest:
        for shift, byte in enumerate(reversed(rest)):
            state ^= byte << 8 * shift & mask
        state = state * mixer & mask
    state = (state ^ state >> 13) * mixer & mask
    state ^= state >> 15
    return state - (1 << 32) if state >> 31 else state


class Reference:
    """``HoodieDynamicBoundedBloomFilter``, one key at a time."""

    def __init__(self, bits: int, hashes: int, row_entries: int, max_entries: int) -> None:
        self.bits, self.hashes, self.row_entries, self.max_entries = bits, hashes, row_entries, max_entries
        self.rows = [bytearray((bits + 7) // 8)]
        self.row_keys, self.full, self.next_row = 0, False, 0

    def add(self, key: str) -> None:
        row = self._active()
        seed = 0
        for _ in range(self.hashes):
            seed = murmur2(key.encode(), seed)
            position = abs(seed) % self.bits
            row[position // 8] |= 1 << position % 8
        self.row_keys += 1

    def _active(self) -> bytearray:
        if self.full:
            row = self.rows[self.next_row % len(self.rows)]
            self.next_row += 1
            return row
        if self.row_keys < self.row_entries:
            return self.rows[-1]
        if len(self.rows) * self.row_entries < self.max_entries:
            self.rows.append(bytearray((self.bits + 7) // 8))
            self.row_keys = 0
            return self.rows[-1]
        self.full = True
        return self.rows[0]

    def text(self) -> str:
        header = struct.pack(">iibi", -1, self.hashes, 1, self.bits)
        counts = struct.pack(">iii", self.row_entries, self.row_keys, len(self.rows))
        return base64.b64encode(header + counts + b"".join(header + row for row in self.rows)).decode()


def test_every_key_of_hudis_file_is_in_its_filter() -> None:
    text, type_code, keys = golden()
    assert BloomFilter.from_footer(text, type_code).might_contain(keys).all()


def test_a_filter_that_is_read_is_written_byte_for_byte() -> None:
    text, type_code, _ = golden()
    assert BloomFilter.from_footer(text, type_code).to_footer() == (text, type_code)


@pytest.mark.row("E1")
def test_a_new_filter_of_the_same_keys_has_hudis_bytes() -> None:
    text, type_code, keys = golden()
    bloom = BloomFilter.empty()
    bloom.add(keys)
    assert bloom.to_footer() == (text, type_code)


def test_sizes_are_those_of_hudis_defaults() -> None:
    text, type_code = BloomFilter.empty().to_footer()
    assert struct.unpack(">iibi", base64.b64decode(text)[:13]) == (-1, 30, 1, 2_587_966)
    assert (len(text), type_code) == (431_380, DYNAMIC)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=24), max_size=60),
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(1, 5),
)
def test_rows_fill_grow_and_go_around_as_in_hudi(keys: list[str], entries: int, most: int, pieces: int) -> None:
    bloom = BloomFilter.empty(entries, 0.01, most)
    header = base64.b64decode(bloom.to_footer()[0])
    _, hashes, _, bits = struct.unpack(">iibi", header[:13])
    reference = Reference(bits, hashes, entries, most)
    for key in keys:
        reference.add(key)
    for piece in np.array_split(np.arange(len(keys)), pieces):
        bloom.add(pa.array([keys[index] for index in piece], pa.string()))
    assert bloom.to_footer() == (reference.text(), DYNAMIC)
    assert bloom.might_contain(pa.array(keys, pa.string())).all()


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_any_array_of_strings_and_any_slice_of_it_can_be_added(kind: pa.DataType) -> None:
    keys = pa.array(["", "a", "é", "key-4567", "日本語", "a" * 100, "x"])
    expected, given_ = BloomFilter.empty(100), BloomFilter.empty(100)
    expected.add(keys[2:6])
    given_.add(pa.chunked_array([keys.cast(kind)[2:4], keys.cast(kind)[4:6]]))
    assert given_.to_footer() == expected.to_footer()


def test_absent_keys_are_told_apart() -> None:
    bloom = BloomFilter.empty()
    present = pa.array([f"id:{number:09d}" for number in range(20_000)])
    bloom.add(present)
    assert bloom.might_contain(present).all()
    absent = pa.array([f"id:{number:09d}" for number in range(20_000, 60_000)])
    assert not bloom.might_contain(absent).any()
    mixed = pa.chunked_array([absent[:3], present[:2], absent[3:4]])
    assert bloom.might_contain(mixed).tolist() == [False, False, False, True, True, False]


def test_no_keys_are_no_answers() -> None:
    bloom = BloomFilter.empty(10)
    bloom.add(pa.array([], pa.string()))
    assert bloom.might_contain(pa.array([], pa.string())).tolist() == []
    assert bloom.might_contain(pa.array(["a"])).tolist() == [False]


def test_a_simple_filter_has_one_row_and_no_type_code() -> None:
    bloom = BloomFilter.empty(10, type_code=SIMPLE)
    keys = pa.array([str(number) for number in range(50)])
    bloom.add(keys)
    text, type_code = bloom.to_footer()
    assert type_code is None
    again = BloomFilter.from_footer(text, None)
    assert again.might_contain(keys).all()
    assert again.to_footer() == (text, None)
    assert BloomFilter.from_footer(text, SIMPLE).to_footer() == (text, None)


def test_a_copy_can_be_added_to_without_changing_the_original() -> None:
    bloom = BloomFilter.empty(10)
    bloom.add(pa.array(["a"]))
    before = bloom.to_footer()
    copy = bloom.copy()
    copy.add(pa.array([str(number) for number in range(30)]))
    assert bloom.to_footer() == before
    assert copy.might_contain(pa.array(["a", "5"])).all()


def test_keys_can_be_added_to_the_filter_of_a_file() -> None:
    text, type_code, keys = golden()
    bloom = BloomFilter.from_footer(text, type_code)
    bloom.add(pa.array(["new"]))
    again = BloomFilter.from_footer(*bloom.to_footer())
    assert again.might_contain(pa.chunked_array([*keys.chunks, pa.array(["new"])])).all()


def test_a_filter_of_one_bit_says_that_every_key_may_be_there() -> None:
    one_bit = struct.pack(">iibi", -1, 1, 1, 1) + b"\x01"
    found = BloomFilter.from_footer(base64.b64encode(one_bit).decode(), SIMPLE)
    assert found.might_contain(pa.array(["a", "b"])).tolist() == [True, True]


def test_a_null_key_is_refused() -> None:
    with pytest.raises(InvalidRecordKeyError):
        BloomFilter.empty(10).add(pa.array(["a", None]))


@pytest.mark.parametrize(
    ("text", "type_code"),
    [
        ("", DYNAMIC),
        ("AAAA", None),
        ("not base64!", DYNAMIC),
        ("é", None),
        (BloomFilter.empty(10).to_footer()[0], "DYNAMIC_V9"),
        (BloomFilter.empty(10).to_footer()[0], None),
        (BloomFilter.empty(10).to_footer()[0][:-8], DYNAMIC),
        (base64.b64encode(struct.pack(">iibiiii", -1, 3, 1, 8, 10, 0, 2**31 - 1)).decode(), DYNAMIC),
        (base64.b64encode(struct.pack(">iibi", -1, 3, 1, 2**31 - 1)).decode(), None),
        (base64.b64encode(struct.pack(">iibib", -1, 3, 0, 8, 0)).decode(), None),
        (base64.b64encode(struct.pack(">iibib", -1, 2**30, 1, 8, 0)).decode(), None),
        (base64.b64encode(struct.pack(">iibib", -1, 3, 1, 0, 0)).decode(), None),
    ],
)
def test_a_damaged_filter_is_a_typed_error(text: str, type_code: str | None) -> None:
    with pytest.raises(CorruptBaseFileError) as raised:
        BloomFilter.from_footer(text, type_code, path="p/file.parquet")
    assert raised.value.path == "p/file.parquet"


SMALL = BloomFilter.empty(20, 0.01, 60)
SMALL.add(pa.array([str(number) for number in range(45)]))
SMALL_BYTES = base64.b64decode(SMALL.to_footer()[0])


@settings(max_examples=examples(500), deadline=None)
@given(st.data())
def test_a_filter_with_any_damage_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(SMALL_BYTES)
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, 60))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(content)) | st.just(len(content)))
    text = base64.b64encode(bytes(content[:cut])).decode()
    try:
        bloom = BloomFilter.from_footer(text, data.draw(st.sampled_from([DYNAMIC, SIMPLE, None])))
    except CorruptBaseFileError:
        return
    assert bloom.might_contain(pa.array(["a", "b"])).shape == (2,)
    assert bloom.to_footer()[0] == text


@pytest.mark.parametrize(
    ("keys", "entries"),
    [(0, 128), (1, 128), (64, 128), (65, 256), (1_000, 2_048), (16_384, 32_768), (16_385, 60_000), (10**6, 60_000)],
)
def test_a_filter_is_made_for_about_twice_the_keys_of_its_file(keys: int, entries: int) -> None:
    assert BloomSizing().entries_for(keys) == entries
    builder = BloomBuilder(BloomSizing())
    for start in range(0, min(keys, 100_000), 10_000):
        builder.add(pa.array([f"k{number}" for number in range(start, min(keys, start + 10_000))], pa.string()))
    made = builder.build()
    assert made.row_entries == entries
    known = pa.array([f"k{number}" for number in range(min(keys, 2_000))], pa.string())
    assert made.might_contain(known).all()
    assert not made.might_contain(pa.array(["absent", "k-1"])).any()


def test_a_small_file_has_a_small_filter() -> None:
    builder = BloomBuilder(BloomSizing())
    builder.add(pa.array(["a"]))
    assert len(builder.build().to_footer()[0]) < 1_000


def test_keys_of_a_new_version_are_added_to_the_filter_of_the_file_until_it_is_outgrown() -> None:
    sizing = BloomSizing()
    old = BloomBuilder(sizing)
    old.add(pa.array([f"old{number}" for number in range(60)]))
    known = old.build()
    assert not sizing.outgrown(known, 128)
    assert sizing.outgrown(known, 129)
    builder = BloomBuilder(sizing, known)
    builder.add(pa.array(["new"]))
    assert builder.build().might_contain(pa.array(["old0", "old59", "new"])).all()
    assert not sizing.outgrown(BloomFilter.empty(60_000), 10**7), "a filter of full size grows by rows, as Hudi's"
    assert not sizing.outgrown(BloomFilter.empty(10, type_code=SIMPLE), 10**7)


def test_a_filter_answers_many_keys_as_it_answers_each() -> None:
    made = BloomFilter.empty(500, 0.2, 2_000)
    made.add(pa.array([f"in {number}" for number in range(1_500)]))
    text, kind = made.to_footer()
    asked = pa.array([f"{where} {number}" for number in range(1_500) for where in ("in", "out")])
    together = BloomFilter.from_footer(text, kind).might_contain(asked)
    one_by_one = BloomFilter.from_footer(text, kind)
    assert together.tolist() == [one_by_one.might_contain(asked[n : n + 1])[0] for n in range(len(asked))]
    assert together[::2].all() and not together.all()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=23), min_size=1, max_size=60, unique=True))
def test_few_keys_have_the_bits_that_they_have_among_many(keys: list[bytes]) -> None:
    """Few keys of one length are hashed one by one, many as arrays."""
    at_once, singly = (BloomFilter.empty(64, type_code=SIMPLE) for _ in range(2))
    for length in {len(key) for key in keys}:
        same = [key for key in keys if len(key) == length]
        at_once.add(pa.array(same * (1 + 100 // len(same)), pa.binary()))
        for key in same:
            singly.add(pa.array([key], pa.binary()))
    assert at_once.to_footer() == singly.to_footer()


def numbered(first: int, last: int) -> pa.Array:
    return pa.array(np.arange(first, last)).cast(pa.string())


def test_the_most_keys_of_a_filter_are_those_with_which_it_contains_nine_of_ten_absent_keys() -> None:
    sizing = BloomSizing(100, 1e-3, 300)
    made = BloomFilter.empty(sizing.entries, sizing.fpp, sizing.max_entries)
    made.add(numbered(0, sizing.most_keys))
    share = made.might_contain(numbered(10**6, 10**6 + 20_000)).mean()
    assert 0.85 < share < 0.95
    assert made.keys == sizing.most_keys
    assert 700_000 < BloomSizing().most_keys < 800_000


@pytest.mark.parametrize("known", [False, True], ids=["new file", "new version of a file"])
def test_a_file_of_too_many_keys_has_a_small_filter_that_contains_every_key(known: bool) -> None:
    sizing = BloomSizing(100, 1e-3, 300)
    first = BloomBuilder(sizing)
    first.add(numbered(0, sizing.most_keys))
    assert not first.build().might_contain(numbered(10**6, 10**6 + 1_000)).all(), "as many as it takes"
    builder = BloomBuilder(sizing, first.build()) if known else first
    builder.add(numbered(sizing.most_keys, sizing.most_keys + 1))
    text, kind = builder.build().to_footer()
    assert (len(text) < 100, kind) == (True, DYNAMIC)
    again = BloomFilter.from_footer(text, kind)
    assert again.might_contain(numbered(0, 5_000)).all()
    assert again.keys == sizing.most_keys + 1
    assert not sizing.outgrown(again, 10**7)
    later = BloomBuilder(sizing, again)
    later.add(pa.array(["new"]))
    assert later.build().to_footer()[0] != text and len(later.build().to_footer()[0]) == len(text)
    with pytest.raises(InvalidRecordKeyError):
        later.add(pa.array([None], pa.string()))


def test_keys_of_many_bytes_do_not_wait() -> None:
    keys = pa.array([f"{number}" * 1_000 for number in range(1_000)])
    builder, plain = BloomBuilder(BloomSizing()), BloomFilter.empty()
    for _ in range(15):
        builder.add(keys)
        plain.add(keys)
    assert builder._bytes < 32 << 20 < 15 * keys.nbytes
    made = builder.build()
    assert made.to_footer() == plain.to_footer()
