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
from support.tables import ORDERS, orders

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError

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
    "a catalog": (
        lambda t: hudi.create_table(
            f"{t.location}-2", ORDERS, "id", options={"hoodie.datasource.hive_sync.enable": "true"}
        ),
        r"does not apply here.* sync tool",
    ),
    "a misspelt option": (
        lambda t: hudi.create_table(f"{t.location}-2", ORDERS, "id", options={"hoodie.metadata.enabel": "true"}),
        r"Did you mean hoodie\.metadata\.enable\?",
    ),
    "a query as condition": (lambda t: t.scan(where="SELECT * FROM x WHERE id = 1"), "give the condition alone"),
    "a where clause": (lambda t: t.delete(where="WHERE id = 1"), "Leave WHERE out and give the condition alone"),
    "an order": (lambda t: t.scan(where="id = 1 ORDER BY id"), "Leave ORDER BY out"),
    "Google": (lambda t: hudi.open_table("gs://bucket/orders"), "Google Cloud Storage is not supported"),
    "Azure": (lambda t: hudi.open_table("abfss://c@a.dfs.core.windows.net/orders"), "Azure storage is not supported"),
    "two keys in one text": (
        lambda t: hudi.create_table(f"{t.location}-2", ORDERS, "id,day"),
        r"Give a list: record_key=\['id', 'day'\]",
    ),
    "a misspelt key": (lambda t: hudi.create_table(f"{t.location}-2", ORDERS, "idd"), "Did you mean 'id'"),
    "one column as text": (lambda t: t.scan(columns="id"), r"Write columns=\['id'\]"),
    "an unknown column": (lambda t: t.scan(columns=["prices"]), "Did you mean 'price'"),
    "a Series of pandas": (lambda t: t.upsert(pd.Series([1], name="id")), "A Series is one column"),
    "a Series of Polars": (lambda t: t.upsert(pl.Series("id", [1])), "A Series is one column"),
    "a lazy frame": (lambda t: t.upsert(pl.LazyFrame({"id": [1]})), r"frame\.collect\(\)"),
    "rows in a list": (lambda t: t.upsert([{"id": 1}]), "from_pylist"),
    "columns in a dict": (lambda t: t.upsert({"id": [1]}), r"pyarrow\.table\(columns\)"),
    "a date": (lambda t: t.scan(as_of=dt.date(2026, 1, 31)), "2026-01-31 00:00:00' has no time zone"),
    "no location": (lambda t: hudi.open_table(None), "The location is a NoneType, not a path"),
}


@pytest.fixture(scope="module")
def table() -> hudi.HudiTable:
    return hudi.create_table("memory://first-mistakes/orders", ORDERS, "id", partition_by="day")


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
