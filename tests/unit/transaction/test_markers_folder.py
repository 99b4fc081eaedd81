"""A finished write leaves no marker behind, not even an empty folder (on a disk they would pile up, one a commit)."""

from __future__ import annotations

import os

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
