"""Base files: one version of the rows of a file group (specification, "Base Files").

The parts of the package use this module for all that has to do with base files. `BaseFileReader` streams a file in whichever format its name says:
Parquet, ORC or HFile, also within one file group. `BaseFileWriter` writes Parquet and is in `base_file_writer`, what footers say is in
`base_file_footer`.

Invariants
- memory is bounded by a batch of rows and the compressed bytes of a row group (of ORC: a stripe; of HFile: a block);
- a damaged file raises `CorruptBaseFileError`, an error of the storage passes through as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from pyhudi_core.formats.base_file_footer import BaseFileFooter
from pyhudi_core.formats.base_file_footer import read_footer as read_parquet_footer
from pyhudi_core.formats.base_file_hfile import HFileBaseFile
from pyhudi_core.formats.base_file_orc import OrcBaseFile
from pyhudi_core.formats.base_file_parquet import ParquetBaseFile
from pyhudi_core.formats.base_file_writer import BaseFileStats, BaseFileWriter
from pyhudi_core.formats.parquet_statistics import ColumnRange
from pyhudi_core.model.schema_cast import conform

__all__ = [
    "BaseFileFooter",
    "BaseFileFormat",
    "BaseFileReader",
    "BaseFileStats",
    "BaseFileWriter",
    "ColumnRange",
    "conform",
    "is_parquet",
    "read_footer",
]


class BaseFileFormat(Protocol):
    """What each format offers; the methods are those of `BaseFileReader`."""

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
    """Streams the rows of one base file, in the format that the end of its name says; Parquet for all names but ``.orc`` and ``.hfile``.

    Args:
        source: the file, which the caller closes.
        path: where it is, for errors.
        columns: names of top-level columns; those that the file does not have are left out. None reads all.

    Raises:
        CorruptBaseFileError: the footer cannot be read.
    """

    def __init__(self, source: pa.NativeFile, path: str, columns: Sequence[str] | None = None) -> None:
        self._file: BaseFileFormat = _format_of(path)(source, path, columns)

    @property
    def schema(self) -> pa.Schema:
        """All columns of the file as pyarrow reads them."""
        return self._file.schema

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return self._file.rows

    @property
    def row_group_rows(self) -> list[int]:
        """Rows of each row group."""
        return self._file.row_group_rows

    def footer(self) -> BaseFileFooter:
        """The footer, which has been read already. Raises `CorruptBaseFileError`."""
        return self._file.footer()

    def iter_batches(
        self, row_groups: Sequence[int] | None = None, *, use_threads: bool = False, batch_rows: int = 131_072
    ) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the file, a row group at a time.

        Args:
            row_groups: numbers of the row groups to read; None reads all.
            use_threads: decode columns in parallel.
            batch_rows: rows of a batch at most.

        Raises:
            CorruptBaseFileError: a page cannot be read.
        """
        return self._file.iter_batches(row_groups, use_threads, batch_rows)

    def row_group_statistics(self, columns: Sequence[str]) -> list[dict[str, ColumnRange]]:
        """For each row group, the ranges of those of the columns that have usable statistics; only Parquet has any.

        Only top-level columns of plain types can have them.
        """
        return self._file.row_group_statistics(columns)


def read_footer(source: pa.NativeFile, path: str) -> BaseFileFooter:
    """The footer of the file. Raises `CorruptBaseFileError`."""
    if is_parquet(path):
        return read_parquet_footer(source, path)
    return BaseFileReader(source, path, ()).footer()


def is_parquet(path: str) -> bool:
    """Whether a base file is read as Parquet."""
    return _format_of(path) is ParquetBaseFile


def _format_of(path: str) -> type[ParquetBaseFile] | type[OrcBaseFile] | type[HFileBaseFile]:
    if path.endswith(".orc"):
        return OrcBaseFile
    return HFileBaseFile if path.endswith(".hfile") else ParquetBaseFile
