"""The read-optimized view as its own asset: its materializations are the compactions, whoever made them."""

import dagster as dg
import pytest
from support.dagster_services import definitions, do, filled, only, orders_asset, tick

from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import build_hudi_services, build_hudi_timeline_sensor, hudi_read_optimized_asset

pytestmark = pytest.mark.row("U11")
VIEW = dg.AssetKey("orders_ro")


def versions(instance):
    events = [record.asset_materialization for record in instance.fetch_materializations(VIEW, limit=10).records]
    return [event.tags["hudi/completion"] for event in events]


def test_a_run_of_the_view_compacts_the_table_and_without_logs_it_makes_no_event(run, lake, instance):
    asset = orders_asset()
    view = hudi_read_optimized_asset(asset)
    table = filled(lake, asset, 2)
    run(view)
    (compaction,) = [commit for commit in table.timeline.commits if str(commit.action) == "commit"]
    assert versions(instance) == [compaction.completion_time]
    run(view)
    assert len(versions(instance)) == 1


def test_a_compaction_by_the_services_or_by_another_program_materializes_the_view_once(lake, instance):
    asset = orders_asset()
    view = hudi_read_optimized_asset(asset)
    table = filled(lake, asset, 2)
    defs = dg.Definitions.merge(definitions(lake, asset, view), build_hudi_timeline_sensor(lake, [asset, view]))
    do(defs, instance, "hudi__orders__services", run_config=only("compaction", "always"))
    assert len(versions(instance)) == 1

    filled(lake, asset, 1)
    table.compaction.run()  # by another program
    events = tick(defs, instance, lake, name="hudi__timeline").asset_events
    (of_view,) = [event for event in events if event.asset_key == VIEW]
    assert of_view.tags["hudi/completion"] == table.timeline.commits[-1].completion_time
    columns = of_view.metadata["dagster/column_schema"].schema.columns
    assert [column.name for column in columns] == ["id", "amount", "ts"], (
        "its page shows them, though no schema is declared"
    )


def test_a_view_that_cannot_be_fails_at_load(lake):
    with pytest.raises(InvalidOptionError, match="no merge-on-read table"):
        hudi_read_optimized_asset(orders_asset(None, table_type="copy_on_write"))
    with pytest.raises(InvalidOptionError, match="orders_ro without the asset of its table orders"):
        build_hudi_services(lake, [orders_asset(None, key="other"), hudi_read_optimized_asset(orders_asset())])
