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


@pytest.mark.row("N13")
def test_spark_reads_and_updates_rows_that_stay_in_their_files(location: str, tmp_path: Path, spark: Any) -> None:
    for key, day in enumerate(["a", "b c"]):
        folder = tmp_path / f"source/day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [key, key + 10], "price": [key / 2, 7.0]}), folder / "1.parquet")
    source = str(tmp_path / "source")
    assert hudi.bootstrap(source, location, "id", storage_options=FAST, mode="METADATA_ONLY")
    table = hudi.open_table(location)
    found = table.scan(columns=["id", "day", "price"], where="price < 7").to_spark(spark)
    assert sorted(map(tuple, found.collect())) == [(0, "a", 0.0), (1, "b c", 0.5)]
    table.upsert(spark.createDataFrame([(0, 5.0, "a")], "id long, price double, day string"))
    expected = [(0, "a", 5.0), (1, "b c", 0.5), (10, "a", 7.0), (11, "b c", 7.0)]
    assert sorted(map(tuple, table.scan(columns=["id", "day", "price"]).to_spark(spark).collect())) == expected
    assert rows(table, "id", "day", "price") == expected
