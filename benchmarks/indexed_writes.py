"""Writes with a metadata table, with a record index and to logs, each next to the same write without them, by the local engine.

Each kind has a table of its own with the same rows; all but the first have a metadata table, as new tables have by default. In a round every kind
makes the same load or upsert, in an order that changes with the round.
`small` is an upsert of few rows into a merge-on-read table with a record index, of two sizes: its cost must not grow with the table.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import pyhudi_core as hudi
from benchmarks import workload
from benchmarks.ratios import Goal, ratio
from benchmarks.sections import Say, Scale

PARQUET = "the rows as Parquet"
PLAIN, METADATA, RECORDS = "copy-on-write", "copy-on-write, metadata table", "copy-on-write, record index"
LOGS, AVRO = "merge-on-read, Parquet blocks", "merge-on-read, Avro blocks"
_LISTED = {"hoodie.metadata.enable": True}
_INDEXED = {**_LISTED, "hoodie.metadata.record.index.enable": True}
KINDS: dict[str, tuple[str, Mapping[str, object]]] = {
    PLAIN: ("cow", {"hoodie.metadata.enable": False}),
    METADATA: ("cow", _LISTED),
    RECORDS: ("cow", _INDEXED),
    LOGS: ("mor", {}),
    AVRO: ("mor", {"hoodie.logfile.data.block.format": "avro"}),
}
GROWTH, FEW = 10, 1_000


def indexed_writes(scale: Scale, say: Say) -> dict[str, Any]:
    """Seconds of each load, each upsert and each small upsert. Each first round warms up and is not counted."""
    loads: dict[str, list[float]] = {}
    upserts: dict[str, list[float]] = {}
    for number in range(scale.rounds + 1):
        for name in _turns(number):
            _count(loads, name, number, _timed(partial(_loaded, name, scale.size)), say)
    for number in range(scale.rounds + 1):
        rows = pq.read_table(scale.upsert(number + 1))
        _count(upserts, PARQUET, number, _timed(partial(pq.write_table, rows, _place("incoming.parquet"))), say)
        for name in _turns(number):
            table = hudi.open_table(_place(name), options=dict(KINDS[name][1]))
            _count(upserts, name, number, _timed(partial(table.upsert, rows)), say)
    small = _small_upserts(scale, say)
    return {"size": scale.size, "rows": scale.updates + scale.inserts, "load": loads, "upsert": upserts, "small": small}


def _small_upserts(scale: Scale, say: Say) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    sizes = (scale.size, scale.size * GROWTH)
    for size in sizes:
        _create(f"small-{size}", "mor", _INDEXED).bulk_insert(pq.read_table(workload.load_file(size)))
    for number in range(scale.rounds + 1):
        for size in sizes if number % 2 else sizes[::-1]:
            rows = pq.read_table(workload.upsert_file(size, number + 1, FEW, 0))
            table = hudi.open_table(_place(f"small-{size}"))
            _count(found, str(size), number, _timed(partial(table.upsert, rows)), say)
    return found


def _turns(number: int) -> list[str]:
    return list(KINDS) if number % 2 else list(KINDS)[::-1]


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _count(found: dict[str, list[float]], name: str, number: int, seconds: float, say: Say) -> None:
    say(f"indexed writes, round {number}: {name} {seconds:.3f} s")
    if number:
        found.setdefault(name, []).append(seconds)


def _loaded(name: str, size: int) -> None:
    kind, options = KINDS[name]
    _create(name, kind, options).bulk_insert(pq.read_table(workload.load_file(size)))


def _create(name: str, kind: str, options: Mapping[str, object]) -> hudi.HudiTable:
    shutil.rmtree(_place(name), ignore_errors=True)
    keys = (workload.KEY, workload.PARTITION, workload.ORDERING, kind)
    return hudi.create_table(_place(name), workload.SCHEMA, *keys, options=options)


def _place(name: str) -> str:
    home: Path = workload.HOME / "tables" / "indexed"
    home.mkdir(parents=True, exist_ok=True)
    return str(home / name.replace(", ", "-").replace(" ", "-"))


def goals(kept: Mapping[str, Any]) -> list[Goal]:
    """What is promised of these writes."""
    if "indexed_writes" not in kept:
        return []
    result = kept["indexed_writes"]
    load, upsert, small = result["load"], result["upsert"], result["small"]
    size = result["size"]
    rows = f"{result['rows']:,} rows into {size:,}"
    return [
        Goal(f"MOR upsert of {rows}: times a write of the rows as Parquet", ratio(upsert[LOGS], upsert[PARQUET]), 3.5, "indexed_writes"),
        Goal(f"COW upsert of {rows} with a metadata table: times without", ratio(upsert[METADATA], upsert[PLAIN]), 1.15, "indexed_writes"),
        Goal(f"First load of {size:,} rows with a record index: times without", ratio(load[RECORDS], load[PLAIN]), 2, "indexed_writes"),
        Goal(f"MOR upsert of {FEW:,} rows by the record index: {size * GROWTH:,} rows against {size:,}",
             ratio(small[str(size * GROWTH)], small[str(size)]), 2, "indexed_writes"),
    ]  # fmt: skip


def section(kept: Mapping[str, Any]) -> str:
    """The part of the page: each kind as a multiple of copy-on-write without a metadata table."""
    if "indexed_writes" not in kept:
        return ""
    result = kept["indexed_writes"]
    lines = [
        "## Metadata table, record index and logs\n",
        f"The local engine loads {result['size']:,} rows, then upserts {result['rows']:,}. Times of {PLAIN} without a metadata table.\n",
        "| kind | load | upsert |",
        "|---|---|---|",
    ]
    for name in KINDS:
        pair = (ratio(result[verb][name], result[verb][PLAIN]) for verb in ("load", "upsert"))
        lines.append(f"| {name} | " + " | ".join(map(str, pair)) + " |")
    return "\n".join([*lines, ""])
