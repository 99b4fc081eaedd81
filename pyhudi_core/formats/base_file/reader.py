"""Read a base file in the format of its name: Parquet, ORC or HFile; one file group may have several formats.

Invariants
- memory is bounded by a batch of rows, which has a bound in bytes, and the compressed bytes of a row group (ORC: a stripe; HFile: a block);
- a damaged file raises `CorruptBaseFileError`; errors of the storage pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, Self

import pyarrow as pa

from pyhudi_core.formats.base_file.footer import BaseFileFooter
from pyhudi_core.formats.base_file.footer import read_footer as read_parquet_footer
from pyhudi_core.formats.base_file.hfile import HFileBaseFile
from pyhudi_core.formats.base_file.joined import JoinedBaseFile
from pyhudi_core.formats.base_file.orc import OrcBaseFile
from pyhudi_core.formats.base_file.parquet import ParquetBaseFile
from pyhudi_core.formats.base_file.parquet_statistics import ColumnRange
from pyhudi_core.formats.base_file.row_group_copies import StoredRowGroup


class BaseFileFormat(Protocol):
    """The methods of each format; they are the methods of `BaseFileReader`."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def rows(self) -> int: ...

    @property
    def row_group_rows(self) -> list[int]: ...

    def footer(self) -> BaseFileFooter: ...

    def iter_batches(
        self, row_groups: Sequence[int] | None, use_threads: bool, batch_rows: int
    ) -> Iterator[pa.RecordBatch]: ...

    def row_group_statistics(self, columns: Sequence[str]) -> list[dict[str, ColumnRange]]: ...


class BaseFileReader:
    """Reads the rows of one base file. The name's ending gives the format: ``.orc``, ``.hfile``, else Parquet.

    Args:
        source: the file, which the caller closes.
        path: its path, for errors.
        columns: names of top-level columns; columns that the file lacks are ignored. None reads all columns.

    Raises:
        CorruptBaseFileError: the footer cannot be read.
    """

    def __init__(self, source: pa.NativeFile, path: str, columns: Sequence[str] | None = None) -> None:
        self._file: BaseFileFormat = _format_of(path)(source, path, columns)

    @classmethod
    def joined(
        cls,
        skeleton: pa.NativeFile,
        path: str,
        rows: pa.NativeFile,
        rows_path: str,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Read a skeleton, which has only the meta columns, joined with the Parquet file that has its rows. Raises `CorruptBaseFileError`."""
        found = cls.__new__(cls)
        found._file = JoinedBaseFile(skeleton, path, rows, rows_path, columns)
        return found

    @property
    def schema(self) -> pa.Schema:
        """Return all columns of the file as pyarrow reads them."""
        return self._file.schema

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self._file.rows

    @property
    def row_group_rows(self) -> list[int]:
        """Return the number of rows of each row group."""
        return self._file.row_group_rows

    def footer(self) -> BaseFileFooter:
        """Return the footer, which has been read already. Raises `CorruptBaseFileError`."""
        return self._file.footer()

    def iter_batches(
        self, row_groups: Sequence[int] | None = None, *, use_threads: bool = False, batch_rows: int = 131_072
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows in the order of the file, a row group at a time.

        Args:
            row_groups: numbers of the row groups to read; None reads all.
            use_threads: decode columns in parallel.
            batch_rows: maximum rows of a batch.

        Raises:
            CorruptBaseFileError: a page cannot be read.
        """
        return self._file.iter_batches(row_groups, use_threads, batch_rows)

    def select(self, columns: Sequence[str], *, numbered: bool = False) -> BaseFileReader | None:
        """Return the same open file for other columns; None if its format cannot read columns one by one.

        ``numbered``: texts with few distinct values stay dictionaries until `spread` makes texts of them.
        """
        if not isinstance(self._file, ParquetBaseFile):
            return None
        found = type(self).__new__(type(self))
        found._file = self._file.select(columns, numbered=numbered)
        return found

    def spread(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Iterate over rows of a file that was selected with ``numbered``, with texts in place of dictionaries.

        Raises `CorruptBaseFileError`, and `LimitExceededError` for a row that is too large.
        """
        return self._file.spread(batch) if isinstance(self._file, ParquetBaseFile) else iter((batch,))

    def row_group_statistics(self, columns: Sequence[str]) -> list[dict[str, ColumnRange]]:
        """Return for each row group the ranges of the columns with usable statistics; only Parquet has statistics.

        Only top-level columns of plain types have statistics.
        """
        return self._file.row_group_statistics(columns)

    def stored_row_groups(self) -> list[StoredRowGroup | None]:
        """Return the row groups of a Parquet file for copies of their bytes: None for one that cannot be copied, nothing for other formats.

        Raises `CorruptBaseFileError`.
        """
        return self._file.stored_row_groups() if isinstance(self._file, ParquetBaseFile) else []


def read_footer(source: pa.NativeFile, path: str) -> BaseFileFooter:
    """Read the footer of the file. Raises `CorruptBaseFileError`."""
    if is_parquet(path):
        return read_parquet_footer(source, path)
    return BaseFileReader(source, path, ()).footer()


def is_parquet(path: str) -> bool:
    """Say whether a base file is read as Parquet."""
    return _format_of(path) is ParquetBaseFile


def _format_of(path: str) -> type[ParquetBaseFile] | type[OrcBaseFile] | type[HFileBaseFile]:
    if path.endswith(".orc"):
        return OrcBaseFile
    return HFileBaseFile if path.endswith(".hfile") else ParquetBaseFile
