"""Change data capture of tables that Hudi wrote: the same changes as Hudi tells, in all logging modes and for both table types."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.golden import FIXTURES, unpack

import pyhudi_core as hudi

FOLDERS = sorted(folder for folder in FIXTURES.glob("hudi-*/*_cdc_*") if folder.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=[f"{folder.parent.name}-{folder.name}" for folder in FOLDERS])
def test_changes_are_those_that_hudi_tells(folder: Path, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(f"{folder.parent.name}/{folder.name}", tmp_path / "table"))
    (query,) = (q for q in json.loads((folder / "expected.json").read_text())["queries"] if q["label"] == "cdc")
    expected = pq.ParquetFile(folder / query["rows"]).read().to_pylist()
    theirs = Counter(_key(row["op"], row["ts_ms"], _parsed(row["before"]), _parsed(row["after"])) for row in expected)
    told = table.changes().to_arrow().to_pylist()
    ours = Counter(_key(row["op"], row["ts_ms"], row["before"], row["after"]) for row in told)
    assert len(told) > 50
    missing = ours - theirs
    if folder.parent.name == "hudi-1.0.2":
        # That release loses one inserted row of each of these tables; 1.2.0 tells all of them.
        assert [key[0] for key in missing.elements()] == ["i"]
        missing.clear()
    assert not missing
    assert not theirs - ours


def _key(op: str, time: str, before: Any, after: Any) -> tuple[Any, ...]:
    return (op, time, _row(before), _row(after))


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _row(row: Any) -> Any:
    if row is None:
        return None
    return tuple(
        sorted((name, value) for name, value in row.items() if not name.startswith("_hoodie_") and value is not None)
    )
