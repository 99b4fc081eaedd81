"""A load and reads through Spark's executors, whose tasks open the storage of the gateway themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

import pyhudi_core as hudi
from locks.server_cases import SECRET
from locks.servers import Server, gateway, scratch

pytestmark = pytest.mark.slow
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int64())])
ROWS = 20_000


@pytest.fixture
def server() -> Iterator[Server]:
    with scratch() as folder, gateway(folder, "AKIDEXAMPLE", SECRET).running() as running:
        yield running


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("pyhudi tests").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.sql.shuffle.partitions", "4")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    session = builder.config("spark.local.dir", str(tmp_path)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.mark.spark
@pytest.mark.row("O6")
def test_a_load_and_reads_run_in_the_executors(server: Server, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyhudi_core.engine import spark as engine

    monkeypatch.setattr(engine, "GATHER_BYTES", -1)  # small batches would be written at the driver
    url = f"http://127.0.0.1:{server.port}"
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET}
    boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys).create_bucket(Bucket="lake")
    options = {"endpoint_url": url, "region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": SECRET}
    hudi.create_table("s3://lake/orders", SCHEMA, "id", partition_by="part", storage_options=options)
    table = hudi.open_table("s3://lake/orders", options)
    rows = spark.range(ROWS).selectExpr("id", "cast(id % 3 as string) as part", "id * 2 as n")
    table.bulk_insert(rows)
    table.upsert(spark.range(100).selectExpr("id", "cast(id % 3 as string) as part", "cast(-1 as bigint) as n"))
    read = table.scan().to_spark(spark)
    assert read.count() == ROWS
    assert read.where("n = -1").count() == 100
    assert table.scan(where="part = '1'").to_spark(spark).count() == len(range(1, ROWS, 3))
