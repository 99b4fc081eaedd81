"""Writers in separate processes, all started at the same time. Each makes small commits, one after the other."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

import pyhudi_core as hudi

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])
OPTIONS: dict[str, object] = {
    "hoodie.index.bloom.num_entries": 1000,
    "hoodie.bloom.index.filter.dynamic.max.entries": 1000,
    "pyhudi.commit.retries": 1000,
}

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pyhudi_core", "pyhudi_core.engine.local"])


@dataclass(frozen=True, slots=True)
class Work:
    """The work of each writer: ``commits`` upserts of one row.

    Attributes:
        keys: update a random one of these rows (id modulo ``parts`` gives the partition); 0: insert new rows.
        parts: partitions of the existing rows.
        apart: each writer inserts into its own partition; otherwise all insert into one.
    """

    location: str
    writers: int
    commits: int
    keys: int = 0
    parts: int = 1
    apart: bool = True
    options: Mapping[str, object] = field(default_factory=lambda: dict(OPTIONS))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of all writers together; times in seconds. All writers were working between ``began`` and ``ended``."""

    seconds: float
    retries: list[int]
    lock_wait: list[float]
    lock_held: list[float]

    def figures(self) -> dict[str, Any]:
        """Rates, and the spread of lock times in milliseconds."""
        commits = len(self.retries)
        return {
            "acknowledged": commits,
            "commits_per_second": round(commits / self.seconds, 2),
            "retries_per_commit": round(sum(self.retries) / commits, 3),
            "lock_wait_ms": spread(self.lock_wait),
            "lock_held_ms": spread(self.lock_held),
        }


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum, in milliseconds."""
    ordered = sorted(seconds)
    return {
        "median": round(median(ordered) * 1000, 2),
        "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))] * 1000, 2),
        "max": round(ordered[-1] * 1000, 2),
    }


def run(work: Work) -> Outcome:
    """Run the writers. The time is measured from when all are ready until the last has ended."""
    barrier = _processes.Barrier(work.writers + 1)
    answers = _processes.Queue()
    processes = [_processes.Process(target=_write, args=(work, n, barrier, answers)) for n in range(work.writers)]
    for process in processes:
        process.start()
    barrier.wait(120)
    began = time.perf_counter()
    rows = [row for _ in processes for row in answers.get(timeout=600)]
    seconds = time.perf_counter() - began
    for process in processes:
        process.join()
    failed = [process.exitcode for process in processes if process.exitcode]
    if failed:
        raise RuntimeError(f"writers ended with {failed}")
    return Outcome(seconds, *(list(column) for column in zip(*rows, strict=True)))


def _write(work: Work, writer: int, barrier: Any, answers: Any) -> None:
    table = hudi.open_table(work.location, options=dict(work.options))
    chance = random.Random(writer)
    done: list[tuple[int, float, float]] = []
    first = 1_000_000 * (writer + 1)
    table.scan().to_arrow()  # modules that are imported on first use are loaded now
    barrier.wait(120)
    for n in range(work.commits):
        commit = table.upsert(_row(work, writer, first + n, chance))
        done.append((commit.retries, commit.lock_wait, commit.lock_held))
    answers.put(done)


def _row(work: Work, writer: int, number: int, chance: random.Random) -> pa.Table:
    if work.keys:
        key = chance.randrange(work.keys)
        return rows([key], [f"p{key % work.parts}"], number)
    return rows([number], [f"w{writer}" if work.apart else "all"], 0)


def rows(ids: list[int], parts: list[str], value: int) -> pa.Table:
    """Rows of the table."""
    return pa.table([ids, parts, [value] * len(ids)], schema=SCHEMA)


def make(location: Path, options: Mapping[str, object] | None = None) -> hudi.HudiTable:
    """A new table."""
    return hudi.create_table(str(location), SCHEMA, "id", partition_by="part", options={**OPTIONS, **(options or {})})
