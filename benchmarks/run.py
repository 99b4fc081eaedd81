"""`python -m benchmarks.run`: measures, keeps the results under `benchmarks/results/`, and writes
docs/benchmarks.md from them.

    python -m benchmarks.run                          everything (about an hour on two cores)
    python -m benchmarks.run upsert snapshot_read     some sections
    python -m benchmarks.run --report                 the page again, from the kept results
    python -m benchmarks.run --quick                  all sections on tiny tables, to see that they work; keeps nothing
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks import (
    contestants,
    indexed_peers,
    indexed_writes,
    ingest,
    large_upserts,
    local_peers,
    many_groups,
    merge_on_read,
    report,
    sections,
    services,
    spark_loads,
)
from benchmarks.machine import commit
from benchmarks.planning import planning
from benchmarks.sections import Scale
from benchmarks.workload import HOME, ROOT

RESULTS = ROOT / "benchmarks" / "results"
SECTIONS = [
    "load",
    "spark_loads",
    "large_upsert",
    "local_peers",
    "upsert",
    "delete",
    "snapshot_read",
    "point_lookup",
    "merge_on_read",
    "indexed_writes",
    "indexed_peers",
    "planning",
    "many_groups",
    "services",
    "ingest",
    "memory",
]
WRITES = {"load", "upsert", "delete"}
Result = dict[str, Any]
Measure = Callable[[], dict[str, Result]]


READ_ROUNDS = 15
"""Reads take turns so often because their bounds are close to one: fewer rounds cannot tell 1.1 from noise."""


def main() -> int:
    """Runs what the command line asks for."""
    options = _arguments()
    if not options.report:
        chosen = options.sections or SECTIONS
        results = HOME / "quick-results" if options.quick else RESULTS
        if options.quick:
            shutil.rmtree(results, ignore_errors=True)
        results.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(HOME / "tables", ignore_errors=True)
        shutil.rmtree(HOME / "iceberg", ignore_errors=True)
        for measure in _plan(chosen, options.quick, options.sizes):
            _measure(results, measure)
    if not options.quick:
        report.write(RESULTS, ROOT / "docs")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="Measures this project beside its limit and its peers."
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="tiny tables and one round; nothing is kept")
    parser.add_argument("--report", action="store_true", help="only write the page from the kept results")
    parser.add_argument("--sizes", nargs="*", default=["1m", "10m"], choices=["1m", "10m"], help="which table sizes")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    return options


def _plan(chosen: list[str], quick: bool, sizes: list[str]) -> list[Measure]:
    """The measurements in order."""
    small = Scale(20_000, 1_000, 200, 200, 1, True) if quick else Scale(1_000_000, 50_000, 10_000, 10_000, 5, True)
    large = Scale(100_000, 1_000, 200, 200, 1, False) if quick else Scale(10_000_000, 50_000, 10_000, 10_000, 4, False)
    plan: list[Measure] = []
    for label in sizes:
        scale = small if label == "1m" else large
        plan += _plan_of_size(chosen, label, scale, _with_rounds(scale, 1 if quick else READ_ROUNDS))
    reads, five = _with_rounds(small, 1 if quick else READ_ROUNDS), _with_rounds(small, 1 if quick else 5)
    if "local_peers" in chosen:
        rounds, commits = (1, 10) if quick else (5, 500)
        plan.append(_of("local_peers", local_peers.local_peers, small.size, small.size // 100, rounds, commits))
    if "merge_on_read" in chosen:
        plan.append(_of("merge_on_read", merge_on_read.snapshot, reads))
        plan.append(_of("record_lookup", merge_on_read.lookup, five))
    if "indexed_writes" in chosen:
        plan.append(_of("indexed_writes", indexed_writes.indexed_writes, five))
    if "indexed_peers" in chosen:
        plan.append(_of("indexed_peers", indexed_peers.indexed_peers, five))
    if "planning" in chosen:
        plan.append(_of("planning", planning, 1_000 if quick else 100_000, 1 if quick else 5))
    if "many_groups" in chosen:
        plan.append(
            _of("many_groups", many_groups.many_groups, (10, 100) if quick else many_groups.SIZES, 3 if quick else 30)
        )
    if "services" in chosen:
        plan.append(_of("services", services.services, small.size, 1 if quick else 5))
    if "ingest" in chosen:
        plan.append(_of("ingest", ingest.ingest, *((2_000, 100, 10, 1) if quick else (100_000, 1_000, 60, 4))))
    if "memory" in chosen:
        few = 1 if quick else 4
        plan.append(_of("memory", sections.memory, _with_rounds(small, few), _with_rounds(large, few)))
    return plan


def _of(name: str, measure: Callable[..., Result], *values: Any) -> Measure:
    """A measurement with one result. The values are those of now, whatever the plan does with their names later."""
    return lambda: {name: measure(*values, _say)}


def _plan_of_size(chosen: list[str], label: str, writing: Scale, reading: Scale) -> list[Measure]:
    plan: list[Measure] = []
    quick = writing.rounds == 1
    verbs = [verb for verb in chosen if verb in WRITES]
    if verbs:
        plan.append(lambda: _labelled(sections.writes(writing, verbs, _say), label))
    if "spark_loads" in chosen:
        cold, warm = (1, 1) if quick else (3, 10) if label == "1m" else (1, 5)
        plan.append(_of(f"spark_loads-{label}", spark_loads.spark_loads, writing.size, cold, warm, True))
    if "large_upsert" in chosen and label == "1m":
        plan.append(_of(f"large_upsert-{label}", large_upserts.large_upserts, writing.size, 1 if quick else 5, True))
    if "snapshot_read" in chosen:
        plan.append(_of(f"snapshot_read-{label}", sections.snapshot_read, reading))
    if "point_lookup" in chosen:
        plan.append(_of(f"point_lookup-{label}", sections.point_lookup, reading))
    return plan


def _labelled(results: dict[str, Result], label: str) -> dict[str, Result]:
    return {f"{name}-{label}": result for name, result in results.items()}


def _with_rounds(scale: Scale, rounds: int) -> Scale:
    return Scale(scale.size, scale.updates, scale.inserts, scale.deletes, rounds, scale.peers)


def _measure(results: Path, measure: Measure) -> None:
    """Runs one measurement and keeps each of its results in a file of its own, unless the one there says more."""
    started = time.time()
    for name, result in measure().items():
        path = results / f"{name}.json"
        if path.exists() and holds_less(result, json.loads(path.read_text())):
            _say(f"{name}: not kept, {path.name} has more rounds or contestants; delete it to start anew")
            continue
        path.write_text(json.dumps(result | {"taken": _taken(started)}, indent=1, sort_keys=True) + "\n")
        _say(f"{name}: kept ({time.time() - started:.0f} s)")


def holds_less(new: Result, old: Result) -> bool:
    """Whether a result has fewer rounds of a line than the old one, or fewer lines. A new release of a contestant takes the line of the old one."""
    rounds, before = dict(_rounds(new)), dict(_rounds(old))
    return len(rounds) < len(before) or any(rounds[name] < count for name, count in before.items() if name in rounds)


def _rounds(result: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """The number of values of every list in a result, by its place."""
    if isinstance(result, list):
        yield place, len(result)
    elif isinstance(result, dict):
        for name, value in result.items():
            yield from _rounds(value, (*place, name))


def _taken(started: float) -> dict[str, Any]:
    """On what, of what, and when."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime(started)),
        "commit": commit(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "python": platform.python_version(),
        "pyarrow": version("pyarrow"),
        "pyspark": version("pyspark"),
        "hudi": contestants.HUDI,
        "delta": contestants.DELTA,
        "iceberg": contestants.ICEBERG,
    }


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
