"""Writes the cases of `cases.BY_SPARK` with our Spark engine, under the folder given, and ends: `python -m ... FOLDER`."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from .cases import BY_SPARK
from .lake import make


def main(folder: Path) -> None:
    """Every case, step by step, each step's rows as a DataFrame."""
    settings = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    numbers = count()

    def frame(rows: pa.Table) -> DataFrame:
        path = folder / "rows" / f"{next(numbers)}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, path)
        return spark.read.parquet(str(path))

    for case in BY_SPARK:
        make(case, folder / case.name, frame)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
