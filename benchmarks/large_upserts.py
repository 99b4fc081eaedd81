"""An upsert of half of a table through PySpark, warm: 450,000 rows of 1M are updated, and 50,000 are new.

Ours, Iceberg's MERGE and Spark's own write of the whole table's rows take turns, after two rounds that are not counted. The bound in seconds is that
of a machine with two cores: 0.55 times the 10.1 s that this upsert took before rows crossed once between the JVM and Python.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks import workload
from benchmarks.disk import bytes_of
from benchmarks.ratios import Goal, Ratio, ratio
from benchmarks.spark_loads import ICEBERG, OURS, SPARK, session_of

Say = Callable[[str], None]
Result = dict[str, Any]
NAME = "large_upsert-1m"
BEFORE_S = 10.1
BOUND = 0.55
WARM_UP = 2


def large_upserts(size: int, rounds: int, peers: bool, say: Say) -> Result:
    """Seconds of the upserts and of Spark's own write of as many rows as the table has, and the size of each table at the end."""
    rows = size // 2
    seconds: dict[str, list[float]] = {}
    with ExitStack() as stack:
        ours = stack.enter_context(session_of(OURS))
        runners = [(OURS, ours), (SPARK, ours)]
        if peers:
            runners.append((ICEBERG, stack.enter_context(session_of(ICEBERG))))
        loaded = str(workload.load_file(size))
        for name, session in runners:
            if name != SPARK:
                session.ask("load", data=loaded, table=_table(name))
        for number in range(rounds + WARM_UP):
            data = str(workload.upsert_file(size, number + 1, rows - rows // 10, rows // 10))
            for name, session in runners if number % 2 else runners[::-1]:
                verb, source = ("plain_load", loaded) if name == SPARK else ("upsert", data)
                taken = session.seconds(verb, data=source, table=_table(name))
                say(f"upsert of {rows:,} rows, round {number - WARM_UP}: {name} {taken:.2f} s")
                if number >= WARM_UP:
                    seconds.setdefault(name, []).append(taken)
        counts = {name: session.ask("count", table=_table(name))["rows"] for name, session in runners if name != SPARK}
    if len(set(counts.values())) != 1:
        raise RuntimeError(f"The contestants ended with different tables: {counts}")
    return {"size": size, "rows": rows, "seconds": seconds, "bytes": {name: bytes_of(_table(name)) for name in counts}}


def goals(kept: dict[str, Result]) -> list[Goal]:
    """The promise about these upserts."""
    if NAME not in kept:
        return []
    result = kept[NAME]
    words = f"Upsert of {result['rows']:,} rows into {result['size']:,} through PySpark, warm (before: {BEFORE_S} s)"
    return [Goal(words, Ratio.of(result["seconds"][OURS]), BOUND * BEFORE_S, NAME, unit=" s")]


def section(kept: dict[str, Result]) -> str:
    """The table of the page."""
    if NAME not in kept:
        return ""
    result = kept[NAME]
    seconds, sizes = result["seconds"], result["bytes"]
    lines = [
        "## Upsert of half of a table",
        "",
        f"{result['rows']:,} rows into {result['size']:,} through PySpark, warm; one in ten is new. The sizes include the files of older versions.",
        "",
        "| | times Spark's own partitioned write of the table's rows | MB on the disk at the end |",
        "|---|---|---|",
    ]
    for name in seconds:
        size = f"{sizes[name] / 1e6:.1f}" if name in sizes else ""
        lines.append(f"| {name} | {ratio(seconds[name], seconds[SPARK])} | {size} |")
    return "\n".join([*lines, ""])


def _table(name: str) -> str:
    letters = "".join(letter if letter.isalnum() else "_" for letter in name.lower())
    return str(workload.HOME / "tables" / f"large_upsert_{letters}")
