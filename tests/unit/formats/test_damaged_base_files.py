"""Base files and footers that are cut, damaged or long, and the numbers of Thrift in them."""

from __future__ import annotations

import io
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.base_files import opened, rows, written, zigzag

from pyhudi_core.errors import CorruptBaseFileError, ObjectNotFoundError
from pyhudi_core.formats.base_file import BaseFileReader, read_footer
from pyhudi_core.formats.base_file.thrift import thrift_struct


def test_an_error_of_the_storage_is_not_called_damage() -> None:
    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            return 1 << 20

        def tell(self) -> int:
            return 1 << 20

        def read(self, size: int = -1) -> bytes:
            raise ObjectNotFoundError("It is gone", path="x")

    with pytest.raises(ObjectNotFoundError):
        read_footer(pa.PythonFile(Broken(), mode="r"), "x")


@pytest.mark.parametrize("cut", [0, 3, 100, -1, -9])
def test_a_cut_file_names_itself_and_says_what_to_do(cut: int) -> None:
    data = written(rows(10))[:cut]
    with pytest.raises(CorruptBaseFileError) as raised:
        read_footer(opened(data), "p/file.parquet")
    assert raised.value.path == "p/file.parquet"
    assert raised.value.hint
    with pytest.raises(CorruptBaseFileError):
        BaseFileReader(opened(data), "p/file.parquet")


def test_a_damaged_page_is_found_when_it_is_read() -> None:
    data = bytearray(written(rows(5_000), codec="snappy"))
    data[4:60] = b"\xff" * 56
    reader = BaseFileReader(opened(bytes(data)), "p/file.parquet")
    with pytest.raises(CorruptBaseFileError):
        list(reader.iter_batches())


@pytest.mark.parametrize("size", [10, 500_000])
def test_a_footer_is_read_whole_however_long_it_is(size: int) -> None:
    out = io.BytesIO()
    table = pa.table({"a": list(range(100_000))}).replace_schema_metadata({"hoodie_min_record_key": "k" * size})
    pq.write_table(table, out, compression="none", use_dictionary=False)
    assert len(out.getvalue()) > 600_000, "more than the first read takes"
    footer = read_footer(opened(out.getvalue()), "a.parquet")
    assert (footer.rows, footer.min_key) == (100_000, "k" * size)


@pytest.mark.parametrize("value", [0, 1, -1, -2, 63, -64, 64, 2**40 + 1, -(2**40) - 1, 2**63 - 1, -(2**63)])
def test_numbers_of_thrift_keep_their_sign(value: int) -> None:
    data = b"\x16" + zigzag(value) + b"\x00"
    assert thrift_struct(data) == ({1: value}, len(data))
    assert thrift_struct(b"??" + data + b"?", 2) == ({1: value}, len(data) + 2)
    for cut in range(len(data)):
        with pytest.raises(ValueError, match="cut off"):
            thrift_struct(data[:cut])


@pytest.mark.parametrize("items", [0, 1, 14, 15, 200])
def test_lists_of_thrift_have_short_and_long_heads(items: int) -> None:
    head = (
        bytes([items << 4 | 6])
        if items < 15
        else b"\xf6" + bytes([items & 0x7F | 0x80, items >> 7] if items > 127 else [items])
    )
    data = b"\x19" + head + b"".join(map(zigzag, range(items))) + b"\x00"
    assert thrift_struct(data) == ({1: list(range(items))}, len(data))


def test_a_double_of_thrift_has_eight_bytes_and_what_follows_it_is_read() -> None:
    number = struct.pack("<d", 1.5)
    data = b"\x17" + number + b"\x16" + zigzag(7) + b"\0"
    assert thrift_struct(data) == ({1: number, 2: 7}, len(data))
