"""The cost of a small upsert in a table with many file groups: one row, in tables of 100 and of 10,000 file groups.

Each partition has one file group. The tables take turns, and each commit uses fsync. `kept`: one handle for all commits, as in a process that writes
repeatedly. `opened`: the table is opened again for each commit, so that its newest commits are read again. Small commits before the counted rounds
ensure that the load is not among the newest commits, whose files every write reads.
"""

from __future__ import annotations

import time
from typing import Any

import pyhudi_core as hudi
from benchmarks.commit_writers import OPTIONS, make, rows
from benchmarks.sections import Say
from benchmarks.workload import HOME
from pyhudi_core.file_groups.view import NEWEST

SIZES = (100, 10_000)


def many_groups(sizes: tuple[int, int], rounds: int, say: Say) -> dict[str, Any]:
    """Seconds of each commit, by kind of handle and number of file groups."""
    kept: dict[int, hudi.HudiTable] = {}
    for size in sizes:
        table = make(HOME / "tables" / f"groups_{size}")
        filled = hudi.open_table(table.location, {"fsync": "false"}, OPTIONS)
        filled.bulk_insert(rows(list(range(size)), [f"p{number}" for number in range(size)], 0))
        for number in range(NEWEST):
            filled.upsert(rows([0], ["p0"], number))
        kept[size] = hudi.open_table(table.location, options=OPTIONS)
        say(f"many groups: a table of {size:,} is ready")
    seconds: dict[str, dict[str, list[float]]] = {"kept": {}, "opened": {}}
    for number in range(rounds + 2):
        for size in sizes if number % 2 else sizes[::-1]:
            for kind, times in seconds.items():
                location = kept[size].location
                began = time.perf_counter()
                table = kept[size] if kind == "kept" else hudi.open_table(location, options=OPTIONS)
                table.upsert(rows([0], ["p0"], number))
                taken = time.perf_counter() - began
                if number >= 2:
                    times.setdefault(str(size), []).append(taken)
    for kind, times in seconds.items():
        say(f"many groups, {kind}: " + ", ".join(f"{size} {sorted(t)[len(t) // 2]:.4f} s" for size, t in times.items()))
    return {"sizes": list(sizes), "seconds": seconds}
