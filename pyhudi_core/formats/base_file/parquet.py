"""Base files in Parquet, Hudi's default format (specification, "Base Files").

Reads every Parquet file that a Hudi table may hold: lists of two and of three levels, with or without Hudi's footer values.

Texts with few distinct values, such as three meta columns, are read as dictionaries: first the numbers of the entries are read, then `spread`
replaces the numbers by the texts, in parts of bounded bytes. Decoding the text of each row takes several times as long. A file of kilobytes can have
one long text for many rows, so a part has at most `_SPREAD_BYTES` of texts, or one row. A row group is decoded in batches of bounded bytes
(``parquet_groups``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi_core.errors import LimitExceededError
from pyhudi_core.formats.base_file.footer import BaseFileFooter, footer_of, parsed, raw_footer, reading, schema_of
from pyhudi_core.formats.base_file.parquet_groups import RowGroups
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange, column_ranges
from pyhudi_core.formats.base_file.row_group_copies import StoredRowGroup, stored_row_groups
from pyhudi_core.formats.base_file.thrift import thrift_struct
from pyhudi_core.lazy import lazy

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

_SPREAD_BYTES = 64 << 20
MOST_ROW_BYTES = 256 << 20
"""The maximum bytes of the texts from dictionaries in one row."""


def spread_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types of the rows after the numbers are replaced by texts."""
    return pa.schema([_spread_field(item) for item in schema])


def spread(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows, with a text in place of each number of a dictionary entry.

    Raises pyarrow's error for a number without an entry, and `LimitExceededError` for a row that is too large.
    """
    changed = [number for number, item in enumerate(batch.schema) if _has_numbers(item.type)]
    if not changed:
        yield batch
        return
    wanted = spread_schema(batch.schema)
    for part in _parts(batch, changed):
        columns = list(part.columns)
        for number in changed:
            columns[number] = _texts(columns[number], wanted.field(number).type)
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _has_numbers(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(_has_numbers(kind.field(n).type) for n in range(kind.num_fields))


def _parts(batch: pa.RecordBatch, changed: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts that may be spread out at once."""
    size = sum(_bytes(batch.column(number)) for number in changed)
    if size <= _SPREAD_BYTES or (len(batch) == 1 and size <= MOST_ROW_BYTES):
        yield batch
        return
    if len(batch) == 1:
        raise LimitExceededError(
            "A row of a Parquet file has more bytes than the limit",
            limit=MOST_ROW_BYTES,
            seen=size,
            hint="Read other columns, or write the row again with less in one column.",
        )
    middle = len(batch) // 2
    for start, rows in ((0, middle), (middle, len(batch) - middle)):
        # A slice of a list still refers to all items of the list, so all of them would be spread out. `take` copies only the items of these rows.
        yield from _parts(batch.take(pa.array(range(start, start + rows))), changed)


def _bytes(values: pa.Array) -> int:
    """Return the number of bytes of the texts of an array, or slightly more."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        if not _is_text(kind.value_type):
            return len(values) * 16
        lengths = pc.binary_length(values.dictionary)
        longest = pc.max(lengths).as_py() or 0
        if longest * len(values) <= _SPREAD_BYTES >> 4:
            return int(longest * len(values))
        return int(pc.sum(lengths.take(values.indices)).as_py() or 0)
    if pa.types.is_map(kind):
        return _bytes(_inner(values, values.keys)) + _bytes(_inner(values, values.items))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _bytes(_inner(values, values.values))
    if pa.types.is_fixed_size_list(kind):
        return _bytes(values.flatten())
    if pa.types.is_struct(kind):
        return sum(_bytes(values.field(number)) for number in range(kind.num_fields))
    return 0


def _inner(values: pa.Array, items: pa.Array) -> pa.Array:
    """Return the items of the lists in an array, also if the array is a slice."""
    if not len(values):
        return items.slice(0, 0)
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return items.slice(first, last - first)


def _texts(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(values.type):
        return values.cast(kind)
    if len(values.dictionary) == 1 and not values.null_count and not values.indices.to_numpy().any():
        return pa.repeat(values.dictionary[0], len(values))
    return values.dictionary_decode()


def _spread_field(item: pa.Field) -> pa.Field:
    return item.with_type(_spread_type(item.type))


def _spread_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_map(kind):
        return pa.map_(_spread_field(kind.key_field), _spread_field(kind.item_field), kind.keys_sorted)
    if pa.types.is_struct(kind):
        return pa.struct([_spread_field(child) for child in kind])
    if pa.types.is_list(kind):
        return pa.list_(_spread_field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_spread_field(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_spread_field(kind.value_field), kind.list_size)
    return kind


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return any(test(kind) for test in (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary))


class ParquetBaseFile:
    """One base file in Parquet; see `base_file.BaseFileReader`.

    Raises:
        CorruptBaseFileError: the footer cannot be read.
    """

    def __init__(self, source: pa.NativeFile, path: str, columns: Sequence[str] | None = None) -> None:
        self._path = path
        self._source = source
        with reading(path):
            self._footer = raw_footer(source)
            self._metadata = parsed(self._footer)
            self._schema = spread_schema(schema_of(self._metadata))
        self._numbered = False
        self._fields: dict[int, Any] = {}
        self._opened: list[tuple[RowGroups, pq.ParquetFile]] = []
        self._columns = None if columns is None else self._known(columns)

    def select(self, columns: Sequence[str], *, numbered: bool = False) -> ParquetBaseFile:
        """Return the same open file for other columns. Either file may be read while the other one is being read."""
        found = copy(self)
        found._numbered = numbered
        found._columns = self._known(columns)
        return found

    def _known(self, columns: Sequence[str]) -> list[str]:
        known = frozenset(self._schema.names)
        return [name for name in columns if name in known]

    @property
    def schema(self) -> pa.Schema:
        """Return all columns of the file as pyarrow reads them."""
        return self._schema

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self._metadata.num_rows)

    @property
    def row_group_rows(self) -> list[int]:
        """Return the number of rows of each row group."""
        metadata = self._metadata
        return [int(metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups)]

    def footer(self) -> BaseFileFooter:
        """Return the footer, which has been read already. Raises `CorruptBaseFileError`."""
        with reading(self._path):
            return footer_of(self._metadata, self._schema, self._path)

    def iter_batches(
        self, row_groups: Sequence[int] | None, use_threads: bool, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of these row groups in the order of the file."""
        chosen = range(self._metadata.num_row_groups) if row_groups is None else row_groups
        for number in chosen:
            yield from self._reading(self._row_group(number, use_threads, batch_rows))

    def spread(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Iterate over rows of a file that was selected with ``numbered``, with texts in place of numbers."""
        return self._reading(spread(batch))

    def _reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches. Errors that occur while a batch is made become errors of the file."""
        while True:
            try:
                with reading(self._path):
                    batch = next(batches, None)
            except LimitExceededError as error:
                error.path = self._path
                raise
            if batch is None:
                return
            yield batch

    def _row_group(self, number: int, use_threads: bool, batch_rows: int) -> Iterator[pa.RecordBatch]:
        groups, file = self._open()
        rows = int(self._metadata.row_group(number).num_rows)
        with groups.read(number, rows, self._columns, batch_rows) as at_once:
            for batch in file.iter_batches(at_once, [number], self._columns, use_threads=use_threads):
                yield from (batch,) if self._numbered else spread(batch)

    def _open(self) -> tuple[RowGroups, pq.ParquetFile]:
        """Return the file for reads of rows, opened once for this object and the objects from `select`."""
        if not self._opened:
            groups = RowGroups(self._source, self._footer_fields())
            file = pq.ParquetFile(
                groups.file,
                metadata=self._metadata,
                coerce_int96_timestamp_unit="us",
                pre_buffer=False,
                read_dictionary=groups.numbered,
            )
            self._opened.append((groups, file))
        return self._opened[0]

    def row_group_statistics(self, columns: Sequence[str]) -> list[dict[str, ColumnRange]]:
        """Return for each row group the ranges of the columns with usable statistics.

        Only top-level columns of plain types have statistics.
        """
        with reading(self._path):
            return column_ranges(self._footer_fields(), self._schema, columns)

    def stored_row_groups(self) -> list[StoredRowGroup | None]:
        """Return the row groups for copies of their bytes; None for one that cannot be copied."""
        with reading(self._path):
            return stored_row_groups(self._source, self._footer)

    def _footer_fields(self) -> dict[int, Any]:
        """Return the footer by the numbers of its fields, parsed once for this object and the objects from `select`."""
        if not self._fields:
            self._fields.update(thrift_struct(self._footer)[0])
        return self._fields
