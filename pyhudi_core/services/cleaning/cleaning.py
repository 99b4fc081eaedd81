"""Cleaning: older file slices are deleted, so that the table does not grow without bound (specification, "Cleaning").

``plan`` returns the files to delete, ``schedule`` puts the plan on the timeline, and ``execute`` deletes the files. Any process may execute the plan,
also Hudi. The plan and the completed clean are Hudi's records. Reads of the states that the policy keeps stay complete; reads of older ones raise
`SnapshotExpiredError`.

A clean conflicts with no writer: it deletes no file that a running write or a planned service may read. A plan is executed by one process at a time;
`take_over` finishes what dead processes began.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import ClassVar

from pyhudi_core.model.instant import Action
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.cleaning.clean_execution import Cleaned, CleaningRun
from pyhudi_core.services.cleaning.clean_plan import CleaningPlan, PlannedClean, decode
from pyhudi_core.services.cleaning.clean_rules import BY_COMMITS, BY_VERSIONS
from pyhudi_core.services.cleaning.files_to_clean import by_instant, plan_cleaning
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.planned_service import PlannedResult, PlannedService
from pyhudi_core.services.service import Execution, Turn
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction

_log = logging.getLogger(__name__)
_EVERY = 10
"""The number of commits between cleans if the options do not say it: a clean costs as much as a small commit."""
_FIRST = (
    "%s: its first clean deleted %d files that only older states need; those of the last %d commits stay readable. Commits clean by default:"
    " hoodie.clean.commits.retained keeps more, hoodie.clean.automatic=false keeps all"
)


@dataclass(frozen=True, slots=True)
class CleaningResult(PlannedResult):
    """The result of cleaning. ``instants`` are the completed cleans.

    Attributes:
        files: number of deleted files, including those that an earlier executor had deleted.
        partitions: number of their partitions.
        kept: number of planned files that stayed, because the newest state, a savepoint, a hold or Iceberg metadata needs them.
        why_kept: why Iceberg metadata needs files: it names them and cannot be synced.
    """

    service: ClassVar[str] = "cleaning"
    files: int = 0
    partitions: int = 0
    kept: int = 0
    why_kept: str = ""

    @classmethod
    def of(cls, done: Cleaned, planned: PlannedClean) -> CleaningResult:
        """Return the result of one execution."""
        files = len(done.deleted.paths)
        gone = sum(1 for names in done.deleted.files.values() if names)
        return cls((done.finished.instant,), "", files, gone, len(planned.paths) - files, done.why_kept)


class Cleaning(PlannedService[CleaningPlan, PlannedClean, CleaningResult]):
    """Cleaning of one table."""

    name = "cleaning"
    summary = "delete older file slices that no reader is promised any more"
    turns = ("cleaning.by_commits",)
    action = Action.CLEAN
    noun = "clean"

    def after_commit(self, turn: Turn) -> bool:
        """Plan a clean if the timeline that the commit found says that it is due, or execute the plan. Do nothing if ``hoodie.clean.automatic`` is
        false.
        """
        options, timeline = self.context.options.cleaning, self.context.folder.latest or self.context.folder.load()
        cleans = [i for i in timeline if i.action is Action.CLEAN]
        last = max((i.requested_time for i in cleans if i.is_completed), default="")
        new = 1 + sum(
            1 for i in timeline.commits if i.requested_time > last
        )  # the timeline lacks the commit that has just been made
        every = options.max_commits if options.automatic else max(options.max_commits, _EVERY)
        # Wait with the first clean until it can delete a file: the oldest retained state needs the files of the commit before it.
        first = options.commits + 2 if options.policy == BY_COMMITS and not cleans else 1
        if new < max(every, first) + turn.waits(every) and all(i.is_completed for i in cleans):
            return False
        done = self._step(turn.engine, timeline, every)
        if done and done.files and not last and options.automatic is None:
            _log.warning(_FIRST, self.context.table, done.files, options.commits)
        return done is not None and every > 1

    def _planned(self, timeline: Timeline, *, triggered: bool) -> CleaningPlan:
        return plan_cleaning(self.context, timeline, self.context.options.cleaning, triggered=triggered)

    def _outdating(self, transaction: Transaction, plan: CleaningPlan) -> Outdating:
        return Outdating(by_instant=by_instant)

    def _decode(self, data: bytes, path: str) -> PlannedClean:
        return decode(data, path)

    def _run_plan(self, transaction: Transaction, work: PlannedClean, how: Execution) -> CleaningResult:
        return CleaningResult.of(CleaningRun(transaction, work, how).run(), work)

    def _nothing(self, why_not: str) -> CleaningResult:
        return CleaningResult(why_not=why_not)


def taking_all(context: TableContext) -> TableContext:
    """Return the table with options for which services compact every group, delete every older slice, and sweep every file without an owner."""
    options = context.options
    chosen = replace(
        options,
        compaction=replace(options.compaction, strategy="unbounded", most_bytes=0),
        cleaning=replace(
            options.cleaning,
            policy=BY_VERSIONS,
            file_versions=1,
            partitions="",
            partition_regex="",
            max_files=0,
            incremental=False,
        ),
        upkeep=replace(options.upkeep, sweep_age_minutes=0),
    )
    return context.with_options(chosen)
