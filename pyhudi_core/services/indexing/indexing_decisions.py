"""The decisions of an indexing: begin it, publish its base files, end it, or undo it (specification, "Indexing").

Each decision is made under the lock, as a commit is (``transaction/decision.py``), and only by the newest executor of the plan.

1. *begin* makes empty file groups and lists the partitions as being built. From then on every commit writes to these partitions, or is refused and
   planned again. The timeline found under the lock is the **base** of the indexing: the base files are made from that state.
2. *fill* publishes the base files. A write that read the metadata table before this decision is planned again, so every later commit has seen the
   complete index.
3. *end* lists the partitions for readers, and completes the instant.
4. *take back* unlists the partitions. Afterwards their files are removed.

Files are removed by name, and the names are listed before the decision; a folder is never removed. So a process that is paused at any moment removes
no file of its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi_core.errors import CommitConflictError
from pyhudi_core.metadata_table.defined_indexes import needs_of
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.properties import INDEX_DEFINITIONS, TableConfig
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.indexing import indexing_plan
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout, metadata_removal, plan_executors
from pyhudi_core.transaction.begin import Transaction, companions_high_water_mark, completion_time_after
from pyhudi_core.transaction.decision import Check, StagedIntent, Terms, decide, staged_intent
from pyhudi_core.transaction.metadata_removal import INFLIGHT, LISTED
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import unknown_told
from pyhudi_core.write.first_metadata.metadata_build import definitions_now
from pyhudi_core.write.first_metadata.metadata_staging import StagedBuild


@dataclass(slots=True)
class IndexingDecisions:
    """The decisions of one execution. ``found`` is the timeline that the latest decision found under the lock."""

    transaction: Transaction
    partitions: tuple[str, ...]
    found: Timeline = field(init=False, default=Timeline(()))

    @property
    def context(self) -> TableContext:
        """The table when the execution began."""
        return self.transaction.context

    def take_back(self, context: TableContext) -> bool:
        """Remove the partitions from the list of partitions being built, then remove their files. Returns False if none was listed there.

        Files of partitions that are listed for readers stay.
        """
        if not {*self.partitions} & {*context.config.metadata_partitions_inflight}:
            return False
        left: list[str] = []

        def publications(config: TableConfig, _timeline: Timeline) -> list[Publication]:
            # The list as found under the lock: an interruption may have come after decision 3, which lists the partitions for readers.
            gone = {*config.metadata_partitions_inflight} - {*config.metadata_partitions}
            left[:] = metadata_removal.files_of(self.context.root, [name for name in self.partitions if name in gone])
            return [self._change(config, building=False)]

        self._decide("stop building an index", publications)
        metadata_removal.remove_dropped(context.root, left)
        return True

    def begin(self, builds: Sequence[StagedBuild], definitions: Publication | None) -> Timeline:
        """Make decision 1, and return the base. Raises `CommitConflictError` if another build came in between."""
        junk = [name for name in self.partitions if name not in self.context.config.metadata_partitions]

        def publications(config: TableConfig, timeline: Timeline) -> list[Publication]:
            if {*self.partitions} & {*config.metadata_partitions, *config.metadata_partitions_inflight}:
                raise self._conflict("Another process lists the partitions")
            self._refuse_unkept(config)
            if definitions is not None and digest(definitions_now(self.context)) != definitions.replaces:
                raise self._conflict("Another process changed the definitions of indexes")
            self._refuse_taken(builds)
            # Files that slow writers left for an earlier build. Nothing reads them now, but they would become a part of the new one.
            left = metadata_removal.files_of(self.context.root, junk)
            plan_executors.refuse_overtaken(self.transaction)
            metadata_removal.remove_files(self.context.root, left)
            made = self._built(builds, timeline)
            return [
                *made,
                *([definitions] if definitions else []),
                self._change(config, building=True, definitions=definitions),
            ]

        self._decide("begin to build an index", publications)
        return self.found

    def fill(self, builds: Sequence[StagedBuild]) -> Timeline:
        """Make decision 2, and return the timeline on which it was made."""

        def publications(config: TableConfig, timeline: Timeline) -> list[Publication]:
            self._refuse_dropped(config)
            self._refuse_taken(builds)
            return self._built(builds, timeline)

        self._decide("publish the first files of an index", publications)
        return self.found

    def end(self, planned: Sequence[str], up_to: str, check: Check) -> Instant:
        """Make decision 3, and return the completed instant, which names the ``planned`` partitions.

        ``check`` is called with the timeline under the lock.
        """
        transaction, context = self.transaction, self.context
        staged = f"{layout.staged(transaction.requested_time, transaction.nonce)}.done"
        body = indexing_plan.encode_done(planned, up_to, transaction.sync_marker)
        context.root.put(staged, body)
        completed: list[Instant] = []

        def intent(timeline: Timeline) -> StagedIntent:
            config = self._config()
            self._refuse_dropped(config)
            time = self._next_time(timeline)
            instant = Instant(transaction.requested_time, Action.INDEXING, State.COMPLETED, time)
            completed[:] = [instant]
            path = context.from_root(context.folder.file(instant))
            made = [self._change(config, building=False, listed=True), Publication(path, staged)]
            return self._intent(time, made, {path: body})

        self._run("complete an index", intent, check)
        return completed[0]

    # --- shared parts of the decisions

    def _decide(self, what: str, publications: Callable[[TableConfig, Timeline], list[Publication]]) -> None:
        def intent(timeline: Timeline) -> StagedIntent:
            self.found = timeline
            made = publications(self._config(), timeline)
            return self._intent(self._next_time(timeline), made, {})

        self._run(what, intent, lambda _timeline: None)

    def _run(self, what: str, intent: Callable[[Timeline], StagedIntent], check: Check) -> None:
        """Decide as the newest executor. Raises `CommitAbortedError` if another process took the execution over."""
        transaction, context = self.transaction, self.context

        def checked(timeline: Timeline) -> None:
            plan_executors.refuse_overtaken(transaction)
            check(timeline)

        terms = Terms(what, (transaction.inflight,), seems_alive=lambda: transaction.heartbeat.is_young(context))
        with unknown_told(
            transaction,
            f"the decision to {what} was made",
            hint="Run the indexing again when the storage answers: another executor goes on from what was decided.",
            instant=transaction.requested_time,
        ):
            decide(context, intent, checked, terms)

    def _intent(self, time: str, publications: Sequence[Publication], bodies: Mapping[str, bytes]) -> StagedIntent:
        transaction, context = self.transaction, self.context
        inflight = context.from_root(context.folder.file(transaction.inflight))
        return staged_intent(transaction, publications, bodies, completion_time=time, inflight=inflight)

    def _config(self) -> TableConfig:
        return TableConfig.from_properties(properties_file.read(self.context.storage), table=self.context.table)

    def _built(self, builds: Sequence[StagedBuild], timeline: Timeline) -> list[Publication]:
        """Return the files of builds, and their instants on the metadata table's timeline."""
        time, made = self._next_time(timeline), []
        for staged in builds:
            made += staged.publications(time)
            time = completion_time_after(self.context, time)
        return made

    def _next_time(self, timeline: Timeline) -> str:
        marks = companions_high_water_mark(reopened(self.context))
        highest = max(timeline.high_water_mark, self.transaction.requested_time, marks)
        return completion_time_after(self.context, highest)

    def _change(
        self, config: TableConfig, *, building: bool, listed: bool = False, definitions: Publication | None = None
    ) -> Publication:
        """Return the change of the table's properties."""
        own = {*self.partitions}
        inflight = {*config.metadata_partitions_inflight} - own | (own if building else set())
        changes = {INFLIGHT: ",".join(sorted(inflight))}
        if listed:
            changes[LISTED] = ",".join(sorted({*config.metadata_partitions, *own}))
        if definitions is not None:
            changes[INDEX_DEFINITIONS] = config.index_defs_path
        return Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=tuple(sorted(changes.items())))

    def _refuse_dropped(self, config: TableConfig) -> None:
        if not {*self.partitions} <= {*config.metadata_partitions_inflight} or not config.metadata_partitions:
            raise self._conflict("Another process dropped the partitions, or the metadata table")
        self._refuse_unkept(config)

    def _refuse_unkept(self, config: TableConfig) -> None:
        """Raise `CommitConflictError` if a partition that one of these needs is gone: no write could commit with that list."""
        needed = {need for name in self.partitions for need in needs_of(name)}
        lost = sorted(needed - {*self.partitions, *config.metadata_partitions})
        if lost:
            raise self._conflict(f"Another process dropped {', '.join(lost)}, which an index of the plan needs,")

    def _refuse_taken(self, builds: Sequence[StagedBuild]) -> None:
        """Raise `CommitConflictError` if another build has meanwhile used one of the numbers."""
        taken = {i.requested_time for place in reopened(self.context).companions for i in place.folder.load()}
        if taken & {staged.first.requested_time for staged in builds}:
            raise self._conflict("Another process built a partition of the metadata table")

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(
            f"{what} while this indexing ran",
            table=self.context.table,
            instant=self.transaction.requested_time,
            hint="Nothing of it is listed; run the indexing again.",
        )
