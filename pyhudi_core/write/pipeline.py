"""From prepared rows to written files: tag by the index, profile, plan, route, write.

The second half of every operation that has rows. Nothing here touches the timeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.conflicts.concurrent import pending_plans, planned_first
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.conflicts.early import EarlyCheck, early_check, stopped
from pyhudi_core.engine.base import Dataset, Engine, TaskInfo
from pyhudi_core.errors import EarlyConflictError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.formats.log.changes import ChangeForm
from pyhudi_core.formats.log.writer import BlockFormat
from pyhudi_core.index.base import TAG_FILE_ID, TAG_LEAVES, Group, Tagged
from pyhudi_core.index.choice import IndexType
from pyhudi_core.index.elsewhere import Elsewhere, OneRowAKey
from pyhudi_core.index.moves import Moves
from pyhudi_core.merge.merged_slice import LivingRows, Merging
from pyhudi_core.merge.record_merger import find_merger, ordering_of
from pyhudi_core.model.file_names import new_file_id
from pyhudi_core.model.instant import Action
from pyhudi_core.model.internal_schema import Evolution
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.operation import INSERTING, OVERWRITING, UPDATING, OperationType
from pyhudi_core.model.properties import TableType
from pyhudi_core.model.schema import to_avro
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options import FileOptions, WriteOptions
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.base import Storage
from pyhudi_core.transaction.begin import Transaction, withdraw
from pyhudi_core.write.column_numbers import evolution_after
from pyhudi_core.write.from_source import suits, write_from_source
from pyhudi_core.write.handles.base import (
    HandleSettings,
    KnownKeys,
    LogSettings,
    OpenRuntime,
    PartialRows,
    known_keys,
    runtime_opener,
)
from pyhudi_core.write.indexing import ChosenIndex, Tagging, asks_index, choose_index, index_of
from pyhudi_core.write.non_blocking import begins_with_logs
from pyhudi_core.write.plan import Plan, Planner, Sizing, WorkloadProfile
from pyhudi_core.write.prepare import Prepared
from pyhudi_core.write.tasks import WRITTEN, WriteTask, Written, route


@dataclass(frozen=True, slots=True)
class TaggedRows:
    """Rows with the result of the index, and the input of a plan.

    Attributes:
        indexing: the index; None if no key was looked up.
        planner: plans these rows.
        profile: how many rows go to each destination.
    """

    tagged: Tagged
    indexing: ChosenIndex | None
    planner: Planner
    profile: WorkloadProfile


@dataclass(slots=True)
class WriteJob:
    """The rows of one attempt on top of a snapshot: `tag`, `plan`, `write`. Use it in a ``with`` block, which releases the kept rows.

    ``key_changes``: note changes of keys (`Written.key_changes`).
    """

    operation: OperationType
    engine: Engine
    prepared: Prepared
    snapshot: Snapshot
    transaction: Transaction
    key_changes: bool = False
    _kept: ExitStack = field(default_factory=ExitStack)
    _opener: OpenRuntime | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    @property
    def options(self) -> WriteOptions:
        return self.transaction.context.options

    def tag(self) -> TaggedRows:
        """Look up the locations of the keys in the index, and count. Raises `DuplicateKeyError` for inserts of existing keys."""
        self.snapshot.view.prepare(self.prepared.volumes)
        indexing = self._indexing()
        hashed = indexing is not None and indexing.choice.type is IndexType.BUCKET
        planner = self._planner(hashed=hashed)
        planner.keeps_late_out = self._late_rows(indexing).are_kept_out
        tagging = self._tagging()
        tagged = self._tag(planner, indexing, tagging)
        if tagged.has_tags:
            # The tags are counted, and then used: the look-up runs once.
            tagged = self._persisted(tagged.rows, tagged)
        profile = WorkloadProfile.of(tagged, self.prepared.volumes)
        leaving = self._leaving(profile, indexing)
        if leaving:
            planner.left = leaving if self._moves_inside else frozenset()
            tagged = self._persisted(self._moved(tagged, leaving, indexing, tagging), tagged)
            profile = WorkloadProfile.of(tagged, self.prepared.volumes)
        if self.operation in INSERTING and not hashed:
            self._refuse_existing(profile)
        return TaggedRows(tagged, indexing, planner, profile)

    def plan(self, rows: TaggedRows) -> Plan:
        """Choose a file group for each row. Raises `CommitConflictError` if a planned clustering holds one of them."""
        plan = self._plan(rows.planner, rows.profile)
        self._refuse_planned(plan, rows.planner.busy)
        return plan

    def write(self, rows: TaggedRows, plan: Plan) -> Written:
        """Write the files: each row goes to the task of its file group, which merges it with the stored rows."""
        source = self.prepared.source
        settings = replace(self._settings(rows.indexing), marked_together=plan.only_many_new)
        task = WriteTask(self._open_runtime, settings, self._unique, self.key_changes)
        if source is not None and not rows.tagged.has_tags and suits(plan):
            output = write_from_source(source, plan, self.engine.cores, task)
        else:
            routed = route(rows.tagged.rows, plan, self.engine.cores)
            output = routed.rows.map(task, WRITTEN, routed.buckets)
        try:
            written = Written.collect(output, settings.schema, key_changes=self.key_changes)
        except EarlyConflictError as error:
            context, own = self.transaction.context, self.transaction.requested_time
            raise stopped(context, own, self.operation, error, plan.rewritten_bytes) from None
        finally:
            if not self.key_changes:
                output.release()
        written.index = None if rows.indexing is None else rows.indexing.choice
        if self.key_changes:
            written.kept.push(self._kept.pop_all())
        self._kept.callback(written.release)
        return written

    @property
    def _open_runtime(self) -> OpenRuntime:
        if self._opener is None:
            context = self.transaction.context
            self._opener = runtime_opener(self.engine, context.storage, context.runtime)
        return self._opener

    def _persisted(self, rows: Dataset, tagged: Tagged) -> Tagged:
        """Return the result of an index with these rows, which are computed once."""
        persisted = rows.persist()
        self._kept.callback(persisted.release)
        return Tagged(persisted, tagged.whole)

    def _indexing(self) -> ChosenIndex | None:
        """Return the choice of the index; None if no key is looked up, or if the rows already have tags."""
        tagged = TAG_FILE_ID in self.prepared.rows.schema.names
        if tagged or not asks_index(self.transaction.context, self.operation, self.snapshot):
            return None
        return choose_index(self.transaction.context, self.snapshot, self.prepared.volumes)

    def _tagging(self) -> Tagging:
        """Return the input of the index."""
        config = self.snapshot.config
        ordering = () if self.operation is OperationType.DELETE else ordering_of(config)
        living = LivingRows(Merging(config, self._evolution), with_meta_fields(self.prepared.schema))
        one_row, opener = OneRowAKey(ordering, self._unique), _StorageOpener(self._open_runtime)
        cores, rows = self.engine.cores, self.prepared.total
        return Tagging(opener, cores, one_row, living, self.options.index, self.operation, rows)

    def _may_move(self, indexing: ChosenIndex | None) -> bool:
        """Say whether a row is moved into its own partition if its key is in another one. A delete cannot move."""
        moves = indexing is not None and indexing.choice.elsewhere is Elsewhere.MOVES
        return moves and self.operation is not OperationType.DELETE

    @property
    def _moves_inside(self) -> bool:
        """Say whether updated rows move to another file group of their partition."""
        return self.operation is OperationType.UPSERT and self.options.index.updates_move

    def _leaving(self, profile: WorkloadProfile, indexing: ChosenIndex | None) -> frozenset[Group]:
        """Return the file groups that rows may leave."""
        elsewhere = profile.elsewhere if self._may_move(indexing) else frozenset()
        return elsewhere.union(profile.tagged) if self._moves_inside else elsewhere

    def _moved(
        self, tagged: Tagged, groups: frozenset[Group], indexing: ChosenIndex | None, tagging: Tagging
    ) -> Dataset:
        """Return the tagged rows; rows that move occur twice."""
        slices = [
            piece for path in sorted({p for p, _ in groups}) for piece in self._slices(path) if piece.group in groups
        ]
        tasks = max(1, min(len(slices), tagging.tasks))
        elsewhere, inserts = self._may_move(indexing), self.operation in INSERTING
        moves = Moves(tagging.open_storage, tagging.living, inserts, tasks, elsewhere, self._moves_inside)
        return moves.of(tagged.rows, slices)

    def _tag(self, planner: Planner, indexing: ChosenIndex | None, tagging: Tagging) -> Tagged:
        """Look up the tags in the index. Inserts must know whether a key exists; an upsert of few rows need not, if there is one file group.

        In a merge-on-read table every write must know: only existing keys may go to logs.
        """
        rows, volumes = self.prepared.rows, self.prepared.volumes
        if indexing is None:
            return Tagged(rows)
        everywhere = self.operation in INSERTING or self._merges_on_read or self._moves_inside
        exact = set(volumes) if everywhere else set()
        if self.operation is OperationType.UPSERT and not everywhere:
            exact = {path for path, volume in volumes.items() if not planner.goes_to_one_file(path, volume)}
            exact |= {path for path, _ in planner.busy}  # new keys must not go to a file group that is to be clustered
        tagged = index_of(self.transaction.context, indexing, self.snapshot, tagging).tag(rows, volumes.keys(), exact)
        looked = indexing.choice.type is not IndexType.BUCKET
        if self.operation in INSERTING and self.options.rows.drop_duplicates and tagged.has_tags and looked:
            paths = self.snapshot.view.partitions() if indexing.choice.is_global else volumes
            with_logs = frozenset(piece.file_id for path in paths for piece in self._slices(path) if piece.logs)
            return Tagged(tagged.rows.map(_OnlyNew(with_logs), tagged.rows.schema))
        return tagged

    @property
    def _merges_on_read(self) -> bool:
        return self.snapshot.config.table_type is TableType.MERGE_ON_READ

    def _slices(self, partition: str) -> tuple[FileSlice, ...]:
        return self.snapshot.view.slices(partition)

    def _refuse_existing(self, profile: WorkloadProfile) -> None:
        """Refuse inserts of existing keys. If logs may have deleted a key, the append handle checks it."""
        with_logs = {piece.group for path, _ in profile.tagged for piece in self._slices(path) if piece.logs}
        rows = sum(volume.rows for group, volume in profile.tagged.items() if group not in with_logs)
        if rows:
            raise known_keys(rows, table=self.transaction.context.table)

    def _planner(self, *, hashed: bool) -> Planner:
        files = self.options.files
        sizing = Sizing(files.max_size, files.small_limit, files.record_size_estimate)
        ids = self.transaction.context.runtime.ids
        # A pending compaction rewrites the slices of its plan, so meanwhile no write may rewrite their base files.
        compactions = {Action.COMPACTION, Action.LOGCOMPACTION}
        pending = {instant.action for instant in self.snapshot.timeline.pending}
        busy: frozenset[Group] = frozenset()
        if Action.CLUSTERING in pending:
            plans = pending_plans(self.transaction.context, self.snapshot.timeline)
            busy = busy.union(*(groups for plan, groups in plans if plan.action is Action.CLUSTERING))
        config = self.snapshot.config
        # Beside generated keys a change log would have the rows' numbers in the batch.
        fills = config.populate_meta_fields and not (config.generates_keys and config.cdc_enabled)
        fills = fills and pending.isdisjoint(compactions)
        logs_first = begins_with_logs(self.options, self.operation)

        return Planner(
            sizing, partial(new_file_id, ids.uuid), self._slices, self._merges_on_read, fills, hashed, busy, logs_first
        )

    def _late_rows(self, indexing: ChosenIndex | None) -> LateRows:
        """Return the file groups from which late rows are omitted."""
        index = None if indexing is None else indexing.choice.type
        context, schema = self.transaction.context, self.prepared.schema
        return LateRows.of(context, self.snapshot, schema, index, keeps_keys=self.key_changes)

    def _plan(self, planner: Planner, profile: WorkloadProfile) -> Plan:
        self.snapshot.view.prepare(sorted({partition for partition, _ in profile.tagged}))
        if self.operation is OperationType.DELETE:
            return planner.delete(profile)
        if self.operation in OVERWRITING or self.operation is OperationType.BULK_INSERT:
            return planner.create(profile, measure_files=self.operation not in OVERWRITING)
        return planner.upsert(profile)

    def _refuse_planned(self, plan: Plan, busy: frozenset[Group]) -> None:
        """Raise `CommitConflictError` early if a planned clustering holds file groups that the write would change.

        The commit would be refused anyway. No file is written yet, so the instant is withdrawn, and neither files nor a rollback remain.
        """
        groups = plan.known_groups
        if busy.isdisjoint(groups):
            return
        context, own = self.transaction.context, self.transaction.requested_time
        mine = Touched(groups, frozenset(), operation=self.operation)
        found = planned_first(context, self.snapshot.timeline, own, mine)
        if found is not None:
            withdraw(self.transaction)
            raise found

    @property
    def _unique(self) -> bool:
        """Say whether two rows with one key are an error."""
        if self.operation is OperationType.UPSERT:
            return not self.options.rows.combine_before_upsert
        return self.operation in INSERTING and not self.options.rows.combine_before_insert

    @property
    def _known(self) -> KnownKeys:
        """Return the meaning of rows with an existing key."""
        if self.operation not in INSERTING:
            return KnownKeys.UPDATE
        return KnownKeys.SKIP if self.options.rows.drop_duplicates else KnownKeys.REFUSE

    def _settings(self, indexing: ChosenIndex | None) -> HandleSettings:
        index = None if indexing is None else indexing.choice.type
        config, schema, transaction = self.snapshot.config, self.prepared.schema, self.transaction
        context = transaction.context
        settings = HandleSettings.of(transaction.requested_time, schema, config, self.options.files)
        transaction.tasks_apart = not self.engine.in_process
        deletes = self.operation is OperationType.DELETE
        updates = config.generates_keys and self.operation in UPDATING
        return replace(
            settings,
            generates_keys=settings.generates_keys and not updates,
            known_only=updates and not deletes and TAG_LEAVES not in self.prepared.rows.schema.names,
            ordering=() if deletes else ordering_of(config),
            merger=None if deletes else find_merger(config),
            deletes=deletes,
            salt=context.protections.salt,
            logs=self._log_settings(index) if self._merges_on_read else None,
            partial=self._partial_rows(),
            known=self._known if index is IndexType.BUCKET else KnownKeys.UPDATE,
            changes=self._change_form(),
            evolution=self._evolution,
            early=self._early_check(),
            in_charge=transaction.in_charge,
        )

    def _early_check(self) -> EarlyCheck | None:
        """Return the tasks' check for older writes; None if the option is off."""
        transaction = self.transaction
        if not self.options.conflict.early_detection:
            return None
        return early_check(transaction.context, transaction.start, transaction.requested_time)

    @property
    def _evolution(self) -> Evolution | None:
        """Return the names in older files of the columns after the write."""
        return evolution_after(self.snapshot, self.prepared.schema, self.transaction.requested_time)

    def _partial_rows(self) -> PartialRows | None:
        given, schema = self.prepared.given, self.prepared.schema
        if given is None:
            return None
        columns = pa.schema([schema.field(name) for name in given])
        config = self.snapshot.config
        operation = config.operation_field or self.options.files.operation_field
        avro_schema = to_avro(columns, config.name, meta_fields=True, operation=operation)
        # Release 1.0.2 merges partial rows by event time only, and misreads them if a column marks deletes (decision 0039).
        in_logs = bool(ordering_of(config)) and not config.says_deletes(schema.names)
        return PartialRows(with_meta_fields(columns, operation=operation), avro_schema, in_logs)

    def _change_form(self) -> ChangeForm | None:
        config, schema = self.snapshot.config, self.prepared.schema
        if not config.cdc_enabled:
            return None
        text = to_avro(schema, config.name)
        return ChangeForm(config.cdc_mode, self.transaction.requested_time, schema, text)

    def _log_settings(self, index: IndexType | None) -> LogSettings:
        merging = Merging(self.snapshot.config, self._evolution)
        indexed = index is IndexType.RECORD_INDEX
        form = block_format(self.options.files, self.prepared.schema, merging.ordering)
        return LogSettings(merging, form, self.options.files.record_positions, self._known, indexed)


def block_format(files: FileOptions, schema: pa.Schema, ordering: Sequence[str]) -> BlockFormat:
    """Return the format of data blocks. Release 1.2.0 of Hudi compares text ordering values wrongly if they come from Parquet blocks."""
    texts = any(pa.types.is_string(schema.field(name).type) for name in ordering)
    return BlockFormat(files.log_block_format or (BlockFormat.AVRO if texts else BlockFormat.BY_SIZE))


@dataclass(frozen=True, slots=True)
class _StorageOpener:
    """Opens the table's storage inside a task."""

    open_runtime: OpenRuntime

    def __call__(self) -> Storage:
        return self.open_runtime().storage


@dataclass(frozen=True, slots=True)
class _OnlyNew:
    """Task function: omits rows whose key is in a file group, unless the group's logs may have deleted it (``with_logs``: file ids)."""

    with_logs: frozenset[str]

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        maybe = pa.array(sorted(self.with_logs), pa.string())
        for batch in batches:
            found = batch.column(TAG_FILE_ID)
            yield batch.filter(pc.or_(found.is_null(), pc.is_in(found, value_set=maybe)))


@dataclass(frozen=True, slots=True)
class LateRows:
    """The slices of a snapshot from which a write leaves late rows out: rows that are older than the delete of their key in the logs of the slice.

    Readers do not see such a row until a compaction removes the delete. If the compaction was planned before the row's commit completed, the row's
    log belongs to the later slice, so the row would come back: the compaction would change results, and neither the record index nor a secondary
    index would have the row. To leave such rows out, the write must read the logs of the slice. Therefore a write does so only in these cases
    (decision 0039):

    - in a table with a record index always, because a compaction may be planned after the write began (not if the record
      index itself found the file groups: then the keys have rows, so no delete is their last version);
    - in other tables if a compaction of the file group is pending when the write begins;
    - never if no log of the slice has deletes, according to the commits of the logs, which the write has already read.

    Attributes:
        groups: the file groups for which it matters; None: all.
        counted: the commits count all deletes in logs. Some writers do not count rows with a delete flag, and rows of a merger.
    """

    visibility: Visibility
    groups: frozenset[Group] | None
    counted: bool

    @classmethod
    def of(
        cls, context: TableContext, snapshot: Snapshot, schema: pa.Schema, index: IndexType | None, *, keeps_keys: bool
    ) -> Self:
        """Return the slices for an upsert or an insert. ``index``: the index that found its keys; ``keeps_keys``: the write updates a record
        index.
        """
        config = snapshot.config
        groups: frozenset[Group] | None = frozenset()
        if ordering_of(config) and index is not IndexType.RECORD_INDEX:
            groups = None if keeps_keys else _to_be_compacted(context, snapshot)
        counted = not config.says_deletes(schema.names) and not config.merges_values
        return cls(snapshot.visibility, groups, counted)

    def are_kept_out(self, piece: FileSlice) -> bool:
        """Say whether rows that are older than their deletes are omitted from a slice."""
        if not piece.logs or (self.groups is not None and piece.group not in self.groups):
            return False
        if not self.counted:
            return True
        stats = (self.visibility.stat(log.name.requested_time, log.path) for log in piece.logs)
        return any(stat is None or stat.deletes > 0 for stat in stats)


def _to_be_compacted(context: TableContext, snapshot: Snapshot) -> frozenset[Group]:
    """Return the file groups of pending compactions; the plans are read only if there are any."""
    if not any(instant.action is Action.COMPACTION for instant in snapshot.timeline.pending):
        return frozenset()
    plans = pending_plans(context, snapshot.timeline)
    return frozenset().union(*(named for plan, named in plans if plan.action is Action.COMPACTION))
