"""Events for commits that no step of Dagster's made: Hudi's own, and those of other writers."""

import dagster as dg
import pyarrow as pa
import pytest
from support.golden import unpack

from pyhudi_core.errors import TableError
from pyhudi_core.orchestration.settings import TableSettings
from pyhudi_dagster import HudiLakeResource, HudiPartitions, commit_event, commit_events
from pyhudi_dagster.lake.info import HudiAssetInfo
from pyhudi_dagster.reporting.events import known_size

SERVICES = HudiAssetInfo(dg.AssetKey("services"), "services", TableSettings(("id",), ("day",)))


@pytest.fixture
def of_hudi(tmp_path):
    """A table with every kind of instant that Hudi 1.0.2 makes on copy-on-write tables."""
    unpack("hudi-1.0.2/cow_hive_services", tmp_path / "services")
    return HudiLakeResource(warehouse=str(tmp_path)).table("services")


def by_operation(table, info):
    events = {}
    for instant in table.timeline.completed:
        event = commit_event(table, instant, info)
        events[event.metadata["hudi/operation"].value] = event
    return events


def test_hudis_data_commits_are_materializations_and_its_services_observations(of_hudi):
    events = by_operation(of_hudi, SERVICES)
    data = {name for name, event in events.items() if isinstance(event, dg.AssetMaterialization)}
    assert data == {"insert", "upsert", "insert_overwrite", "delete_partitions"}
    assert set(events) - data == {"cluster", "savepoint", "clean"}


def test_an_event_for_a_commit_of_hudi_has_its_figures_and_names_it(of_hudi):
    commit = list(of_hudi.timeline.commits)[-2]
    event = commit_event(of_hudi, commit, SERVICES)

    stats = of_hudi.commit_metadata(commit).stats
    assert event.metadata["hudi/rows_updated"].value == sum(stat.updates for stat in stats)
    assert event.metadata["dagster/row_count"].value == of_hudi.scan(as_of=commit).to_arrow().num_rows
    assert event.tags["hudi/instant"] == commit.requested_time
    assert event.tags["dagster/data_version"] == commit.completion_time
    assert "hudi/adopted" not in event.metadata
    assert len(event.metadata) <= 30


def test_an_observation_has_no_data_version_and_says_when_it_was(of_hudi):
    event = by_operation(of_hudi, SERVICES)["clean"]
    assert set(event.tags) == {"hudi/instant", "hudi/completion"}
    assert isinstance(event.metadata["dagster/last_updated_timestamp"], dg.TimestampMetadataValue)


def test_a_commit_of_an_asset_gives_the_same_figures_again_and_names_its_run(run, lake, instance, orders, asset_of):
    result = run(asset_of(orders(1, 2)))
    run(asset_of(orders(3)))
    table = lake.table("orders")
    info = HudiAssetInfo(dg.AssetKey("orders"), "orders", TableSettings(("id",)))
    (own,) = result.asset_materializations_for_node("orders")

    event = commit_event(table, own.tags["hudi/instant"], info)
    same = ["dagster/row_count", "dagster/size_bytes", "hudi/rows_inserted", "hudi/operation", "hudi/completion_time"]
    assert {name: event.metadata[name] for name in same} == {name: own.metadata[name] for name in same}
    assert event.metadata["hudi/run"].value == result.run_id
    assert event.tags.items() <= own.tags.items()


def test_an_event_of_another_writer_counts_on_in_dagster(run, lake, instance, orders, asset_of):
    run(asset_of(orders(1, 2)))
    table = lake.table("orders")
    info = HudiAssetInfo(dg.AssetKey("orders"), "orders", TableSettings(("id",)))
    commit = table.upsert(orders(2, 3, 4, ts=5))

    instance.report_runless_asset_event(commit_event(table, commit, info, known_size(instance, info.key)))
    latest = instance.get_latest_materialization_event(info.key).asset_materialization
    assert latest.metadata["dagster/row_count"].value == 4
    assert known_size(instance, info.key) == table.size()


def test_a_commit_of_several_partitions_is_an_event_for_each_key(lake, run, orders, asset_of):
    partitions = HudiPartitions.daily("day", start="2026-01-01")
    run(asset_of(orders(1), partitions=partitions), partition_key="2026-01-01")
    table = lake.table("orders")
    info = HudiAssetInfo(dg.AssetKey("orders"), "orders", TableSettings(("id",), ("day",)), partitions)
    commit = table.upsert(
        pa.concat_tables([orders(1, 5, ts=5), orders(6, day="2026-01-02"), orders(7, day="1999-01-01")])
    )

    events = commit_events(table, commit, info)
    assert [event.partition for event in events] == ["2026-01-01", "2026-01-02"]
    assert [event.metadata["hudi/rows_inserted"].value for event in events] == [1, 1]
    assert [event.metadata["dagster/partition_row_count"].value for event in events] == [2, 1]
    assert [event.metadata["dagster/row_count"].value for event in events] == [4, 4], "the rows of the table"
    assert ["hudi/timeline" in event.metadata for event in events] == [False, True]


def test_what_has_not_completed_has_no_event(lake, run, orders, asset_of):
    run(asset_of(orders(1)))
    info = HudiAssetInfo(dg.AssetKey("orders"), "orders", TableSettings(("id",)))
    with pytest.raises(TableError, match="no completed instant"):
        commit_event(lake.table("orders"), "20200101000000000", info)
