"""Objects that people print are one line that names them, and escaped text in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.tables import make, orders

import pyhudi_core as hudi

OBJECTS: dict[str, Callable[[hudi.HudiTable], Any]] = {
    "HudiTable": lambda table: table,
    "Scan": lambda table: table.scan(),
    "ChangeFeed": lambda table: table.changes("0"),
    "TableSize": lambda table: table.size(),
    "SnapshotToken": lambda table: table.snapshot_token(),
    "Indexes": lambda table: table.indexes,
    "Explanation": lambda table: table.scan().explain(),
    "Compaction": lambda table: table.compaction,
    "CompactionPlan": lambda table: table.compaction.plan(),
    "ClusteringPlan": lambda table: table.clustering.plan(),
    "CleaningPlan": lambda table: table.cleaning.plan(),
    "SweepPlan": lambda table: table.sweep.plan(),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_printed_object_is_one_line_and_safe_in_a_notebook(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = make(str(tmp_path_factory.mktemp("a<b>c")))
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    shown = OBJECTS[name](table)
    assert name in repr(shown)
    assert "\n" not in repr(shown)
    assert len(repr(shown)) < 500
    assert "<b>" not in shown._repr_html_()
