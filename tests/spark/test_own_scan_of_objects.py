"""Spark's own scan reads a table on S3 if the session's Hadoop opens it; else this package does. The rows are the same.

Hadoop shows a folder under the name of the bucket (its "overload scheme"), in place of S3A, whose libraries are half a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from support.tables import ORDERS, create_plain, orders

import pyhudi_core as hudi

KEYS = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "secret"}


@pytest.fixture
def bucket() -> Iterator[Any]:
    """A client of an emulator, and its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    yield boto3.client("s3", endpoint_url=address, region_name="us-east-1", **KEYS), address
    server.stop()


def _table(bucket: tuple[Any, str], name: str) -> hudi.HudiTable:
    client, address = bucket
    client.create_bucket(Bucket=name)
    options = {
        "endpoint_url": address, "region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret",
    }  # fmt: skip
    table = create_plain(f"s3://{name}/orders", ORDERS, "id", "day", storage_options=options)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    return table


def _copy(client: Any, name: str, place: Path) -> None:
    for item in client.list_objects_v2(Bucket=name)["Contents"]:
        if item["Key"].endswith(".parquet"):
            path = place / item["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(client.get_object(Bucket=name, Key=item["Key"])["Body"].read())


def _reads_by_itself(frame: Any) -> bool:
    plan = str(frame._jdf.queryExecution().optimizedPlan().toString())
    assert ("MapInArrow" in plan) != ("parquet" in plan), plan
    return "parquet" in plan


def test_a_session_whose_hadoop_opens_the_bucket_reads_it_by_itself(spark: Any, bucket: Any, tmp_path: Path) -> None:
    table = _table(bucket, "mounted")
    _copy(bucket[0], "mounted", tmp_path)
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    own = {
        "fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        "fs.viewfs.mounttable.mounted.link./orders": f"file://{tmp_path}/orders",
    }
    for name, value in own.items():
        settings.set(name, value)
    try:
        scan = table.scan()
        frame = scan.to_spark(spark)
        assert _reads_by_itself(frame)
        assert sorted(map(tuple, frame.collect())) == sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())
        assert [row.id for row in frame.where("day = 'b'").collect()] == [2]
        table.upsert(orders((2, "b", 5.0), (3, "c", 3.0)))
        assert sorted(row.id for row in frame.collect()) == [1, 2], "the state is fixed"
    finally:
        for name in own:
            settings.unset(name)


def test_a_session_without_a_file_system_for_the_bucket_reads_it_through_this_package(spark: Any, bucket: Any) -> None:
    table = _table(bucket, "elsewhere")
    frame = table.scan().to_spark(spark)
    assert not _reads_by_itself(frame)
    assert sorted((row.id, row.day) for row in frame.collect()) == [(1, "a"), (2, "b")]
    assert [row.id for row in frame.where("day = 'b'").collect()] == [2]
