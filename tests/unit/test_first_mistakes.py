"""What people who come from other libraries, or from Hudi on Spark, write first: each mistake is answered with what to write."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.tables import ORDERS, in_memory, orders

import pyhudi_core as hudi
from pyhudi_core.errors import DataError, HudiError, SchemaMismatchError

ROWS = orders((1, "a", 1.0))
MISTAKES: dict[str, tuple[Callable[[hudi.HudiTable], Any], str]] = {
    "the operation as an option": (
        lambda t: hudi.create_table(
            f"{t.location}-2", ORDERS, "id", options={"hoodie.datasource.write.operation": "upsert"}
        ),
        r"does not apply here.* Omit it: the method that is called says it",
    ),
    "parallelism": (
        lambda t: hudi.create_table(
            f"{t.location}-2", ORDERS, "id", options={"hoodie.upsert.shuffle.parallelism": "2"}
        ),
        r"does not apply here.* the number of tasks follows from the data",
    ),
    "a DataFrame with a column of mixed types as the schema": (
        lambda t: hudi.create_table(f"{t.location}-2", pd.DataFrame({"id": [1, 2], "m": [1, "a"]}), "id"),
        r"cannot be read as Arrow.*column m.* each column takes values of one type",
    ),
    "a catalog by JDBC": (
        lambda t: hudi.create_table(
            f"{t.location}-2", ORDERS, "id", options={"hoodie.datasource.hive_sync.jdbcurl": "jdbc:hive2://h:10000"}
        ),
        r"does not apply here.* without JDBC",
    ),
    "a misspelt option": (
        lambda t: hudi.create_table(f"{t.location}-2", ORDERS, "id", options={"hoodie.metadata.enabel": "true"}),
        r"Did you mean hoodie\.metadata\.enable\?",
    ),
    "a query as condition": (lambda t: t.scan(where="SELECT * FROM x WHERE id = 1"), "give the condition alone"),
    "a where clause": (lambda t: t.delete(where="WHERE id = 1"), "Leave WHERE out and give the condition alone"),
    "an order": (lambda t: t.scan(where="id = 1 ORDER BY id"), "Leave ORDER BY out"),
    "Google without a bucket": (lambda t: hudi.open_table("gs:bucket/orders"), r"Write gs://bucket/prefix"),
    "Azure without an account": (lambda t: hudi.open_table("az://c/orders"), r"abfss://container@account\.dfs"),
    "an option of Azure by another name": (
        lambda t: hudi.open_table("az://c/t", storage_options={"account_nme": "x"}),
        "Known for this location: account_name",
    ),
    "two keys in one text": (
        lambda t: hudi.create_table(f"{t.location}-2", ORDERS, "id,day"),
        r"Give a list: record_key=\['id', 'day'\]",
    ),
    "a misspelt key": (lambda t: hudi.create_table(f"{t.location}-2", ORDERS, "idd"), "Did you mean 'id'"),
    "one column as text": (lambda t: t.scan(columns="id"), r"Write columns=\['id'\]"),
    "an unknown column": (lambda t: t.scan(columns=["prices"]), "Did you mean 'price'"),
    "a Series of pandas": (lambda t: t.upsert(pd.Series([1], name="id")), "A Series is one column"),
    "a Series of Polars": (lambda t: t.upsert(pl.Series("id", [1])), "A Series is one column"),
    "rows in a list": (lambda t: t.upsert([{"id": 1}]), "from_pylist"),
    "columns in a dict": (lambda t: t.upsert({"id": [1]}), r"pyarrow\.table\(columns\)"),
    "a date": (lambda t: t.scan(as_of=dt.date(2026, 1, 31)), "2026-01-31 00:00:00' has no time zone"),
    "no columns": (lambda t: hudi.create_table(f"{t.location}-2", pa.schema([])), r"schema=data\.schema"),
    "an option of the storage as one of the table": (
        lambda t: hudi.create_table(f"{t.location}-2", ORDERS, "id", options={"region": "eu-west-1"}),
        r"storage_options=\{'region': \.\.\.\}",
    ),
    "an option of the table as one of the storage": (
        lambda t: hudi.open_table(t.location, storage_options={"hoodie.metadata.enable": "false"}),
        r"an option of the table: options=\{'hoodie\.metadata\.enable': \.\.\.\}",
    ),
    "an option of S3 by another name": (
        lambda t: hudi.open_table("s3://bucket/t", storage_options={"fs.s3a.endpoint": "x"}),
        "Did you mean 'endpoint_url'",
    ),
    "a type that was wider": (
        lambda t: t.alter(retype={"price": pa.float32()}),
        "Add a column of that type, write it, then",
    ),
    "a column with the name of a meta column": (
        lambda t: hudi.create_table(
            f"{t.location}-2", ORDERS.append(pa.field("_hoodie_commit_time", pa.string())), "id"
        ),
        "_hoodie_commit_time has the name of a meta column.* Rename the column",
    ),
    "data with the name of a meta column": (
        lambda t: t.upsert(ROWS.append_column("_hoodie_record_key", pa.array(["mine"]))),
        "_hoodie_record_key has the name of a meta column.* Rename the column",
    ),
    "no location": (lambda t: hudi.open_table(None), "open_table cannot take location=None.* Pass text or PathLike"),
}


@pytest.fixture(scope="module")
def table() -> hudi.HudiTable:
    return hudi.create_table(in_memory(), ORDERS, "id", partition_by="day")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(mistake: str, table: hudi.HudiTable) -> None:
    call, answer = MISTAKES[mistake]
    before = [str(instant) for instant in table.timeline]
    with pytest.raises(HudiError, match=answer):
        call(table)
    assert [str(instant) for instant in table.timeline] == before


def test_a_path_is_a_location(tmp_path: Path) -> None:
    table = hudi.create_table(tmp_path / "orders", ORDERS, "id")
    table.upsert(ROWS)
    assert hudi.open_table(tmp_path / "orders").scan().count() == 1
    assert not hudi.check_table(tmp_path / "orders").findings
    assert table.location == str(tmp_path / "orders")


def test_a_commit_is_a_point_in_time() -> None:
    table = hudi.create_table("memory://a-commit/orders", pa.schema([("id", pa.int64())]), "id")
    first = table.upsert(pa.table({"id": [1]}))
    second = table.upsert(pa.table({"id": [2]}))
    assert table.scan(as_of=first).count() == 1
    assert table.scan(as_of=second).count() == 2
    assert table.incremental(after=first, until=second).count() == 1


META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


@pytest.mark.parametrize("name", META)
@pytest.mark.parametrize("door", ["upsert", "insert", "bulk_insert", "insert_overwrite", "create"])
def test_a_column_with_the_name_of_a_meta_column_is_refused_and_not_dropped(
    name: str, door: str, table: hudi.HudiTable
) -> None:
    rows = ROWS.append_column(name, pa.array(["mine"]))

    def create(data: pa.Table) -> None:
        hudi.create_table(f"{table.location}-{name}", data.schema, "id")

    with pytest.raises(SchemaMismatchError, match=f"{name} has the name of a meta column"):
        (create if door == "create" else getattr(table, door))(rows)
    assert not table.timeline.commits


def test_rows_that_a_scan_gave_are_taken_with_all_meta_columns() -> None:
    table = hudi.create_table("memory://rows-of-a-scan/orders", ORDERS, "id")
    table.upsert(ROWS)
    rows = table.scan().to_arrow()
    assert rows.column_names[:5] == META
    assert table.upsert(rows).stats.rows_updated == 1
    copy = hudi.create_table("memory://rows-of-a-scan/copy", rows.schema, "id")
    copy.insert(rows)
    assert copy.scan(meta=False).to_arrow().equals(table.scan(meta=False).to_arrow())


def test_a_table_without_key_columns_takes_the_keys_of_its_rows() -> None:
    table = hudi.create_table("memory://rows-of-a-scan/events", pa.schema([("value", pa.int64())]), ())
    table.insert(pa.table({"value": [1, 2]}))
    rows = table.scan(columns=["_hoodie_record_key", "value"], where="value = 2").to_arrow()
    table.upsert(rows.set_column(1, "value", pa.array([20])))
    assert sorted(table.scan(meta=False).to_arrow()["value"].to_pylist()) == [1, 20]
    with pytest.raises(SchemaMismatchError, match="_hoodie_commit_time has the name of a meta column"):
        table.upsert(rows.append_column("_hoodie_commit_time", pa.array(["1"])))


def test_a_key_that_is_too_long_for_an_index_is_refused_with_its_length() -> None:
    options = {"hoodie.metadata.record.index.enable": "true"}
    table = hudi.create_table("memory://long-keys/t", pa.schema([("id", pa.string())]), "id", options=options)
    table.upsert(pa.table({"id": ["x" * 32_767]}))
    with pytest.raises(DataError, match=r"A record key has 32,768 bytes.* Take a shorter key"):
        table.upsert(pa.table({"id": ["y" * 32_768]}))
    assert table.scan().count() == 1
