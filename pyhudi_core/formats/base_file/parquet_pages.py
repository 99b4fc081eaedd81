"""Check the declared sizes of Parquet pages before anything is inflated (Parquet format, "Data Pages").

Arrow allocates the size in a page's header, and decodes as many rows as requested, so a file of a few kilobytes can take any amount of
memory. Untrusted files are therefore checked first: headers only, no page is decompressed.

Invariants
- work is bounded by the bytes of the checked column chunks;
- anything that is not a sequence of pages raises ValueError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import LimitExceededError
from pyhudi_core.formats.base_file.parquet_statistics import thrift_struct

# Field numbers of parquet.thrift: FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, PageHeader, DataPageHeader and its second version.
_ROW_GROUPS, _COLUMNS = 4, 1
_FILE_PATH, _META_DATA = 1, 3
_PATH, _COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE = 3, 7, 9, 11
_PAGE_INFLATED, _PAGE_COMPRESSED, _PAGE, _PAGE_V2 = 2, 3, 5, 8
_ENCODING, _ENCODING_V2 = 2, 4
# This encoding repeats the previous value at no cost, so the size of a page does not limit the size of its values.
_DELTA_BYTE_ARRAY = 7


def largest_page(
    source: pa.NativeFile, footer: bytes, columns: Collection[str], row_groups: Collection[int], limit: int
) -> int:
    """Return the inflated size in bytes of the largest page of these columns; no value in them is larger.

    Args:
        source: the file.
        footer: the Thrift bytes of its metadata.
        columns: names of top-level columns.
        row_groups: numbers of the row groups that will be read.
        limit: limit on the inflated pages of one column in one row group together.

    Raises:
        LimitExceededError: the declared sizes exceed the limit.
        ValueError: the bytes are not pages, or have an encoding that does not limit the size of values.
    """
    largest = 0
    size = source.size()
    for chunk in _chunks(footer, columns, row_groups):
        start, length = _place(chunk, size)
        total = 0
        for inflated in _pages(source.read_at(length, start), length):
            largest = max(largest, inflated)
            total += inflated
            if total > limit:
                raise LimitExceededError(
                    f"A column of a Parquet file inflates to more than {limit} bytes",
                    limit=limit,
                    seen=total,
                    hint="The file is damaged or was made to exhaust memory; restore it from a copy.",
                )
    return largest


def _chunks(footer: bytes, columns: Collection[str], row_groups: Collection[int]) -> Iterator[dict[int, Any]]:
    wanted = {name.encode() for name in columns}
    groups = thrift_struct(footer)[0].get(_ROW_GROUPS)
    for number in row_groups:
        if not isinstance(groups, list) or number >= len(groups):
            raise ValueError("a row group is missing")
        for chunk in _struct(groups[number]).get(_COLUMNS) or ():
            meta = _struct(_struct(chunk).get(_META_DATA))
            path = meta.get(_PATH)
            if isinstance(path, list) and len(path) == 1 and path[0] in wanted:
                if _FILE_PATH in chunk:
                    raise ValueError("a column lies in another file")
                yield meta


def _place(meta: dict[int, Any], size: int) -> tuple[int, int]:
    """Return where the pages of a column begin, and their number of bytes."""
    start, length, dictionary = meta.get(_DATA_PAGE), meta.get(_COMPRESSED), meta.get(_DICTIONARY_PAGE)
    if not isinstance(start, int) or not isinstance(length, int):
        raise ValueError("a column has no place in the file")
    if isinstance(dictionary, int) and 0 < dictionary < start:
        start = dictionary
    if start < 0 or length < 0 or start + length > size:
        raise ValueError("a column lies outside of the file")
    return start, length


def _pages(data: bytes, length: int) -> Iterator[int]:
    if len(data) < length:
        raise ValueError("it ended while it was read")
    at = 0
    while at < length:
        header, at = thrift_struct(data, at)
        inflated, compressed = header.get(_PAGE_INFLATED), header.get(_PAGE_COMPRESSED)
        if not isinstance(inflated, int) or not isinstance(compressed, int) or inflated < 0 or compressed < 0:
            raise ValueError("a page has no size")
        for page, encoding in ((_PAGE, _ENCODING), (_PAGE_V2, _ENCODING_V2)):
            if page in header and _struct(header[page]).get(encoding) == _DELTA_BYTE_ARRAY:
                raise ValueError("a page has an encoding whose values have no bound")
        at += compressed
        yield inflated


def _struct(value: Any) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise ValueError("a field of the footer or of a page has another type")
    return value
