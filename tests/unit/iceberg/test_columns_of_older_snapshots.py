"""An older snapshot is read as it was: with the names, the order and the types that its columns had then."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from support.iceberg import iceberg_table, in_order

import pyhudi_core as hudi

POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.float32()), ("note", pa.string()), ("at", POINT)])


def row(table: hudi.HudiTable, id_: int, **values: object) -> None:
    table.upsert(pa.Table.from_pylist([{"id": id_, **values}], schema=table.schema))


@pytest.mark.parametrize("at_once", [False, True])
def test_an_older_snapshot_has_the_columns_of_its_own_time(tmp_path: Path, at_once: bool) -> None:
    table = hudi.create_table(
        f"{tmp_path}/t", SCHEMA, "id", options={"hoodie.clean.automatic": False, "hoodie.parquet.small.file.limit": 0}
    )
    catalog = load_catalog("c", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("sales")
    changes = (
        lambda: row(table, 1, price=1.5, note="a", at={"x": 1, "y": 2}),
        lambda: table.alter(rename={"price": "cost", "at.x": "east"}),
        lambda: row(table, 2, cost=2.5, note="b", at={"east": 3, "y": 4}),
        lambda: table.alter(retype={"cost": pa.float64()}, drop=["note"]),
        lambda: table.alter(add={"extra": pa.string()}),
        lambda: row(table, 1, cost=9.1, extra="e", at={"east": 5, "y": 6}),
        table.clustering.run,
        lambda: table.alter(rename={"extra": "label"}),
    )
    then = []
    for number, change in enumerate(changes):
        change()
        then.append(table.scan(meta=False).to_arrow())
        if not at_once or number == 0:
            table.iceberg.sync()
    table.iceberg.sync(catalog, "sales.t")
    for shown in (iceberg_table(table.location), catalog.load_table("sales.t")):
        snapshots = shown.snapshots()
        assert [one.summary and one.summary["hudi.instant"] for one in snapshots] == [
            one.requested_time for one in table.timeline.commits
        ]
        for one, wanted in zip(snapshots, then, strict=True):
            found = shown.scan(snapshot_id=one.snapshot_id).to_arrow()
            assert found.column_names == wanted.column_names
            assert found.schema.field(1).type == wanted.schema.field(1).type
            assert in_order(found) == in_order(wanted)
