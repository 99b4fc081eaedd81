"""Pre-commit validators of writes on Spark: rows are counted and compared in Spark's tasks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.spark_frames import frame
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import PreCommitError


@pytest.mark.row("N14")
def test_validators_run_where_the_rows_were_written(location: str, spark: Any) -> None:
    table = make(location, ordering="ts", table_type="mor")
    good = orders((1, "a", 1.0, 1), (2, "a", 2.0, 1), (3, "b", None, 1), (4, "b", None, 1))
    rules = [
        hudi.not_null("day", "ts"),
        hudi.in_range("price", 0, 9),
        hudi.satisfies("id > 0"),
        hudi.satisfies(pa.compute.field("id") > 0),
        hudi.unique("price"),
        hudi.row_count(4, 5),
    ]
    assert table.upsert(frame(spark, good), pre_commit=rules)
    with pytest.raises(PreCommitError) as refused:
        table.upsert(frame(spark, orders((1, "a", 2.0, 2), (-5, "c", 10.0), (-6, "c", 10.0))), pre_commit=rules)
    *found, repeated, count = refused.value.failures.values()
    assert found == [
        "nulls in 'ts' of 2 rows (key='-5', key='-6')",
        "2 rows (key='-5', key='-6') for which it is not true",
        "2 rows (key='-5', key='-6') for which it is not true",
        "2 rows (key='-5', key='-6') for which it is not true",
    ]
    assert "4 rows" in repeated  # which come first is chance
    assert "price=2.0" in repeated
    assert "price=10.0" in repeated
    assert count == "6 rows"
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0), (3, None), (4, None)]
