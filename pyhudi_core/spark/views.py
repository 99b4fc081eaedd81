"""Tables as views for SQL, on every release of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pyhudi_core.naming import set_module
from pyhudi_core.opening import open_table
from pyhudi_core.read.bounds import TimePoint


@set_module("pyhudi.spark")
def view(
    spark: Any,
    name: str,
    location: str,
    *,
    columns: Sequence[str] | None = None,
    where: object = None,
    as_of: TimePoint | None = None,
    mode: Literal["snapshot", "read_optimized"] = "snapshot",
    meta: bool = True,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
) -> Any:
    """Make a temporary view of a table for SQL, or replace it, and return its DataFrame. The view shows the table's state at this call.

    SQL skips partitions, and Spark's own scan reads the files that it can read, as in `Scan.to_spark`. The arguments are those of `open_table` and
    `scan`.
    """
    table = open_table(location, storage_options, options)
    frame = table.scan(columns, where, as_of, mode=mode, meta=meta).to_spark(spark)
    frame.createOrReplaceTempView(name)
    return frame
