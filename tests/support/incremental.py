"""Helpers for tests of assets that read `Changes`: a partitions definition, a short timeline, and queries."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi_core as hudi
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Instant
from pyhudi_dagster import Changes, HudiPartitions, hudi_asset

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
PARTITIONS = HudiPartitions.daily("day", start=DAYS[0], end_date="2026-01-04")
SHORT = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}


def commits(table: hudi.HudiTable) -> list[Instant]:
    return list(table.timeline.commits)


def newest(table: hudi.HudiTable) -> CommitMetadata:
    return table.commit_metadata(commits(table)[-1])


def ids(table: hudi.HudiTable) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def foreign_commits(table: hudi.HudiTable, orders: Callable[..., pa.Table], count: int = 7) -> None:
    """Let another writer commit until the earlier commits are archived."""
    other = hudi.open_table(table.location, options=SHORT)
    for number in range(count):
        other.upsert(orders(1_000 + number, day="2026-01-03"))
    assert other.timeline.has_history
    assert len(other.timeline.commits) <= 3


def half(name: str, wanted: int) -> dg.AssetsDefinition:
    """An asset that reads the changes of ``orders`` and writes even (0) or odd (1) ids to the table ``all``, which both halves share."""

    @hudi_asset(key=name, table="all", record_key="id")
    def asset(orders: Changes) -> pa.Table:
        rows = orders.to_arrow()
        return rows.filter(pc.equal(pc.bit_wise_and(rows["id"], 1), wanted))

    return asset
