"""Rows for partitions outside the run: what Dagster is told, and what it then shows."""

import dagster as dg
import pyarrow as pa
import pytest

import pyhudi_dagster.reporting.late_data
from pyhudi_dagster import HudiIOManager, HudiPartitions

KEY = dg.AssetKey("orders")
DAYS = HudiPartitions.daily("day", "2026-01-01", end_date="2026-02-01")
OLD, OWN, AHEAD = "2026-01-01", "2026-01-05", "2026-01-09"


@pytest.fixture
def instance():
    return dg.DagsterInstance.ephemeral()


@pytest.fixture
def source(asset_of, orders):
    """A row of the run's own days, and of the days in the tag ``late``; the tag ``fail`` makes the run fail before."""

    def rows(context):
        if context.run.tags.get("fail"):
            raise RuntimeError("the source is down")
        days = [*context.partition_keys, *filter(None, context.run.tags.get("late", "").split(","))]
        return pa.concat_tables(orders(index, day=day) for index, day in enumerate(days))

    return asset_of(rows, partitions=DAYS, on_foreign_rows="allow")


@pytest.fixture
def events(instance):
    """The newest events first, of one kind, of one partition."""

    def found(kind, partition, asset=KEY):
        fetch = instance.fetch_materializations if kind == "materialization" else instance.fetch_observations
        return fetch(dg.AssetRecordsFilter(asset, asset_partitions=[partition]), limit=10).records

    return found


@pytest.fixture
def status(instance):
    def of(*days):
        found = instance.get_status_by_partition(KEY, days, DAYS.definition)
        return [found[day].value if found[day] else None for day in days]

    return of


def test_late_rows_of_a_partition_that_ran_are_a_new_version_of_it_outside_of_any_run(run, source, events, status):
    run(source, partition_key=OLD)
    result = run(source, partition_key=OWN, tags={"late": OLD})

    (own,) = result.get_asset_materialization_events()
    newest = events("materialization", OLD)[0]
    late = newest.asset_materialization
    assert own.partition == OWN
    assert newest.run_id == ""
    assert late.tags["hudi/instant"] == own.materialization.tags["hudi/instant"]
    assert late.tags["dagster/data_version"] == own.materialization.tags["dagster/data_version"]
    assert late.metadata["hudi/late_data"].value is True
    assert late.metadata["hudi/run"].value == result.run_id
    assert late.metadata["dagster/partition_row_count"].value == 2
    assert status(OLD, OWN) == ["MATERIALIZED", "MATERIALIZED"]


def test_a_partition_that_never_ran_does_not_turn_green(run, source, events, status):
    result = run(source, partition_key=OWN, tags={"late": AHEAD})

    assert not events("materialization", AHEAD)
    (observed,) = events("observation", AHEAD)
    assert observed.run_id == result.run_id
    facts = observed.event_log_entry.asset_observation.metadata
    assert facts["hudi/rows_inserted"].value == 1
    assert status(OWN, AHEAD) == ["MATERIALIZED", None]


def test_a_partition_whose_last_run_failed_stays_red(run, source, events, status):
    run(source, partition_key=OLD)
    run(source, partition_key=OLD, tags={"fail": "yes"}, raise_on_error=False)
    run(source, partition_key=OWN, tags={"late": OLD})

    assert status(OLD) == ["FAILED"]
    assert len(events("observation", OLD)) == 1


def test_a_partition_that_fails_after_late_rows_came_turns_red(run, lake, instance, source, status):
    run(source, partition_key=OLD)
    job = dg.Definitions(
        assets=[source], resources={"lake": lake}, jobs=[dg.define_asset_job("one", "orders")]
    ).resolve_job_def("one")
    running = instance.create_run_for_job(
        job, tags={"dagster/partition": OLD}, status=dg.DagsterRunStatus.STARTED, asset_selection={KEY}
    )
    run(source, partition_key=OWN, tags={"late": OLD})
    assert status(OLD) == ["IN_PROGRESS"]
    instance.report_run_failed(running)
    assert status(OLD) == ["FAILED"]


def test_events_of_a_backfills_runs_are_about_the_partitions_of_the_runs_alone(run, instance, source):
    run(source, partition_key=OLD)
    for day in ("2026-01-02", "2026-01-03"):
        run(source, partition_key=day, tags={"late": f"{OLD},{AHEAD}", "dagster/backfill": "b1"})

    # as Dagster counts the progress of a backfill: materializations in runs that carry its tag
    ids = {run.run_id for run in instance.get_runs() if run.tags.get("dagster/backfill") == "b1"}
    counted = {each.partition_key for each in instance.fetch_materializations(KEY, 100).records if each.run_id in ids}
    assert counted == {"2026-01-02", "2026-01-03"}


def test_the_newest_event_of_the_asset_is_the_runs_own(run, instance, source):
    run(source, partition_key=OLD)
    run(source, partition_key=OWN, tags={"late": OLD})
    assert instance.get_latest_materialization_event(KEY).asset_materialization.partition == OWN


@pytest.fixture
def dies_after_report(monkeypatch):
    """From the call on, the worker dies once, when it has reported late rows."""
    real, pending = pyhudi_dagster.reporting.late_data.report_late, [True]

    def report(*arguments):
        real(*arguments)
        if pending and pending.pop():
            raise ConnectionError("the worker is gone")

    return lambda: monkeypatch.setattr("pyhudi_dagster.reporting.step_events.report_late", report)


@pytest.mark.parametrize("late", [OLD, AHEAD])
def test_a_retry_that_adopts_the_commit_does_not_report_late_rows_twice(run, source, events, dies_after_report, late):
    run(source, partition_key=OLD)
    dies_after_report()
    failed = run(source, partition_key=OWN, tags={"late": late}, raise_on_error=False)
    tags = {"late": late, "dagster/parent_run_id": failed.run_id, "dagster/is_resume_retry": "true"}
    assert run(source, partition_key=OWN, tags=tags).success

    told = [each for kind in ("materialization", "observation") for each in events(kind, late)]
    assert len(told) == 1 + (late == OLD)


@pytest.mark.parametrize("ran_before", [True, False])
def test_a_retry_says_nothing_of_a_late_partition_that_has_run_since(
    run, source, events, dies_after_report, ran_before
):
    if ran_before:
        run(source, partition_key=OLD)
    dies_after_report()
    failed = run(source, partition_key=OWN, tags={"late": OLD}, raise_on_error=False)
    assert not failed.success
    run(source, partition_key=OLD)

    def told():
        return [each.storage_id for kind in ("materialization", "observation") for each in events(kind, OLD)]

    before = told()
    tags = {"late": OLD, "dagster/parent_run_id": failed.run_id, "dagster/is_resume_retry": "true"}
    assert run(source, partition_key=OWN, tags=tags).success
    assert len(before) == 2 + ran_before
    assert told() == before


def test_the_io_manager_reports_late_rows_alike(lake, instance, orders, events):
    @dg.asset(
        name="orders",
        metadata={"record_key": "id", "ordering": "ts", "partition_by": "day", "on_foreign_rows": "allow"},
        partitions_def=DAYS.definition,
    )
    def source(context) -> pa.Table:
        return pa.concat_tables([orders(1, day=context.partition_key), orders(2, day=OLD)])

    for day in (OLD, OWN):
        dg.materialize(
            [source], partition_key=day, instance=instance, resources={"io_manager": HudiIOManager(lake=lake)}
        )
    assert [each.run_id == "" for each in events("materialization", OLD)] == [True, False]
