"""Latency of ingest with table services beside it: the writer on one core, the services on another.

A writer commits small upserts of existing rows to a merge-on-read table, so they go to logs, with a pause after each. In half of the rounds a second
process compacts, compacts logs, cleans and archives the same table all the time. Each process is pinned to a core of its own, so what is compared is
how much the services are in the way: locks, conflicts, retries and the storage. Rounds with and without services take turns, each on a new table.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from collections.abc import Mapping
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

import pyhudi_core as hudi
from benchmarks import workload
from benchmarks.sections import Say
from benchmarks.workload import HOME

SERVICES = ("compaction", "log_compaction", "cleaning", "archival")
OPTIONS: dict[str, object] = {
    "hoodie.compact.inline.max.delta.commits": 2,
    "hoodie.log.compaction.blocks.threshold": 3,
    "hoodie.clean.commits.retained": 4,
    "hoodie.keep.min.commits": 6,
    "hoodie.keep.max.commits": 10,
}
"""So much work for the services that they never rest."""
PAUSE_S = 0.2
_processes = multiprocessing.get_context("spawn")


def ingest(loaded: int, each: int, commits: int, rounds: int, say: Say) -> dict[str, Any]:
    """Seconds of the commits of each round, with services off and on; and how many runs of services did something.

    Args:
        loaded: rows of the table before.
        each: rows of an upsert.
        commits: of a round.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise RuntimeError("The section ingest needs two cores: one for the writer, and one for the services.")
    seconds: dict[str, list[list[float]]] = {"off": [], "on": []}
    done: list[dict[str, int]] = []
    for number in range(rounds + 1):
        for kind in ("off", "on") if number % 2 else ("on", "off"):
            times, ran = _round(kind == "on", (cores[0], cores[-1]), (loaded, each, commits))
            tail = quantiles(times, n=20)[-1]
            say(
                f"ingest, round {number}, services {kind}: median {median(times):.4f} s, 95 % {tail:.4f} s; {ran or 'none'}"
            )
            if number:
                seconds[kind].append(times)
                done += [ran] if kind == "on" else []
    runs = {name: sum(ran[name] for ran in done) for name in (*SERVICES, "conflicts")}
    return {"loaded": loaded, "each": each, "commits": commits, "seconds": seconds, "services": runs}


def _round(beside: bool, cores: tuple[int, int], work: tuple[int, int, int]) -> tuple[list[float], dict[str, int]]:
    location = str(HOME / "tables" / "ingest")
    loaded, each, commits = work
    _made(Path(location), loaded)
    stop, answers = _processes.Event(), _processes.SimpleQueue()
    ready, running = _processes.Event(), _processes.SimpleQueue()
    services = _processes.Process(target=_serve, args=(location, cores[1], ready, stop, running))
    writer = _processes.Process(target=_write, args=(location, cores[0], loaded, each, commits, answers))
    if beside:
        services.start()
        ready.wait()
    writer.start()
    writer.join()
    stop.set()
    ran: dict[str, int] = {}
    if beside:
        services.join()
        if services.exitcode:
            raise RuntimeError("The process of the services failed; its error is above.")
        ran = running.get()
    if writer.exitcode:
        raise RuntimeError("The writer failed; its error is above.")
    return answers.get(), ran


def _made(folder: Path, loaded: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    table = hudi.create_table(
        str(folder),
        schema=workload.SCHEMA,
        record_key=workload.KEY,
        partition_by=[workload.PARTITION],
        ordering=workload.ORDERING,
        table_type="MERGE_ON_READ",
        storage_options={"fsync": "false"},
    )
    table.bulk_insert(workload.rows(np.arange(loaded), 0))


def _write(location: str, core: int, loaded: int, each: int, commits: int, answers: Any) -> None:
    """The writer: the seconds of each commit, after two that are not counted."""
    os.sched_setaffinity(0, {core})
    table = hudi.open_table(location, options={"hoodie.clean.automatic": "false", **_quiet()})
    rng = np.random.default_rng(11)
    found: list[float] = []
    for number in range(commits + 2):
        rows = workload.rows(np.sort(rng.choice(loaded, each, replace=False)), number + 1)
        began = time.perf_counter()
        table.upsert(rows)
        found.append(time.perf_counter() - began)
        time.sleep(PAUSE_S)
    answers.put(found[2:])


def _quiet() -> Mapping[str, object]:
    """No service runs in the writer."""
    return {"hoodie.archive.automatic": "false", "hoodie.compact.inline": "false"}


def _serve(location: str, core: int, ready: Event, stop: Event, running: Any) -> None:
    """The services: one after the other, until the writer has ended."""
    os.sched_setaffinity(0, {core})
    table = hudi.open_table(location, options=OPTIONS)
    services = {name: getattr(table, name) for name in SERVICES}
    done = dict.fromkeys((*SERVICES, "conflicts"), 0)
    ready.set()
    while not stop.is_set():
        for name, service in services.items():
            try:
                done[name] += bool(service.run())
            except hudi.CommitConflictError:
                done["conflicts"] += 1  # the writer was first: plan again
    running.put(done)
