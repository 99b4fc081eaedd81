"""Tables with record keys that are in a partition twice, as writers leave them that compare no keys at their commits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opening import create_at
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.local import LocalStorage
from support.tables import ORDERS, orders

_CARELESS = {"hoodie.parquet.small.file.limit": "0"}
_INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}


def careless_home(location: str, **options: str) -> OpenedTable:
    """The home of a table for a writer that compares no keys at its commits; each insert makes a new file group."""
    storage, protections = LocalStorage(location, fsync=False), Protections(key_check=False)
    return OpenedTable(storage, system_runtime(), _CARELESS | options, protections=protections)


def careless(location: str, kind: str = "COPY_ON_WRITE", ordering: str | None = "ts", **options: str) -> hudi.HudiTable:
    """A new table of such a writer."""
    return create_at(careless_home(location, **options), ORDERS, "id", "day", ordering, kind)


def at_once(table: hudi.HudiTable, *batches: pa.Table) -> list[hudi.Commit]:
    """Inserts that began before any of them was committed."""
    writes: list[Any] = [table.begin("insert").write(batch) for batch in batches]
    return [write.commit() for write in writes]


def with_every_index(location: str, kind: str) -> hudi.HudiTable:
    """Keys 1, 2 and 3 are there twice, in a table with record index, bloom filters, a secondary and an expression index."""
    table = careless(location, kind, **_INDEXES)
    table.insert(orders((9, "b", 1.0, 1)))
    table.indexes.create("idx_ts", ["ts"])
    table.indexes.create("by_day", ["day"], "column_stats", {"expr": "lower"})
    table = hudi.HudiTable(careless_home(location))
    at_once(
        table,
        orders((1, "a", 1.0, 10), (2, "a", 1.0, 10), (3, "a", 1.0, 30)),
        orders((1, "a", 2.0, 5), (2, "a", 2.0, 20), (3, "a", 2.0, 30), (4, "a", 2.0, 20)),
    )
    return table
