"""What a clustering in this process costs in memory, as the system counts it (PSS): a bound of the options, however large the group is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.memory_growth import growth, needs_pss

import pyhudi_core as hudi

pytestmark = [
    pytest.mark.slow,
    pytest.mark.row("N5"),
    needs_pss,
]

ROWS, FILES = 100_000, 8
MEMORY, FIXED = 12 << 20, 64 << 20
"""Bytes to sort in; and for what does not depend on it, such as the writer of a file and its bloom filter."""
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("value", pa.float64())])
WORK = """
def work(location, options):
    return {"rows": hudi.open_table(location, storage_options={"fsync": "false"}, options=options).clustering.run().rows}
"""


def made(location: str, rows: int) -> int:
    """A table of some files in the order of their keys; returns the bytes of its rows with their meta columns."""
    options = {"hoodie.parquet.small.file.limit": 0, "pyhudi.parquet.row.group.rows": 20_000}
    table = hudi.create_table(location, SCHEMA, "id", storage_options={"fsync": "false"}, options=options)
    rng = np.random.default_rng(7)
    for number in range(FILES):
        ids = np.arange(number * rows, (number + 1) * rows)
        texts = pa.array(rng.integers(0, 1 << 62, rows).astype("S40").astype(str))
        batch = pa.table([pa.array(ids), texts, pa.array(rng.random(rows))], schema=SCHEMA)
        table.bulk_insert(batch)
    files = [piece.path for piece in table.snapshot().view.all_slices()]
    return sum(pq.read_table(Path(location, path)).nbytes for path in files)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("by", ["value", ""], ids=["sorted", "as it is"])
def test_a_group_of_ten_times_the_memory_is_clustered_within_it(tmp_path: Path, by: str) -> None:
    small, large = str(tmp_path / "small"), str(tmp_path / "large")
    made(small, 50)
    size = made(large, ROWS)
    options = {
        "pyhudi.clustering.memory.bytes": MEMORY,
        "hoodie.clustering.plan.strategy.sort.columns": by,
        "pyhudi.parquet.row.group.rows": 20_000,
    }
    answer = growth(WORK, [small, options], [large, options])
    print(f"{size / 1e6:.0f} MB of rows, {MEMORY / 1e6:.0f} MB to sort in: grown by {answer['grown'] / 1e6:.0f} MB")
    assert answer["rows"] == ROWS * FILES
    assert size > 10 * MEMORY
    assert answer["grown"] < 4 * MEMORY + FIXED
    if by:
        files = [piece.path for piece in hudi.open_table(large).snapshot().view.all_slices()]
        found = pa.concat_tables(pq.read_table(Path(large, path), columns=["value"]) for path in files)
        values = found["value"].to_numpy()
        assert len(files) == 1
        assert (np.diff(values) >= 0).all()
