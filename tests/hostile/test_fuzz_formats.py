"""Damaged data files: log files and what is in them, HFiles, bloom filters, positions, base files of every format (promise P9).

500 cases a parser here, 50,000 with `PYHUDI_FUZZ=100` (`make fuzz`); see `support/fuzzing.py`.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from contextlib import suppress

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from pyroaring import BitMap64
from support.fuzzing import MEGABYTE, Fuzzed, measured_memory
from support.log_files import golden_hfiles, golden_logs, golden_orc_files

from pyhudi_core.errors import CorruptBaseFileError, CorruptLogBlockError, HudiError
from pyhudi_core.formats.avro.columns import decode_records
from pyhudi_core.formats.avro.cursor import ColumnsRefusedError
from pyhudi_core.formats.base_file import BaseFileReader, BaseFileWriter, read_footer
from pyhudi_core.formats.bloom import DYNAMIC, SIMPLE, BloomFilter
from pyhudi_core.formats.hfile import HFileReader, HFileWriter
from pyhudi_core.formats.hfile.data_block import Codec
from pyhudi_core.formats.log.blocks import BlockType, Header, decode_positions, encode_block, encode_positions
from pyhudi_core.formats.log.contents import DeleteRecord, read_deletes, read_records, write_deletes, write_records
from pyhudi_core.formats.log.delete_columns import read_delete_columns
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.schema import conform

RECORD = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "k", "type": "string"},
            {"name": "n", "type": ["null", "long"], "default": None},
            {"name": "l", "type": {"type": "array", "items": ["null", "string"]}},
            {"name": "m", "type": {"type": "map", "values": "double"}},
            {"name": "p", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
        ],
    }
)
ROWS = [{"k": f"key {n}", "n": n or None, "l": ["x", None], "m": {"a": 1.0}, "p": None} for n in range(6)]
DELETES = [
    DeleteRecord("k", "p", 7, "LongWrapper"), DeleteRecord("l", None), DeleteRecord("m", "p", "x", "StringWrapper"),
    DeleteRecord("n", "p", (("LongWrapper", 5), None, ("StringWrapper", "y")), "ArrayWrapper"),
]  # fmt: skip
TIME = "20260101000000000"
COLUMNS = with_meta_fields(pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))]))


def block(kind: BlockType, content: bytes, **headers: str) -> bytes:
    return encode_block(
        kind, {Header.INSTANT_TIME: TIME, **{Header[name]: text for name, text in headers.items()}}, content
    )


def smallest(files: Sequence[tuple[str, bytes]], count: int) -> list[bytes]:
    return sorted((data for _, data in files), key=len)[:count]


def read_log(data: bytes) -> None:
    """All that a scan does with the bytes of a log file, and nothing between the blocks lost."""
    reader = LogReader(pa.BufferReader(data), "f.log")
    found = []
    for one in reader.blocks():
        found.append(one)
        content = reader.content(one)
        schema = one.headers.get(Header.SCHEMA, "")
        if one.type is BlockType.DELETE:
            list(read_delete_columns(content, "f.log"))
        elif one.type in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
            read_records(content, schema, "f.log")
        elif one.type is BlockType.HFILE_DATA:
            for part in HFileReader(pa.BufferReader(content), "f.log").scan():
                columns(schema, part.data, part.value_starts, part.value_ends)
        elif one.type is BlockType.PARQUET_DATA:
            list(BaseFileReader(pa.BufferReader(content), "f.log").iter_batches())
        if Header.RECORD_POSITIONS in one.headers:
            decode_positions(one.headers[Header.RECORD_POSITIONS])
    assert sum(one.size for one in found) + sum(one.size for one in reader.damaged) == len(data)


def columns(schema: str, data: bytes, starts: np.ndarray, ends: np.ndarray) -> None:
    with suppress(ColumnsRefusedError):  # another reader takes such records, one by one
        decode_records(schema, data, starts, ends).validate(full=True)


def records() -> tuple[bytes, np.ndarray, np.ndarray]:
    parsed = fastavro.parse_schema(json.loads(RECORD))
    parts = []
    for row in ROWS:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, row)
        parts.append(body.getvalue())
    ends = np.cumsum([len(part) for part in parts])
    return b"".join(parts), np.concatenate([[0], ends[:-1]]), ends


def read_columns(data: bytes) -> None:
    """Records of the lengths that their block tells; the last one takes what is left."""
    _, starts, ends = records()
    columns(RECORD, data, np.minimum(starts, len(data)), np.append(np.minimum(ends[:-1], len(data)), len(data)))


def read_schema(data: bytes) -> None:
    body, starts, ends = records()
    columns(data.decode("utf-8", "replace"), body, starts, ends)


def read_hfile(data: bytes) -> None:
    reader = HFileReader(pa.BufferReader(data), "f.hfile")
    for part in reader.scan():
        assert len(part.key_list()) == len(part.key_array())
    reader.meta(b"bloomFilter")
    for found in (reader.lookup([b"key000001", b"zz"]), reader.lookup_prefixes([b"key0", b"\xff"])):
        assert all(len(part) for part in found)


def hfile(codec: Codec, block_bytes: int = 300, schema: str = RECORD) -> bytes:
    """Keys and records, in several blocks."""
    body, starts, ends = records()
    values = [body[start:end] for start, end in zip(starts, ends, strict=True)]
    writer = HFileWriter(schema, codec, block_bytes)
    for number in range(60):
        writer.add(f"key{number:06}".encode(), values[number % len(values)])
    return writer.finish(
        bloom=bloom_text(), info={b"minRecordKey": b"key000000", b"bloomFilterTypeCode": b"DYNAMIC_V0"}
    )


def bloom_text(kind: str = DYNAMIC) -> bytes:
    made = BloomFilter.empty(20, 0.01, 60, type_code=kind)
    made.add(pa.array([str(number) for number in range(45)]))
    return made.to_footer()[0].encode()


def read_bloom(data: bytes, kind: str = DYNAMIC) -> None:
    found = BloomFilter.from_footer(data.decode("latin-1"), kind)
    assert found.might_contain(pa.array(["a", "b"])).shape == (2,)


def read_positions(data: bytes) -> None:
    found = decode_positions(data.decode("latin-1"))
    assert (found[1:] >= found[:-1]).all()


def parquet() -> bytes:
    out = io.BytesIO()
    writer = BaseFileWriter(out, COLUMNS, avro_schema="{}", bloom=BloomFilter.empty(5, 0.1))
    keys = [f"key {number}" for number in range(20)]
    writer.write(
        pa.table([keys] * 5 + [list(range(20)), [["a"] * (number % 3) for number in range(20)]], schema=COLUMNS)
    )
    writer.add_keys(pa.array(keys))
    writer.close()
    return out.getvalue()


def orc_file() -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table(
        {
            "_hoodie_record_key": ["a", "b"],
            "id": [1, 2],
            "at": pa.array([1, 2], pa.timestamp("ns")),
            "tags": [["x"], []],
        }
    )
    orc.write_table(table, sink, compression="zlib")
    return sink.getvalue().to_pybytes()


def base_file_reader(name: str, schema: pa.Schema | None = None):
    def read(data: bytes) -> None:
        read_footer(pa.BufferReader(data), name).bloom()
        reader = BaseFileReader(pa.BufferReader(data), name)
        reader.row_group_statistics(reader.schema.names)
        assert len(reader.row_group_rows) >= 0
        for batch in reader.iter_batches():
            conform(batch, reader.schema if schema is None else schema)

    return read


def read_orc_tail(data: bytes) -> None:
    """All that is read of an ORC file in this process."""
    reader = BaseFileReader(pa.BufferReader(data), "f.orc")
    reader.footer().bloom()
    assert sum(reader.row_group_rows) == reader.rows


AVRO_BLOCK = block(BlockType.AVRO_DATA, write_records(RECORD, ROWS), SCHEMA=RECORD)
DELETE_BLOCK = block(BlockType.DELETE, write_deletes(DELETES), RECORD_POSITIONS=encode_positions([1, 5, 9]))
PARSERS = [
    Fuzzed("log file", read_log, [*smallest(list(golden_logs()), 12), AVRO_BLOCK + DELETE_BLOCK * 2,
                                  block(BlockType.HFILE_DATA, hfile(Codec.NONE), SCHEMA=RECORD) + AVRO_BLOCK,
                                  block(BlockType.PARQUET_DATA, parquet(), SCHEMA=RECORD) + DELETE_BLOCK], [slice(0, 120)]),
    Fuzzed("Avro columns", read_columns, [records()[0]]),
    Fuzzed("Avro schema", read_schema, [RECORD.encode()]),
    Fuzzed("Avro records of a block", lambda data: read_records(pa.py_buffer(data), RECORD, "f"), [write_records(RECORD, ROWS)],
           [slice(0, 12)]),
    Fuzzed("deletes", lambda data: list(read_delete_columns(pa.py_buffer(data), "f")), [write_deletes(DELETES)], [slice(0, 12)]),
    Fuzzed("deletes one by one", lambda data: read_deletes(pa.py_buffer(data), "f"), [write_deletes(DELETES)], [slice(0, 12)]),
    Fuzzed("HFile", read_hfile, [*smallest(list(golden_hfiles("hudi-1.0.2")), 3), hfile(Codec.NONE), hfile(Codec.GZIP), hfile(Codec.NONE, 64)],
           [slice(-4096, -3900), slice(0, 64)], file="f.hfile"),
    Fuzzed("bloom filter", read_bloom, [bloom_text()], [slice(0, 60)]),
    Fuzzed("simple bloom filter", lambda data: read_bloom(data, SIMPLE), [bloom_text(SIMPLE)], [slice(0, 60)]),
    Fuzzed("positions", read_positions, [encode_positions([1, 5, 70_000, 2**35]).encode(), encode_positions(range(300)).encode()]),
    Fuzzed("Parquet base file", base_file_reader("f.parquet", COLUMNS), [parquet()], [slice(-2000, None)], file="f.parquet"),
    Fuzzed("HFile base file", base_file_reader("f.hfile"), [hfile(Codec.NONE), hfile(Codec.GZIP)], [slice(-4096, -3900)], file="f.hfile"),
    Fuzzed("tail of an ORC file", read_orc_tail, [orc_file(), *golden_orc_files()], [slice(-400, None)], file="f.orc"),
    Fuzzed("ORC base file", base_file_reader("f.orc"), [orc_file(), *golden_orc_files()], [slice(-400, None)], share=50, file="f.orc"),
]  # fmt: skip


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_damaged_bytes_are_a_value_or_a_typed_error_within_bounds(parser: Fuzzed) -> None:
    parser.check()


def test_positions_that_unfold_to_more_than_a_block_holds_are_refused() -> None:
    bomb = BitMap64(range(1 << 26))
    bomb.run_optimize()
    text = base64.b64encode(bomb.serialize()).decode()
    assert len(text) < 64 << 10
    with measured_memory() as memory, pytest.raises(CorruptLogBlockError, match="67108864 of them"):
        decode_positions(text)
    assert memory.grown < 32 * MEGABYTE


def test_keys_whose_every_byte_could_begin_a_delete_take_no_memory() -> None:
    content = pa.py_buffer(write_deletes([DeleteRecord("\2" * 4_000, "", 7, "LongWrapper")] * 2_000))
    with measured_memory() as memory:
        assert sum(map(len, read_delete_columns(content, "f"))) == 2_000
    assert memory.grown < 6 * content.size


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_block_of_an_hfile_that_says_to_be_large_takes_no_memory(codec: Codec) -> None:
    data = bytearray(hfile(codec))
    at = data.index(b"DATABLK*") + 12
    data[at : at + 4] = (2**31 - 1).to_bytes(4, "big")
    with measured_memory() as memory, pytest.raises(HudiError):
        read_hfile(bytes(data))
    assert memory.grown < 32 * MEGABYTE


def test_an_orc_file_that_ends_its_decoder_is_a_typed_error() -> None:
    [data] = [bytearray(found) for found in golden_orc_files() if len(found) == 7155]
    for at, value in ((1196, 127), (1197, 0), (1200, 0), (1201, 0)):
        data[at] = value
    with pytest.raises(CorruptBaseFileError, match="status -11|status -6|[Oo]rc|ORC"):
        base_file_reader("f.orc")(bytes(data))
