"""A finished write leaves no marker behind, not even an empty folder (on a disk they would pile up, one a commit)."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from support.tables import create_plain


def test_a_commit_leaves_no_marker_folder_on_disk(location: str) -> None:
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    table = create_plain(location, schema=rows.schema, record_key="id", partition_by="day")
    table.upsert(rows)
    with table.begin("upsert") as write:
        write.write(rows)
        assert os.listdir(f"{location}/.hoodie/.temp") == [write.instant]
    assert os.listdir(f"{location}/.hoodie/.temp") == []


def test_the_files_of_shared_markers_have_numbers_that_hudi_reads(location: str) -> None:
    """Hudi's timeline server removes no markers if it cannot read such a number as an ``int`` of Java."""
    days = [f"d{number}" for number in range(20)]
    rows = pa.table({"id": range(20), "day": days})
    table = create_plain(location, schema=rows.schema, record_key="id", partition_by="day")
    with table.begin("insert") as write:
        write.write(rows)
        markers = Path(location, ".hoodie/.temp", str(write.instant))
        numbered = [path for path in markers.iterdir() if path.name != "MARKERS.type"]
        assert all(int(path.name.removeprefix("MARKERS")) < 2**31 for path in numbered)
        named = [line for path in numbered for line in path.read_text().splitlines()]
        assert len({line.partition("/")[0] for line in named}) == len(named) == 20
