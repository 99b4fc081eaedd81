"""Rows that come from files, and go through files between tasks, are written as rows in memory are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.tables import make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.engine import spilled
from pyhudi_core.engine.spilled import Scratch, SpilledRows
from pyhudi_core.errors import DuplicateKeyError, InvalidRecordKeyError
from pyhudi_core.storage.opening import open_storage


@pytest.fixture(autouse=True)
def nothing_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "_IN_MEMORY", 500)


def from_files(table: pa.Table, scratch: str) -> SpilledRows:
    batches = table.to_batches(max_chunksize=20)
    return SpilledRows(table.schema, [batches[::2], batches[1::2]], Scratch(open_storage(scratch), "s"), 2_000)


INDEXES: dict[str, dict[str, object]] = {
    "SIMPLE": {},
    "BLOOM": {"hoodie__index__type": "BLOOM"},
    "GLOBAL_SIMPLE": {"hoodie__index__type": "GLOBAL_SIMPLE"},
    "RECORD_INDEX": {"hoodie__metadata__enable": True, "hoodie__metadata__record__index__enable": True},
    "BUCKET": {"hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": 3},
}


@pytest.mark.row("D8")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("index", INDEXES)
def test_a_table_gets_the_same_rows_as_from_memory(location: str, kind: str, index: str) -> None:
    how = {"ordering": "ts", "table_type": kind}
    tables = [reopen(make(f"{location}/{name}", **how), **INDEXES[index]) for name in ("files", "memory")]

    def step(verb: str, data: pa.Table) -> None:
        getattr(tables[0], verb)(from_files(data, f"{location}/scratch-{len(tables[0].timeline)}"))
        getattr(tables[1], verb)(data)
        assert rows(tables[0]) == rows(tables[1])

    step("insert", orders(*((key, "abc"[key % 3], float(key), 1) for key in range(300))))
    step("upsert", orders(*((key, "abc"[key % 3], -1.0, key % 3) for key in range(250, 400))))
    step("upsert", orders(*((key % 50, "abc"[key % 50 % 3], float(key), key) for key in range(200))))
    step("delete", pa.table({"id": range(90, 120), "day": ["abc"[key % 3] for key in range(90, 120)]}))
    assert tables[0].check().findings == ()


def rows(table: hudi.HudiTable) -> list[dict[str, Any]]:
    return table.scan(meta=False).to_arrow().sort_by("id").to_pylist()


@pytest.mark.row("D8")
def test_wrong_rows_are_refused_as_from_memory(location: str) -> None:
    table = make(f"{location}/table")
    table.insert(orders((1, "a", 1.0, 1)))
    with pytest.raises(DuplicateKeyError):
        table.insert(from_files(orders(*((key, "a", 1.0, 1) for key in range(100))), f"{location}/one"))
    without_key = orders(*((key or None, "a", 1.0, 1) for key in range(100)))
    with pytest.raises(InvalidRecordKeyError):
        table.upsert(from_files(without_key, f"{location}/two"))
    assert len(rows(table)) == 1
