"""What every catalog of pyiceberg has to show of a Hudi table: one case for all of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

import pyhudi_core as hudi
from pyhudi_core.errors import TableError, UnsupportedTableError
from support.iceberg import in_order

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64())])
KEPT = 2
"""Snapshots that a sync keeps."""


def follow(catalog: Catalog, folder: Path, table_type: str, *, checks_namespaces: bool = True) -> None:
    """Take a table through commits, new, renamed and dropped columns, a compaction and a restore. After each sync, the catalog shows the same rows.

    checks_namespaces: whether the catalog refuses a table of a namespace that it does not have.
    """
    database = f"sales_{table_type}"
    catalog.create_namespace(database)
    table = hudi.create_table(
        f"{folder}/{table_type}", SCHEMA, "id", partition_by="day", table_type=table_type, options={"pyhudi.iceberg.snapshots": KEPT}
    )  # fmt: skip
    name = f"{database}.orders"

    def synced() -> None:
        assert table.iceberg.sync(catalog, name)
        shown = catalog.load_table(name)
        rows = shown.scan().to_arrow()
        stored = table.scan(mode="read_optimized", meta=False).to_arrow()
        assert rows.column_names == stored.column_names
        assert in_order(rows) == in_order(stored)
        assert len(shown.snapshots()) <= KEPT
        assert not table.iceberg.sync(catalog, name)

    def upsert(*rows: dict[str, object]) -> None:
        table.upsert(pa.Table.from_pylist(list(rows), schema=table.schema))

    upsert(
        {"id": 1, "day": "a", "price": 1.0}, {"id": 2, "day": "a", "price": 2.0}, {"id": 3, "day": None, "price": 3.0}
    )
    synced()
    for number in range(3):
        upsert({"id": 1, "day": "a", "price": 9.0 + number}, {"id": 10 + number, "day": "c"})
        table.alter(add={f"c{number}": pa.string()})
        synced()
    if table_type == "merge_on_read":
        table.compaction.run()
        synced()
    table.alter(rename={"c0": "note"})
    table.alter(drop=["c1"])
    synced()
    table.delete_partitions(["day=c"])
    synced()
    table.restore(table.timeline.commits[-3])
    synced()
    upsert({"id": 77, "day": "z", "price": 7.0})
    synced()

    catalog.create_table(
        f"{database}.other", catalog.load_table(name).schema(), location=f"{folder}/other_{table_type}"
    )
    with pytest.raises(UnsupportedTableError, match="another table of the name"):
        table.iceberg.sync(catalog, f"{database}.other")
    if checks_namespaces:
        with pytest.raises(TableError, match=r"NoSuchNamespaceError|InvalidObjectException"):
            table.iceberg.sync(catalog, "nowhere.orders")
