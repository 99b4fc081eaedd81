"""This project as a contestant: `python -m benchmarks.pyhudi_runs spark HEAP` or `... local`.

It runs in the project's own environment, or (spark) in `.interop` on PySpark 3.5. Every command opens the table, as a job does; the measured time
includes this.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import pyhudi_core as hudi
from benchmarks import workload
from benchmarks.limit import current_base_files
from benchmarks.peers.local_peers import import_of, one_row, small_commits
from benchmarks.peers.serve import (
    Verb,
    cleared,
    found,
    measured,
    scanned,
    serve,
    session,
)


def create(command: dict[str, Any]) -> hudi.HudiTable:
    """A new, empty table for the workload."""
    return hudi.create_table(
        cleared(command["table"]),
        schema=workload.SCHEMA,
        record_key=workload.KEY,
        partition_by=[workload.PARTITION],
        ordering=workload.ORDERING,
        table_type=command.get("kind", "cow"),
        storage_options=command.get("storage"),
        options=command.get("options"),
    )


def start_spark(heap: str) -> dict[str, Verb]:
    """The verbs of the PySpark engine."""
    spark = session("pyhudi", heap, [], {})

    def load(command: dict[str, Any]) -> dict[str, Any]:
        table = create(command)
        return measured(lambda: table.bulk_insert(spark.read.parquet(command["data"])))

    def plain_load(command: dict[str, Any]) -> dict[str, Any]:
        """Spark's own write of the same rows, by partition."""
        target = cleared(command["table"])
        return measured(
            lambda: spark.read.parquet(command["data"]).write.partitionBy(workload.PARTITION).parquet(target)
        )

    def upsert(command: dict[str, Any]) -> dict[str, Any]:
        return measured(lambda: hudi.open_table(command["table"]).upsert(spark.read.parquet(command["data"])))

    def delete(command: dict[str, Any]) -> dict[str, Any]:
        return measured(lambda: hudi.open_table(command["table"]).delete(spark.read.parquet(command["data"])))

    return {
        "load": load,
        "plain_load": plain_load,
        "upsert": upsert,
        "delete": delete,
        "scan": lambda command: scanned(lambda: hudi.open_table(command["table"]).scan().to_spark(spark)),
        "spark_scan": lambda command: scanned(lambda: _parquet(spark, command["table"])),
        "parquet_scan": lambda command: scanned(lambda: spark.read.parquet(command["table"])),
        "spark_lookup": lambda command: found(lambda: _parquet(spark, command["table"]).where(command["where"])),
        "lookup": lambda command: found(
            lambda: hudi.open_table(command["table"]).scan(where=command["where"]).to_spark(spark)
        ),
        "count": lambda command: {"rows": hudi.open_table(command["table"]).scan().to_spark(spark).count()},
    }


def _arrow_lookup(command: dict[str, Any]) -> dict[str, Any]:
    rows: list[pa.Table] = []
    answer = measured(lambda: rows.append(hudi.open_table(command["table"]).scan(where=command["where"]).to_arrow()))
    if rows[0].num_rows != 1:
        raise ValueError(f"the lookup gave {rows[0].num_rows} rows, not one")
    return answer


def _arrow_copy(command: dict[str, Any]) -> dict[str, Any]:
    """The table's rows as plain Parquet, a file for each file group."""
    target = Path(cleared(command["target"]))
    target.mkdir(parents=True)
    scan = hudi.open_table(command["table"]).scan()
    groups = [piece.group for piece in scan.slices()]
    for number, group in enumerate(groups):
        rows = scan.in_groups(frozenset({group})).to_arrow()
        pq.write_table(rows, target / f"{number}.parquet", row_group_size=workload.ROW_GROUP)
    return {"files": len(groups), "rows": ds.dataset(target).count_rows()}


def _arrow_record_lookup(command: dict[str, Any]) -> dict[str, Any]:
    rows: list[pa.Table] = []
    key = pa.table({workload.KEY: [command["key"]]})
    answer = measured(lambda: rows.append(hudi.open_table(command["table"]).lookup(key).to_arrow()))
    if rows[0].num_rows != 1:
        raise ValueError(f"the look-up gave {rows[0].num_rows} rows, not one")
    return answer


def start_local() -> dict[str, Verb]:
    """The verbs of the local engine, on Arrow data."""

    def load(command: dict[str, Any]) -> dict[str, Any]:
        table = create(command)
        return measured(lambda: table.bulk_insert(pq.read_table(command["data"])))

    def upsert(command: dict[str, Any]) -> dict[str, Any]:
        return measured(lambda: hudi.open_table(command["table"]).upsert(pq.read_table(command["data"])))

    def delete(command: dict[str, Any]) -> dict[str, Any]:
        return measured(lambda: hudi.open_table(command["table"]).delete(pq.read_table(command["data"])))

    def key(command: dict[str, Any]) -> dict[str, Any]:
        where = f"{workload.KEY} = '{command['key']}'"
        return one_row(lambda: hudi.open_table(command["table"]).scan(where=where).to_arrow())

    def filtered(command: dict[str, Any], *, meta: bool = True) -> dict[str, Any]:
        where = f"{command['column']} < {command['below']}"
        return measured(lambda: hudi.open_table(command["table"]).scan(where=where, meta=meta).to_arrow())

    return {
        "load": load,
        "upsert": upsert,
        "delete": delete,
        "filtered": filtered,
        "filtered_data": lambda command: filtered(command, meta=False),
        "data": lambda command: measured(lambda: hudi.open_table(command["table"]).scan(meta=False).to_arrow()),
        "commits": lambda command: small_commits(create(command).insert, command),
        "key": key,
        "counted": lambda command: measured(lambda: hudi.open_table(command["table"]).scan().count()),
        "import": lambda command: import_of(f"from pyhudi_core import open_table; open_table({command['table']!r})"),
        "copy": _arrow_copy,
        "record_lookup": _arrow_record_lookup,
        "arrow_copy_scan": lambda command: measured(lambda: ds.dataset(command["table"]).to_table()),
        "scan": lambda command: measured(lambda: hudi.open_table(command["table"]).scan().to_arrow()),
        "arrow_scan": lambda command: measured(lambda: ds.dataset(_names(command["table"])).to_table()),
        "lookup": _arrow_lookup,
        "count": lambda command: {"rows": hudi.open_table(command["table"]).scan().to_arrow().num_rows},
    }


def _parquet(spark: SparkSession, table: str) -> Any:
    """Spark's own scan of the same files; partition columns are in the files, so none are taken from paths."""
    names = _names(table)
    return spark.read.schema(spark.read.parquet(names[0]).schema).parquet(*names)


def _names(table: str) -> list[str]:
    return [str(path) for path in current_base_files(table)]


if __name__ == "__main__":
    if sys.argv[1] == "spark":
        serve(lambda: start_spark(sys.argv[2]))
    else:
        serve(start_local)
