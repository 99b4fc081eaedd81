"""`python -m benchmarks.commits`: measure the cost of a small commit (`make evidence PARTS=commits`).

    python -m benchmarks.commits                   everything (about ten minutes on two cores)
    python -m benchmarks.commits rates lock_hold   some sections
    python -m benchmarks.commits --quick           tiny runs, to check that they work

Writers are separate processes on a local disk, with fsync. `rates`: commits per second of 1 to 8 writers. `lock_hold`: how long a small commit holds
the table's lock, for several lengths of the archived and the active timeline and several numbers of files. `conflicts`: the share of lost attempts,
for several sizes of file groups and numbers of writers.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import pyhudi_core as hudi
from benchmarks.commit_writers import OPTIONS, Work, make, rows, run, spread
from benchmarks.machine import ROOT, sync_ms
from benchmarks.recording import record
from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.timeline.history_writing import HistoryWriter
from pyhudi_core.transaction import decision
from pyhudi_core.transaction.locking import LockHolding, holding_lock
from pyhudi_core.transaction.publication import create_once

TABLES = ROOT / ".data" / "bench" / "commits"
LONG = {"hoodie.keep.min.commits": 5000, "hoodie.keep.max.commits": 6000}
Result = dict[str, Any]


def main() -> int:
    """Run the requested sections."""
    parser = argparse.ArgumentParser(prog="benchmarks.commits", description="Measures what a small commit costs.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="tiny runs; nothing is kept")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    for name in options.sections or SECTIONS:
        shutil.rmtree(TABLES, ignore_errors=True)
        result = {"disk_sync_ms": sync_ms(TABLES), **SECTIONS[name](options.quick)}
        print(json.dumps(result, indent=1, sort_keys=True))
        if not options.quick:
            record("commits", {name: result})
    shutil.rmtree(TABLES, ignore_errors=True)
    return 0


def rates(quick: bool) -> Result:
    """Commits per second of writers with a partition each, and of writers that insert into one partition."""
    rounds, commits = (1, 5) if quick else (3, 80)
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
    """How long a commit of one row holds the lock."""
    return {"by_history": _by_history(quick), "by_instants": _by_instants(quick), "by_files": _by_files(quick)}


def _by_history(quick: bool) -> list[Result]:
    """Tables with many archived commits, in files as archival and its merges write them; the active timeline is as short as archival keeps it."""
    tables: dict[int, Any] = {}
    for archived in (0, 100) if quick else (0, 100, 1000, 10_000, 100_000):
        table = _unsafe(TABLES / f"history-{archived}")
        for number in range(20):
            table.upsert(rows([0], ["p0"], number))
        _archive(table, archived)
        tables[archived] = table
    return _held("archived", tables, 3 if quick else 30)


def _archive(table: Any, archived: int) -> None:
    folder = table._opened.context().folder
    body = folder.storage.get(folder.file(table.timeline.commits[-1]))
    numbers = iter(range(archived + 1))
    writer = HistoryWriter(folder.history, create_once, lambda: f"{next(numbers)}")
    state = folder.history.state()
    files, begun = [], 0
    while begun < archived:
        layer = min(4, len(str(archived - begun)) - 1)
        moments = (dt.datetime(2020, 1, 1) + dt.timedelta(minutes=n) for n in range(begun, begun + 10**layer))
        times = [f"{moment:%Y%m%d%H%M%S}" for moment in moments]
        history = [HistoryRow(f"{time}000", f"{time}500", "commit", body) for time in times]
        files.append(writer.add(history, state, max(0, layer - 1)))
        begun += len(history)
    if files and not writer.decide(state, files):
        raise RuntimeError("the history was not written")


def _by_instants(quick: bool) -> list[Result]:
    """Tables with long active timelines, made of copies of a real commit with earlier times."""
    tables: dict[int, Any] = {}
    for length in (10, 20) if quick else (30, 100, 300, 1000):
        table = tables[length] = _unsafe(TABLES / f"instants-{length}", LONG)
        table.upsert(rows([0], ["p0"], 0))
        _lengthen(table, length)
    return _held("instants", tables, 3 if quick else 30, LONG)


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
    tables: dict[int, Any] = {}
    for files in (10, 50) if quick else (10, 100, 1000, 10_000):
        table = tables[files] = _unsafe(TABLES / f"files-{files}")
        table.bulk_insert(rows(list(range(100, 100 + files)), [f"p{n}" for n in range(files)], 0))
    return _held("files", tables, 3 if quick else 30)


def _unsafe(location: Path, options: Mapping[str, object] | None = None) -> Any:
    """A new table without fsync, which is faster to fill."""
    make(location)
    return hudi.open_table(str(location), {"fsync": "false"}, {**OPTIONS, **(options or {})})


def _held(
    name: str, unsafe: Mapping[int, Any], commits: int, options: Mapping[str, object] | None = None
) -> list[Result]:
    """Small commits with fsync to all tables in turn, so that other work of the machine affects all tables equally."""
    known = {**OPTIONS, **(options or {})}
    tables = {size: hudi.open_table(table.location, options=known) for size, table in unsafe.items()}
    held: dict[int, list[float]] = {size: [] for size in tables}
    took: dict[int, list[float]] = {size: [] for size in tables}
    processor: dict[int, list[float]] = {size: [] for size in tables}
    with _processor_time() as used:
        for number in range(commits):
            for size, table in tables.items():
                used.clear()
                began = time.perf_counter()
                held[size].append(table.upsert(rows([0], ["p0"], number)).lock_held)
                took[size].append(time.perf_counter() - began)
                processor[size].append(used[0])  # services decide after the commit
    found: list[Result] = []
    for size in tables:
        times = {
            "lock_held_ms": spread(held[size]),
            "lock_processor_ms": spread(processor[size]),
            "commit_ms": spread(took[size]),
        }
        found.append({name: size, "commits": commits, **times})
        _say(f"{size} {name}: {times}")
    return found


@contextmanager
def _processor_time() -> Iterator[list[float]]:
    """Collect the processor time under the lock for each decision; other work on the machine does not change it."""
    used: list[float] = []

    @contextmanager
    def measured(
        context: TableContext, purpose: str, beside: Sequence[Callable[[], object]] = ()
    ) -> Iterator[LockHolding]:
        with holding_lock(context, purpose, beside) as holding:
            began = time.process_time()
            yield holding
            used.append(time.process_time() - began)

    with patch.object(decision, "holding_lock", measured):
        yield used


def conflicts(quick: bool) -> Result:
    """Lost attempts: each commit updates one random row of 240 rows in 1 to 60 file groups."""
    found: list[Result] = []
    keys = 240
    for groups in (1, 4) if quick else (1, 4, 15, 60):
        for writers in (2,) if quick else (2, 4, 8):
            table = make(TABLES / f"conflicts-{groups}-{writers}")
            table.bulk_insert(rows(list(range(keys)), [f"p{n % groups}" for n in range(keys)], 0))
            outcome = run(Work(table.location, writers, 5 if quick else 80 // writers, keys, groups))
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


def _say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
