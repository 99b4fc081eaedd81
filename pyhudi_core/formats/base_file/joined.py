"""A skeleton file joined with the Parquet file that has its rows (Hudi's metadata-only bootstrap).

The skeleton has the meta columns of the rows, the other file has all other columns. Row ``n`` of the skeleton and row ``n`` of the other file are
one row; the row groups of the two files may differ.

Invariants
- both files have the same number of rows, or `CorruptBaseFileError` is raised;
- the values of the other file, which the bootstrap did not read, are valid for their types, or `SchemaMismatchError` is raised;
- row groups and their statistics come from the file with the rows; the values of Hudi's footer come from the skeleton.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pyhudi_core.errors import CorruptBaseFileError, SchemaMismatchError
from pyhudi_core.formats.base_file.footer import BaseFileFooter
from pyhudi_core.formats.base_file.parquet import ParquetBaseFile
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.model.schema_cast import refuse_invalid

_META = frozenset(META_FIELDS)


class JoinedBaseFile:
    """Two Parquet files as one base file; see `base_file.BaseFileReader`. ``path``: the path of the skeleton.

    Raises:
        CorruptBaseFileError: a footer cannot be read, or the files have different numbers of rows.
    """

    def __init__(
        self,
        skeleton: pa.NativeFile,
        path: str,
        rows: pa.NativeFile,
        rows_path: str,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._skeleton = ParquetBaseFile(skeleton, path, columns)
        others = ParquetBaseFile(rows, rows_path, ()).schema.names
        data = [name for name in others if name not in _META and (columns is None or name in columns)]
        self._rows = ParquetBaseFile(rows, rows_path, data)
        self._reads_meta = columns is None or not _META.isdisjoint(columns)
        self._reads_rows = bool(data)
        self._rows_path = rows_path
        if self._skeleton.rows != self._rows.rows:
            raise CorruptBaseFileError(
                f"A bootstrapped file has {self._rows.rows:,} rows, but its skeleton has {self._skeleton.rows:,}",
                path=rows_path,
                detail=path,
                hint="The file was changed after the bootstrap. Restore it from a copy, or bootstrap a new table.",
            )

    @property
    def schema(self) -> pa.Schema:
        """Return the meta columns, then all columns of the file with the rows."""
        return pa.schema([*self._skeleton.schema, *(item for item in self._rows.schema if item.name not in _META)])

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self._rows.rows

    @property
    def row_group_rows(self) -> list[int]:
        """Return the number of rows of each row group."""
        return self._rows.row_group_rows

    def footer(self) -> BaseFileFooter:
        """Return the footer of the skeleton, which has the keys."""
        return self._skeleton.footer()

    def iter_batches(
        self, row_groups: Sequence[int] | None, use_threads: bool, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of these row groups in the order of the file."""
        counts = self.row_group_rows
        chosen = range(len(counts)) if row_groups is None else sorted(row_groups)
        wanted = set(chosen)
        meta = _Rows(self._skeleton.iter_batches(None, use_threads, batch_rows))
        for number, count in enumerate(counts):
            if number not in wanted or not self._reads_rows:
                for part in meta.take(count) if self._reads_meta else ():
                    if number in wanted:
                        yield from (part.slice(at, batch_rows) for at in range(0, len(part), batch_rows))
                continue
            for batch in self._rows.iter_batches([number], use_threads, batch_rows):
                self._refuse_invalid(batch)
                if not self._reads_meta:
                    yield batch
                    continue
                at = 0
                for part in meta.take(len(batch)):
                    yield _beside(part, batch.slice(at, len(part)))
                    at += len(part)

    def _refuse_invalid(self, batch: pa.RecordBatch) -> None:
        """Raise `SchemaMismatchError` for a value that a copy of the rows would have refused. The bootstrap did not read the values."""
        try:
            refuse_invalid(batch, batch.schema.names)
        except SchemaMismatchError as error:
            error.path = self._rows_path
            raise

    def row_group_statistics(self, columns: Sequence[str]) -> list[dict[str, ColumnRange]]:
        """Return the ranges of the columns of the file with the rows."""
        return self._rows.row_group_statistics([name for name in columns if name not in _META])


class _Rows:
    """The rows of batches; `take` yields the next rows, in any number."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: pa.RecordBatch | None = None

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the next ``count`` rows, in parts of any size; both files have the same number of rows, so the rows exist."""
        while count:
            if self._left is None or not len(self._left):
                self._left = next(self._batches)
            part = self._left.slice(0, count)
            self._left = self._left.slice(len(part))
            count -= len(part)
            yield part


def _beside(meta: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [*meta.columns, *rows.columns], schema=pa.schema([*meta.schema, *rows.schema.remove_metadata()])
    )
