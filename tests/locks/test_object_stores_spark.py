"""A load and reads through Spark's executors, whose tasks open the storage of each cloud themselves, by the layer that the driver uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pyarrow as pa
import pytest
from support.google_store import BUCKET, JsonObjects, google_store

import pyhudi_core as hudi
from locks.server_cases import SECRET
from locks.servers import azurite, fake_gcs, gateway, scratch
from locks.test_clouds import azure_at, make_container

pytestmark = pytest.mark.slow
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int64())])
ROWS = 20_000


@contextmanager
def in_s3() -> Iterator[tuple[str, dict[str, str]]]:
    with scratch() as folder, gateway(folder, "AKIDEXAMPLE", SECRET).running() as running:
        url = f"http://127.0.0.1:{running.port}"
        keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET}
        boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys).create_bucket(Bucket="lake")
        own = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": SECRET}
        yield "s3://lake/orders", {"endpoint_url": url, **own}


@contextmanager
def in_azure() -> Iterator[tuple[str, dict[str, str]]]:
    with scratch() as folder, azurite(folder).running() as running:
        make_container(running.port)
        yield "az://lake/orders", azure_at(running.port)


@contextmanager
def in_google() -> Iterator[tuple[str, dict[str, str]]]:
    with scratch() as folder, fake_gcs(folder).running() as running:
        objects = JsonObjects(running.port)
        objects.make_bucket()
        with google_store(objects) as store:
            yield f"gs://{BUCKET}/orders", store.options


STORES = {"s3": in_s3, "azure": in_azure, "google": in_google}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("pyhudi tests").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.sql.shuffle.partitions", "4")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    session = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark"))).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.mark.spark
@pytest.mark.row("O6")
@pytest.mark.parametrize("store", STORES)
def test_a_load_and_reads_run_in_the_executors(store: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyhudi_core.engine import spark as engine

    monkeypatch.setattr(engine, "GATHER_BYTES", -1)  # small batches would be written at the driver
    with STORES[store]() as (location, options):
        hudi.create_table(location, SCHEMA, "id", partition_by="part", storage_options=options)
        load_and_read(hudi.open_table(location, options), spark)


def load_and_read(table: hudi.HudiTable, spark: Any) -> None:
    rows = spark.range(ROWS).selectExpr("id", "cast(id % 3 as string) as part", "id * 2 as n")
    table.bulk_insert(rows)
    table.upsert(spark.range(100).selectExpr("id", "cast(id % 3 as string) as part", "cast(-1 as bigint) as n"))
    read = table.scan().to_spark(spark)
    assert read.count() == ROWS
    assert read.where("n = -1").count() == 100
    assert table.scan(where="part = '1'").to_spark(spark).count() == len(range(1, ROWS, 3))
