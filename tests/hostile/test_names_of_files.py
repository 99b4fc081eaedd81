"""Files below ``.hoodie`` with names that no writer gives: every operation works, or ends in an error of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError
from pyhudi_core.transaction import layout

NAMES = ["junk", "x/y", "\u00b2", "\u0663", "-1", "1.5", "x" * 200, "a\nb", "000000000001", "1 2", "1e9"]
OPTIONS = {"hoodie.metadata.enable": False, "hoodie.write.lock.wait_time_ms": 5_000}


def _folders(planned: str) -> Iterator[str]:
    yield from (layout.HEARTBEATS, layout.STAGED, layout.CLAIMS, layout.BATCHES, layout.UNSWEPT, layout.RESTORES)
    yield from (layout.ROWS, layout.GROUPS, layout.executions(planned), layout.markers(planned))
    yield from (".hoodie/.schema", ".hoodie/.locks/audit", ".hoodie/timeline/history", "metadata")


OPERATIONS: dict[str, Callable[[hudi.HudiTable], object]] = {
    "scan": lambda table: rows(table, "id", "price"),
    "check": lambda table: table.check(),
    "execute": lambda table: table.compaction.execute(),
    "plans without a process": lambda table: table.compaction.unattended(),
    "upsert": lambda table: table.upsert(orders((1, "a", 3.0))),
    "shared upsert": lambda table: table.upsert(orders((1, "a", 3.5)), batch=True),
    "delete": lambda table: table.delete(where="id = 2"),
    "clean": lambda table: table.cleaning.run(),
    "archival": lambda table: table.archival.run(),
    "sweep": lambda table: table.sweep.run(),
    "dead writes": lambda table: table.failed_writes.run(),
    "disk usage": lambda table: table.disk_usage(),
    "history": lambda table: table.history(),
}


@pytest.mark.parametrize("content", [b"x", b"[]", b"{}"])
def test_names_that_no_writer_gives_change_no_row_and_end_in_no_error_of_python(location: str, content: bytes) -> None:
    table = make(location, table_type="MERGE_ON_READ", options=OPTIONS)
    table.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0)))
    plan = table.compaction.schedule()
    assert plan is not None
    for folder in _folders(plan.requested_time):
        for name in NAMES:
            path = Path(location, folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    refused = {}
    for name, call in OPERATIONS.items():
        try:
            call(hudi.open_table(location, {"fsync": "false"}, OPTIONS))
        except HudiError as error:
            assert error.hint
            refused[name] = error
    assert not refused
    assert rows(hudi.open_table(location), "id", "price") == [(1, 3.5)]
