"""An execution that fails leaves its plan, says so, and harms nothing: the next run executes the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.table import HudiTable

OPTIONS = {"hoodie.metadata.enable": False, "hoodie.parquet.small.file.limit": 0}
RUNS: dict[str, tuple[str, Callable[[HudiTable], object]]] = {
    "compaction": ("merge_on_read", lambda table: table.compaction.run()),
    "clustering": ("copy_on_write", lambda table: table.clustering.run()),
    "indexing": ("copy_on_write", lambda table: table.indexes.create("bloom_filters")),
}


@pytest.mark.parametrize("service", RUNS)
def test_a_failed_execution_says_that_its_plan_stays(location: str, service: str) -> None:
    kind, run = RUNS[service]
    make(location, table_type=kind, options=OPTIONS)
    table = hudi.open_table(location, options=OPTIONS)
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0), (3, "a", 2.0)))
    if service == "indexing":
        table.metadata_table.create(["files"])
    columns = ["id", "day", "price"]
    before = table.scan(columns).to_arrow().sort_by("id")
    files = {path: path.read_bytes() for path in Path(location, "day=a").glob("*.parquet")}
    for path, data in files.items():
        path.write_bytes(data[: len(data) // 2])
    for _ in ("planned", "found"):
        with pytest.raises(hudi.errors.CorruptBaseFileError) as failed:
            run(table)
        (plan,) = table.timeline.pending
        assert f"{plan.requested_time} stays on the timeline: the next run executes it" in str(failed.value)
        assert "Restore the file from a copy" in str(failed.value)
        way_out = f"table.{service}.cancel('{plan.requested_time}')"
        assert (way_out in str(failed.value)) == (service != "compaction")
    for path, data in files.items():
        path.write_bytes(data)
    assert run(table)
    assert not len(table.timeline.pending)
    assert table.scan(columns).to_arrow().sort_by("id").equals(before)
    assert table.check().ok
