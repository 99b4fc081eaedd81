"""Loads through PySpark beside Spark's own partitioned Parquet write of the same rows, and beside Iceberg's load; the first load of a session apart.

Cold: every round starts a session for each, and loads once. Warm: the sessions stay, two loads warm them up, then they take turns. Ours and Spark's
own write run in one session; Iceberg needs one of its own (on Spark 3.5).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks import contestants, workload
from benchmarks.disk import bytes_of
from benchmarks.ratios import Goal, ratio

Say = Callable[[str], None]
Result = dict[str, Any]
OURS, SPARK, ICEBERG = "pyhudi on PySpark", "Spark's own partitioned write", "Iceberg"
TARGETS = {OURS: "spark_loads_ours", SPARK: "spark_loads_plain", ICEBERG: "spark_loads_iceberg"}
SIZES = ("1m", "10m")
WARM_UP = 2


def spark_loads(size: int, cold: int, warm: int, peers: bool, say: Say) -> Result:
    """Seconds of loads, cold and warm, by contestant."""
    result: Result = {"size": size, "cold": {}, "warm": {}, "bytes": {}}
    for number in range(cold):
        for name in [OURS, SPARK, *([ICEBERG] if peers else [])]:
            with session_of(name) as session:
                _load(result["cold"], session, name, size, f"cold, round {number}", say)
    with ExitStack() as stack:
        ours = stack.enter_context(session_of(OURS))
        runners = [(OURS, ours), (SPARK, ours)]
        if peers:
            runners.append((ICEBERG, stack.enter_context(session_of(ICEBERG))))
        for number in range(warm + WARM_UP):
            into: dict[str, list[float]] = result["warm"] if number >= WARM_UP else {}
            for name, session in runners if number % 2 else runners[::-1]:
                _load(into, session, name, size, f"warm, round {number - WARM_UP}", say)
        result["bytes"] = {name: bytes_of(_table(name, size)) for name, _ in runners}
    return result


def goals(kept: dict[str, Result]) -> list[Goal]:
    """The promises about loads, for which there are results."""
    found: list[Goal] = []
    for label in SIZES:
        name = f"spark_loads-{label}"
        if name not in kept:
            continue
        rows, warm, cold = label.upper(), kept[name]["warm"], kept[name]["cold"]
        words = f"Load through PySpark, {rows} rows, warm: times"
        found.append(Goal(f"{words} Spark's own partitioned write", ratio(warm[OURS], warm[SPARK]), 1.2, name))
        if ICEBERG in warm:
            found.append(Goal(f"{words} Iceberg's load", ratio(warm[OURS], warm[ICEBERG]), 1, name))
        if ICEBERG in cold:
            words = f"First load of a session, {rows} rows: times Iceberg's"
            found.append(Goal(words, ratio(cold[OURS], cold[ICEBERG]), 1.3, name))
    return found


def section(kept: dict[str, Result]) -> str:
    """The table of the page."""
    lines = [
        "## Loads through PySpark",
        "",
        "| | rows | session | times Spark's own partitioned write | MB on the disk |",
        "|---|---|---|---|---|",
    ]
    for label in SIZES:
        result = kept.get(f"spark_loads-{label}", {})
        for kind in ("warm", "cold"):
            seconds = result.get(kind, {})
            lines += [
                f"| {name} | {label.upper()} | {kind} | {ratio(seconds[name], seconds[SPARK])} | {result['bytes'][name] / 1e6:.1f} |"
                for name in seconds
            ]
    return "\n".join([*lines, ""]) if any(f"spark_loads-{label}" in kept for label in SIZES) else ""


def session_of(name: str) -> contestants.Contestant:
    """The process of a contestant of this section; Spark's own write runs in ours."""
    if name == ICEBERG:
        return next(each for each in contestants.peers() if each.name.startswith(ICEBERG))
    return contestants.pyhudi_spark()


def _load(
    into: dict[str, list[float]], session: contestants.Contestant, name: str, size: int, when: str, say: Say
) -> None:
    table = _table(name, size)
    taken = session.seconds("plain_load" if name == SPARK else "load", data=str(workload.load_file(size)), table=table)
    say(f"load of {size:,} rows, {when}: {name} {taken:.2f} s")
    into.setdefault(name, []).append(taken)


def _table(name: str, size: int) -> str:
    return str(workload.HOME / "tables" / f"{TARGETS[name]}_{size}")
