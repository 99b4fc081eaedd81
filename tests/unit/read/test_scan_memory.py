"""A scan in batches holds a row group of one file and the logs of one slice, however large the table is."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from support.tables import create_plain

ROWS, FILES = 120_000, 8
READ = """
import json, sys
import pyarrow as pa
import pyhudi_core as hudi
rows = size = 0
for batch in hudi.open_table(sys.argv[1]).scan().to_batches():
    rows, size = rows + batch.num_rows, size + batch.nbytes
print(json.dumps({"rows": rows, "bytes": size, "peak": pa.default_memory_pool().max_memory()}))
"""


@pytest.mark.row("D3")
def test_batches_of_a_table_larger_than_the_bound_stay_within_it(location: str) -> None:
    rng = np.random.default_rng(5)
    schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("text", pa.string()), ("value", pa.float64())])
    table = create_plain(location, schema=schema, record_key="id", partition_by="part")
    for number in range(FILES):
        ids = pa.array(np.arange(number * ROWS, (number + 1) * ROWS))
        texts = pa.array(rng.integers(0, 1 << 62, ROWS).astype("S100").astype(str))
        values = pa.array(rng.random(ROWS))
        table.bulk_insert(pa.table([ids, pa.array([f"p{number}"] * ROWS), texts, values], schema=schema))
    done = subprocess.run([sys.executable, "-c", READ, location], capture_output=True, text=True, check=True)
    read = json.loads(done.stdout.splitlines()[-1])
    assert read["rows"] == ROWS * FILES
    one_file = read["bytes"] / FILES
    assert read["peak"] < 2.5 * one_file < read["bytes"] / 3
