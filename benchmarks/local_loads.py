"""First loads and small commits of the local engine beside deltalake and pyarrow's bare write: `make bench LOCAL=1`, in ten minutes at most.

All is done in this process, in turns, and measured as processor time; the smallest of the rounds counts, because other programs only add to it. Each
contestant has its defaults. pyarrow's bare write makes Hudi's five meta columns, too, and one file (or one for each partition); it knows no keys, and
does not wait for the disk. deltalake is left out where it is not installed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pyhudi_core as hudi

Load = Callable[[pa.Table, str], object]
ROUNDS = 4
KEY, DAY = "id", "day"


def narrow(rows: int) -> pa.Table:
    """Four numbers and a short text."""
    chance = np.random.default_rng(1)
    numbers = np.arange(rows)
    text = pa.array(chance.integers(0, 50, rows)).cast(pa.string())
    return pa.table(
        {KEY: numbers, "ts": numbers, "a": chance.random(rows), "b": chance.integers(0, 1000, rows), "c": text}
    )


def wide(rows: int) -> pa.Table:
    """Forty numbers."""
    chance = np.random.default_rng(2)
    return pa.table({KEY: np.arange(rows), **{f"n{n}": chance.integers(0, 1 << n, rows) for n in range(1, 40)}})


def text(rows: int) -> pa.Table:
    """Eight texts that rarely repeat, the key among them, in no order."""
    chance = np.random.default_rng(3)
    columns = {f"t{n}": pa.array(chance.integers(0, 10**12, rows)).cast(pa.string()) for n in range(7)}
    return pa.table({KEY: pa.array(chance.permutation(rows)).cast(pa.string()), **columns})


def nested(rows: int) -> pa.Table:
    """A struct and a list beside the key."""
    numbers = np.arange(rows)
    struct = pa.StructArray.from_arrays([pa.array(numbers), pa.array(numbers % 9)], names=["x", "y"])
    items = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * 3, pa.int32()), pa.array(np.arange(rows * 3) % 100))
    return pa.table({KEY: numbers, "s": struct, "l": items})


def partitioned(rows: int, partitions: int) -> pa.Table:
    """The narrow rows in so many partitions, which take turns."""
    return narrow(rows).append_column(DAY, pa.array(np.arange(rows) % partitions).cast(pa.string()))


def ours(data: pa.Table, folder: str, key: str | None = KEY) -> object:
    """A first upsert, or an insert of rows whose keys are generated."""
    table = hudi.create_table(folder, data.schema, key or (), partition_by=[DAY] if DAY in data.column_names else ())
    return table.upsert(data) if key else table.insert(data)


def generated(data: pa.Table, folder: str) -> object:
    """The same without key columns."""
    return ours(data, folder, None)


def bare(data: pa.Table, folder: str) -> object:
    """pyarrow's write of the rows with the meta columns."""
    parts = [data]
    if DAY in data.column_names:
        codes = data[DAY].combine_chunks().dictionary_encode()
        order = np.argsort(codes.indices.to_numpy(), kind="stable")
        ends = np.cumsum(np.bincount(codes.indices.to_numpy()))
        ordered = data.take(pa.array(order))
        parts = [ordered.slice(start, end - start) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    os.makedirs(folder)
    for number, part in enumerate(parts):
        count = len(part)
        seqno = pc.binary_join_element_wise("20260101000000000_0", pa.array(np.arange(count)).cast(pa.string()), "_")
        meta = [
            pa.repeat("2" * 17, count),
            seqno,
            part[KEY].cast(pa.string()),
            pa.repeat("day=1", count),
            pa.repeat("f" * 80, count),
        ]
        whole = pa.table([*meta, *part.columns], names=[*"tskpf", *part.column_names])
        pq.write_table(whole, f"{folder}/{number}.parquet", compression="zstd")
    return None


def delta(data: pa.Table, folder: str) -> object:
    """deltalake's write."""
    from deltalake import write_deltalake

    write_deltalake(folder, data, partition_by=[DAY] if DAY in data.column_names else None)
    return None


def contestants() -> dict[str, Load]:
    """By name; those that are installed."""
    found: dict[str, Load] = {"pyhudi": ours, "pyhudi, generated keys": generated, "pyarrow": bare}
    try:
        import deltalake  # noqa: F401
    except ImportError:
        return found
    return {**found, "deltalake": delta}


def loads(scale: int) -> None:
    """Print the seconds of each load."""
    runners = contestants()
    workloads = {
        f"narrow, {scale:,} rows": narrow(scale),
        f"wide, {scale // 5:,} rows": wide(scale // 5),
        f"text, {scale // 2:,} rows": text(scale // 2),
        f"nested, {scale // 2:,} rows": nested(scale // 2),
        f"12 partitions, {scale:,} rows": partitioned(scale, 12),
        f"{scale // 1000:,} partitions of 4 rows": partitioned(scale // 1000 * 4, scale // 1000),
    }
    print("| first load | " + " | ".join(runners) + " |\n|" + "---|" * (len(runners) + 1))
    for name, data in workloads.items():
        best = dict.fromkeys(runners, float("inf"))
        for _ in range(ROUNDS):
            for runner, load in runners.items():
                best[runner] = min(best[runner], _taken(load, data))
        print(f"| {name} | " + " | ".join(f"{seconds:.2f}" for seconds in best.values()) + " |", flush=True)


def _taken(load: Load, data: pa.Table) -> float:
    place = tempfile.mkdtemp()
    try:
        before = time.process_time()
        load(data, f"{place}/t")
        return time.process_time() - before
    finally:
        shutil.rmtree(place)


def small_commits(commits: int) -> None:
    """Print what commits of 100 new rows leave on the disk, and what they cost at the beginning and at the end."""
    place = tempfile.mkdtemp()
    try:
        table, taken = hudi.create_table(f"{place}/t", narrow(1).schema, KEY), []
        data = narrow(100 * commits)
        for number in range(commits):
            before = time.process_time()
            table.upsert(data.slice(100 * number, 100))
            taken.append(1000 * (time.process_time() - before))
        size = sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())
        tenth = max(1, commits // 10)
        early, late = np.median(taken[tenth : 2 * tenth]), np.median(taken[-tenth:])
        print(
            f"\n{commits} commits of 100 new rows: {size / 1e6:.1f} MB; {early:.0f} ms a commit in the second tenth, {late:.0f} ms in the last"
        )
        print(table.size())
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    SCALE = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    loads(SCALE)
    small_commits(max(10, SCALE // 2000))
