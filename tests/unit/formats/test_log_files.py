"""Log files: blocks of Hudi's are read whole, damaged ones are passed over and told, nothing is believed before it was checked."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
from collections import Counter

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.log_files import golden_logs
from support.samples import examples

from pyhudi_core.errors import CorruptionError, HudiError, LimitExceededError, UnsupportedTableError
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.hfile.reader import HFileReader
from pyhudi_core.formats.log.blocks import MAGIC, BlockType, Header, LogBlock, encode_block
from pyhudi_core.formats.log.contents import DeleteRecord, read_deletes, read_records, write_deletes, write_records
from pyhudi_core.formats.log.reader import LogReader

SCHEMA = '{"type":"record","name":"r","fields":[{"name":"k","type":"string"},{"name":"v","type":["null","long"]}]}'
TIME = "20260101000000000"


def avro_block(*rows: tuple[str, int | None], **headers: str) -> bytes:
    """A data block with rows (k, v)."""
    own = {Header.INSTANT_TIME: TIME, Header.SCHEMA: SCHEMA, **{Header[k]: v for k, v in headers.items()}}
    return encode_block(BlockType.AVRO_DATA, own, write_records(SCHEMA, [{"k": k, "v": v} for k, v in rows]))


def reader(data: bytes, **limits: int) -> LogReader:
    return LogReader(pa.BufferReader(data), "file.log", **limits)


def rows_in(data: bytes) -> list[tuple[str, int | None]]:
    """The rows of all good data blocks."""
    opened = reader(data)
    found = []
    for block in opened.blocks():
        batch = read_records(opened.content(block), block.headers[Header.SCHEMA], "file.log")
        found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


@pytest.mark.row("E6", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "G1", "G3", "G4", "G5", "G6", "H0", "H2")
def test_every_log_file_of_hudi_is_read_to_its_last_byte() -> None:
    kinds: Counter[str] = Counter()
    for name, data in golden_logs():
        opened = reader(data)
        found = list(opened.blocks())
        assert not opened.damaged, name
        assert sum(block.size for block in found) == len(data), name
        for block in found:
            kinds[block.type.name] += 1
            assert block.instant_time in name or block.type is BlockType.DELETE or block.compacted_times, name
            content = opened.content(block)
            if block.type in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
                kinds["records"] += read_records(content, block.headers[Header.SCHEMA], name).num_rows
            elif block.type is BlockType.DELETE:
                kinds["deletes"] += len(read_deletes(content, name))
            elif block.type is BlockType.PARQUET_DATA:
                batches = list(BaseFileReader(pa.BufferReader(content), name, None).iter_batches())
                assert pa.Table.from_batches(batches).equals(pq.read_table(pa.BufferReader(content))), name
                kinds["rows in Parquet"] += sum(batch.num_rows for batch in batches)
            elif block.type is BlockType.HFILE_DATA:
                schema = fastavro.parse_schema(json.loads(block.headers[Header.SCHEMA]))
                keys: list[bytes] = []
                for entries in HFileReader(pa.BufferReader(content), name).scan():
                    keys += entries.key_list()
                    for start in entries.value_starts.tolist()[:1]:
                        record = fastavro.schemaless_reader(io.BytesIO(entries.data[start:]), schema, None)
                        assert set(record) == {field["name"] for field in schema["fields"]}, name
                assert keys == sorted(set(keys)), name
                kinds["entries in HFile"] += len(keys)
    assert kinds["rows in Parquet"] == 18
    assert kinds["entries in HFile"] > 1000
    assert set(kinds) >= {"AVRO_DATA", "PARQUET_DATA", "HFILE_DATA", "DELETE", "CDC_DATA"}
    assert kinds["records"] > 1000
    assert kinds["deletes"] > 1000


@pytest.mark.row("F4", "F5", "F6", "F7", "F8")
def test_blocks_that_we_make_are_the_bytes_that_hudi_makes() -> None:
    checked = 0
    for name, data in golden_logs("hudi-1.0.2"):
        opened = reader(data)
        for block in opened.blocks():
            ours = encode_block(
                block.type, {Header(k): v for k, v in block.headers.items()}, opened.content(block).to_pybytes()
            )
            theirs = data[block.offset : block.offset + block.size]
            # Java writes the header map in the order of a hash map.
            assert (len(ours), sorted(ours)) == (len(theirs), sorted(theirs)), name
            checked += 1
    assert checked > 500


def test_deletes_that_we_make_are_the_bytes_that_hudi_makes() -> None:
    checked = 0
    for name, data in golden_logs("hudi-1.0.2"):
        opened = reader(data)
        for block in opened.blocks():
            if block.type is BlockType.DELETE:
                content = opened.content(block)
                found = read_deletes(content, name)
                named = [DeleteRecord(d.record_key, d.partition_path, d.ordering, _full(d.kind)) for d in found]
                assert write_deletes(named) == content.to_pybytes(), name
                checked += len(found)
    assert checked > 500


def _full(kind: str | None) -> str | None:
    return None if kind is None else f"org.apache.hudi.avro.model.{kind}"


@pytest.mark.row("F5")
def test_headers_that_no_release_knows_are_kept() -> None:
    block = avro_block(("a", 1))
    at = block.index(struct.pack(">ii", Header.INSTANT_TIME, len(TIME)))
    strange = block[:at] + struct.pack(">i", 77) + block[at + 4 :]
    assert next(iter(reader(strange).blocks())).headers[77] == TIME


def test_a_file_that_must_be_whole_is_refused_for_its_first_damage() -> None:
    good = avro_block(("a", 1))
    opened = reader(good + good[:-3])
    list(opened.blocks())
    with pytest.raises(CorruptionError) as raised:
        opened.refuse_damage("Do something.")
    assert raised.value.path == "file.log"
    whole = reader(good)
    list(whole.blocks())
    whole.refuse_damage("Do something.")


def test_the_smallest_block_there_is_counts_and_a_smaller_one_is_damage() -> None:
    block = encode_block(BlockType.DELETE, {}, b"")
    good = avro_block(("a", 1))
    opened = reader(block + good)
    assert [(found.size, found.content_size) for found in opened.blocks()] == [
        (len(block), 0),
        (len(good), found_content(good)),
    ]
    assert opened.damaged == []
    length = len(block) - len(MAGIC) - 8
    for shorter in (length - 1, 0, -1):
        head = block[: len(MAGIC)] + struct.pack(">q", shorter) + block[len(MAGIC) + 8 :]
        opened = reader(head + good)
        assert [found.size for found in opened.blocks()] == [len(good)]
        assert [(d.offset, d.reason) for d in opened.damaged] == [
            (0, f"its length {shorter} does not fit into the file")
        ]


def found_content(block: bytes) -> int:
    return next(iter(reader(block).blocks())).content_size


@pytest.mark.row("F1")
def test_the_magic_may_be_part_of_a_record() -> None:
    data = avro_block((MAGIC.decode() * 3, 1)) + avro_block(("b", 2))
    assert rows_in(data) == [(MAGIC.decode() * 3, 1), ("b", 2)]


@pytest.mark.row("G2", "F8")
def test_a_torn_block_between_two_good_ones_is_passed_over_and_told() -> None:
    good, torn = avro_block(("a", 1)), avro_block(("x", 9))[:-20]
    opened = reader(good + torn + avro_block(("b", 2)))
    assert len(list(opened.blocks())) == 2
    assert [(d.offset, d.size) for d in opened.damaged] == [(len(good), len(torn))]


@pytest.mark.row("G2", "F8")
@pytest.mark.parametrize("off_by", [-1, 1, 1 << 40])
def test_a_block_whose_two_lengths_differ_does_not_count_although_the_next_block_follows(off_by: int) -> None:
    block = avro_block(("x", 9))
    length = struct.unpack(">q", block[-8:])[0]
    damaged = block[:-8] + struct.pack(">q", length + off_by)
    for after in (avro_block(("b", 2)), b""):
        opened = reader(damaged + after)
        assert [found.offset for found in opened.blocks()] == ([len(damaged)] if after else [])
        assert [(d.offset, d.size, d.reason) for d in opened.damaged] == [(0, len(damaged), "its two lengths differ")]


@pytest.mark.row("F1", "F8")
@pytest.mark.parametrize("between", [b"\0", b"#HUD", b"#HUDX#", b"x" * 100])
def test_a_block_that_no_block_follows_does_not_count_although_its_two_lengths_agree(between: bytes) -> None:
    block = avro_block(("x", 9))
    opened = reader(block + between + avro_block(("b", 2)))
    assert [found.offset for found in opened.blocks()] == [len(block) + len(between)]
    assert [(d.offset, d.size, d.reason) for d in opened.damaged] == [
        (0, len(block) + len(between), "no block follows it")
    ]


def test_a_magic_that_is_followed_at_once_by_a_good_block_costs_only_itself() -> None:
    assert rows_in(MAGIC + avro_block(("a", 1))) == [("a", 1)]
    assert rows_in(avro_block(("a", 1)) + MAGIC + MAGIC + avro_block(("b", 2))) == [("a", 1), ("b", 2)]


def test_a_file_that_ends_at_any_byte_gives_the_blocks_before_it() -> None:
    parts = [avro_block((name, n)) for n, name in enumerate("abc")]
    whole = b"".join(parts)
    for length in range(len(whole) + 1):
        opened = reader(whole[:length])
        found = list(opened.blocks())
        expected = sum(length >= sum(map(len, parts[: n + 1])) for n in range(3))
        assert len(found) == expected, length
        assert bool(opened.damaged) == (length not in {sum(map(len, parts[:n])) for n in range(4)}), length


@pytest.mark.row("F2")
@pytest.mark.parametrize("length", [0, -1, 2**63 - 1, 10**9, 63])
def test_a_length_that_lies_allocates_nothing(length: int) -> None:
    block = bytearray(avro_block(("a", 1)))
    block[6:14] = struct.pack(">q", length)
    tracemalloc.start()
    opened = reader(bytes(block) + avro_block(("b", 2)))
    assert len(list(opened.blocks())) == 1
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert len(opened.damaged) == 1


@pytest.mark.parametrize("count", [-1, 2**31 - 1, 2000])
def test_a_header_count_that_lies_is_an_error(count: int) -> None:
    block = bytearray(avro_block(("a", 1)))
    block[22:26] = struct.pack(">i", count)
    with pytest.raises(CorruptionError):
        list(reader(bytes(block)).blocks())


def test_more_records_than_bytes_is_an_error() -> None:
    content = struct.pack(">ii", 3, 2**31 - 1) + b"\0" * 10
    with pytest.raises(CorruptionError):
        read_records(pa.py_buffer(content), SCHEMA, "file")


@pytest.mark.row("G1")
@pytest.mark.parametrize("version", [1, 2])
def test_contents_in_javas_own_serialisation_are_refused_by_name(version: int) -> None:
    with pytest.raises(UnsupportedTableError, match="Java"):
        read_deletes(pa.py_buffer(struct.pack(">ii", version, 3) + b"abc"), "file")


@pytest.mark.row("F3")
def test_blocks_of_other_versions_and_kinds_are_refused_by_name() -> None:
    block = bytearray(avro_block(("a", 1)))
    for place in (14, 18):
        strange = block[:place] + struct.pack(">i", 9) + block[place + 4 :]
        with pytest.raises(UnsupportedTableError, match="9"):
            list(reader(bytes(strange)).blocks())


def test_records_may_take_no_bytes() -> None:
    """Nulls do, so records of nothing else have the length 0."""
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "nothing", "type": "null"}]})
    content = write_records(schema, [{"nothing": None}] * 3)
    assert read_records(pa.py_buffer(content), schema, "f").num_rows == 3


def test_a_content_larger_than_the_limit_is_not_read() -> None:
    opened = reader(avro_block(("a" * 1000, 1)), max_block_bytes=100)
    block = next(iter(opened.blocks()))
    with pytest.raises(LimitExceededError):
        opened.content(block)


def test_a_file_of_false_magics_takes_linear_time() -> None:
    opened = reader(MAGIC * 20_000)
    assert list(opened.blocks()) == []
    assert len(opened.damaged) > 1


WHOLE = avro_block(("a", 1), ("b", None)) + encode_block(
    BlockType.DELETE, {Header.INSTANT_TIME: TIME}, write_deletes([DeleteRecord("k", "p")])
)


@settings(max_examples=examples(500), deadline=2_000)
@given(st.data())
def test_a_damaged_file_is_rows_or_a_typed_error(data: st.DataObject) -> None:
    damaged = bytearray(WHOLE * 2)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "splice"]))
        if kind == "flip":
            damaged[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "cut":
            del damaged[at : at + data.draw(st.integers(1, 40))]
        else:
            damaged[at:at] = data.draw(st.binary(max_size=20))
        if not damaged:
            return
    opened = reader(bytes(damaged))
    found: list[LogBlock] = []
    try:
        for block in opened.blocks():
            found.append(block)
            content = opened.content(block)
            if block.type is BlockType.DELETE:
                read_deletes(content, "file.log")
            elif block.type is BlockType.AVRO_DATA and Header.SCHEMA in block.headers:
                read_records(content, block.headers[Header.SCHEMA], "file.log")
    except HudiError:
        return
    assert sum(b.size for b in found) + sum(d.size for d in opened.damaged) == len(damaged)


def test_a_block_is_as_large_as_javas_largest_number_and_no_larger() -> None:
    class Large(bytes):
        """A content that says it has more bytes than fit into a test."""

        def __len__(self) -> int:
            return self.size

        size = 0

    content = Large()
    empty = struct.unpack_from(">q", encode_block(BlockType.AVRO_DATA, {}, b""), 6)[0]
    content.size = 2**31 - 1 - empty
    assert struct.unpack_from(">q", encode_block(BlockType.AVRO_DATA, {}, content), 6)[0] == 2**31 - 1
    content.size += 1
    with pytest.raises(ValueError, match="readers take 2147483647"):
        encode_block(BlockType.AVRO_DATA, {}, content)
