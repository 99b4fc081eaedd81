"""A table in an object store: the same promises, kept by If-None-Match and If-Match."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import boto3
import pyarrow as pa
import pytest
from moto import mock_aws
from support.failing import FailingStorage, nth_write
from support.homes import home_at
from support.tables import ORDERS, create_plain, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    HudiError,
    StorageStateUnknownError,
    TableExistsError,
)
from pyhudi_core.storage.s3 import S3Storage
from pyhudi_core.table import HudiTable

CREDENTIALS = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "very-secret"}
OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": 0,
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.bloom.index.filter.dynamic.max.entries": 100,
}

_names = count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[None]:
    """A store in this process."""
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="tables")
        yield


@pytest.fixture
def place(bucket: None) -> str:
    """Where a test makes its table."""
    return f"s3://tables/{next(_names)}/orders"


def _make(place: str) -> HudiTable:
    return create_plain(place, ORDERS, "id", partition_by="day", storage_options=CREDENTIALS, options=OPTIONS)


def _open(place: str) -> HudiTable:
    return hudi.open_table(place, CREDENTIALS, OPTIONS)


@pytest.mark.row("B5", "C1", "D1", "D3")
def test_a_table_lives_in_a_bucket(place: str) -> None:
    table = _make(place)
    assert table.name == "orders"
    table.upsert(orders((1, "a", 1.0), (2, "b/c", 2.0)))
    second = table.upsert(orders((1, "a", 10.0), (3, "a", 3.0)))
    table.delete(where="id = 2")
    assert rows(_open(place), "id", "price") == [(1, 10.0), (3, 3.0)]
    assert rows(table.incremental(after=table.timeline[0]), "id") == [(1,), (3,)]
    assert rows(table.scan(as_of=second.instant), "id") == [(1,), (2,), (3,)]
    assert rows(table.lookup(pa.table({"id": [3]})), "price") == [(3.0,)]
    storage = S3Storage(place, CREDENTIALS)
    assert storage.head(".hoodie/.aux/.pyhudi/commit_record.json") is not None
    assert storage.list(".hoodie/.temp") == storage.list(".hoodie/.heartbeat") == storage.list(".hoodie/lock") == []
    with pytest.raises(TableExistsError):
        _make(place)


def test_two_writers_in_a_bucket_do_not_lose_updates(place: str) -> None:
    table = _make(place)
    table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    with table.begin("upsert") as first, _open(place).begin("upsert") as second:
        first.write(orders((1, "a", 2.0)))
        second.write(orders((1, "a", 3.0)))
        second.commit()
        with pytest.raises(CommitConflictError):
            first.commit()
    assert rows(table, "id", "price") == [(1, 3.0), (2, 1.0)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(1, 26, 3))
def test_an_answer_that_is_lost_never_makes_the_outcome_wrong(place: str, number: int) -> None:
    _make(place).upsert(orders((1, "a", 1.0)))
    storage = FailingStorage(
        S3Storage(place, CREDENTIALS), nth_write(number), after=True, error=StorageStateUnknownError
    )
    table = HudiTable(home_at(storage, options=OPTIONS))  # type: ignore[arg-type]
    try:
        committed = bool(table.upsert(orders((1, "a", 2.0), (2, "b", 2.0))))
    except CommitStateUnknownError as unknown:
        committed = table.commit_status(unknown.token) is hudi.CommitStatus.COMMITTED
    except HudiError:
        committed = False
    assert rows(_open(place), "id", "price") == ([(1, 2.0), (2, 2.0)] if committed else [(1, 1.0)])
    _open(place).upsert(orders((1, "a", 5.0)))
    assert rows(_open(place), "id", "price")[0] == (1, 5.0)
