"""The process that writes. It needs pyhudi and dagster-pipes, but not Dagster."""

import pyarrow as pa
from dagster_pipes import open_dagster_pipes

import pyhudi as hudi

with open_dagster_pipes() as pipes:
    days = pipes.get_extra("days")
    rows = pa.table({"id": days, "day": days, "amount": [10.0] * len(days), "ts": [1] * len(days)})
    # The commit is made only if the step that started this process still wants it.
    commit = hudi.commit_for(pipes.get_extra("hudi"), rows)
    pipes.log.info(f"committed {commit.instant}")
    pipes.report_asset_materialization(metadata={"source": "the shop's database"})
