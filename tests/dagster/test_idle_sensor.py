"""Ticks of the sensors over tables in which nothing happened: one request for each table; the timeline sensor looks at many at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from support.counted_s3 import BUCKET, counted_s3
from support.dagster_services import definitions, filled, orders_asset, tick

import pyhudi_core as hudi
from pyhudi_core.orchestration import table_looks
from pyhudi_core.orchestration.timeline_cursor import TablePosition, TimelineCursor
from pyhudi_core.storage.opening import open_storage
from pyhudi_dagster import HudiLakeResource, build_hudi_timeline_sensor, hudi_external_asset
from pyhudi_dagster.lake.info import info_of
from pyhudi_dagster.reporting.checks import HudiCheck, result_of, utc_now

TABLES = 200
RECORD = ".hoodie/.aux/.pyhudi/commit_record.json"


def test_an_idle_tick_over_200_tables_sends_one_request_for_each_many_at_once(instance: dg.DagsterInstance) -> None:
    with counted_s3() as store:
        names = [f"t{number}" for number in range(TABLES)]
        schema = pa.schema([("id", pa.int64())])
        options = {"hoodie.metadata.enable": False}
        table = hudi.create_table(f"s3://{BUCKET}/t0", schema, "id", storage_options=store.options, options=options)
        table.upsert(pa.table({"id": [1]}))
        seen = table_looks.seen_now(table)[1]
        record = open_storage(f"s3://{BUCKET}/t0", store.options).get(RECORD)
        for name in names[1:]:  # a look at a table that has not changed needs no more of it
            open_storage(f"s3://{BUCKET}/{name}", store.options).put(RECORD, record)
        cursor = TimelineCursor({name: TablePosition(look=seen) for name in names}).text(names)
        lake = HudiLakeResource(warehouse=f"s3://{BUCKET}", storage_options=store.options)
        assets = [hudi_external_asset(name) for name in names]
        defs = dg.Definitions.merge(
            dg.Definitions(assets=assets, resources={"lake": lake}), build_hudi_timeline_sensor(lake, assets)
        )
        with store.traced() as trace:
            result = tick(defs, instance, lake, cursor, "hudi__timeline")
        assert not result.asset_events
        assert len(trace.requests) == TABLES, str(trace)[:5000]
        assert trace.rounds <= 3 * -(-TABLES // table_looks.MOST_AT_ONCE)
        positions = TimelineCursor.read(result.cursor).positions
        assert {position.look for position in positions.values()} == {seen}

        table.upsert(pa.table({"id": [2]}))
        changed = tick(defs, instance, lake, result.cursor, "hudi__timeline")
        assert {event.asset_key for event in changed.asset_events} == {assets[0].key}


def test_an_idle_tick_of_the_services_sends_one_request_for_each_table(instance: dg.DagsterInstance) -> None:
    with counted_s3() as store:
        lake = HudiLakeResource(warehouse=f"s3://{BUCKET}/lake", storage_options=store.options)
        assets = [orders_asset(key=name) for name in ("first", "second")]
        for asset in assets:
            filled(lake, asset, 1)
        defs = definitions(lake, *assets)
        first = tick(defs, instance, lake)
        with store.traced() as trace:
            again = tick(defs, instance, lake, first.cursor)
        assert len(trace.requests) == 2, str(trace)[:5000]
        assert again.skip_message == first.skip_message
        filled(lake, assets[0], 1)
        (request,) = tick(defs, instance, lake, again.cursor).run_requests
        assert request.job_name == "hudi__first__services"


def test_an_examination_of_all_services_and_a_health_check_list_the_timeline_once(instance: dg.DagsterInstance) -> None:
    with counted_s3() as store:
        lake = HudiLakeResource(warehouse=f"s3://{BUCKET}/lake", storage_options=store.options)
        orders = orders_asset()
        filled(lake, orders, 1)
        defs = definitions(lake, orders)
        first = tick(defs, instance, lake)
        with store.traced() as trace:
            again = tick(defs, instance, lake)  # without a cursor, everything is examined
        assert again.skip_message == first.skip_message
        [spec] = orders.specs
        info = info_of(spec.key, spec.metadata)
        assert info is not None
        with store.traced() as of_check:
            assert result_of(HudiCheck("compaction_lag"), info, lake, instance, utc_now()).passed
        for each in (trace, of_check):
            asked = [request.what for request in each.requests]
            assert sum(what.startswith("LIST lake/orders/.hoodie/timeline/") for what in asked) == 1, str(each)


def test_an_idle_tick_of_a_code_server_opens_no_database_of_dagster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THIS_TEST", str(tmp_path / "lake"))
    lake = HudiLakeResource(warehouse=dg.EnvVar("OF_THIS_TEST"))
    orders = orders_asset()
    defs = dg.Definitions.merge(definitions(lake, orders), build_hudi_timeline_sensor(lake, [orders]))
    (tmp_path / "home").mkdir()
    instance, opened = dg.DagsterInstance.local_temp(str(tmp_path / "home")), list[object]()
    from_ref = dg.DagsterInstance.from_ref
    monkeypatch.setattr(dg.DagsterInstance, "from_ref", staticmethod(lambda ref: opened.append(ref) or from_ref(ref)))

    def ticked(name: str, cursor: str | None) -> tuple[Any, int]:
        before = len(opened)
        with dg.build_sensor_context(instance_ref=instance.get_ref(), cursor=cursor, definitions=defs) as context:
            return defs.resolve_sensor_def(name).evaluate_tick(context), len(opened) - before

    for name in ("hudi__services", "hudi__timeline"):
        ticked(name, None)  # the first tick in a process makes the lake
        missing, times = ticked(name, None)
        assert (times, "the table does not exist yet" in str(missing.skip_message)) == (0, True)
    table = filled(HudiLakeResource(warehouse=str(tmp_path / "lake")), orders, 1)
    for name in ("hudi__services", "hudi__timeline"):
        first, times = ticked(name, None)
        assert times <= 1
        idle, times = ticked(name, first.cursor)
        assert (times, not idle.run_requests, idle.asset_events) == (0, True, [])
        table.upsert(pa.table({"id": [1], "amount": [1.0], "ts": [9]}))
        changed, times = ticked(name, idle.cursor)
        assert (times, bool(changed.run_requests or changed.asset_events)) == (1, True)
