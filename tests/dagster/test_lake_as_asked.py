"""The lake that users asked for, word for word: it loads, and it runs."""

from __future__ import annotations

import sys
import types

import dagster as dg
import pyarrow as pa
from support.dagster_services import told

import pyhudi_core as hudi
import pyhudi_dagster
from pyhudi_dagster import HudiPartitions, HudiTranslator

ASKED = """
lake = HudiLakeResource(warehouse="s3://lake", translator=ErpTranslator())

@hudi_asset(record_key="id", ordering="ts", table_type="merge_on_read", partitions=DAYS, pre_commit=[not_null("id")],
            services=Services(compaction=Every(commits=5), cleaning=Keep(commits=20),
                              clustering=OnCron("0 3 * * *", by=["customer"]), index=["record", "bloom"]))
def orders(context, raw: Changes) -> "DataFrame": ...

@hudi_asset(record_key="day", automation_condition=HudiAutomation.on_commit())
def totals(orders: Changes) -> pa.Table: ...

events = hudi_external_asset("web/events")          # written by somebody else's Spark

defs = dg.Definitions.merge(
    dg.Definitions(assets=[orders, totals, events], resources={"lake": lake}),
    build_hudi_timeline_sensor(lake, [orders, events], minimum_interval_seconds=30),
    build_hudi_services(lake, [orders], policy=ServicePolicy(max_minutes=50, quiet_hours="08:00-10:00"), runner=SharedSession(batch=50)),
    build_hudi_checks([orders], ["no_stuck_instants", "compaction_lag", "data_freshness"]))
"""
BODIES = {
    '-> "DataFrame": ...': '-> "DataFrame":\n    return raw.to_arrow()',
    "-> pa.Table: ...": '-> pa.Table:\n    return orders.to_arrow(columns=["day"]).group_by("day").aggregate([("day", "count")])',
}
ROWS = {"id": [1, 2], "customer": ["Ada", "Grace"], "day": ["2026-01-01"] * 2, "amount": [3.0, 4.0], "ts": [1, 1]}


class ErpTranslator(HudiTranslator):
    def get_group_name(self, definition):
        return "erp"


def loaded(warehouse, monkeypatch, bodies=()):
    """The module with this code, and with the names that it uses."""
    module = types.ModuleType("lake_as_asked")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.__dict__.update({name: getattr(pyhudi_dagster, name) for name in pyhudi_dagster.__all__})
    days = HudiPartitions.daily("day", start="2026-01-01")
    module.__dict__.update(dg=dg, pa=pa, not_null=hudi.not_null, DAYS=days, ErpTranslator=ErpTranslator)
    code = ASKED.replace("s3://lake", str(warehouse))
    for signature, body in bodies:
        assert signature in code
        code = code.replace(signature, body)
    exec(compile(code, "the lake as asked", "exec"), module.__dict__)
    return module


def raw_rows(module, count=2):
    rows = pa.table(ROWS).slice(0, count)
    hudi.create_table(module.lake.location("raw"), schema=rows.schema, record_key="id").upsert(rows)


def run(module, instance, *assets, **arguments):
    return dg.materialize(list(assets), instance=instance, resources={"lake": module.lake}, **arguments)


def test_it_loads_word_for_word_and_functions_without_rows_publish_nothing(tmp_path, monkeypatch, instance):
    module = loaded(tmp_path, monkeypatch)
    dg.Definitions.validate_loadable(module.defs)
    groups = {spec.key.to_user_string(): spec.group_name for spec in module.defs.resolve_all_asset_specs()}
    assert groups == {"orders": "erp", "totals": "erp", "web/events": "default", "raw": "default"}
    assert {sensor.name for sensor in module.defs.sensors} == {"hudi__timeline", "hudi__services"}
    assert [schedule.name for schedule in module.defs.schedules] == ["hudi__services__0_3_x_x_x"]
    assert {"hudi__orders__services", "hudi__services"} <= {job.name for job in module.defs.jobs}
    raw_rows(module)
    done = run(module, instance, module.orders, partition_key="2026-01-01")
    assert done.success
    assert not done.get_asset_materialization_events()


def test_with_bodies_its_assets_have_rows_and_its_services_say_why_not(tmp_path, monkeypatch, instance):
    module = loaded(tmp_path, monkeypatch, BODIES.items())
    raw_rows(module)
    done = run(module, instance, module.orders, partition_key="2026-01-01")
    checked = {each.check_name: each.passed for each in done.get_asset_check_evaluations()}
    assert checked == {"not_null_id": True, "timeline_readable": True}
    run(module, instance, module.orders, module.totals, selection=[module.totals])
    found = module.lake.table("totals").scan(columns=["day", "day_count"]).to_arrow().to_pylist()
    assert found == [{"day": "2026-01-01", "day_count": 2}]
    table = module.lake.table("orders")
    assert table.config.table_type.value == "MERGE_ON_READ"
    job = module.defs.resolve_job_def("hudi__orders__services").execute_in_process(instance=instance)
    assert told(job)["compaction"]["skipped_because"] == "no file group has log files"
