"""Services of an asset: the options that they set, and definitions that cannot work, which fail when they are loaded."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pytest
from support.dagster_services import orders_asset

from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import (
    Every,
    HudiLakeResource,
    Keep,
    OnCron,
    ServicePolicy,
    Services,
    SharedSession,
    build_hudi_services,
)
from pyhudi_dagster.lake.info import info_of

pytestmark = pytest.mark.row("U11")
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64())])


def options_of(services):
    (spec,) = orders_asset(services).specs
    return dict(info_of(spec.key, spec.metadata).settings.options)


@pytest.mark.parametrize(
    ("services", "options"),
    [
        (
            Services(compaction=Every(commits=7)),
            {"hoodie.compact.inline": "false", "hoodie.compact.inline.max.delta.commits": "7"},
        ),
        (
            Services(compaction=Every(commits=7, minutes=2)),
            {
                "hoodie.compact.inline": "false",
                "hoodie.compact.inline.max.delta.commits": "7",
                "hoodie.compact.inline.max.delta.seconds": "120",
                "hoodie.compact.inline.trigger.strategy": "NUM_OR_TIME",
            },
        ),
        (
            Services(clustering=OnCron("0 3 * * *", by=["id", "ts"])),
            {"hoodie.clustering.inline": "false", "hoodie.clustering.plan.strategy.sort.columns": "id,ts"},
        ),
        (
            Services(cleaning=Keep(hours=48, every=3)),
            {
                "hoodie.clean.automatic": "false",
                "hoodie.clean.policy": "KEEP_LATEST_BY_HOURS",
                "hoodie.clean.hours.retained": "48",
                "hoodie.clean.trigger.max.commits": "3",
            },
        ),
        (
            Services(archival=Keep(commits=20)),
            {
                "hoodie.archive.automatic": "false",
                "hoodie.keep.min.commits": "20",
                "hoodie.keep.max.commits": "30",
            },
        ),
        (
            Services(index=["record", "bloom"]),
            {
                "hoodie.metadata.enable": "true",
                "hoodie.metadata.record.index.enable": "true",
                "hoodie.metadata.index.bloom.filter.enable": "true",
            },
        ),
        (Services(failed_writes=Every()), {}),
    ],
)
def test_services_set_their_triggers_and_switch_themselves_off_after_commits(services, options):
    assert options_of(services) == options


@pytest.mark.parametrize(
    ("arguments", "what", "fix"),
    [
        ({"services": Services(compactoin=Every())}, "services=compactoin, which is no table service", "compaction"),
        ({"services": Services(compaction=5)}, "services=compaction=5", "Every(commits=5)"),
        (
            {"services": Services(compaction=Every(commits=5)), "table_type": "copy_on_write"},
            "services=compaction, but its table is copy_on_write",
            "table_type='merge_on_read'",
        ),
        ({"services": Services(compaction=Every(commits=0))}, "commits=0", "from 1 on"),
        ({"services": Services(cleaning=Keep())}, "services=cleaning=Keep", "Keep(commits=...) or Keep(hours=...)"),
        ({"services": Services(cleaning=Keep(commits=1, hours=1))}, "services=cleaning=Keep", "Keep(commits=...)"),
        ({"services": Services(archival=Keep(hours=1))}, "services=archival=Keep", "Keep(commits=...)"),
        ({"services": Services(clustering=OnCron("at noon"))}, "'at noon'", "0 3 * * *"),
        ({"services": Services(clustering=OnCron("0 3 * * *", timezone="Mars"))}, "'Mars'", "Europe/Berlin"),
        (
            {"services": Services(clustering=Every(by="elsewhere")), "schema": SCHEMA},
            "by=['elsewhere'], which its schema does not have",
            "id, ts",
        ),
        ({"services": Services(cleaning=Every(by="id"))}, "services=cleaning with by=['id']", "leave by= out"),
        ({"services": Services(cleaning=Every(minutes=5))}, "services=cleaning with minutes=", "OnCron"),
        ({"services": Services(failed_writes=Every(commits=5))}, "services=failed_writes with commits=", "Every()"),
        ({"services": Services(index="hash")}, "index='hash'", "record, bloom"),
        (
            {"services": Services(compaction=Every(commits=5)), "options": {"hoodie.compact.inline": "true"}},
            "'hoodie.compact.inline': 'true'",
            "Remove hoodie.compact.inline",
        ),
    ],
)
def test_services_that_cannot_run_fail_at_load_with_the_asset_the_option_and_the_fix(arguments, what, fix):
    with pytest.raises(InvalidOptionError) as refused:
        orders_asset(**arguments)
    assert "The asset orders has" in str(refused.value) or "of the asset orders" in str(refused.value)
    assert what in str(refused.value)
    assert fix in refused.value.hint


@pytest.mark.parametrize(
    "arguments", [{"quiet_hours": "8-10h"}, {"quiet_hours": "08:00-08:00"}, {"timezone": "Mars"}, {"max_minutes": 0}]
)
def test_a_policy_that_cannot_work_fails_at_load(arguments):
    (name,) = arguments
    with pytest.raises(InvalidOptionError, match=f"ServicePolicy has {name}="):
        ServicePolicy(**arguments)


def test_assets_that_are_no_tables_of_one_lake_fail_at_load(tmp_path):
    lake = HudiLakeResource(warehouse=str(tmp_path))

    @dg.asset
    def plain() -> None: ...

    for assets, message in [
        ([], "has no asset"),
        ([plain], "The asset plain of build_hudi_services is no Hudi table"),
        (["orders"], "Pass the assets themselves"),
        (
            [orders_asset(), orders_asset(key="other", table="orders")],
            "two assets of the table orders: orders and other",
        ),
        ([orders_asset(), orders_asset(key="other", lake="second")], "assets of two lakes"),
    ]:
        with pytest.raises(InvalidOptionError) as refused:
            build_hudi_services(lake, assets)
        assert message in f"{refused.value} {refused.value.hint}"
    with pytest.raises(InvalidOptionError, match="cannot run services"):
        build_hudi_services(lake, [orders_asset()], runner=SharedSession(batch=0))


def test_the_ui_shows_the_services_of_an_asset():
    (spec,) = orders_asset(Services(compaction=Every(commits=7))).specs
    assert spec.metadata["hudi/info"]["services"] == "Services(compaction=Every(commits=7, minutes=None, by=()))"
