"""`python -m benchmarks.commits`: what a small commit costs, kept as JSON under docs/reliability/.

    python -m benchmarks.commits                   everything (about ten minutes on two cores)
    python -m benchmarks.commits rates lock_hold   some sections
    python -m benchmarks.commits --quick           tiny runs, to see that they work; keeps nothing

Writers are processes of their own on a local disk, with fsync on. `rates`: commits per second of 1 to 8 writers. `lock_hold`: how long the
table's lock is held for a small commit, against the length of the active timeline and the number of files. `conflicts`: how
many attempts are lost, against the size of file groups and the number of writers.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.commit_writers import Work, make, rows, run, spread
from benchmarks.workload import HOME, ROOT

KEPT = ROOT / "docs" / "reliability"
TABLES = HOME / "commits"
LONG = {"hoodie.keep.min.commits": 5000, "hoodie.keep.max.commits": 6000}
Result = dict[str, Any]


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(prog="benchmarks.commits", description="Measures what a small commit costs.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="tiny runs; nothing is kept")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    for name in options.sections or SECTIONS:
        shutil.rmtree(TABLES, ignore_errors=True)
        result = SECTIONS[name](options.quick) | {"taken": _taken()}
        text = json.dumps(result, indent=1, sort_keys=True) + "\n"
        if options.quick:
            print(text)
            continue
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / f"{_FILES[name]}.json").write_text(text)
        _say(f"{name}: kept")
    shutil.rmtree(TABLES, ignore_errors=True)
    return 0


def rates(quick: bool) -> Result:
    """Commits per second: writers that have a partition each, and writers that insert into one."""
    rounds, commits = (1, 5) if quick else (3, 120)
    found: list[Result] = []
    for place in ("disjoint", "same"):
        for writers in (1, 2, 4, 8):
            each = [_rate(place == "disjoint", writers, max(5, commits // writers), n) for n in range(rounds)]
            per_second = [one["commits_per_second"] for one in each]
            middle = sorted(each, key=lambda one: one["commits_per_second"])[len(each) // 2]
            found.append(
                {
                    **middle,
                    "place": place,
                    "writers": writers,
                    "rounds": rounds,
                    "commits_per_second": median(per_second),
                    "low": min(per_second),
                    "high": max(per_second),
                }
            )
            _say(f"{writers} writers, {place}: {found[-1]['commits_per_second']} commits/s")
    return {"rates": found}


def _rate(apart: bool, writers: int, commits: int, number: int) -> Result:
    table = make(TABLES / f"rate-{apart}-{writers}-{number}")
    table.upsert(rows([0], ["start"], 0))
    outcome = run(Work(table.location, writers, commits, apart=apart))
    return outcome.figures() | {"rows": len(table.scan(["id"]).to_arrow()) - 1}


def lock_hold(quick: bool) -> Result:
    """The time under the lock of a commit of one row."""
    return {"by_instants": _by_instants(quick), "by_files": _by_files(quick)}


def _by_instants(quick: bool) -> list[Result]:
    """Timelines are made long by copies of a real commit, under times that lie before it."""
    table = make(TABLES / "instants", LONG)
    table.upsert(rows([0], ["one"], 0))
    found: list[Result] = []
    sample = 3 if quick else 25
    for length in (10, 20) if quick else (30, 100, 300, 1000):
        _lengthen(table, length)
        found.append({"instants": length, **_held(table, sample)})
        _say(f"{length} instants: {found[-1]['lock_held_ms']}")
    return found


def _lengthen(table: Any, length: int) -> None:
    folder = Path(table.location, ".hoodie", "timeline")
    newest = table.timeline.commits[-1]
    body = (folder / newest.file_name()).read_bytes()
    inflight = (folder / f"{newest.requested_time}.inflight").read_bytes()
    for number in range(len(table.timeline), length):
        moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=number)
        begun, completed = f"{moment:%Y%m%d%H%M%S}000", f"{moment:%Y%m%d%H%M%S}500"
        (folder / f"{begun}.commit.requested").touch()
        (folder / f"{begun}.inflight").write_bytes(inflight)
        (folder / f"{begun}_{completed}.commit").write_bytes(body)


def _by_files(quick: bool) -> list[Result]:
    found: list[Result] = []
    sample = 3 if quick else 25
    for files in (10, 50) if quick else (10, 100, 1000, 10_000):
        table = make(TABLES / f"files-{files}")
        table.bulk_insert(rows(list(range(100, 100 + files)), [f"p{n}" for n in range(files)], 0))
        found.append({"files": files, **_held(table, sample, "p0")})
        _say(f"{files} files: {found[-1]['lock_held_ms']}")
    return found


def _held(table: Any, sample: int, part: str = "one") -> Result:
    held: list[float] = []
    took: list[float] = []
    for number in range(sample):
        began = time.perf_counter()
        held.append(table.upsert(rows([number], [part], number)).lock_held)
        took.append(time.perf_counter() - began)
    return {"commits": sample, "lock_held_ms": spread(held), "commit_ms": spread(took)}


def conflicts(quick: bool) -> Result:
    """Lost attempts: each commit updates one random row of 240, which lie in 1 to 60 file groups."""
    found: list[Result] = []
    keys = 240
    for groups in (1, 4) if quick else (1, 4, 15, 60):
        for writers in (2,) if quick else (2, 4, 8):
            table = make(TABLES / f"conflicts-{groups}-{writers}")
            table.bulk_insert(rows(list(range(keys)), [f"p{n % groups}" for n in range(keys)], 0))
            outcome = run(Work(table.location, writers, 5 if quick else 120 // writers, keys, groups))
            attempts = len(outcome.retries) + sum(outcome.retries)
            found.append(
                {
                    "rows_per_group": keys // groups,
                    "file_groups": groups,
                    "writers": writers,
                    "lost_attempts": round(sum(outcome.retries) / attempts, 3),
                    **outcome.figures(),
                }
            )
            _say(f"{groups} groups, {writers} writers: {found[-1]['lost_attempts']:.0%} of the attempts lost")
    return {"conflicts": found}


SECTIONS: dict[str, Callable[[bool], Result]] = {"rates": rates, "lock_hold": lock_hold, "conflicts": conflicts}
_FILES = {"rates": "commits", "lock_hold": "lock_hold", "conflicts": "conflicts"}


def _taken() -> Result:
    """When, of what, and on what."""
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": head.stdout.strip() or "none",
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
