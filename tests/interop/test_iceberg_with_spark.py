"""Iceberg's own readers read what a long walk left, as this project does: pyiceberg and DuckDB after each sync, Spark with Iceberg's runtime at the end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from reliability.iceberg_walk import IcebergWalk
from support.iceberg import DuckDb, in_order

from .judges import PYTHON, ROOT

STEPS = 300
WALKS = ((4, False), (21, True), (9, False), (2009, True))
"""Seeds, and whether processes vanish: two copy-on-write tables, and two merge-on-read tables."""


@pytest.mark.slow
@pytest.mark.row("C2", "K11")
def test_pyiceberg_duckdb_and_spark_read_long_walks_as_this_project_does(tmp_path: Path) -> None:
    walks = []
    with DuckDb(PYTHON, tmp_path) as duckdb:
        for seed, crashes in WALKS:
            walk = IcebergWalk(seed, crashes, folder=str(tmp_path / f"walk-{seed}"), readers=(duckdb.rows,))
            walks.append(walk)
            try:
                for number in range(2 * STEPS):
                    # A walk may end where a sync is refused by name: it goes on until there is something for Spark to read.
                    if number >= STEPS and (Path(walk.folder) / "metadata").exists():
                        break
                    walk.step()
            except BaseException as error:
                error.add_note("\n".join(walk.log))
                raise
            assert walk.synced > STEPS / 3
    (jar,) = (ROOT / ".interop" / "jars").glob("iceberg-spark-runtime-3.5_2.12-*.jar")
    script, target = Path(__file__).with_name("iceberg_with_spark.py"), tmp_path / "spark"
    command = [str(PYTHON), str(script), str(jar), str(target), *(walk.folder for walk in walks)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    for number, walk in enumerate(walks):
        wanted = in_order(walk.table.scan(mode="read_optimized", meta=False).to_arrow())
        assert in_order(pq.read_table(target / str(number))) == wanted, walk.form
