"""Row groups of a Parquet file that are copied into another file as bytes: nothing is decoded, and nothing is encoded again.

A rewrite of a base file changes a few rows, and most row groups of the file have none of these rows. The pages of such a row group are the same in
the new file. Only two things change: the positions in the footer, and the column with the name of the file, which Hudi stores in each row. This
column is made anew.

Invariants
- a row group is copied only into a file with the same columns: the bytes of the two schemas are equal;
- memory is bounded by the bytes of a row group, and `StoredRowGroup.compressed` says how many these are.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi_core.formats.base_file.footer import raw_footer
from pyhudi_core.formats.base_file.parquet_groups import read_columns
from pyhudi_core.formats.base_file.parquet_pages import CODECS, Chunk, Leaf, chunks, leaves, refuse_other_pages
from pyhudi_core.formats.base_file.thrift import field_spans, item_spans, number_bytes, structs_bytes, thrift_struct

# Field numbers of parquet.thrift: FileMetaData, RowGroup, ColumnChunk, ColumnMetaData.
_SCHEMA, _ROWS, _ROW_GROUPS = 2, 3, 4
_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_PLACE, _GROUP_COMPRESSED, _ORDINAL = 1, 2, 3, 5, 6, 7
_NUMBERS = {_GROUP_PLACE, _GROUP_COMPRESSED, _ORDINAL}
_FILE_PATH, _CHUNK_PLACE, _META_DATA, _INDEXES = 1, 2, 3, range(4, 10)
_TYPE, _PATH, _VALUES, _BYTES, _PAGES = 1, 3, 5, 6, (9, 10, 11)
_DICTIONARY, _FILTERS = 11, (14, 15)
_SIZES = range(1 << 48)
"""The allowed sizes of a column in bytes. With this limit the sum over all columns fits into 64 bits."""
_Edits = Mapping[tuple[int, int], bytes]
"""New bytes for values, by the begin and the end of each value."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of a row group: its name in the schema, its pages, its structure in the footer, the number of its values with nulls, and whether it
    has a dictionary.
    """

    path: str
    chunk: Chunk
    structure: bytes
    values: int
    has_dictionary: bool
    inflated: int


@dataclass(frozen=True, slots=True)
class StoredRowGroup:
    """A row group in an open file, with all that a copy needs. ``schema``: the schema of the file, as its footer has it."""

    source: pa.NativeFile
    rows: int
    columns: tuple[StoredColumn, ...]
    structure: bytes
    schema: bytes

    @property
    def compressed(self) -> int:
        """Return the number of bytes of its pages in the file."""
        return sum(column.chunk.length for column in self.columns)


def stored_row_groups(source: pa.NativeFile, footer: bytes) -> list[StoredRowGroup | None]:
    """Return the row groups of a file; None for a row group that a copy could damage. Such a row group has more than pages (a copy would not change
    the positions of page indexes, for example), or its footer is damaged: then a rewrite of the rows shows or mends the damage.

    Raises ValueError for an invalid footer.
    """
    fields, size, schema = thrift_struct(footer)[0], source.size(), schema_of_footer(footer)
    columns = leaves(fields)
    return [
        _stored(source, structure, schema, list(zip(chunks(fields, number, size), columns, strict=True)))
        for number, structure in enumerate(structures(footer))
    ]


def _stored(
    source: pa.NativeFile, structure: bytes, schema: bytes, expected: Sequence[tuple[Chunk, Leaf]]
) -> StoredRowGroup | None:
    spans, _ = field_spans(structure)
    group, _ = thrift_struct(structure)
    if not all(type(group.get(number)) is int for number in {_GROUP_BYTES, _GROUP_ROWS} | spans.keys() & _NUMBERS):
        return None
    columns = []
    for (begin, end), (chunk, leaf) in zip(item_spans(structure, spans[_COLUMNS][0]), expected, strict=True):
        column = _stored_column(structure[begin:end], chunk, leaf, group[_GROUP_ROWS])
        if column is None:
            return None
        columns.append(column)
    return StoredRowGroup(source, group[_GROUP_ROWS], tuple(columns), structure, schema)


def _stored_column(structure: bytes, chunk: Chunk, leaf: Leaf, rows: int) -> StoredColumn | None:
    fields, _ = thrift_struct(structure)
    meta: Any = fields.get(_META_DATA)
    if _FILE_PATH in fields or any(number in fields for number in _INDEXES) or not isinstance(meta, dict):
        return None
    if any(number in meta for number in _FILTERS) or meta.get(_PATH) != [part.encode() for part in leaf.path]:
        return None
    values = meta.get(_VALUES)
    if meta.get(_TYPE) != leaf.kind or chunk.codec not in {0, *CODECS} or type(values) is not int:
        return None
    if values != rows and not leaf.nested:
        return None
    # Some writers store the position 0 if there is no dictionary. A 0 must not be moved: it would become the position of a page.
    inside = range(chunk.start, chunk.start + chunk.length + 1)
    if any(meta.get(number, chunk.start) not in inside for number in _PAGES) or meta.get(_BYTES) not in _SIZES:
        return None
    return StoredColumn(".".join(leaf.path), chunk, structure, values, _DICTIONARY in meta, meta[_BYTES])


def one_column(column: pa.Table, codec: tuple[str, int | None]) -> StoredRowGroup:
    """Return a table of one column as a row group, in a file in memory."""
    made = io.BytesIO()
    pq.write_table(
        column,
        made,
        row_group_size=max(len(column), 1),
        compression=codec[0],
        compression_level=codec[1],
        store_schema=False,
        use_deprecated_int96_timestamps=False,
    )
    source = pa.BufferReader(made.getvalue())
    (group,) = stored_row_groups(source, raw_footer(source))
    assert group is not None, "Arrow writes page indexes only on request"
    return group


def copied(group: StoredRowGroup, others: Mapping[str, StoredRowGroup], stream: IO[bytes] | pa.NativeFile) -> bytes:
    """Append the pages of a row group to a stream, and return the structure of the copy for a footer.

    Args:
        group: the row group.
        others: for each column that gets other values, by name: a row group with only this column.
        stream: an empty file, or one to which only complete row groups were written.

    Raises ValueError if the file ends early, or if its pages do not agree with its footer.
    """
    columns = [others[column.path].columns[0] if column.path in others else column for column in group.columns]
    pages, moved = dict(_pages(group, others)), []
    first = int(stream.tell())
    for place, column in enumerate(columns):
        moved.append(_moved(column.structure, int(stream.tell()) - column.chunk.start))
        refuse_other_pages(bytes(pages[place]), column.chunk.codec, column.values)
        stream.write(pages[place])
    spans, _ = field_spans(group.structure)
    edits = {
        spans[_COLUMNS]: structs_bytes(moved),
        spans[_GROUP_BYTES]: number_bytes(sum(column.inflated for column in columns)),
    }
    if _GROUP_PLACE in spans:
        edits[spans[_GROUP_PLACE]] = number_bytes(first)
    if _GROUP_COMPRESSED in spans:
        edits[spans[_GROUP_COMPRESSED]] = number_bytes(sum(column.chunk.length for column in columns))
    return _edited(group.structure, edits)


def _pages(group: StoredRowGroup, others: Mapping[str, StoredRowGroup]) -> Iterator[tuple[int, memoryview]]:
    """Yield the pages of each column, with its place; neighbours are read together."""
    own = [place for place, column in enumerate(group.columns) if column.path not in others]
    for place, column in enumerate(group.columns):
        if column.path in others:
            other = others[column.path]
            yield place, memoryview(other.source.read_at(other.columns[0].chunk.length, other.columns[0].chunk.start))
    found = [column.chunk for column in group.columns]
    for data, at, place in read_columns(group.source, found, own):
        yield place, memoryview(data)[at : at + found[place].length]


def footer_with(template: bytes, groups: Sequence[bytes]) -> bytes:
    """Return the footer of a file without rows with these row groups, in this order."""
    spans, _ = field_spans(template)
    rows = sum(int(thrift_struct(group)[0][_GROUP_ROWS]) for group in groups)
    numbered = [_numbered(group, place) for place, group in enumerate(groups)]
    edits = {spans[_ROWS]: number_bytes(rows), spans[_ROW_GROUPS]: structs_bytes(numbered)}
    return _edited(template, edits)


def structures(footer: bytes) -> list[bytes]:
    """Return the structures of the row groups in a footer."""
    spans, _ = field_spans(footer)
    places = item_spans(footer, spans[_ROW_GROUPS][0]) if _ROW_GROUPS in spans else []
    return [footer[begin:end] for begin, end in places]


def schema_of_footer(footer: bytes) -> bytes:
    """Return the schema in a footer, as bytes."""
    return footer[slice(*field_spans(footer)[0][_SCHEMA])]


def _moved(structure: bytes, by: int) -> bytes:
    """Return the structure of a column whose pages begin ``by`` bytes later."""
    fields, spans = thrift_struct(structure)[0], field_spans(structure)[0]
    begin, _ = spans[_META_DATA]
    inner = {number: span for number, span in field_spans(structure, begin)[0].items() if number in _PAGES}
    edits = {span: number_bytes(fields[_META_DATA][number] + by) for number, span in inner.items()}
    if fields.get(_CHUNK_PLACE):
        edits[spans[_CHUNK_PLACE]] = number_bytes(fields[_CHUNK_PLACE] + by)
    return _edited(structure, edits)


def _numbered(structure: bytes, place: int) -> bytes:
    spans, _ = field_spans(structure)
    return _edited(structure, {spans[_ORDINAL]: number_bytes(place)} if _ORDINAL in spans else {})


def _edited(structure: bytes, edits: _Edits) -> bytes:
    found, at = [], 0
    for (begin, end), new in sorted(edits.items()):
        found += [structure[at:begin], new]
        at = end
    return b"".join([*found, structure[at:]])
