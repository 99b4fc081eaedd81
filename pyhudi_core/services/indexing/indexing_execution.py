"""Execute a planned indexing in two phases while writers write (specification, "Indexing").

The process has registered as the plan's executor (``transaction/plan_executors.py``). Phase one lists the partitions as being built. The base files
are made from the state of the table at that moment. Every later commit adds its entries in log files of the same file groups. Phase two checks these
commits: if a commit of another program added no entries, the build is given up. Then no file of it stays, and it may begin again. Otherwise the
partitions are listed for readers.

A record index needs another check. Before its base files exist, writers cannot see in it that a key is already in another partition. So the keys of
these commits are looked up afterwards (``services/indexing/record_index_check.py``).

Files of a dead executor cannot be used: its successor unlists the partitions, removes their files, and builds them again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyhudi_core.conflicts.concurrent import refuse_pending_restore
from pyhudi_core.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptionError,
    HudiError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.new_metadata_table import FirstBuild
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.indexing.indexes_to_build import newest
from pyhudi_core.services.indexing.indexing_decisions import IndexingDecisions
from pyhudi_core.services.indexing.indexing_plan import IndexingWork
from pyhudi_core.services.indexing.logged_commits import LoggedCommits
from pyhudi_core.services.indexing.record_index_check import refuse_keys_elsewhere
from pyhudi_core.services.plan_run import PlanRun
from pyhudi_core.services.progress import Steps
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import markers, plan_executors
from pyhudi_core.transaction.commit import ask_gate
from pyhudi_core.transaction.decision import publish_decided
from pyhudi_core.transaction.locking import after_failure
from pyhudi_core.write import cases, refusals
from pyhudi_core.write.first_metadata import metadata_build
from pyhudi_core.write.first_metadata.metadata_first_files import FirstFiles, staged_groups
from pyhudi_core.write.first_metadata.metadata_staging import Staging
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.states import load

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Indexed:
    """A completed execution: its instant, and the file groups of each partition that it built."""

    instant: Instant
    groups: dict[str, int]


@dataclass(slots=True)
class IndexingRun(PlanRun[IndexingWork, Indexed]):
    """One execution of a plan. ``staging`` has the bytes of files that the decisions publish."""

    staging: Staging = field(init=False)
    decisions: IndexingDecisions = field(init=False)

    def _carry_out(self) -> Indexed:
        """Build and complete.

        Raises `UnsupportedTableError` if writes could not keep a partition correct, `DuplicateKeyError` for a record index of a table with a
        duplicate key, `CommitConflictError` if a commit added no entries, and as ``transaction/decision.py``.
        """
        context = self._prepared()
        missing = {
            name: count for name, count in self._kinds().items() if name not in context.config.metadata_partitions
        }
        self.staging = Staging(self.transaction)
        self.decisions = IndexingDecisions(self.transaction, tuple(missing))
        if self.decisions.take_back(context):
            self._renew()
        try:
            return self._completed(missing)
        except CommitStateUnknownError:
            raise
        except BaseException as error:
            self._give_back(error)
            raise

    def _prepared(self) -> TableContext:
        """Return the current table, with a metadata table. Raises `UnsupportedTableError`."""
        context = self._renew()
        refuse_pending_restore(context, context.folder.load())
        why = metadata_build.why_unfit(context.config, self._kinds())
        if why:
            raise self._refusal(why)
        if not context.config.metadata_partitions:
            metadata_build.build_partitions(context, {names.FILES: 1}, self.how.engine)
            context = self._renew()
        return context

    def _refusal(self, why: str) -> UnsupportedTableError:
        """Return the error for a plan that the table cannot have (any more). The plan blocks all others, so the error says how to remove it."""
        time = self.transaction.requested_time
        return UnsupportedTableError(
            f"The plan {time} builds {', '.join(self.work.partitions)}, which cannot be made: {why}",
            table=self.transaction.context.table,
            instant=time,
            hint=f"Make what it needs and execute it again, or remove it: table.indexing.cancel({time!r}), `pyhudi index LOCATION cancel {time}`.",
        )

    def _renew(self) -> TableContext:
        self.transaction = replace(self.transaction, context=reopened(self.transaction.context))
        return self.transaction.context

    def _kinds(self) -> dict[str, int]:
        """Return the partitions of the plan, each with its minimum number of file groups."""
        context = self.transaction.context
        known = metadata_build.makeable(context, self.work.partitions)
        unknown = [name for name in self.work.partitions if name not in known]
        if unknown:
            raise UnsupportedTableError(
                f"The plan builds {', '.join(unknown)}, which this release does not make",
                table=context.table,
                instant=self.transaction.requested_time,
                hint="Execute it with the program that planned it, or remove the plan with `pyhudi index LOCATION cancel TIME`.",
            )
        return {name: known[name] for name in self.work.partitions}

    def _completed(self, missing: dict[str, int]) -> Indexed:
        """Run both phases, and return the completed execution."""
        base = Timeline(())
        if missing:
            with self._of_sources():
                groups = self._sized(missing)
                base = self._begin(groups)
                self._fill(base, groups)
        ask_gate(self.how.gate, self.transaction.context, "to list the index")
        base = base if missing else self.transaction.context.folder.load()
        logged = LoggedCommits(self.transaction, base, tuple(missing))
        logged.outside()
        instant = self.decisions.end(
            self.work.partitions, newest(base) if len(base.commits) else "", logged.refuse_unlogged
        )
        self._clean_up()
        return Indexed(instant, missing)

    def _sized(self, missing: dict[str, int]) -> dict[str, int]:
        context = self.transaction.context
        snapshot = load(context)
        why = metadata_update.why_undefined(context, snapshot.schema, missing)
        if why:
            raise self._refusal(why)
        return metadata_build.sized(context, snapshot, missing)

    def _begin(self, groups: dict[str, int]) -> Timeline:
        """Run phase one: make empty file groups, to which every commit writes from now on. Return the base."""
        context = self.transaction.context
        snapshot = load(context)
        refusals.before_rows(cases.in_state(cases.of_call(context, OperationType.INDEX), context, snapshot))
        builds = [staged_groups(self.staging, first) for first in self._builds(snapshot.timeline, groups)]
        definitions = metadata_build.definitions_change(self.staging, snapshot, groups)
        self.staging.write()
        return self.decisions.begin(builds, definitions)

    def _fill(self, base: Timeline, groups: dict[str, int]) -> None:
        """Make and publish the base files, and look for keys in two partitions."""
        snapshot = load(self._renew(), base)
        defined = metadata_update.definitions_of(self.transaction.context, groups)
        files = FirstFiles(self.transaction, snapshot, self.how.engine, self.staging, defined, {*groups})
        builds = self._builds(base, groups)
        steps = Steps(self.how.progress, "build indexes", len(builds))
        staged = [files.staged_base(first) for first in steps.over(builds)]
        self.staging.write()
        filled = self.decisions.fill(staged)
        if names.RECORD_INDEX in groups and {*filled.completed} - {*base.completed}:
            refuse_keys_elsewhere(self.transaction.context, self._state(filled))

    @contextmanager
    def _of_sources(self) -> Iterator[None]:
        """Raise `CommitConflictError` instead of an error about damage, if another process dropped or cleaned files that are read here."""
        try:
            yield
        except (ObjectNotFoundError, CorruptionError) as error:
            before, now = self.transaction.context, reopened(self.transaction.context)
            if isinstance(error, CorruptionError) and _listed(before) <= _listed(now):
                raise
            raise CommitConflictError(
                f"What the index is built from was dropped or cleaned while it was built: {error.message}",
                table=before.table,
                path=error.path,
                hint="Nothing of the index is listed; run the indexing again.",
            ) from error

    def _state(self, timeline: Timeline) -> Snapshot:
        return load(self.transaction.context, timeline)

    def _builds(self, timeline: Timeline, groups: dict[str, int]) -> Sequence[FirstBuild]:
        context = self.transaction.context
        first, version = metadata_build.next_number(context, timeline), context.config.index_version
        return [FirstBuild(name, first + at, count, version) for at, (name, count) in enumerate(groups.items())]

    def _give_back(self, error: BaseException) -> None:
        """Unlist the partitions after an error, if they still belong to this execution.

        An interruption may come between a decision and its publication, so a decision is published first.
        """
        context = after_failure(self.transaction.context, error)
        try:
            publish_decided(context, self.transaction.requested_time)
            context = reopened(context)
            IndexingDecisions(replace(self.transaction, context=context), self.decisions.partitions).take_back(context)
        except HudiError as second:
            # The next executor of the plan unlists them. Until then writers write to partitions that nobody reads.
            error.add_note(f"The partitions are still listed as being built: {second.message}")

    def _clean_up(self) -> None:
        """Clean up. If this fails, the next writer finds the heartbeat, and sweeps the rest."""
        context, time = self.transaction.context, self.transaction.requested_time
        self.transaction.heartbeat.handle.cancel()
        try:
            markers.remove(context.storage, time)
            plan_executors.forget(context, time)
            self.transaction.heartbeat.stop(context)
        except HudiError as error:
            _log.warning("could not sweep up after the indexing %s of %s: %s", time, context.table, error)


def _listed(context: TableContext) -> set[str]:
    """Return the partitions of the metadata table that the table's properties name."""
    return {*context.config.metadata_partitions, *context.config.metadata_partitions_inflight}
