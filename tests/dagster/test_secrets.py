"""No secret among the options of a lake or of an asset is shown by Dagster: in definitions, in the events of runs, in logs and representations."""

import boto3
import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_shared.serdes import serialize_value
from moto.server import ThreadedMotoServer
from support.dagster_services import definitions, filled, orders_asset, tick

from pyhudi_dagster import (
    HudiIOManager,
    HudiLakeResource,
    build_hudi_checks,
    build_hudi_timeline_sensor,
    hudi_asset,
    hudi_metadata,
)
from pyhudi_dagster.lake.spark_session import SparkResource

SECRET = "very-secret-42"
DYNAMODB = {
    "hoodie.write.lock.provider": "dynamodb",
    "hoodie.write.lock.dynamodb.table": "locks",
    "hoodie.aws.secret.key": SECRET,
}


def shown(definitions):
    """What Dagster's UI gets of definitions."""
    return serialize_value(RepositorySnap.from_def(definitions.get_repository_def()))


def test_options_in_the_metadata_of_an_asset_are_shown_by_their_keys_and_hidden_in_their_values():
    @dg.asset(metadata=hudi_metadata(record_key="id", options=DYNAMODB))
    def plain() -> None: ...

    @hudi_asset(record_key="id", options=DYNAMODB)
    def own() -> None: ...

    text = shown(dg.Definitions(assets=[plain, own], resources={"lake": HudiLakeResource(warehouse="s3://lake")}))
    assert "hoodie.aws.secret.key" in text
    assert SECRET not in text


def test_a_lake_does_not_show_its_options_in_its_representation():
    keys = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": SECRET}
    lake = HudiLakeResource(warehouse="s3://lake", storage_options=keys, options=DYNAMODB)
    assert "s3://lake" in repr(lake)
    assert SECRET not in f"{lake!r} {lake}"


@pytest.mark.parametrize(
    "given",
    [
        lambda: SparkResource(spark_config={"spark.hadoop.fs.s3a.secret.key": SECRET}),
        lambda: HudiLakeResource(warehouse="/l", pyspark=SparkResource(spark_config={"spark": {"password": SECRET}})),
        lambda: HudiLakeResource(warehouse=f"abfss://c@a.dfs.core.windows.net/l?sig={SECRET}"),
        lambda: HudiLakeResource(warehouse=f"thrift://user:{SECRET}@metastore:9083/sales"),
        lambda: HudiLakeResource(warehouse="/l", options=f"password={SECRET}"),
        lambda: HudiLakeResource(warehouse="/l", options={"password": {"a": SECRET}}),
        lambda: HudiLakeResource(warehouse="s3://l", storage_options={"secret_access_key": [SECRET]}),
        lambda: HudiLakeResource(warehouse={"password": SECRET}),
        lambda: HudiLakeResource(warehouse="/l", options={"hoodie.write.lock.provider": f"postgresql://u:{SECRET}@h"}),
        lambda: HudiLakeResource(warehouse="/l", options={"hoodie.parquet.max.file.size": f"password={SECRET}"}),
        lambda: SparkResource(spark_config=f"password={SECRET}"),
    ],
)
def test_no_value_of_a_resource_is_shown_by_its_representation_or_by_its_refusal(given):
    try:
        made = given()
        text = f"{made!r} {made}"
    except Exception as error:
        text = f"{error!r} {error}"
    assert any(name in text for name in ("HudiLakeResource", "SparkResource"))
    assert SECRET not in text


def test_the_options_in_metadata_count_in_the_writes_of_the_io_manager(tmp_path):
    @dg.asset(
        metadata=hudi_metadata(record_key="id", options={"pyhudi.lock.audit": "true"}),
        io_manager_key="hudi",
    )
    def orders() -> pa.Table:
        return pa.table({"id": [1]})

    lake = HudiLakeResource(warehouse=str(tmp_path))
    assert dg.materialize([orders], resources={"hudi": HudiIOManager(lake=lake)}).success
    assert list(tmp_path.glob("orders/.hoodie/.locks/audit/*"))


@pytest.fixture
def store(monkeypatch):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    given = {"endpoint_url": address, "region": "us-east-1", "access_key_id": "AKIDEXAMPLE"}
    monkeypatch.setenv("LAKE_SECRET", SECRET)
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET}
    boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys).create_bucket(Bucket="lake")
    yield given
    server.stop()


def test_a_run_with_a_secret_of_the_environment_shows_it_nowhere(store, caplog):
    @hudi_asset(record_key="id")
    def orders() -> pa.Table:
        return pa.table({"id": [1]})

    @dg.asset(deps=[orders])
    def broken(lake: HudiLakeResource) -> None:
        raise ValueError(f"no table in {lake}, {lake.table('orders')!r}")

    caplog.set_level("DEBUG")
    secret = {"secret_access_key": dg.EnvVar("LAKE_SECRET")}
    lake = HudiLakeResource(warehouse="s3://lake", storage_options={**store, **secret})
    assert SECRET not in shown(dg.Definitions(assets=[orders, broken], resources={"lake": lake}))
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([orders, broken], resources={"lake": lake}, instance=instance, raise_on_error=False)
        assert [event.step_key for event in done.get_step_failure_events()] == ["broken"]
        assert done.asset_materializations_for_node("orders")
        events = [serialize_value(event) for event in instance.all_logs(done.run_id)]
    assert "s3://lake" in "".join(events)
    assert SECRET not in "".join(events)
    assert SECRET not in caplog.text


def test_services_the_timeline_sensor_checks_and_refused_writes_show_no_secret(store, caplog, instance):
    caplog.set_level("DEBUG")
    place = {"endpoint_url": store["endpoint_url"], "region": store["region"]}
    options = {**DYNAMODB, **{f"hoodie.write.lock.dynamodb.{name}": value for name, value in place.items()}}
    options["hoodie.aws.access.key"] = "AKIDEXAMPLE"
    storage = {**store, "secret_access_key": SECRET, "session_token": SECRET}
    lake = HudiLakeResource(warehouse="s3://lake/with-services", storage_options=storage, options=options)
    orders = orders_asset()
    filled(lake, orders, 3)

    @hudi_asset(record_key="id")
    def refused() -> pa.Table:
        return pa.table({"id": pa.array([None], pa.int64())})

    examine = dg.define_asset_job("examine", selection=dg.AssetSelection.checks_for_assets(orders))
    defs = dg.Definitions.merge(
        definitions(lake, orders),
        build_hudi_timeline_sensor(lake, [orders]),
        build_hudi_checks([orders], ["commit_retries", "events_have_commits"]),
        dg.Definitions(assets=[refused], jobs=[examine]),
    )
    told = [serialize_value(event) for event in tick(defs, instance, lake, None, "hudi__timeline").asset_events]
    assert len(told) == 3
    told.append(repr(tick(defs, instance, lake)))
    for job in ("hudi__orders__services", "examine"):
        assert defs.resolve_job_def(job).execute_in_process(instance=instance).success
    wrong = dg.materialize([refused], resources={"lake": lake}, instance=instance, raise_on_error=False)
    assert not wrong.success
    told += [serialize_value(event) for run in instance.get_runs() for event in instance.all_logs(run.run_id)]
    assert "compaction" in "".join(told)
    assert "null" in "".join(told), "the refusal of the write is there"
    assert SECRET not in "".join(told)
    # botocore itself logs tokens at this level (SECURITY.md).
    assert not [one for one in caplog.records if SECRET in one.getMessage() and not one.name.startswith("botocore")]
