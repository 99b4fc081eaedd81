"""A bootstrap on Spark: executors read the files of the source and write those of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tables import FAST, rows

import pyhudi_core as hudi


@pytest.mark.row("N13")
def test_spark_loads_each_file_once_with_the_values_of_its_folder(location: str, tmp_path: Path, spark: Any) -> None:
    for key, day in enumerate(["a", "b%20c", "__HIVE_DEFAULT_PARTITION__"]):
        folder = tmp_path / f"source/day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [key], "price": [key / 2]}), folder / "1.parquet")
    source = str(tmp_path / "source")
    assert hudi.bootstrap(source, location, "id", storage_options=FAST, spark=spark)
    assert hudi.bootstrap(source, location, "id", storage_options=FAST, spark=spark).chunks == 0
    table = hudi.open_table(location)
    assert rows(table, "id", "day", "price") == [(0, "a", 0.0), (1, "b c", 0.5), (2, None, 1.0)]
