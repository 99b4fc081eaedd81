"""The base of the services of a metadata table, and its cleaning and archival (specification, "Metadata Table" and "LSM Timeline").

Cleaning deletes the file slices that a compaction has replaced. Readers need only the newest state of the metadata table, so older slices are kept
only for readers that are still reading them. As many stay as in Hudi 1.0: a fifth more than the data table's policy, and at least 20 commits. As in
Hudi, a commit cleans only if the last compaction is some commits old. Only a compaction makes slices removable, and planning a clean costs as much
as a small commit. So there is one clean after every second compaction, shortly before the next: then most files can be deleted. If the timeline is
too short to show two compactions, there is a clean after each.

Archival has two limits more than the archival of a data table. Instants on the timeline of the data table stay, because that timeline decides which
log blocks count. Instants that were not compacted stay, because Hudi's readers do not look for them in the archived timeline.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pyhudi_core.metadata_table import names
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options.write_options import CleaningOptions
from pyhudi_core.services.archival.archival import Archival, ArchivalResult, archive, rules_of
from pyhudi_core.services.archival.limits import ArchivalPlan
from pyhudi_core.services.cleaning.clean_plan import CleaningPlan, PlannedClean
from pyhudi_core.services.cleaning.cleaning import Cleaning, CleaningResult
from pyhudi_core.services.cleaning.files_to_clean import plan_cleaning
from pyhudi_core.services.planned_service import P, PlannedService, R, W
from pyhudi_core.services.service import Execution, Turn
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.write.retrying import Retries

NONE = "the table has no metadata table"
_LEAST_COMMITS = 20
_MORE = 1.2
_BEFORE_COMPACTION = 2
_COMPACTIONS = 2


def place_of(context: TableContext) -> TableContext | None:
    """Return the metadata table that a table lists; None if there is none."""
    return next((place for place in context.companions if place.prefix == names.FOLDER), None)


class AtMetadataTable(PlannedService[P, W, R]):
    """A service with plans on the metadata table's timeline. It is made from the data table's context, and does nothing without a metadata table."""

    def __init__(self, context: TableContext) -> None:
        found = place_of(context)
        super().__init__(context if found is None else context.at(found))
        self.data = context
        self.exists = found is not None

    def schedule(self, *, triggered: bool = False) -> Instant | None:
        """Put a plan on the timeline of the metadata table; None if there is nothing to do, or no metadata table."""
        return super().schedule(triggered=triggered) if self.exists else None

    def _is_current(self, seen: Timeline, start: Timeline) -> bool:
        """Return False: the plan also depends on the timeline of the data table."""
        return False

    def _pending(self) -> list[Instant]:
        return super()._pending() if self.exists else []


class MetadataCleaning(AtMetadataTable[CleaningPlan, PlannedClean, CleaningResult], Cleaning):
    """Cleaning of the metadata table of one table. It is made from the data table's context."""

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
        """Say why a commit need not look for removable slices; empty if it must. ``turn``: the turn of a commit that
        is newer than the timeline.
        """
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


class MetadataArchival(Archival):
    """Archival of the metadata table of one table. It is made from the data table's context."""

    name = "metadata_archival"
    summary = "move old instants of the metadata table to its archived timeline"
    turns = ("archival.automatic",)

    def __init__(self, context: TableContext) -> None:
        found = place_of(context)
        super().__init__(context if found is None else context.at(found))
        self.exists = found is not None

    def plan(self) -> ArchivalPlan:
        """Return what `run` would archive now, and which limit keeps the other instants. Changes nothing."""
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
    builds = [i.requested_time for i in timeline if i.requested_time.startswith(names.INITIAL_INSTANTS)]
    return bool(builds) and f"{names.INITIAL_INSTANTS}000" not in builds
