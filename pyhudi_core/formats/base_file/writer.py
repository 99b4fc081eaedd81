"""Write Parquet base files (specification, "Base Files" and "Meta Fields").

A file has the parts that Hudi's readers expect: meta columns first, and in the footer the bloom filter of the record keys, the least and the
greatest key, and the Avro schema. Intended differences from Hudi's writer: lists have three levels, pages are compressed with zstd unless an option
says otherwise, and columns with few repeated values get no dictionary.

Invariant: memory is bounded by a row group of rows.
"""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi_core.formats.base_file.footer import (
    AVRO_SCHEMA,
    BLOOM_FILTER,
    BLOOM_TYPE,
    MAX_KEY,
    MIN_KEY,
    WRITER_MODEL,
    ended,
    raw_footer,
)
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange, stored_ranges, written_ranges
from pyhudi_core.formats.base_file.row_group_copies import (
    StoredRowGroup,
    copied,
    footer_with,
    one_column,
    schema_of_footer,
    structures,
)
from pyhudi_core.formats.base_file.thrift import thrift_struct
from pyhudi_core.formats.bloom import BloomBuilder, BloomFilter
from pyhudi_core.model.meta_fields import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY

# All values of these columns differ, so a dictionary is useless.
_UNIQUE = frozenset({COMMIT_SEQNO, RECORD_KEY})
# These columns have few values, so they are buffered as dictionaries: a row takes 4 bytes instead of 113 for its texts, and Parquet hashes no text.
_FEW_VALUES = (COMMIT_TIME, PARTITION_PATH, FILE_NAME)
# This number of rows shows whether a column's values repeat: then the share of distinct values is below `_UNIQUE_SHARE`.
_SAMPLE_ROWS = 16_384
_UNIQUE_SHARE = 0.92
# The ratio of file bytes to Arrow bytes with and without a codec, used until the first row group gives it.
_FIRST_RATIO, _FIRST_RATIO_PLAIN = 0.2, 0.5
# The Arrow memory of a buffered row group is at most this many times its size in the file.
_MAX_EXPANSION = 8
# A row group is copied as bytes if it has at least a quarter of the rows or of the bytes of a full row group. Smaller row groups join their
# neighbours.
_COPIED_SHARE = 4
# If a row group has more rows, Arrow makes several of it.
_MOST_ROWS = 64 << 20
_MOST_COPIED = 4
"""A row group with more than this number of times the bytes of a full row group is not copied, but decoded in parts."""


@dataclass(frozen=True, slots=True)
class BaseFileStats:
    """The result of a write: rows, the least and greatest record key by UTF-8 bytes (None without keys), and the ranges of columns.

    The greatest value of a column with NaN is NaN.
    """

    rows: int
    min_key: str | None
    max_key: str | None
    ranges: Mapping[str, ColumnRange]


class BaseFileWriter:
    """Writes one base file to a stream; the caller opens and closes the stream.

    Args:
        stream: written from its present position.
        schema: the five meta columns first, then the table's columns.
        avro_schema: the same schema as Avro text, for the footer.
        bloom: the filter that gets the new keys and is written, or its builder; None writes no filter.
        codec: "snappy", "zstd", "gzip", or "none" (Hudi's word is "uncompressed"); ``codec_level``: the codec's own level.
        row_group_rows: maximum rows of a row group.
        row_group_bytes: approximate size of a row group in the file.
    """

    def __init__(
        self,
        stream: IO[bytes] | pa.NativeFile,
        schema: pa.Schema,
        *,
        avro_schema: str,
        bloom: BloomFilter | BloomBuilder | None,
        codec: str = "zstd",
        codec_level: int | None = None,
        row_group_rows: int = 200_000,
        row_group_bytes: int = 16 << 20,
    ) -> None:
        # Arrow counts the bytes that it writes to an object of Python, so all bytes go through one file of Arrow.
        self._stream = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="w")
        self._avro_schema = avro_schema
        self._bloom = bloom
        self._row_group_rows = row_group_rows
        self._row_group_bytes = row_group_bytes
        self._ratio = _FIRST_RATIO_PLAIN if codec in ("none", "uncompressed") else _FIRST_RATIO
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._rows = 0
        self._min_key: str | None = None
        self._max_key: str | None = None
        self._start = self._stream.tell()
        self._schema = schema
        self._codec = ("none" if codec == "uncompressed" else codec, codec_level)
        self._writer: pq.ParquetWriter | None = None
        self._metadata: list[pq.FileMetaData] = []
        self._with_nan: set[str] = set()
        # The structures of copied row groups, and None for each row group of Arrow's writer, in the order of the file.
        self._groups: list[bytes | None] = []
        self._own_schema = b""
        self._dictionaries: list[str] | None = None

    @property
    def rows(self) -> int:
        """Return the number of rows written so far."""
        return self._rows

    @property
    def bytes_written(self) -> int:
        """Return the approximate size of the file so far: written bytes, and an estimate for buffered rows."""
        return int(self._stream.tell()) - self._start + int(self._pending_bytes * self._ratio)

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Add rows with the schema's columns."""
        table = _with_dictionaries(data if isinstance(data, pa.Table) else pa.Table.from_batches([data]))
        while table.num_rows:
            row_bytes = max(table.nbytes / table.num_rows, 1.0)
            taken = table.slice(0, self._room(row_bytes))
            self._pending.append(taken)
            self._pending_rows += taken.num_rows
            self._pending_bytes += int(taken.num_rows * row_bytes)
            self._rows += taken.num_rows
            table = table.slice(taken.num_rows)
            if self._room(row_bytes) == 0:
                self._flush()

    def may_copy(self, row_groups: Sequence[int]) -> bool:
        """Return whether `copies` may take row groups of another file. ``row_groups``: the number of rows of each row group."""
        return len(row_groups) > 1 or any(rows * _COPIED_SHARE >= self._row_group_rows for rows in row_groups)

    def copies(self, group: StoredRowGroup | None) -> bool:
        """Return whether `copy` takes this row group of another file: it is not small, not huge, and has the columns of this file."""
        if group is None or group.compressed > _MOST_COPIED * self._row_group_bytes:
            return False
        small = (
            group.rows * _COPIED_SHARE < self._row_group_rows
            and group.compressed * _COPIED_SHARE < self._row_group_bytes
        )
        if small or self._start:
            return False
        if not self._own_schema:
            self._own_schema = schema_of_footer(
                self._footer_without_rows(_with_dictionaries(self._schema.empty_table()), {})
            )
        return group.schema == self._own_schema

    def copy(self, group: StoredRowGroup, file_name: pa.Table, with_nan: Collection[str]) -> None:
        """Append a row group of another file as it is, if `copies` allows it.

        Args:
            group: the row group.
            file_name: the column with the name of this file, a value for each row.
            with_nan: the names of its columns that have NaN.
        """
        self._flush()
        if self._writer is None:
            self._dictionaries = [column.path for column in group.columns if column.has_dictionary]
            self._opened(_with_dictionaries(self._schema.empty_table()))
        names = one_column(_with_dictionaries(file_name), self._codec)
        self._groups.append(copied(group, {FILE_NAME: names}, self._stream))
        self._rows += group.rows
        self._with_nan.update(with_nan)

    def add_keys(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add record keys of new rows to the bloom filter and the key range."""
        if len(keys) == 0:
            return
        if self._bloom is not None:
            self._bloom.add(keys)
        self.bound_keys(keys)

    def bound_keys(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Widen the key range by record keys that the bloom filter already has."""
        bounds = pc.min_max(keys)
        min_key, max_key = bounds["min"].as_py(), bounds["max"].as_py()
        if min_key is not None:
            self._min_key = min_key if self._min_key is None else min(self._min_key, min_key, key=_utf8)
        if max_key is not None:
            self._max_key = max_key if self._max_key is None else max(self._max_key, max_key, key=_utf8)

    def close(self) -> BaseFileStats:
        """Write the buffered rows and the footer. The stream stays open."""
        self._flush()
        writer = self._writer or self._opened(_with_dictionaries(self._schema.empty_table()))
        if any(self._groups):
            ranges = self._close_with_copies(writer)
        else:
            writer.add_key_value_metadata(self._key_value())
            writer.close()
            ranges = written_ranges(self._metadata[0], self._schema)
        # Parquet's bounds ignore NaN, but in Spark NaN is greater than all numbers.
        ranges |= {name: replace(ranges[name], max=math.nan) for name in self._with_nan}
        return BaseFileStats(self._rows, self._min_key, self._max_key, ranges)

    def abandon(self) -> None:
        """Discard the file. Close or abort the stream before this writer is deleted, or Arrow still writes a footer to it."""
        self._pending.clear()
        if self._writer is not None:
            # Otherwise pyarrow would finish the file, and log an error, when it is garbage collected.
            self._writer.is_open = False

    def _close_with_copies(self, writer: pq.ParquetWriter) -> dict[str, ColumnRange]:
        """Write a second footer behind the footer of Arrow's writer, which does not know the copied row groups. Return the ranges in the second
        footer."""
        writer.close()
        own = io.BytesIO()
        self._metadata[0].write_metadata_file(own)
        rest = iter(structures(raw_footer(pa.BufferReader(own.getvalue()))))
        groups = [next(rest) if group is None else group for group in self._groups]
        footer = footer_with(
            self._footer_without_rows(_with_dictionaries(self._schema.empty_table()), self._key_value()), groups
        )
        self._stream.write(ended(footer))
        return stored_ranges(thrift_struct(footer)[0], self._schema)

    def _footer_without_rows(self, empty: pa.Table, key_value: Mapping[str, str]) -> bytes:
        """Return the footer of a file of this writer that has no rows."""
        made = io.BytesIO()
        with self._parquet_writer(made, empty, []) as writer:
            writer.add_key_value_metadata(dict(key_value))
        return raw_footer(pa.BufferReader(made.getvalue()))

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        """Return the Parquet writer, created when the first row group has shown how its columns repeat."""
        if self._writer is None:
            self._writer = self._parquet_writer(self._stream, first, self._metadata)
        return self._writer

    def _parquet_writer(
        self, stream: IO[bytes] | pa.NativeFile, first: pa.Table, metadata: list[pq.FileMetaData]
    ) -> pq.ParquetWriter:
        codec, level = self._codec
        return pq.ParquetWriter(
            stream,
            first.schema,
            compression=codec,
            compression_level=level,
            use_dictionary=_dictionary_leaves(first) if self._dictionaries is None else self._dictionaries,
            write_statistics=True,
            use_deprecated_int96_timestamps=False,
            store_schema=False,
            store_decimal_as_integer=False,
            metadata_collector=metadata,
        )

    def _room(self, row_bytes: float) -> int:
        """Return how many rows of this size still fit into the row group. A new row group takes at least one row."""
        most = min(self._row_group_bytes / self._ratio, self._row_group_bytes * _MAX_EXPANSION)
        by_bytes = int((most - self._pending_bytes) / row_bytes)
        room = max(min(by_bytes, self._row_group_rows - self._pending_rows), 0)
        return room if self._pending_rows else max(room, 1)

    def _flush(self) -> None:
        if not self._pending_rows:
            return
        before = self._stream.tell()
        # Parquet writes a column as a dictionary only if all its chunks have one dictionary.
        table = pa.concat_tables(self._pending).unify_dictionaries()
        self._opened(table).write_table(table, row_group_size=self._pending_rows)
        self._groups += [None] * -(-self._pending_rows // _MOST_ROWS)
        self._with_nan.update(
            field.name
            for field in self._schema
            if pa.types.is_floating(field.type) and pc.any(pc.is_nan(table.column(field.name))).as_py()
        )
        self._ratio = max((self._stream.tell() - before) / max(self._pending_bytes, 1), 1e-3)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def _key_value(self) -> dict[str, str]:
        values = {AVRO_SCHEMA: self._avro_schema, WRITER_MODEL: "avro"}
        if self._bloom is not None:
            made = self._bloom.build() if isinstance(self._bloom, BloomBuilder) else self._bloom
            text, type_code = made.to_footer()
            values[BLOOM_FILTER] = text
            if type_code is not None:
                values[BLOOM_TYPE] = type_code
        if self._min_key is not None and self._max_key is not None:
            values |= {MIN_KEY: self._min_key, MAX_KEY: self._max_key}
        return values


def _utf8(key: str) -> bytes:
    return key.encode()


def _with_dictionaries(table: pa.Table) -> pa.Table:
    """Return the rows with dictionaries for columns with few values, if the rows have such columns (rows of logs may have no meta columns)."""
    for name in _FEW_VALUES:
        index = table.schema.get_field_index(name)
        if index >= 0 and not pa.types.is_dictionary(table.schema.field(index).type):
            table = table.set_column(index, name, table.column(index).dictionary_encode())
    return table


def _dictionary_leaves(table: pa.Table) -> list[str]:
    """Return the Parquet paths of columns for which a dictionary is useful.

    If a column's values rarely repeat, building the dictionary takes longer than all other work, and the dictionary is discarded.
    """
    sample = table.slice(0, _SAMPLE_ROWS)
    return [path for field in table.schema if _repeats(sample, field) for path in _leaves(field)]


def _repeats(sample: pa.Table, field: pa.Field) -> bool:
    if field.name in _UNIQUE:
        return False
    if sample.num_rows < _SAMPLE_ROWS or field.name in _FEW_VALUES:
        return True
    if pa.types.is_nested(field.type) or pa.types.is_decimal(field.type):
        return True
    return len(sample[field.name].unique()) < _UNIQUE_SHARE * sample.num_rows


def _leaves(field: pa.Field) -> list[str]:
    """Return the Parquet paths of a column's values, as they are written."""
    types, kind = pa.types, field.type
    if types.is_struct(kind):
        inner, below = list(kind.fields), ""
    elif types.is_list(kind):
        inner, below = [kind.value_field.with_name("element")], "list."
    elif types.is_map(kind):
        inner, below = [kind.key_field.with_name("key"), kind.item_field.with_name("value")], "key_value."
    else:
        return [field.name]
    return [f"{field.name}.{below}{leaf}" for child in inner for leaf in _leaves(child)]
