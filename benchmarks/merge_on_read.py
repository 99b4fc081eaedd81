"""Reads of a merge-on-read table that Apache Hudi wrote: 1M rows, of which 5% have a newer version in logs.

The reference is the same rows as plain Parquet, in as many files as the table has file groups: the cost without merging. Look-ups read one record key
by the table's record index.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import contestants, workload
from benchmarks.contestants import Contestant
from benchmarks.sections import SPARK, Say, Scale

SPARK_SCAN = "Spark's own Parquet scan"
ARROW_SCAN = "pyarrow's own dataset read"


def snapshot(scale: Scale, say: Say) -> dict[str, Any]:
    """Full scans of all columns, in Spark and in this process."""
    result: dict[str, Any] = {"size": scale.size, "updates": scale.updates}
    with ExitStack() as stack:
        hudi = stack.enter_context(contestants.peers()[0])
        table = made(hudi, scale)
        spark = stack.enter_context(contestants.pyhudi_spark())
        local = stack.enter_context(contestants.pyhudi_local())
        copied = local.ask("copy", table=table, target=f"{table}-copy")
        say(f"merge on read: {copied['rows']:,} rows in {copied['files']} files")
        plan = [
            (spark, "scan", table, SPARK, "execution"),
            (spark, "parquet_scan", f"{table}-copy", SPARK_SCAN, "execution"),
            (hudi, "scan", table, hudi.name, "execution"),
            (local, "scan", table, local.name, "seconds"),
            (local, "arrow_copy_scan", f"{table}-copy", ARROW_SCAN, "seconds"),
        ]
        for number in range(scale.rounds + 2):
            for who, verb, where, name, figure in plan if number % 2 else plan[::-1]:
                taken = who.ask(verb, table=where)[figure]
                say(f"merge on read, round {number}: {name} {taken:.2f} s")
                if number > 1:
                    result.setdefault(figure, {}).setdefault(name, []).append(taken)
    return result


def lookup(scale: Scale, say: Say) -> dict[str, Any]:
    """One record key, a different one each round."""
    seconds: dict[str, list[float]] = {}
    with ExitStack() as stack:
        hudi = stack.enter_context(contestants.peers()[0])
        table = made(hudi, scale)
        local = stack.enter_context(contestants.pyhudi_local())
        for number in range(scale.rounds + 2):
            key, _ = workload.lookup_key(scale.size, number)
            for who, verb in ((local, "record_lookup"), (hudi, "lookup")):
                taken = who.seconds(verb, table=table, key=key, where=f"_hoodie_record_key = '{key}'")
                say(f"look-up by record index, round {number}: {who.name} {taken:.3f} s")
                if number > 1:
                    seconds.setdefault(who.name, []).append(taken)
    return {"size": scale.size, "seconds": seconds}


def made(hudi: Contestant, scale: Scale) -> str:
    """The table; Hudi writes it on first use."""
    table = str(workload.HOME / "tables" / f"merge_on_read_{scale.size}")
    stamp = Path(table + ".loaded")
    if not stamp.exists():
        hudi.ask("load_mor", data=str(workload.load_file(scale.size)), table=table)
        updates = workload.upsert_file(scale.size, 1, scale.updates, 0)
        hudi.ask("upsert_mor", data=str(updates), table=table)
        stamp.touch()
    return table
