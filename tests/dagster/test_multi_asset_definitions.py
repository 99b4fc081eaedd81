"""The definition of assets of one function: what fails at load, and what Dagster and the builders see of them."""

from __future__ import annotations

import dagster as dg
import pytest
from support.dagster_services import tick
from support.multi_assets import assets_of, rows

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import (
    Changes,
    Every,
    HudiPartitions,
    HudiTranslator,
    Keep,
    Services,
    build_hudi_checks,
    build_hudi_services,
    build_hudi_timeline_sensor,
    checked_definitions,
    hudi_asset,
    hudi_multi_asset,
    hudi_read_optimized_asset,
    reconcile,
)

DAYS = HudiPartitions.daily("day", "2026-01-01", end_date="2026-01-11")


@pytest.mark.parametrize(
    ("make", "says", "fix"),
    [
        (lambda: assets_of(None, {"record_key": ()}), "The asset of table orders has no record key", "record_key="),
        (lambda: assets_of(None, second={"operation": "upsrt"}), "lines has operation='upsrt'", "upsert"),
        (
            lambda: assets_of(None, second={"options": {"hoodie.compact.inlin": "true"}}),
            "lines",
            "hoodie.compact.inline",
        ),
        (
            lambda: assets_of(None, second={"services": Services(compaction=Every(commits=1))}),
            "lines",
            "merge_on_read",
        ),
        (
            lambda: assets_of(None, second={"pre_commit": [hudi.satisfies("a >>> 3 and")]}),
            "lines has the validator",
            "SQL",
        ),
        (lambda: assets_of(None, second={"retry_policy": None}), "lines cannot take retry_policy=", "hudi_multi_asset"),
        (lambda: assets_of(None, second={"colour": "red"}), "lines cannot take colour=", "dagster.AssetSpec"),
        (
            lambda: assets_of(None, second={"key": "orders"}),
            "orders and lines of a hudi_multi_asset both have the key",
            "key=",
        ),
        (lambda: assets_of(None, second={"table": "orders"}), "both have the table orders", "table="),
        (
            lambda: assets_of(None, second={"partitions": DAYS}),
            "different partitions",
            "partitions= to hudi_multi_asset",
        ),
        (lambda: assets_of(None, changes_of={"raw": "raw"}), "load has changes_of=raw", "Changes"),
        (lambda: hudi_multi_asset(tables={}), "tables={}", "hudi_output(record_key='id')"),
        (lambda: hudi_multi_asset(tables={"a": "b"}), "The output a of a hudi_multi_asset is 'b'", "hudi_output("),
    ],
)
def test_a_definition_that_cannot_work_fails_at_load_with_asset_option_and_fix(make, says, fix):
    with pytest.raises(InvalidOptionError) as refused:
        make()
    assert says in refused.value.message
    assert fix in f"{refused.value.message} {refused.value.hint}"


def test_attributes_of_the_decorator_are_those_of_all_outputs_that_have_none():
    class Named(HudiTranslator):
        def get_table_name(self, definition):
            return f"erp_{definition.key.path[-1]}"

    asset = assets_of(None, {"group_name": "sales"}, {"key_prefix": "erp"}, group_name="shop", translator=Named())
    specs = {spec.key.to_user_string(): spec for spec in asset.specs}
    assert {key: spec.group_name for key, spec in specs.items()} == {"orders": "sales", "erp/lines": "shop"}
    assert specs["erp/lines"].metadata["dagster/table_name"] == "erp_lines"


def test_one_of_several_assets_is_an_upstream_by_its_spec_and_has_a_view_of_its_own(run, lake):
    both = assets_of({"orders": rows(1)}, {"table": "erp_orders", "table_type": "merge_on_read"})

    def reads(upstream):
        @hudi_asset(record_key="id", changes_of={"found": upstream})
        def copy(found: Changes):
            return found.to_arrow()

        return copy

    for make in (lambda: reads(both), lambda: hudi_read_optimized_asset(both)):
        with pytest.raises(InvalidOptionError, match="a definition of several assets: orders, lines"):
            make()
    run(both)
    run(reads(both.get_asset_spec(dg.AssetKey("orders"))))
    assert lake.table("copy").scan(columns=["id"]).to_arrow()["id"].to_pylist() == [1]
    view = hudi_read_optimized_asset(both.get_asset_spec(dg.AssetKey("orders")))
    assert [spec.key.to_user_string() for spec in view.specs] == ["orders_ro"]


def test_several_assets_of_one_function_have_services_checks_and_a_sensor(lake, instance, run):
    both = assets_of({"orders": rows(1), "lines": rows(1)}, {"services": Services(archival=Keep(commits=20))})
    run(both)
    defs = dg.Definitions.merge(
        dg.Definitions(assets=[both], resources={"lake": lake}),
        build_hudi_services(lake, [both]),
        build_hudi_timeline_sensor(lake, [both]),
        build_hudi_checks([both], ["no_stuck_instants"]),
    )
    checked_definitions(defs)
    assert {"hudi__orders__services", "hudi__services"} <= {job.name for job in defs.jobs}
    lake.table("lines").upsert(rows(2))
    seen = tick(defs, instance, lake, name="hudi__timeline").asset_events
    assert [event.asset_key.to_user_string() for event in seen] == ["lines"], "the run has reported the others"
    of_orders, of_lines = reconcile(instance, lake, [both], dry_run=True)
    assert (of_orders.agrees, len(of_lines.missing)) == (True, 1)
