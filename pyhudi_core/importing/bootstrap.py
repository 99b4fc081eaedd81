"""Bootstrap: an existing folder of Parquet files becomes a table, as a full copy, or with its rows in their present files (METADATA_ONLY).

The files are loaded in chunks, each in one commit that names its files in its extra metadata (`BOOTSTRAP_KEY`). So if a run dies, the next run
continues: files that a commit names are already loaded, all others are not. Another run loads files that were added to the source later; a file that
changed after it was loaded is refused. Two concurrent runs do not load a file twice: each commit requires that no other commit has loaded its files.
A METADATA_ONLY bootstrap is one commit (``importing/skeleton_commit.py``), the first of its table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.conflicts.requirement import CommitRequirement, TableState
from pyhudi_core.engine.choice import frame_of
from pyhudi_core.engine.reading import Reading, TaskGroup
from pyhudi_core.errors import (
    CorruptTimelineError,
    InvalidOptionError,
    TableExistsError,
    TableNotFoundError,
    at_table,
)
from pyhudi_core.importing.parquet_source import ParquetSource, SourceFile, find_source
from pyhudi_core.importing.repeated_keys import keys_of, refuse_repeated
from pyhudi_core.importing.skeleton_commit import bootstrap_skeletons
from pyhudi_core.importing.skeleton_source import SkeletonSource, bootstrap_properties, refuse_later_files
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.masking import takes_options
from pyhudi_core.model.partition_path import partition_paths
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import record_keys
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import checked_config, create_at, create_whole, open_table
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.base import Storage, StorageSpec
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.paths import Place, allowing
from pyhudi_core.table import HudiTable

BOOTSTRAP_KEY = "pyhudi.bootstrap"
"""The key, in the extra metadata of a commit, of the source and of the loaded files with their sizes, as JSON."""

CHUNK_BYTES = 256 << 20
"""The size of the files of one commit in bytes, if this process reads them; on Spark eight times as much."""

_MOST_FILES = 1000

BootstrapProgress = Callable[[int, int], object]
"""Called before each commit, with the number of loaded files and the number of all files."""


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Bootstrap:
    """The result or the plan of a bootstrap. True if every file of the source is loaded.

    Attributes:
        source: the location of the files.
        location: the location of the table.
        files: number of files of the source, with the numbers of rows and bytes.
        loaded: number of files in the table when the run began.
        chunks: number of commits that this run made, or (as a plan) would make.
        done: whether all files are loaded.
        columns: the columns of the table.
    """

    source: str
    location: str
    files: int
    rows: int
    bytes: int
    loaded: int
    chunks: int
    done: bool
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: str, location: str, found: ParquetSource, loaded: int, chunks: int, *, done: bool) -> Bootstrap:
        """Return a bootstrap with the totals of the source."""
        size, rows = sum(file.size for file in found.files), sum(file.rows for file in found.files)
        columns = tuple(found.schema.names)
        return cls(source, location, len(found.files), rows, size, loaded, chunks, done, columns)

    def __bool__(self) -> bool:
        return self.done

    def __str__(self) -> str:
        what = f"{self.files:,} files with {self.rows:,} rows, {self.bytes:,} bytes; {self.loaded:,} were loaded before"
        return f"{'Loaded' if self.done else 'To load'} from {self.source} into {self.location}: {what}; {self.chunks} commits"


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def bootstrap(
    source: Place,
    location: Place,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str | None = None,
    *,
    name: str | None = None,
    mode: str = "FULL_RECORD",
    options: Mapping[str, object] | None = None,
    source_options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    spark: Any = None,
    chunk_bytes: int | None = None,
    plan: bool = False,
    progress: BootstrapProgress | None = None,
    rename: str | None = None,
) -> Bootstrap:
    """Make a table from a folder of Parquet files, or continue a run that died.

    Args:
        source: the folder; its files are not changed.
        location: the location of the new table; not the source, a folder in the source, or a folder that contains it.
        record_key, ordering, table_type, name, options: as in `create_table`.
        partition_by: the partition columns; by default the columns of folders named ``column=value``.
        mode: FULL_RECORD, or Hudi's METADATA_ONLY: the rows stay in the source, and every read needs it, until updates, compactions or clusterings
            have written them. The partitions are then the folders of the source, and one commit takes all files. If the source is not below the
            table's parent folder, open the table with ``allow_sources``.
        source_options, storage_options: options for the storages of source and table.
        spark: a session to run on; without it, one chunk is held in this process.
        chunk_bytes: bytes of source files that become one commit.
        plan: only return what would be done.
        rename: ``"snake"``: names of columns become snake case, as with `rename_columns`; the other arguments take the new names.

    Raises `DuplicateKeyError` if the source has a key twice, and `InvalidRecordKeyError` for a row without a key; if it is in the files of the first
    commit, no table is made. Raises `DuplicateKeyError` or `CommitRequirementError` if another run loads the same files; `TableExistsError` for a
    table that does not come from this source, or that a METADATA_ONLY bootstrap left without its commit; and `UnsupportedTableError` if the source
    is a table or has no Parquet files, or for what a METADATA_ONLY table does not keep; `SchemaMismatchError` if the types of the files do not fit
    together by the rule of all writes; and `CorruptBaseFileError` for a damaged file. Files that were committed before an error stay, and are not
    loaded again.
    """
    location = str(location)
    keeps_rows = _keeps_rows(mode, location, spark, rename)
    reads = open_storage(source, source_options)
    storage_options = allowing(storage_options, reads.location) if keeps_rows else storage_options
    _refuse_nested(reads.location, open_storage(location, storage_options).location)
    key_columns = [
        name for given in (record_key, partition_by or ()) for name in ([given] if isinstance(given, str) else given)
    ]
    allow_lossy = WriteOptions.parse(options or {}).rows.allow_lossy_widening
    found = find_source(
        reads, system_runtime().executor, key_columns, snake=rename is not None, allow_lossy=allow_lossy
    )
    table = _opened(location, storage_options, options)
    before = "" if table is None else _newest(table)
    loaded = {} if table is None else _loaded(table, reads.location, record_key)
    missing = _missing(found, loaded, reads.location)
    chunks = list(_chunks(missing, chunk_bytes or CHUNK_BYTES * (8 if spark is not None else 1)))
    shown = Bootstrap.of(reads.location, location, found, len(loaded), len(chunks), done=not missing)
    if table is None:
        keys = partition_by if partition_by is not None else _folders_of(found)
        opened = OpenedTable(open_storage(location, storage_options), system_runtime(), options or {})
        properties = bootstrap_properties(reads.location) if keeps_rows else None
        made = (found.schema, record_key, keys, ordering, table_type, name, properties)
        if keeps_rows:
            _make_skeletons(opened, SkeletonSource(reads, found, checked_config(opened, *made)), made, plan=plan)
            return replace(shown, chunks=1, done=not plan)
        _refuse_rows(reads, found, chunks[0], checked_config(opened, *made), all_columns=spark is None)
        if plan:
            return shown
        with at_table(opened.storage.location):
            table = create_whole(opened, *made)
    _refuse_unfinished(table, reads.location, loaded)
    if keeps_rows:
        refuse_later_files(reads.location, missing)
    if plan:
        return shown
    return replace(shown, done=_load_all(table, reads, found, chunks, before, spark, progress))


def _load_all(
    table: HudiTable,
    reads: Storage,
    found: ParquetSource,
    chunks: Sequence[tuple[SourceFile, ...]],
    before: str,
    spark: Any,
    progress: BootstrapProgress | None,
) -> bool:
    """Load the chunks, one commit each; True at the end."""
    done = len(found.files) - sum(map(len, chunks))
    for chunk in chunks:
        if progress is not None:
            progress(done, len(found.files))
        requirement = _NotLoaded(reads.location, tuple(file.path for file in chunk), before)
        _load(table, reads.spec(), chunk, found, requirement, spark)
        done += len(chunk)
    return True


def _refuse_rows(
    reads: Storage, source: ParquetSource, chunk: tuple[SourceFile, ...], config: TableConfig, *, all_columns: bool
) -> None:
    """Before the table is made: raise `InvalidRecordKeyError` for rows of the first commit without a key, `DuplicateKeyError` for a key that a
    partition has twice, and the errors of reading the files.

    Reads key and partition columns, and columns whose values may be unsuitable, or ``all_columns``.
    """
    names = {field.partition(".")[0] for field in (*config.record_key_fields, *config.partition_fields)}
    names.update(name for own in source.own for name in source.changed(own))
    batches = source.task(reads.spec(), chunk, None if all_columns else names).batches()
    refuse_repeated(
        [
            keys_of(record_keys(batch, config), partition_paths(batch, config))
            for batch in batches
            if config.record_key_fields
        ],
        reads.location,
    )


def _keeps_rows(mode: str, location: str, spark: Any, rename: str | None) -> bool:
    """Say whether the rows stay in the source. Raises `InvalidOptionError` for a mode that does not exist, or not with these arguments."""
    if rename not in (None, "snake"):
        raise InvalidOptionError(f"There is no way of renaming {rename!r}", table=location, hint="Use snake.")
    if mode.upper() == "METADATA_ONLY" and rename is not None:
        raise InvalidOptionError(
            "A METADATA_ONLY bootstrap leaves the rows in their files, so it cannot rename their columns",
            table=location,
            hint="Use the mode FULL_RECORD, which copies the rows.",
        )
    if mode.upper() not in ("FULL_RECORD", "METADATA_ONLY"):
        raise InvalidOptionError(
            f"There is no bootstrap mode {mode!r}", table=location, hint="Use FULL_RECORD or METADATA_ONLY."
        )
    if mode.upper() == "METADATA_ONLY" and spark is not None:
        raise InvalidOptionError(
            "A METADATA_ONLY bootstrap runs in this process, and a Spark session was given",
            table=location,
            hint="Omit spark=; only the keys are read.",
        )
    return mode.upper() == "METADATA_ONLY"


def _make_skeletons(opened: OpenedTable, source: SkeletonSource, made: tuple[Any, ...], *, plan: bool) -> None:
    """Make the table, and the one commit of a METADATA_ONLY bootstrap; as a ``plan``, only refuse what cannot be made."""
    location = source.storage.location
    source.refuse_unfit(WriteOptions.parse(opened.options, config=source.config), opened.storage.location)
    source.refuse_keys()
    source.refuse_values()
    if plan:
        return
    with at_table(opened.storage.location):
        create_at(opened, *made)
        named = json.dumps({"source": location, "files": {file.path: file.size for file in source.found.files}})
        bootstrap_skeletons(opened.context(), location, source.rows_to_keep(), {BOOTSTRAP_KEY: named})


def _refuse_unfinished(table: HudiTable, source: str, loaded: Mapping[str, int]) -> None:
    """Raise `TableExistsError` for a table without the one commit of its METADATA_ONLY bootstrap."""
    if table.config.bootstrap_base_path is not None and not loaded:
        raise TableExistsError(
            "A METADATA_ONLY bootstrap of this table did not end, or is running",
            table=table.location,
            path=source,
            hint="If no process runs it any more, delete the table's folder, which has no rows of its own, and bootstrap again.",
        )


def _refuse_nested(source: str, target: str) -> None:
    first, second = (f"{place.rstrip('/')}/" for place in (source, target))
    if first.startswith(second) or second.startswith(first):
        raise InvalidOptionError(
            "The table and its source are in one another", table=target, hint="Give the table a folder of its own."
        )


def _folders_of(found: ParquetSource) -> tuple[str, ...]:
    """Return the columns of the folders, if all files have the same columns. Raises `InvalidOptionError` if not."""
    kinds = {tuple(file.folder_values) for file in found.files}
    if len(kinds) > 1:
        raise InvalidOptionError(
            f"The files are in folders of several kinds: {', '.join(sorted('/'.join(kind) or 'none' for kind in kinds))}",
            hint="Say partition_by.",
        )
    return next(iter(kinds))


def _opened(
    location: str, storage_options: Mapping[str, str] | None, options: Mapping[str, object] | None
) -> HudiTable | None:
    try:
        return open_table(location, storage_options, options)
    except TableNotFoundError:
        return None


def _loaded(table: HudiTable, source: str, record_key: str | Sequence[str]) -> dict[str, int]:
    """Return the files that commits of the table have loaded, with their bytes. Raises `TableExistsError` for a table of another origin."""
    keys = (record_key,) if isinstance(record_key, str) else tuple(record_key)
    found: dict[str, int] = {}
    others = False
    for _, commit in table.commits_with(""):
        files = _files_of(commit, source)
        found.update(files)
        others = others or not files
    if table.config.record_key_fields != keys or (others and not found):
        raise TableExistsError(
            "There is a table that was not made of this source",
            table=table.location,
            hint="Give another location, or write the rows with upsert.",
        )
    return found


def _missing(found: ParquetSource, loaded: Mapping[str, int], source: str) -> list[SourceFile]:
    changed = [file.path for file in found.files if loaded.get(file.path, file.size) != file.size]
    if changed:
        raise InvalidOptionError(
            "A file of the source changed after it was loaded",
            table=source,
            path=changed[0],
            hint="Upsert its rows; a bootstrap loads each file once.",
        )
    return [file for file in found.files if file.path not in loaded]


def _chunks(files: Sequence[SourceFile], most_bytes: int) -> Iterator[tuple[SourceFile, ...]]:
    chunk: list[SourceFile] = []
    for file in files:
        if chunk and (sum(one.size for one in chunk) + file.size > most_bytes or len(chunk) >= _MOST_FILES):
            yield tuple(chunk)
            chunk = []
        chunk.append(file)
    if chunk:
        yield tuple(chunk)


def _newest(table: HudiTable) -> str:
    """Return when the newest commit completed; empty if there is none."""
    return max((commit.completion_time or "" for commit in table.timeline.commits), default="")


def _files_of(commit: CommitMetadata, source: str) -> dict[str, int]:
    """Return the files of the source that a commit has loaded, with their bytes."""
    try:
        entry = parse_json(commit.extra.get(BOOTSTRAP_KEY) or "{}")
        files = entry["files"] if entry.get("source") == source else {}
        return {str(name): int(size) for name, size in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CorruptTimelineError(
            f"The list of loaded files that a commit stores under {BOOTSTRAP_KEY!r} is damaged: {error!s:.200}",
            hint="Roll the commit back, or bootstrap a new table; without the list, files would be loaded twice.",
        ) from error


@dataclass(frozen=True, slots=True)
class _NotLoaded:
    """The requirement that no commit that completed after ``after`` has loaded one of the files.

    Keys cannot show this, because they may be generated.
    """

    TYPE: ClassVar[str] = "files-not-loaded"

    source: str
    files: tuple[str, ...]
    after: str

    def describe(self) -> str:
        """Describe the requirement."""
        return f"no other commit has loaded {self.files[0]}{' and others' if len(self.files) > 1 else ''}"

    def failure(self, state: TableState) -> str | None:
        """Return why the requirement is not met; None if it is."""
        for instant, commit in state.commits_after(self.after, BOOTSTRAP_KEY):
            if not _files_of(commit, self.source).keys().isdisjoint(self.files):
                return f"{instant.requested_time} has: two runs load the same source"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the requirement as JSON values."""
        return {"type": self.TYPE, "source": self.source, "files": list(self.files), "after": self.after}


def _load(
    table: HudiTable,
    spec: StorageSpec,
    chunk: tuple[SourceFile, ...],
    source: ParquetSource,
    requirement: _NotLoaded,
    spark: Any,
) -> None:
    """Commit the rows of some files. A chunk without rows is committed, too, so that its files count as loaded."""
    files = {file.path: file.size for file in chunk}
    named = {BOOTSTRAP_KEY: json.dumps({"source": requirement.source, "files": files})}
    required: list[CommitRequirement] = [requirement]
    if not sum(file.rows for file in chunk):
        with table.begin("upsert", named, requirements=required, allow_empty=True) as write:
            write.commit()
        return
    if spark is None:
        rows: Any = pa.Table.from_batches(source.task(spec, chunk).batches(), source.schema)
    else:
        rows = frame_of(
            Reading(source.schema, [TaskGroup([source.task(spec, (file,)) for file in chunk])]), spark, table.location
        )
    with table.begin("bulk_insert", named, spark, required) as write:
        write.write(rows)
        write.commit()
