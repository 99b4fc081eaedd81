"""Sensors over many tables: a tick in which nothing has happened costs little."""

import shutil
import time

import pytest
from support.dagster_services import SERVICES, definitions, filled, orders_asset, tick
from support.speed import slowness

from pyhudi_dagster import build_hudi_timeline_sensor, hudi_external_asset

TABLES = 200
LIMIT = 2.0


@pytest.mark.slow
@pytest.mark.row("U10")
@pytest.mark.row("U11")
def test_an_idle_tick_over_200_tables_takes_less_than_2_seconds(lake, instance):
    """Processor time, without a JVM; the smallest of some, because other work on the machine only adds to it."""
    names = [f"t{number:03}" for number in range(TABLES)]
    filled(lake, orders_asset(SERVICES, key=names[0]), 2)
    for name in names[1:]:
        shutil.copytree(lake.location(names[0]), lake.location(name))

    services = definitions(lake, *(orders_asset(SERVICES, key=name) for name in names))
    timeline = build_hudi_timeline_sensor(lake, [hudi_external_asset(name) for name in names], max_events_per_tick=1000)
    for defs, name in ((services, "hudi__services"), (timeline, "hudi__timeline")):
        result = tick(defs, instance, lake, name=name)
        for event in result.asset_events:
            instance.report_runless_asset_event(event)
        cursor, times = result.cursor, []
        for _ in range(3):
            begun = time.process_time()
            result = tick(defs, instance, lake, cursor, name)
            times.append(time.process_time() - begun)
            cursor = result.cursor
            assert not result.run_requests and not result.asset_events
        print(f"{name}: {min(times):.2f} s")
        assert min(times) < LIMIT * slowness()
