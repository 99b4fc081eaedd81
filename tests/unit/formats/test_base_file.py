"""Base files: Hudi's are read, ours have what Hudi reads, and memory stays bounded."""

from __future__ import annotations

import datetime
import gc
import io
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.base_files import SCHEMA, opened, rows, written, zigzag

from pyhudi_core.errors import LimitExceededError
from pyhudi_core.formats.base_file import BaseFileReader, BaseFileWriter, ColumnRange, read_footer
from pyhudi_core.formats.base_file.footer import raw_footer
from pyhudi_core.formats.base_file.parquet_pages import largest_page
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.model.meta_fields import META_FIELDS, with_meta_fields
from pyhudi_core.model.schema import conform, from_avro, normalise, to_avro

GOLDEN = Path(__file__).parents[2] / "golden" / "formats" / "rich_types.parquet"


def golden() -> BaseFileReader:
    return BaseFileReader(opened(GOLDEN.read_bytes()), GOLDEN.name)


@pytest.mark.row("E1")
def test_the_footer_of_hudis_file_tells_its_keys() -> None:
    footer = read_footer(opened(GOLDEN.read_bytes()), GOLDEN.name)
    keys = sorted(pq.read_table(GOLDEN, columns=["_hoodie_record_key"])[0].to_pylist(), key=str.encode)
    assert (footer.rows, footer.min_key, footer.max_key) == (len(keys), keys[0], keys[-1])
    bloom = footer.bloom()
    assert bloom is not None
    assert bloom.might_contain(pa.array(keys)).all()
    assert from_avro(footer.key_value["parquet.avro.schema"]).names == footer.schema.names[len(META_FIELDS) :]


def test_a_footer_leaves_memory_with_its_file() -> None:
    """A footer holds a bloom filter of up to megabytes, and the garbage collector may come late."""

    def held() -> int:
        return sum(type(item) is pq.FileMetaData for item in gc.get_objects())

    data = GOLDEN.read_bytes()
    gc.collect()
    before = held()
    gc.disable()
    try:
        golden().footer()
        assert sum(batch.num_rows for batch in golden().iter_batches())
        read_footer(opened(data), GOLDEN.name)
        pq.read_metadata(opened(written(rows(3))))
        assert held() == before
    finally:
        gc.enable()


@pytest.mark.row("E9")
def test_hudis_rows_of_all_types_are_conformed_to_the_tables_schema() -> None:
    reader = golden()
    schema = with_meta_fields(from_avro(reader.footer().key_value["parquet.avro.schema"]))
    table = pa.Table.from_batches([conform(batch, schema) for batch in reader.iter_batches()])
    table.validate(full=True)
    assert table.schema == schema
    first = table.slice(0, 1).to_pylist()[0]
    assert first["amount"] == Decimal("42472.2810")
    assert first["tags"] == ["jade36", "jade72"]
    assert first["attrs"] == [("north14", 1), ("cedar83", 5)]
    assert first["addr"]["geo"]["lat"] == 0.45277275093611535
    assert first["_hoodie_record_key"] == "a:2,b:b/2 x"


@pytest.mark.row("E1")
def test_a_rewritten_file_holds_the_same_rows_and_footers() -> None:
    reader = golden()
    footer = reader.footer()
    logical = normalise(reader.schema)
    schema = with_meta_fields(logical)
    table = pa.Table.from_batches([conform(batch, schema) for batch in reader.iter_batches()])
    out = io.BytesIO()
    avro = to_avro(logical, "cow_rich_types", meta_fields=True)
    writer = BaseFileWriter(out, schema, avro_schema=avro, bloom=BloomFilter.empty())
    writer.write(table)
    writer.add_keys(table["_hoodie_record_key"])
    stats = writer.close()
    assert not out.closed
    again = BaseFileReader(opened(out.getvalue()), "new")
    assert again.schema == schema
    assert pa.Table.from_batches(again.iter_batches()).cast(schema).equals(table)
    ours = again.footer()
    assert dict(ours.key_value) == dict(footer.key_value)
    assert (stats.rows, stats.min_key, stats.max_key) == (footer.rows, footer.min_key, footer.max_key)
    assert pq.read_metadata(opened(out.getvalue())).metadata[b"writer.model.name"] == b"avro"


def test_types_are_stored_as_spark_reads_them() -> None:
    schema = with_meta_fields(
        pa.schema(
            [
                ("amount", pa.decimal128(9, 2)),
                ("at", pa.timestamp("us", "UTC")),
                ("local", pa.timestamp("us")),
                ("tags", pa.list_(pa.string())),
            ]
        )
    )
    out = io.BytesIO()
    writer = BaseFileWriter(out, schema, avro_schema="{}", bloom=None)
    writer.write(schema.empty_table())
    writer.close()
    parquet = pq.ParquetFile(opened(out.getvalue()))
    columns = {parquet.schema.column(index).path: parquet.schema.column(index) for index in range(len(parquet.schema))}
    assert columns["amount"].physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert columns["at"].physical_type == columns["local"].physical_type == "INT64"
    assert "tags.list.element" in columns
    assert parquet.schema_arrow.remove_metadata() == schema
    assert b"ARROW:schema" not in (parquet.metadata.metadata or {})


def test_no_filter_is_written_when_none_is_given() -> None:
    footer = read_footer(opened(written(rows(3))), "x")
    assert footer.bloom() is None
    assert "hoodie_bloom_filter_type_code" not in footer.key_value
    assert (footer.min_key, footer.max_key) == ("00000000", "00000002")


def test_a_file_without_rows_can_be_read() -> None:
    reader = BaseFileReader(opened(written()), "x")
    assert (reader.rows, list(reader.iter_batches()), reader.footer().min_key) == (0, [], None)
    assert reader.schema == SCHEMA


def test_keys_range_over_the_bytes_of_utf8_and_over_kept_rows() -> None:
    out = io.BytesIO()
    writer = BaseFileWriter(out, SCHEMA, avro_schema="{}", bloom=None)
    writer.add_keys(pa.array(["b", "\uffff", "\U00010000"]))
    writer.add_keys(pa.array([], pa.string()))
    writer.bound_keys(pa.array(["c", "d"]))
    writer.bound_keys(pa.nulls(1, pa.string()))
    stats = writer.close()
    # UTF-16 would put the character of two surrogates first.
    assert (stats.min_key, stats.max_key) == ("b", "\U00010000")
    other = BaseFileWriter(io.BytesIO(), SCHEMA, avro_schema="{}", bloom=None)
    other.bound_keys(pa.array(["c", "d"]))
    other.add_keys(pa.array(["a"]))
    assert other.close().min_key == "a"


def test_a_filter_that_is_seeded_keeps_the_old_keys() -> None:
    old = read_footer(opened(written(rows(10), bloom=BloomFilter.empty(50))), "x").bloom()
    both = read_footer(opened(written(rows(10, start=10), bloom=old)), "x").bloom()
    assert both is not None
    assert both.might_contain(pa.array([f"{number:08d}" for number in range(20)])).all()


def test_rows_are_grouped_by_number_however_they_arrive() -> None:
    table = pa.Table.from_batches([rows(1_000)])
    for pieces in ([table], table.to_batches(max_chunksize=7), [table.slice(0, 999), table.slice(999)]):
        data = written(*pieces, row_group_rows=300)
        reader = BaseFileReader(opened(data), "x")
        assert reader.row_group_rows == [300, 300, 300, 100]
        assert pa.Table.from_batches(reader.iter_batches()).cast(SCHEMA).equals(table)


def test_wide_rows_make_row_groups_of_about_the_size_asked_for() -> None:
    batch = rows(4_000)
    noise = pa.array([f"{number * 7919 % 1000003:07d}" * 40 for number in range(4_000)])
    batch = pa.RecordBatch.from_arrays([*batch.columns[:6], noise, batch.column(7)], schema=SCHEMA)
    data = written(batch, row_group_bytes=64 << 10, codec="none")
    parquet = pq.ParquetFile(opened(data))
    sizes = [parquet.metadata.row_group(number).total_byte_size for number in range(parquet.num_row_groups)]
    assert 10 < len(sizes) < 40
    assert max(sizes) < 4 * (64 << 10)


def test_the_size_so_far_follows_what_is_written() -> None:
    out = io.BytesIO()
    writer = BaseFileWriter(out, SCHEMA, avro_schema="{}", bloom=None, row_group_rows=1_000)
    seen = [writer.bytes_written]
    for number in range(8):
        writer.write(rows(700, start=700 * number))
        seen.append(writer.bytes_written)
    writer.close()
    assert seen[0] == 0
    assert seen == sorted(seen)
    assert 0.5 < seen[-1] / len(out.getvalue()) < 2


def test_columns_whose_values_repeat_get_a_dictionary_and_others_do_not() -> None:
    metadata = pq.read_metadata(opened(written(rows(20_000)))).row_group(0)
    encodings = {
        metadata.column(number).path_in_schema: metadata.column(number).encodings
        for number in range(metadata.num_columns)
    }
    plain = {name for name, used in encodings.items() if "RLE_DICTIONARY" not in used}
    assert plain == {"_hoodie_commit_seqno", "_hoodie_record_key", "id"}


def test_pages_are_compressed_with_zstd_and_repeated_meta_columns_are_dictionaries() -> None:
    """The columns keep their dictionaries in every row group, whether rows arrive as texts, with dictionaries, or both."""
    as_texts, given = rows(500), pa.Table.from_batches([rows(500, start=500)])
    names = pa.array(["f_0-0-0_20260101000000000.parquet"] * 500).dictionary_encode()
    data = written(as_texts, given.set_column(4, "_hoodie_file_name", names), row_group_rows=800)
    metadata = pq.read_metadata(opened(data))
    assert metadata.num_row_groups == 2
    for group in range(2):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            assert column.compression == "ZSTD"
            if number in (0, 3, 4):
                assert "RLE_DICTIONARY" in column.encodings
                assert column.statistics.min == column.statistics.max
    found = pa.Table.from_batches(BaseFileReader(opened(data), "x").iter_batches())
    assert found.cast(SCHEMA).equals(pa.Table.from_batches([rows(1_000)]).combine_chunks())


def test_an_abandoned_file_gets_no_footer(tmp_path: Path) -> None:
    target = tmp_path / "file.parquet"
    stream = pa.OSFile(str(target), "wb")
    writer = BaseFileWriter(stream, SCHEMA, avro_schema="{}", bloom=None, row_group_rows=10)
    writer.write(rows(25))
    size = stream.tell()
    writer.abandon()
    stream.close()
    del writer
    gc.collect()
    assert target.stat().st_size == size


@pytest.mark.row("D10")
def test_columns_that_are_asked_for_are_read_and_missing_ones_are_null() -> None:
    data = written(rows(5))
    reader = BaseFileReader(opened(data), "x", columns=["later", "id"])
    batches = list(reader.iter_batches())
    assert batches[0].schema.names == ["id"]
    wanted = pa.schema([("later", pa.list_(pa.string())), ("id", pa.float64())])
    assert conform(batches[0], wanted).to_pydict() == {"later": [None] * 5, "id": [0.0, 1.0, 2.0, 3.0, 4.0]}
    none = list(BaseFileReader(opened(data), "x", columns=["later"]).iter_batches())
    assert conform(none[0], pa.schema([("later", pa.int32())])).to_pydict() == {"later": [None] * 5}


def test_row_groups_can_be_chosen_and_batches_are_bounded() -> None:
    reader = BaseFileReader(opened(written(rows(100), row_group_rows=40)), "x", columns=["id"])
    batches = list(reader.iter_batches([2, 0], batch_rows=25))
    assert [batch.column(0).to_pylist() for batch in batches] == [
        list(range(80, 100)),
        list(range(25)),
        list(range(25, 40)),
    ]
    assert pa.Table.from_batches(reader.iter_batches(use_threads=True)).num_rows == 100


def test_statistics_tell_ranges_and_nulls_of_each_row_group() -> None:
    reader = BaseFileReader(opened(written(rows(100), row_group_rows=60)), "x")
    first, second = reader.row_group_statistics(["id", "note", "amount", "nowhere"])
    assert first["id"] == ColumnRange(0, 59, 0)
    assert second["amount"] == ColumnRange(Decimal("15.00"), Decimal("24.75"), 0)
    assert second["note"] == ColumnRange("note 0", "note 6", 26)
    assert "nowhere" not in first
    assert golden().row_group_statistics(["d", "ev", "tags"])[0].keys() == {"d", "ev"}


def test_statistics_that_python_has_no_value_for_are_left_out() -> None:
    table = pa.table(
        {"at": pa.array([2**62], pa.timestamp("us")), "day": pa.array([2**30], pa.int32()).cast(pa.date32())}
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    found = BaseFileReader(opened(out.getvalue()), "x").row_group_statistics(["at", "day"])[0]
    assert found["at"] == found["day"] == ColumnRange(None, None, 0)


def test_statistics_of_each_kind_of_number_are_known() -> None:
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
    table = pa.table({str(kind): pa.array([-3, None, 5], kind) for kind in kinds} | {"flag": [False, None, True]})
    out = io.BytesIO()
    pq.write_table(table, out)
    found = BaseFileReader(opened(out.getvalue()), "x").row_group_statistics(table.column_names)[0]
    assert found == {str(kind): ColumnRange(-3, 5, 1) for kind in kinds} | {"flag": ColumnRange(False, True, 1)}


def test_a_number_of_nulls_that_cannot_be_is_not_known() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array([None] * 63 + [7], pa.int64())}), out)
    good, bad = (b"\x16" + zigzag(value) for value in (63, -63))
    assert good in out.getvalue()
    for data, nulls in ((out.getvalue(), 63), (out.getvalue().replace(good, bad), None)):
        assert BaseFileReader(opened(data), "x").row_group_statistics(["n"]) == [{"n": ColumnRange(7, 7, nulls)}]


def test_the_pages_of_a_column_may_be_as_large_as_the_limit_together_and_no_larger() -> None:
    numbers = pa.table([range(100)], schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    out = io.BytesIO()
    pq.write_table(numbers, out, use_dictionary=False, compression="gzip")
    source = opened(out.getvalue())
    footer = raw_footer(source)
    assert largest_page(source, footer, ["id"], [0], 800) == 800
    with pytest.raises(LimitExceededError, match="more than 799 bytes"):
        largest_page(source, footer, ["id"], [0], 799)


def test_times_and_zones_come_back_as_they_were_written() -> None:
    logical = pa.schema([("t", pa.time64("us")), ("local", pa.timestamp("us")), ("at", pa.timestamp("us", "UTC"))])
    schema = with_meta_fields(logical)
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
    values = {"t": [moment.time()], "local": [moment], "at": [moment.replace(tzinfo=datetime.UTC)]}
    meta = {name: ["x"] for name in META_FIELDS}
    table = pa.table({**meta, **values}, schema=schema)
    out = io.BytesIO()
    writer = BaseFileWriter(out, schema, avro_schema="{}", bloom=None)
    writer.write(table)
    writer.close()
    reader = BaseFileReader(opened(out.getvalue()), "x")
    assert pa.Table.from_batches(reader.iter_batches()).equals(table)
