"""Archival of the metadata table's timeline (specification, "LSM Timeline" and "Metadata Table").

This is the archival service for the metadata table. It has two additional limits. Instants on the timeline of the data table stay, because that
timeline decides which log blocks count. Instants that were not compacted stay, because Hudi's readers do not look for them in the archived timeline.
"""

from __future__ import annotations

from pyhudi_core.metadata_table.names import INITIAL_INSTANTS
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.archival.archival import Archival, ArchivalResult, archive, rules_of
from pyhudi_core.services.archival.limits import ArchivalPlan
from pyhudi_core.services.metadata.at_metadata_table import NONE, place_of
from pyhudi_core.services.service import Execution, Turn
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write.retrying import Retries


class MetadataArchival(Archival):
    """Archival of the metadata table of one table; made from the data table's context."""

    name = "metadata_archival"
    summary = "move old instants of the metadata table to its archived timeline"
    turns = ("archival.automatic",)

    def __init__(self, context: TableContext) -> None:
        found = place_of(context)
        super().__init__(context if found is None else context.at(found))
        self.exists = found is not None

    def plan(self) -> ArchivalPlan:
        """Return what `run` would archive now, and which limit keeps the rest. Changes nothing."""
        return super().plan() if self.exists else ArchivalPlan(why_not=NONE)

    def take_over(self) -> ArchivalResult:
        """Finish a run that died, as `Archival.take_over`, for the metadata table."""
        return super().take_over() if self.exists else self._nothing(NONE)

    def after_commit(self, turn: Turn) -> bool:
        """Archive, if that is due and ``hoodie.archive.automatic`` is on.

        If a partition is built after older instants were archived, its instant has one of the first times. For Hudi's readers the timeline then
        begins with this instant, and archived instants would not count as completed. So the instant is archived as soon as there is a newer one.
        """
        timeline = self.context.folder.latest or Timeline()
        if not self.exists:
            return False
        if _has_late_build(timeline):
            return bool(archive(self.context, rules_of(self.context, triggered=False)))
        return self._has_enough(timeline, turn) and super().after_commit(Turn())

    def _has_enough(self, timeline: Timeline, turn: Turn) -> bool:
        """Say whether a commit should check for archival: whether enough commits are older than the data table's timeline, by the data table's
        limits.
        """
        data = next(place for place in self.context.companions if not place.prefix).folder
        first = min((i.requested_time for i in data.latest or data.load()), default="")
        rules = rules_of(self.context, triggered=True)
        older = sum(1 for i in timeline.commits if i.requested_time < first)
        every = max(1, (rules.keep_max or 0) - rules.keep_min)
        return older >= every + turn.waits(every)

    def _run(self, how: Execution, retries: Retries) -> ArchivalResult:
        """Archive as for a data table: down to one commit more than ``hoodie.keep.min.commits``."""
        return super()._run(how, retries) if self.exists else self._nothing(NONE)


def _has_late_build(timeline: Timeline) -> bool:
    """Say whether the first build is archived, and a later build is not."""
    builds = [i.requested_time for i in timeline if i.requested_time.startswith(INITIAL_INSTANTS)]
    return bool(builds) and f"{INITIAL_INSTANTS}000" not in builds
