"""Clustering on Spark's executors: the same rows in fewer files, sorted within and across them, and a record index that names the new file groups."""

from __future__ import annotations

from typing import Any

import pytest
from support.metadata_tables import assert_metadata_is_true
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.formats.base_file import BaseFileReader


def prices(table: hudi.HudiTable, partition: str) -> list[list[float]]:
    """The prices of each base file of a partition, in the order of the rows; the file with the lowest price first."""
    found = []
    for piece in table.snapshot().view.slices(partition):
        with table._opened.storage.open_input(piece.path) as source:
            batches = list(BaseFileReader(source, piece.path, ["price"]).iter_batches())
        found.append([value for batch in batches for value in batch.column("price").to_pylist()])
    return sorted(found)


@pytest.mark.row("N5", "U14")
@pytest.mark.parametrize(
    ("layout", "target"),
    [
        ("linear", 6_000),
        pytest.param("linear", 1 << 30, marks=pytest.mark.slow),
        pytest.param("hilbert", 6_000, marks=pytest.mark.slow),
    ],
)
def test_executors_cluster_and_every_row_stays_as_it_is(spark: Any, location: str, layout: str, target: int) -> None:
    options = {
        "hoodie__parquet__small__file__limit": 0,
        "hoodie__metadata__enable": "true",
        "hoodie__metadata__record__index__enable": "true",
        "hoodie__clustering__plan__strategy__sort__columns": "price,ts",
        "hoodie__layout__optimize__strategy": layout,
        "hoodie__clustering__plan__strategy__target__file__max__bytes": target,
    }
    table = reopen(make(location), **options)
    batch = orders(*((key, "ab"[key % 2], float(-key % 97), key % 7) for key in range(400)))
    table.insert(batch.slice(0, 200))
    table.insert(batch.slice(200))
    table.upsert(orders((1, "b", 100.0, 11), (2, "a", 200.0, 12)))
    before = table.scan().to_arrow().sort_by("id").drop(["_hoodie_file_name"])
    done = table.clustering.run(spark=spark)
    assert (done.file_groups, done.rows) == (4, 400)
    assert table.scan().to_arrow().sort_by("id").drop(["_hoodie_file_name"]) == before
    assert_metadata_is_true(table)
    if layout == "linear":
        for partition in ("day=a", "day=b"):
            files = prices(table, partition)
            assert (len(files) > 1) is (target == 6_000)
            together = [price for file in files for price in file]
            assert together == sorted(together)
    assert not table.clustering.plan(), "all files are in the wanted order"
    table.upsert(orders((3, "b", -1.0, 1)))
    assert len(rows(table, "id")) == 400
    assert table.check().ok
