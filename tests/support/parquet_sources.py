"""Folders of Parquet files that a bootstrap takes over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_OF_SOURCE = [(1, "a", 1.0), (2, "a", 2.0), (3, "b c", 3.0), (4, None, 4.0), (5, "b c", None)]
"""Id, day and price of the rows of `hive_source`."""


def hive_source(folder: Path, space: str = " ", **how: Any) -> Path:
    """Four files in hive-style folders, one of them with a column less and another integer type. ``space``: how a folder writes it."""
    files = {
        "day=a/1.parquet": pa.table({"id": [1, 2], "price": [1.0, 2.0]}),
        f"day=b{space}c/1.parquet": pa.table({"id": [3], "price": [3.0]}),
        f"day=b{space}c/2.parquet": pa.table({"id": pa.array([5], pa.int32())}),
        "day=__HIVE_DEFAULT_PARTITION__/1.parquet": pa.table({"id": [4], "price": [4.0]}),
    }
    for path, table in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / path, **how)
    return folder
