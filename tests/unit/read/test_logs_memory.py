"""What reading rows and changes costs in memory, as the system counts it (PSS): row groups and logs of one slice, however much the table holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.log_tables import append
from support.memory_growth import growth, needs_pss
from support.tables import create_plain

import pyhudi_core as hudi

pytestmark = needs_pss

ROWS, GROUPS, ROW_GROUP = 160_000, 2, 5_000
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("text", pa.string()), ("value", pa.float64())])
LAYOUT = {"pyhudi.parquet.row.group.rows": ROW_GROUP}
WORK = """
def work(verb, location, after):
    table = hudi.open_table(location)
    rows = size = 0
    for batch in (table.scan() if verb == "scan" else table.changes(after=after)).to_batches():
        rows, size = rows + batch.num_rows, size + batch.nbytes
    return {"rows": rows, "bytes": size}
"""


Place = tuple[str, str]
"""A table, and the time before its logs."""


def made(location: str, rows: int) -> tuple[hudi.HudiTable, pa.Table]:
    """A table with so many rows in each of its file groups, and the rows."""
    table = create_plain(location, SCHEMA, "id", "part", storage_options={"fsync": "false"}, options=LAYOUT)
    rng, ids = np.random.default_rng(7), np.arange(rows * GROUPS)
    texts = pa.array(rng.integers(0, 1 << 62, len(ids)).astype("S100").astype(str))
    parts = pa.array([f"p{number}" for number in ids // rows])
    written = pa.table([pa.array(ids), parts, texts, pa.array(rng.random(len(ids)))], schema=SCHEMA)
    table.bulk_insert(written)
    return table, written


def raised(rows: pa.Table) -> pa.Table:
    """The rows with another value."""
    return rows.set_column(rows.schema.get_field_index("value"), "value", pc.add(rows.column("value"), 1.0))


def with_logs(location: str, rows: int) -> Place:
    """Every file group has a base file, and a log with a fifth of its rows."""
    made(location, rows)
    properties = Path(location, ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text().replace("COPY_ON_WRITE", "MERGE_ON_READ"))
    table = hudi.open_table(location)
    before = str(table.scan().completion_time)
    for piece in table.scan().slices():
        old = table.scan(where=f"part = '{piece.partition.partition('=')[2]}'").to_arrow()
        append(table, piece, raised(old.slice(0, rows // 5)))
    return location, before


def rewritten(location: str, rows: int) -> Place:
    """Every file group was rewritten twice: every fourth row has another value, and every fourth is gone."""
    table, written = made(location, rows)
    before = str(table.scan().completion_time)
    number = pc.bit_wise_and(written.column("id"), 3)
    table.upsert(raised(written.filter(pc.equal(number, 0))))
    table.delete(written.filter(pc.equal(number, 1)).select(["id", "part"]))
    return location, before


def measured(tmp_path: Path, make: Callable[[str, int], Place], *verbs: str) -> list[dict[str, int]]:
    """For each verb the rows and bytes that a process of its own read of a large table, and by how much it grew meanwhile."""
    tiny, large = make(str(tmp_path / "tiny"), 50), make(str(tmp_path / "large"), ROWS)
    found = []
    for verb in verbs:
        found.append(growth(WORK, [verb, *tiny], [verb, *large]))
        print(f"{make.__name__}, {verb}: {found[-1]}")
    return found


def test_a_scan_with_logs_and_changes_grow_by_row_groups_and_the_logs_of_one_slice(tmp_path: Path) -> None:
    """A row group is a thirty-second of a base file here, the logs of a slice hold a fifth of its rows, and are held decoded and folded.

    A slice is more than 30 MB. About 15 MB are taken by decoding, whatever the table holds.
    """
    scan, changes = measured(tmp_path, with_logs, "scan", "changes")
    assert scan["rows"] == 5 * changes["rows"] == ROWS * GROUPS
    one_slice = scan["bytes"] / GROUPS
    assert scan["grown"] < 1.5 * one_slice
    assert changes["grown"] < 2 * one_slice


@pytest.mark.slow
def test_changes_of_rewritten_file_groups_hold_less_than_one_slice(tmp_path: Path) -> None:
    """Row groups of both states and, where many rows have gone, the keys of the group: two states of 30 MB each are never there as a whole."""
    scan, changes = measured(tmp_path, rewritten, "scan", "changes")
    assert scan["rows"] == ROWS * GROUPS * 3 // 4
    assert changes["rows"] == ROWS * GROUPS // 2
    one_slice = scan["bytes"] / GROUPS * 4 / 3
    assert scan["grown"] < 0.75 * one_slice
    assert changes["grown"] < 1.25 * one_slice
