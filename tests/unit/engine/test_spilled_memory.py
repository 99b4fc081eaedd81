"""What a commit of `write.format("pyhudi")` costs in memory, as the system counts it (PSS): the rows of a file group, not all rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.memory_growth import growth, needs_pss

import pyhudi_core as hudi

pytestmark = [pytest.mark.slow, pytest.mark.row("D8"), needs_pss]

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
OPTIONS = {
    "hoodie.parquet.max.file.size": str(8 << 20),
    "hoodie.parquet.small.file.limit": "0",
    "pyhudi.parquet.row.group.rows": "5000",
}
WORK = """
import numpy as np
from pyhudi_core.spark.settings import Settings
from pyhudi_core.spark.writer import BatchWriter

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
TEXTS = pa.array([f"{number:02}" * 1_000 for number in range(97)])

def batches(task, count, step):
    for number in range(count):
        ids = (np.arange(1_000) + (task * count + number) * 1_000) * step
        texts = TEXTS.take(pa.array(ids % 97))
        yield pa.RecordBatch.from_arrays([pa.array(ids), texts], schema=SCHEMA)

def work(location, options, operation, count, step):
    settings = Settings.parse({"path": location, "operation": operation, "storage.fsync": "false", **options})
    # Outside of Spark all tasks have one number, so each gets a folder of its own.
    tasks = [BatchWriter(settings, SCHEMA, overwrite=False) for _ in range(8)]
    staged = [writer.write(batches(task, count, step)) for task, writer in enumerate(tasks)]
    tasks[0].commit(staged)
    return {"bytes": sum(message.bytes for message in staged)}
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("operation", "step"), [("insert", 1), ("upsert", 2)])
def test_a_commit_needs_a_part_of_the_memory_of_its_rows(tmp_path: Path, operation: str, step: int) -> None:
    pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no data sources in Python")
    places = [str(tmp_path / name) for name in ("small", "large")]
    for place in places:
        table = hudi.create_table(place, SCHEMA, "id", storage_options={"fsync": "false"}, options=OPTIONS)
        if operation == "upsert":
            table.insert(pa.table({"id": range(1_000), "text": ["old"] * 1_000}, schema=SCHEMA))
    small, large = ([place, OPTIONS, operation, n, step] for place, n in zip(places, (1, 40), strict=True))
    answer = growth(WORK, small, large)
    print(f"{operation} of {answer['bytes'] / 1e6:.0f} MB: grown by {answer['grown'] / 1e6:.0f} MB")
    assert answer["bytes"] > 600e6
    assert answer["grown"] < answer["bytes"]  # from memory, it is more than twice the rows
