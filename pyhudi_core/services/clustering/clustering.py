"""Clustering: small files are merged, and rows are sorted, into new file groups (specification, "Re-writing").

``plan`` says what would be clustered, ``schedule`` puts the plan on the timeline, and ``execute`` carries it out; any process may, Hudi's too. The
plan is Hudi's record, the pending instant a ``clustering``, and the completed one a ``replacecommit`` of the operation CLUSTER. Rows keep their
commit times, so a clustering changes the result of no query, and incremental queries and change queries do not show it.

While a clustering is planned, a write that changes one of its file groups conflicts with it, as Hudi's default strategy says. With
``hoodie.clustering.updates.strategy=allow`` the write may commit; then the clustering is given up: nothing of it is committed, and its plan is
removed. `cancel` removes a plan that no process will execute, so that it stops no write any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyhudi_core.conflicts.conflict import Conflict, is_final
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.index.hashing_metadata import forget
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.services.clustering.clustering_execution import ClusteringRun
from pyhudi_core.services.clustering.clustering_plan import ClusteringPlan, ClusteringWork, bucket_partitions, decode
from pyhudi_core.services.clustering.groups_to_cluster import outdating, plan_clustering
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.planned_service import PlannedResult, PlannedService
from pyhudi_core.services.service import Execution, Turn
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import Finished
from pyhudi_core.transaction.rollback import roll_back


@dataclass(frozen=True, slots=True)
class ClusteringResult(PlannedResult):
    """What was clustered: ``instants`` are the completed clusterings.

    Attributes:
        file_groups: how many were replaced.
        new_file_groups: how many were written.
        rows: in the new base files.
        bytes_written: of the new base files.
        token: of the commit, for ``table.commit_status``; empty if there were none or several.
    """

    service: ClassVar[str] = "clustering"
    file_groups: int = 0
    new_file_groups: int = 0
    rows: int = 0
    bytes_written: int = 0
    token: str = ""

    @classmethod
    def of(cls, finished: Finished, commit: CommitMetadata, token: str) -> ClusteringResult:
        """Return the result of one execution."""
        return cls(
            (finished.instant,),
            "",
            sum(len(file_ids) for file_ids in commit.replaced.values()),
            len(commit.stats),
            sum(stat.rows for stat in commit.stats),
            sum(stat.size for stat in commit.stats),
            token,
        )


class Clustering(PlannedService[ClusteringPlan, ClusteringWork, ClusteringResult]):
    """Clustering of one table."""

    name = "clustering"
    summary = "merge small files, and sort their rows, into new file groups"
    turns = ("clustering.inline", "clustering.schedule_inline")
    action = Action.CLUSTERING
    noun = "clustering"

    def cancel(self, instant: Instant | str) -> bool:
        """Remove a plan, and what an executor of it has written. False if it is not pending (any more).

        An execution that still runs cannot be committed from then on. Raises `InvalidOptionError` if the instant is no clustering.
        """
        time = self._time_of(instant)
        assert time is not None, "an instant was given"
        plan = next((pending for pending in self._pending() if pending.requested_time == time), None)
        if plan is None:
            return False
        path = self.context.folder.file(Instant(time, plan.action, State.REQUESTED))
        partitions = bucket_partitions(self.context.storage, path)
        done = roll_back(self.context, time) is not None
        if done and partitions:
            # An execution of Hudi writes the new ranges of hashes before it commits, and Hudi's writers may use them after it has died.
            for partition in partitions:
                forget(self.context.storage, partition, time)
        return done

    def after_commit(self, turn: Turn) -> bool:
        """With ``hoodie.clustering.inline``: execute the plans that no process executes, and cluster if that is due. With
        ``hoodie.clustering.schedule.inline``: plan if that is due.
        """
        if self.context.options.clustering.inline:
            self._inline(turn.engine)
        elif not self._pending():
            self.schedule(triggered=True)
        return False

    def _planned(self, timeline: Timeline, *, triggered: bool) -> ClusteringPlan:
        return plan_clustering(self.context, timeline, triggered=triggered)

    def _outdating(self, transaction: Transaction, plan: ClusteringPlan) -> Outdating:
        return outdating(transaction, plan)

    def _decode(self, data: bytes, path: str) -> ClusteringWork:
        return decode(data, path)

    def _run_plan(self, transaction: Transaction, work: ClusteringWork, how: Execution) -> ClusteringResult:
        try:
            done = ClusteringRun(transaction, work, how).run()
        except CommitConflictError as error:
            self._drop_void(transaction, error)
            raise
        return ClusteringResult.of(done.finished, done.metadata, transaction.token)

    def _drop_void(self, transaction: Transaction, error: CommitConflictError) -> None:
        """Remove the plan if a completed commit has changed its file groups: no process can execute it any more, and it would stop all writes."""
        conflict = error.conflict
        if (
            is_final(error)
            and isinstance(conflict, Conflict)
            and conflict.instant.is_completed
            and conflict.file_groups
        ):
            roll_back(transaction.context, transaction.requested_time)

    def _nothing(self, why_not: str) -> ClusteringResult:
        return ClusteringResult(why_not=why_not)
