"""A merge-on-read table with logs, and its planned compactions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.model.instant import Instant
from pyhudi_core.services.compaction.compaction_plan import decode
from support.planned_services import requested
from support.tables import make, orders


def with_logs(location: str) -> hudi.HudiTable:
    """Two partitions; a file group with an update and a delete in logs, and one with an update."""
    made = make(location, table_type="MERGE_ON_READ", ordering="ts")
    made.upsert(orders((1, "a", 1.0, 10), (2, "a", 2.0, 10), (3, "b", 3.0, 10)))
    made.upsert(orders((1, "a", 1.5, 11), (3, "b", 3.5, 12)))
    made.delete(pa.table({"id": [2], "day": ["a"]}))
    return made


def planned(table: hudi.HudiTable) -> Instant:
    found = table.compaction.schedule()
    assert found is not None
    return found


def slices_of(table: hudi.HudiTable, plan: Instant) -> Any:
    return decode(requested(table, plan), plan.requested_time)
