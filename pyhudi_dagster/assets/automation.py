"""Automation: an asset runs after a commit to a table that the asset reads.

A commit is a new data version of the upstream asset, and so are late rows in a partition that has run before
(`pyhudi_dagster.reporting.late_data`). A compaction, a repeated event of the same commit, or a commit without changed rows makes no new data version.

Dagster's ``eager()`` does not fit. ``eager()`` waits until no upstream partition is missing, but an asset with partitions for future days always has
missing partitions. ``eager()`` checks only the latest time window. So ``eager()`` misses late data in old partitions.
"""

from __future__ import annotations

from typing import Any

import dagster as dg

_Condition = dg.AutomationCondition


class HudiAutomation:
    """Automation conditions for assets that read Hudi tables."""

    @staticmethod
    def on_commit(*, wait_for_upstream: bool = True) -> dg.AutomationCondition[Any]:
        """Run each partition if its upstream partitions have a commit since the last request; no commit is missed.

        An asset without partitions runs after a commit to any upstream partition. Upstream partitions that never ran do not delay the asset. A failed
        run is not repeated; the next commit requests a new run.

        Args:
            wait_for_upstream: wait while an upstream asset is running, so that the commits of that time cause only one run. Use False for an
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
    """True from a commit until the next request of a run.

    Dagster's ``since_last_handled()`` misses two kinds of commits: commits during a run of the asset, because the run's event resets the condition;
    and commits between a request and the next tick, because a reset overrides a trigger in the same tick. Therefore only a request resets this
    condition, and the second half of this condition keeps a commit that came after the request, in the same tick as the reset.
    """
    elsewhere = (
        ~_Condition.executed_with_root_target()
    )  # A run of both assets has already read its own upstream commit.
    commit = _Condition.any_deps_match(_Condition.data_version_changed() & elsewhere)
    handled = _Condition.newly_requested() | _Condition.initial_evaluation()
    before_the_reset = commit.since(handled)
    with_the_reset = (commit & handled).since(handled & ~commit)
    return (before_the_reset | with_the_reset).with_label("commit_pending")
