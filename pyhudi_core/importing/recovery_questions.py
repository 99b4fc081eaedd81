"""The questions of a recovery: facts that the names, the footers and a few rows of data files do not show, and contradictions to an answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import HudiError, InvalidOptionError, UnsupportedTableError
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.model.file_names import BaseFileName, LogFileName, join
from pyhudi_core.model.meta_fields import META_SCHEMA, PARTITION_PATH, RECORD_KEY
from pyhudi_core.model.new_table import new_table_config
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig, TableType
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.model.schema import from_avro, to_avro
from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Answers:
    """The caller's knowledge of the lost table.

    Attributes:
        record_key: its key columns; empty: not known.
        ordering: its ordering columns; empty for none, None: not known.
        partition_by: its partition columns; None: the columns in the names of the folders, if they have any.
        table_type: None: merge-on-read if there are log files, else not known.
        name: None: the last part of the location.
        leave_out: instants, file ids or paths of files that do not belong to the table.
        by_name: every column of every file is found by its name; False: not known.
    """

    record_key: tuple[str, ...] = ()
    ordering: tuple[str, ...] | None = None
    partition_by: tuple[str, ...] | None = None
    table_type: TableType | None = None
    name: str | None = None
    leave_out: frozenset[str] = frozenset()
    by_name: bool = False


@dataclass(frozen=True, slots=True)
@printable
class RecoveredFile:
    """An existing data file. ``rows`` and ``schema`` come from its footer; for a log, the schema comes from its first block.

    ``is_partial``: a log whose blocks all have only some of the columns, as partial updates write them.
    """

    partition: str
    name: BaseFileName | LogFileName
    size: int
    rows: int
    schema: str | None
    is_partial: bool = False

    @property
    def path(self) -> str:
        """The path, relative to the table."""
        return join(self.partition, str(self.name))

    @property
    def group(self) -> tuple[str, str]:
        """The (partition, file id) of the file."""
        return (self.partition, self.name.file_id)


def without_meta(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the table."""
    return pa.schema([item for item in schema if item.name not in META_SCHEMA.names])


def newest_bases(found: Iterable[RecoveredFile]) -> dict[tuple[str, str], RecoveredFile]:
    """Return the newest base file of each file group."""
    newest: dict[tuple[str, str], RecoveredFile] = {}
    for file in sorted(found, key=lambda file: file.name.requested_time):
        if isinstance(file.name, BaseFileName):
            newest[file.group] = file
    return newest


@dataclass(frozen=True)
class Questions:
    """Asks for unknown facts, and compares the answers with the files."""

    storage: Storage
    executor: Executor
    answers: Answers
    found: Sequence[RecoveredFile]
    partitions: tuple[str, ...]

    def run(self) -> tuple[list[str], TableConfig | None]:
        """Return the open questions, and the properties if enough is known.

        Raises `UnsupportedTableError` if no answer could be compared.
        """
        answers = self.answers
        self._refuse_skeletons()
        self._refuse_rows_without_keys()
        questions = [*self._twice(), *self._shared_keys()]
        has_logs = any(isinstance(file.name, LogFileName) for file in self.found)
        kind = TableType.MERGE_ON_READ if has_logs else answers.table_type
        fields, hive_style = self._partition_fields()
        asked: tuple[tuple[bool, str], ...] = (
            (not answers.record_key, "which columns are the record key? (record_key)"),
            (
                answers.ordering is None,
                "which columns decide which version of a row is newer? (ordering; empty for none)",
            ),
            (
                kind is None,
                "is it copy-on-write or merge-on-read? There are no log files, so both are possible (table_type)",
            ),
            (fields is None, f"which columns are the partition {self.partitions[0]!r}? (partition_by)"),
        )
        questions += [text for missing, text in asked if missing]
        is_complete = not any(missing for missing, _ in asked)
        schema = self._schema()
        name = answers.name or self.storage.location.rstrip("/").rpartition("/")[2]
        absent = {*answers.record_key, *(answers.ordering or ()), *(fields or ())} - set(schema.names)
        if absent:
            return [*questions, f"the files have no column {', '.join(sorted(absent))}: which ones are meant?"], None
        # Answers are compared with the rows, even if other questions are open; then the other values are only placeholders.
        config = new_table_config(
            name,
            answers.record_key or schema.names[:1],
            fields or (),
            answers.ordering or (),
            kind or TableType.COPY_ON_WRITE,
            to_avro(schema, name),
            hive_style=hive_style,
        )
        questions += self._contradictions(config, with_keys=bool(answers.record_key), with_paths=fields is not None)
        return questions, config if is_complete else None

    def _schema(self) -> pa.Schema:
        newest = max(
            (file for file in self.found if file.schema and not file.is_partial),
            key=lambda file: file.name.requested_time,
            default=None,
        )
        if newest is None or newest.schema is None:
            raise InvalidOptionError(
                "No data file says which columns the table has",
                table=self.storage.location,
                hint="Is it the right folder?",
            )
        return without_meta(from_avro(newest.schema))

    def _partition_fields(self) -> tuple[tuple[str, ...] | None, bool]:
        """Return the partition columns (None if unknown), and whether the folders have their names."""
        paths = [path for path in self.partitions if path]
        named = {tuple(part.partition("=")[0] for part in path.split("/")) for path in paths}
        hive_style = bool(paths) and all("=" in part for path in paths for part in path.split("/")) and len(named) == 1
        if self.answers.partition_by is not None:
            return self.answers.partition_by, hive_style
        if not paths:
            return (), True
        return (next(iter(named)), True) if hive_style else (None, False)

    def _twice(self) -> list[str]:
        """Return pairs of base files that one write cannot have left: two attempts of a task, of which the commit named one."""
        counted: dict[tuple[tuple[str, str], str], list[str]] = defaultdict(list)
        for file in self.found:
            if isinstance(file.name, BaseFileName):
                counted[(file.group, file.name.requested_time)].append(file.path)
        several = (paths for paths in counted.values() if len(paths) > 1)
        return [
            f"which of {' and '.join(sorted(paths))} belongs to the table? (leave_out the others)" for paths in several
        ]

    def _shared_keys(self) -> list[str]:
        """Return file groups of a partition with the same keys: at least one of them was replaced."""
        by_partition: dict[str, list[RecoveredFile]] = defaultdict(list)
        logged = {file.group for file in self.found if isinstance(file.name, LogFileName)}
        for file in newest_bases(self.found).values():
            if file.group not in logged:  # logs may have deleted the key
                by_partition[file.partition].append(file)
        questions = []
        for partition, files in sorted(by_partition.items()):
            if len(files) < 2:
                continue
            read: Callable[[RecoveredFile], pa.Table] = partial(_keys, self.storage)
            keys = pa.concat_tables(self.executor.map(read, files))
            counted = keys.group_by("key", use_threads=False).aggregate([("file_id", "count_distinct")])
            several = counted.filter(pc.greater(counted.column("file_id_count_distinct"), 1)).column("key")
            if len(several):
                shared = keys.filter(pc.is_in(keys.column("key"), value_set=several.combine_chunks()))
                ids = sorted(pc.unique(shared.column("file_id")).to_pylist())
                where = f"in several file groups of the partition {partition!r}"
                questions.append(
                    f"{len(several)} keys are {where}: which of {', '.join(ids)} were replaced? (leave_out)"
                )
        return questions

    def _refuse_skeletons(self) -> None:
        """Raise `UnsupportedTableError` for newest base files with only meta columns: no name and no footer shows the files with their rows."""
        by_schema = {file.schema: file.path for file in newest_bases(self.found).values() if file.schema}
        for schema, path in by_schema.items():
            if not without_meta(from_avro(schema)).names:
                raise UnsupportedTableError(
                    "The rows are in another folder (a METADATA_ONLY bootstrap), and no name or footer says which, so the table cannot be recovered",
                    table=self.storage.location,
                    path=path,
                    hint="Bootstrap a new table from that folder; rows that were written since are in other files here. Nothing was changed.",
                )

    def _refuse_rows_without_keys(self) -> None:
        """Raise `UnsupportedTableError` if rows have no meta columns, or keys that are generated and no key column was answered."""
        path, batch = self._sample
        if batch is None:
            return
        if RECORD_KEY not in batch.schema.names or batch.column(RECORD_KEY).null_count:
            raise self._refusal(path, "no meta columns (hoodie.populate.meta.fields=false)", "")
        if not self.answers.record_key and _are_generated(batch):
            raise self._refusal(path, "generated record keys", "If a column has these keys, name it in record_key. ")

    def _refusal(self, path: str, what: str, hint: str) -> UnsupportedTableError:
        return UnsupportedTableError(
            f"The rows have {what}, so no answer could be compared with them, and the table cannot be recovered",
            table=self.storage.location,
            path=path,
            hint=f"{hint}Read the Parquet files, and write their rows to a new table. Nothing was changed.",
        )

    @cached_property
    def _sample(self) -> tuple[str, pa.RecordBatch | None]:
        """Return the path and the first rows of the first newest base file that has rows."""
        for file in newest_bases(self.found).values():
            with self.storage.open_input(file.path) as source:
                batch = next(iter(BaseFileReader(source, file.path).iter_batches(batch_rows=1000)), None)
            if batch is not None and batch.num_rows:
                return file.path, batch
        return "", None

    def _contradictions(self, config: TableConfig, *, with_keys: bool, with_paths: bool) -> list[str]:
        """Return contradictions between the meta columns of some rows and the answers about keys and partition columns.

        Raises `UnsupportedTableError` if no answer can be right.
        """
        path, batch = self._sample
        if batch is None:
            return []
        plain = batch.select(without_meta(batch.schema).names)
        of_keys, of_paths = (
            ("record_key", RECORD_KEY, record_keys),
            ("partition_by", PARTITION_PATH, partition_paths),
        )
        found: list[str] = []
        for argument, column, compute in (*([of_keys] if with_keys else []), *([of_paths] if with_paths else [])):
            stored = batch.column(column)
            try:
                same = compute(plain, config).equals(stored.cast(pa.string()))
            except HudiError as error:
                found.append(f"{argument} does not fit the rows of {path}: {error.message}")
                continue
            if not same and column == RECORD_KEY and _are_generated(batch):
                raise self._refusal(path, "generated record keys", "")
            if not same:
                found.append(f"{argument} does not fit the rows of {path}, where {column} is {stored[0].as_py()!r}")
        return found


def _are_generated(batch: pa.RecordBatch) -> bool:
    """Say whether all keys have the form of generated ones: the time of the write, the task and the row."""
    matches = pc.match_substring_regex(batch.column(RECORD_KEY).cast(pa.string()), r"^\d{17}_\d+_\d+$")
    return bool(pc.all(matches).as_py())


def _keys(storage: Storage, file: RecoveredFile) -> pa.Table:
    with storage.open_input(file.path) as source:
        batches = list(BaseFileReader(source, file.path, [RECORD_KEY]).iter_batches())
    keys = pa.chunked_array([batch.column(RECORD_KEY).cast(pa.string()) for batch in batches], pa.string())
    keys = keys.drop_null()  # a null is not a key
    return pa.table({"key": keys, "file_id": pa.repeat(file.name.file_id, len(keys))})
