"""Base files in Parquet, Hudi's default format (specification, "Base Files").

Reads every Parquet file that a Hudi table may hold: lists of two and of three levels, with or without Hudi's footer values.

Three meta columns have one value, or a few, in a complete file. They are read as dictionaries and spread out, because decoding the text of each row
takes several times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi_core.formats.base_file.footer import BaseFileFooter, footer_of, parsed, raw_footer, reading, schema_of
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange, column_ranges
from pyhudi_core.model.meta_fields import COMMIT_TIME, FILE_NAME, PARTITION_PATH

_FEW_VALUES = [COMMIT_TIME, PARTITION_PATH, FILE_NAME]


class ParquetBaseFile:
    """One base file in Parquet; see `base_file.BaseFileReader`.

    Raises:
        CorruptBaseFileError: the footer cannot be read.
    """

    def __init__(self, source: pa.NativeFile, path: str, columns: Sequence[str] | None = None) -> None:
        self._path = path
        with reading(path):
            self._footer = raw_footer(source)
            metadata = parsed(self._footer)
            self._file = pq.ParquetFile(
                source,
                metadata=metadata,
                coerce_int96_timestamp_unit="us",
                pre_buffer=True,
                read_dictionary=_with_few_values(metadata),
            )
            self._schema = _spread_schema(self._file.schema_arrow.remove_metadata())
        self._columns = None if columns is None else [name for name in columns if name in self._schema.names]

    def select(self, columns: Sequence[str]) -> ParquetBaseFile:
        """The same open file for other columns. Only one of the two may be read at a time, because they share what was read ahead."""
        found = copy(self)
        found._columns = [name for name in columns if name in self._schema.names]
        return found

    @property
    def schema(self) -> pa.Schema:
        """All columns of the file as pyarrow reads them."""
        return self._schema

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return int(self._file.metadata.num_rows)

    @property
    def row_group_rows(self) -> list[int]:
        """Rows of each row group."""
        metadata = self._file.metadata
        return [int(metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups)]

    def footer(self) -> BaseFileFooter:
        """Return the footer, which has been read already. Raises `CorruptBaseFileError`."""
        with reading(self._path):
            return footer_of(self._file.metadata, self._schema, self._path)

    def iter_batches(
        self, row_groups: Sequence[int] | None, use_threads: bool, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of these row groups in the order of the file."""
        chosen = range(self._file.num_row_groups) if row_groups is None else row_groups
        for number in chosen:
            with reading(self._path):
                batches = self._file.iter_batches(batch_rows, [number], self._columns, use_threads=use_threads)
            while True:
                with reading(self._path):
                    batch = next(batches, None)
                    batch = None if batch is None else _spread(batch)
                if batch is None:
                    break
                yield batch

    def row_group_statistics(self, columns: Sequence[str]) -> list[dict[str, ColumnRange]]:
        """Return for each row group the ranges of the columns with usable statistics.

        Only top-level columns of plain types have them.
        """
        with reading(self._path):
            return column_ranges(self._footer, self._schema, columns)


def _with_few_values(metadata: pq.FileMetaData) -> list[str]:
    """The columns of the file that are read as dictionaries."""
    columns = {item.name for item in schema_of(metadata) if not pa.types.is_nested(item.type)}
    return [name for name in _FEW_VALUES if name in columns]


def _spread_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with the types that the file has."""
    for index, item in _dictionaries(schema):
        schema = schema.set(index, item.with_type(item.type.value_type))
    return schema


def _spread(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with a text in each row where it was read as a dictionary. Raises pyarrow's error for a row without an entry in the dictionary."""
    for index, item in _dictionaries(batch.schema):
        batch = batch.set_column(index, item.with_type(item.type.value_type), _texts(batch.column(index)))
    return batch


def _texts(values: pa.DictionaryArray) -> pa.Array:
    if len(values.dictionary) == 1 and not values.null_count and not values.indices.to_numpy().any():
        return pa.repeat(values.dictionary[0], len(values))
    return values.dictionary_decode()


def _dictionaries(schema: pa.Schema) -> list[tuple[int, pa.Field]]:
    """The columns among those with few values that were read as dictionaries."""
    numbers = [schema.get_field_index(name) for name in _FEW_VALUES]
    return [(n, schema.field(n)) for n in numbers if n >= 0 and pa.types.is_dictionary(schema.field(n).type)]
