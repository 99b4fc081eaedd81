"""The rows of a DataFrame at the driver: all of them, or all unless they are more than some bytes.

Spark's estimate of a DataFrame may be far below its bytes: files that compress well, `explode`, `repeat`, joins. So the bytes that come are counted
(`collect_at_most`). A task ends at its share, before it has made more, and the driver stops reading. A task counts in the JVM, so no worker in
Python is needed: each row is repeated as often as its bytes ask for, Spark's `LocalLimit` ends the task after so many repetitions, and
of each row one is sent.
"""

from __future__ import annotations

import logging
from contextlib import closing
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.serializers import read_int
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyhudi_core.engine import spark_types
from pyhudi_core.engine.spark_settings import under_settings
from pyhudi_core.engine.spark_widths import fixed_bytes, has_like_names, quoted, variable_bytes

try:
    from pyspark.util import local_connect_and_auth
except ImportError:  # PySpark 3.5
    from pyspark.java_gateway import local_connect_and_auth

_PART = "_pyhudi_part"
_LEAST_SHARE = 1 << 20
"""Bytes that each task may send, however many run at once."""
_MOST = 2**31 - 1
_AS_IT_IS = {"spark.sql.codegen.wholeStage": "false"}
"""Spark gives each `LocalLimit` another name in the code that it generates, so it would compile the code of each collect anew."""
_NUMBERS = count()
_log = logging.getLogger(__name__)


def collect_arrow(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """All rows at the driver; for what this package makes itself, such as one row for each file."""
    if hasattr(frame, "toArrow"):
        return _with_nullable_voids(frame).toArrow().cast(schema)
    batches = frame._collect_as_arrow()  # PySpark 3.5 has the same under a private name only
    return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)


def collect_at_most(frame: DataFrame, schema: pa.Schema, limit: int) -> pa.Table | None:
    """All rows at the driver; None if they are more than ``limit`` bytes, and then nothing of them is kept.

    Beside the bytes that came, the driver holds at most the share of each task that runs: together twice the limit, or 1 MB for each core.
    """
    if has_like_names(schema):
        return None
    cores = max(1, int(frame.sparkSession.sparkContext.defaultParallelism))
    counted = _counted(frame, schema, max(_LEAST_SHARE, min(limit, 2 * limit // cores)))
    with under_settings(frame.sparkSession, _AS_IT_IS):
        batches = _batches_at_most(counted, limit)
    if batches is None:
        return None
    rows = (pa.RecordBatch.from_arrays(batch.columns[:-1], names=schema.names) for batch in batches)
    return pa.Table.from_batches([batch.cast(schema) for batch in rows], schema)


def _counted(frame: DataFrame, schema: pa.Schema, share: int) -> DataFrame:
    """The rows with a column that is 0. A task that has more than its share of bytes sends a row with another number there, and ends."""
    fixed = sum(fixed_bytes(field.type) for field in schema)
    # A row has two parts at least. So of the last two parts of a task that has too many, one is not the first of its row.
    unit = max(8, -(-fixed // 2))
    most = min(_MOST, max(2, share // unit))
    variable = [variable_bytes(field.type, quoted(field.name)) for field in schema]
    found = [column for column in variable if column is not None]
    parts = F.array(F.lit(0), F.lit(1))
    if found:
        last = F.ceil(sum(found[1:], found[0]) / unit) + 1
        parts = F.sequence(F.lit(0), F.least(last, F.lit(most)).cast("int"))
    repeated = _with_nullable_voids(frame).select("*", F.explode(parts).alias(_PART))
    number = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    # `greatest` looks at all its arguments. An `or` would not count the rows for which its first half is true.
    sent = F.greatest(number, F.when(F.col(_PART) == 0, F.lit(most)).otherwise(F.lit(0)).cast("long"))
    return _limited(repeated, most).where(sent >= most - 2)


def _limited(frame: DataFrame, rows: int) -> DataFrame:
    """The first rows of each task. Spark has no public name for this half of `limit`."""
    session: Any = frame.sparkSession
    plan = frame.limit(rows)._jdf.queryExecution().logical().child()
    package = session._jvm
    for name in str(frame._jdf.getClass().getName()).split("."):  # Spark 4 has another one than 3.5
        package = getattr(package, name)
    return DataFrame(package.ofRows(session._jsparkSession, plan), session)


def _batches_at_most(frame: DataFrame, limit: int) -> list[pa.RecordBatch] | None:
    """What PySpark's `_collect_as_arrow` returns; None if it is more than so many bytes, or if a task had too many. Then its job has ended, too."""
    context = frame.sparkSession.sparkContext
    tag = f"pyhudi-collect-{next(_NUMBERS)}"
    context.addJobTag(tag)
    try:
        port, secret, server = frame._jdf.collectAsArrowToPython()
    finally:
        context.removeJobTag(tag)
    held: list[pa.RecordBatch] = []
    size, ended = 0, False
    try:
        file, socket = local_connect_and_auth(port, secret)
        with closing(socket), closing(file):
            socket.settimeout(None)
            for batch in pa.ipc.open_stream(file):
                size += batch.nbytes
                if size > limit or batch.column(batch.num_columns - 1).to_numpy().any():
                    ended = True
                    context.cancelJobsWithTag(tag)
                    return None
                held.append(batch)
            # Batches come as tasks end. Their order follows, or -1 if the job failed.
            return [held[read_int(file)] for _ in range(read_int(file))]
    finally:
        _wait(server, ended=ended)


def _wait(server: Any, *, ended: bool) -> None:
    """Wait for the thread of the JVM that sends rows. Raise what it met, unless the job was ended here."""
    try:
        with unwrap_spark_exception():
            server.getResult()
    except Exception as error:
        if not ended:
            raise
        _log.debug("ended a job whose rows are too many for the driver: %s", error)


def _with_nullable_voids(frame: DataFrame) -> DataFrame:
    if "void" not in frame.schema.simpleString():
        return frame
    kinds = {field.name: spark_types.with_nullable_elements(field.dataType) for field in frame.schema.fields}
    return frame.select([quoted(name).cast(kind).alias(name) for name, kind in kinds.items()])
