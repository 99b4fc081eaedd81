"""A folder of Parquet files that are no table: its files, their columns, and tasks that read them on either engine.

Folders named ``column=value`` give columns of type string; a file's own column of that name counts instead. Names that begin with ``_`` or ``.``
are not data, as in Spark and Hive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi_core.errors import SchemaMismatchError, UnsupportedTableError
from pyhudi_core.formats.base_file.footer import reading, schema_of
from pyhudi_core.model.partition_path import parse_partition_path
from pyhudi_core.model.schema import normalise
from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.base import Storage, StorageSpec
from pyhudi_core.storage.opening import storage_from_spec


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the source, and the values that its folders give."""

    path: str
    size: int
    rows: int
    folder_values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """The files, sorted by path, and the columns of all together."""

    files: tuple[SourceFile, ...]
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class SourceTask:
    """Reads files of the source, with the columns of ``schema``; picklable."""

    spec: StorageSpec
    files: tuple[SourceFile, ...]
    schema: pa.Schema

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch. Raises `CorruptBaseFileError`, and `SchemaMismatchError` for values that do not fit the column."""
        storage = storage_from_spec(self.spec)
        for file in self.files:
            with storage.open_input(file.path) as opened, reading(file.path):
                parquet = pq.ParquetFile(opened)
                wanted = [name for name in parquet.schema_arrow.names if name in self.schema.names]
                for batch in parquet.iter_batches(columns=wanted):
                    yield _fitted(batch, file, self.schema)


def find_source(storage: Storage, executor: Executor) -> ParquetSource:
    """The files of a folder, with rows and columns of their footers.

    Raises `UnsupportedTableError` if the folder has a table or no Parquet files, `SchemaMismatchError` if files have a column with types that do not
    fit together, and `CorruptBaseFileError`.
    """
    found = []
    for info in storage.list(""):
        parts = info.path.split("/")
        if any(part in (".hoodie", "_delta_log") for part in parts):
            raise UnsupportedTableError(
                "The source is a table already, and its files alone are not its rows",
                table=storage.location,
                path=info.path,
                hint="Read it with the program that it belongs to, and write the rows.",
            )
        if not any(part.startswith(("_", ".")) for part in parts) and info.path.endswith(".parquet"):
            found.append(info)
    if not found:
        raise UnsupportedTableError(
            "The source has no files that end with .parquet", table=storage.location, hint="Check the location."
        )
    footers = executor.map(partial(_footer, storage), [info.path for info in found])
    files = tuple(
        SourceFile(info.path, info.size, metadata.num_rows, _folder_values(info.path))
        for info, metadata in zip(found, footers, strict=True)
    )
    return ParquetSource(files, _schema([schema_of(metadata) for metadata in footers], files, storage))


def _footer(storage: Storage, path: str) -> pq.FileMetaData:
    with storage.open_input(path) as opened, reading(path):
        return pq.ParquetFile(opened).metadata


def _folder_values(path: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for segment in path.split("/")[:-1]:
        name = segment.partition("=")[0]
        values = parse_partition_path(segment, (name,), hive_style=True, url_encode=True)
        if values is not None:
            found[name] = values[0]
    return found


def _schema(schemas: Sequence[pa.Schema], files: Sequence[SourceFile], storage: Storage) -> pa.Schema:
    try:
        own = pa.unify_schemas(list(schemas), promote_options="permissive")
    except pa.ArrowException as error:
        raise SchemaMismatchError(
            f"The files have columns that do not fit together: {error}",
            table=storage.location,
            hint="Rewrite the files of one kind, or import them apart.",
        ) from error
    named = dict.fromkeys(name for file in files for name in file.folder_values)
    added = [pa.field(name, pa.string()) for name in named if name not in own.names]
    return normalise(pa.schema([*own, *added]))


def _fitted(batch: pa.RecordBatch, file: SourceFile, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for wanted in schema:
        if wanted.name in batch.schema.names:
            columns.append(batch.column(wanted.name).cast(wanted.type))
        else:
            value = file.folder_values.get(wanted.name)
            columns.append(pa.repeat(pa.scalar(value, wanted.type), batch.num_rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
