"""Assets that read `Changes`: commits that no run reported, gaps, the backlog, and positions as values."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from support.incremental import DAYS, SHORT, commits, foreign_commits, half, ids, newest

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.orchestration import checkpoints
from pyhudi_core.orchestration.checkpoints import Position, Positions
from pyhudi_core.orchestration.errors import CheckpointGapError
from pyhudi_core.orchestration.incremental import Reader, changes_from
from pyhudi_dagster import Changes, hudi_asset
from pyhudi_dagster.reporting import events

# --- a commit that was never reported


@pytest.fixture
def crash_before_the_event(monkeypatch):
    """Add True: the next run dies between its commit and its event."""
    real, pending = events.report, []

    def crash(*arguments):
        if pending and pending.pop():
            raise ConnectionError("the worker is gone")
        return real(*arguments)

    monkeypatch.setattr(events, "report", crash)
    return pending


def test_a_new_run_reports_the_commit_of_a_run_that_died_before_its_event(
    run, lake, orders, asset_of, copy, crash_before_the_event
):
    run(asset_of(orders(1, amount=10.0)))
    crash_before_the_event.append(True)
    failed = run(copy, raise_on_error=False)
    assert not failed.success

    (event,) = run(copy).get_asset_materialization_events()
    (commit,) = commits(lake.table("copy"))
    assert event.materialization.tags["hudi/instant"] == commit.requested_time
    assert event.materialization.tags["dagster/data_version"] == commit.completion_time
    assert event.materialization.metadata["hudi/adopted"].value is True
    assert newest(lake.table("copy")).extra["dagster.run_id"] == failed.run_id
    assert not run(copy).get_asset_materialization_events(), "it is reported once"


def test_a_new_run_reports_the_unreported_commit_past_other_commits_and_archival(
    run, lake, orders, asset_of, copy, crash_before_the_event
):
    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    run(asset_of(orders(2, amount=10.0)))
    crash_before_the_event.append(True)
    run(copy, raise_on_error=False)
    unreported = commits(lake.table("copy"))[-1]
    run(asset_of(orders(3, amount=1.0)))
    assert not run(copy).get_asset_materialization_events()
    assert newest(lake.table("copy")).is_empty
    foreign_commits(lake.table("copy"), orders)

    (event,) = run(copy).get_asset_materialization_events()
    assert event.materialization.tags["hudi/instant"] == unreported.requested_time
    assert not run(copy).get_asset_materialization_events()


def test_a_new_run_reports_the_unreported_commit_of_its_own_partitions_alone(
    run, orders, asset_of, daily, crash_before_the_event
):
    run(asset_of(pa.concat_tables([orders(1, day=DAYS[0]), orders(2, day=DAYS[1])])))
    crash_before_the_event.append(True)
    run(daily, partition_key=DAYS[0], raise_on_error=False)
    run(daily, partition_key=DAYS[1])

    assert not run(daily, partition_key=DAYS[1]).get_asset_materialization_events()
    (event,) = run(daily, partition_key=DAYS[0]).get_asset_materialization_events()
    assert event.partition == DAYS[0]
    assert event.materialization.metadata["hudi/adopted"].value is True
    for day in DAYS[:2]:
        assert not run(daily, partition_key=day).get_asset_materialization_events()


def test_a_new_run_reports_the_unreported_commit_of_a_range_for_each_of_its_partitions(
    run, orders, asset_of, daily, crash_before_the_event
):
    first_two = {"dagster/asset_partition_range_start": DAYS[0], "dagster/asset_partition_range_end": DAYS[1]}
    run(asset_of(pa.concat_tables([orders(1, day=DAYS[0]), orders(2, day=DAYS[1])])))
    crash_before_the_event.append(True)
    run(daily, tags=first_two, raise_on_error=False)

    assert [event.partition for event in run(daily, tags=first_two).get_asset_materialization_events()] == [*DAYS[:2]]
    assert not run(daily, tags=first_two).get_asset_materialization_events()


def test_a_commit_of_another_asset_of_the_table_is_not_reported(run, orders, asset_of, crash_before_the_event):
    run(asset_of(orders(1, 2, 3)))
    run(half("odd", 1))
    crash_before_the_event.append(True)
    run(half("even", 0), raise_on_error=False)
    assert not run(half("odd", 1)).get_asset_materialization_events()
    assert len(run(half("even", 0)).get_asset_materialization_events()) == 1


# --- gaps


@pytest.fixture
def lost(run, lake, orders, asset_of, copy, tmp_path):
    """The history of the upstream table, which holds commits that `copy` has not read, is damaged; a copy of it is in ``tmp_path``."""
    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    upstream = hudi.open_table(lake.table("orders").location, options=SHORT)
    for number in range(2, 8):
        upstream.upsert(orders(number, amount=10.0))
    assert upstream.timeline.has_history
    history = Path(lake.table("orders").location, ".hoodie/timeline/history")
    shutil.copytree(history, tmp_path / "history")
    for manifest in history.glob("manifest_*"):
        manifest.write_bytes(b"{")
    return copy


def test_a_gap_fails_the_run_with_a_hint_that_names_the_way_out(run, lake, lost):
    result = run(lost, raise_on_error=False)
    error = str(result.failure_data_for_node("copy").error)
    assert "CheckpointGapError" in error
    assert "hudi/accept_gap" in error
    assert "hudi/accept_gap_by" in error
    assert len(commits(lake.table("copy"))) == 1


def test_a_gap_names_the_option_that_would_have_kept_the_changes(lake, orders, tmp_path):
    """A run that reads up to an older commit, as the runs of a partitioned asset do."""
    cleaning = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": 1}
    table = hudi.create_table(str(tmp_path / "cleaned"), orders(1).schema, "id", options=cleaning)
    _, second, *_ = [table.upsert(orders(1, amount=float(number))) for number in range(4)]
    changes = changes_from("orders", table, Positions(), Reader("copy"), until=second.completion_time)
    with pytest.raises(
        CheckpointGapError, match="files were cleaned.*hudi/accept_gap.*raise hoodie.clean.commits.retained"
    ):
        changes.to_arrow()


def test_an_accepted_gap_is_read_over_and_recorded(run, lake, lost):
    result = run(lost, tags={"hudi/accept_gap": "read_all", "hudi/accept_gap_by": "anna: history was lost"})

    assert result.success
    table = lake.table("copy")
    assert ids(table) == [1, 2, 3, 4, 5, 6, 7]
    gap = json.loads(newest(table).extra["pyhudi.gap.orders"])
    assert (gap["how"], gap["by"], gap["run_id"]) == ("read_all", "anna: history was lost", result.run_id)
    assert gap["after"] < gap["until"] == commits(lake.table("orders"))[-1].completion_time
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["hudi/gap_accepted"].value == [gap]


def test_a_gap_can_be_skipped_and_the_next_run_goes_on_from_there(run, lake, orders, asset_of, lost, tmp_path):
    run(lost, tags={"hudi/accept_gap": "skip", "hudi/accept_gap_by": "anna"})
    table = lake.table("copy")
    assert ids(table) == [1]
    assert json.loads(newest(table).extra["pyhudi.gap.orders"])["how"] == "skip"
    assert newest(table).is_empty

    orders_history = Path(lake.table("orders").location, ".hoodie/timeline/history")
    shutil.copytree(tmp_path / "history", orders_history, dirs_exist_ok=True)
    run(asset_of(orders(8, amount=10.0)))
    run(lost)
    assert ids(table) == [1, 8], "what was skipped is not read later"


def test_a_gap_is_not_accepted_without_a_name(run, lost):
    result = run(lost, tags={"hudi/accept_gap": "skip"}, raise_on_error=False)
    assert "hudi/accept_gap_by" in result.failure_data_for_node("copy").user_failure_data.description


def test_code_can_accept_a_gap_and_the_commit_says_so(run, lake, lost):
    @hudi_asset(key="copy", record_key="id")
    def copy(orders: Changes) -> pa.Table:
        orders.accept_gap("read_all", by="the team of copy")
        return orders.to_arrow()

    run(copy)
    assert json.loads(newest(lake.table("copy")).extra["pyhudi.gap.orders"])["by"] == "the team of copy"


def test_reading_all_after_a_gap_ends_where_the_run_began(run, lake, orders, asset_of, copy, monkeypatch):
    """A row that is committed while the asset runs is read by the next run, and not by both."""
    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    run(asset_of(orders(2, amount=10.0)))
    read, real = [], hudi.HudiTable.incremental

    def expired_once(self, *args, **kwargs):
        if not read:
            raise SnapshotExpiredError("The files were cleaned", table=self.location)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(hudi.HudiTable, "incremental", expired_once)

    @hudi_asset(key="copy", record_key="id")
    def reader(orders: Changes) -> pa.Table:
        if not read:
            orders.accept_gap("read_all", by="the team of copy")
            orders.table.upsert(late)
        rows = orders.to_arrow()
        read.append(sorted(rows["id"].to_pylist()))
        return rows

    late = orders(99, amount=10.0)
    run(reader)
    run(reader)
    assert read == [[1, 2], [99]]


# --- backlog


def test_a_materialization_shows_how_far_it_was_behind_and_the_log_of_the_run_too(
    run, lake, instance, orders, asset_of, copy
):
    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    run(asset_of(orders(2, 3, amount=10.0)))
    waiting = commits(lake.table("orders"))[-1]
    run(asset_of(orders(3, amount=11.0, ts=2)))
    result = run(copy)

    facts = result.asset_materializations_for_node("copy")[0].metadata
    assert (facts["hudi/backlog_commits"].value, facts["hudi/backlog_rows"].value) == (2, 3)
    since = datetime.strptime(waiting.completion_time[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    assert timedelta() <= datetime.fromtimestamp(facts["hudi/backlog_since"].value, UTC) - since < timedelta(seconds=1)
    logged = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert [one for one in logged if one.startswith("orders: 2 commits and 3 rows behind, since 20")]
    assert len(facts) <= 30


def test_the_backlog_counts_archived_commits_and_leaves_out_those_without_rows(run, lake, orders, asset_of, copy):
    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    upstream = hudi.open_table(lake.table("orders").location, options=SHORT)
    for number in range(2, 8):
        upstream.upsert(orders(number, amount=10.0))
        with upstream.begin("upsert", allow_empty=True) as write:
            write.commit()
    assert upstream.timeline.has_history
    facts = run(copy).asset_materializations_for_node("copy")[0].metadata
    assert (facts["hudi/backlog_commits"].value, facts["hudi/backlog_rows"].value) == (6, 6)


def test_the_backlog_of_a_run_for_many_partitions_is_told_once(run, orders, asset_of, daily):
    run(asset_of(pa.concat_tables([orders(1, day=DAYS[0]), orders(2, day=DAYS[1])])))
    tags = {"dagster/asset_partition_range_start": DAYS[0], "dagster/asset_partition_range_end": DAYS[1]}
    events = run(daily, tags=tags).get_asset_materialization_events()
    told = [event.materialization.metadata.get("hudi/backlog_rows") for event in events]
    assert [value.value for value in told if value is not None] == [2]


# --- positions as values


def test_positions_go_through_a_commit_unchanged():
    position = Position(
        "20260101000000001", {"a": "20260101000000003", "b": "20260101000000003", "c": "20260101000000005"}
    )
    assert Position.from_json(json.loads(json.dumps(position.to_json()))) == position


def test_a_position_never_moves_back_and_a_run_of_the_whole_asset_moves_every_partition():
    position = Position(partitions={"a": "5", "b": "3"})
    assert position.moved(["a"], "4") == position
    assert position.moved(["b"], "4") == Position(partitions={"a": "5", "b": "4"})
    assert position.moved([], "4") == Position("4", {"a": "5"})
    assert Position("4", {"a": "5"}).after(["a", "c"]) == "4"
    assert position.after(["a", "c"]) is None


def test_the_positions_of_a_year_of_days_stay_small_and_there_is_a_bound():
    days = [f"{datetime(2026, 1, 1) + timedelta(days=n):%Y-%m-%d}" for n in range(365)]
    backfilled = Positions().moved("orders", "daily", days, "20260101000000001")
    assert sum(map(len, backfilled.extra().values())) < 6_000
    each = Positions()
    for number, day in enumerate(days):
        each = each.moved("orders", "daily", [day], f"202601010000{number:05d}")
    assert sum(map(len, each.extra().values())) < 15_000
    many = Position().moved([f"{number:05d}" for number in range(5_000)], "2").moved(["00001"], "3")
    assert len(many.partitions) == checkpoints.KEPT_PARTITIONS
    assert many.after(["00001"]) == "3"
