"""The first files of the metadata table's partitions, from one state of a table (`write.metadata_build` makes the decision).

Small data is read here: the list of files, and the footers for statistics. Keys and filters are read and sorted by tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyhudi_core.engine.base import Engine
from pyhudi_core.file_groups.listing import StorageListing
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.bloom_filters import BloomFilterIndex
from pyhudi_core.metadata_table.changes import CommitChanges, records_of
from pyhudi_core.metadata_table.defined_indexes import file_index
from pyhudi_core.metadata_table.file_entries import GroupEntries
from pyhudi_core.metadata_table.first_records import ExistingTable
from pyhudi_core.metadata_table.index_definitions import IndexDefinition
from pyhudi_core.metadata_table.new_metadata_table import FirstBuild, FirstFile
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.write.first_metadata.metadata_staging import Moved, StagedBuild, Staging
from pyhudi_core.write.first_metadata.record_index_build import built_index
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.metadata_part.file_indexes import built_files


@dataclass(slots=True)
class FirstFiles:
    """Stages the first files of the partitions ``built``, from the state in ``snapshot``. ``definitions``: the definitions of users' indexes, by
    partition.
    """

    transaction: Transaction
    snapshot: Snapshot
    engine: Engine
    staging: Staging
    definitions: Mapping[str, IndexDefinition]
    built: Collection[str]
    _changes: CommitChanges | None = field(default=None, init=False)

    def staged(self, first: FirstBuild) -> StagedBuild:
        """Stage all files of one partition. Raises as `built_index`."""
        base = self._base_files(first)
        files = (*(Moved(file.path, file.staged) for file in base), *_files_of_groups(self.staging, first))
        return StagedBuild(first, files, self.staging.later(first.completed_body(base)))

    def staged_base(self, first: FirstBuild) -> StagedBuild:
        """Stage only the base files, for existing file groups. Raises as `built_index`."""
        base, nothing = self._base_files(first), self.staging.nothing()
        files = [Moved(file.path, file.staged) for file in base]
        files += [Moved(path, nothing) for path in first.pending_paths()]
        return StagedBuild(first, tuple(files), self.staging.later(first.completed_body(base, logs=False)))

    def _base_files(self, first: FirstBuild) -> list[FirstFile]:
        transaction, snapshot, prefix = self.transaction, self.snapshot, self.staging.prefix
        if first.partition == names.RECORD_INDEX:
            return built_index(transaction, snapshot, first, self.engine, prefix)
        if first.partition == names.BLOOM_FILTERS:
            return built_files(transaction, BloomFilterIndex(), self._files(), first, self.engine, prefix)
        if first.partition in self.definitions:
            table = metadata_update.indexed_table(transaction.context, snapshot, snapshot.schema)
            index = file_index(self.definitions[first.partition], table)
            every = self._slices() if index.of_slices else self._files()
            return built_files(transaction, index, every, first, self.engine, prefix)
        records = records_of(self._known(), first.partition)
        return [file.at(self.staging.later(file.data)) for file in first.base_files(records)]

    def _files(self) -> list[GroupEntries]:
        """Return all files of the table as new files."""
        return [GroupEntries(stat.partition, (stat.path,)) for stat in self._existing().files()]

    def _slices(self) -> list[GroupEntries]:
        """Return all file groups of the table as new file groups."""
        return [GroupEntries(piece.partition, (), None, piece) for piece in self.snapshot.view.all_slices()]

    def _known(self) -> CommitChanges:
        """Return all files with the ranges of their columns, which are read once."""
        if self._changes is None:
            form = metadata_update.statistics_form(self.transaction.context, self.built)
            self._changes = self._existing().changes(form)
        return self._changes

    def _existing(self) -> ExistingTable:
        context, snapshot = self.transaction.context, self.snapshot
        executor = context.runtime.executor
        listing = StorageListing(context.storage, context.config.is_partitioned, executor)
        return ExistingTable(
            context.storage, listing, snapshot.visibility, snapshot.schema, executor, snapshot.evolution
        )


def staged_groups(staging: Staging, first: FirstBuild) -> StagedBuild:
    """Stage the files that make the file groups of a partition: its metafile, and for each group a log without records."""
    return StagedBuild(first, _files_of_groups(staging, first), staging.later(first.completed_body(())))


def _files_of_groups(staging: Staging, first: FirstBuild) -> tuple[Moved, ...]:
    log, nothing = staging.later(first.first_log()), staging.nothing()
    logs = (Moved(path, log) for path in first.log_paths())
    return staging.put(*first.metafile()), *logs, *(Moved(path, nothing) for path in first.pending_paths())
