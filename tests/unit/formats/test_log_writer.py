"""Log files that we write: the bytes of Hudi's blocks for Hudi's rows, and the same rows when they are read again."""

from __future__ import annotations

import io
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.all_types import rows as rows_of_every_type
from support.log_files import golden_logs
from support.samples import examples

from pyhudi_core.errors import SchemaMismatchError, UnsupportedTableError
from pyhudi_core.formats.avro.columns import decode_records
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.formats.log.blocks import BlockType, Header, LogBlock, decode_positions, encode_positions
from pyhudi_core.formats.log.contents import SEVERAL, DeleteRecord, read_deletes, read_records
from pyhudi_core.formats.log.deletes import Deletes
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.formats.log.writer import BlockFormat, LogSchema, LogWriter
from pyhudi_core.model.schema import cast_batch, normalise, to_avro

TIME, BASE = "20260101000000002", "20260101000000000"


def blocks_of(data: bytes) -> list[tuple[LogBlock, pa.Buffer]]:
    """The blocks of a file, none of them damaged, with their contents."""
    opened = LogReader(pa.BufferReader(data), "file.log")
    found = [(block, opened.content(block)) for block in opened.blocks()]
    assert not opened.damaged
    return found


def schema_for(rows: pa.Table) -> LogSchema:
    return LogSchema(TIME, rows.schema, to_avro(rows.schema, "row"), BASE)


def rows_of(block: LogBlock, content: pa.Buffer) -> pa.Table:
    """The rows of a data block."""
    avro = block.headers[Header.SCHEMA]
    if block.type is BlockType.PARQUET_DATA:
        return pa.Table.from_batches(BaseFileReader(pa.BufferReader(content), "file.log").iter_batches())
    if block.type is BlockType.AVRO_DATA:
        return pa.Table.from_batches([read_records(content, avro, "file.log")])
    parts = HFileReader(pa.BufferReader(content), "file.log").scan()
    return pa.Table.from_batches(decode_records(avro, part.data, part.value_starts, part.value_ends) for part in parts)


def written(rows: pa.Table, form: BlockFormat, positions: pa.Array | None = None, **settings: int) -> bytes:
    sink = io.BytesIO()
    LogWriter(sink, schema_for(rows), form, **settings).write(rows, positions)
    return sink.getvalue()


@pytest.mark.row("G3")
def test_avro_blocks_for_the_rows_of_hudis_logs_are_hudis_bytes() -> None:
    checked: Counter[str] = Counter()
    for name, data in golden_logs():
        for block, content in blocks_of(data):
            if block.type is not BlockType.AVRO_DATA or block.version == 0:
                continue
            avro, text = block.headers[Header.SCHEMA], block.headers.get(Header.RECORD_POSITIONS)
            rows = pa.Table.from_batches([read_records(content, avro, name)])
            positions = None if text is None else pa.array(decode_positions(text).astype(np.int64))
            base = block.headers.get(Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)
            sink = io.BytesIO()
            own = LogSchema(block.instant_time, rows.schema, avro, base)
            LogWriter(sink, own, BlockFormat.AVRO, partial=block.is_partial).write(rows, positions)
            [(ours, made)] = blocks_of(sink.getvalue())
            if block.compacted_times:
                continue
            assert (ours.size, ours.type, ours.headers) == (block.size, block.type, block.headers), name
            assert made == content, name
            checked["with positions" if text else "without"] += 1
    assert checked["with positions"] > 20
    assert checked["without"]


@pytest.mark.row("G1")
def test_delete_blocks_for_the_deletes_of_hudis_logs_are_hudis_bytes() -> None:
    kinds = {
        "IntWrapper": pa.int32(),
        "LongWrapper": pa.int64(),
        "StringWrapper": pa.string(),
        "DoubleWrapper": pa.float64(),
    }
    checked: Counter[str] = Counter()
    for name, data in golden_logs():
        for _, content in [found for found in blocks_of(data) if found[0].type is BlockType.DELETE]:
            deletes = read_deletes(content, name)
            found = {item.kind for item in deletes}
            if len(found) != 1 or next(iter(found)) not in kinds or "/metadata/" in name:
                continue
            kind = next(iter(found)) or ""
            values = pa.table({"ordering": pa.array([item.ordering for item in deletes], kinds[kind])})
            plain = all(item.kind == "IntWrapper" and item.ordering == 0 for item in deletes)
            keys = pa.array([item.record_key for item in deletes])
            ours = Deletes(keys, deletes[0].partition_path or "", pa.table({}) if plain else values)
            assert ours.encode() == content.to_pybytes(), name
            checked[kind] += 1
    assert set(checked) >= {"IntWrapper", "LongWrapper"}


@pytest.mark.row("H5")
def test_positions_are_the_text_that_hudi_writes() -> None:
    texts = {block.headers.get(Header.RECORD_POSITIONS) for _, data in golden_logs() for block, _ in blocks_of(data)}
    texts.discard(None)
    assert len(texts) > 50
    assert [text for text in texts if encode_positions(decode_positions(str(text)).tolist()) != text] == []


@pytest.mark.parametrize("form", list(BlockFormat))
def test_rows_of_every_type_come_back_from_every_kind_of_block(form: BlockFormat) -> None:
    rows = rows_of_every_type()
    logical = normalise(rows.schema)
    rows = cast_batch(rows.to_batches()[0], logical)
    rows = pa.Table.from_batches([rows])
    [(block, content)] = blocks_of(written(rows, form))
    assert rows_of(block, content).cast(rows.schema).to_pylist() == rows.to_pylist()
    assert block.headers == {Header.INSTANT_TIME: TIME, Header.SCHEMA: to_avro(rows.schema, "row")}


def test_rows_are_sorted_by_their_positions_and_hfile_blocks_have_none() -> None:
    rows, positions = pa.table({"id": ["a", "b", "c"]}), pa.array([70_000, 3, 9])
    for form in BlockFormat:
        [(block, content)] = blocks_of(written(rows, form, positions))
        ids = rows_of(block, content).column("id").to_pylist()
        if form is BlockFormat.HFILE:
            assert (ids, Header.RECORD_POSITIONS in block.headers) == (["a", "b", "c"], False)
            continue
        assert ids == ["b", "c", "a"]
        assert decode_positions(block.headers[Header.RECORD_POSITIONS]).tolist() == [3, 9, 70_000]
        assert block.headers[Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] == BASE


def test_many_rows_become_several_blocks_each_with_its_own_positions() -> None:
    rows = pa.table({"id": pa.array(np.arange(1_000)).cast(pa.string())})
    found = blocks_of(written(rows, BlockFormat.AVRO, pa.array(np.arange(1_000)[::-1]), block_bytes=rows.nbytes // 4))
    assert len(found) in (4, 5)
    ids = [value for block, content in found for value in rows_of(block, content).column("id").to_pylist()]
    assert ids == rows.column("id").to_pylist()[::-1]
    places = [
        place for block, _ in found for place in decode_positions(block.headers[Header.RECORD_POSITIONS]).tolist()
    ]
    assert places == list(range(1_000))


def test_deletes_with_and_without_an_ordering_value_are_in_blocks_of_their_own() -> None:
    sink = io.BytesIO()
    deletes = Deletes(pa.array(["a", "b", "c"]), "p", pa.table({"ts": pa.array([3, None, 1])}), pa.array([7, 2, 5]))
    writer = LogWriter(sink, schema_for(pa.table({"id": ["a"]})))
    writer.write_deletes(deletes)
    found = blocks_of(sink.getvalue())
    records = [read_deletes(content, "file.log") for _, content in found]
    assert records == [
        [DeleteRecord("c", "p", 1, "LongWrapper"), DeleteRecord("a", "p", 3, "LongWrapper")],
        [DeleteRecord("b", "p", None, None)],
    ]
    assert [decode_positions(block.headers[Header.RECORD_POSITIONS]).tolist() for block, _ in found] == [[5, 7], [2]]
    assert (writer.deletes, writer.blocks) == (3, 2)


def test_several_ordering_values_are_in_one_wrapper() -> None:
    orderings = pa.table({"a": pa.array([1, None], pa.int64()), "b": ["x", "y"]})
    content = Deletes(pa.array(["k", "l"]), "", orderings).encode()
    first, second = read_deletes(pa.py_buffer(content), "file.log")
    assert (first.kind, first.ordering) == (SEVERAL, (("LongWrapper", 1), ("StringWrapper", "x")))
    assert second.ordering == (None, ("StringWrapper", "y"))


def test_an_ordering_value_that_hudi_cannot_hold_is_refused() -> None:
    wide = pa.table({"ts": pa.array([10**20], pa.decimal128(38, 0))})
    with pytest.raises(SchemaMismatchError, match="does not fit"):
        Deletes(pa.array(["k"]), "", wide).encode()


def test_a_column_called_key_is_refused_in_hfile_blocks() -> None:
    with pytest.raises(UnsupportedTableError, match="called key"):
        written(pa.table({"key": ["a"]}), BlockFormat.HFILE)


@pytest.mark.parametrize("form", [BlockFormat.PARQUET, BlockFormat.AVRO])
def test_a_block_knows_the_ranges_of_its_columns(form: BlockFormat) -> None:
    rows = pa.table({"id": ["a", "b"], "n": [5, None]})
    writer = LogWriter(io.BytesIO(), schema_for(rows), form)
    writer.write(rows)
    assert (writer.ranges["n"].min, writer.ranges["n"].max, writer.ranges["n"].null_count) == (5, 5, 1)


def test_the_ranges_of_a_few_rows_in_avro_are_those_of_parquet() -> None:
    rows = rows_of_every_type()
    rows = pa.Table.from_batches([cast_batch(rows.to_batches()[0], normalise(rows.schema))])
    numbers = [[1.5, math.nan, None], [math.nan] * 3, [None] * 3, [-0.5, 2.0, None]]
    floats = pa.table({str(n): pa.array(values, pa.float64()) for n, values in enumerate(numbers)})
    for table in (rows, rows.slice(0, 1), floats):
        found = []
        for form in (BlockFormat.PARQUET, BlockFormat.BY_SIZE):
            writer = LogWriter(io.BytesIO(), schema_for(table), form)
            writer.write(table)
            found.append({name: repr(value) for name, value in writer.ranges.items()})
        assert found[0] == found[1]


@pytest.mark.parametrize(("count", "kind"), [(1_000, BlockType.AVRO_DATA), (1_001, BlockType.PARQUET_DATA)])
def test_a_block_of_a_few_rows_is_avro(count: int, kind: BlockType) -> None:
    [(block, _)] = blocks_of(written(pa.table({"id": list(range(count))}), BlockFormat.BY_SIZE))
    assert block.type is kind


@settings(max_examples=examples(60), deadline=5_000)
@given(st.data())
def test_any_rows_and_positions_come_back(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    values = data.draw(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=count, max_size=count))
    texts = data.draw(st.lists(st.one_of(st.none(), st.text(max_size=20)), min_size=count, max_size=count))
    places = data.draw(st.one_of(st.none(), st.sets(st.integers(0, 2**33), min_size=count, max_size=count).map(list)))
    rows = pa.table({"n": pa.array(values, pa.int64()), "t": pa.array(texts, pa.string())})
    form = data.draw(st.sampled_from(list(BlockFormat)))
    whole = written(
        rows,
        form,
        None if places is None else pa.array(places, pa.int64()),
        block_bytes=data.draw(st.integers(64, 4_000)),
    )
    found = [row for block, content in blocks_of(whole) for row in rows_of(block, content).to_pylist()]
    expected = rows.to_pylist()
    if places is not None and form is not BlockFormat.HFILE:
        expected = [row for _, row in sorted(zip(places, expected, strict=True), key=lambda pair: pair[0])]
    assert found == expected


@pytest.mark.parametrize(("count", "width"), [(1, 1), (2, 2), (3, 3), (10, 4), (1000, 8)])
def test_the_keys_of_an_hfile_block_are_numbers_as_wide_as_hudi_pads_them(count: int, width: int) -> None:
    [(_, content)] = blocks_of(written(pa.table({"id": list(range(count))}), BlockFormat.HFILE))
    keys = [key for part in HFileReader(pa.BufferReader(content), "file.log").scan() for key in part.key_list()]
    assert keys == [str(number).rjust(width).encode() for number in range(count)]
