"""What cannot work fails when the definitions load; the message names the asset and the option, and says what to do."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import (
    Changes,
    Every,
    HudiCheck,
    HudiLakeResource,
    HudiPartitions,
    HudiTranslator,
    Keep,
    OnCron,
    ServicePolicy,
    Services,
    SharedSession,
    build_hudi_checks,
    build_hudi_services,
    build_hudi_timeline_sensor,
    checked_definitions,
    hudi_asset,
    hudi_external_asset,
)

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("ts", pa.int64())])
LOCK = "hoodie.write.lock.provider"
EXPIRE = "hoodie.write.lock.filesystem.expire"
VALIDITY = "hoodie.write.lock.storage.validity.timeout.secs"


def orders_asset(**arguments: Any) -> dg.AssetsDefinition:
    @hudi_asset(**{"key": ["sales", "orders"], "record_key": "id", "schema": SCHEMA, **arguments})
    def orders() -> None: ...

    return orders


@pytest.mark.parametrize(
    ("arguments", "option", "fix"),
    [
        ({"pre_commit": [hudi.satisfies("amount >>> 3 and")]}, "pre_commit", "one condition in Spark SQL"),
        ({"pre_commit": [hudi.satisfies("a >>> 3 and")], "schema": None}, "pre_commit", "one condition in Spark SQL"),
        ({"pre_commit": [hudi.satisfies("amount > 3")]}, "pre_commit", "The columns are"),
        ({"record_key": "idd"}, "record_key=['idd']", "id, day, ts"),
        ({"record_key": ["id", "id"], "schema": None}, "record_key names a column twice: id, id", "Name it once"),
        ({"record_key": ["id", " "], "schema": None}, "record_key names the column ' '", "rename"),
        ({"partition_by": ["day", "day"], "schema": None}, "partition_by names a column twice", "Name it once"),
        ({"ordering": "ts,id", "schema": None}, "ordering names the column 'ts,id'", "rename"),
        ({"services": Services(clustering=Every(by=["id", "id"]))}, "by names a column twice", "Name it once"),
        ({"services": Services(index=["record", "record"])}, "index='record' twice", "Name it once"),
        ({"services": Services(cleaning=Keep(commits=10**30))}, "commits=1000", "from 1 on"),
        ({"kinds": {"a b!"}}, "the kind 'a b!'", "letters, digits"),
        ({"kinds": {""}}, "the kind ''", "letters, digits"),
        ({"lake": ""}, "lake=''", "letters, digits"),
        ({"lake": "two words"}, "lake='two words'", "letters, digits"),
        ({"ordering": "tss"}, "ordering=['tss']", "id, day, ts"),
        ({"partition_by": "dayy"}, "partition_by=['dayy']", "id, day, ts"),
        ({"table_type": "merge-on-read"}, "table_type='merge-on-read'", "merge_on_read"),
        ({"operation": "upsrt"}, "operation='upsrt'", "upsert"),
        ({"options": {"hoodie.compact.inlin": "true"}}, "hoodie.compact.inlin", "hoodie.compact.inline?"),
        ({"options": {"hoodie.parquet.max.file.size": "-3"}}, "hoodie.parquet.max.file.size=-3", "at least"),
        ({"options": {LOCK: "org.apache.hudi.client.NoLockProvider"}}, LOCK, "file_system"),
        ({"services": Services(cleaning=Keep(commits=-1))}, "services=cleaning with commits=-1", "from 1 on"),
        ({"services": Services(clustering=Every(commits=0))}, "services=clustering with commits=0", "from 1 on"),
        ({"services": Services(clustering=OnCron("61 * * * *"))}, "'61 * * * *'", "'0 3 * * *'"),
    ],
)
def test_an_asset_that_cannot_work_fails_at_load(arguments, option, fix):
    with pytest.raises(InvalidOptionError) as refused:
        orders_asset(**arguments)
    assert "sales/orders" in refused.value.message
    assert option in refused.value.message
    assert fix in refused.value.hint


@pytest.mark.parametrize(
    ("made", "says", "fix"),
    [
        (lambda: HudiPartitions.daily("day", "2026-13-01"), "start='2026-13-01'", "'2026-01-01'"),
        (lambda: HudiPartitions.hourly("hour", "2026-01-01"), "start='2026-01-01'", "'2026-01-01-00:00'"),
        (lambda: HudiPartitions.monthly("month", "2026-01-01", timezone="Mars"), "timezone='Mars'", "Europe/Berlin"),
        (lambda: HudiPartitions.daily("day", "2026-01-01", timezone="Europe"), "timezone='Europe'", "Europe/Berlin"),
        (lambda: HudiPartitions.weekly("w", "2026-01-01", end_date="2025-01-01"), "not before its end", "later"),
        (lambda: HudiPartitions.static("region", []), "values []", "'eu'"),
        (lambda: ServicePolicy(quiet_hours="25:00-10:00"), "quiet_hours='25:00-10:00'", "08:00-10:00"),
        (lambda: ServicePolicy(quiet_hours="08:00+01:00-10:00"), "quiet_hours=", "08:00-10:00"),
        (lambda: ServicePolicy(timezone="Europe"), "timezone='Europe'", "Europe/Berlin"),
        (lambda: ServicePolicy(max_minutes=-1), "max_minutes=-1", "from 1 on"),
        (lambda: ServicePolicy(priority="low"), "priority='low'", "-5"),
        (lambda: hudi.row_count(at_least=-1), "at_least=-1", "from 0 on"),
        (lambda: hudi.row_count(at_least=3, at_most=1), "at_least=3 above at_most=1", "No table"),
        (
            lambda: build_hudi_checks([orders_asset()], [HudiCheck("compaction_lag", limit=-1)]),
            "'compaction_lag' with limit=-1",
            "from 0 on",
        ),
        *[
            (
                lambda limit=limit: build_hudi_checks([orders_asset()], [HudiCheck("data_freshness", limit)]),
                f"limit={limit!r}",
                "from 0 on",
            )
            for limit in (float("inf"), float("nan"), True, 1e15)
        ],
        (lambda: ServicePolicy(max_minutes=10**30), "max_minutes=1000", "from 1 on"),
        (lambda: hudi_external_asset("web", kinds={"a/b"}), "the kind 'a/b'", "letters, digits"),
        (lambda: hudi.not_null("id", "id"), "not_null('id', 'id') names a column twice", "Name it once"),
        (lambda: hudi.unique("id", "day", "id"), "names a column twice", "Name it once"),
        (lambda: build_hudi_checks([orders_asset()], ["compaction_lag"], cron="99 * * * *"), "'99 * * * *'", "minute"),
    ],
)
def test_what_belongs_to_no_asset_fails_at_load(made, says, fix):
    with pytest.raises(InvalidOptionError) as refused:
        made()
    assert says in refused.value.message
    assert fix in refused.value.hint


COLUMNS = {
    "static": lambda column: HudiPartitions.static(column, ["eu"]),
    "dynamic": lambda column: HudiPartitions.dynamic(column, "regions"),
    "hourly": lambda column: HudiPartitions.hourly(["day", column], "2026-01-01-00:00"),
    "daily": lambda column: HudiPartitions.daily(column, "2026-01-01"),
    "weekly": lambda column: HudiPartitions.weekly(column, "2026-01-01"),
    "monthly": lambda column: HudiPartitions.monthly(column, "2026-01-01"),
    "of": lambda column: HudiPartitions.of(dg.StaticPartitionsDefinition(["eu"]), column),
    "multi": lambda column: HudiPartitions.multi(
        {"a": HudiPartitions.static("x", ["eu"]), "b": COLUMNS["daily"](column)}
    ),
}


@pytest.mark.parametrize("column", ["", " ", "a,b"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_partitions_of_each_kind_name_a_column(kind, column):
    with pytest.raises(InvalidOptionError, match="HudiPartitions cannot have these columns") as refused:
        COLUMNS[kind](column)
    assert repr(column) in refused.value.message
    assert COLUMNS[kind]("region").columns[-1] == "region"


@pytest.mark.parametrize(
    ("made", "says", "fix"),
    [
        (lambda: HudiPartitions.hourly(["day", "day"], "2026-01-01-00:00"), "column twice", "Name it once"),
        (lambda: HudiPartitions.static("region", ["eu", ""]), "by region have an empty value", "'unknown'"),
        (
            lambda: HudiPartitions.of(dg.StaticPartitionsDefinition([""]), "region"),
            "by region have an empty value",
            "'unknown'",
        ),
        (lambda: HudiPartitions.static("region", ["eu", "eu"]), "by region cannot have the values", "different"),
        (lambda: HudiPartitions.dynamic("region", " "), "by region have the name ' '", "name='regions'"),
        (lambda: HudiPartitions.daily("day", "2026-01-01", values=["a"]), "values=['a']", "end_date"),
        (lambda: HudiPartitions.daily("day", "2026-01-01", timzone="UTC"), "timzone='UTC'", "timezone"),
        (lambda: HudiPartitions.hourly("hour", "2026-01-01-00:00", day_offset=1), "day_offset=1", "minute_offset"),
        *[
            (
                lambda column=column: build_hudi_checks([orders_asset()], [HudiCheck("data_freshness", column=column)]),
                f"'data_freshness' with column={column!r}",
                "a column of times",
            )
            for column in ("", " ")
        ],
        (lambda: build_hudi_checks([orders_asset()], ["compaction_lag"], name="often"), "name='often'", "Add cron="),
        (
            lambda: build_hudi_checks([orders_asset()], ["compaction_lag"], timezone="Europe/Berlin"),
            "timezone='Europe/Berlin'",
            "Add cron=",
        ),
        (lambda: ServicePolicy(timezone="Europe/Berlin"), "timezone='Europe/Berlin'", "quiet_hours"),
    ],
)
def test_what_could_never_mean_anything_fails_at_load(made, says, fix):
    with pytest.raises(InvalidOptionError) as refused:
        made()
    assert says in refused.value.message
    assert fix in refused.value.hint


@pytest.mark.parametrize("numbers", [{"minimum_interval_seconds": -1}, {"max_events_per_tick": 0}])
def test_limits_of_a_sensor_fail_at_load(tmp_path, numbers):
    (name,) = numbers
    with pytest.raises(InvalidOptionError, match=f"{name}="):
        build_hudi_timeline_sensor(HudiLakeResource(warehouse=str(tmp_path)), [orders_asset()], **numbers)
    with pytest.raises(InvalidOptionError, match="batch='3'"):
        build_hudi_services(
            HudiLakeResource(warehouse=str(tmp_path)), [orders_asset()], runner=SharedSession(batch="3")
        )


@pytest.mark.parametrize(
    ("warehouse", "options", "says", "fix"),
    [
        ("", {}, "empty warehouse", "s3://bucket/lake"),
        ("ftp://lake", {}, "unknown scheme 'ftp'", "keep the table on a disk"),
        ("/lake", {LOCK: "NoLockProvider"}, f"{LOCK} cannot be 'NoLockProvider'", "file_system"),
        ("/lake", {LOCK: "zookeeper"}, "needs the option hoodie.write.lock.zookeeper.url", "pyhudi help locks"),
        ("s3://lake", {LOCK: "sql"}, "needs the option pyhudi.lock.sql.url", "pyhudi help locks"),
        ("/lake", {"hoodie.write.lock.dynamodb.table": "t"}, "belongs to the lock dynamodb", f"{LOCK}=dynamodb"),
        ("/lake", {LOCK: "in_process"}, "excludes only the writers of one process", "Leave"),
        ("/lake", {LOCK: "storage_based"}, "is a folder on a disk", "Leave"),
        ("s3://lake", {EXPIRE: "5"}, f"{EXPIRE} belongs to the lock file_system", f"{LOCK}=file_system"),
        ("/lake", {VALIDITY: "600"}, f"{VALIDITY} belongs to the lock storage_based", "Remove it"),
        ("s3://lake", {VALIDITY: "60"}, "is below ten times", "increase the timeout"),
    ],
)
def test_a_lake_with_a_missing_or_half_configured_lock_does_not_load(warehouse, options, says, fix):
    with pytest.raises(InvalidOptionError, match="HudiLakeResource") as refused:
        HudiLakeResource(warehouse=warehouse, options=options)
    assert says in refused.value.message
    assert fix in refused.value.hint


GENERATOR = "pyhudi.time.generator"
ZOOKEEPER = {"hoodie.write.lock.zookeeper.url": "zk:2181", "hoodie.write.lock.zookeeper.base_path": "/hudi"}
DYNAMODB = {"hoodie.write.lock.dynamodb.table": "locks", "hoodie.aws.secret.key": "s"}


@pytest.mark.parametrize(
    "options",
    [
        {GENERATOR: "zookeeper", **ZOOKEEPER},
        {GENERATOR: "dynamodb", **DYNAMODB},
        {GENERATOR: "dynamodb", **DYNAMODB, LOCK: "zookeeper", **ZOOKEEPER},
        {GENERATOR: "zookeeper", **ZOOKEEPER, LOCK: "zookeeper_implicit"},
    ],
)
def test_the_server_of_a_time_generator_may_be_another_one_than_the_lock(options):
    lake = HudiLakeResource(warehouse="s3://lake", options=options)
    assert dict(lake.options) == options


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({GENERATOR: "dynamodb"}, f"{GENERATOR}=dynamodb needs the option hoodie.write.lock.dynamodb.table"),
        ({GENERATOR: "zookeeper", LOCK: "zookeeper_implicit", "hoodie.write.lock.zookeeper.url": "zk"},
         f"{GENERATOR}=zookeeper needs the option hoodie.write.lock.zookeeper.base_path"),
        ({GENERATOR: "zookeeper", **ZOOKEEPER, **DYNAMODB}, "belongs to the lock dynamodb"),
    ],
)  # fmt: skip
def test_a_time_generator_without_its_server_or_beside_a_lock_without_one_does_not_load(options, says):
    with pytest.raises(InvalidOptionError, match=says):
        HudiLakeResource(warehouse="s3://lake", options=options)


def test_a_lake_that_the_environment_describes_is_examined_when_its_values_are_known(monkeypatch, tmp_path):
    lake = HudiLakeResource(warehouse=dg.EnvVar("LAKE"), options={"hoodie.write.lock.wait_time_ms": dg.EnvVar("WAIT")})
    monkeypatch.setenv("LAKE", str(tmp_path))
    monkeypatch.setenv("WAIT", "soon")

    @dg.asset
    def reader(lake: HudiLakeResource) -> None:
        lake.location("orders")

    with pytest.raises(dg.DagsterResourceFunctionError) as refused:
        dg.materialize([reader], resources={"lake": lake})
    assert "must be a whole number, not 'soon'" in str(refused.value.__cause__)


def test_the_lock_of_an_asset_has_to_fit_its_lake(tmp_path):
    lake = HudiLakeResource(warehouse=str(tmp_path))
    asset = orders_asset(options={LOCK: "in_process"})
    for build in (
        lambda: checked_definitions(dg.Definitions(assets=[asset], resources={"lake": lake})),
        lambda: build_hudi_services(lake, [asset]),
        lambda: build_hudi_timeline_sensor(lake, [asset]),
    ):
        with pytest.raises(InvalidOptionError, match="sales/orders.*in_process excludes only"):
            build()


def test_changes_of_an_asset_that_does_not_exist_fail_at_load_with_the_nearest_name(tmp_path):
    resources = {"lake": HudiLakeResource(warehouse=str(tmp_path))}

    @hudi_asset(record_key="id", changes_of={"web": "ordres"})
    def totals(web: Changes) -> None: ...

    @hudi_asset(record_key="id")
    def orders() -> None: ...

    with pytest.raises(InvalidOptionError, match="totals reads the changes of ordres.*Did you mean orders"):
        checked_definitions(dg.Definitions(assets=[totals, orders], resources=resources))
    with pytest.raises(InvalidOptionError, match="hudi_external_asset\\('ordres'\\)"):
        checked_definitions(dg.Definitions(assets=[totals], resources=resources))
    declared = dg.Definitions(assets=[totals, hudi_external_asset("ordres")], resources=resources)
    assert checked_definitions(declared) is declared


def test_changes_of_what_is_no_asset_are_refused():
    with pytest.raises(InvalidOptionError, match="The asset totals has changes_of=3"):

        @hudi_asset(record_key="id", changes_of={"web": 3})
        def totals(web: Changes) -> None: ...


def test_a_short_table_type_is_the_same_as_its_long_name(tmp_path):
    asset = orders_asset(table_type="mor", services=Services(compaction=Every(commits=2)))
    lake = HudiLakeResource(warehouse=str(tmp_path))
    assert build_hudi_services(lake, [asset]).jobs


@pytest.mark.row("O6")
@pytest.mark.parametrize(
    ("warehouse", "wrong", "says"),
    [
        ("s3://lake", {"endpoint": "http://h"}, "Unknown storage option 'endpoint'"),
        ("s3://lake", {"access_key_id": "x"}, "only one is given"),
        ("/lake", {"region": "eu-west-1"}, "Unknown storage option 'region'"),
        ("/lake", {"fsync": "sometimes"}, "'fsync' is 'sometimes'"),
    ],
)
def test_storage_options_with_which_no_run_could_open_a_table_fail_at_load(warehouse, wrong, says):
    with pytest.raises(InvalidOptionError, match=says):
        HudiLakeResource(warehouse=warehouse, storage_options=wrong)


def test_storage_options_of_the_environment_are_checked_by_their_names():
    given = {"access_key_id": dg.EnvVar("LAKE_KEY"), "secret_access_key": dg.EnvVar("LAKE_SECRET")}
    HudiLakeResource(warehouse="s3://lake", storage_options=given)
    HudiLakeResource(warehouse="/lake", storage_options={"fsync": dg.EnvVar("LAKE_FSYNC")})
    with pytest.raises(InvalidOptionError, match="Unknown storage option 'secret'"):
        HudiLakeResource(warehouse="s3://lake", storage_options={"secret": dg.EnvVar("LAKE_SECRET")})


def test_an_argument_that_a_lake_does_not_have_is_refused_and_not_ignored():
    with pytest.raises(InvalidOptionError, match="HudiLakeResource cannot take option=") as refused:
        HudiLakeResource(warehouse="/lake", option={})
    assert "The arguments are warehouse," in refused.value.hint


def test_what_is_no_translator_is_refused_by_the_lake():
    with pytest.raises(InvalidOptionError, match="HudiLakeResource has translator='erp'"):
        HudiLakeResource(warehouse="/lake", translator="erp")


def test_an_asset_that_its_lakes_translator_did_not_name_is_refused():
    """It was defined before its lake, or sees it under another name; its key cannot change any more."""
    asset = orders_asset(services=Services(archival=Keep(commits=20)))
    own = orders_asset(services=Services(archival=Keep(commits=20)), translator=HudiTranslator())
    translated = HudiLakeResource(warehouse="/lake", translator=HudiTranslator())
    for build in (
        lambda: build_hudi_services(translated, [asset]),
        lambda: build_hudi_timeline_sensor(translated, [asset]),
        lambda: checked_definitions(dg.Definitions(assets=[asset], resources={"lake": translated})),
    ):
        with pytest.raises(
            InvalidOptionError, match="orders was defined without the translator of its lake"
        ) as refused:
            build()
        assert "Define the lake above its assets" in refused.value.hint
    assert build_hudi_timeline_sensor(translated, [own, hudi_external_asset("events")]).sensors


def test_a_table_may_have_a_space_in_its_name_and_a_key_that_dagster_refuses_is_named_with_the_way_out(lake, run):
    @hudi_asset(table="erp/my orders", record_key="id", services=Services(cleaning=Every(commits=1)))
    def orders() -> pa.Table:
        return pa.table({"id": [1]})

    parts = (build_hudi_services(lake, [orders]), build_hudi_timeline_sensor(lake, [orders]))
    dg.Definitions.validate_loadable(dg.Definitions.merge(dg.Definitions(assets=[orders]), *parts))
    assert run(orders).success
    assert lake.table("erp/my orders").scan().count() == 1
    for key in ("my orders", ["erp", "bestellungen_\u00e4"]):
        with pytest.raises(InvalidOptionError, match="characters that Dagster does not allow") as refused:
            hudi_asset(key=key, record_key="id")(lambda: None)
        assert "table=" in refused.value.hint
