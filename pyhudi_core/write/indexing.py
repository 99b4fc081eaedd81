"""The index of one write: chosen by the options, the table and the batch (`index.choice`), and made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from pyhudi_core.file_groups.slice import FileSlice, LogFile
from pyhudi_core.index.base import Index
from pyhudi_core.index.bucket import BucketIndex, Hashing
from pyhudi_core.index.choice import INDEX_KEY, Facts, IndexChoice, IndexType, choose, hash_fields_of
from pyhudi_core.index.consistent import ConsistentIndex
from pyhudi_core.index.elsewhere import OneRowAKey
from pyhudi_core.index.files import FilesIndex
from pyhudi_core.index.hash_ranges import has_consistent_hashing, ranges_of
from pyhudi_core.index.hashing_metadata import HashingMetadata, make
from pyhudi_core.index.key_files import FileLookUp
from pyhudi_core.index.listed_filters import ListedFilters
from pyhudi_core.index.record_index import RecordIndex
from pyhudi_core.index.table_files import TableFilesIndex
from pyhudi_core.merge.merged_slice import LivingRows
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.commit import BUCKETS_KEY, CONSISTENT, MERGES_KEY
from pyhudi_core.model.file_names import BUCKET_FILE_ID
from pyhudi_core.model.operation import OVERWRITING, UPDATING, OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options import IndexOptions
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.base import Storage
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.plan import Volume

_BY_FILTER = (IndexType.BLOOM, IndexType.GLOBAL_BLOOM)


@dataclass(frozen=True, slots=True)
class ChosenIndex:
    """The choice; with the usable record index and listed bloom filters of the table as of the write's start."""

    choice: IndexChoice
    record_index: MetadataSlices | None
    filters: MetadataSlices | None = None


_SHARE = 50_000
"""Fewer rows than this are not divided among tasks, because each task would open the same files."""


@dataclass(frozen=True, slots=True)
class Tagging:
    """The input of an index.

    Attributes:
        open_storage: opens the table's storage inside a task.
        tasks: how many tasks to use.
        one_row: makes one row from several rows with one key, if keys are unique in the table.
        living: reads stored rows.
        options: the options of the index.
        operation: the operation of the write.
        rows: the number of rows.
    """

    open_storage: Callable[[], Storage]
    tasks: int
    one_row: OneRowAKey
    living: LivingRows
    options: IndexOptions
    operation: OperationType
    rows: int


def hashing_of(context: TableContext) -> Hashing:
    """Return how keys are assigned to buckets, by the options."""
    config, options = context.config, context.options.index
    return Hashing(options.buckets or 1, config.record_key_fields, hash_fields_of(config, options))


def known_hashing(context: TableContext, snapshot: Snapshot) -> Hashing:
    """Return how keys are assigned to buckets: by the newest commit if it says so, otherwise by the options."""
    given = hashing_of(context)
    known = known_buckets(snapshot)
    return given if known is None else replace(given, fields=tuple(known.partition(":")[2].split(",")))


def known_buckets(snapshot: Snapshot) -> str | None:
    """Return the entry about buckets in the newest commit; Hudi's commits have none."""
    commits = map(snapshot.visibility.read_commit, reversed(snapshot.visibility.commits))
    return next((commit.extra[BUCKETS_KEY] for commit in commits if BUCKETS_KEY in commit.extra), None)


def _buckets(context: TableContext, *, consistent: bool) -> str:
    """Return the assignment of keys to buckets, in the form of the commit's entry."""
    hashing = hashing_of(context)
    return f"{CONSISTENT}:{','.join(hashing.fields)}" if consistent else str(hashing)


def index_notes(context: TableContext, choice: IndexChoice, *, merges: bool) -> dict[str, str]:
    """Return the entries about the index for the commit's extra metadata.

    ``merges``: the write leaves shared buckets to the merge (``write/non_blocking.py``).
    """
    notes = {INDEX_KEY: str(choice)}
    if choice.type is IndexType.BUCKET:
        notes[BUCKETS_KEY] = _buckets(context, consistent=choice.consistent)
        if merges:
            notes[MERGES_KEY] = "true"
    return notes


def is_bucketed(snapshot: Snapshot) -> bool | None:
    """Say whether the table's file groups are buckets of a bucket index; None if the table has no file group.

    The newest commit with files decides. If every such commit is archived, the first partition with file groups decides.
    """
    for instant in reversed(snapshot.visibility.commits):
        stats = snapshot.visibility.read_commit(instant).stats
        if stats:
            return all(BUCKET_FILE_ID.match(stat.file_id) for stat in stats)
    if not snapshot.timeline.has_history:
        return None  # nothing is archived: a new table is not listed
    found = (snapshot.view.slices(partition) for partition in snapshot.view.partitions())
    slices = next((slices for slices in found if slices), ())
    return all(BUCKET_FILE_ID.match(piece.file_id) for piece in slices) if slices else None


def asks_index(context: TableContext, operation: OperationType, snapshot: Snapshot) -> bool:
    """Say whether an index decides the file groups of the operation's rows. An overwrite looks up no key, but in a table with buckets the key
    determines the file group.

    A generated key of an inserted row is new.
    """
    if context.config.generates_keys and operation not in UPDATING:
        return False
    named = context.options.index.type == IndexType.BUCKET
    return operation not in OVERWRITING or named or bool(is_bucketed(snapshot))


def choose_index(context: TableContext, snapshot: Snapshot, volumes: Mapping[str, Volume]) -> ChosenIndex:
    """Choose the index of a write. `refusals.at_begin` has already refused an index that the table does not have."""
    record_index = listed(context, snapshot, names.RECORD_INDEX)
    facts = Facts(
        partitioned=snapshot.config.is_partitioned,
        record_index=record_index is not None,
        bucketed=is_bucketed(snapshot),
        groups=sum(len(snapshot.view.slices(partition)) for partition in volumes),
        rows=sum(volume.rows for volume in volumes.values()),
        consistent=has_consistent_hashing(context, snapshot),
    )
    choice = choose(context.options.index, facts)
    by_filter = choice.type in _BY_FILTER
    return ChosenIndex(choice, record_index, listed(context, snapshot, names.BLOOM_FILTERS) if by_filter else None)


def index_of(context: TableContext, indexing: ChosenIndex, snapshot: Snapshot, how: Tagging) -> Index:
    """Return the index that tags the rows of a write to this table."""
    choice, slices, open_storage, tasks = indexing.choice, snapshot.view.slices, how.open_storage, how.tasks
    shares = max(1, min(tasks, how.rows // _SHARE))
    if choice.type is IndexType.BUCKET:

        def file_ids(partition: str) -> list[str]:
            return [piece.file_id for piece in slices(partition)]

        if choice.consistent:
            rings = partial(_ranges, context, snapshot, makes=how.operation is not OperationType.DELETE)
            return ConsistentIndex(hashing_of(context), rings, file_ids, snapshot.visibility.replaced)
        anew = how.operation is OperationType.INSERT_OVERWRITE_TABLE
        replaced = snapshot.visibility.replaced
        return BucketIndex(hashing_of(context), file_ids, replaced, how.operation in OVERWRITING, anew)
    if choice.type is IndexType.RECORD_INDEX:
        assert indexing.record_index is not None
        return RecordIndex(indexing.record_index, slices, open_storage, shares, choice.elsewhere, how.one_row)

    def with_new_keys(piece: FileSlice) -> tuple[LogFile, ...]:
        """Return the logs whose commit inserted rows, or is archived."""
        stats = ((log, snapshot.view.visibility.stat(log.name.requested_time, log.path)) for log in piece.logs)
        return tuple(log for log, stat in stats if stat is None or stat.inserts)

    filters = None if indexing.filters is None else ListedFilters.of(indexing.filters)
    ranges = context.folder.settled_files.key_ranges
    look_up = FileLookUp(choice.type in _BY_FILTER, filters, how.living, snapshot.config, ranges)
    if choice.is_global:
        return TableFilesIndex(snapshot.view.all_slices, open_storage, shares, how.one_row, look_up, with_new_keys)
    return FilesIndex(slices, open_storage, tasks, look_up, with_new_keys, shares)


def _ranges(context: TableContext, snapshot: Snapshot, partition: str, *, makes: bool) -> HashingMetadata | None:
    """Return the hash ranges of a partition as of the snapshot; ``makes`` makes the first ranges if there are none."""
    found = ranges_of(context, snapshot, partition)
    return make(context.storage, partition, hashing_of(context).buckets) if found is None and makes else found


def listed(context: TableContext, snapshot: Snapshot, partition: str) -> MetadataSlices | None:
    """Return a partition of the metadata table that covers the complete table, if this release updates it and it has every commit."""
    if not metadata_update.keeps(snapshot.config) or partition not in snapshot.config.metadata_partitions:
        return None
    metadata = snapshot.metadata
    found = metadata.slices if metadata else MetadataSlices.load(snapshot.timeline, context.folder).of_state()
    if not found.knows(snapshot.timeline.commits) or not metadata_update.has_known_groups(found, partition):
        return None
    return found
