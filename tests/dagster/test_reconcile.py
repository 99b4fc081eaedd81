"""Reconciling stores the events that are missing, once, and names events whose commit is gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from support.dagster_services import definitions, do, filled, orders_asset

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.orchestration.instant_times import moment_of, time_of
from pyhudi_dagster import (
    HudiPartitions,
    build_hudi_checks,
    build_hudi_reconcile,
    build_hudi_timeline_sensor,
    hudi_asset,
    hudi_external_asset,
    hudi_read_optimized_asset,
    reconcile,
)

DAYS = HudiPartitions.daily("day", "2026-01-01", end_date="2026-01-11")
WEB = hudi_external_asset("web/events", partitions=DAYS)


def web_table(lake, *batches, **options):
    rows = pa.table({"id": ["a"], "day": ["2026-01-01"], "ts": [0]})
    table = hudi.create_table(
        lake.location("web/events"), schema=rows.schema, record_key="id", partition_by="day", options=options
    )
    for number, days in enumerate(batches):
        table.upsert(pa.table({"id": list(days), "day": list(days), "ts": [number] * len(days)}))
    return table


def materialized(instance, key):
    found = instance.fetch_materializations(dg.AssetKey.from_user_string(key), limit=1000).records
    events = [record.asset_materialization for record in reversed(found)]
    return [(event.tags["hudi/instant"], event.partition) for event in events]


def test_a_database_that_was_lost_gets_its_events_back_in_the_order_of_the_commits(lake, instance):
    @hudi_asset(record_key="id", partitions=DAYS)
    def days(context) -> pa.Table:
        return pa.table({"id": list(context.partition_keys), "day": list(context.partition_keys)})

    for key in ("2026-01-02", "2026-01-01"):
        assert dg.materialize([days], resources={"lake": lake}, instance=instance, partition_key=key).success
    before = materialized(instance, "days")
    with dg.DagsterInstance.ephemeral() as fresh:
        (found,) = reconcile(fresh, lake, [days])
        assert (len(found.missing), found.reported, found.without_commit) == (2, 2, ())
        assert materialized(fresh, "days") == before
        (again,) = reconcile(fresh, lake, [days])
        assert again.agrees


def test_nothing_is_stored_twice_and_only_what_is_missing_of_a_commit(lake, instance):
    table = web_table(lake, ["2026-01-01", "2026-01-02", "2026-01-03"])
    (commit,) = table.timeline.commits
    tags = {"hudi/instant": commit.requested_time, "hudi/completion": commit.completion_time or ""}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(dg.AssetKey.from_user_string("web/events"), partition="2026-01-02", tags=tags)
    )
    (found,) = reconcile(instance, lake, [WEB])
    assert found.reported == 2
    assert sorted(key for _, key in materialized(instance, "web/events")) == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert reconcile(instance, lake, [WEB])[0].agrees


def test_a_dry_run_says_what_is_missing_and_stores_nothing(lake, instance):
    table = web_table(lake, ["2026-01-01"], ["2026-01-02"])
    (found,) = reconcile(instance, lake, [WEB], dry_run=True)
    assert found.missing == tuple(commit.requested_time for commit in table.timeline.commits)
    assert found.reported == 0
    assert materialized(instance, "web/events") == []


def test_archived_commits_are_reported_too(lake, instance):
    options = {
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.metadata.compact.max.delta.commits": 1,
    }
    table = web_table(lake, *([f"2026-01-0{day}"] for day in range(1, 7)), **options)
    table.archival.run()
    assert len(list(table.timeline.commits)) < 6
    (found,) = reconcile(instance, lake, [WEB])
    assert len(found.missing) == 6
    assert [key for _, key in materialized(instance, "web/events")] == [f"2026-01-0{day}" for day in range(1, 7)]


def test_an_event_without_its_commit_is_named(lake, instance):
    web_table(lake, ["2026-01-01"])
    reconcile(instance, lake, [WEB])
    gone = {"hudi/instant": "20260102000000000", "hudi/completion": "20260102000000100"}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(dg.AssetKey.from_user_string("web/events"), partition="2026-01-02", tags=gone)
    )
    (found,) = reconcile(instance, lake, [WEB])
    assert (found.missing, found.without_commit) == ((), ("20260102000000100",))
    assert not found.agrees


def test_the_event_of_a_clean_that_was_archived_is_no_event_without_a_commit(lake, instance):
    table = web_table(lake, ["2026-01-01"], ["2026-01-02"])
    reconcile(instance, lake, [WEB])
    oldest = min(commit.requested_time for commit in table.timeline.commits)
    cleaned = {"hudi/instant": str(int(oldest) - 9), "hudi/completion": str(int(oldest) - 5)}
    instance.report_runless_asset_event(dg.AssetObservation(dg.AssetKey.from_user_string("web/events"), tags=cleaned))
    assert reconcile(instance, lake, [WEB])[0].agrees


def test_only_what_completed_since_a_moment_is_compared(lake, instance):
    web_table(lake, ["2026-01-01"])
    (found,) = reconcile(instance, lake, [WEB], since=datetime.now(UTC) + timedelta(hours=1))
    assert found.agrees
    (found,) = reconcile(instance, lake, [WEB], since=datetime.now(UTC) - timedelta(hours=1))
    assert found.reported == 1
    with pytest.raises(InvalidOptionError, match="no time zone"):
        reconcile(instance, lake, [WEB], since=datetime(2026, 1, 1))


def test_a_commit_of_a_run_that_is_not_finished_is_left_to_the_run(lake, instance):
    run = instance.create_run_for_job(
        dg.define_asset_job("now").resolve(asset_graph=_graph()), status=dg.DagsterRunStatus.STARTED
    )
    table = web_table(lake)
    rows = pa.table({"id": ["a"], "day": ["2026-01-01"], "ts": [1]})
    table.upsert(rows, extra_metadata={"dagster.run_id": run.run_id})
    assert reconcile(instance, lake, [WEB])[0].agrees


def _graph():
    @dg.asset
    def now(): ...

    return dg.Definitions(assets=[now]).resolve_asset_graph()


def test_compactions_are_observations_and_materialize_the_read_optimized_view(lake, instance):
    orders = orders_asset()
    view = hudi_read_optimized_asset(orders)
    table = filled(lake, orders, 2)
    table.compaction.run()
    (found,) = reconcile(instance, lake, [orders, view])
    assert len(found.missing) == 3
    assert len(materialized(instance, "orders")) == 2
    assert len(materialized(instance, "orders_ro")) == 1
    assert reconcile(instance, lake, [orders, view])[0].agrees


def test_a_table_that_cannot_be_read_does_not_stop_the_others(lake, instance):
    web_table(lake, ["2026-01-01"])
    broken = hudi_external_asset("web/broken")
    Path(lake.location("web/broken"), ".hoodie").mkdir(parents=True)
    Path(lake.location("web/broken"), ".hoodie/hoodie.properties").write_text("hoodie.table.version=8\n")
    absent = hudi_external_asset("web/absent")
    found = {each.table: each for each in reconcile(instance, lake, [broken, absent, WEB])}
    assert found["web/broken"].error
    assert found["web/absent"].agrees
    assert found["web/events"].reported == 1


def test_the_job_shows_what_it_found(lake, instance):
    web_table(lake, ["2026-01-01"])
    defs = dg.Definitions.merge(
        dg.Definitions(assets=[WEB], resources={"lake": lake}), build_hudi_reconcile(lake, [WEB])
    )
    config = {"ops": {"hudi__reconcile__tables": {"config": {"dry_run": True}}}}
    told = do(defs, instance, "hudi__reconcile", run_config=config)
    (record,) = told["hudi__reconcile__tables"]["hudi/reconciled"].records
    assert record.data["table"] == "web/events"
    assert record.data["reported"] == "0"
    assert materialized(instance, "web/events") == []
    do(defs, instance, "hudi__reconcile")
    assert len(materialized(instance, "web/events")) == 1


def test_a_code_location_with_all_builders_loads(lake):
    """Dagster compares the names of all jobs, ops, sensors and schedules only when a code location loads."""
    asset = orders_asset()
    location = dg.Definitions.merge(
        definitions(lake, asset),
        build_hudi_timeline_sensor(lake, [asset]),
        build_hudi_checks([asset], ["no_stuck_instants"], cron="0 * * * *"),
        build_hudi_reconcile(lake, [asset]),
    )
    dg.Definitions.validate_loadable(location)


def test_an_event_without_its_commit_is_named_although_it_is_older_than_the_timeline(lake, instance):
    """As after a restore: the event was stored a moment after the start of what is compared."""
    table = web_table(lake, ["2026-01-01"])
    begun = moment_of(table, table.timeline.commits[0].requested_time)
    gone = time_of(table, begun - timedelta(seconds=5))
    tags = {"hudi/instant": gone, "hudi/completion": gone}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(dg.AssetKey.from_user_string("web/events"), partition="2026-01-02", tags=tags)
    )
    (found,) = reconcile(instance, lake, [WEB], since=begun - timedelta(minutes=1), dry_run=True)
    assert found.without_commit == (gone,)


def test_new_keys_of_dynamic_dimensions_come_back_in_one_write(lake, instance, monkeypatch):
    rows = pa.table({"id": list("ab"), "day": ["2026-01-01"] * 2, "shop": ["berlin", "rome"]})
    hudi.create_table(lake.location("sales"), rows.schema, "id", ["day", "shop"]).upsert(rows)
    both = HudiPartitions.multi({"day": DAYS, "shop": HudiPartitions.dynamic("shop", "shops")})
    written, plain = [], instance.add_dynamic_partitions
    monkeypatch.setattr(instance, "add_dynamic_partitions", lambda *given: written.append(given) or plain(*given))
    reconcile(instance, lake, [hudi_external_asset("sales", partitions=both)])
    assert written == [("shops", ["berlin", "rome"])]
    assert list(instance.get_dynamic_partitions("shops")) == ["berlin", "rome"]
