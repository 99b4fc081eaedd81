"""Log blocks of format version 0, which have no header, no footer and no total length, are read by their flags."""

from __future__ import annotations

import io
import json
import struct
import zlib

import fastavro
import pyarrow as pa
import pytest

from pyhudi_core.errors import CorruptLogBlockError, UnsupportedTableError
from pyhudi_core.formats.log.blocks import MAGIC, BlockType, Header, encode_block
from pyhudi_core.formats.log.contents import DeleteRecord, read_deletes, read_old_records, write_deletes
from pyhudi_core.formats.log.reader import LogReader

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "k", "type": "string"}, {"name": "n", "type": ["null", "long"]}],
    }
)
ROWS = [{"k": "a", "n": 1}, {"k": "b", "n": None}]
NAME = "p/.f_20260101000000000.log.1_0-1-2"


def old_block(kind: int, content: bytes) -> bytes:
    return MAGIC + struct.pack(">qiiq", 16 + len(content), 0, kind, len(content)) + content


def old_records(schema: bytes | None = None) -> bytes:
    parsed = fastavro.parse_schema(json.loads(SCHEMA))
    packed = zlib.compress(SCHEMA.encode()) if schema is None else schema
    parts = [struct.pack(">i", len(packed)), packed, struct.pack(">i", len(ROWS))]
    for row in ROWS:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, row)
        parts += [struct.pack(">i", len(body.getvalue())), body.getvalue()]
    return b"".join(parts)


def blocks(data: bytes):
    reader = LogReader(pa.BufferReader(data), NAME)
    return reader, list(reader.blocks())


@pytest.mark.row("F3")
def test_an_old_block_whose_two_lengths_differ_or_that_no_block_follows_does_not_count() -> None:
    content = write_deletes([DeleteRecord("a", "p")])
    good = old_block(1, content)
    shorter = MAGIC + struct.pack(">qiiq", 16 + len(content), 0, 1, len(content) - 1) + content
    for damaged, reason in ((shorter, "its two lengths differ"), (good + b"#HUD", "no block follows it")):
        reader, found = blocks(damaged + good)
        assert [block.offset for block in found] == [len(damaged)]
        assert [(d.offset, d.size, d.reason) for d in reader.damaged] == [(0, len(damaged), reason)]


@pytest.mark.parametrize("torn", range(1, len(MAGIC)))
def test_an_old_or_new_block_counts_although_the_next_was_torn_in_its_first_letters(torn: int) -> None:
    deletes = write_deletes([DeleteRecord("a", "p")])
    for good in (old_block(1, deletes), encode_block(BlockType.DELETE, {Header.INSTANT_TIME: "2"}, deletes)):
        reader, found = blocks(good + MAGIC[:torn])
        assert [block.size for block in found] == [len(good)]
        assert [(d.offset, d.size) for d in reader.damaged] == [(len(good), torn)]
        _, found = blocks(good + b"?" * torn)
        assert found == [], "what follows is no block"


@pytest.mark.row("F3")
def test_old_and_new_blocks_of_one_file_are_read() -> None:
    new = encode_block(BlockType.DELETE, {Header.INSTANT_TIME: "2"}, write_deletes([DeleteRecord("a", "p")]))
    reader, found = blocks(old_block(3, old_records()) + new + old_block(1, write_deletes([DeleteRecord("b", "p")])))
    assert [(block.type, block.version, block.instant_time) for block in found] == [
        (BlockType.AVRO_DATA, 0, "20260101000000000"), (BlockType.DELETE, 1, "2"), (BlockType.DELETE, 0, "20260101000000000"),
    ]  # fmt: skip
    assert reader.damaged == []
    assert read_old_records(reader.content(found[0]), NAME).to_pylist() == ROWS
    assert [item.record_key for item in read_deletes(reader.content(found[2]), NAME)] == ["b"]


@pytest.mark.row("G1")
def test_old_contents_in_javas_serialisation_are_refused_by_name() -> None:
    reader, [block] = blocks(old_block(1, struct.pack(">ii", 2, 3) + b"abc"))
    with pytest.raises(UnsupportedTableError, match="Java"):
        read_deletes(reader.content(block), NAME)


def test_an_old_block_may_have_no_records() -> None:
    content = old_records()
    head = content[: 4 + struct.unpack_from(">i", content)[0]]
    assert read_old_records(pa.py_buffer(head + struct.pack(">i", 0)), NAME).num_rows == 0


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_an_old_block_that_is_cut_off_is_passed_over_and_reported(cut: int) -> None:
    good = old_block(1, write_deletes([]))
    reader, found = blocks(old_block(3, old_records())[:-cut] + good)
    assert [block.type for block in found] == [BlockType.DELETE]
    assert len(reader.damaged) == 1


@pytest.mark.parametrize(
    "schema", [b"", b"no zlib", zlib.compress(b"\0" * (64 << 20)), zlib.compress(SCHEMA.encode())[:-3]]
)
def test_a_schema_that_cannot_be_or_is_a_bomb_is_a_typed_error(schema: bytes) -> None:
    with pytest.raises(CorruptLogBlockError, match="schema"):
        read_old_records(pa.py_buffer(old_records(schema)), NAME)


def test_records_that_do_not_fit_are_a_typed_error() -> None:
    content = old_records()
    for data in (b"", content[:8], content[:-1], struct.pack(">i", 2**31 - 1) + content[4:]):
        with pytest.raises(CorruptLogBlockError):
            read_old_records(pa.py_buffer(data), NAME)
