"""The inflight files of all writes have a map of files: Hudi's rollback by listing, that of metadata tables, does not read them without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.tables import FAST, ORDERS, orders

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import decode_record

FILES = "partitionToWriteStats"


def inflight(location: str) -> dict[str, dict[str, Any]]:
    """Those of commits and deltacommits that have content, by their path."""
    root = Path(location, ".hoodie")
    found = (path for path in root.rglob("*.inflight") if path.stat().st_size)
    records = {str(path.relative_to(root)): decode_record(path.read_bytes()) for path in found}
    return {path: record for path, record in records.items() if FILES in record}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_every_inflight_file_of_a_write_has_a_map_of_files(location: str, kind: str, version: int) -> None:
    table = hudi.create_table(location, ORDERS, "id", "day", "ts", kind, storage_options=FAST, version=version)
    table.insert(orders(*((n, "ab"[n % 2], 1.0, 1) for n in range(10))))
    table.upsert(orders((1, "b", 2.0, 2)))
    table.delete(orders((2, "a")).select(["id", "day"]))
    table.compaction.run()
    table.insert_overwrite(orders((50, "b", 1.0, 1)))
    table.clustering.run()
    table.delete_partitions(["day=a"])
    table.cleaning.run()
    with table.begin("upsert") as write:
        write.write(orders((50, "b", 3.0, 3)))
        found = inflight(location)
        assert {path for path in found if f"/{write.instant}." in path and path.startswith("timeline/")}
    assert len(found) >= 10
    assert not [path for path, record in found.items() if record[FILES] is None]
