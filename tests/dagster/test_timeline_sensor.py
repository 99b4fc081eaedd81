"""The timeline sensor reports every commit of every writer once, and starts no JVM."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from pathlib import Path

import dagster as dg
import psutil
import pyarrow as pa
import pytest
from support.dagster_services import filled, orders_asset, tick
from support.disk import contents
from support.golden import OTHER_VERSIONS, unpack
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.orchestration.incremental import changes_since
from pyhudi_core.orchestration.instant_times import parsed
from pyhudi_core.orchestration.timeline_cursor import TablePosition, TimelineCursor
from pyhudi_dagster import (
    Changes,
    HudiLakeResource,
    HudiPartitions,
    build_hudi_reconcile,
    build_hudi_timeline_sensor,
    hudi_asset,
    hudi_external_asset,
)

pytestmark = [pytest.mark.row("U10"), pytest.mark.row("R11")]
DAYS = HudiPartitions.daily("day", "2026-01-01", end_date="2026-01-11")


def rows(*days, number=1):
    return pa.table({"id": [f"{day}{number}" for day in days], "day": list(days), "ts": [number] * len(days)})


def web_table(lake, *batches, **options):
    """A table that somebody else writes, with one commit for each batch of days."""
    table = create_plain(
        lake.location("web/events"),
        schema=rows("2026-01-01").schema,
        record_key="id",
        partition_by="day",
        options=options,
    )
    for number, days in enumerate(batches):
        table.upsert(rows(*days, number=number))
    return table


def look(lake, instance, *assets, cursor=None, **arguments):
    """A tick, whose events are stored as the daemon does."""
    defs = dg.Definitions.merge(
        dg.Definitions(assets=list(assets), resources={"lake": lake}),
        build_hudi_timeline_sensor(lake, list(assets), **arguments),
    )
    result = tick(defs, instance, lake, cursor, "hudi__timeline")
    for event in result.asset_events:
        instance.report_runless_asset_event(event)
    return result


def told(result):
    return [(type(event).__name__, event.partition, event.tags["hudi/instant"]) for event in result.asset_events]


def test_a_foreign_commit_is_a_materialization_of_each_partition_that_it_changed(lake, instance):
    table = web_table(lake, ["2026-01-01", "2026-01-02"], ["2026-01-02"])
    events = hudi_external_asset("web/events", partitions=DAYS)
    first, second = (commit.requested_time for commit in table.timeline.commits)
    result = look(lake, instance, events)
    assert told(result) == [
        ("AssetMaterialization", "2026-01-01", first),
        ("AssetMaterialization", "2026-01-02", first),
        ("AssetMaterialization", "2026-01-02", second),
    ]
    again = look(lake, instance, events, cursor=result.cursor)
    assert not again.asset_events
    assert again.skip_message.startswith("No new instant in 1 tables")


def test_a_table_service_is_an_observation_which_starts_nothing_downstream(lake, instance):
    asset = orders_asset(None)
    table = filled(lake, asset, 3)
    begin = look(lake, instance, asset).cursor
    table.compaction.run()
    (event,) = look(lake, instance, asset, cursor=begin).asset_events
    assert isinstance(event, dg.AssetObservation)
    assert event.metadata["hudi/operation"].value == "compact"


def test_a_runs_own_commits_are_reported_by_the_run_and_by_the_sensor_only_if_it_died_before_its_event(
    run, lake, instance, orders, asset_of
):
    asset = asset_of(orders(1))
    run(asset)
    assert not look(lake, instance, asset).asset_events

    killed = instance.create_run_for_job(dg.GraphDefinition("killed").to_job(), status=dg.DagsterRunStatus.STARTED)
    table = lake.table("orders")
    table.upsert(orders(2), extra_metadata={"dagster.run_id": killed.run_id, "dagster.asset_key": "orders"})
    waiting = look(lake, instance, asset)
    assert not waiting.asset_events
    instance.report_run_failed(instance.get_run_by_id(killed.run_id))
    (event,) = look(lake, instance, asset, cursor=waiting.cursor).asset_events
    assert event.tags["hudi/instant"] == table.timeline.commits[-1].requested_time
    assert event.metadata["hudi/run"].value == killed.run_id


def test_events_that_were_stored_before_the_cursor_was_are_not_stored_twice(lake, instance):
    web_table(lake, ["2026-01-01", "2026-01-02"])
    events = hudi_external_asset("web/events", partitions=DAYS)
    (first, _) = look(lake, dg.DagsterInstance.ephemeral(), events).asset_events
    instance.report_runless_asset_event(first)  # the daemon died after the first of two events
    assert [partition for _, partition, _ in told(look(lake, instance, events))] == ["2026-01-02"]
    assert not look(lake, instance, events).asset_events


@pytest.mark.parametrize(
    ("status", "waits"), [(dg.DagsterRunStatus.STARTED, True), (dg.DagsterRunStatus.SUCCESS, False)]
)
def test_the_sensor_waits_while_the_job_reconcile_works_so_that_no_commit_has_two_events(lake, instance, status, waits):
    web_table(lake, ["2026-01-01"])
    web = hudi_external_asset("web/events", partitions=DAYS)
    job = build_hudi_reconcile(lake, [web]).resolve_job_def("hudi__reconcile")
    run = instance.create_run_for_job(job, status=status, tags=job.tags)
    result = look(lake, instance, web)
    assert bool(result.asset_events) is not waits
    if waits:
        assert "a run of hudi__reconcile reports its commits" in result.skip_message
        instance.report_run_canceled(run)
        assert look(lake, instance, web, cursor=result.cursor).asset_events, "nothing was skipped"


def test_commits_that_were_archived_before_the_sensor_saw_them_are_reported(lake, instance):
    options = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    table = web_table(lake, ["2026-01-01"], **options)
    events = hudi_external_asset("web/events", partitions=DAYS)
    begin = look(lake, instance, events).cursor
    for number in range(1, 7):
        table.upsert(rows("2026-01-02", number=number))
    assert len(table.timeline.commits) < 6
    result = look(lake, instance, events, cursor=begin)
    assert len(result.asset_events) == 6
    times = [event.tags["hudi/completion"] for event in result.asset_events]
    assert times == sorted(times)


@pytest.mark.slow
def test_a_tick_has_a_limit_and_the_next_one_continues(lake, instance):
    web_table(lake, ["2026-01-01"], ["2026-01-02"], ["2026-01-03"])
    events = hudi_external_asset("web/events", partitions=DAYS)
    cursor, seen = None, []
    for _ in range(3):
        result = look(lake, instance, events, cursor=cursor, max_events_per_tick=1)
        cursor, seen = result.cursor, seen + [partition for _, partition, _ in told(result)]
    assert seen == ["2026-01-01", "2026-01-02", "2026-01-03"]


def test_without_a_cursor_the_sensor_begins_at_the_newest_event(lake, instance):
    table = web_table(lake, ["2026-01-01"], ["2026-01-02"])
    events = hudi_external_asset("web/events", partitions=DAYS)
    look(lake, instance, events)
    table.upsert(rows("2026-01-03"))
    assert [partition for _, partition, _ in told(look(lake, instance, events, cursor="damaged"))] == ["2026-01-03"]


def test_new_dynamic_partitions_are_added_in_the_tick_that_reports_them(lake, instance):
    web_table(lake, ["b", "a"])
    events = hudi_external_asset("web/events", partitions=HudiPartitions.dynamic("day", "days"))
    (request,) = look(lake, instance, events).dynamic_partitions_requests
    assert (request.partitions_def_name, list(request.partition_keys)) == ("days", ["a", "b"])


@pytest.mark.parametrize("text", ["a...b", "a\nb", "a|b", "ü [x], y"])
def test_no_value_of_a_dynamic_partition_stops_a_tick(lake, instance, text):
    web_table(lake, [text])
    events = hudi_external_asset("web/events", partitions=HudiPartitions.dynamic("day", "days"))
    found = look(lake, instance, events)
    assert [list(request.partition_keys) for request in found.dynamic_partitions_requests] == [[text]]
    assert [partition for _, partition, _ in told(found)] == [text]
    instance.add_dynamic_partitions("days", [text])
    for event in found.asset_events:
        instance.report_runless_asset_event(event)

    pair = {"day": HudiPartitions.dynamic("day", "days"), "id": HudiPartitions.dynamic("id", "ids")}
    create_plain(lake.location("both"), rows("a").schema, "id", ["day", "id"]).upsert(rows(text))
    both = look(lake, instance, hudi_external_asset("both", partitions=HudiPartitions.multi(pair)))
    assert [partition is None for _, partition, _ in told(both)] == ["|" in text]


def test_new_keys_of_a_dynamic_dimension_are_added_too(lake, instance):
    twice = HudiPartitions.dynamic("day", "days"), HudiPartitions.dynamic("ts", "times")
    table = create_plain(lake.location("both"), rows("a").schema, "id", ["day", "ts"])
    table.upsert(rows("a", "b", number=7))
    both = hudi_external_asset("both", partitions=HudiPartitions.multi({"day": twice[0], "ts": twice[1]}))
    sales = HudiPartitions.multi({"day": DAYS, "shop": HudiPartitions.dynamic("id", "shops")})
    create_plain(lake.location("sales"), rows("a").schema, "id", ["day", "id"]).upsert(rows("2026-01-01"))
    requests = look(lake, instance, both, hudi_external_asset("sales", partitions=sales)).dynamic_partitions_requests
    found = {request.partitions_def_name: list(request.partition_keys) for request in requests}
    assert found == {"days": ["a", "b"], "times": ["7"], "shops": ["2026-01-011"]}


def test_the_keys_of_a_large_commit_are_one_question_to_the_database(lake, instance, monkeypatch):
    names = [f"k{number}" for number in range(40)]
    web_table(lake, names)
    instance.add_dynamic_partitions("days", names[:10])
    asked = []
    for name in ("has_dynamic_partition", "get_dynamic_partitions"):
        plain = getattr(instance, name)
        monkeypatch.setattr(instance, name, lambda *given, plain=plain: asked.append(given) or plain(*given))
    events = hudi_external_asset("web/events", partitions=HudiPartitions.dynamic("day", "days"))
    (request,) = look(lake, instance, events).dynamic_partitions_requests
    assert len(request.partition_keys) == 30
    assert asked == [("days",)]


def test_two_unreachable_tables_fail_their_checks_once_and_the_third_is_reported(lake, instance):
    assets = [orders_asset(None, key=name) for name in ("one", "two", "well")]
    for asset in assets:
        filled(lake, asset, 1)
    names = {name: Path(lake.location(name), ".hoodie/hoodie.properties") for name in ("one", "two")}
    saved = {name: path.read_bytes() for name, path in names.items()}
    for path in names.values():
        path.write_text("hoodie.table.version=three")

    result = look(lake, instance, *assets)
    checks = [event for event in result.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    assert [(check.asset_key.path, check.check_name, check.passed) for check in checks] == [
        (["one"], "timeline_readable", False),
        (["two"], "timeline_readable", False),
    ]
    assert [event.asset_key.path for event in result.asset_events if event not in checks] == [["well"]]
    assert not look(lake, instance, *assets, cursor=result.cursor).asset_events

    for name, path in names.items():
        path.write_bytes(saved[name])
    back = look(lake, instance, *assets, cursor=result.cursor).asset_events
    assert [event.passed for event in back if isinstance(event, dg.AssetCheckEvaluation)] == [True, True]
    assert len([event for event in back if isinstance(event, dg.AssetMaterialization)]) == 2


def test_an_object_store_that_cannot_be_reached_is_a_red_check_and_no_dead_sensor(instance):
    nobody = {
        "endpoint_url": "http://127.0.0.1:9",
        "access_key_id": "a",
        "secret_access_key": "b",
        "region": "eu-west-1",
    }
    away = HudiLakeResource(warehouse="s3://lake", storage_options=nobody)
    asset = orders_asset(None)
    first = look(away, instance, asset)
    (check,) = first.asset_events
    assert (check.check_name, check.passed, check.metadata["hudi/error"].value) == (
        "timeline_readable",
        False,
        "StorageError",
    )
    assert "Check the storage option endpoint_url" in check.metadata["hudi/hint"].value
    again = look(away, instance, asset, cursor=first.cursor)
    assert not again.asset_events
    assert "could not be reached" in again.skip_message


def test_a_tick_of_the_timeline_starts_no_jvm(lake, instance):
    web_table(lake, ["2026-01-01"])
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    assert look(lake, instance, hudi_external_asset("web/events")).asset_events
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))])
def test_partition_sensor_watermark_skips_nothing(seed):
    """Commits that begin, complete and become visible in any order, with clocks up to 50 minutes behind, are each reported once."""
    chance, now = random.Random(seed), parsed("20260101000000000")
    commits = []
    for number in range(200):
        begun = now + timedelta(minutes=chance.uniform(0, 1000), microseconds=number * 1000)
        visible = begun + timedelta(minutes=chance.choice([0.1, 1, 300]))
        completion = visible - timedelta(minutes=chance.uniform(0, 50))
        commits.append((begun, visible, max(completion, begun + timedelta(milliseconds=1))))

    def text(moment):
        return moment.strftime("%Y%m%d%H%M%S%f")[:17]

    reported, cursor = [], None
    for minutes in range(0, 1400, 7):
        at = now + timedelta(minutes=minutes)
        timeline = []
        for begun, visible, completion in commits:
            state = hudi.State.COMPLETED if visible <= at else hudi.State.INFLIGHT
            if begun <= at:
                done = text(completion) if visible <= at else None
                timeline.append(hudi.Instant(text(begun), hudi.Action.COMMIT, state, done))
        read = TimelineCursor.read(cursor)
        position = read.positions.setdefault("t", TablePosition())
        for instant in position.unreported(timeline):
            reported.append(instant.requested_time)
            position.reported(instant)
        position.waits_for([instant for instant in timeline if not instant.is_completed])
        cursor = read.text(["t"])
    assert sorted(reported) == sorted(text(begun) for begun, _, _ in commits)


def test_a_savepoint_hides_no_commit_of_its_requested_time():
    commit = hudi.Instant("20260101000000000", hudi.Action.COMMIT, hudi.State.COMPLETED, "20260101000001000")
    savepoint = hudi.Instant("20260101000000000", hudi.Action.SAVEPOINT, hudi.State.COMPLETED, "20260101000002000")
    position = TablePosition()
    position.reported(savepoint)
    position.waits_for([commit])
    read = TimelineCursor.read(TimelineCursor({"t": position}).text(["t"])).positions["t"]
    assert read.unreported([commit, savepoint]) == [commit]


def test_an_external_table_of_version_6_is_reported_and_read(lake, instance):
    location = Path(lake.location("older"))
    location.parent.mkdir(parents=True)
    unpack("hudi-0.15.0/mor_avro", location, OTHER_VERSIONS)
    table = lake.table("older")
    reported = look(lake, instance, hudi_external_asset("older")).asset_events
    newest = table.timeline.commits[-1]
    assert reported[-1].tags["dagster/data_version"] == newest.completion_time
    places = [Path(each.metadata["hudi/commit_url"].path) for each in reported if "hudi/commit_url" in each.metadata]
    assert places
    assert all(place.is_file() for place in places), "the files of version 6 are in .hoodie itself"
    changes = changes_since("older", table, None)
    assert (changes.until, changes.to_arrow().num_rows) == (newest.requested_time, 115)
    (location / ".hoodie" / f"{int(newest.requested_time) - 1}.deltacommit.requested").touch()
    held = changes_since("older", lake.table("older"), None)
    assert (held.until, held.backlog.commits) == (
        table.timeline.commits[-2].requested_time,
        changes.backlog.commits - 1,
    )
    assert held.to_arrow().num_rows > 0


def test_a_table_of_version_6_says_what_works_once_when_it_is_opened_and_in_its_events(lake, instance, caplog):
    location = Path(lake.location("older"))
    location.parent.mkdir(parents=True)
    unpack("hudi-0.15.0/cow_plain", location, OTHER_VERSIONS)
    for _ in range(2):
        lake.table("older")
    [told] = [each.getMessage() for each in caplog.records if "version 6" in each.getMessage()]
    assert "Reads of it work" in told
    assert "pyhudi upgrade" in told
    (newest, *_) = reversed(look(lake, instance, hudi_external_asset("older")).asset_events)
    assert "Reads of it work" in newest.metadata["hudi/only_read"].value


def test_an_asset_of_a_table_of_version_6_is_refused_before_its_function_is_called(lake, instance):
    location = Path(lake.location("older"))
    location.parent.mkdir(parents=True)
    unpack("hudi-0.15.0/cow_plain", location, OTHER_VERSIONS)

    @hudi_asset(record_key="id", ordering="ts")
    def older() -> pa.Table:
        pytest.fail("its rows cannot be written")

    before = contents(str(location))
    ended = dg.materialize([older], instance=instance, resources={"lake": lake}, raise_on_error=False)
    (failure,) = [event for event in ended.all_events if event.is_step_failure]
    error = str(failure.event_specific_data.error)
    assert "TableVersionError" in error
    assert "pyhudi upgrade" in error
    assert contents(str(location)) == before


@pytest.mark.slow
def test_an_external_table_is_read_by_an_incremental_asset(run, lake):
    web_table(lake, ["2026-01-01", "2026-01-02"])
    events = hudi_external_asset("web/events")

    @hudi_asset(record_key="id", changes_of={"web": events})
    def copy(web: Changes) -> pa.Table:
        return web.to_arrow()

    run(copy)
    assert lake.table("copy").scan().to_arrow().num_rows == 2


def test_an_external_asset_that_cannot_work_fails_at_load(lake):
    with pytest.raises(InvalidOptionError, match="The external asset web/events cannot take partitions_def="):
        hudi_external_asset("web/events", partitions_def=DAYS.definition)
    with pytest.raises(InvalidOptionError, match="minimum_interval_seconds=0"):
        build_hudi_timeline_sensor(lake, [hudi_external_asset("web/events")], minimum_interval_seconds=0)


def test_times_of_a_timeline_in_local_time_are_the_moments_they_mean(lake, instance, monkeypatch):
    """Hudi's tables have the wall clock of their writers by default."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        asset = orders_asset(None, options={"hoodie.table.timeline.timezone": "LOCAL"})
        table = filled(lake, asset, 1)
        assert table.config.timeline_timezone == "LOCAL"
        (event,) = look(lake, instance, asset).asset_events
        told = event.metadata["hudi/completion_time"].value
        assert abs(told - time.time()) < 600
        assert not look(lake, instance, asset).asset_events, "the events of an hour ago are found by the moment"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("running", [True, False])
def test_the_sensor_runs_from_the_start_only_if_it_is_asked_to(lake, running):
    made = build_hudi_timeline_sensor(lake, [orders_asset(None)], running=running)
    (sensor,) = made.sensors
    assert (sensor.default_status is dg.DefaultSensorStatus.RUNNING) is running
