"""A folder of Parquet files that is not a table: its files, their columns, and tasks that read them on either engine.

Folders named ``column=value`` give columns of type string. If a file has a column of this name, the column of the file is used. Names that begin with
``_`` or ``.`` are not data, as in Spark and Hive.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pyhudi_core.errors import CorruptBaseFileError, HudiError, SchemaMismatchError, UnsupportedTableError
from pyhudi_core.formats.base_file.parquet import ParquetBaseFile
from pyhudi_core.model.column_names import renamed, snake_case, snake_schema
from pyhudi_core.model.partition_path import parse_partition_path
from pyhudi_core.model.schema import cast_batch, normalise
from pyhudi_core.model.schema_cast import changes_values
from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.base import Storage, StorageSpec
from pyhudi_core.storage.opening import storage_from_spec
from pyhudi_core.write.coercion import schema_after, unfit_of

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the source, and the values in the names of its folders."""

    path: str
    size: int
    rows: int
    folder_values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """The files, sorted by path; the columns of each file; and the combined columns of all files. ``snake``: names are in snake case."""

    files: tuple[SourceFile, ...]
    own: tuple[pa.Schema, ...]
    schema: pa.Schema
    snake: bool = False

    def changed(self, own: pa.Schema) -> list[str]:
        """Return the columns of a file whose cast to the common type of all files could refuse or change values."""
        known = {item.name: item.type for item in self.schema}
        return [item.name for item in own if item.name in known and changes_values(item.type, known[item.name])]

    def task(
        self, spec: StorageSpec, files: tuple[SourceFile, ...], columns: Container[str] | None = None
    ) -> SourceTask:
        """Return a task that reads some of the files; ``columns``: only these."""
        wanted = pa.schema([item for item in self.schema if columns is None or item.name in columns])
        return SourceTask(spec, files, wanted, self.snake)


@dataclass(frozen=True, slots=True)
class SourceTask:
    """Reads files of the source, with the columns of ``schema``; picklable. ``snake``: their names become snake case."""

    spec: StorageSpec
    files: tuple[SourceFile, ...]
    schema: pa.Schema
    snake: bool = False

    @property
    def size(self) -> int:
        """The size of the files in bytes."""
        return sum(file.size for file in self.files)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, batch by batch. Raises `CorruptBaseFileError`, and `SchemaMismatchError` for values that do not fit the column."""
        storage = storage_from_spec(self.spec)
        for file in self.files:
            for batch in file_batches(storage, file.path, self.schema.names, snake=self.snake):
                with naming(file.path):
                    yield _fitted(batch, file, self.schema)


_UNPACK = "The file is compressed. Unpack it first."
_OTHER_FORMATS = {
    "gz": _UNPACK,
    "zip": _UNPACK,
    "zst": _UNPACK,
    "bz2": _UNPACK,
    "xz": _UNPACK,
    "xlsx": "Read it with pandas.read_excel, and upsert the DataFrame.",
    "xls": "Read it with pandas.read_excel, and upsert the DataFrame.",
    "json": "Read it with pandas.read_json, and upsert the DataFrame.",
    "jsonl": "Read it with pandas.read_json(lines=True), and upsert the DataFrame.",
    "ndjson": "Read it with pandas.read_json(lines=True), and upsert the DataFrame.",
    "feather": "Read it with pyarrow.feather.read_table, and upsert the table.",
    "arrow": "Read it with pyarrow.feather.read_table, and upsert the table.",
    "orc": "Read it with pyarrow.orc.read_table, and upsert the table.",
    "avro": "Read it with fastavro.reader, and upsert pyarrow.Table.from_pylist of its rows.",
}
"""The advice for files of other formats, by file name extension."""


@contextmanager
def opened_parquet(source: pa.NativeFile, path: str) -> Iterator[ParquetBaseFile]:
    """Open a Parquet file that another program wrote. Raises `CorruptBaseFileError` here and in the block, with advice for such a file."""
    try:
        yield ParquetBaseFile(source, path)
    except CorruptBaseFileError as error:
        raise CorruptBaseFileError(
            f"The file cannot be read as Parquet: {(error.detail or error.message)[:200]}",
            path=path,
            detail=error.detail,
            hint=_hint_of(path),
        ) from error


def _hint_of(path: str) -> str:
    end = path.lower().rpartition("/")[2].rpartition(".")[2]
    if end == "parquet":
        return "Write the file again, or leave it out."
    return (
        _OTHER_FORMATS.get(end)
        or "If it is a CSV file, give it a name that ends with .csv or .tsv; every other name is Parquet. Else write it again, or leave it out."
    )


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the file's path to every error raised in the block that names no file yet."""
    try:
        yield
    except HudiError as error:
        if error.path is None:
            error.path = path
        raise


def file_schema(storage: Storage, path: str, *, snake: bool = False, shown: str = "") -> tuple[pa.Schema, int]:
    """Return the columns and the number of rows of a file, from its footer; ``shown``: its path in errors. Raises `CorruptBaseFileError`."""
    shown = shown or f"{storage.location}/{path}"
    with storage.open_input(path) as opened, opened_parquet(opened, shown) as file, naming(shown):
        return (snake_schema(file.schema) if snake else file.schema), file.rows


def file_batches(
    storage: Storage, path: str, columns: Container[str] | None = None, *, snake: bool = False, shown: str = ""
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file; ``columns``: only these (new) names; ``shown``: its path in errors. Raises `CorruptBaseFileError`."""
    shown = shown or f"{storage.location}/{path}"
    with storage.open_input(path) as opened, opened_parquet(opened, shown) as file:
        named = snake_schema(file.schema) if snake else file.schema
        wanted = [number for number, name in enumerate(named.names) if columns is None or name in columns]
        chosen = pa.schema([named.field(number) for number in wanted])
        only = file.select([file.schema.field(number).name for number in wanted])
        for batch in only.iter_batches(None, use_threads=True, batch_rows=_BATCH_ROWS):
            yield renamed(batch, chosen) if snake else batch


def find_source(
    storage: Storage, executor: Executor, keys: Sequence[str] = (), *, snake: bool = False, allow_lossy: bool = False
) -> ParquetSource:
    """Return the files of a folder, with rows and columns of their footers; a file may lack columns.

    Args:
        keys: the key columns and the partition columns.
        snake: names become snake case.
        allow_lossy: 64-bit integers may become double.

    Raises `UnsupportedTableError` if the folder has a table or no Parquet files, `SchemaMismatchError` if files have a column with incompatible
    types, and `CorruptBaseFileError`.
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
    footers = executor.map(partial(file_schema, storage, snake=snake), [info.path for info in found])
    files = tuple(
        SourceFile(info.path, info.size, rows, _folder_values(info.path, snake=snake))
        for info, (_, rows) in zip(found, footers, strict=True)
    )
    schemas = [schema for schema, _ in footers]
    meeting = _Meeting(storage, tuple(keys), snake, allow_lossy)
    return ParquetSource(files, tuple(schemas), meeting.schema(schemas, files), snake)


def _folder_values(path: str, *, snake: bool) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for segment in path.split("/")[:-1]:
        name = segment.partition("=")[0]
        values = parse_partition_path(segment, (name,), hive_style=True, url_encode=True)
        if values is not None:
            found[snake_case(name) if snake else name] = values[0]
    return found


@dataclass(frozen=True, slots=True)
class _Meeting:
    """The columns of all files together, as if the files were consecutive batches that may lack columns."""

    storage: Storage
    keys: tuple[str, ...]
    snake: bool
    allow_lossy: bool

    def schema(self, schemas: Sequence[pa.Schema], files: Sequence[SourceFile]) -> pa.Schema:
        """Return the columns: first the columns of the files, then folder columns that a file lacks."""
        typed: dict[str, pa.DataType] = {}
        for schema, file in zip(schemas, files, strict=True):
            named = [item for item in schema if not pa.types.is_null(item.type) and item.name not in typed]
            with self._together(file):
                typed |= {item.name: item.type for item in normalise(pa.schema(named))} if named else {}
        own: pa.Schema | None = None
        for schema, file in zip(schemas, files, strict=True):
            with self._together(file):
                own = normalise(schema, known=pa.schema(list(typed.items()))) if own is None else own
                own = self._after(own, typed_nulls(schema, typed), file)
        assert own is not None
        for schema, file in zip(schemas, files, strict=True):
            added = [pa.field(name, pa.string()) for name in file.folder_values if name not in schema.names]
            with self._together(file):
                own = self._after(own, pa.schema(added), file) if added else own
        return own

    def _after(self, before: pa.Schema, data: pa.Schema, file: SourceFile) -> pa.Schema:
        def find_unfit(columns: pa.Schema) -> Mapping[str, str]:
            return unfit_of(file_batches(self.storage, file.path, columns.names, snake=self.snake), columns)

        return schema_after(
            before,
            data,
            find_unfit,
            table=self.storage.location,
            keys=self.keys,
            allow_lossy=self.allow_lossy,
            may_lack="anything",
        )

    @contextmanager
    def _together(self, file: SourceFile) -> Iterator[None]:
        try:
            yield
        except SchemaMismatchError as error:
            raise SchemaMismatchError(
                f"The files have columns that do not fit together: {error.message}",
                table=self.storage.location,
                path=file.path,
                hint=f"{error.hint}. Or import the files apart.",
            ) from error


def typed_nulls(schema: pa.Schema, known: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the schema, where columns without a type have the known type."""
    return pa.schema(
        [item.with_type(known.get(item.name, item.type)) if pa.types.is_null(item.type) else item for item in schema]
    )


def _fitted(batch: pa.RecordBatch, file: SourceFile, schema: pa.Schema) -> pa.RecordBatch:
    rows = cast_batch(batch, schema)
    for name, value in file.folder_values.items():
        if name in schema.names and name not in batch.schema.names:
            place = schema.get_field_index(name)
            rows = rows.set_column(place, schema.field(place), pa.repeat(pa.scalar(value, pa.string()), len(batch)))
    return rows
