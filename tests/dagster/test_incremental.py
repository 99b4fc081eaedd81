"""Assets that read `Changes`: where each of them, and each partition, goes on; empty results."""

from __future__ import annotations

import dagster as dg
import polars
import pyarrow as pa
import pytest
from support.incremental import DAYS, PARTITIONS, commits, foreign_commits, half, ids, newest

from pyhudi_core.orchestration import checkpoints
from pyhudi_dagster import Changes, HudiAutomation, hudi_asset
from pyhudi_dagster.reporting import events

# --- partitions


def test_the_run_of_one_partition_does_not_consume_the_changes_of_another(run, lake, orders, asset_of, daily, seen):
    run(asset_of(pa.concat_tables([orders(1, day=DAYS[0]), orders(2, day=DAYS[1])])))

    run(daily, partition_key=DAYS[0])
    run(daily, partition_key=DAYS[1])

    assert ids(lake.table("daily")) == [1, 2]
    assert [given for _, given in seen] == [[1, 2], [1, 2]]


def test_a_partition_reads_only_what_changed_since_its_own_run(run, lake, orders, asset_of, daily, seen):
    run(asset_of(orders(1, day=DAYS[0])))
    run(daily, partition_key=DAYS[0])
    run(asset_of(orders(2, day=DAYS[0])))
    run(daily, partition_key=DAYS[0])
    run(daily, partition_key=DAYS[1])

    assert seen == [([DAYS[0]], [1]), ([DAYS[0]], [2]), ([DAYS[1]], [1, 2])]


def test_a_range_begins_at_its_partition_that_is_furthest_behind_and_moves_all_of_them(
    run, lake, orders, asset_of, daily, seen
):
    first_to_third = {"dagster/asset_partition_range_start": DAYS[0], "dagster/asset_partition_range_end": DAYS[2]}
    run(asset_of(orders(1, day=DAYS[0])))
    run(daily, partition_key=DAYS[0])
    run(daily, tags=first_to_third)  # the second and third have read nothing yet
    run(asset_of(orders(2, day=DAYS[1])))
    run(daily, partition_key=DAYS[1])
    run(asset_of(orders(3, day=DAYS[2])))
    run(daily, tags=first_to_third)  # the first and third are one commit behind the second

    assert [given for _, given in seen] == [[1], [1], [2], [2, 3]]
    assert ids(lake.table("daily")) == [1, 2, 3]
    run(daily, partition_key=DAYS[1])
    assert len(seen) == 4, "nothing has changed since for any of them"


def test_runs_of_two_partitions_at_the_same_time_keep_the_positions_of_both(run, lake, orders, asset_of, seen):
    inner = []

    @hudi_asset(record_key="id", partitions=PARTITIONS, on_foreign_rows="drop")
    def daily(context: dg.AssetExecutionContext, orders: Changes) -> pa.Table:
        if context.partition_key == DAYS[0] and not inner:
            inner.append(run(daily, partition_key=DAYS[1]))
        seen.append(context.partition_key)
        return orders.to_arrow()

    run(asset_of(pa.concat_tables([orders(1, day=DAYS[0]), orders(2, day=DAYS[1])])))
    run(daily, partition_key=DAYS[0])
    assert seen == [DAYS[1], DAYS[0]]

    for day in DAYS[:2]:
        assert not run(daily, partition_key=day).get_asset_materialization_events()
    assert len(seen) == 2


def test_two_assets_that_write_one_table_have_positions_of_their_own(run, lake, orders, asset_of):
    run(asset_of(orders(1, 2, 3)))
    run(half("odd", 1))
    run(half("even", 0))
    assert ids(lake.table("all")) == [1, 2, 3]


# --- archival


def test_the_position_is_found_after_archival(run, lake, orders, asset_of, copy):
    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    foreign_commits(lake.table("copy"), orders)
    run(asset_of(orders(2, amount=10.0)))
    run(copy)

    assert newest(lake.table("copy")).stats[0].inserts == 1
    assert newest(lake.table("copy")).stats[0].updates == 0


def test_a_table_without_rows_commits_past_archival_keeps_every_partition_position(
    run, lake, orders, asset_of, daily, seen
):
    run(asset_of(pa.concat_tables([orders(1, day=DAYS[0]), orders(2, day=DAYS[1])])))
    run(daily, partition_key=DAYS[0])
    run(daily, partition_key=DAYS[1])
    foreign_commits(lake.table("daily"), orders)
    for day in DAYS[:2]:
        assert not run(daily, partition_key=day).get_asset_materialization_events()
    assert len(seen) == 2


def test_a_retry_adopts_its_commit_although_that_is_archived(run, lake, orders, asset_of, monkeypatch):
    real, pending = events.report, [True]

    def crash(*arguments):
        if pending and pending.pop():
            foreign_commits(lake.table("orders"), orders)
            raise ConnectionError("the worker is gone")
        return real(*arguments)

    monkeypatch.setattr(events, "report", crash)
    ran = []
    asset = asset_of(lambda _: ran.append(1) or orders(1), retry_policy=dg.RetryPolicy(max_retries=1))
    result = run(asset)

    assert ran == [1]
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["hudi/adopted"].value is True


def test_positions_are_found_without_reading_what_is_older(run, lake, orders, asset_of, copy, monkeypatch):
    from pyhudi_core.formats.history_file import HistoryFileReader

    read = []
    real = HistoryFileReader.rows_holding
    monkeypatch.setattr(HistoryFileReader, "rows_holding", lambda self, text: read.append(text) or real(self, text))
    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    foreign_commits(lake.table("copy"), orders)
    run(asset_of(orders(2, amount=10.0)))
    run(copy)
    read.clear()
    checkpoints.positions_of(lake.table("copy"))
    assert read == [], "the newest commit tells them all"


# --- nothing to write


def test_an_empty_result_moves_the_position_in_a_commit_without_rows(run, lake, orders, asset_of, copy):
    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    run(asset_of(orders(2, amount=1.0)))
    result = run(copy)

    table = lake.table("copy")
    assert result.success
    assert not result.get_asset_materialization_events()
    assert newest(table).is_empty
    assert commits(lake.table("orders"))[-1].completion_time in newest(table).extra["pyhudi.checkpoint.orders"]
    assert ids(table) == [1]


def test_an_empty_result_is_committed_only_if_the_input_has_moved(run, lake, orders, asset_of, copy):
    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    run(asset_of(orders(2, amount=1.0)))
    run(copy)
    run(copy)
    run(copy)
    assert len(commits(lake.table("copy"))) == 2


def test_the_first_result_may_be_empty(run, lake, orders, asset_of, copy):
    run(asset_of(orders(1, amount=1.0)))
    run(copy)
    run(copy)
    assert [lake.table("copy").commit_metadata(one).is_empty for one in commits(lake.table("copy"))] == [True]
    run(asset_of(orders(2, amount=10.0)))
    run(copy)
    assert ids(lake.table("copy")) == [2]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_an_empty_frame_makes_the_table_that_keeps_the_position(run, lake, orders, asset_of, kind):
    run(asset_of(orders(1)))

    @hudi_asset(record_key="id")
    def copy(orders: Changes):
        rows = orders.to_arrow().slice(0, 0).append_column("schema", pa.array([], pa.string()))
        return rows.to_pandas() if kind == "pandas" else polars.from_arrow(rows)

    run(copy)
    if kind == "polars":  # an empty column of texts has no type in pandas
        assert newest(lake.table("copy")).is_empty
        assert "schema" in lake.table("copy").schema.names


def test_commits_without_rows_run_no_function_further_down(run, lake, orders, asset_of, copy):
    ran = []

    @hudi_asset(record_key="id")
    def last(copy: Changes) -> pa.Table:
        ran.append(1)
        return copy.to_arrow()

    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    run(last)
    run(asset_of(orders(2, amount=1.0)))
    run(copy)
    assert newest(lake.table("copy")).is_empty
    run(last)
    assert len(ran) == 1
    assert len(commits(lake.table("last"))) == 1


@pytest.mark.parametrize(
    "condition", [dg.AutomationCondition.eager(), HudiAutomation.on_commit()], ids=["eager", "on_commit"]
)
def test_downstream_automation_does_not_see_a_commit_without_rows(
    run, lake, instance, orders, asset_of, copy, condition
):
    @dg.asset(deps=["copy"], automation_condition=condition)
    def below() -> None: ...

    definitions = dg.Definitions([asset_of(orders(1)), copy, below], resources={"lake": lake})

    def requested(cursor=None):
        result = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
        return result.total_requested, result.cursor

    run(asset_of(orders(1, amount=10.0)))
    run(copy)
    dg.materialize([below], instance=instance)
    _, cursor = requested()
    version = instance.get_latest_materialization_event(dg.AssetKey("copy")).asset_materialization.tags

    run(asset_of(orders(2, amount=1.0)))
    result = run(copy)
    assert newest(lake.table("copy")).is_empty
    assert [event.event_type for event in result.all_node_events].count(dg.DagsterEventType.ASSET_OBSERVATION) == 1
    count, cursor = requested(cursor)
    assert count == 0
    assert instance.get_latest_materialization_event(dg.AssetKey("copy")).asset_materialization.tags == version

    run(asset_of(orders(3, amount=10.0)))
    run(copy)
    assert requested(cursor)[0] == 1, "a commit with rows is seen"


def test_a_retry_after_a_commit_without_rows_makes_no_second_one_and_no_event(run, lake, orders, asset_of, monkeypatch):
    ran, pending = [], [True]

    @hudi_asset(record_key="id", retry_policy=dg.RetryPolicy(max_retries=1))
    def copy(orders: Changes) -> pa.Table:
        ran.append(1)
        return orders.to_arrow().slice(0, 0)

    real = events.commit_event

    def crash(*arguments):
        if pending and pending.pop():
            raise ConnectionError("the worker is gone")
        return real(*arguments)

    run(asset_of(orders(1)))
    monkeypatch.setattr(events, "commit_event", crash)
    result = run(copy)

    assert (len(ran), len(commits(lake.table("copy")))) == (1, 1)
    assert result.success
    assert not result.get_asset_materialization_events()
