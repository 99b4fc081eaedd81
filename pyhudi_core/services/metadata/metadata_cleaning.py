"""Cleaning of the metadata table: file slices that a compaction has replaced are deleted (specification, "Metadata Table").

This is the cleaning service for the metadata table. Readers need only its newest state, so older slices are kept only for readers that are still
reading them. As many stay as in Hudi 1.0: a fifth more than the data table's policy, and at least 20 commits. As in Hudi, a commit cleans only
if the last compaction is some commits old. Only a compaction makes slices removable, and planning a clean costs as much as a small commit. So there
is one clean after every second compaction, shortly before the next: then most files can be deleted. If the timeline is too short to show two
compactions, there is a clean after each.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pyhudi_core.model.instant import Action
from pyhudi_core.options.upkeep import CleaningOptions
from pyhudi_core.services.cleaning.clean_plan import CleaningPlan, PlannedClean
from pyhudi_core.services.cleaning.cleaning import Cleaning, CleaningResult
from pyhudi_core.services.cleaning.files_to_clean import plan_cleaning
from pyhudi_core.services.metadata.at_metadata_table import NONE, AtMetadataTable
from pyhudi_core.services.service import Turn
from pyhudi_core.timeline.active import Timeline

_LEAST_COMMITS = 20
_MORE = 1.2
_BEFORE_COMPACTION = 2
_COMPACTIONS = 2


class MetadataCleaning(AtMetadataTable[CleaningPlan, PlannedClean, CleaningResult], Cleaning):
    """Cleaning of the metadata table of one table; made from the data table's context."""

    name = "metadata_cleaning"
    summary = "delete older file slices of the metadata table"
    turns = ("metadata.compact_after",)

    def after_commit(self, turn: Turn) -> bool:
        """Plan a clean if a compaction made slices removable, or execute the plan."""
        timeline = self.context.folder.latest or self.context.folder.load() if self.exists else Timeline()
        begun = any(i.action is Action.CLEAN for i in timeline.pending)
        # The commit that was just made is not on the earlier timeline. The plan decides whether there is something to delete, because it reads the
        # timeline again: with automatic cleaning each commit has two instants here, and an older timeline would always lack the last instant before
        # the next compaction.
        if not begun and self._why_not_yet(timeline, turn):
            return False
        return self._step(turn.engine, timeline, self.context.options.metadata.compact_after) is not None

    def _planned(self, timeline: Timeline, *, triggered: bool) -> CleaningPlan:
        if not self.exists:
            return CleaningPlan(why_not=NONE)
        why_not = self._why_not_yet(timeline) if triggered else ""
        if why_not:
            return CleaningPlan(why_not=why_not)
        return plan_cleaning(self.context, timeline, options_of(self.context.options.cleaning), triggered=triggered)

    def _why_not_yet(self, timeline: Timeline, turn: Turn | None = None) -> str:
        """Say why a commit need not look for removable slices; empty if it must. ``turn``: that of a commit that is newer than the timeline."""
        cleans = [i.requested_time for i in timeline.completed if i.action is Action.CLEAN]
        compactions = [i.requested_time for i in timeline.commits if i.action is Action.COMMIT]
        new = [time for time in compactions if time > max(cleans, default="")]
        if not new:
            return "the metadata table was not compacted since its last clean"
        between = self.context.options.metadata.compact_after
        waits = 0 if turn is None else min(turn.waits(between), _BEFORE_COMPACTION - 1)
        # Archived instants are not counted.
        gathered = max(between, min(_COMPACTIONS * between, self.context.options.archival.min_commits))
        wanted = max(0, gathered - _BEFORE_COMPACTION) + waits
        since = (turn is not None) + sum(1 for i in timeline.completed if i.requested_time > min(new))
        return "" if since >= wanted else f"{since} of {wanted} instants since the compaction {min(new)}"


def options_of(data: CleaningOptions) -> CleaningOptions:
    """Return the cleaning options of a metadata table, derived from the data table's options."""
    return replace(
        data,
        commits=max(_LEAST_COMMITS, math.ceil(data.commits * _MORE)),
        hours=math.ceil(data.hours * _MORE),
        file_versions=math.ceil(data.file_versions * _MORE),
        max_commits=1,
        partitions="",
        partition_regex="",
        max_files=0,
    )
