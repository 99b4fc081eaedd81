"""When an asset runs by itself: after a commit to a table that it reads.

A commit is a new data version of the upstream asset, and so are late rows in a partition that has run before
(`pyhudi_dagster.late_data`). A compaction, a repeated event of the same commit, or a commit that changes no rows is none.

Dagster's own ``eager()`` waits until no upstream partition is missing, which never happens below an asset with partitions for days to come,
and looks at the latest time window only, so late data in old partitions passes unseen.
"""

from __future__ import annotations

from typing import Any

import dagster as dg

_Condition = dg.AutomationCondition


class HudiAutomation:
    """Automation conditions for assets that read Hudi tables."""

    @staticmethod
    def on_commit(*, wait_for_upstream: bool = True) -> dg.AutomationCondition[Any]:
        """Run each partition whose upstream partitions got a commit since the last request; no commit is forgotten.

        An asset without partitions runs after a commit to any upstream partition. Upstream partitions that never ran do not hold
        it back. A failed run is not repeated; the next commit requests it again.

        Args:
            wait_for_upstream: wait while an upstream asset is running; the commits of that time then cause one run. False for an
                upstream asset that is always running.

        Example:
            .. code-block:: python

                @hudi_asset(record_key="day", automation_condition=HudiAutomation.on_commit())
                def totals(orders: Changes) -> pa.Table: ...
        """
        condition = _pending() & ~_Condition.in_progress()
        if wait_for_upstream:
            condition &= ~_Condition.any_deps_in_progress()
        return condition.with_label("on_commit")


def _pending() -> dg.AutomationCondition[Any]:
    """True from a commit until the run that is requested after it.

    Dagster's ``since_last_handled()`` forgets two kinds of commits: those that come while the asset runs, because the run's own event
    resets it, and those between a request and the next tick, because a reset beats a trigger of the same tick. So only a request
    resets here, and a commit of the same tick as the reset, which came after the request, is remembered by the second half.
    """
    elsewhere = ~_Condition.executed_with_root_target()  # a run of both assets has read its own upstream commit
    commit = _Condition.any_deps_match(_Condition.data_version_changed() & elsewhere)
    handled = _Condition.newly_requested() | _Condition.initial_evaluation()
    before_the_reset = commit.since(handled)
    with_the_reset = (commit & handled).since(handled & ~commit)
    return (before_the_reset | with_the_reset).with_label("commit_pending")
