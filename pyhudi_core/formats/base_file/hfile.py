"""Base files in HFile format: files of the metadata table, and of tables with ``hoodie.table.base.file.format=HFILE``.

Values are complete rows in Avro; the schema is in the file's info block, and the bloom filter is a meta block. An HFile has no columns: every
row is decoded completely, and the requested columns are kept. The file counts as one row group, without statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pyhudi_core.formats.avro.columns import compile_schema
from pyhudi_core.formats.avro.records import read_all
from pyhudi_core.formats.base_file.footer import (
    AVRO_SCHEMA,
    BLOOM_FILTER,
    BLOOM_TYPE,
    MAX_KEY,
    MIN_KEY,
    BaseFileFooter,
    reading,
)
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.formats.hfile import HFileReader
from pyhudi_core.formats.hfile.data_block import Entries
from pyhudi_core.formats.hfile.reader import BLOOM_META
from pyhudi_core.model.schema_cast import conform

_INFO = {b"minRecordKey": MIN_KEY, b"maxRecordKey": MAX_KEY, b"bloomFilterTypeCode": BLOOM_TYPE}


class HFileBaseFile:
    """One base file in HFile; see `base_file.BaseFileReader`."""

    def __init__(self, source: pa.NativeFile, path: str, columns: Sequence[str] | None = None) -> None:
        self._path = path
        with reading(path):
            self._file = HFileReader(source, path)
            self.schema: pa.Schema = pa.schema(list(compile_schema(self._file.schema).type))
        self._wanted = pa.schema([item for item in self.schema if columns is None or item.name in columns])

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self._file.entry_count)

    @property
    def row_group_rows(self) -> list[int]:
        """Return one group with all rows."""
        return [self.rows]

    def footer(self) -> BaseFileFooter:
        """Return Hudi's values in the info block, and the bloom filter."""
        with reading(self._path):
            found = {name: self._file.info[key].decode() for key, name in _INFO.items() if key in self._file.info}
            bloom = self._file.meta(BLOOM_META)
            if bloom is not None:
                found[BLOOM_FILTER] = bloom.decode()
        found[AVRO_SCHEMA] = self._file.schema
        return BaseFileFooter(self._path, self.rows, self.schema, found.get(MIN_KEY), found.get(MAX_KEY), found)

    def iter_batches(
        self, row_groups: Sequence[int] | None, use_threads: bool, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows in the order of their keys, a block at a time."""
        del use_threads, batch_rows  # a block is smaller than any batch
        if row_groups is not None and not row_groups:
            return
        for part in self._file.scan():
            with reading(self._path):
                batch = self._rows(part)
            yield batch

    def row_group_statistics(self, columns: Sequence[str]) -> list[dict[str, ColumnRange]]:
        """Return no statistics: an HFile has no statistics."""
        return [{}]

    def _rows(self, part: Entries) -> pa.RecordBatch:
        batch = read_all(self._file.schema, part.data, part.value_starts, part.value_ends, self._path)
        if not self._wanted.names:
            return batch.select([])
        return conform(batch, self._wanted)
