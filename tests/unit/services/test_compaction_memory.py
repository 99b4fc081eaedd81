"""What a compaction costs in memory, as the system counts it (PSS), if the logs of a file group are ten times as large as the memory for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.memory_growth import growth, needs_pss
from support.tables import create_plain

import pyhudi_core as hudi

pytestmark = [
    pytest.mark.slow,
    pytest.mark.row("C5"),
    needs_pss,
]

ROWS, LOGS = 60_000, 16
MEMORY, FIXED = 12 << 20, 64 << 20
"""Bytes of log entries at once; and for what does not depend on it, such as a log block, the writer of a file and its bloom filter."""
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("value", pa.float64())])
LAYOUT = {"pyhudi.parquet.row.group.rows": 20_000, "hoodie.compact.inline": "false"}
WORK = """
def work(location, options):
    return {"rows": hudi.open_table(location, storage_options={"fsync": "false"}, options=options).compaction.run().rows}
"""


def made(location: str, rows: int) -> int:
    """A table of one file group, all of whose rows are in its base file and in each of its logs; returns the bytes of the entries."""
    table = create_plain(location, SCHEMA, "id", table_type="mor", storage_options={"fsync": "false"}, options=LAYOUT)
    rng = np.random.default_rng(7)
    for number in range(LOGS + 1):
        texts = pa.array(rng.integers(0, 1 << 62, rows).astype("S40").astype(str))
        batch = pa.table([pa.array(np.arange(rows)), texts, pa.array(np.full(rows, float(number)))], schema=SCHEMA)
        table.upsert(batch)
    return int(table.scan().to_arrow().nbytes) * LOGS


@pytest.mark.timeout(900)
def test_logs_of_ten_times_the_memory_are_compacted_within_it(tmp_path: Path) -> None:
    small, large = str(tmp_path / "small"), str(tmp_path / "large")
    made(small, 50)
    size = made(large, ROWS)
    options = {**LAYOUT, "hoodie.memory.merge.max.size": MEMORY}
    found = {}
    for name, given in (("bounded", options), ("as a whole", LAYOUT)):
        if name != "bounded":
            made(large := str(tmp_path / "again"), ROWS)
            made(small := str(tmp_path / "small again"), 50)
        found[name] = growth(WORK, [small, given], [large, given])
    print(f"{size / 1e6:.0f} MB of entries, {MEMORY / 1e6:.0f} MB for them: {found}")
    assert size > 10 * MEMORY
    assert found["bounded"]["rows"] == found["as a whole"]["rows"] == ROWS
    assert found["bounded"]["grown"] < 4 * MEMORY + FIXED < found["as a whole"]["grown"]
    table = hudi.open_table(large)
    assert pc.all(pc.equal(table.scan(columns=["value"]).to_arrow()["value"], float(LOGS))).as_py()
