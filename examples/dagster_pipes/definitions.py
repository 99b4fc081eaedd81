"""An asset whose rows another process writes: ``dagster dev -f examples/dagster_pipes/definitions.py``.

Here the process is a script on this machine. On a cluster it is the same: give `HudiPipes` the Pipes client of EMR, Databricks or Kubernetes, and the
arguments that its ``run`` takes.
"""

import os
import sys
from pathlib import Path

import dagster as dg

from pyhudi_dagster import HudiLakeResource, HudiPartitions, HudiPipes, hudi_asset

SCRIPT = Path(__file__).with_name("load_orders.py")
DAYS = HudiPartitions.daily("day", start="2026-01-01", end_date="2026-02-01")


@hudi_asset(record_key="id", ordering="ts", partitions=DAYS)
def orders(context: dg.AssetExecutionContext, pipes: dg.PipesSubprocessClient) -> HudiPipes:
    """Orders of some days, written by the program SCRIPT."""
    return HudiPipes(pipes, command=[sys.executable, str(SCRIPT)], extras={"days": list(context.partition_keys)})


lake = HudiLakeResource(warehouse=os.environ.get("PYHUDI_EXAMPLE_LAKE", ".data/lake"))
defs = dg.Definitions(assets=[orders], resources={"lake": lake, "pipes": dg.PipesSubprocessClient()})
