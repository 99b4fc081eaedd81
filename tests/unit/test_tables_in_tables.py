"""A table in the folder of another one, such as ``sales/eu`` in ``sales``: all that walks a table passes over it, and all that walks a lake finds it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.disk import contents
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.lake import tables_below
from pyhudi_core.runtime.executors import SerialExecutor
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.transaction.own_objects import own_objects

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string())])
NOW_MS = 4_000_000_000_000


@pytest.fixture(params=[None, "region"], ids=["whole", "partitioned"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[hudi.HudiTable, hudi.HudiTable]:
    """The tables ``sales`` and ``sales/eu``; the outer one has partitions or none. Each has rows, and an unfinished file of a dead writer."""
    found = []
    for place, key in ((tmp_path / "sales", 1), (tmp_path / "sales" / "eu", 7)):
        by = {} if request.param is None else {"partition_by": request.param}
        table = create_plain(str(place), SCHEMA, "id", **by)
        table.upsert(pa.table({"id": [key], "region": ["us"]}, schema=SCHEMA))
        (place / ".pyhudi-1.tmp").write_bytes(b"")
        found.append(table)
    return found[0], found[1]


def test_what_walks_a_table_passes_over_the_table_inside(tables: tuple[hudi.HudiTable, hudi.HudiTable]) -> None:
    outer, inner = tables
    report = outer.check()
    assert report.ok, report.findings
    assert report.counts["data files"] == 1
    assert inner.check().ok
    before = contents(inner.location)
    storage = LocalStorage(outer.location)
    assert not [info.path for info in own_objects(storage, SerialExecutor()) if info.path.startswith("eu/")]
    assert storage.sweep_temporaries("", 0, NOW_MS) == [".pyhudi-1.tmp"]
    outer.sweep.run()
    outer.delete(pa.table({"id": [1], "region": ["us"]}, schema=SCHEMA))
    assert contents(inner.location) == before
    assert inner.scan().count() == 1


def test_a_table_whose_timeline_is_gone_is_recovered_without_the_table_inside(
    tables: tuple[hudi.HudiTable, hudi.HudiTable],
) -> None:
    outer, inner = tables
    (Path(outer.location) / ".hoodie").rename(Path(outer.location).parent / "gone")
    plan = hudi.plan_recovery(outer.location, "id", [], table_type="copy_on_write")
    assert [file.path.startswith("eu/") for files in plan.files.values() for file in files] == [False]
    assert inner.scan().count() == 1


def test_the_walk_of_a_lake_finds_the_table_inside_and_of_a_table_it_alone(
    tables: tuple[hudi.HudiTable, hudi.HudiTable],
) -> None:
    outer, inner = tables
    assert tables_below(str(Path(outer.location).parent)) == [outer.location, inner.location]
    assert tables_below(outer.location) == [outer.location]
    assert {line.table for line in hudi.upkeep(str(Path(outer.location).parent), plan=True).lines} == {
        outer.location,
        inner.location,
    }
