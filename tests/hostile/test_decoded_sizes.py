"""Files of some kilobytes whose rows take much more memory: they are read in batches of bounded size, or refused (promise P9)."""

from __future__ import annotations

import io
import json
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from support.base_files import zigzag
from support.fuzzing import MEGABYTE, measured_memory
from support.speed import slowness

from pyhudi_core.errors import CorruptAvroError, HudiError, LimitExceededError
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.base_file.parquet import ParquetBaseFile
from pyhudi_core.formats.base_file.parquet_groups import MOST_BYTES
from pyhudi_core.formats.base_file.parquet_pages import chunks, longest_entry, read_pages
from pyhudi_core.formats.log.contents import read_records
from pyhudi_core.model.meta_fields import COMMIT_TIME
from pyhudi_core.runtime.system import PAGE_BYTES

BATCH = 65 * MEGABYTE
"""Bytes of a batch: what is spread out at once, and the columns that are not."""
LONG = "x" * 100_000


def _file(columns: dict[str, pa.Array], **options: Any) -> pa.BufferReader:
    out = io.BytesIO()
    given = {"compression": "zstd", "store_schema": False, "row_group_size": 1 << 30, **options}
    pq.write_table(pa.table(columns), out, **given)
    return pa.BufferReader(out.getvalue())


def _batches(source: pa.BufferReader, rows: int = 131_072) -> Iterator[pa.RecordBatch]:
    return ParquetBaseFile(source, "f.parquet").iter_batches(None, False, rows)


def _texts(indices: list[int | None], values: list[str], kind: str | pa.DataType = "string") -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values).cast(kind))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", ["v", COMMIT_TIME])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_a_long_text_of_which_a_file_has_one_copy_is_spread_out_a_part_at_a_time(
    name: str, kind: pa.DataType, stored: bool
) -> None:
    rows = 1_500
    expected = _texts([None if n % 7 == 0 else n % 2 for n in range(rows)], ["short", LONG], kind)
    source, at = _file({"id": pa.array(range(rows)), name: expected}, store_schema=stored), 0
    assert source.size() < 20_000
    assert ParquetBaseFile(source, "f.parquet").schema.field(name).type == kind
    for batch in _batches(source):
        assert batch.nbytes <= BATCH
        assert batch.schema.field(name).type == kind
        assert batch.column("id").to_pylist() == list(range(at, at + len(batch)))
        assert batch.column(name).equals(expected.slice(at, len(batch)).dictionary_decode())
        at += len(batch)
    assert at == rows


def _lists(rows: int, items: int) -> pa.Array:
    return pa.ListArray.from_arrays(
        pa.array(range(0, rows * items + 1, items), pa.int32()), _texts([0] * (rows * items), [LONG])
    )


def _maps(rows: int, items: int) -> pa.Array:
    keys = pa.array([f"k{n % items}" for n in range(rows * items)])
    offsets = pa.array(range(0, rows * items + 1, items), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, pa.array([LONG]).take(pa.array([0] * rows * items)))


NESTED: dict[str, Callable[[], pa.Array]] = {
    "list": lambda: _lists(300, 5),
    "list of lists": lambda: pa.ListArray.from_arrays(pa.array(range(301), pa.int32()), _lists(300, 4)),
    "struct": lambda: pa.StructArray.from_arrays(
        [_texts([0, None, 0] * 400, [LONG]), pa.array(range(1200))], ["t", "n"]
    ),
    "map": lambda: _maps(300, 4),
}


@pytest.mark.parametrize("kind", NESTED)
def test_texts_in_lists_maps_and_structs_are_spread_out_a_part_at_a_time(kind: str) -> None:
    column = NESTED[kind]()
    batches = list(_batches(_file({"v": column, "id": pa.array(range(len(column)))})))
    assert max(batch.nbytes for batch in batches) <= BATCH
    assert len(batches) > 1
    found = pa.Table.from_batches(batches)
    assert found["id"].to_pylist() == list(range(len(column)))
    assert [_lengths(value) for value in found["v"].to_pylist()] == [_lengths(value) for value in column.to_pylist()]


def _lengths(value: Any) -> Any:
    """The same with texts as their lengths."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return {name: _lengths(item) for name, item in value.items()}
    return [_lengths(item) for item in value] if isinstance(value, list | tuple) else value


def test_several_columns_share_the_bound() -> None:
    batches = list(_batches(_file({f"v{n}": _texts([0] * 400, [LONG]) for n in range(4)})))
    assert max(batch.nbytes for batch in batches) <= BATCH
    assert sum(map(len, batches)) == 400


def test_ordinary_texts_are_read_in_whole_batches() -> None:
    rows = 200_000
    source = _file({"city": _texts([n % 50 for n in range(rows)], [f"city-{n}" for n in range(50)])})
    assert [len(batch) for batch in _batches(source)] == [131_072, rows - 131_072]


def test_a_file_without_rows_has_its_columns() -> None:
    source = _file({"v": pa.array([], pa.string())})
    assert ParquetBaseFile(source, "f.parquet").schema.field("v").type == pa.string()
    assert not [batch for batch in _batches(source, 10) if len(batch)]


def _plain(count: int, size: int, **options: Any) -> pa.BufferReader:
    return _file({"v": pa.array(["y" * size]).take(pa.array([0] * count))}, use_dictionary=False, **options)


def _long_list(items: int) -> pa.BufferReader:
    one = pa.ListArray.from_arrays(pa.array([0, items], pa.int32()), pa.array(np.zeros(items, np.int8)))
    return _file({"v": one})


def _mixed() -> pa.BufferReader:
    """A long text, many times, and short ones of which the last do not fit into the dictionary and are written as they are."""
    texts = pa.array([LONG, *(f"{number:020}" for number in range(80_000))])
    return _file({"v": texts.take(pa.array([0] * 5_000 + list(range(1, 80_001))))})


BOMBS: dict[str, Callable[[], pa.BufferReader]] = {
    "pages of zstd": lambda: _plain(150, 1 << 20, data_page_size=1 << 30),
    "pages of gzip": lambda: _plain(150, 1 << 20, data_page_size=1 << 30, compression="gzip"),
    "pages of snappy": lambda: _plain(150, 1 << 20, data_page_size=1 << 30, compression="snappy"),
    "a page for each text": lambda: _plain(500, 1 << 20, data_page_size=1),
    "prefixes": lambda: _file(
        {"v": pa.array([LONG + str(n) for n in range(5_000)])},
        use_dictionary=False,
        column_encoding={"v": "DELTA_BYTE_ARRAY"},
    ),
    "a dictionary of which a part is used": _mixed,
    "wide values": lambda: _file({"v": pa.array([b"z" * 50_000] * 10_000, pa.binary(50_000))}),
    "one list": lambda: _long_list(50_000_000),
    "lists of nulls": lambda: _file({"v": pa.array([[None] * 100_000] * 200, pa.list_(pa.string()))}),
    "a row with many texts": lambda: _file({"v": _lists(1, 20_000)}),
    "many rows": lambda: _file({"v": pa.nulls(50_000_000, pa.string())}),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_that_decodes_to_much_takes_bounded_memory_or_is_refused(bomb: str) -> None:
    source = BOMBS[bomb]()
    pa.default_memory_pool().release_unused()
    with measured_memory() as memory:
        try:
            assert sum(len(batch) for batch in _batches(source))
        except HudiError as error:
            assert error.hint
    assert (
        memory.grown < 420 * MEGABYTE
    )  # with what the allocator keeps: 400.6 were seen where nothing had warmed it up


def test_a_limit_that_refuses_says_how_it_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    source = _plain(150, 1 << 20, data_page_size=1 << 30)
    with pytest.raises(LimitExceededError) as caught:
        list(_batches(source))
    assert (caught.value.path, caught.value.limit) == ("f.parquet", MOST_BYTES)
    assert PAGE_BYTES in str(caught.value.hint)
    monkeypatch.setenv(PAGE_BYTES, str(1 << 30))
    assert sum(len(batch) for batch in _batches(source)) == 150


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli"])
@pytest.mark.parametrize(
    "texts",
    [["a", "b" * 70_000], ["", "a" * 300, "b"], ["a\0\0b\0\0", "c" * 9], [f"key {n}" for n in range(9_000)]],
    ids=len,
)
def test_the_longest_entry_of_a_dictionary_is_found(codec: str, texts: list[str]) -> None:
    source = _file({"v": pa.array(texts)}, compression=codec)
    data = source.read_at(source.size(), 0)
    chunk = pq.ParquetFile(source).metadata.row_group(0).column(0)
    start = chunk.dictionary_page_offset
    pages = read_pages(data, start, start + chunk.total_compressed_size)
    codecs = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6}
    assert longest_entry(data, pages, codecs[codec]) == max(map(len, texts))


def test_a_stripe_of_orc_comes_in_parts() -> None:
    rows, out = 15_000, pa.BufferOutputStream()
    values = pa.array(["x" * 10_000]).take(pa.array([0] * rows))
    with orc.ORCWriter(out, compression="zstd", dictionary_key_size_threshold=1.0, stripe_size=1 << 30) as writer:
        writer.write(pa.table({"v": values, "id": range(rows)}))
    source = pa.BufferReader(out.getvalue())
    assert source.size() < 20_000
    reader = BaseFileReader(source, "f.orc")
    assert len(reader.row_group_rows) == 1
    batches = list(reader.iter_batches())
    assert max(batch.nbytes for batch in batches) <= BATCH
    assert [number for batch in batches for number in batch.column("id").to_pylist()] == list(range(rows))


EMPTY = {"type": "record", "name": "e", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize("kind", [
    {"type": "array", "items": "null"}, {"type": "map", "values": "null"}, {"type": "array", "items": EMPTY},
    {"type": "array", "items": {"type": "record", "name": "e", "fields": [{"name": "inner", "type": EMPTY | {"name": "f"}}]}},
    {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}, {"type": "record", "name": "e", "fields": []},
], ids=str)  # fmt: skip
def test_values_without_bytes_are_refused_however_many_a_block_of_a_log_says(kind: dict[str, Any]) -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]})
    record = zigzag(1 << 40) + zigzag(0)
    content = struct.pack(">iii", 3, 1, len(record)) + record
    with measured_memory() as memory, pytest.raises(CorruptAvroError):
        read_records(pa.py_buffer(content), schema, "f.log")
    assert memory.grown < 32 * MEGABYTE


def test_a_file_of_many_row_groups_takes_time_in_proportion_to_their_number() -> None:
    """A footer of some megabytes has thousands. A look at all of them for each one takes minutes."""
    source = _file({"id": pa.array(range(4_000))}, row_group_size=1)
    fields = ParquetBaseFile(source, "f.parquet")._footer_fields()
    started = time.process_time()
    assert sum(len(chunks(fields, number, source.size())) for number in range(4_000)) == 4_000
    assert time.process_time() - started < slowness() / 2
