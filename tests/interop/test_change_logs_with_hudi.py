"""Change data capture both ways: Hudi's CDC query on our tables tells the same changes as `changes`, and so on after Hudi has continued them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.tables import create_plain

import pyhudi_core as hudi

from .judges import JudgeProcess

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("ts", pa.int64()), ("name", pa.string())])
MODES = ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"]
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
QUERY = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
    "hoodie.datasource.read.begin.instanttime": "000",
}


def rows(*given: tuple[int, int, str]) -> pa.Table:
    """Rows (id, ts, name); even ids are in day a."""
    columns = [[row[0] for row in given], ["ab"[row[0] % 2] for row in given], [row[1] for row in given]]
    return pa.table([*columns, [row[2] for row in given]], schema=SCHEMA)


def make(path: Path, kind: str, mode: str) -> hudi.HudiTable:
    options = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode}
    table = create_plain(str(path), SCHEMA, "id", "day", ordering="ts", table_type=kind, name="cdc", options=options)
    table.insert(rows(*((number, 100, f"first {number}") for number in range(12))))
    table.upsert(rows((0, 110, "second"), (1, 110, "second"), (2, 110, "second"), (20, 1, "new")))
    table.upsert(rows((0, 120, "third"), (20, 120, "third"), (21, 1, "new")))
    table.delete(pa.table({"id": [3, 20], "day": ["b", "a"]}))
    return table


def told(changes: list[dict[str, Any]]) -> Counter[tuple[str, str, str, str]]:
    """Changes that can be counted; Hudi tells rows as JSON text."""
    images = [
        [json.loads(row[name]) if isinstance(row[name], str) else row[name] for name in ("before", "after")]
        for row in changes
    ]
    shown = [[_shown(image) for image in pair] for pair in images]
    return Counter((row["op"], row["ts_ms"], *pair) for row, pair in zip(changes, shown, strict=True))


def _shown(row: dict[str, Any] | None) -> str:
    return "" if row is None else str(sorted((name, value) for name, value in row.items() if name[0] != "_"))


def assert_same_changes(judge: JudgeProcess, path: Path, least: int) -> None:
    ours, theirs = (
        told(hudi.open_table(str(path)).changes().to_arrow().to_pylist()),
        told(judge.read(path, **QUERY).to_pylist()),
    )
    assert sum(ours.values()) >= least
    assert not theirs - ours
    assert not ours - theirs


def relay(judge: JudgeProcess, path: Path, kind: str, mode: str) -> None:
    make(path, kind, mode)
    assert_same_changes(judge, path, 20)
    options = {
        "hoodie.table.name": "cdc", "hoodie.datasource.write.recordkey.field": "id", "hoodie.metadata.enable": "false",
        "hoodie.datasource.write.partitionpath.field": "day", "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.precombine.field": "ts", "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
    }  # fmt: skip
    judge.write(path, rows((5, 130, "hudi"), (0, 130, "hudi"), (30, 1, "hudi")), "upsert", **options)
    hudi.open_table(str(path)).upsert(rows((5, 140, "ours"), (0, 140, "ours"), (31, 1, "ours")))
    assert_same_changes(judge, path, 26)


@pytest.mark.row("D6", "G6")
@pytest.mark.parametrize("kind", TYPES)
def test_hudis_cdc_query_tells_our_changes(first_release: JudgeProcess, tmp_path: Path, kind: str) -> None:
    relay(first_release, tmp_path / "t", kind, "DATA_BEFORE_AFTER")


@pytest.mark.slow
@pytest.mark.row("D6", "G6")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_cdc_queries_of_every_release_and_mode(judge: JudgeProcess, tmp_path: Path, kind: str, mode: str) -> None:
    if judge.release == "hudi-rs":
        pytest.skip("hudi-rs has no CDC query")
    relay(judge, tmp_path / "t", kind, mode)
