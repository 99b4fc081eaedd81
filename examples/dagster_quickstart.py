"""A daily Hudi asset: each materialization is one upsert commit. Show it with `dagster dev -f examples/dagster_quickstart.py`."""

import dagster as dg
import pyarrow as pa

from pyhudi_dagster import HudiLakeResource, HudiPartitions, hudi_asset


@hudi_asset(record_key="id", ordering="ts", partitions=HudiPartitions.daily("day", start="2026-01-01"))
def orders(context: dg.AssetExecutionContext) -> pa.Table:
    """Two orders a day."""
    return pa.table({"id": [1, 2], "day": [context.partition_key] * 2, "ts": [10, 20]})


lake = HudiLakeResource(warehouse=".data/quickstart")
defs = dg.Definitions(assets=[orders], resources={"lake": lake})

if __name__ == "__main__":
    dg.materialize([orders], partition_key="2026-01-01", resources={"lake": lake})
    print(lake.table("orders").scan().to_arrow().select(["id", "day", "ts"]).to_pylist())
