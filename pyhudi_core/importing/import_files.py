"""Read Parquet and CSV files as rows for one write: first the columns of all files, then the rows, file by file.

Types follow the rule of ``write/coercion.py``, as if the files were consecutive batches. All columns are known before the first row is written. If
the table does not exist yet, `refuse_rows` first reads all rows once. So a refused import leaves no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import DataError, ObjectNotFoundError, SchemaMismatchError
from pyhudi_core.formats.csv_text import CsvFile, CsvStyle
from pyhudi_core.importing.parquet_source import file_batches, file_schema, naming, typed_nulls
from pyhudi_core.importing.repeated_keys import keys_of, refuse_repeated
from pyhudi_core.model.column_names import renamed, snake_names, snake_schema
from pyhudi_core.model.meta_fields import META_FIELDS, PARTITION_PATH, RECORD_KEY
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.schema import cast_batch, normalise
from pyhudi_core.model.table_rules import NO_RULES, TableRules
from pyhudi_core.naming import nearest
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.write import row_rules
from pyhudi_core.write.coercion import schema_after, unfit_of
from pyhudi_core.write.prepare import PrepareRows


@dataclass(frozen=True, slots=True)
class ImportStyle:
    """How the files are read.

    Attributes:
        nulls: words of CSV files that are nulls.
        delimiter: the character between the fields of CSV files; None: a tab in files that end with .tsv, otherwise a comma.
        types: the types of columns of CSV files, by their new names.
        snake: whether names become snake case.
    """

    nulls: tuple[str, ...] = ()
    delimiter: str | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    snake: bool = False


@dataclass(frozen=True, slots=True)
class ImportFile:
    """One of the files. ``path`` is the user's text, which errors name."""

    storage: Storage
    name: str
    path: str
    style: ImportStyle

    @property
    def is_csv(self) -> bool:
        return self.name.lower().endswith((".csv", ".tsv"))

    def schema(self, known: Mapping[str, pa.DataType], note: Callable[[str], object]) -> pa.Schema:
        """Return the columns. Columns of a CSV file have the ``known`` types; other columns have the types of their values, or null.

        ``note``: as in `CsvFile.guessed`.
        """
        if self.is_csv:
            own = self._csv()
            found = own.guessed(self._by_own_names(own, {**known, **self.style.types}), note)
            return snake_schema(found) if self.style.snake else found
        with self._exists():
            return file_schema(self.storage, self.name, snake=self.style.snake, shown=self.path)[0]

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows, of which ``schema`` are the columns."""
        if not self.is_csv:
            with self._exists():
                yield from file_batches(self.storage, self.name, snake=self.style.snake, shown=self.path)
            return
        own = self._csv()
        for batch in own.batches(self._by_own_names(own, {item.name: item.type for item in schema})):
            yield renamed(batch, snake_schema(batch.schema)) if self.style.snake else batch

    def _csv(self) -> CsvFile:
        separator = self.style.delimiter or ("\t" if self.name.lower().endswith(".tsv") else ",")
        return CsvFile(self._opened, self.path, CsvStyle(separator, self.style.nulls))

    def _by_own_names(self, file: CsvFile, types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        names = file.names()
        new = snake_names(names) if self.style.snake else names
        return {name: types[other] for name, other in zip(names, new, strict=True) if other in types}

    def _opened(self) -> pa.NativeFile:
        with self._exists():
            return self.storage.open_input(self.name)

    @contextmanager
    def _exists(self) -> Iterator[None]:
        try:
            yield
        except ObjectNotFoundError as error:
            raise self._absent() from error

    def _absent(self) -> DataError:
        """Return the error for a path that is not a file: a folder, or nothing; then it names existing files with similar names."""
        here = self.storage.list_folder("")
        if self.name in {path.rstrip("/") for path in here.folders}:
            return DataError(
                "It is a folder, not a file",
                path=self.path,
                hint="Give the paths of its files; pyhudi bootstrap takes a folder of Parquet files.",
            )
        near = nearest(self.name, [info.path for info in here.objects])
        hint = f"Did you mean {near}?" if near else "Check the path; a relative one begins at the working folder."
        return DataError("The file does not exist", path=self.path, hint=hint)


@dataclass(frozen=True, slots=True)
class ImportRows:
    """The rows of all files.

    ``schema``: the columns of the table after they are written. ``notes``: types that a user may not expect. ``rules``: the rules of the table,
    which add columns to the rows of files that lack them.
    """

    files: tuple[tuple[ImportFile, pa.Schema], ...]
    schema: pa.Schema
    notes: tuple[str, ...] = ()
    rules: TableRules = NO_RULES

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows. They are read from the files when the reader is read."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def refuse_rows(self, config: TableConfig, *, unique: bool) -> None:
        """Raise the errors of a write into a table with these properties, for the values, keys and partitions of the rows. Reads all
        rows.

        ``unique``: the write refuses keys that occur twice. Then the keys of all rows are in memory.
        """
        prepare = PrepareRows(config, self.schema, keys_only=False, generate=config.generates_keys)
        prepared = (prepare.batch(batch, pa.array(np.arange(len(batch)))) for batch in self._batches())
        keys = [keys_of(rows.column(RECORD_KEY), rows.column(PARTITION_PATH)) for rows in prepared if unique]
        refuse_repeated(keys, ", ".join(file.path for file, _ in self.files))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for file, schema in self.files:
            with naming(file.path):
                added = row_rules.added_by(self.rules, self.schema, schema.names)
                own = pa.schema([item for item in self.schema if item not in added])
                for batch in file.batches(schema):
                    rows = cast_batch(batch, own)
                    yield from self._completed(rows) if added and len(rows) else [cast_batch(rows, self.schema)]

    def _completed(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        whole = row_rules.completed(pa.Table.from_batches([rows]), self.rules, self.schema)
        yield from whole.select(self.schema.names).combine_chunks().to_batches()


def import_rows(
    paths: Sequence[str],
    style: ImportStyle,
    before: pa.Schema | None,
    *,
    table: str,
    keys: Sequence[str],
    allow_lossy: bool = False,
    rules: TableRules = NO_RULES,
) -> ImportRows:
    """Examine the files, and decide on the columns. Nothing is written.

    Args:
        paths: locations of files.
        before: the columns of the table; None if it does not exist (then its columns come from the first file, and from later files with new
            columns).
        table, keys, allow_lossy: as in `schema_after`.
        rules: the rules of the table, as in `ImportRows`.

    Raises `DataError` and its subclasses, and `CorruptBaseFileError`.
    """
    files = [_file(path, style) for path in paths]
    known = {} if before is None else {item.name: item.type for item in before}
    found: list[tuple[ImportFile, pa.Schema]] = []
    notes: list[str] = []
    for file in files:
        with naming(file.path):
            own = file.schema(known, notes.append)
            found.append((file, own))
            typed = [item for item in own if item.name not in known and _has_type(item)]
            known |= {item.name: item.type for item in normalise(pa.schema(typed))} if typed else {}
    _refuse_unused(style, found)
    _refuse_untyped(found, known)
    after = before
    found = [(file, typed_nulls(own, known)) for file, own in found]
    for file, own in found:
        with naming(file.path):
            if after is None:
                after = normalise(own, known=pa.schema(list(known.items())))
            find_unfit = partial(_unfit, file, own)
            takes = () if before is None else META_FIELDS  # the write into a table knows which of them it uses
            data = pa.schema([*own, *row_rules.added_by(rules, after, own.names)])
            after = schema_after(after, data, find_unfit, table=table, keys=keys, allow_lossy=allow_lossy, takes=takes)
    assert after is not None
    return ImportRows(tuple(found), after, tuple(notes), rules)


def _file(path: str, style: ImportStyle) -> ImportFile:
    folder, _, name = path.rpartition("/")
    return ImportFile(open_storage(folder or "."), name, path, style)


def _unfit(file: ImportFile, own: pa.Schema, columns: pa.Schema) -> dict[str, str]:
    return unfit_of(file.batches(own), columns)


def _has_type(item: pa.Field) -> bool:
    """Say whether a column of a table can have the type of the data."""
    try:
        normalise(pa.schema([item]))
    except SchemaMismatchError:
        return False
    return True


def _refuse_unused(style: ImportStyle, found: Sequence[tuple[ImportFile, pa.Schema]]) -> None:
    """Raise `DataError` for a type that is given for a column that no CSV file has."""
    names = {name for file, own in found if file.is_csv for name in own.names}
    unused = [name for name in style.types if name not in names]
    if unused:
        raise DataError(
            f"A type is given for the column {unused[0]!r}, which no CSV file has",
            hint=f"CSV files have: {', '.join(sorted(names))}." if names else "Parquet files have types of their own.",
        )


def _refuse_untyped(found: Sequence[tuple[ImportFile, pa.Schema]], known: Mapping[str, pa.DataType]) -> None:
    """Raise `SchemaMismatchError` for a column without any value in CSV files, if nothing says its type."""
    for file, own in found:
        untyped = [item.name for item in own if pa.types.is_null(item.type) and item.name not in known]
        if untyped and file.is_csv:
            raise SchemaMismatchError(
                f"Column {untyped[0]} has no values, so its type is not known",
                path=file.path,
                hint=f"Give its type, for example --type {untyped[0]}=string.",
            )
