"""Row groups that are copied as bytes: the new file has the same rows, statistics and keys as one whose rows were decoded and encoded again."""

from __future__ import annotations

import io
import math
import random
from dataclasses import replace
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi_core.formats.base_file import BaseFileReader, BaseFileStats, BaseFileWriter
from pyhudi_core.formats.base_file.footer import ended, raw_footer
from pyhudi_core.formats.base_file.row_group_copies import StoredRowGroup
from pyhudi_core.formats.base_file.row_group_copies import copied as copied_group
from pyhudi_core.formats.base_file.thrift import field_spans, item_spans, number_bytes, structs_bytes, thrift_struct
from pyhudi_core.model.meta_fields import FILE_NAME, META_FIELDS

SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in META_FIELDS),
        pa.field("id", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("price", pa.float64()),
        pa.field("small", pa.float32()),
        pa.field("amount", pa.decimal128(12, 2)),
        pa.field("moment", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.struct([("x", pa.int32()), ("name", pa.string())])),
        pa.field("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
ROWS = 40


def rows(number: int, chosen: random.Random, file: str) -> pa.Table:
    """One row group of rows."""

    def one(at: int) -> dict[str, object]:
        key = f"{number:03}-{at:04}"
        own = dict(zip(META_FIELDS, ("20260101000000000", f"{number}_{at}", key, "", file), strict=True))
        values: dict[str, object] = {
            "id": number * 1000 + at,
            "text": chosen.choice(["a", "b" * 50, "ü", "", None]),
            "price": chosen.choice([1.5, math.nan, None, -0.0, math.inf]) if number == 1 else chosen.random(),
            "small": chosen.choice([None, 2.5, 7.0]),
            "amount": chosen.choice([Decimal("1.25"), None]),
            "moment": chosen.choice([None, 1_700_000_000_000_000]),
            "tags": chosen.choice([None, [], ["x", None]]),
            "place": chosen.choice([None, {"x": 1, "name": None}]),
            "counts": chosen.choice([None, [], [("k", 1)]]),
        }
        return {**own, **values}

    return pa.Table.from_pylist([one(at) for at in range(ROWS)], schema=SCHEMA)


def writer(stream: io.BytesIO, codec: str = "zstd") -> BaseFileWriter:
    return BaseFileWriter(stream, SCHEMA, avro_schema="{}", bloom=None, codec=codec, row_group_rows=ROWS)


def file_of(groups: list[pa.Table], codec: str = "zstd") -> bytes:
    made = io.BytesIO()
    file = writer(made, codec)
    for group in groups:
        file.write(group)
    file.add_keys(pa.concat_tables(groups).column(META_FIELDS[2]))
    file.close()
    return made.getvalue()


def copied(old: bytes, copies: set[int], changed: pa.Table, codec: str = "zstd") -> tuple[bytes, BaseFileStats]:
    """Write the file again: copies of these row groups, ``changed`` in place of the others, and the name of the new file."""
    made = io.BytesIO()
    file = writer(made, codec)
    reader = BaseFileReader(pa.BufferReader(old), "old.parquet")
    for number, group in enumerate(reader.stored_row_groups()):
        if number in copies:
            assert group is not None
            assert file.copies(group)
            nan = ["price"] if number == 1 else []
            file.copy(group, pa.table({FILE_NAME: pa.array(["new"] * group.rows)}), nan)
        else:
            file.write(changed)
        file.bound_keys(pa.array([f"{number:03}-0000", f"{number:03}-{ROWS - 1:04}"]))
    stats = file.close()
    return made.getvalue(), stats


def comparable(stats: BaseFileStats) -> dict[str, tuple[object, ...]]:
    """The ranges of columns; NaN as a text, because NaN is not equal to itself."""
    return {
        name: tuple(
            "NaN" if isinstance(value, float) and math.isnan(value) else value
            for value in (each.min, each.max, each.null_count)
        )
        for name, each in stats.ranges.items()
    }


@pytest.mark.parametrize("copies", [set(), {0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}])
@pytest.mark.parametrize("codec", ["zstd", "snappy", "none"])
def test_a_file_with_copied_row_groups_has_the_rows_statistics_and_keys_of_one_that_is_encoded_anew(
    copies: set[int], codec: str
) -> None:
    chosen = random.Random(7)
    groups = [rows(number, chosen, "old") for number in range(3)]
    changed = rows(9, chosen, "new")
    made, stats = copied(file_of(groups, codec), copies, changed, codec)
    place = SCHEMA.get_field_index(FILE_NAME)
    names = pa.array(["new"] * ROWS)
    wanted = pa.concat_tables(
        [groups[at].set_column(place, SCHEMA.field(FILE_NAME), names) if at in copies else changed for at in range(3)]
    )
    anew, other = copied(file_of(groups, codec), set(), changed, codec)
    assert pq.read_metadata(pa.BufferReader(anew)).num_row_groups == 3

    found = pa.Table.from_batches(BaseFileReader(pa.BufferReader(made), "new.parquet").iter_batches())
    assert found.cast(SCHEMA).to_pylist().__repr__() == wanted.to_pylist().__repr__()
    assert pq.read_table(pa.BufferReader(made)).num_rows == 3 * ROWS
    metadata = pq.read_metadata(pa.BufferReader(made))
    assert metadata.num_rows == 3 * ROWS
    assert [metadata.row_group(at).num_rows for at in range(3)] == [ROWS] * 3
    twin = io.BytesIO()
    encoded = writer(twin, codec)
    for at in range(3):
        encoded.write(wanted.slice(at * ROWS, ROWS))
    assert comparable(stats) == comparable(encoded.close())
    assert (stats.min_key, stats.max_key) == (other.min_key, other.max_key)


def test_copies_of_copies_stay_readable_for_other_engines(tmp_path) -> None:  # type: ignore[no-untyped-def]
    chosen = random.Random(3)
    groups = [rows(number, chosen, "old") for number in range(3)]
    file = file_of(groups)
    sizes = []
    for generation in range(6):
        changed = rows(generation % 3, chosen, "new")
        file, _ = copied(file, {0, 1, 2} - {generation % 3}, changed)
        sizes.append(len(file))
        place = tmp_path / f"{generation}.parquet"
        place.write_bytes(file)
        told = duckdb.sql(f"select count(*), count(distinct id), min(_hoodie_file_name) from '{place}'").fetchall()
        assert told == [(3 * ROWS, 3 * ROWS, "new")]
        assert pq.ParquetFile(place).read().num_rows == 3 * ROWS
    assert max(sizes) < 1.2 * min(sizes), "a copy carries nothing on that is not read"


def test_a_row_group_of_other_columns_or_with_a_page_index_or_of_few_rows_is_not_copied() -> None:
    chosen = random.Random(1)
    group = rows(0, chosen, "old")

    def stored(data: bytes) -> list[StoredRowGroup | None]:
        return BaseFileReader(pa.BufferReader(data), "old.parquet").stored_row_groups()

    (whole,) = stored(file_of([group]))
    assert writer(io.BytesIO()).copies(whole)
    (small,) = stored(file_of([group.slice(0, 5)]))
    assert not writer(io.BytesIO()).copies(small)
    other = io.BytesIO()
    pq.write_table(group.drop_columns(["small"]), other, store_schema=False)
    assert not any(writer(io.BytesIO()).copies(each) for each in stored(other.getvalue()))
    indexed = io.BytesIO()
    pq.write_table(group, indexed, store_schema=False, write_page_index=True)
    assert stored(indexed.getvalue()) == [None]
    wide = io.BytesIO()
    named = SCHEMA.set(SCHEMA.get_field_index("id"), pa.field("id", pa.int32()))
    pq.write_table(group.cast(named), wide, store_schema=False)
    assert not any(writer(io.BytesIO()).copies(each) for each in stored(wide.getvalue()))


def with_footer(data: bytes, old: bytes, new: bytes) -> bytes:
    """Replace bytes that stand once in the structure of the second row group, in the footer of a file."""
    footer = raw_footer(pa.BufferReader(data))
    begin, end = item_spans(footer, field_spans(footer)[0][4][0])[1]
    group = footer[begin:end]
    assert group.count(old) == 1
    return data[: -len(footer) - 8] + ended(footer[:begin] + group.replace(old, new) + footer[end:])


def column_span(data: bytes, name: str, field: int) -> tuple[bytes, int]:
    """Return the bytes of the metadata of a column in the second row group, and where the value of a field ends in them."""
    footer = raw_footer(pa.BufferReader(data))
    begin, _ = item_spans(footer, field_spans(footer)[0][4][0])[1]
    for start, end in item_spans(footer, field_spans(footer, begin)[0][1][0]):
        if thrift_struct(footer, start)[0][3][3] == [name.encode()]:
            meta, _ = field_spans(footer, field_spans(footer, start)[0][3][0])
            return footer[start:end], meta[field][1] - start
    raise AssertionError(name)


def test_a_row_group_whose_footer_has_other_names_positions_or_sizes_than_its_columns_is_not_copied() -> None:
    chosen = random.Random(1)
    data = file_of([rows(number, chosen, "old") for number in range(2)])
    column, at = column_span(data, "_hoodie_record_key", 9)
    # The field behind the position of the pages is that of the statistics, three further; a dictionary at 0 is none.
    assert column[at] >> 4 == 3
    no_dictionary = column[:at] + b"\x26\x00" + bytes([0x10 | column[at] & 15]) + column[at + 1 :]
    renamed = column.replace(b"_hoodie_record_key", b"_hoodie_file_nam_e").replace(b"_nam_e", b"_names")
    size = number_bytes(thrift_struct(column)[0][3][6])
    huge = column[: column_span(data, "_hoodie_record_key", 6)[1] - len(size)] + number_bytes(2**63 - 1)
    huge += column[column_span(data, "_hoodie_record_key", 6)[1] :]
    for other in (no_dictionary, renamed, huge):
        reader = BaseFileReader(pa.BufferReader(with_footer(data, column, other)), "old.parquet")
        assert sum(batch.num_rows for batch in reader.iter_batches()) == 2 * ROWS
        assert [group is None for group in reader.stored_row_groups()] == [False, True]


def with_number(data: bytes, name: str, field: int, value: int) -> bytes:
    """The file with another number in the metadata of a column of the second row group."""
    column, at = column_span(data, name, field)
    before = number_bytes(thrift_struct(column)[0][3][field])
    return with_footer(data, column, column[: at - len(before)] + number_bytes(value) + column[at:])


@pytest.mark.parametrize(("field", "value"), [(1, 1), (1, 7), (4, 5), (4, 99), (5, ROWS - 1), (5, ROWS + 1)])
def test_a_row_group_of_another_physical_type_codec_or_number_of_values_is_not_copied(field: int, value: int) -> None:
    chosen = random.Random(1)
    data = with_number(file_of([rows(number, chosen, "old") for number in range(2)]), "id", field, value)
    found = BaseFileReader(pa.BufferReader(data), "old.parquet").stored_row_groups()
    assert [group is None for group in found] == [False, True]


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "none"])
@pytest.mark.parametrize("name", ["text", "amount"])
def test_pages_of_another_codec_than_their_footer_says_are_not_copied(codec: str, name: str) -> None:
    chosen = random.Random(1)
    data = file_of([rows(number, chosen, "old") for number in range(2)], codec)
    own = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}[codec]
    for other in {0, 1, 2, 6} - {own}:
        with pytest.raises(ValueError, match="not compressed as its footer says"):
            copied(with_number(data, name, 4, other), {0, 1}, rows(9, chosen, "new"), codec)
    copied(with_number(data, name, 4, own), {0, 1}, rows(9, chosen, "new"), codec)


def test_pages_with_another_number_of_values_than_their_footer_says_are_not_copied() -> None:
    chosen = random.Random(1)
    data = file_of([rows(number, chosen, "old") for number in range(2)])
    group = BaseFileReader(pa.BufferReader(data), "old.parquet").stored_row_groups()[1]
    assert group is not None
    wrong = replace(group, columns=tuple(replace(column, values=ROWS + 1) for column in group.columns))
    with pytest.raises(ValueError, match=f"have {ROWS} values, not {ROWS + 1}"):
        copied_group(wrong, {}, io.BytesIO())


def test_wrong_statistics_of_a_copied_row_group_are_unknown_and_end_no_process() -> None:
    chosen = random.Random(1)
    data = file_of([rows(number, chosen, "old") for number in range(2)])
    column, _ = column_span(data, "id", 12)
    right = (1000).to_bytes(8, "little")
    wrong = column.replace(bytes([8]) + right, bytes([3]) + right[:3])
    assert wrong != column
    _, stats = copied(with_footer(data, column, wrong), {0, 1}, rows(9, chosen, "new"))
    assert (stats.ranges["id"].min, stats.ranges["id"].max) == (None, None)
    assert stats.ranges["_hoodie_record_key"].min == "000-0000"


def test_numbers_and_lists_are_encoded_as_they_are_read() -> None:
    for value in (0, 1, -1, 63, 64, -64, -65, 300, 2**31, -(2**31), 2**40, 2**62, -(2**62)):
        struct = bytes([0x16]) + number_bytes(value) + b"\0"
        assert thrift_struct(struct)[0] == {1: value}
        assert field_spans(struct)[0] == {1: (1, len(struct) - 1)}
    for size in (0, 1, 14, 15, 200):
        items = [bytes([0x16]) + number_bytes(at * 1000) + b"\0" for at in range(size)]
        text = structs_bytes(items)
        assert [text[begin:end] for begin, end in item_spans(text, 0)] == items
