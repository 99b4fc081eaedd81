"""The metadata table's part of a write: its log files are written and its commit is staged, before the lock (specification, "Metadata Table").

Every partition that the table lists, or that an indexing is building, gets the changes of the commit. If a partition cannot be updated, the write is
refused before it writes a file, unless the option ``pyhudi.metadata.remove_unkept`` allows it to remove the metadata table
(`transaction.metadata_removal`). One decision publishes both commits (`transaction.companion`).

If a write changes the type of a column, its statistics would have bounds of two types, which Hudi cannot compare. If the metadata table has only
listing and statistics, the commit removes it, and `services.after_commit` makes it again. If the metadata table has other indexes, the write is
refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi_core.engine.base import Engine
from pyhudi_core.engine.choice import engine_for
from pyhudi_core.errors import (
    CommitConflictError,
    CorruptionError,
    ObjectNotFoundError,
    at_table,
)
from pyhudi_core.merge.merged_slice import Merging
from pyhudi_core.metadata_table import column_statistics, defined_indexes, file_groups, names
from pyhudi_core.metadata_table.bloom_filters import BloomFilterIndex
from pyhudi_core.metadata_table.changes import CommitChanges, records_of
from pyhudi_core.metadata_table.column_statistics import StatisticsForm
from pyhudi_core.metadata_table.defined_indexes import IndexedTable
from pyhudi_core.metadata_table.file_entries import FileIndex
from pyhudi_core.metadata_table.file_groups import OPERATION, LogWriting, NewLog, commit_of
from pyhudi_core.metadata_table.index_definitions import IndexDefinition, read_definitions, statistics_version
from pyhudi_core.metadata_table.records import Records
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.instant import Action, epoch_ms
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import V2, TableConfig
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.companion import CompanionCommit, begin_companion
from pyhudi_core.write.handles.new_file import new_token
from pyhudi_core.write.metadata_part.file_indexes import FileIndexUpdate, changes_of
from pyhudi_core.write.metadata_part.record_index_update import RecordIndexUpdate
from pyhudi_core.write.refusals import Case, at_begin
from pyhudi_core.write.tasks import Written

_HELD = 16 << 20
"""On a network storage, the maximum bytes of log files that stay in memory until the commit is checked."""
_VERSION = 2
"""The version in the names of these log files. The record index writes log files before them, with version 1."""
_OF_CLEANS = frozenset({names.FILES, names.COLUMN_STATS, names.BLOOM_FILTERS})
"""The partitions that a clean changes. No other partition names files of older slices."""
_KEEPING_ROWS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
_STATISTICS = {names.COLUMN_STATS, names.PARTITION_STATS}


def why_unkept(config: TableConfig, partitions: Collection[str] | None = None) -> str:
    """Say why this release cannot update the table's metadata table; empty if it can, or if the table has none.

    ``partitions``: partitions to assume in place of the listed ones.
    """
    listed = {*(config.metadata_partitions if partitions is None else partitions)}
    building = config.metadata_partitions_inflight
    unknown = sorted(name for name in {*listed, *building} if not defined_indexes.is_kept(name))
    if unknown:
        return f"it has {_listed(unknown)}, which this release does not write"
    unsure = sorted({*listed, *building} - names.SAME_FORM) if config.bootstrap_base_path else []
    if unsure:
        return f"it has {_listed(unsure)}, and the values of a bootstrapped table's rows are in files outside of it"
    if building and not listed:
        return f"its {_listed(building)} is being built by another process"
    if listed and names.FILES not in listed:
        return "it has no list of files"
    return next(filter(None, (defined_indexes.why_unlisted(name, listed) for name in sorted(listed))), "")


def keeps(config: TableConfig) -> bool:
    """Say whether a table lists a metadata table, and this release updates each of its partitions."""
    return bool(config.metadata_partitions) and not why_unkept(config)


def needs_keys(config: TableConfig) -> bool:
    """Say whether a write must return the added and removed keys."""
    return keeps(config) and names.RECORD_INDEX in config.written_metadata_partitions


def why_unkept_now(context: TableContext) -> str:
    """Say why this release cannot update the metadata table, as `why_unkept`; missing files are also a reason.

    Raises `CommitConflictError` if another process has dropped the metadata table since the table was opened.
    """
    why = why_unkept(context.config)
    if not why and context.config.metadata_partitions and _place_of(context) is None:
        refuse_changed(context)
        why = "its files are missing, or cannot be read"
    return why


def slices_to_keep(
    context: TableContext,
    snapshot: Snapshot,
    schema: pa.Schema,
    operation: OperationType,
    *,
    removes: bool = False,
) -> MetadataSlices | None:
    """Return the file groups of the metadata table, for an operation that starts from this snapshot and results in this schema.

    Return None if there is nothing to update. Raise the errors of `refusals.at_begin` if the metadata table is outdated, or has an index that does
    not fit the table. Raise `CommitConflictError` if another process has dropped a part of the metadata table.
    """
    if _place_of(context) is None or not keeps(context.config):
        return None
    # The timeline of the metadata table is read after the data table's. So it has every known commit, unless a writer ignored the metadata table.
    read = snapshot.metadata
    slices = MetadataSlices.load(snapshot.timeline, context.folder) if read is None else read.slices
    why = _why_outdated(slices, snapshot, schema) or why_undefined(context, schema)
    if why:
        refuse_changed(context)
    case = Case(operation=operation, table=context.table, config=context.config, options=context.options)
    at_begin(replace(case, outdated=why, removes=removes))
    return None if why else slices


def replaces_statistics(config: TableConfig, before: pa.Schema, after: pa.Schema) -> bool:
    """Say whether a write with this change of the schema replaces the metadata table: the types of columns with statistics change, and the metadata
    table has no other index.

    The statistics would have bounds of two types. So the decision of the commit removes such a metadata table, and a later step makes it again.
    """
    listed = {*config.metadata_partitions}
    only = listed <= {names.FILES, *_STATISTICS} and not config.metadata_partitions_inflight
    return only and bool(listed & _STATISTICS) and bool(_widened(config, before, after))


def why_undefined(
    context: TableContext,
    schema: pa.Schema,
    partitions: Collection[str] | None = None,
    added: Sequence[IndexDefinition] = (),
) -> str:
    """Say why an index of users cannot be updated in a table with this schema; empty if all indexes can be updated.

    ``partitions``: partitions to assume in the metadata table; ``added``: definitions to assume.
    """
    listed = context.config.written_metadata_partitions if partitions is None else partitions
    table = IndexedTable(Merging(context.config), schema, context.options.index.in_utc)
    found = definitions_of(context, listed) | {item.name: item for item in added}
    return next(filter(None, (defined_indexes.why_not(name, found, table) for name in listed)), "")


def why_undefined_now(context: TableContext, schema: pa.Schema) -> str:
    """Say why an index of users cannot be updated, as `why_undefined`. Read the table again before such an answer: a drop may have been published."""
    return why_undefined(context, schema) and why_undefined(reopened(context), schema)


def indexed_table(context: TableContext, snapshot: Snapshot, schema: pa.Schema) -> IndexedTable:
    """Return the facts that indexes need about a table with this schema."""
    return IndexedTable(Merging(snapshot.config, snapshot.evolution), schema, context.options.index.in_utc)


def definitions_of(context: TableContext, partitions: Collection[str]) -> dict[str, IndexDefinition]:
    """Return the definitions of users' indexes, by partition of the metadata table. Reads nothing if these partitions have no definitions."""
    if not any(map(defined_indexes.kind_of, partitions)):
        return {}
    found = read_definitions(context.storage, context.config.index_defs_path)
    return {item.name: item for item in found if defined_indexes.kind_of(item.name) is not None}


def statistics_form(context: TableContext, built: Collection[str] = ()) -> StatisticsForm:
    """Return the form of the statistics of columns and partitions, as in their definition. ``built``: partitions that are made now."""
    version = context.config.index_version
    if (
        version == V2
        and names.COLUMN_STATS not in built
        and _STATISTICS & {*context.config.written_metadata_partitions}
    ):
        version = statistics_version(read_definitions(context.storage, context.config.index_defs_path))
    return column_statistics.form_of(version)


def _listed_definitions(context: TableContext, partitions: Sequence[str]) -> list[IndexDefinition]:
    """Return the definitions of these partitions that users made. Raises `CommitConflictError` if another process dropped one since the write
    began.
    """
    found = definitions_of(context, partitions)
    defined = [name for name in partitions if defined_indexes.kind_of(name) is not None]
    if missing := [name for name in defined if name not in found]:
        refuse_changed(context)
        raise CorruptionError(
            f"The table lists {_listed(missing)}, but its index definitions do not have it",
            table=context.table,
            path=context.config.index_defs_path,
            hint="Nothing was published. `pyhudi check LOCATION` shows whether the definitions can be read.",
        )
    return [found[name] for name in defined]


def refuse_changed(context: TableContext) -> None:
    """Raise `CommitConflictError` if the table now lists other partitions: another process built or dropped some, or a decision was published."""
    if reopened(context).config.written_metadata_partitions != context.config.written_metadata_partitions:
        raise CommitConflictError(
            "The metadata table was made or removed while this write began",
            table=context.table,
            path=names.FOLDER,
            hint="Nothing was published. Run the write or the service again.",
        )


def _why_outdated(slices: MetadataSlices, snapshot: Snapshot, schema: pa.Schema) -> str:
    partitions = snapshot.config.written_metadata_partitions
    if not slices.knows(snapshot.timeline.commits):
        return "it is out of date: another writer committed without it"
    try:
        slices.prepare({*snapshot.config.metadata_partitions_inflight, *partitions})
        building = [name for name in snapshot.config.metadata_partitions_inflight if not slices.pieces_to_write(name)]
        other = [partition for partition in partitions if not has_known_groups(slices, partition)]
    except CorruptionError as error:
        return f"it is damaged ({error.path}): {error.message}"
    if building:
        return f"its {_listed(building)} is being built by another program, and has no file groups yet"
    if other:
        return f"the file groups of its {_listed(other)} have a form that this release does not write"
    if (widened := _widened(snapshot.config, snapshot.schema, schema)) and _STATISTICS & {*partitions}:
        return f"it has statistics of {_listed(widened)}, whose type this write changes, and Hudi cannot compare bounds of two types"
    return ""


@dataclass(slots=True)
class MetadataPart:
    """The metadata table's part of one commit; empty until `announce`."""

    companion: CompanionCommit | None = None

    def announce(self, transaction: Transaction, slices: MetadataSlices) -> CompanionCommit:
        """Announce the instant of this part, unless it is announced. A rollback of the write also removes this instant
        (`markers.remove_at_companions`).
        """
        if self.companion is None:
            place = _place_of(transaction.context)
            assert place is not None, "there are slices of a metadata table"
            self.companion = begin_companion(transaction, place, OPERATION, slices.own)
        return self.companion


def stage(
    transaction: Transaction,
    slices: MetadataSlices | None,
    snapshot: Snapshot,
    written: Written | None,
    replaced: Mapping[str, Sequence[str]],
    schema: pa.Schema,
    engine: Engine | None,
    begun: MetadataPart | None = None,
) -> tuple[CompanionCommit, ...]:
    """Write and stage the metadata table's part of a write, if there is one (``slices``). Arguments as in `_MetadataUpdate`; releases ``written``.

    On a network storage, small files are written later, together with the other files of the commit (`CompanionCommit.write`).
    """
    written = written or Written.nothing(schema)
    try:
        if slices is None:
            return ()
        with at_table(transaction.context.table):
            update = _MetadataUpdate(transaction, slices, snapshot, written, replaced, schema, engine)
            return (update.stage(begun or MetadataPart()),)
    except (ObjectNotFoundError, CorruptionError):
        refuse_changed(transaction.context)  # an index was dropped while this write read it
        raise
    finally:
        written.release()


def stage_removed(
    transaction: Transaction, slices: MetadataSlices | None, removed: Mapping[str, Sequence[str]], snapshot: Snapshot
) -> tuple[CompanionCommit, ...]:
    """Write and stage the metadata table's part of a clean, if there is one (``slices``).

    Args:
        removed: names of deleted files, by partition path.
        snapshot: the table's newest state.
    """
    if slices is None:
        return ()
    schema = snapshot.schema
    with at_table(transaction.context.table):
        update = _MetadataUpdate(transaction, slices, snapshot, Written.nothing(schema), {}, schema, None, removed)
        return (update.stage(MetadataPart()),)


@dataclass(frozen=True, slots=True)
class _MetadataUpdate:
    """The changes of a write, for the metadata table.

    Attributes:
        transaction: the transaction of the write.
        slices: the file groups of the metadata table.
        snapshot: the state from which the write started.
        written: the files of the write, and the dataset of changed keys if `needs_keys`.
        replaced: file ids of replaced file groups by partition path.
        schema: the columns of the table after the write, without meta columns.
        engine: the engine that wrote; None if no file was written.
        removed: for a clean: names of files that it deleted, by partition path. A clean changes the lists of files and their statistics, but no key.
    """

    transaction: Transaction
    slices: MetadataSlices
    snapshot: Snapshot
    written: Written
    replaced: Mapping[str, Sequence[str]]
    schema: pa.Schema
    engine: Engine | None
    removed: Mapping[str, Sequence[str]] | None = None

    def stage(self, begun: MetadataPart) -> CompanionCommit:
        """Write and stage the metadata table's commit."""
        place = _place_of(self.transaction.context)
        assert place is not None, "there are slices of a metadata table"
        partitions = self.transaction.context.config.written_metadata_partitions
        companion = begun.announce(self.transaction, self.slices)
        changes = self._changes()
        stats: list[WriteStat] = []
        logs: list[NewLog] = []
        defined = self._defined()
        cleans = self.removed is not None
        ready = {} if cleans else self._ready(changes, [name for name in partitions if name not in defined])
        for partition in partitions:
            if cleans:
                logs += self._without_files(place, partition, changes)
            elif partition == names.RECORD_INDEX:
                stats += self._index(place).write(self.engine)
            elif partition == names.BLOOM_FILTERS:
                stats += self._from_files(place, BloomFilterIndex())
            elif partition in defined:
                stats += self._from_files(place, defined[partition])
            elif defined_indexes.kind_of(partition) is not None:
                continue  # a service that keeps all rows does not change such an index
            else:
                logs += self._logs(place, partition, ready[partition])
        bases = {name: self.slices.base_times(name) for name in partitions}
        companion.has_markers = bool(stats) or any(log.writing.announces for log in logs)
        commit = commit_of([*stats, *(log.stat for log in logs)], place.config.index_version)
        companion.stage(commit, bases, [log.write for log in logs])
        on_network = place.storage.capabilities.parallel_calls > 1
        if not on_network or sum(len(log.data) for log in logs) > _HELD:
            companion.write()
        return companion

    def _ready(self, changes: CommitChanges, partitions: Sequence[str]) -> dict[str, Records]:
        """Return the encoded records of the partitions that are written here, without the partitions that tasks write."""
        by_tasks = {names.RECORD_INDEX, names.BLOOM_FILTERS}
        here = [name for name in partitions if name not in by_tasks and defined_indexes.kind_of(name) is None]
        return dict(zip(here, Records.encoded_together([records_of(changes, name) for name in here]), strict=True))

    def _index(self, place: TableContext) -> RecordIndexUpdate:
        return RecordIndexUpdate(
            self.transaction, place, self.slices, self.snapshot, self.written, self.replaced, self._instant_ms
        )

    def _without_files(self, place: TableContext, partition: str, changes: CommitChanges) -> Iterable[NewLog]:
        """Return the log files of one partition after files were deleted."""
        if partition in _OF_CLEANS:
            return self._logs(place, partition, records_of(changes, partition))
        kind = defined_indexes.kind_of(partition)
        if kind is None or kind.removed is None:
            return ()
        [definition] = _listed_definitions(self.transaction.context, [partition])
        return self._logs(place, partition, kind.removed(definition, self.removed or {}))

    def _defined(self) -> dict[str, FileIndex]:
        """Return the users' indexes that this commit changes, by partition of the metadata table."""
        context, action = self.transaction.context, self.transaction.requested.action
        table = indexed_table(context, self.snapshot, self.schema)
        listed = () if self.removed is not None else context.config.written_metadata_partitions
        indexes = [defined_indexes.file_index(item, table) for item in _listed_definitions(context, listed)]
        return {index.partition: index for index in indexes if not (index.of_slices and action in _KEEPING_ROWS)}

    def _from_files(self, place: TableContext, index: FileIndex) -> list[WriteStat]:
        """Write the log files of an index that is made from the written files."""
        context = self.transaction.context
        groups, salt = len(self.slices.pieces_to_write(index.partition)), plan_executors.salt_of(self.transaction.nonce)
        update = FileIndexUpdate(self.transaction, place.prefix, index, groups, salt)
        changes = changes_of(self.snapshot, self.written.stats, self.replaced, self.written.holders)
        return update.write(self.engine or engine_for(None, context.runtime.executor), changes)

    def _changes(self) -> CommitChanges:
        ranges = column_statistics.with_unknown(self.written.ranges, [stat.path for stat in self.written.stats])
        form = statistics_form(self.transaction.context)
        columns = form.indexed_columns(self.schema)
        removed = self.removed or {}
        return CommitChanges(self.written.stats, ranges, self._instant_ms, columns, removed=removed, form=form)

    @property
    def _instant_ms(self) -> int:
        context = self.transaction.context
        return epoch_ms(self.transaction.requested_time, utc=context.utc) or context.runtime.clock.now_ms()

    def _logs(self, place: TableContext, partition: str, records: Records) -> Iterator[NewLog]:
        """Yield the log files of one partition that are written here."""
        # The salt gives the files of two executions of one plan different names.
        salt = plan_executors.salt_of(self.transaction.nonce)
        token = new_token(0, self.transaction.context.runtime.ids, of=salt)
        # Only a plan may have two executions at one time. One of them abandons its files.
        planned = self.transaction.requested.action in plan_executors.PLANNED
        writing = LogWriting(place.storage, self.transaction.requested_time, token, announces=planned)
        for number, inside in file_groups.split(records, len(self.slices.pieces_to_write(partition))):
            yield writing.made(partition, number, _VERSION, inside)


def _place_of(context: TableContext) -> TableContext | None:
    return next((place for place in context.companions if place.prefix == names.FOLDER), None)


def _widened(config: TableConfig, before: pa.Schema, after: pa.Schema) -> list[str]:
    """Return the columns with statistics whose type changes."""
    form = column_statistics.form_of(config.index_version)
    kept = [field for field in after if field.name in before.names and form.kind_of(field.type) is not None]
    return [field.name for field in kept if before.field(field.name).type != field.type]


def _listed(found: Sequence[str]) -> str:
    return ", ".join(found)


def has_known_groups(slices: MetadataSlices, partition: str) -> bool:
    """Say whether the file groups of a partition have the names that this package writes to. The groups of a record index by partition have other
    names.
    """
    found = [piece.file_id for piece in slices.pieces_to_write(partition)]
    return bool(found) and found == [file_groups.file_id(partition, number) for number in range(len(found))]
