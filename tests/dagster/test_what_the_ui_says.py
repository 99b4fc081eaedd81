"""What Dagster's UI says about a run is so: figures, sums, times and words. Everything here is read from the events of real runs."""

import inspect
import re
from datetime import UTC, datetime

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.partitions.context import PartitionLoadingContext
from dagster._core.definitions.temporal_context import TemporalContext
from dagster_shared.serdes import serialize_value
from support.archival import AUTOMATIC

import definitions
from pyhudi_dagster import (
    Every,
    HudiIOManager,
    HudiLakeResource,
    HudiPartitions,
    HudiWrite,
    Services,
    build_hudi_services,
    hudi_read_optimized_asset,
)
from pyhudi_dagster.reporting.events import known_size
from pyhudi_dagster.reporting.metadata import OVERVIEW

RANGE = {"dagster/asset_partition_range_start": "2026-01-01", "dagster/asset_partition_range_end": "2026-01-12"}
SUMS = ("rows_inserted", "rows_updated", "rows_deleted", "rows_unchanged", "files_written", "bytes_written")
KEY = dg.AssetKey("orders")


def newest(instance):
    return instance.get_latest_materialization_event(KEY).asset_materialization


def facts(event):
    return {name: value.value for name, value in event.metadata.items()}


def daily(asset_of, rows, **arguments):
    return asset_of(rows, partitions=HudiPartitions.daily("day", start="2026-01-01"), **arguments)


def one_row_a_day(orders):
    return lambda context: pa.concat_tables(
        orders(i, 100 + i, day=key, ts=int(context.run.tags.get("ts", 1)))
        for i, key in enumerate(context.partition_keys)
    )


def rows_of(table):
    return table.scan(columns=["id"]).to_arrow().num_rows


@pytest.fixture
def archiving(lake):
    """The same lake, where commits soon leave the active timeline."""
    options = {
        **AUTOMATIC,
        "hoodie.metadata.compact.max.delta.commits": 1,
    }  # commits are archived up to a compaction of the metadata table
    return HudiLakeResource(warehouse=lake.warehouse, options={name: str(value) for name, value in options.items()})


# --- figures do not vanish


def test_rows_and_bytes_are_there_after_commits_have_left_the_active_timeline(
    run, archiving, instance, orders, asset_of
):
    shown = []
    for number in range(9):
        asset = daily(asset_of, orders(number, 50 + number, day="2026-01-02"))
        run(asset, partition_key="2026-01-02", resources={"lake": archiving})
        shown.append(facts(newest(instance)))
    table = archiving.table("orders")
    assert table.timeline.has_history
    assert [each["dagster/row_count"] for each in shown] == [2 * n for n in range(1, 10)]
    assert [each["dagster/partition_row_count"] for each in shown] == [2 * n for n in range(1, 10)]
    assert shown[-1]["dagster/size_bytes"] == sum(piece.base.size for piece in table.scan().slices())
    assert shown[-1]["hudi/file_groups"] == len(table.scan().slices())


def test_figures_are_right_beside_commits_of_others_and_for_an_instance_that_knows_no_event(
    run, archiving, instance, orders, asset_of
):
    resources = {"lake": archiving}
    run(asset_of(orders(1, 2)), resources=resources)
    table = archiving.table("orders")
    for number in range(10, 18):
        table.upsert(orders(number, ts=number))
    table.delete(orders(1))
    assert table.timeline.has_history
    run(asset_of(orders(3, ts=99)), resources=resources)
    assert facts(newest(instance))["dagster/row_count"] == rows_of(table) == 10

    with dg.instance_for_test() as other:
        dg.materialize([asset_of(orders(4))], instance=other, resources=resources)
        assert facts(newest(other))["dagster/row_count"] == rows_of(table) == 11


def test_the_size_in_the_newest_event_is_counted_on_from(run, lake, instance, orders, asset_of, monkeypatch):
    run(asset_of(orders(1, 2)))
    table = lake.table("orders")
    assert known_size(instance, KEY) == table.size()

    given = []
    real = type(table).size
    monkeypatch.setattr(type(table), "size", lambda self, as_of, known: given.append(known) or real(self, as_of, known))
    before = table.snapshot().completion_time
    run(asset_of(orders(3)))
    assert [known.completion_time for known in given] == [before]
    assert facts(newest(instance))["dagster/row_count"] == 3


def test_an_event_of_a_table_that_was_made_anew_is_not_counted_on_from(run, lake, instance, orders, asset_of):
    import shutil

    run(asset_of(orders(1, 2, 3)))
    shutil.rmtree(lake.location("orders"))
    run(asset_of(orders(7)))
    assert facts(newest(instance))["dagster/row_count"] == 1


# --- a run of many partitions


def test_the_latest_event_of_a_run_of_many_partitions_has_what_the_overview_shows(
    run, lake, instance, orders, asset_of
):
    run(daily(asset_of, one_row_a_day(orders)), tags=RANGE)

    latest = newest(instance)
    assert latest.partition == "2026-01-12"
    assert [column.name for column in latest.metadata["dagster/column_schema"].schema.columns] == list(
        orders(1).schema.names
    )
    assert facts(latest)["dagster/row_count"] == 24
    assert {"hudi/timeline", "hudi/timeline_chart", "hudi/duration_total_s", "dagster/size_bytes"} <= set(
        latest.metadata
    )


@pytest.mark.parametrize("keeper", ["decorator", "io_manager"])
def test_sums_over_the_events_of_a_run_are_the_totals_of_its_commit_once(run, lake, orders, asset_of, keeper):
    if keeper == "decorator":
        asset, extra = daily(asset_of, one_row_a_day(orders)), {}
    else:
        days = dg.DailyPartitionsDefinition("2026-01-01")
        entries = {"record_key": "id", "ordering": "ts", "partition_by": "day"}
        policy = dg.BackfillPolicy.single_run()

        @dg.asset(name="orders", metadata=entries, partitions_def=days, backfill_policy=policy)
        def asset(context) -> pa.Table:
            return one_row_a_day(orders)(context)

        extra = {"resources": {"io_manager": HudiIOManager(lake=lake)}}
    run(asset, tags={**RANGE, "ts": "1"}, **extra)
    result = run(asset, tags={**RANGE, "ts": "2"}, **extra)

    table = lake.table("orders")
    stats = table.commit_metadata(list(table.timeline.commits)[-1]).stats
    events = [facts(event.materialization) for event in result.get_asset_materialization_events()]
    assert len(events) == 12
    totals = {name: sum(event[f"hudi/{name}"] for event in events) for name in SUMS}
    assert totals == {
        "rows_inserted": 0,
        "rows_updated": 24,
        "rows_deleted": 0,
        "rows_unchanged": 0,
        "files_written": 12,
        "bytes_written": sum(stat.size for stat in stats),
    }
    for name in ("dagster/row_count", "dagster/size_bytes", "hudi/file_groups", "hudi/duration_total_s"):
        assert len({event[name] for event in events}) == 1, (
            "of the table or the commit: the same, so plots have all dots"
        )
    assert sum(event["dagster/partition_row_count"] for event in events) == 24


def test_late_rows_count_for_their_own_partition_and_not_for_that_of_the_run(run, orders, asset_of):
    rows = pa.concat_tables([orders(1, 2, day="2026-01-02"), orders(3, day="2026-01-01")])
    result = run(daily(asset_of, rows, on_foreign_rows="allow"), partition_key="2026-01-02")

    inserted = {
        event.partition: event.materialization.metadata["hudi/rows_inserted"].value
        for event in result.get_asset_materialization_events()
    }
    assert inserted["2026-01-02"] == 2
    assert sum(inserted.values()) in (2, 3)  # the other partition has its own event, or none, but is never counted here


# --- times, words, order


def test_durations_add_up(run, instance, orders, asset_of):
    run(asset_of(orders(1)))
    found = facts(newest(instance))
    parts = [found[f"hudi/duration_{name}_s"] for name in ("write", "lock_wait", "commit")]
    assert found["hudi/duration_total_s"] == pytest.approx(sum(parts), abs=1e-9)
    assert min(parts) >= 0
    assert parts[0] > 0


def test_a_time_is_a_timestamp(run, lake, instance, orders, asset_of):
    run(asset_of(orders(1)))
    value = newest(instance).metadata["hudi/completion_time"]
    assert isinstance(value, dg.TimestampMetadataValue)
    shown = datetime.fromtimestamp(value.value, UTC).strftime("%Y%m%d%H%M%S%f")[:17]
    assert shown == list(lake.table("orders").timeline.commits)[-1].completion_time


def test_an_operation_has_one_spelling_everywhere(run, instance, orders, asset_of):
    for operation, key in (("upsert", 1), ("bulk_insert", 2), ("insert_overwrite", 3), ("delete", 3)):
        run(daily(asset_of, orders(key, ts=9), operation=operation), partition_key="2026-01-01")
        assert facts(newest(instance))["hudi/operation"] == operation
    run(daily(asset_of, orders(4, ts=9)), partition_key="2026-01-01")
    run(daily(asset_of, lambda _: HudiWrite(None, operation="delete_partitions")), partition_key="2026-01-01")

    last = newest(instance)
    assert facts(last)["hudi/operation"] == "delete_partitions"
    in_table = {record.data["operation"] for record in last.metadata["hudi/timeline"].records}
    assert in_table <= {"upsert", "bulk_insert", "insert_overwrite", "delete", "delete_partitions"}
    assert "delete_partitions" in in_table


def test_what_people_look_at_first_comes_first_and_wide_tables_last(run, instance, orders, asset_of):
    run(daily(asset_of, orders(1)), partition_key="2026-01-01")
    names = list(newest(instance).metadata)
    assert names[:5] == [
        "dagster/partition_row_count",
        "dagster/row_count",
        "dagster/size_bytes",
        "hudi/operation",
        "hudi/rows_inserted",
    ]
    wide = names.index("hudi/partitions_touched")
    assert all(names.index(name) < wide for name in ("hudi/instant", "hudi/duration_total_s", "hudi/rows_deleted"))


def test_counts_of_one_event_agree_with_each_other(run, lake, instance, orders, asset_of):
    run(daily(asset_of, one_row_a_day(orders)), tags=RANGE)
    found = newest(instance).metadata
    table = [record.data for record in found["hudi/partitions_touched"].records]
    newest_in_timeline = found["hudi/timeline"].records[0].data
    assert sum(row["files"] for row in table) == len(table) == 12
    assert (
        sum(row["inserted"] for row in table)
        == 24
        == newest_in_timeline["inserted"]
        == found["dagster/row_count"].value
    )
    assert found["hudi/file_groups"].value == 12


def test_rows_of_dropped_partitions_are_counted_where_they_were(run, lake, instance, orders, asset_of):
    run(daily(asset_of, one_row_a_day(orders)), tags=RANGE)
    last = {**RANGE, "dagster/asset_partition_range_end": "2026-01-03"}
    result = run(daily(asset_of, lambda _: HudiWrite(None, operation="delete_partitions")), tags=last)

    events = [event.materialization.metadata for event in result.get_asset_materialization_events()]
    assert [event["hudi/rows_deleted"].value for event in events] == [2, 2, 2]
    assert [event["dagster/partition_row_count"].value for event in events] == [0, 0, 0]
    assert events[-1]["dagster/row_count"].value == 18
    assert [record.data["deleted"] for record in events[-1]["hudi/partitions_touched"].records] == [2, 2, 2]
    assert events[-1]["hudi/timeline"].records[0].data["deleted"] == 6


def test_an_event_stays_small_however_many_partitions_and_commits_there_are(run, lake, instance, orders, asset_of):
    day = "2026-01-01-" + "x" * 80
    batch = pa.concat_tables(orders(number, day=f"{day}{number:03}") for number in range(60))
    for ts in range(3):
        run(asset_of(batch.set_column(3, "ts", pa.array([ts] * 60)), partition_by="day"))
    for number in range(20):
        lake.table("orders").upsert(orders(number, day=f"{day}{number:03}", ts=50 + number))
    run(asset_of(batch.set_column(3, "ts", pa.array([99] * 60)), partition_by="day"))

    last = newest(instance)
    assert len(last.metadata) <= 30
    without_columns = {name: value for name, value in last.metadata.items() if name != "dagster/column_schema"}
    assert len(serialize_value(last._replace(metadata=without_columns))) <= 16 * 1024
    title = last.metadata["hudi/partitions_touched"].schema.columns[0].name
    assert re.fullmatch(r"partition \(\d+ of 60\)", title)


# --- one state


def test_storage_and_row_count_of_the_overview_come_from_one_event(run, lake, instance, orders, asset_of):
    """The UI takes each of them from the newest materialization, or else from the newest observation."""
    asset = asset_of(orders(1, 2), table_type="merge_on_read", services=Services(compaction=Every(commits=1)))
    defs = dg.Definitions.merge(
        dg.Definitions(assets=[asset], resources={"lake": lake}), build_hudi_services(lake, [asset])
    )
    run(asset)
    for ts in (2, 3):
        run(asset_of(orders(1, ts=ts), table_type="merge_on_read"))
    assert defs.resolve_job_def("hudi__orders__services").execute_in_process(instance=instance).success
    (record,) = instance.fetch_observations(KEY, limit=1).records
    observed = record.event_log_entry.asset_observation.metadata
    assert (observed["hudi/service"].value, observed["hudi/row_count"].value) == ("compaction", 2)
    assert observed["hudi/size_bytes"].value == lake.table("orders").size().size.bytes
    assert not set(OVERVIEW) & set(observed)


def test_a_plot_by_partition_of_a_merge_on_read_table_is_not_made_with_gaps(run, instance, orders, asset_of):
    for ts in (1, 2):
        run(daily(asset_of, orders(1, 2, ts=ts), table_type="merge_on_read"), partition_key="2026-01-01")
        assert "dagster/partition_row_count" not in newest(instance).metadata


def test_a_view_says_what_it_is_which_columns_it_has_and_which_job_makes_it(orders, asset_of):
    services = Services(compaction=Every(commits=1))
    asset = asset_of(None, table_type="merge_on_read", services=services, schema=orders(1).schema)
    (view,) = hudi_read_optimized_asset(asset).specs
    assert view.description.startswith("What read-optimized queries of orders show")
    assert view.metadata["hudi/services_job"].value == "/guess/hudi__orders__services"
    assert view.metadata["hudi/table"].value == KEY
    assert [each.name for each in view.metadata["dagster/column_schema"].columns] == orders(1).schema.names


@pytest.mark.parametrize("declared", [True, False])
def test_descriptions_of_columns_come_from_the_metadata_of_arrow_fields(run, instance, orders, asset_of, declared):
    said = {"id": {"comment": "Number of the order"}, "amount": {"description": "In euros"}}
    rows = orders(1)
    rows = rows.cast(pa.schema([field.with_metadata(said.get(field.name)) for field in rows.schema]))
    asset = asset_of(rows, schema=rows.schema if declared else None)
    run(asset)
    shown = [newest(instance).metadata["dagster/column_schema"].schema]
    shown += [next(iter(asset.specs)).metadata["dagster/column_schema"]] if declared else []
    for schema in shown:
        columns = {each.name: each.description for each in schema.columns}
        assert columns == {"id": "Number of the order", "amount": "In euros", "day": None, "ts": None}


# --- pages


def shown_on_pages():
    """What the UI shows of classes: resources, components with their parts, and configs of jobs."""
    import importlib
    import pkgutil

    import pyhudi_dagster

    for found in pkgutil.walk_packages(pyhudi_dagster.__path__, "pyhudi_dagster."):
        for kind in vars(importlib.import_module(found.name)).values():
            is_own = inspect.isclass(kind) and kind.__module__ == found.name
            if is_own and issubclass(kind, dg.ConfigurableResource | dg.ConfigurableIOManager | dg.Config | dg.Model):
                yield kind


def test_the_pages_of_resources_components_and_configs_show_no_markup():
    kinds = list(shown_on_pages())
    assert {"HudiLakeResource", "HudiIOManager", "HudiLakeComponent", "LakeTable", "ServicesConfig"} <= {
        kind.__name__ for kind in kinds
    }
    for kind in kinds:
        fields = [field.description or "" for field in kind.model_fields.values()]
        for text in (kind.__doc__ or "", *fields):
            assert not re.search(r"::|:\w+:`|\bArgs:|\bExample:|`", text), kind.__name__


def test_the_plots_of_the_demo_show_its_first_partitions(instance):
    """By partition, the UI plots the newest 120 keys, asked for page by page as here; the demo fills the first week."""
    partitions = next(iter(definitions.flights.specs)).partitions_def
    context = PartitionLoadingContext(
        temporal_context=TemporalContext(effective_dt=datetime.now(UTC), last_event_id=None),
        dynamic_partitions_store=instance,
    )
    page = partitions.get_paginated_partition_keys(context, limit=120, ascending=False)
    assert "2013-01-01" in page.results
