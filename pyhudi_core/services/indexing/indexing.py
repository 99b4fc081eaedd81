"""Indexing: partitions of the metadata table are built while writers write (specification, "Indexing").

``plan`` returns the partitions that would be built, ``schedule`` puts the plan on the timeline, and ``execute`` builds the partitions. Any process
may execute the plan. The plan and the completed instant are Hudi's records. Readers use a partition only when it is complete.

While partitions are being built, they are listed in ``hoodie.table.metadata.partitions.inflight``, and every commit writes to them. Writers do not
wait, but a write that began before is planned again. `cancel` removes a plan, and the partitions that were built for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pyhudi_core.errors import CommitAbortedError, DuplicateKeyError
from pyhudi_core.metadata_table.defined_indexes import kind_of
from pyhudi_core.metadata_table.index_definitions import IndexDefinition, changed_definitions, read_definitions
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.properties import INDEX_DEFINITIONS
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.indexing.indexes_to_build import of_table, outdating, pending_partitions, plan_indexing
from pyhudi_core.services.indexing.indexing_decisions import IndexingDecisions
from pyhudi_core.services.indexing.indexing_execution import Indexed, IndexingRun
from pyhudi_core.services.indexing.indexing_plan import IndexingPlan, IndexingWork, decode
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.planned_service import PlannedResult, PlannedService
from pyhudi_core.services.progress import ServiceProgress
from pyhudi_core.services.service import Execution
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, plan_executors
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.transaction.decision import OutcomeUnknown, StagedIntent, decide
from pyhudi_core.transaction.instant_removal import remove_instant
from pyhudi_core.transaction.plan_executors import Refusal
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import deciding, reserved_intent, sweep_reservation
from pyhudi_core.write.first_metadata.metadata_build import definitions_now
from pyhudi_core.write.first_metadata.metadata_staging import Staging
from pyhudi_core.write.retrying import Retries


@dataclass(frozen=True, slots=True)
class IndexingResult(PlannedResult):
    """The result of indexing. ``instants`` are the completed indexings; a table without a commit is indexed without an instant.

    Attributes:
        partitions: number of partitions of the metadata table that were built.
        file_groups: number of their file groups.
        names: the names of the partitions.
    """

    service: ClassVar[str] = "indexing"
    partitions: int = 0
    file_groups: int = 0
    names: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether an index was built, or an indexing was completed."""
        return bool(self.instants or self.names)

    def and_then(self, later: IndexingResult) -> IndexingResult:
        """Return the sum of both results, with the partitions of both."""
        return replace(PlannedResult.and_then(self, later), names=tuple(dict.fromkeys((*self.names, *later.names))))

    @classmethod
    def of(cls, done: Indexed) -> IndexingResult:
        """Return the result of one execution."""
        return cls((done.instant,), "", len(done.groups), sum(done.groups.values()), tuple(done.groups))


class Indexing(PlannedService[IndexingPlan, IndexingWork, IndexingResult]):
    """Indexing of one table.

    ``asked``: the partitions to plan; None for the partitions that the options name. ``definitions``: definitions of new indexes on columns.
    """

    name = "indexing"
    summary = "build indexes of the metadata table, while writers write"
    action = Action.INDEXING
    noun = "indexing"

    def __init__(
        self, context: TableContext, asked: Sequence[str] | None = None, definitions: Sequence[IndexDefinition] = ()
    ) -> None:
        super().__init__(context)
        self.asked = asked
        self.definitions = tuple(definitions)

    def plan(self, partitions: Sequence[str] | None = None, *, triggered: bool = False) -> IndexingPlan:
        """Return what `schedule` would plan now. ``partitions``: such as ``["record_index"]``; None for the partitions that the options name."""
        if partitions is not None:
            return Indexing(self.context, partitions).plan()
        return of_table(self.context, super().plan(triggered=triggered))

    def schedule(self, partitions: Sequence[str] | None = None, *, triggered: bool = False) -> Instant | None:
        """Put a plan on the timeline; None if there is nothing to build.

        Raises `InvalidOptionError` for partitions that this service does not build.
        """
        if partitions is not None:
            return Indexing(self.context, partitions).schedule()
        return super().schedule(triggered=triggered)

    def run(
        self,
        spark: Any = None,
        gate: Gate | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        partitions: Sequence[str] | None = None,
        *,
        progress: ServiceProgress | None = None,
    ) -> IndexingResult:
        """Execute pending plans that no process executes; then plan and build ``partitions`` (None: the partitions that the options name)."""
        if partitions is not None:
            return Indexing(self.context, partitions).run(spark, gate, extra_metadata, progress=progress)
        return super().run(spark, gate, extra_metadata, progress=progress)

    def cancel(self, instant: Instant | str) -> bool:
        """Remove a plan, and what its executor has built. Returns False if the plan is not pending (any more).

        Raises `CommitAbortedError` if a process executes the plan, and `InvalidOptionError` if the instant is not an indexing.
        """
        time = self._time_of(instant)
        assert time is not None, "an instant was given"
        pending = next((found for found in self._pending() if found.requested_time == time), None)
        return pending is not None and cancel_plan(self.context, pending, self._read(pending))

    def _planned(self, timeline: Timeline, *, triggered: bool) -> IndexingPlan:
        return plan_indexing(self.context, timeline, self.asked, self.definitions)

    def _published_before(self, transaction: Transaction, plan: IndexingPlan) -> Sequence[Publication]:
        return published_with_plan(transaction, plan.definitions)

    def _outdating(self, transaction: Transaction, plan: IndexingPlan) -> Outdating:
        return outdating(transaction, plan)

    def _decode(self, data: bytes, path: str) -> IndexingWork:
        return decode(data, path)

    def _run_plan(self, transaction: Transaction, work: IndexingWork, how: Execution) -> IndexingResult:
        try:
            return IndexingResult.of(IndexingRun(transaction, work, how).run())
        except DuplicateKeyError:
            # No process can execute the plan any more, and it would block cleaning and archival.
            self.cancel(transaction.requested)
            raise

    def _nothing(self, why_not: str) -> IndexingResult:
        return IndexingResult(why_not=why_not)


def cancel_plan(context: TableContext, plan: Instant, work: IndexingWork | None) -> bool:
    """Remove the plan of an indexing, what was built for it, and the definitions of its indexes. Returns False if the plan has ended.

    The process first registers as the plan's executor. So no other process builds the indexes at the same time, and a paused process cannot complete
    them. The built files are removed before the requested file: a process that dies here leaves a plan, which can be executed or cancelled again. The
    plan needs the definitions, so they are removed after the plan; readers ignore a leftover definition. Raises `CommitAbortedError` if a process
    executes the plan.
    """
    begun = plan_executors.begin_execution(context, plan, by_name=True)
    if isinstance(begun, Refusal):
        still = context.folder.load().find(plan.requested_time, plan.action)
        if still is None or still.is_completed:
            return False
        raise CommitAbortedError(
            f"The plan cannot be removed now: {begun.why_not}",
            table=context.table,
            instant=plan.requested_time,
            hint="Wait for that process, or end it, and try again.",
        )
    try:
        if work is not None:
            IndexingDecisions(begun, work.partitions).take_back(reopened(context))
        remove_instant(context.folder, plan.requested_time, (plan.action,))
    finally:
        begun.heartbeat.handle.cancel()
    plan_executors.forget(context, plan.requested_time)
    begun.heartbeat.stop(context)
    if work is not None:
        forget(context, work.partitions)
    return True


# --- definitions of planned indexes on columns: they are published with the plan, as Hudi defines such an index before it plans it
# So any process can execute the plan. Readers ignore the definition of an index that the table does not list. The definition is removed when the
# plan is cancelled, or when the index is dropped (``drop.py``).


def published_with_plan(transaction: Transaction, definitions: Sequence[IndexDefinition]) -> tuple[Publication, ...]:
    """Return the publications before a plan's requested file: the staged definitions, and the property that names their file."""
    if not definitions:
        return ()
    path = transaction.context.config.index_defs_path
    known = definitions_now(transaction.context)
    staged = Staging(transaction).kept(changed_definitions(known, definitions))
    return (
        Publication(path, staged, PublicationKind.REPLACE, digest(known)),
        Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=((INDEX_DEFINITIONS, path),)),
    )


def forget(context: TableContext, partitions: Sequence[str]) -> None:
    """Remove, in a separate decision, the definitions of indexes that are neither listed nor planned. Other definitions stay.

    Raises `CommitConflictError` if other processes keep changing the definitions, and as ``transaction/decision.py``.
    """
    if not any(map(kind_of, partitions)):
        return
    with Retries(context) as retries:
        retries.until_done(lambda: _forget(reopened(context), partitions))


def _forget(context: TableContext, partitions: Sequence[str]) -> None:
    if not _unused(context, partitions, context.folder.load()):
        return
    transaction = begin.reserve(context, Action.INDEXING)
    try:
        with deciding(
            transaction, "forget the definition of an index", lambda: sweep_reservation(transaction)
        ) as terms:
            staging = Staging(transaction)
            decide(
                context, lambda timeline: _removal(transaction, staging, partitions, timeline), lambda _: None, terms
            )
    except OutcomeUnknown as unknown:
        raise unknown.error from unknown


def _removal(
    transaction: Transaction, staging: Staging, partitions: Sequence[str], timeline: Timeline
) -> StagedIntent | None:
    """Return the removal on this timeline; None if there is nothing to remove (any more)."""
    context = reopened(transaction.context)
    gone = _unused(context, partitions, timeline)
    known = definitions_now(context)
    if not gone or known is None:
        return None
    staged = staging.kept(changed_definitions(known, removed=gone))
    change = Publication(context.config.index_defs_path, staged, PublicationKind.REPLACE, digest(known))
    return reserved_intent(transaction, timeline, [change])


def _unused(context: TableContext, partitions: Sequence[str], timeline: Timeline) -> list[str]:
    """Return the defined partitions among these that are neither listed, nor being built, nor planned."""
    defined = {item.name for item in read_definitions(context.storage, context.config.index_defs_path)}
    used = {*context.config.written_metadata_partitions, *pending_partitions(context, timeline)}
    return [name for name in partitions if kind_of(name) and name in defined and name not in used]
