"""`table.duplicates.run(spark=...)`: executors remove the surplus rows, and all kinds of indexes are true after it."""

from __future__ import annotations

from typing import Any

import pytest
from support.duplicates import with_every_index
from support.metadata_tables import assert_metadata_is_true
from support.spark_frames import frame
from support.tables import orders, rows


@pytest.mark.slow
@pytest.mark.row("I4", "I5", "I7", "I8")
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_indexes_are_true_after_executors_removed_duplicates(spark: Any, location: str, way: str, kind: str) -> None:
    table = with_every_index(location, kind)
    assert table.duplicates.run(spark=spark).stats.rows_deleted == 3
    assert_metadata_is_true(table)
    table.upsert(frame(spark, orders((3, "a", 7.0, 70), (5, "b", 1.0, 1))))
    assert_metadata_is_true(table)
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0), (3, 7.0), (4, 2.0), (5, 1.0), (9, 1.0)]
    assert table.check().ok
