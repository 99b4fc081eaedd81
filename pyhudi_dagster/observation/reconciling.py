"""Reconcile Dagster's events with the timelines: report instants without an event, and name events without a commit.

A commit is decided on the table's timeline, and its events are stored afterwards. An event is missing if Dagster's database was lost, if a run died
before its event, or if no sensor watched the table. An event has no commit if the commit was undone, or if the table was created again.

Events are stored in the order in which the commits completed. An older commit that is reported late becomes the newest event of its asset.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

import pyhudi as hudi
from pyhudi.errors import HudiError, TableNotFoundError
from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.orchestration import past_commits
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_core.orchestration.instant_times import moment_of, time_of
from pyhudi_core.orchestration.timeline_cursor import completion_of
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.lake.names import RECONCILE_TAG, name_of
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.reporting import events
from pyhudi_dagster.services import read_optimized
from pyhudi_dagster.services.service_definitions import HudiAssets, tables_of, views_of_tables
from pyhudi_dagster.timeline.identity import is_left_to_its_run
from pyhudi_dagster.timeline.reported_commits import Reported, materialized_since, reported_since

_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
_SKEW = timedelta(hours=1)
"""How far Dagster's clock may be behind a writer's clock."""
Event = dg.AssetMaterialization | dg.AssetObservation
Log = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result for one table.

    Attributes:
        asset: the key of its asset.
        table: its name in the lake.
        missing: requested times of completed instants without their events, oldest first.
        reported: number of events that were stored; 0 in a dry run.
        without_commit: completion times of events whose commit the table does not have.
        error: the error if the table could not be read, else empty.
    """

    asset: dg.AssetKey
    table: str
    missing: tuple[str, ...] = ()
    reported: int = 0
    without_commit: tuple[str, ...] = ()
    error: str = ""

    @property
    def agrees(self) -> bool:
        """Whether events and timeline agreed before anything was reported."""
        return not (self.missing or self.without_commit or self.error)


def reconcile(
    instance: dg.DagsterInstance,
    lake: HudiLakeResource,
    assets: HudiAssets,
    *,
    since: datetime | None = None,
    dry_run: bool = False,
    log: Log | None = None,
) -> list[Reconciled]:
    """Report every completed instant of the assets' tables that has no event, and find events without a commit.

    Archived commits are included. Unfinished runs report their own commits. A table that cannot be read does not stop the others.

    Args:
        instance: where the events are.
        lake: the lake resource of the assets.
        assets: assets of Hudi tables, read-optimized views included.
        since: only instants that completed after this moment (with a time zone); None for all. Each commit is read, so a long history takes long.
        dry_run: store nothing.
        log: stores an event; default: as an event without a run.

    Raises `InvalidOptionError` for a moment without a time zone, and as `build_hudi_services`.
    """
    if since is not None and since.tzinfo is None:
        raise definition_error(
            f"since={since.isoformat()} has no time zone", "Pass for example datetime(2026, 1, 1, tzinfo=UTC)."
        )
    views = views_of_tables(assets, "reconcile")
    how = _Reconciliation(
        instance, lake, views, since or _BEGINNING, dry_run, log or instance.report_runless_asset_event
    )
    return [how.of(info) for info in tables_of(assets, "reconcile")]


@dataclass(frozen=True, slots=True)
class _Reconciliation:
    """One reconciliation of several tables."""

    instance: dg.DagsterInstance
    lake: HudiLakeResource
    views: Mapping[str, dg.AssetKey]
    since: datetime
    dry_run: bool
    log: Log

    def of(self, info: HudiAssetInfo) -> Reconciled:
        """Reconcile one table."""
        try:
            return self._reconciled(info, self.lake.table(info.table, info.settings))
        except TableNotFoundError:
            return Reconciled(info.key, info.table)
        except HudiError as error:
            return Reconciled(info.key, info.table, error=str(error))

    def _reconciled(self, info: HudiAssetInfo, table: hudi.HudiTable) -> Reconciled:
        reported = self._reported(info.key)
        view = self.views.get(info.table)
        of_view = frozenset() if view is None else self._reported(view)
        known: set[str] = set()
        missing: list[past_commits.PastCommit] = []
        for past in self._completed(table):
            known.add(past.completion_time)
            if self._is_missing(past, info, reported) or self._view_misses(past, view, of_view):
                missing.append(past)
        missing.sort(key=lambda past: (past.completion_time, past.instant.requested_time))
        stored = 0
        for past in () if self.dry_run else missing:
            for event in self._events(table, past, info, reported, of_view):
                self.log(event)
                stored += 1
        # Only commits are searched in the archived timeline, so an older event of a clean or a rollback is ignored.
        oldest = min(map(completion_of, table.timeline.completed), default="")
        of_rows = {time for key in (info.key, view) if key is not None for time in self._materialized(key)}
        events = {time for time, _ in reported | of_view if self._is_in_time(table, time)}
        without = {time for time in events - known if time in of_rows or time >= oldest}
        times = tuple(past.instant.requested_time for past in missing)
        return Reconciled(info.key, info.table, times, stored, tuple(sorted(without)))

    def _reported(self, key: dg.AssetKey) -> frozenset[Reported]:
        """Return the commits and partitions of all events that were stored since the moment; their commits completed before."""
        return reported_since(self.instance, key, self.since - _SKEW)

    def _materialized(self, key: dg.AssetKey) -> Iterator[str]:
        """Yield the completion times in materializations."""
        return (time for time, _ in materialized_since(self.instance, key, self.since - _SKEW))

    def _completed(self, table: hudi.HudiTable) -> Iterator[past_commits.PastCommit]:
        """Yield the instants that completed since the moment, archived commits included, in no order."""
        after = time_of(table, self.since)
        for instant, commit in table.commits_with("", after):
            yield past_commits.PastCommit(instant, commit)
        timeline = table.timeline
        commits = set(timeline.commits)
        for instant in timeline.completed:
            if instant not in commits and completion_of(instant) > after:
                yield events.past_commit(table, instant)

    def _is_in_time(self, table: hudi.HudiTable, completion: str) -> bool:
        moment = moment_of(table, completion)
        return moment is not None and moment > self.since

    def _is_missing(self, past: past_commits.PastCommit, info: HudiAssetInfo, reported: frozenset[Reported]) -> bool:
        """Say whether an event of the instant is missing, and no run will store it."""
        return not events.is_reported(past, info, reported) and not is_left_to_its_run(self.instance, past.extras)

    def _view_misses(
        self, past: past_commits.PastCommit, view: dg.AssetKey | None, reported: frozenset[Reported]
    ) -> bool:
        return view is not None and read_optimized.shows_more(past) and (past.completion_time, None) not in reported

    def _events(
        self,
        table: hudi.HudiTable,
        past: past_commits.PastCommit,
        info: HudiAssetInfo,
        reported: frozenset[Reported],
        of_view: frozenset[Reported],
    ) -> Iterator[Event]:
        """Yield the missing events of one instant. New keys of dynamic partitions are added first."""
        if self._is_missing(past, info, reported):
            found = list(events.missing_events(table, past, info, reported))
            if info.partitions is not None:
                keys = [event.partition for event in found if event.partition is not None]
                for name, some in info.partitions.dynamic_keys(keys).items():
                    self.instance.add_dynamic_partitions(name, some)
            yield from found
        view = self.views.get(info.table)
        if view is not None and self._view_misses(past, view, of_view):
            yield read_optimized.materialization(table, past, info, view)


class ReconcileConfig(dg.Config):
    """The scope: everything, or instants that completed after an ISO time with its zone. A dry run stores nothing."""

    since: str = ""
    dry_run: bool = False


@refuses_wrong_types
def build_hudi_reconcile(lake: HudiLakeResource, assets: HudiAssets, *, name: str | None = None) -> dg.Definitions:
    """Return definitions with a job that runs `reconcile` for the assets. Merge them with the other definitions.

    Run the job after Dagster's database was lost. The output of the job shows, for each table, the missing events and the events without a commit. If
    a table cannot be read, the run fails after the other tables were reconciled.

    Args:
        lake: the lake resource of the assets.
        assets: assets of Hudi tables, read-optimized views included.
        name: the job's name. The default is ``hudi__reconcile``, or ``hudi__<lake>__reconcile`` if the resource key is not ``lake``.

    Raises `InvalidOptionError` as `build_hudi_services`.
    """
    lake_key = tables_of(assets, "build_hudi_reconcile")[0].lake
    views_of_tables(assets, "build_hudi_reconcile")
    named = name_of("reconcile", lake_key, name, "build_hudi_reconcile")

    # A code location refuses an op with the name of its job.
    @dg.op(
        name=f"{named}__tables",
        out=dg.Out(dg.Nothing),
        required_resource_keys={lake_key},
        tags={"dagster/kind/hudi": ""},
    )
    def run(context: dg.OpExecutionContext, config: ReconcileConfig) -> None:
        own = getattr(context.resources, lake_key)
        since = datetime.fromisoformat(config.since) if config.since else None
        found = reconcile(context.instance, own, assets, since=since, dry_run=config.dry_run, log=context.log_event)
        context.add_output_metadata({"hudi/reconciled": _table(found)})
        failed = [f"{each.table}: {each.error}" for each in found if each.error]
        if failed:
            raise dg.Failure(f"{len(failed)} tables could not be read. {'; '.join(failed)}", allow_retries=False)

    graph = dg.GraphDefinition(name=named, node_defs=[run])
    job = graph.to_job(
        description="Stores the events of commits that Dagster does not know, and names events without a commit.",
        executor_def=dg.in_process_executor,
        tags={RECONCILE_TAG: lake_key},
    )
    return dg.Definitions(jobs=[job], resources={lake_key: lake})


def _table(found: list[Reconciled]) -> dg.TableMetadataValue:
    names = ("table", "missing", "reported", "without_commit", "error")
    columns = [dg.TableColumn(name, "string") for name in names]
    records = [dg.TableRecord({name: _shown(getattr(each, name)) for name in names}) for each in found]
    return dg.MetadataValue.table(records=records, schema=dg.TableSchema(columns=columns))


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
