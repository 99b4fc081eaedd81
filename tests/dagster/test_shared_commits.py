"""Runs of several partitions that meet share a commit, if the table has the option; each run says what it wrote, and nobody reports it again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from support.dagster_services import tick

from pyhudi_core.batches import combined, handed_in
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.shared_commits import answers_in
from pyhudi_core.write.batch import UserRows
from pyhudi_dagster import HudiIOManager, HudiLakeResource, build_hudi_timeline_sensor, hudi_metadata

DAILY = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-11")
DAYS = ["2026-01-01", "2026-01-02", "2026-01-03"]
SHARES: dict[str, Any] = {"pyhudi.commit.batch": "true"}


def asset_of(of_day: Callable[[str], pa.Table], **settings: Any) -> dg.AssetsDefinition:
    options = {"hoodie.metadata.enable": "false", **SHARES}
    meta = hudi_metadata(record_key="id", ordering="ts", partition_by="day", options=options, **settings)

    @dg.asset(name="orders", metadata=meta, partitions_def=DAILY)
    def orders(context: dg.AssetExecutionContext) -> pa.Table:
        return of_day(context.partition_key)

    return orders


def run(
    asset: dg.AssetsDefinition, lake: HudiLakeResource, instance: dg.DagsterInstance, day: str, **how: Any
) -> dg.ExecuteInProcessResult:
    resources = {"io_manager": HudiIOManager(lake=lake)}
    return dg.materialize([asset], instance=instance, resources=resources, partition_key=day, **how)


@contextmanager
def another_run_meets(lake: HudiLakeResource, rows: pa.Table, day: str) -> Iterator[None]:
    """A run of another process, for another day, hands its rows in just before the first run of the block does."""
    real = handed_in.hand_in

    def hand_in(context: Any, batch: handed_in.HandedIn) -> None:
        patch.undo()
        identity = {
            "run_id": "another",
            "asset_key": "orders",
            "step_key": "orders",
            "partitions": day,
            "action": "write",
        }
        with lake.table("orders")._writing(OperationType.UPSERT, {}, None, ()) as write:
            state, seen = write.prepare(UserRows(rows))
            small = combined._small(write.context, state.batch)
            assert small is not None
            extra = {f"dagster.{name}": text for name, text in identity.items()}
            real(write.context, handed_in.batch_of(write.context, small, seen, 60_000, extra))
        real(context, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handed_in, "hand_in", hand_in)
        yield


def reported(lake: HudiLakeResource, instance: dg.DagsterInstance, asset: dg.AssetsDefinition) -> list[Any]:
    """The events of a tick of the timeline sensor."""
    defs = dg.Definitions.merge(
        dg.Definitions(assets=[asset], resources={"lake": lake, "io_manager": HudiIOManager(lake=lake)}),
        build_hudi_timeline_sensor(lake, [asset]),
    )
    return list(tick(defs, instance, lake, None, "hudi__timeline").asset_events)


def facts(result: dg.ExecuteInProcessResult) -> tuple[str, int, str]:
    [event] = result.get_asset_materialization_events()
    made = event.materialization
    return str(made.partition), made.metadata["dagster/partition_row_count"].value, made.tags["dagster/data_version"]


def test_runs_that_meet_share_a_commit_and_each_says_what_it_wrote(
    lake: HudiLakeResource, instance: dg.DagsterInstance, orders: Callable[..., pa.Table]
) -> None:
    asset = asset_of(lambda day: orders(*range(int(day[-1])), day=day))
    assert run(asset, lake, instance, "2026-01-09").success
    with another_run_meets(lake, orders(7, 8, 9, day=DAYS[2]), DAYS[2]):
        result = run(asset, lake, instance, DAYS[1])
    table = lake.table("orders")
    first, shared = table.timeline.commits
    assert len(answers_in(table.commit_metadata(shared))) == 2
    assert len(table.commit_metadata(shared).partitions) == 2
    assert facts(result) == (DAYS[1], 2, shared.completion_time)
    assert not result.get_asset_observation_events(), "the rows of the other run are no late data of this one"
    run_ids = {
        commit.extra["dagster.run_id"] for _, commit in table.commits_with("dagster.run_id", first.completion_time)
    }
    assert run_ids == {result.run_id, "another"}

    events = reported(lake, instance, asset)
    assert [event.partition for event in events] == [DAYS[2]], "this run has reported its own partition"


def test_the_sensor_leaves_a_shared_commit_to_runs_that_are_not_finished(
    lake: HudiLakeResource,
    instance: dg.DagsterInstance,
    orders: Callable[..., pa.Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would report a partition whose run is about to do so."""
    asset = asset_of(lambda day: orders(1, day=day))
    seen: list[Any] = []
    real = combined.upsert_with_others

    def look(*given: Any, **named: Any) -> object:
        commit = real(*given, **named)
        seen.append(reported(lake, instance, asset))
        return commit

    monkeypatch.setattr(combined, "upsert_with_others", look)
    assert run(asset, lake, instance, DAYS[0]).success
    assert seen == [[]]


def test_a_retry_adopts_what_a_shared_commit_has_of_its_run(
    lake: HudiLakeResource,
    instance: dg.DagsterInstance,
    orders: Callable[..., pa.Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asset = asset_of(lambda day: orders(1, 2, day=day))
    assert run(asset, lake, instance, "2026-01-09").success
    real = combined.upsert_with_others

    def then_die(*given: Any, **named: Any) -> object:
        real(*given, **named)
        raise ZeroDivisionError("between the commit and its event")

    with another_run_meets(lake, orders(7, day=DAYS[1]), DAYS[1]), monkeypatch.context() as patch:
        patch.setattr(combined, "upsert_with_others", then_die)
        failed = run(asset, lake, instance, DAYS[0], raise_on_error=False)
    assert not failed.success
    tags = {"dagster/parent_run_id": failed.run_id, "dagster/is_resume_retry": "true"}
    again = run(asset, lake, instance, DAYS[0], tags=tags)
    assert len(lake.table("orders").timeline.commits) == 2, "nothing is written again"
    assert facts(again)[:2] == (DAYS[0], 2)
    assert not again.get_asset_observation_events()


def test_rows_of_other_partitions_make_a_commit_of_their_own(
    lake: HudiLakeResource, instance: dg.DagsterInstance, orders: Callable[..., pa.Table]
) -> None:
    allowing = asset_of(lambda _: orders(1, day=DAYS[1]), on_foreign_rows="allow")
    assert run(allowing, lake, instance, DAYS[0]).success
    table = lake.table("orders")
    [commit] = table.timeline.commits
    assert not answers_in(table.commit_metadata(commit))
    failing = asset_of(lambda _: orders(1, day=DAYS[1]))
    result = run(failing, lake, instance, DAYS[0], raise_on_error=False)
    assert not result.success
    assert "rows of other partitions" in str(result.failure_data_for_node("orders").error)
    assert len(table.timeline.commits) == 1
