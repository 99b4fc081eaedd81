"""The timeline sensor: commits of other writers become materializations, and table services become observations.

The sensor reads timelines; it starts no JVM and requests no runs. Downstream assets run by their automation conditions. Dagster stores the events of
a tick before its cursor, so a tick may be repeated. An instant that already has an event is not reported again.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

import pyhudi as hudi
from pyhudi.errors import HudiError, TableNotFoundError
from pyhudi_core.orchestration import past_commits, table_looks
from pyhudi_core.orchestration.instant_times import moment_of
from pyhudi_core.orchestration.table_services import at_one_moment
from pyhudi_core.orchestration.timeline_cursor import TablePosition, TimelineCursor, before, completion_of
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.lake.names import RECONCILE_TAG
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.partitions.partition_values import DynamicKeys
from pyhudi_dagster.reporting import events
from pyhudi_dagster.reporting.checks import READABLE
from pyhudi_dagster.services import read_optimized
from pyhudi_dagster.services.read_optimized import Views
from pyhudi_dagster.services.service_policy import TICK_SECONDS
from pyhudi_dagster.services.ticks import ACTIVE
from pyhudi_dagster.timeline.identity import is_left_to_its_run
from pyhudi_dagster.timeline.reported_commits import Reported, reported_since, reported_until

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table at a look; ``look`` is the look as text. If the table has not changed, the other fields are empty."""

    look: str
    table: hudi.HudiTable | None = None
    timeline: hudi.Timeline | None = None


@dataclass(slots=True)
class TimelineTick:
    """One tick of the sensor.

    Attributes:
        context: the sensor's context. Its instance and its log are opened on first use, because a tick without changes does not need them.
        most: number of events after which the tick ends.
        views: assets of read-optimized views, by table; compactions are their materializations.
        events, notes: the events, and messages about tables without events.
        keys: keys of dynamic partitions in the events, by the name of their definition.
        reconciled: the job of `build_hudi_reconcile` with an active run; empty if there is none, None if not checked yet.
    """

    context: dg.SensorEvaluationContext
    lake: HudiLakeResource
    cursor: TimelineCursor
    most: int
    views: Views
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    keys: dict[str, list[str]] = field(default_factory=dict)
    reconciled: str | None = None

    @property
    def instance(self) -> dg.DagsterInstance:
        """Dagster's instance."""
        return self.context.instance

    def run(self, infos: Sequence[HudiAssetInfo]) -> None:
        """Report all tables; the tables that were read longest ago come first. Tables are read concurrently."""
        ended = time.monotonic() + TICK_SECONDS
        positions = self.cursor.positions
        order = sorted(infos, key=lambda each: positions[each.table].looked if each.table in positions else 0.0)
        for begin in range(0, len(order), table_looks.MOST_AT_ONCE):
            some = order[begin : begin + table_looks.MOST_AT_ONCE]
            found = table_looks.at_once(self._look, some) if self._goes_on(ended) else [None] * len(some)
            for info, seen in zip(some, found, strict=True):
                if seen is None or not self._goes_on(ended):
                    self.notes.append(f"{info.table}: waits for the next tick")
                    continue
                self._take(info, seen)

    def _goes_on(self, ended: float) -> bool:
        return time.monotonic() <= ended and len(self.events) < self.most

    def _look(self, info: HudiAssetInfo) -> SeenTable | HudiError:
        """Look at a table, with one request if nothing has changed since the last tick. Threads call this method; the method changes nothing."""
        try:
            position = self.cursor.positions.get(info.table)
            if position is not None and position.look:
                place = self.lake.location(info.table)
                same = table_looks.unchanged(place, dict(self.lake.storage_options), position.look)
                if same is not None:
                    return SeenTable(same)
            table = self.lake.table(info.table)
            timeline, look = table_looks.seen_now(table)
            return SeenTable(look, table, timeline)
        except HudiError as error:
            return error

    def _take(self, info: HudiAssetInfo, seen: SeenTable | HudiError) -> None:
        """Report the result of a look."""
        try:
            if isinstance(seen, HudiError):
                raise seen
            if seen.table is not None and seen.timeline is not None:
                self._report(info, at_one_moment(seen.table), seen.timeline, seen.look)
            else:
                position = self.cursor.positions[info.table]
                position.look, position.looked = seen.look, time.time()
        except TableNotFoundError:
            self.notes.append(f"{info.table}: the table does not exist yet")
        except HudiError as error:
            self._unreadable(info, error)

    def _report(self, info: HudiAssetInfo, table: hudi.HudiTable, timeline: hudi.Timeline, look: str) -> None:
        position = self.cursor.positions.get(info.table)
        if position is None:
            # Commits before the newest reported commit have been reported, or existed before the sensor.
            position = TablePosition(reported_until(self.instance, info.key))
        unreported = self._unreported(table, timeline, position)
        if unreported and self._is_reconciled(info.lake):
            self.notes.append(
                f"{info.table}: a run of {self.reconciled} reports its commits; the sensor goes on after it"
            )
            return
        known = events.known_size(self.instance, info.key) if unreported else None
        reported = self._reported(table, info, unreported)
        later: list[hudi.Instant] = []
        for place, past in enumerate(unreported):
            if len(self.events) >= self.most:
                later += [each.instant for each in unreported[place:]]
                break
            if is_left_to_its_run(self.instance, past.extras):
                later.append(past.instant)
                continue
            self.events += self._events(table, past, info, known, reported)
            self.events += self._of_view(table, past, info)
            position.reported(past.instant)
        position.waits_for([*timeline.pending, *later])
        position.looked = time.time()
        position.look = "" if later else look
        if position.failing:
            self.events.append(_readable(info, "The timeline can be read again."))
            position.failing = False
        self.cursor.positions[info.table] = position

    def _is_reconciled(self, lake: str) -> bool:
        """Say whether a run of `build_hudi_reconcile` waits or works.

        Both the run and the sensor read Dagster's events, and store events later. So a commit could get two events.
        """
        if self.reconciled is None:
            runs = self.instance.get_runs(dg.RunsFilter(tags={RECONCILE_TAG: lake}, statuses=ACTIVE), limit=1)
            self.reconciled = runs[0].job_name if runs else ""
        return bool(self.reconciled)

    def _unreported(
        self, table: hudi.HudiTable, timeline: hudi.Timeline, position: TablePosition
    ) -> list[past_commits.PastCommit]:
        """Return the instants to report, in the order of their completion. Commits that archival moved after the last tick come from the history."""
        found = {
            instant.group: events.past_commit(table, instant) for instant in position.unreported(timeline.completed)
        }
        oldest = min(map(completion_of, timeline.completed), default="")
        if position.watermark and timeline.has_history and oldest > before(position.watermark):
            for instant, commit in table.commits_with("", before(position.watermark)):
                if instant.group not in found and position.unreported([instant]):
                    found[instant.group] = past_commits.PastCommit(instant, commit)
        return sorted(found.values(), key=lambda past: (past.completion_time, past.instant.requested_time))

    def _reported(
        self, table: hudi.HudiTable, info: HudiAssetInfo, unreported: Sequence[past_commits.PastCommit]
    ) -> frozenset[Reported]:
        """Return the commits and partitions that events already report: events of a tick that ended before its cursor was stored, or of the run that
        made the commit.
        """
        since = moment_of(table, before(unreported[0].completion_time)) if unreported else None
        return frozenset() if since is None else reported_since(self.instance, info.key, since)

    def _events(
        self,
        table: hudi.HudiTable,
        past: past_commits.PastCommit,
        info: HudiAssetInfo,
        known: hudi.TableSize | None,
        reported: frozenset[Reported],
    ) -> list[dg.AssetMaterialization | dg.AssetObservation]:
        """Return the events of one instant that Dagster does not have yet."""
        found = list(events.missing_events(table, past, info, reported, known))
        if info.partitions is not None:
            keys = [event.partition for event in found if event.partition is not None]
            for name, some in info.partitions.dynamic_keys(keys).items():
                self.keys.setdefault(name, []).extend(some)
        return found

    def _of_view(
        self, table: hudi.HudiTable, past: past_commits.PastCommit, info: HudiAssetInfo
    ) -> Iterator[dg.AssetMaterialization]:
        """Yield the materialization of the table's read-optimized view, if the instant is a compaction that Dagster does not know."""
        view = self.views.get(info.table)
        since = moment_of(table, before(past.completion_time))
        if view is None or since is None or not read_optimized.shows_more(past):
            return
        if (past.completion_time, None) not in reported_since(self.instance, view, since):
            yield read_optimized.materialization(table, past, info, view)

    def _unreadable(self, info: HudiAssetInfo, error: HudiError) -> None:
        """Fail the check of a table that cannot be read, once. The other tables are not affected."""
        self.context.log.warning("the timeline of %s cannot be read: %s", info.table, error)
        self.notes.append(f"{info.table}: {error}")
        position = self.cursor.positions.get(info.table) or TablePosition(reported_until(self.instance, info.key))
        if not position.failing:
            entries = {"hudi/error": type(error).__name__, "hudi/hint": error.hint or ""}
            self.events.append(_readable(info, str(error), passed=False, entries=entries))
        position.failing, position.looked, position.look = True, time.time(), ""
        self.cursor.positions[info.table] = position

    def partition_requests(self) -> list[Any]:
        """Return the requests that add new keys of dynamic partitions."""
        if not self.keys:
            return []
        known = DynamicKeys(self.instance)
        new = {
            name: [key for key in dict.fromkeys(keys) if not known.has(name, key)] for name, keys in self.keys.items()
        }
        return [dg.DynamicPartitionsDefinition(name=name).build_add_request(keys) for name, keys in new.items() if keys]


def _readable(
    info: HudiAssetInfo, text: str, *, passed: bool = True, entries: dict[str, Any] | None = None
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=info.key, check_name=READABLE, passed=passed, description=text, metadata=entries or {}
    )


def tick_of(
    context: dg.SensorEvaluationContext, lake: HudiLakeResource, infos: Sequence[HudiAssetInfo], views: Views, most: int
) -> dg.SensorResult:
    """Read these tables, and return the report of the sensor."""
    started = time.monotonic()
    tick = TimelineTick(context, lake, TimelineCursor.read(context.cursor), most, views)
    tick.run(infos)
    notes = f" {'; '.join(tick.notes[:20])}" if tick.notes else ""
    seconds = time.monotonic() - started
    return dg.SensorResult(
        asset_events=tick.events,
        dynamic_partitions_requests=tick.partition_requests(),
        skip_reason=None if tick.events else f"No new instant in {len(infos)} tables ({seconds:.1f} s).{notes}",
        cursor=tick.cursor.text([info.table for info in infos]),
    )
