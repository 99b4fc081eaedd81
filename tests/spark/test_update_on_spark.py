"""`update(..., spark=)`: the rows are read, changed and written by the executors, with the values that this process gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyhudi as hudi
from pyhudi.errors import DataError

ROWS = pa.table({"id": [1, 2, 3, 4], "day": ["a", "a", "b", "b"], "price": [1.0, 2.0, None, 4.0], "qty": [1, 2, 3, 4]})
NEW = {"price": "price * 1.1", "qty": "CASE WHEN qty > 1 THEN qty * 10 ELSE qty END"}


@pytest.mark.spark
@pytest.mark.parametrize(
    "kind",
    [
        {"record_key": "id", "partition_by": "day"},
        {"record_key": "id", "table_type": "mor"},
        {"record_key": (), "partition_by": "day"},
    ],
    ids=["copy-on-write", "merge-on-read", "without keys"],
)
def test_an_update_on_spark_gives_what_this_process_gives(
    location: str, spark: SparkSession, kind: dict[str, Any]
) -> None:
    found = []
    for session in (None, spark):
        table = hudi.create_table(f"{location}-{session is None}", ROWS.schema, **kind)
        table.insert(ROWS)
        commit = table.update(NEW, where="id <> 4", spark=session)
        assert commit.stats.rows_updated == 3
        found.append(table.to_arrow().sort_by("id"))
    assert found[0].equals(found[1])
    with pytest.raises(DataError, match="qty"):
        table.update({"qty": "qty * 1.5"}, spark=spark)
    assert table.to_arrow().sort_by("id").equals(found[1])
