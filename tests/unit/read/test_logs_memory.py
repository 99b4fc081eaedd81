"""What reading a merge-on-read table costs in memory, as the system counts it (PSS): one slice at a time, however many there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.log_tables import append

import pyhudi_core as hudi

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="PSS is counted by Linux alone")

ROWS, GROUPS = 40_000, 6
CHILD = """
import json, sys, threading
import pyarrow as pa
import pyhudi_core as hudi

pa.set_memory_pool(pa.system_memory_pool())
table, verb = hudi.open_table(sys.argv[1]), sys.argv[2]

def pss():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))

def read(source):
    rows = size = 0
    for batch in source.to_batches():
        rows, size = rows + batch.num_rows, size + batch.nbytes
    return rows, size

def source(where=None):
    return table.scan(where=where) if verb == "scan" else table.changes(after=sys.argv[3], where=where)

read(source("value < -1"))  # what is loaded and allocated once is no part of it
before, peak, done = pss(), 0, threading.Event()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, pss())

watcher = threading.Thread(target=watch)
watcher.start()
rows, size = read(source())
done.set()
watcher.join()
print(json.dumps({"rows": rows, "bytes": size, "grown": max(peak, pss()) - before}))
"""


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A table whose every file group has a base file and a log with a fifth of its rows; and the time before the logs."""
    location = str(tmp_path_factory.mktemp("logged") / "table")
    rng = np.random.default_rng(7)
    schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("text", pa.string()), ("value", pa.float64())])
    options = {"pyhudi.parquet.row.group.rows": 5_000}
    table = hudi.create_table(location, schema, "id", "part", storage_options={"fsync": "false"}, options=options)
    ids = np.arange(ROWS * GROUPS)
    texts = pa.array(rng.integers(0, 1 << 62, len(ids)).astype("S100").astype(str))
    parts = pa.array([f"p{number}" for number in ids // ROWS])
    table.bulk_insert(pa.table([pa.array(ids), parts, texts, pa.array(rng.random(len(ids)))], schema=schema))
    properties = Path(location, ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text().replace("COPY_ON_WRITE", "MERGE_ON_READ"))
    table = hudi.open_table(location)
    before = str(table.scan().completion_time)
    for piece in table.scan().slices():
        rows = table.scan(where=f"part = '{piece.partition.partition('=')[2]}'").to_arrow().slice(0, ROWS // 5)
        changed = rows.set_column(rows.schema.get_field_index("value"), "value", pc.add(rows.column("value"), 1.0))
        append(table, piece, changed)
    return location, before


def measured(location: str, verb: str, after: str) -> dict[str, int]:
    """Rows and bytes that a process of its own read, and by how much it grew meanwhile."""
    command = [sys.executable, "-c", CHILD, location, verb, after]
    # One arena: else the allocator keeps some of what each thread has given back.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    print(f"{verb}: {found}")
    return found


def test_a_scan_with_logs_and_changes_grow_by_slices_of_one_group_whatever_the_table_holds(
    logged: tuple[str, str],
) -> None:
    """A scan holds a row group (an eighth of a base file here) and the logs of one slice (a fifth); changes compare two slices of one group.

    The bounds leave a slice for what the allocator keeps back.
    """
    scan, changes = measured(logged[0], "scan", logged[1]), measured(logged[0], "changes", logged[1])
    assert scan["rows"] == 5 * changes["rows"] == ROWS * GROUPS
    one_slice = scan["bytes"] / GROUPS
    assert scan["grown"] < 2 * one_slice
    assert changes["grown"] < 3 * one_slice
