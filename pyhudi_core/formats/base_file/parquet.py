"""Base files in Parquet, Hudi's default format (specification, "Base Files").

Reads every Parquet file that a Hudi table may hold: lists of two and of three levels, with or without Hudi's footer values.

Texts with few distinct values, such as three meta columns, are read as dictionaries and spread out (``parquet_dictionaries``), because decoding the
text of each row takes several times as long. A row group is decoded in batches of bounded bytes (``parquet_groups``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi_core.errors import LimitExceededError
from pyhudi_core.formats.base_file.footer import BaseFileFooter, footer_of, parsed, raw_footer, reading, schema_of
from pyhudi_core.formats.base_file.parquet_dictionaries import spread, spread_schema
from pyhudi_core.formats.base_file.parquet_groups import RowGroups
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange, column_ranges
from pyhudi_core.formats.base_file.row_group_copies import StoredRowGroup, stored_row_groups
from pyhudi_core.formats.base_file.thrift import thrift_struct


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
        self._fields: dict[int, Any] = {}
        self._opened: list[tuple[RowGroups, pq.ParquetFile]] = []
        self._columns = None if columns is None else self._known(columns)

    def select(self, columns: Sequence[str]) -> ParquetBaseFile:
        """Return the same open file for other columns. Either file may be read while the other one is being read."""
        found = copy(self)
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
            batches = self._row_group(number, use_threads, batch_rows)
            while True:
                with reading(self._path):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield batch

    def _row_group(self, number: int, use_threads: bool, batch_rows: int) -> Iterator[pa.RecordBatch]:
        groups, file = self._open()
        rows = int(self._metadata.row_group(number).num_rows)
        try:
            with groups.read(number, rows, self._columns, batch_rows) as at_once:
                for batch in file.iter_batches(at_once, [number], self._columns, use_threads=use_threads):
                    yield from spread(batch)
        except LimitExceededError as error:
            error.path = self._path
            raise

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
