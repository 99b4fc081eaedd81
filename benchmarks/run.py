"""`python -m benchmarks`: measure, and print the tables of docs/evidence.md. `make evidence PARTS='bench-*'` records them.

python -m benchmarks                          everything (about an hour on two cores)
python -m benchmarks upsert snapshot_read     some sections
python -m benchmarks --quick                  all sections on tiny tables, to see that they work
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from typing import Any

from benchmarks import (
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
from benchmarks.planning import planning
from benchmarks.recording import record
from benchmarks.sections import Scale
from benchmarks.workload import HOME

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
    found: dict[str, Result] = {}
    shutil.rmtree(HOME / "tables", ignore_errors=True)
    shutil.rmtree(HOME / "iceberg", ignore_errors=True)
    for measure in _plan(options.sections or SECTIONS, options.quick, options.sizes):
        started = time.time()
        results = measure()
        found |= results
        _say(f"{', '.join(results)}: {time.time() - started:.0f} s")
        if not options.quick:
            record("benchmarks", results)
    print(report.page(found))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="Measures this project beside its limit and its peers."
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="tiny tables and one round; nothing is recorded")
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


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
