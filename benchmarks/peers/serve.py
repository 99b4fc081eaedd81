"""The loop that every contestant runs: one JSON command a line in, one JSON answer a line out.

`measured` is the seconds of the work alone; a command's set-up (clearing a folder, say) is outside of it. What
Spark prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".interop" / "jars"
Verb = Callable[[dict[str, Any]], dict[str, Any]]


def serve(start: Callable[[], dict[str, Verb]]) -> None:
    """Starts the contestant, then answers `{"do": verb, ...}` until stdin ends; an error is also an answer."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    verbs = start()
    replies.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer: dict[str, Any] = {"ok": True} | verbs[command["do"]](command)
        except Exception as error:
            traceback.print_exc()
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"[:2000]}
        replies.write(json.dumps(answer) + "\n")


def session(name: str, heap: str, jars: list[str], settings: dict[str, str]) -> SparkSession:
    """A local[2] session with these jars; what all contestants have in common is set here and nowhere else."""
    from pyspark.sql import SparkSession  # peers of the local engine have no Spark

    scratch = ROOT / ".data" / "bench" / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    common = {
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # One codec for all: that of our base files.
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    }
    if jars:
        common["spark.driver.extraClassPath"] = ":".join(str(JARS / jar) for jar in jars)
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in (common | settings).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def measured(work: Callable[[], object]) -> dict[str, Any]:
    """The seconds that the work took."""
    started = time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - started}


def scanned(frame: Callable[[], DataFrame]) -> dict[str, Any]:
    """A full scan of all columns into nothing: planning (until Spark has its physical plan) and execution."""
    started = time.perf_counter()
    rows = frame()
    rows._jdf.queryExecution().executedPlan()
    planned = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    ended = time.perf_counter()
    return {
        "seconds": ended - started,
        "planning": planned - started,
        "execution": ended - planned,
    }


def found(frame: Callable[[], DataFrame]) -> dict[str, Any]:
    """A query that must give exactly one row."""
    started = time.perf_counter()
    rows = frame().collect()
    seconds = time.perf_counter() - started
    if len(rows) != 1:
        raise ValueError(f"the lookup gave {len(rows)} rows, not one")
    return {"seconds": seconds}


def cleared(path: str) -> str:
    """The path, after everything below it was removed."""
    shutil.rmtree(path, ignore_errors=True)
    return path
