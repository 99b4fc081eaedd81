"""Data blocks of HFiles whose lengths look like other entries, and blocks that are cut: never other entries than were written."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from pyhudi_core.errors import CorruptHFileError
from pyhudi_core.formats.hfile import HFileReader, HFileWriter, reader
from pyhudi_core.formats.hfile.data_block import Entries, parse_data
from pyhudi_core.formats.hfile.writer import encode_entries


def encoded(entries: dict[bytes, bytes]) -> bytes:
    columns = (pa.array(column, pa.large_binary()) for column in (entries.keys(), entries.values()))
    return encode_entries(*columns).payload.tobytes()


def pairs(found: Entries) -> dict[bytes, bytes]:
    values = zip(found.value_starts.tolist(), found.value_ends.tolist(), strict=True)
    return dict(zip(found.key_list(), (found.data[start:end] for start, end in values), strict=True))


def test_a_block_that_is_cut_anywhere_inside_of_an_entry_is_corrupt() -> None:
    first, both = encoded({b"a": b"12345"}), encoded({b"a": b"12345", b"b": b"67890"})
    for cut in range(1, len(both)):
        if cut == len(first):
            assert pairs(parse_data(both[:cut])) == {b"a": b"12345"}
            continue
        with pytest.raises(CorruptHFileError):
            parse_data(both[:cut])
    assert pairs(parse_data(both)) == {b"a": b"12345", b"b": b"67890"}


@pytest.mark.parametrize("count", [3, 1000])
@pytest.mark.parametrize("shared", [[b"one"], [b"one", b"", b"other" * 50]])
def test_values_that_keys_share_are_encoded_as_if_each_key_had_its_own(count: int, shared: list[bytes]) -> None:
    keys = pa.array([f"{number:0{4 + number % 3}}".encode() for number in range(count)], pa.large_binary())
    which = [number * 7 % len(shared) for number in range(count)]
    plain = pa.array([shared[number] for number in which], pa.large_binary())
    together = pa.DictionaryArray.from_arrays(pa.array(which), pa.array(shared, pa.large_binary()))
    found, wanted = encode_entries(keys[1:], together[1:]), encode_entries(keys[1:], plain[1:])
    assert (
        found.payload.tobytes()
        == wanted.payload.tobytes()
        == encoded(dict(zip(*map(pa.Array.to_pylist, (keys[1:], plain[1:])), strict=True)))
    )
    assert found.ends.tolist() == wanted.ends.tolist()
    assert (found.key_bytes, found.value_bytes) == (wanted.key_bytes, wanted.value_bytes)


def test_entries_that_would_fit_a_byte_later_are_read_where_they_are() -> None:
    """From one byte behind the second entry its lengths read as those of an entry up to the end of the block."""
    entries = {b"a": b"", b"b": b"", b"c": b"v" * 3295}
    payload = encoded(entries)
    second = len(encoded({b"a": b""}))
    key, value = struct.unpack_from(">II", payload, second + 1)
    assert second + 1 + 10 + key + value == len(payload)
    assert pairs(parse_data(payload)) == entries


def test_a_long_version_of_the_first_entry_does_not_make_other_entries() -> None:
    """Read with a version of one byte, the rest of this block would be two entries as well, and would end where the block ends."""
    hidden = struct.pack(">II", 502, 0)
    row = hidden + b"r" * (256 - len(hidden))
    tail = b"t" * (512 - 2 - len(row) - 1) + b"\0"
    second = struct.pack(">IIH", 512, 0, len(row)) + row + tail + b"\0"
    first = encoded({b"a": b"1"})[:-1] + b"\x8f\0"
    found = parse_data(first + second)
    assert pairs(found) == {b"a": b"1", row: b""}


def test_what_is_remembered_of_a_small_file_is_bounded_whatever_it_inflates_to() -> None:
    reader._remembered.cache_clear()
    for number in range(3):
        writer = HFileWriter(f"schema {number}", block_bytes=100_000)
        for key in range(40):
            writer.add(f"{key:02d}".encode(), bytes(20_000))
        content = writer.finish()
        assert len(content) < reader._REMEMBERED_BYTES
        for _ in range(2):
            found = HFileReader.of_bytes(content)
            assert sum(len(entries) for entries in found.scan()) == 40
            assert found.blocks_read > 1
        assert 0 < sum(len(entries.data) for entries in (found._parsed or {}).values()) <= reader._REMEMBERED_PAYLOADS
    large = HFileWriter("s" * 1_000_000)
    large.add(b"key", b"value")
    before = reader._remembered.cache_info().currsize
    assert len(HFileReader.of_bytes(large.finish()).schema) == 1_000_000
    assert reader._remembered.cache_info().currsize == before
