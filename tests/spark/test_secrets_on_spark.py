"""No plan that Spark shows, in `explain` or on the pages of its UI, has a secret of the options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer

import pyhudi_core as hudi
from pyhudi_core.spark import register

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no data sources in Python")

SECRET = "very-secret-42"
MODES = ("simple", "extended", "codegen", "cost", "formatted")


@pytest.fixture
def storage() -> Iterator[dict[str, str]]:
    """The options of a bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET}
    boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys).create_bucket(Bucket="lake")
    yield {
        "endpoint_url": address,
        "region": "us-east-1",
        "access_key_id": "AKIDEXAMPLE",
        "secret_access_key": SECRET,
        "session_token": SECRET,
    }
    server.stop()


def test_no_plan_shows_a_secret(spark: Any, storage: dict[str, str]) -> None:
    register(spark)
    rows = pa.table({"id": [1, 2], "price": [1.0, 2.0]})
    place = "s3://lake/with-secrets"
    lock = {
        "provider": "dynamodb",
        "dynamodb.table": "locks",
        "dynamodb.region": "us-east-1",
        "dynamodb.endpoint_url": storage["endpoint_url"],
    }
    own = {f"hoodie.write.lock.{name}": value for name, value in lock.items()}
    own |= {"hoodie.aws.access.key": "AKIDEXAMPLE", "hoodie.aws.secret.key": SECRET + "-2"}
    table = hudi.create_table(place, rows.schema, "id", storage_options=storage, options=own)
    table.upsert(rows)
    options = {**{f"storage.{name}": value for name, value in storage.items()}, **own}
    frames = [spark.read.format("pyhudi").options(**options).load(place), table.scan().to_spark(spark)]
    plans = spark.sparkContext._jvm.org.apache.spark.sql.api.python.PythonSQLUtils
    for frame in frames:
        assert len(frame.filter("id = 1").collect()) == 1
        for mode in MODES:
            assert SECRET not in plans.explainString(frame._jdf.queryExecution(), mode), mode
    table.upsert(frames[0].select("id", "price"))
    frames[0].select("id", "price").write.format("pyhudi").options(**options).mode("append").save(place)
    shown = list(_kept_for_the_ui(spark))
    assert any("pyhudi" in text for text in shown)
    assert [text for text in shown if SECRET in text] == []


def _kept_for_the_ui(spark: Any) -> Iterator[str]:
    """What Spark keeps of each query for the pages of its UI and for the log of events."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    for number in range(executions.size()):
        one = executions.apply(number)
        yield f"{one.description()} {one.details()} {one.physicalPlanDescription()} {one.modifiedConfigs()}"
