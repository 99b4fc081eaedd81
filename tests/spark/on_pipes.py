"""A driver that a step of Dagster starts through Pipes: run by test_failures_on_a_cluster.py. Writes the rows of an asset on a cluster.

Arguments: the master, the folder of the run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dagster_pipes import open_dagster_pipes
from on_failing_cluster import CHANGED, ROWS, rows_of, session

import pyhudi_core as hudi
from pyhudi_core.engine import spark as engine

if __name__ == "__main__":
    place = Path(sys.argv[2])
    (place / "process").write_text(str(os.getpid()))
    engine.GATHER_BYTES = -1  # the rows stay in the executors
    with open_dagster_pipes() as pipes:
        spark, version = session(sys.argv[1], place, "pipes"), pipes.get_extra("version")
        rows = rows_of(spark, 0, ROWS if version == 1 else CHANGED, version)
        hudi.commit_for(pipes.get_extra("hudi"), rows)
        pipes.report_asset_materialization(metadata={"application": spark.sparkContext.applicationId})
        spark.stop()
