"""One immutable state of a table: its configuration, its timeline and its file groups at a completion time.

Every read is a function of a snapshot. Every write starts from a snapshot, and is checked against the newest state under the lock.

A metadata table lists the files of a table; without one, the storage lists them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from pyhudi_core.errors import CorruptionError, ObjectNotFoundError, UnsupportedTableError
from pyhudi_core.file_groups.listing import FileListing, StorageListing
from pyhudi_core.file_groups.view import FileGroupView, NamedFiles
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.metadata_table.names import FILES, readable_partitions
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.internal_schema import Evolution
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.schema import from_avro
from pyhudi_core.runtime.base import Executor
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.snapshot.evolution import find_evolution
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.timeline.lost_files import lost_file

_log = logging.getLogger(__name__)
_SERIAL = SerialExecutor()


@dataclass(slots=True)
class MetadataListing:
    """Lists a data table's files from the metadata table. The partitions of one `prepare` call are looked up together.

    Without such a call, the first requested partition is looked up alone, and then all others, because the caller probably needs all of them.
    ``instead`` lists the storage; it is used if another process has dropped the metadata table.
    """

    table: MetadataTable
    instead: FileListing
    _dropped: bool = False
    _asked: bool = False
    _files: dict[str, tuple[ObjectInfo, ...]] = field(default_factory=dict)
    _partitions: tuple[str, ...] | None = None

    def partitions(self) -> tuple[str, ...]:
        """Return all partition paths, sorted."""
        if self._partitions is None:
            found = None if self._dropped else self.table.unless_dropped(self.table.data_partitions)
            self._dropped = found is None
            self._partitions = self.instead.partitions() if found is None else found
        return self._partitions

    def prepare(self, partitions: Iterable[str]) -> None:
        """Look up the partitions that are not known yet, and no others."""
        unknown = tuple(path for path in dict.fromkeys(partitions) if path not in self._files)
        if unknown:
            self._look_up(unknown)

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        """Return all files that are listed in a partition."""
        if partition not in self._files:
            wanted = tuple({*self.partitions(), partition} - self._files.keys()) if self._asked else (partition,)
            self._asked = True
            self._look_up(wanted)
        return self._files[partition]

    def _look_up(self, partitions: Sequence[str]) -> None:
        found = None if self._dropped else self.table.unless_dropped(lambda: self.table.files(partitions))
        if found is None:
            self._dropped = True
            self.instead.prepare(partitions)
            self._files |= {path: self.instead.files(path) for path in partitions}
            return
        for path, files in found.items():
            prefix = f"{path}/" if path else ""
            self._files[path] = tuple(ObjectInfo(prefix + name, size, 0, "") for name, size in sorted(files.items()))
        for path in partitions:
            self._files.setdefault(path, ())


@dataclass(frozen=True, slots=True)
class Beside:
    """The state of the metadata table, read at the same time as the table's timeline: the timeline of the metadata table, and the objects in the
    folder of its list of files (None: not listed).
    """

    timeline: Timeline
    files: tuple[ObjectInfo, ...] | None = None


@dataclass(frozen=True, slots=True)
@printable
class Snapshot:
    """One state of a table.

    ``bound`` is the completion time up to which commits are visible; None means all completed commits. ``evolution`` is None unless columns have
    numbers, so that they can be renamed. ``hashed``: whether the table has consistent hashing, if this was checked together with the state.
    """

    config: TableConfig
    timeline: Timeline
    bound: str | None
    schema: pa.Schema
    view: FileGroupView
    metadata: MetadataTable | None = None
    evolution: Evolution | None = None
    hashed: bool | None = None

    def __repr__(self) -> str:
        return f"Snapshot of {self.view.table} as of {self.completion_time or 'its creation'}"

    def _shown(self) -> dict[str, object]:
        return {
            "table": self.view.table,
            "as of": self.completion_time or "its creation",
            "columns": self.schema.names,
            "instants": len(self.timeline),
            "config": self.config,
        }

    @property
    def visibility(self) -> Visibility:
        return self.view.visibility

    @property
    def completion_time(self) -> str:
        """Return the completion time of the newest visible commit; empty before the first commit."""
        return self.visibility.newest_completion()


def build(
    storage: Storage,
    folder: TimelineFolder,
    config: TableConfig,
    timeline: Timeline,
    bound: str | None = None,
    *,
    by_name: bool = True,
    executor: Executor = _SERIAL,
    beside: Beside | None = None,
) -> Snapshot:
    """Build the snapshot of a loaded timeline.

    Args:
        beside: the known state of the metadata table; None: the timeline of the metadata table is listed now.
        by_name: whether a file is valid only if a commit names it; False in tests.
        executor: lists folders.
    """
    history = folder.history
    raised = config.was_raised
    visibility = Visibility.of(
        timeline, bound, folder.read_commit, history.exists, by_name=by_name, history=history, raised=raised
    )
    metadata = _metadata_table(folder, config, timeline, visibility, beside)
    stored: FileListing = StorageListing(
        storage, bool(config.partition_fields), executor, folder.settled_files, visibility.is_settled
    )
    if metadata is not None:
        stored = MetadataListing(metadata, stored)
    listing = NamedFiles(stored, visibility, storage.head, partial(lost_file, folder), folder.read_commits)
    view = FileGroupView(listing, visibility, storage.location)
    visible = Timeline(tuple(sorted(visibility.commits)))
    text, archived = folder.latest_schema(visible), None
    if text is None:
        archived = _archived_definition(folder, timeline, visibility.completed_until)
        at_creation = None if visible.commits else config.create_schema  # later commits may have renamed columns
        text = (archived and archived.schema) or at_creation or folder.latest_schema(timeline) or config.create_schema
    if text is None:
        raise UnsupportedTableError(
            "Neither a commit nor hoodie.properties has the table's schema",
            table=storage.location,
            hint="Write to the table once with Hudi, which stores the schema in the commit.",
        )
    evolution = find_evolution(storage, visibility, archived)
    return Snapshot(config, timeline, bound, from_avro(text), view, metadata, evolution)


def metadata_file_groups(
    storage: Storage, folder: TimelineFolder, timeline: Timeline, executor: Executor = _SERIAL
) -> FileGroupView:
    """Return the file groups of a metadata table, for its services; storage, folder and timeline are its own.

    A file is valid if its instant has completed, because Hudi's commits do not name every file, for example the empty first log of a file group. The
    rows of a metadata table have fixed fields, so there is no schema and no `Snapshot`.
    """
    history = folder.history
    visibility = Visibility.of(timeline, None, folder.read_commit, history.exists, by_name=False, history=history)
    return FileGroupView(StorageListing(storage, True, executor), visibility, storage.location)


def _metadata_table(
    folder: TimelineFolder, config: TableConfig, timeline: Timeline, visibility: Visibility, beside: Beside | None
) -> MetadataTable | None:
    """Return the metadata table if the properties list it, it exists, and it contains every commit.

    Commits are trusted first, then the metadata table, then the storage's listing.
    """
    readable = readable_partitions(config)
    if FILES not in readable:
        return None
    if not folder.layout.is_older:
        return _usable(folder, readable, timeline, visibility, beside)
    try:
        return _usable(folder, readable, timeline, visibility, None)
    except (CorruptionError, ObjectNotFoundError, UnsupportedTableError) as error:
        _log.warning("the metadata table of %s is not used: %s", folder.storage.location, error)
        return None


def _usable(
    folder: TimelineFolder,
    readable: tuple[str, ...],
    timeline: Timeline,
    visibility: Visibility,
    beside: Beside | None,
) -> MetadataTable | None:
    """Return the metadata table if it exists, contains every commit, and no later commit."""
    storage = folder.storage
    own = None if beside is None else beside.timeline
    found = MetadataTable.open(timeline, folder, readable, own=own)
    if own is not None and not (len(own) and found.slices.knows(visibility.commits)):
        # It was listed at the same time as the table, so its listing may be older than the table's timeline.
        found = MetadataTable.open(timeline, folder, readable)
    elif beside is not None and beside.files is not None:
        found.slices.take(FILES, beside.files)
        found.slices.read_ahead()
    if not len(found.slices.own):
        _log.warning("%s lists a metadata table that is not there; its files are listed instead", storage.location)
        return None
    if not found.slices.knows(visibility.commits):
        _log.warning(
            "the metadata table of %s does not know all commits; its files are listed instead", storage.location
        )
        return None
    if found.slices.is_ahead:
        _log.info(
            "the metadata table of %s is newer than its timeline was; its files are listed instead", storage.location
        )
        return None
    return found


def _archived_definition(folder: TimelineFolder, timeline: Timeline, bound: str) -> CommitMetadata | None:
    """Return the newest archived commit that has a schema and had completed at the bound."""
    if not timeline.has_history or not len(timeline.commits):
        return None
    for instant in folder.history.newest_first(bound):
        commit = folder.read_commit(instant)
        if commit.schema and commit.operation not in SERVICE_OPERATIONS:
            return commit
    return None
