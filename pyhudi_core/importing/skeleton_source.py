"""The input of a metadata-only bootstrap, a folder of Parquet files, and the checks before anything is made.

The rows stay in the folder, so its subfolders are the partitions of the table. Keys are checked one partition at a time, so memory holds the keys of
one partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError, SchemaMismatchError, UnsupportedTableError
from pyhudi_core.importing.parquet_source import ParquetSource, SourceFile, file_batches, naming
from pyhudi_core.importing.repeated_keys import keys_of, refuse_repeated
from pyhudi_core.importing.skeleton_commit import RowsToKeep
from pyhudi_core.index.choice import IndexType
from pyhudi_core.model.file_names import split
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import cast_batch, conform
from pyhudi_core.options import WriteOptions
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.paths import parse_location


def bootstrap_properties(source: str) -> dict[str, str]:
    """Return the properties of a table whose rows are in another folder."""
    return {
        "hoodie.bootstrap.base.path": source,
        "hoodie.bootstrap.index.enable": "true",
        "hoodie.bootstrap.index.type": "HFILE",
    }


@dataclass(frozen=True, slots=True)
class SkeletonSource:
    """The files of a source, and the table to make of them."""

    storage: Storage
    found: ParquetSource
    config: TableConfig

    def refuse_unfit(self, options: WriteOptions, location: str) -> None:
        """Raise `UnsupportedTableError`, by name, for options that are not possible in a table with rows elsewhere. Reads no row."""
        reasons = {
            "no record key (record_key=()), and generated keys would be of skeletons": not self.config.record_key_fields,
            "no meta columns (hoodie.populate.meta.fields=false)": not self.config.populate_meta_fields,
            "buckets (hoodie.index.type=BUCKET), and files hold the keys that they hold": options.index.type
            == IndexType.BUCKET,
            "random prefixes of partitions (pyhudi.partition.random.prefix)": bool(self.config.prefix_width),
            "its source in another kind of storage": self._is_elsewhere(location),
        }
        why = next((reason for reason, unfit in reasons.items() if unfit), None)
        if why is None:
            why = self._unfit_folder()
        if why is not None:
            raise UnsupportedTableError(
                f"A METADATA_ONLY bootstrap cannot make a table with {why}",
                table=location,
                hint="Use the mode FULL_RECORD, which copies the rows. Nothing was made.",
            )

    def refuse_keys(self) -> None:
        """Raise `DuplicateKeyError` for a key that a partition has twice, and `InvalidRecordKeyError` for rows without one. Reads all keys."""
        for partition, files in self._by_partition().items():
            keys = pa.chunked_array([part for file in files for part in self._keys(file)], pa.string())
            refuse_repeated([keys_of(keys, pa.repeat(partition, len(keys)))], self.storage.location)

    def refuse_values(self) -> None:
        """Raise `SchemaMismatchError` for values that the column cannot store, and `UnsupportedTableError` if reads would return other values than a
        copy.

        Reads only columns that have another type in a file than in the table.
        """
        for file, own in zip(self.found.files, self.found.own, strict=True):
            names = self.found.changed(own)
            columns = pa.schema([self.found.schema.field(name) for name in names])
            with naming(file.path):
                for batch in file_batches(self.storage, file.path, names) if names else ():
                    self._refuse_other_values(batch, columns)

    def _refuse_other_values(self, batch: pa.RecordBatch, columns: pa.Schema) -> None:
        for column, copied in zip(columns, cast_batch(batch, columns).columns, strict=True):
            one = pa.schema([column])
            try:
                same = _same(conform(batch, one).column(0), copied)
            except SchemaMismatchError:
                same = False
            if not same:
                kind = batch.schema.field(column.name).type
                raise UnsupportedTableError(
                    f"Column {column.name} is {kind} in the file and {column.type} in the table, and a read of the file would not give the values"
                    " that a copy of its rows has",
                    table=self.storage.location,
                    hint="Use the mode FULL_RECORD, which copies the rows. Nothing was made.",
                )

    def rows_to_keep(self) -> Iterator[RowsToKeep]:
        """Yield the files to keep, in the order of their paths."""
        local = parse_location(self.storage.location).scheme == "file"
        for file in self.found.files:
            info = self.storage.head(file.path)
            modified = 0 if info is None else info.modified_ms
            uri = f"{'file:' if local else ''}{self.storage.location}/{file.path}"
            folder, name = split(file.path)
            yield RowsToKeep(folder, name, uri, file.size, modified, file.rows, self._keys(file))

    def _keys(self, file: SourceFile) -> Iterator[pa.Array]:
        roots = {field.partition(".")[0] for field in self.config.record_key_fields}
        for batch in self.found.task(self.storage.spec(), (file,), roots).batches():
            yield record_keys(batch, self.config)

    def _by_partition(self) -> Mapping[str, Sequence[SourceFile]]:
        found: dict[str, list[SourceFile]] = {}
        for file in self.found.files:
            found.setdefault(split(file.path)[0], []).append(file)
        return found

    def _is_elsewhere(self, location: str) -> bool:
        return parse_location(location).scheme != parse_location(self.storage.location).scheme

    def _unfit_folder(self) -> str | None:
        """Say why the folders of the source cannot be the partitions of the table."""
        fields = self.config.partition_fields
        texts = pa.schema([pa.field(name, pa.string()) for name in fields])
        style = replace(self.config, partition_types=("SIMPLE",) * len(fields))
        for folder, files in self._by_partition().items():
            values = {name: [files[0].folder_values.get(name)] for name in fields}
            row = pa.RecordBatch.from_pydict(values, texts) if fields else pa.RecordBatch.from_pylist([{}])
            made = partition_paths(row, style)[0].as_py() if fields else ""
            if made != folder:
                return f"the folder {folder!r} of its source, which would be {made!r} as a partition of {', '.join(fields) or 'no column'}"
        if not fields:
            return None
        for file, own in zip(self.found.files, self.found.own, strict=True):
            both = [name for name in fields if name in own.names]
            if both:
                return f"the column {both[0]!r} both in a folder and in the file {file.path!r} of its source"
        return None


def _same(read: pa.Array, copied: pa.Array) -> bool:
    if pa.types.is_floating(copied.type):
        first, second = (part.fill_null(0).to_numpy(zero_copy_only=False) for part in (read, copied))
        return bool(np.array_equal(first, second, equal_nan=True) and read.is_null().equals(copied.is_null()))
    return bool(read.equals(copied))


def refuse_later_files(source: str, missing: Sequence[SourceFile]) -> None:
    """Raise `InvalidOptionError` for files that were added to the source after a metadata-only bootstrap, which takes all files at once."""
    if missing:
        raise InvalidOptionError(
            f"The source has {len(missing)} files that the table does not know, such as {missing[0].path!r}",
            table=source,
            hint="A METADATA_ONLY bootstrap takes all files at once. Load later ones with the mode FULL_RECORD.",
        )
