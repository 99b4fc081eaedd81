"""Damaged base files give a typed error or rows."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import CorruptBaseFileError, SchemaMismatchError
from pyhudi_core.formats.base_file import BaseFileReader, BaseFileWriter, read_footer
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.schema import conform

SCHEMA = with_meta_fields(pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))]))


def _file() -> bytes:
    bloom = BloomFilter.empty(5, 0.1)
    out = io.BytesIO()
    writer = BaseFileWriter(out, SCHEMA, avro_schema="{}", bloom=bloom)
    keys = [f"key {number}" for number in range(20)]
    columns = [keys] * 5 + [list(range(20)), [["a"] * (number % 3) for number in range(20)]]
    writer.write(pa.table(columns, schema=SCHEMA))
    writer.add_keys(pa.array(keys))
    writer.close()
    return out.getvalue()


FILE = _file()
FOOTER = len(FILE) - 8 - int.from_bytes(FILE[-8:-4], "little")


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(FILE)
    kind = draw(st.sampled_from(["footer", "anywhere", "cut", "splice"]))
    if kind == "cut":
        return bytes(data[: draw(st.integers(0, len(data)))])
    if kind == "splice":
        at, start = draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 100))] = FILE[start : start + draw(st.integers(0, 100))]
        return bytes(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(FOOTER if kind == "footer" else 0, len(data) - 1))
        data[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(data)


@settings(max_examples=examples(500), deadline=None)
@given(damaged())
def test_a_damaged_file_is_rows_or_a_typed_error(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_no_damaged_bit_of_a_footer_ends_the_process(every: int) -> None:
    """pyarrow aborts the process if it is asked for the column chunks of some damaged footers."""
    for number in range(0, 8 * (len(FILE) - FOOTER), every):
        data = bytearray(FILE)
        data[FOOTER + number // 8] ^= 1 << number % 8
        check(bytes(data))


def check(data: bytes) -> None:
    """Read the file: a typed error passes, and every other error fails the test."""
    refused = None
    try:
        footer = read_footer(pa.BufferReader(data), "file")
        footer.bloom()
        reader = BaseFileReader(pa.BufferReader(data), "file")
        reader.row_group_statistics(SCHEMA.names)
        for batch in reader.iter_batches():
            conform(batch, SCHEMA)
    except CorruptBaseFileError as error:
        refused = error
    except SchemaMismatchError:
        # The footer is sound and names other columns or types.
        assert data[FOOTER:] != FILE[FOOTER:]
    assert refused is None or refused.path == "file"
