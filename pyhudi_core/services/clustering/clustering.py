"""Clustering: small files are merged, and rows are sorted, into new file groups (specification, "Re-writing").

``plan`` returns what would be clustered, ``schedule`` puts the plan on the timeline, and ``execute`` executes it. Any process may execute the plan,
also Hudi. The plan is Hudi's record, the pending instant is a ``clustering``, and the completed one is a ``replacecommit`` of the operation CLUSTER.
Rows keep their commit times. So a clustering changes no query result, and incremental queries and change queries do not show it.

A write that changes a file group of a planned clustering conflicts with it, as with Hudi's default strategy. With
``hoodie.clustering.updates.strategy=allow`` the write may commit. Then the clustering is cancelled: nothing of it is committed, and its plan is
removed. `cancel` removes a plan that no process will execute, so that the plan no longer blocks writes.
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
    """The result of clustering. ``instants`` are the completed clusterings.

    Attributes:
        file_groups: number of replaced file groups.
        new_file_groups: number of new file groups.
        rows: number of rows in the new base files.
        bytes_written: size of the new base files.
        token: the commit's token, for ``table.commit_status``; empty if there was not exactly one commit.
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
        """Remove a plan and the files of its executor. A running execution can no longer commit. Returns False if the plan is not pending, or no
        longer pending. Raises `InvalidOptionError` if the instant is not a clustering.
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
            # Hudi writes the new ranges of hashes before it commits, and Hudi's writers may use them after the executor has died.
            for partition in partitions:
                forget(self.context.storage, partition, time)
        return done

    def after_commit(self, turn: Turn) -> bool:
        """Execute plans, cluster or plan, depending on the options.

        With ``hoodie.clustering.inline``: execute the plans that no process executes, and cluster if that is due. With
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
        """Remove the plan if a completed commit changed its file groups: then no process can execute it, and it would block all writes."""
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
