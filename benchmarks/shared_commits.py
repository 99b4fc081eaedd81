"""Small upserts of many writers, as batches that share commits, and each with a commit of its own; and steps over several tables.
`scripts/shared_commit_figures.py` runs them.

Each writer is a process, or a thread of one, and upserts 100 rows at a time: half of them change rows, half are new. It begins its upserts at
fixed times, so that all writers together ask for ``rate`` upserts a second; a writer that is late begins at once. Latency counts from the call to its
answer.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pyarrow as pa

import pyhudi as hudi
from pyhudi_core.model.shared_commits import answers_in
from pyhudi_core.write.retrying import Retries

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("value", pa.int64())])
ROWS, KNOWN = 100, 5_000
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pyhudi_core", "pyhudi_core.engine.local", "pyhudi_core.batches.combined"])


@dataclass(frozen=True, slots=True)
class Load:
    """What the writers do.

    Attributes:
        writers: how many there are; ``threads`` of them are in one process.
        rate: how many upserts all of them begin in a second.
        batch: whether small upserts share commits.
    """

    location: str = ""
    writers: int = 12
    threads: int = 1
    rate: float = 50.0
    seconds: float = 15.0
    batch: bool = True
    storage: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=lambda: {"pyhudi.commit.retries": 1000})

    @property
    def upserts(self) -> int:
        """How many upserts each writer makes."""
        return max(1, round(self.rate * self.seconds / self.writers))


@dataclass(frozen=True, slots=True)
class Done:
    """One upsert of a writer: the time of its call, when it should have been called, and its answer; lost attempts of this process since the last."""

    due: float
    called: float
    answered: float
    lost: int


def rows(writer: int, number: int) -> pa.Table:
    """Half of the rows change known keys, half are new."""
    first = (writer * 7919 + number * ROWS) % KNOWN
    ids = [
        *((first + at) % KNOWN for at in range(ROWS // 2)),
        *range(base := (writer + 1) * 10**7 + number * ROWS, base + ROWS // 2),
    ]
    return pa.table([ids, ["2026-11-29"] * ROWS, [number] * ROWS], schema=SCHEMA)


def measured(load: Load) -> dict[str, Any]:
    """Run the writers, and check that nothing is lost."""
    table = hudi.create_table(load.location, SCHEMA, "id", partition_by="day", storage_options=dict(load.storage))
    table.upsert(pa.table([range(KNOWN), ["2026-11-29"] * KNOWN, [0] * KNOWN], schema=SCHEMA))
    barrier, answers = _processes.Barrier(load.writers // load.threads + 1), _processes.Queue()
    own = [
        _processes.Process(target=_process, args=(load, n, barrier, answers))
        for n in range(0, load.writers, load.threads)
    ]
    for process in own:
        process.start()
    barrier.wait(300)
    began = time.perf_counter()
    each = [answers.get(timeout=600) for _ in own]
    seconds = time.perf_counter() - began
    for process in own:
        process.join()
    done = [one for found, _ in each for one in found]
    assert len(done) == load.writers * load.upserts, "a writer has failed"
    commits = hudi.open_table(load.location, dict(load.storage))
    expected = KNOWN + len(done) * (ROWS // 2)
    assert commits.count() == expected, (commits.count(), expected)
    latency = sorted(one.answered - one.called for one in done)
    late = sorted(one.called - one.due for one in done)
    lost = sum(one.lost for one in done)
    made = [len(answers_in(commit)) for _, commit in commits.commits_with("")] if load.batch else [1] * len(done)
    made = [number for number in made if number]
    return {
        "writers": load.writers,
        "threads": load.threads,
        "asked_per_second": load.rate,
        "upserts": len(done),
        "upserts_per_second": round(len(done) / seconds, 1),
        "commits": len(made),
        "lost_attempts": lost,
        "retries": round(lost / len(done), 4),
        "latency_ms": {"p50": _ms(latency, 0.5), "p95": _ms(latency, 0.95), "max": _ms(latency, 1)},
        "late_ms": _ms(late, 0.5),
        "processor_ms_per_upsert": round(1000 * sum(used for _, used in each) / len(done), 1),
        "cores_used": round(sum(used for _, used in each) / seconds, 2),
    }


def _ms(ordered: list[float], share: float) -> float:
    return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)


def _process(load: Load, first: int, barrier: Any, answers: Any) -> None:
    lost = [0]
    real = Retries.wait

    def counted(self: Any, conflict: Any) -> None:
        lost[0] += 1
        real(self, conflict)

    setattr(Retries, "wait", counted)  # noqa: B010  (a method is not assigned to)
    table = hudi.open_table(load.location, dict(load.storage), options=dict(load.options))
    table.scan(where="id = 1").to_arrow()  # modules that are imported on first use are loaded now
    found: list[Done] = []
    barrier.wait(300)
    began, used = time.perf_counter(), time.process_time()
    threads = [
        threading.Thread(target=_writer, args=(load, table, first + at, began, lost, found))
        for at in range(load.threads)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put((found, time.process_time() - used))


def _writer(load: Load, table: hudi.HudiTable, writer: int, began: float, lost: list[int], found: list[Done]) -> None:
    every = load.writers / load.rate
    for number in range(load.upserts):
        due = began + every * (number + writer / load.writers)
        time.sleep(max(0.0, due - time.perf_counter()))
        before, called = lost[0], time.perf_counter()
        table.upsert(rows(writer, number), batch=load.batch)
        found.append(Done(due, called, time.perf_counter(), lost[0] - before))


def transactions(folder: str, storage: Mapping[str, str], tables: int, times: int) -> dict[str, Any]:
    """One writer: what a commit to one table takes, and one step over several, 100 rows in each table."""
    made = [
        hudi.create_table(f"{folder}/t{number}", SCHEMA, "id", partition_by="day", storage_options=dict(storage))
        for number in range(tables)
    ]
    took, used = [], []
    for number in range(times + 2):
        began, processor = time.perf_counter(), time.process_time()
        if tables == 1:
            made[0].upsert(rows(0, number))
        else:
            with hudi.transaction(made) as changes:
                for table in made:
                    changes.upsert(table, rows(0, number))
        took.append(time.perf_counter() - began)
        used.append(time.process_time() - processor)
    return {
        "tables": tables,
        "times": times,
        "ms": round(1000 * median(took[2:]), 1),
        "processor_ms": round(1000 * median(used[2:]), 1),
    }
