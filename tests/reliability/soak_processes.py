"""What runs beside the writers of `scripts/soak.py`: processes that run every table service again and again, and readers that compare what they read.

Each ends with an exception if a promise is broken. That somebody else is at work, or that a clean has taken an older state, breaks none.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

from reliability.processes import COUNTER, PROCESSES, Job

import pyhudi_core as hudi
from pyhudi_core.errors import CommitAbortedError, CommitConflictError, LockTimeoutError, SnapshotExpiredError
from pyhudi_core.services.registry import service_kinds

OPTIONS = {
    "hoodie.client.heartbeat.interval_in_ms": 1_000,
    "hoodie.client.heartbeat.tolerable.misses": 4,
    "hoodie.metadata.enable": True,
    "hoodie.clean.commits.retained": 10,
    "hoodie.keep.min.commits": 20,
    "hoodie.keep.max.commits": 30,
    "hoodie.clustering.plan.strategy.small.file.limit": 10**9,
    "hoodie.log.compaction.blocks.threshold": 2,
    "pyhudi.sweep.min.age.minutes": 0,
}
"""A killed process is taken for dead after five seconds, and each service has something to do."""
INDEXES = ("record_index", "column_stats", "bloom_filters")
_OTHERS = (CommitAbortedError, CommitConflictError, LockTimeoutError)
"""Somebody else is at work on what a service wants."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A process beside the writers: ``kind`` is "services" or "reader"; ``seed`` chooses the order of the services."""

    job: Job
    kind: str
    seed: int

    @property
    def journal(self) -> Path:
        """A line for each thing that was done."""
        return Path(self.job.journal, f"{self.kind}.{self.seed}.done")


def start_beside(beside: Beside) -> BaseProcess:
    """Start a process that runs until it is killed."""
    process = PROCESSES.Process(target=services if beside.kind == "services" else reader, args=(beside,))
    process.start()
    return process


def services(beside: Beside) -> None:
    """Run the services in random order, for ever."""
    chance = random.Random(beside.seed)
    while True:
        name, act = chance.choice(acts(chance))
        _note(beside.journal, f"{name} {attempt(beside.job.open(), act)}")


def attempt(table: hudi.HudiTable, act: Callable[[hudi.HudiTable], object]) -> str:
    """Do it: "done", "nothing" to do, or "refused" because somebody else is at work."""
    try:
        return "done" if act(table) else "nothing"
    except _OTHERS as refused:
        return f"refused {type(refused).__name__}"


def acts(chance: random.Random) -> list[tuple[str, Callable[[hudi.HudiTable], object]]]:
    """Every service of the registry, by ``run`` and by ``take_over``, savepoints, and indexes that are built and dropped."""
    kinds = [kind.name for kind in service_kinds()]
    named = [(name, partial(_run, name)) for name in kinds]
    taken = [(f"{name} taken over", partial(_take_over, name)) for name in kinds]
    index = chance.choice(INDEXES)
    return [
        *named,
        *taken,
        ("savepoint", lambda table: table.savepoints.create(comment="soak")),
        ("savepoint deleted", _delete_savepoints),
        ("index built", lambda table: table.indexing.run(partitions=[index])),
        ("index dropped", lambda table: table.indexes.drop(index, if_exists=True)),
    ]


def _run(name: str, table: hudi.HudiTable) -> object:
    return table.services[name].run()


def _take_over(name: str, table: hudi.HudiTable) -> object:
    return table.services[name].take_over()


def _delete_savepoints(table: hudi.HudiTable) -> object:
    return [table.savepoints.delete(found.instant) for found in table.savepoints]


def reader(beside: Beside) -> None:
    """Read again and again: nothing is torn, doubled or lost, and a consumer of increments gets each row once."""
    known: set[str] = set()
    followed: set[str] = set()
    cursor = ""
    while True:
        table = beside.job.open()
        try:
            scan = table.scan(columns=["id", "n", "moved"])
            rows = scan.to_arrow().to_pylist()
            later = table.incremental(after=cursor) if cursor else None
            new = None if later is None else later.to_arrow()
        except SnapshotExpiredError:
            cursor = ""  # a consumer begins anew with a snapshot
            _note(beside.journal, "read expired")
            continue
        ids = Counter(row["id"] for row in rows)
        assert max(ids.values()) == 1, (
            f"keys that are there twice: {[key for key, times in ids.items() if times > 1][:5]}"
        )
        assert known <= ids.keys(), f"rows that were there are gone: {sorted(known - ids.keys())[:5]}"
        counter = next(row["n"] for row in rows if row["id"] == COUNTER)
        assert counter == sum(bool(row["moved"]) for row in rows), "a commit was read in part"
        known = set(ids)
        if new is None or later is None:
            cursor, followed = str(scan.completion_time), known - {COUNTER}
        else:
            got = set(new.column("id").to_pylist()) - {COUNTER}
            assert not got & followed, f"rows that came twice: {sorted(got & followed)[:5]}"
            followed |= got
            assert known - {COUNTER} <= followed, f"rows that did not come: {sorted(known - followed)[:5]}"
            cursor = str(later.completion_time)
        _note(beside.journal, "read done")
        time.sleep(0.05)


def _note(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def done_beside(folder: Path) -> Counter[str]:
    """How often each thing was done, of all processes that were there."""
    return Counter(line for path in folder.glob("*.done") for line in path.read_text().splitlines())
