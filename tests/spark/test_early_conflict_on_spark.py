"""Early conflict detection in Spark's workers, and keys that Spark wrote at the commit."""

from __future__ import annotations

from typing import Any

import pytest
from support.tables import make, orders, reopen, rows

from pyhudi_core.conflicts.conflict import ConflictKind
from pyhudi_core.engine import spark as engine
from pyhudi_core.errors import CommitConflictError, EarlyConflictError

EARLY = {"hoodie__write__concurrency__early__conflict__detection__enable": True}


@pytest.mark.row("K10")
def test_a_worker_that_meets_an_older_write_stops_the_whole_attempt(
    spark: Any, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "GATHER_BYTES", -1)  # executors all the way
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    data = spark.createDataFrame(orders((1, "a", 9.0), (2, "b", 9.0)).to_pandas())
    with table.begin("upsert") as older, reopen(table, **EARLY).begin("upsert", spark=spark) as younger:
        older.write(orders((1, "a", 5.0)))
        with pytest.raises(EarlyConflictError, match="unwritten") as caught:
            younger.write(data)
        assert caught.value.conflict.kind is ConflictKind.EARLY
        assert caught.value.conflict.file_groups[0][1] in {stat.file_id for stat in first.stats.files}
        younger.rollback()
        older.commit()
    assert rows(table, "id", "price") == [(1, 5.0), (2, 2.0)]


@pytest.mark.row("K7")
def test_keys_that_spark_wrote_are_compared_at_the_commit(spark: Any, location: str) -> None:
    table = reopen(make(location), hoodie__parquet__small__file__limit=0)
    with table.begin("insert", spark=spark) as write:
        write.write(spark.createDataFrame(orders((1, "a", 1.0, 1), (2, "a", 2.0, 2)).to_pandas()))
        reopen(table, hoodie__parquet__small__file__limit=0).insert(orders((3, "a", 3.0)))
        assert write.would_commit()
        reopen(table, hoodie__parquet__small__file__limit=0).insert(orders((2, "a", 4.0)))
        with pytest.raises(CommitConflictError, match="same record keys, '2'"):
            write.commit()
