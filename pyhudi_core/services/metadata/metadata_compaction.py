"""Compaction of the metadata table: its log files become HFile base files (specification, "Metadata Table").

The metadata table is a separate table, and this is its compaction service: a plan in Hudi's form on its timeline, an executor, and a commit with a
decision like every commit. All file groups with logs are compacted at once, as in Hudi, and after the same number of delta commits
(``hoodie.metadata.compact.max.delta.commits``). Commits to the data table run the compaction when it is due.

A log of the metadata table counts only if its instant has completed in the data table, too (``metadata_table/slices.py``). A base file always counts.
So nothing is planned while an instant that has completed in the metadata table is pending in the data table: a Hudi writer may have died between its
two commits. Requested times are above all times of both timelines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from pyhudi_core.conflicts.concurrent import pending_restores
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile, SlicePiece
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.metadata_table.committed_files import CommittedFiles
from pyhudi_core.metadata_table.compacting import compacted
from pyhudi_core.metadata_table.record_schema import OF_COMMITS
from pyhudi_core.metadata_table.slices import MetadataSlices, everything
from pyhudi_core.model.commit import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName
from pyhudi_core.model.instant import Action
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.compaction.compaction import Compaction, CompactionResult
from pyhudi_core.services.compaction.compaction_plan import CompactionOperation, CompactionPlan
from pyhudi_core.services.compaction.compaction_rules import trigger_of
from pyhudi_core.services.metadata.metadata_upkeep import NONE, AtMetadataTable
from pyhudi_core.services.plan_run import PlanRun
from pyhudi_core.services.progress import Steps
from pyhudi_core.services.service import Execution, Turn
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import markers, plan_executors
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction
from pyhudi_core.transaction.commit import Finished, finish
from pyhudi_core.transaction.layout import INITIAL_INSTANTS
from pyhudi_core.write.handles.new_file import new_token

_DEFAULT_BYTES = 120 << 20


class MetadataCompaction(AtMetadataTable[CompactionPlan, tuple[FileSlice, ...], CompactionResult], Compaction):
    """Compaction of the metadata table of one table. It is made from the data table's context."""

    name = "metadata_compaction"
    summary = "rewrite the log files of the metadata table as base files"
    turns = ("metadata.compact_after",)

    def after_commit(self, turn: Turn) -> bool:
        """Plan a compaction if the metadata table has enough delta commits, or execute the plan."""
        timeline = self.context.folder.latest or self.context.folder.load() if self.exists else Timeline()
        if not self._is_due(timeline, turn):
            return False
        return self._step(turn.engine, timeline, self.data.options.metadata.compact_after) is not None

    def _is_due(self, timeline: Timeline, turn: Turn) -> bool:
        most = self.data.options.metadata.compact_after
        most += turn.waits(most)
        # The commit that was just made is not on the earlier timeline.
        deltas = [i for i in timeline.commits if i.action is Action.DELTACOMMIT]
        return self.exists and len(deltas) + 1 >= most and self._trigger(timeline, most - 1)[0]

    def _trigger(self, timeline: Timeline, most: int) -> tuple[bool, str]:
        options = replace(self.data.options.compaction, trigger="NUM_COMMITS", max_delta_commits=max(1, most))
        found = trigger_of(timeline, options, self.context.now())
        return found.due, found.text

    def _foreseen(self, timeline: Timeline, *, triggered: bool) -> CompactionPlan | None:
        """Return None if the trigger is reached: then only the plan after the reservation counts."""
        due = triggered and self.exists and self._trigger(timeline, self.data.options.metadata.compact_after)[0]
        return None if due else self._planned(timeline, triggered=triggered)

    def _planned(self, timeline: Timeline, *, triggered: bool) -> CompactionPlan:
        if not self.exists:
            return CompactionPlan(why_not=NONE)
        due, text = self._trigger(timeline, self.data.options.metadata.compact_after)
        if triggered and not due:
            return CompactionPlan(why_not=text)
        data = self.data.folder.load()
        config = reopened(self.data).config  # another process may have added a partition since this service was made
        building = ", ".join(config.metadata_partitions_inflight)
        why_not = f"another process builds {building}" if building else _why_not(timeline, data)
        if why_not:
            return CompactionPlan(why_not=why_not)
        committed = CommittedFiles(self.context.folder, self.data.folder)
        slices = MetadataSlices(self.context.root, timeline, data, committed=committed).as_planned()
        found = [
            CompactionOperation(_file_slice(partition, piece), _DEFAULT_BYTES)
            for partition in sorted(config.metadata_partitions)
            for piece in slices.pieces(partition)
            if piece.logs
        ]
        return CompactionPlan(tuple(found), "" if found else "no file group has log files", text, due)

    def _run_plan(self, transaction: Transaction, work: tuple[FileSlice, ...], how: Execution) -> CompactionResult:
        finished, commit = _Run(transaction, work, how, self.data).run()
        return CompactionResult.of(finished, commit, transaction.token)


def _why_not(own: Timeline, data: Timeline) -> str:
    """Say why nothing may be compacted now; empty if it may."""
    if any(i.action is Action.COMPACTION for i in own.pending):
        return "a compaction of the metadata table is planned already"
    if any(i.action is Action.LOGCOMPACTION for i in own.pending):
        return "a log compaction of the metadata table is planned"
    if pending_restores(data):
        return "a restore is pending, so the content of the table is not known"
    done = {i.requested_time for i in own.completed}
    for instant in data.pending:
        if instant.requested_time in done:
            return f"{instant.requested_time} has completed in the metadata table and is pending in the table"
    return ""


def _file_slice(partition: str, piece: SlicePiece) -> FileSlice:
    """Return a slice with paths relative to the metadata table."""
    base = None if piece.base is None else replace(piece.base, partition=partition)
    return FileSlice(base, None, tuple(replace(log, partition=partition) for log in piece.logs))


@dataclass(slots=True)
class _Run(PlanRun[tuple[FileSlice, ...], tuple[Finished, CommitMetadata]]):
    """One execution of a plan; ``data`` is the data table, ``known`` are the partitions to write."""

    data: TableContext
    known: frozenset[str] = frozenset()

    def _carry_out(self) -> tuple[Finished, CommitMetadata]:
        transaction = self.transaction
        context = transaction.context
        own, data = context.folder.load(), self.data.folder.load()
        reader = MetadataSlices(context.root, own, data)
        self.known = self._unchanged(own)
        work = [piece for piece in self.work if piece.partition in self.known]
        steps = Steps(self.how.progress, "rewrite file groups", len(work))
        steps.begin()
        written = context.runtime.executor.map(partial(self._rewrite, reader, steps), work)
        stats = tuple(stat for stat in written if stat is not None)
        schema = OF_COMMITS[context.config.index_version]
        extra = {**self.how.extra_metadata, SCHEMA_KEY: schema, TOKEN_KEY: transaction.token}
        commit = CommitMetadata(str(OperationType.COMPACT), stats, extra)
        record = commit.to_avro(Action.COMMIT)
        body = encode_record("HoodieCommitMetadata", record, sync_marker=transaction.sync_marker)
        plan_executors.refuse_overtaken(transaction)
        return finish(transaction, lambda _notes: body, self._check, self.how.gate), commit

    def _unchanged(self, own: Timeline) -> frozenset[str]:
        """Return the plan's partitions that were neither dropped nor built again since the plan. A rebuilt partition has the same file ids."""
        listed = {*reopened(self.data).config.written_metadata_partitions}
        built = [
            i
            for i in own.completed
            if i.requested_time.startswith(INITIAL_INSTANTS)
            and (i.completion_time or "") > self.transaction.requested_time
        ]
        again = {stat.partition for i in built for stat in self.transaction.context.folder.read_commit(i).stats}
        return frozenset(piece.partition for piece in self.work if piece.partition in listed - again)

    def _check(self, found: Timeline) -> None:
        plan_executors.refuse_overtaken(self.transaction)
        if self._unchanged(found) != self.known:
            raise CommitConflictError(
                "An index was dropped or built while the metadata table was compacted",
                table=self.data.table,
                instant=self.transaction.requested_time,
                hint="Nothing was published; the plan stays, and the next execution leaves that index out.",
            )

    def _rewrite(self, reader: MetadataSlices, steps: Steps, piece: FileSlice) -> WriteStat | None:
        made = self._rewritten(reader, piece)
        steps.add()
        return made

    def _rewritten(self, reader: MetadataSlices, piece: FileSlice) -> WriteStat | None:
        """Write the base file of one slice, with its marker; none if the slice has no entries."""
        context, time = self.transaction.context, self.transaction.requested_time
        made = compacted(piece.partition, reader.arrivals(_from_root(context, piece), everything))
        if not len(made):
            return None
        token = new_token(0, context.runtime.ids, of=plan_executors.salt_of(self.transaction.nonce))
        name = BaseFileName(piece.file_id, token, time, "hfile")
        path = f"{piece.partition}/{name}"
        markers.create(context.storage, time, path, "MERGE" if piece.base is not None else "CREATE")
        size = context.storage.put(path, made.to_hfile()).size
        return WriteStat(
            piece.file_id,
            path,
            piece.partition,
            prev_commit="null" if piece.base is None else piece.base.name.requested_time,
            prev_base_file=None if piece.base is None else str(piece.base.name),
            rows=len(made),
            inserts=len(made),
            size=size,
            merged_logs=len(piece.logs),
            merged_bytes=sum(log.size for log in piece.logs),
            merged_entries=made.entries,
        )


def _from_root(place: TableContext, piece: FileSlice) -> SlicePiece:
    """Return the slice with paths from the root, as the reader of the metadata table expects them."""
    folder = place.from_root(piece.partition)
    base = None if piece.base is None else BaseFile(folder, piece.base.name, piece.base.size)
    return SlicePiece(piece.requested_time, base, [LogFile(folder, log.name, log.size) for log in piece.logs])
