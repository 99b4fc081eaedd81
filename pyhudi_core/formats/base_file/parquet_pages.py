"""The declarations of the pages of a Parquet file, read before anything is decompressed (Parquet format, "Data Pages").

Arrow allocates the size in a page's header, and decodes as many rows as requested, so a file of a few kilobytes can take any amount of
memory. So headers are read first: no page is decompressed, except dictionaries whose longest entry is needed.

Invariants
- work is bounded by the bytes of the checked column chunks;
- anything that is not a sequence of pages raises ValueError.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import LimitExceededError
from pyhudi_core.formats.base_file.thrift import thrift_struct, unsigned_bytes

BYTE_ARRAY, FIXED = 6, 7
"""Physical types of values with any length: the length is stored before each value (BYTE_ARRAY), or once for the column (FIXED)."""
# Field numbers of parquet.thrift: FileMetaData, SchemaElement, RowGroup, ColumnChunk, ColumnMetaData, PageHeader and the headers in it.
_SCHEMA, _ROW_GROUPS, _COLUMNS = 2, 4, 1
_TYPE, _TYPE_LENGTH, _REPETITION, _NAME, _CHILDREN = 1, 2, 3, 4, 5
_FILE_PATH, _META_DATA = 1, 3
_ENCODINGS, _CODEC, _ALL_VALUES, _COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE, _PAGE_ENCODINGS = 2, 4, 5, 7, 9, 11, 13
_PAGE_TYPE, _PAGE_INFLATED, _PAGE_COMPRESSED, _PAGE, _PAGE_OF_DICTIONARY, _PAGE_V2 = 1, 2, 3, 5, 7, 8
_VALUES, _ENCODING, _ENCODING_V2 = 1, 2, 4
_V2 = 3
_OF_VALUES, _OF_ENTRIES = {0: (_PAGE, _ENCODING), _V2: (_PAGE_V2, _ENCODING_V2)}, 2
"""Types of pages."""
_REPEATED = 2
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
_SNAPPY, _BEGINS, _LONGEST_BEGIN = 1, {2: b"\x1f\x8b", 6: b"\x28\xb5\x2f\xfd"}, 10
CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
"""Compressions of pages, by their numbers; 0 is none."""
_OF_DICTIONARY = (2, 8)
# This encoding repeats the previous value at no cost, so every value may be as long as its page.
_DELTA_BYTE_ARRAY = 7
_MOST_DEPTH = 64
_MOST_ENTRIES = 1 << 17
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column of values, in the order of the file.

    ``width``: bytes of a value; 0 for texts. ``nested``: a row may have any number of values. ``kind``: the physical type.
    """

    path: tuple[str, ...]
    width: int
    nested: bool
    kind: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """The position of the pages of a column in a row group. Without values, Arrow reads no page of the column."""

    start: int
    length: int
    codec: int
    has_values: bool


@dataclass(slots=True)
class Pages:
    """The declarations in the page headers of a column in a row group.

    Attributes:
        dictionary: the position of the dictionary's page in the given bytes; its compressed and decompressed bytes; its number of entries.
        largest: decompressed bytes of the largest data page.
        total: decompressed bytes of all pages.
        values: number of values, nulls included.
        numbers: the number of values that are numbers of dictionary entries.
        plain: decompressed bytes of the pages of all other values; None if these bytes do not limit the bytes of the values.
        each: maximum bytes of each value in one of these pages.
    """

    dictionary: tuple[int, int, int, int] = (0, 0, 0, 0)
    largest: int = 0
    total: int = 0
    values: int = 0
    numbers: int = 0
    plain: int | None = 0
    each: int = 0

    @property
    def inflated(self) -> int:
        """Return the bytes of a dictionary and a data page, which are in memory at the same time."""
        return self.dictionary[2] + self.largest


def leaves(metadata: dict[int, Any]) -> list[Leaf]:
    """Return the columns of values of a file, by the schema in its footer. Raises ValueError."""
    elements = iter(_structs(metadata.get(_SCHEMA)))
    found: list[Leaf] = []

    def walk(count: int, above: tuple[str, ...], nested: bool) -> None:
        if len(above) > _MOST_DEPTH:
            raise ValueError("its columns are nested too deeply")
        for _ in range(count):
            element = next(elements, None)
            if element is None:
                raise ValueError("its schema is cut off")
            name = element.get(_NAME)
            if not isinstance(name, bytes):
                raise ValueError("a column has no name")
            path, many = (*above, name.decode()), nested or element.get(_REPETITION) == _REPEATED
            if _CHILDREN in element and _TYPE not in element:
                walk(_number(element, _CHILDREN), path, many)
            else:
                kind = _number(element, _TYPE)
                width = _number(element, _TYPE_LENGTH) if kind == FIXED else _WIDTHS.get(kind, 0)
                found.append(Leaf(path, width, many, kind))

    walk(_number(next(elements, {}), _CHILDREN), (), False)
    return found


def chunks(metadata: dict[int, Any], row_group: int, size: int) -> list[Chunk]:
    """Return the positions of the columns of a row group, in a file of ``size`` bytes. Raises ValueError."""
    groups = metadata.get(_ROW_GROUPS)
    if not isinstance(groups, list) or row_group >= len(groups):
        raise ValueError("a row group is missing")
    found = []
    for chunk in _structs(_struct(groups[row_group]).get(_COLUMNS)):
        if _FILE_PATH in chunk:
            raise ValueError("a column lies in another file")
        meta = _struct(chunk.get(_META_DATA))
        start, length = _place(meta, size)
        found.append(Chunk(start, length, _number(meta, _CODEC), _number(meta, _ALL_VALUES) > 0))
    return found


def numbered_columns(metadata: dict[int, Any], found: list[Leaf]) -> set[int]:
    """Return the places of the text columns whose pages, as the footer says, have only numbers of dictionary entries in all row groups.

    Raises ValueError.
    """
    numbered = {place for place, leaf in enumerate(found) if not leaf.width}
    for group in _structs(metadata.get(_ROW_GROUPS)):
        for place, chunk in enumerate(_structs(group.get(_COLUMNS))):
            if place in numbered and not _is_numbered(_struct(chunk.get(_META_DATA))):
                numbered.remove(place)
    return numbered


def _is_numbered(meta: dict[int, Any]) -> bool:
    if _PAGE_ENCODINGS in meta:
        pages = [page for page in _structs(meta[_PAGE_ENCODINGS]) if page.get(_PAGE_TYPE) in _OF_VALUES]
        return bool(pages) and all(page.get(_ENCODING) in _OF_DICTIONARY for page in pages)
    # Older writers list the encodings of all pages. In their files the entries have the same encoding as the numbers.
    encodings = meta.get(_ENCODINGS)
    return isinstance(encodings, list) and 2 in encodings and 0 not in encodings


def _place(meta: dict[int, Any], size: int) -> tuple[int, int]:
    """Return the position of the pages of a column, and their number of bytes."""
    start, length, dictionary = meta.get(_DATA_PAGE), meta.get(_COMPRESSED), meta.get(_DICTIONARY_PAGE)
    if not isinstance(start, int) or not isinstance(length, int):
        raise ValueError("a column has no place in the file")
    if isinstance(dictionary, int) and 0 < dictionary < start:
        start = dictionary
    if start < 0 or length < 0 or start + length > size:
        raise ValueError("a column lies outside of the file")
    return start, length


def read_pages(data: bytes, at: int, end: int) -> Pages:
    """Return the declarations of the headers between two positions. Raises ValueError."""
    found = Pages()
    while at < end:
        header, at = thrift_struct(data, at)
        inflated, compressed = header.get(_PAGE_INFLATED), header.get(_PAGE_COMPRESSED)
        if not isinstance(inflated, int) or not isinstance(compressed, int) or inflated < 0 or compressed < 0:
            raise ValueError("a page has no size")
        found.total += inflated
        kind = header.get(_PAGE_TYPE)
        if kind == _OF_ENTRIES:
            entries = _number(_struct(header.get(_PAGE_OF_DICTIONARY)), _VALUES)
            found.dictionary = (at, compressed, inflated, entries)
        elif kind in _OF_VALUES:
            field, encoding = _OF_VALUES[kind]
            _add(found, _struct(header.get(field)), encoding, inflated)
        at += compressed
    if at > end:
        raise ValueError("a page does not end in its column")
    return found


def refuse_other_pages(data: bytes, codec: int, values: int) -> None:
    """Raise ValueError if the pages of a column have another number of values than the footer says, or do not begin as pages of the codec do."""
    pages = read_pages(data, 0, len(data))
    if pages.values != values:
        raise ValueError(f"the pages of a column have {pages.values} values, not {values}")
    if not len(data):
        return
    header, at = thrift_struct(data)
    inflated, stored = header[_PAGE_INFLATED], header[_PAGE_COMPRESSED]
    if header.get(_PAGE_TYPE) == _V2 or not inflated:  # a part of such a page is never compressed
        return
    begin = data[at : at + _LONGEST_BEGIN]
    if (
        (codec == 0 and stored != inflated)
        or (codec == _SNAPPY and not begin.startswith(unsigned_bytes(inflated)))
        or not begin.startswith(_BEGINS.get(codec, b""))
    ):
        raise ValueError("the pages of a column are not compressed as its footer says")


def _add(found: Pages, page: dict[int, Any], encoding: int, inflated: int) -> None:
    values, how = _number(page, _VALUES), page.get(encoding)
    found.values += values
    found.largest = max(found.largest, inflated)
    if how in _OF_DICTIONARY:
        found.numbers += values
        return
    if how == _DELTA_BYTE_ARRAY:
        found.plain, found.each = None, max(found.each, inflated)
        return
    found.plain = None if found.plain is None else found.plain + inflated
    found.each = max(found.each, -(-inflated // max(values, 1)))


def longest_entry(data: bytes, pages: Pages, codec: int) -> int:
    """Return the bytes of the longest text in a dictionary, or more. Raises pyarrow's errors if it cannot be inflated."""
    at, compressed, inflated, entries = pages.dictionary
    if codec and codec not in CODECS:
        return inflated
    plain = memoryview(data)[at : at + compressed]
    if codec:
        plain = memoryview(pa.Codec(CODECS[codec]).decompress(plain, inflated))
    if len(plain) <= _LENGTH_BYTES:
        return inflated
    # The third and fourth byte of the length of a short text are zeros. Most texts contain no zeros.
    found = [
        np.flatnonzero(np.frombuffer(plain[odd : odd + (len(plain) - odd) // 2 * 2], "<u2") == 0) * 2 + odd
        for odd in (0, 1)
    ]
    starts = np.sort(np.concatenate(found)) - 2
    # If the second byte of the length is a zero, too, the place before was also found.
    starts = starts[np.append(np.diff(starts) != 1, True)]
    if len(starts) == entries and entries and starts[0] == 0:
        raw = np.frombuffer(plain, np.uint8)
        lengths = raw[starts].astype(np.int64) | raw[starts + 1].astype(np.int64) << 8
        if (np.append(starts[1:], len(plain)) == starts + lengths + _LENGTH_BYTES).all():
            return int(lengths.max())
    return _longest_of(plain, entries, inflated)


def _longest_of(plain: memoryview, entries: int, inflated: int) -> int:
    """Return the longest entry of a dictionary page, by a loop over the entries."""
    longest = at = 0
    if entries > _MOST_ENTRIES:
        return inflated
    for _ in range(entries):
        length = int.from_bytes(plain[at : at + _LENGTH_BYTES], "little")
        at += _LENGTH_BYTES + length
        longest = max(longest, length)
        if at > len(plain):
            return inflated
    return longest


def largest_page(
    source: pa.NativeFile, footer: bytes, columns: Collection[str], row_groups: Collection[int], limit: int
) -> int:
    """Return the decompressed size in bytes of the largest page of these columns; no value in them is larger.

    Args:
        source: the file.
        footer: the Thrift bytes of its metadata.
        columns: names of top-level columns.
        row_groups: numbers of the row groups that will be read.
        limit: limit on the total decompressed pages of one column in one row group.

    Raises:
        LimitExceededError: the declared sizes exceed the limit.
        ValueError: the bytes are not pages, or have an encoding that does not limit the size of values.
    """
    metadata, _ = thrift_struct(footer)
    found, largest = leaves(metadata), 0
    for number in row_groups:
        for leaf, chunk in zip(found, chunks(metadata, number, source.size()), strict=False):
            if len(leaf.path) > 1 or leaf.path[0] not in columns:
                continue
            data = source.read_at(chunk.length, chunk.start)
            if len(data) < chunk.length:
                raise ValueError("it ended while it was read")
            pages = read_pages(data, 0, chunk.length)
            if pages.plain is None:
                raise ValueError("a page has an encoding whose values have no bound")
            if pages.total > limit:
                raise LimitExceededError(
                    f"A column of a Parquet file inflates to more than {limit} bytes",
                    limit=limit,
                    seen=pages.total,
                    hint="The file is damaged or was made to exhaust memory; restore it from a copy.",
                )
            largest = max(largest, pages.largest, pages.dictionary[2])
    return largest


def _struct(value: Any) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise ValueError("a field of the footer or of a page has another type")
    return value


def _structs(value: Any) -> list[dict[int, Any]]:
    if not isinstance(value, list):
        raise ValueError("a field of the footer has another type")
    return [_struct(item) for item in value]


def _number(fields: dict[int, Any], field: int) -> int:
    """Return a number that is not negative."""
    value = fields.get(field)
    if not isinstance(value, int) or value < 0:
        raise ValueError("a field of the footer or of a page is no number, or negative")
    return value
