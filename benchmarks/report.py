"""The benchmarks' part of docs/evidence.md, and its picture, from results alone.

A figure is the median of the ratios of rounds that ran side by side, with the smallest and the largest in
brackets. No seconds are shown, because they belong to the machine of the day; only `locks` and `object_stores`, with injected latency, show
milliseconds. A promise counts as kept only if its rounds allow the claim (`Goal.verdict`). A result may say which run it is of (``"run"``).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from statistics import median
from typing import Any

from benchmarks import indexed_peers, indexed_writes, large_upserts, local_peers, locks, object_stores, spark_loads
from benchmarks.picture import Bar, bars
from benchmarks.ratios import Goal, Ratio, ratio, short

OURS = "pyhudi on PySpark"
LOCAL = "pyhudi, local engine"
LIMIT = "limit"
SPARK_SCAN = "Spark's own Parquet scan"
ARROW_SCAN = "pyarrow's own dataset read"
Result = dict[str, Any]


def _ranked(seconds: dict[str, list[float]], reference: str) -> list[str]:
    """The contestants, quickest first, measured against one of them."""
    return sorted(seconds, key=lambda name: ratio(seconds[name], seconds[reference]).middle) if seconds else []


def page(kept: dict[str, Result]) -> str:
    """The promises, and a table for each subject, as Markdown below a heading of the second level."""
    parts = [
        (("",), _goals(kept)),
        *(
            ((f"{verb}-1m", f"{verb}-10m"), _writes(kept, verb, verb.capitalize()))
            for verb in ("upsert", "load", "delete")
        ),
        (("spark_loads-1m", "spark_loads-10m"), spark_loads.section(kept)),
        (("large_upsert-1m",), large_upserts.section(kept)),
        (("local_peers",), local_peers.section(kept)),
        (("snapshot_read-1m", "snapshot_read-10m"), _snapshot(kept)),
        (("merge_on_read",), _merge_on_read(kept)),
        (("indexed_writes",), indexed_writes.section(kept)),
        (("indexed_peers",), indexed_peers.section(kept)),
        (("point_lookup-1m", "point_lookup-10m"), _lookup(kept)),
        (("record_lookup",), _record_lookup(kept)),
        (("memory",), _memory(kept)),
        (("locks",), locks.section(kept)),
        (("object_stores",), object_stores.section(kept)),
    ]
    return "\n".join(
        _compact(text, dict.fromkeys(kept[name]["run"] for name in names if "run" in kept.get(name, {})))
        for names, text in parts
        if text
    )


def _compact(text: str, runs: Collection[str]) -> str:
    """Tables without spaces around their cells, and the run in the heading."""
    lines = [re.sub(r" *(?<!\\)\| *", "|", line) if line.startswith("|") else line for line in text.splitlines()]
    said = [f"Part: {', '.join(runs)}.", ""] if runs else []
    return "\n".join([f"#{lines[0]}", "", *said, *lines[2:], ""])


def goals(kept: dict[str, Result]) -> list[Goal]:
    """Every promise for which there is a result."""
    found: list[Goal] = []
    if "upsert-1m" in kept:
        seconds = kept["upsert-1m"]["seconds"]
        found.append(
            Goal(
                "COW upsert on PySpark, 1M rows: times the limit", ratio(seconds[OURS], seconds[LIMIT]), 2, "upsert-1m"
            )
        )
        hudi = next((name for name in seconds if name.startswith("Apache Hudi")), None)
        if hudi:
            words = f"{hudi} takes this many times as long for it"
            found.append(Goal(words, ratio(seconds[hudi], seconds[OURS]), 5, "upsert-1m", at_least=True))
    found += _goals_of_local_loads(kept) + spark_loads.goals(kept) + large_upserts.goals(kept) + local_peers.goals(kept)
    if "snapshot_read-10m" in kept:
        took = kept["snapshot_read-10m"]["execution"]
        found.append(
            Goal(
                "Snapshot read, 10M rows: times Spark's own Parquet scan",
                ratio(took[OURS], took[SPARK_SCAN]),
                1.1,
                "snapshot_read-10m",
            )
        )
    found += _goals_of_reading(kept)
    found += indexed_writes.goals(kept) + indexed_peers.goals(kept)
    if "memory" in kept:
        pairs = kept["memory"]["upserts"]
        large, small = ([float(pair[name]["worker"]) for pair in pairs] for name in ("large", "small"))
        found.append(
            Goal("Peak memory of a task, upsert into 10M rows: times that for 1M", ratio(large, small), 1.2, "memory")
        )
        totals = [each["total"] / 2**30 for each in kept["memory"]["loads"]]
        sums = Ratio.of(totals)
        found.append(
            Goal("Load of 10M rows: memory (PSS) of driver, JVM and workers together", sums, 2, "memory", unit=" GiB")
        )
    return found


def _goals_of_local_loads(kept: dict[str, Result]) -> list[Goal]:
    """Loads of Arrow data in one process."""
    return [
        Goal(
            f"Load on the local engine, {label.upper()} rows: times the limit",
            ratio(seconds[LOCAL], seconds[LIMIT]),
            1.5,
            name,
        )
        for label in ("1m", "10m")
        for name in [f"load-{label}"]
        if name in kept
        for seconds in [kept[name]["seconds"]]
    ]


def _goals_of_reading(kept: dict[str, Result]) -> list[Goal]:
    found: list[Goal] = []
    if "merge_on_read" in kept:
        took = kept["merge_on_read"]["execution"]
        words = "Snapshot read, 1M rows with 5% in logs: times Spark's scan of the rows as Parquet"
        found.append(Goal(words, ratio(took[OURS], took[SPARK_SCAN]), 1.5, "merge_on_read"))
        hudi = next(name for name in took if name.startswith("Apache Hudi"))
        found.append(
            Goal(
                f"{hudi} takes this many times as long for it",
                ratio(took[hudi], took[OURS]),
                2,
                "merge_on_read",
                at_least=True,
            )
        )
    if "planning" in kept:
        taken = kept["planning"]["seconds"]["whole table"]
        files = kept["planning"]["files"]
        figure = Ratio.of(taken)
        found.append(
            Goal(f"Planning a scan over {files:,} files of the metadata table", figure, 1, "planning", unit=" s")
        )
    return found + _goals_of_many_groups(kept) + _goals_of_services(kept) + _goals_of_ingest(kept)


def _goals_of_ingest(kept: dict[str, Result]) -> list[Goal]:
    if "ingest" not in kept:
        return []
    each, seconds = kept["ingest"]["each"], kept["ingest"]["seconds"]
    words = (
        f"Upsert of {each:,} rows, with table services in another process on another core: times that without services"
    )
    medians = {kind: [median(times) for times in rounds] for kind, rounds in seconds.items()}
    return [Goal(words, ratio(medians["on"], medians["off"]), 1.2, "ingest")]


def _goals_of_services(kept: dict[str, Result]) -> list[Goal]:
    if "services" not in kept:
        return []
    rows, share = kept["services"]["size"], kept["services"]["share_in_logs"]
    words = {
        "compaction": f"Compaction of {rows:,} rows with {share:.0%} of them in logs: times a merge and rewrite by pyarrow alone",
        "clustering": f"Clustering of {rows:,} rows, sorted: times a sort and write by pyarrow alone",
    }
    return [
        Goal(words[name], ratio(seconds["pyhudi"], seconds["pyarrow alone"]), 1.5, "services")
        for name, seconds in kept["services"]["seconds"].items()
    ]


def _goals_of_many_groups(kept: dict[str, Result]) -> list[Goal]:
    if "many_groups" not in kept:
        return []
    few, many = kept["many_groups"]["sizes"]
    kinds = {"kept": "one handle for all", "opened": "the table opened anew for each"}
    return [
        Goal(
            f"Upsert of 1 row into one of {many:,} file groups, {words}: times that into one of {few:,}",
            ratio(seconds[str(many)], seconds[str(few)]),
            1.5,
            "many_groups",
        )
        for kind, words in kinds.items()
        for seconds in [kept["many_groups"]["seconds"][kind]]
    ]


def _goals(kept: dict[str, Result]) -> str:
    lines = [
        "## What is promised",
        "",
        "| promise | bound | measured | rounds | kept | run |",
        "|---|---|---|---|---|---|",
    ]
    shown = {"yes": "yes", "no": "**no**", "not shown": "**not shown**"}
    for goal in goals(kept):
        bound = f"{'at least' if goal.at_least else 'at most'} {short(goal.bound)}{goal.unit}"
        run = kept[goal.source].get("run", "")
        measured = f"{goal.measured}{goal.unit}"
        lines.append(
            f"| {goal.words} | {bound} | {measured} | {goal.measured.rounds} | {shown[goal.verdict]} | {run} |"
        )
    return "\n".join([*lines, ""])


def _writes(kept: dict[str, Result], verb: str, words: str) -> str:
    found = [
        (size, kept[f"{verb}-{size.lower()}"]["seconds"]) for size in ("1M", "10M") if f"{verb}-{size.lower()}" in kept
    ]
    if not found:
        return ""
    lines = [
        f"## {words}",
        "",
        "| | rows | times the limit | times pyhudi on PySpark | MB on the disk after it |",
        "|---|---|---|---|---|",
    ]
    for size, seconds in found:
        sizes = kept[f"{verb}-{size.lower()}"].get("bytes", {})
        lines += [
            f"| {name} | {size} | {ratio(seconds[name], seconds[LIMIT])} | {ratio(seconds[name], seconds[OURS])} | {_megabytes(sizes, name)} |"
            for name in _ranked(seconds, LIMIT)
        ]
    return "\n".join([*lines, ""])


def _megabytes(sizes: dict[str, int], name: str) -> str:
    return f"{sizes[name] / 1e6:.1f}" if name in sizes else ""


def _snapshot(kept: dict[str, Result]) -> str:
    lines = ["## Snapshot read", ""]
    for size in ("1M", "10M"):
        result = kept.get(f"snapshot_read-{size.lower()}")
        if not result:
            continue
        plan, took = result["planning"], result["execution"]
        lines += [
            f"| {size} rows | execution: times {SPARK_SCAN} | planning: times that of {SPARK_SCAN} |",
            "|---|---|---|",
        ]
        lines += [
            f"| {name} | {ratio(took[name], took[SPARK_SCAN])} | {ratio(plan[name], plan[SPARK_SCAN])} |"
            for name in _ranked(took, SPARK_SCAN)
        ]
        local = result["local"]
        name = next(name for name in local if name != ARROW_SCAN)
        lines += [
            "",
            f"{name}: {ratio(local[name], local[ARROW_SCAN])} times {ARROW_SCAN} of the same files.",
            "",
        ]
    return "\n".join(lines) if len(lines) > 2 else ""


def _merge_on_read(kept: dict[str, Result]) -> str:
    if "merge_on_read" not in kept:
        return ""
    result = kept["merge_on_read"]
    took, local = result["execution"], result["seconds"]
    lines = [
        "## Snapshot read of a merge-on-read table",
        "",
        f"A table that Apache Hudi wrote: {result['size']:,} rows, {result['updates']:,} of them with a newer version in Avro logs.",
        "All columns of all rows.",
        "",
        f"| | times {SPARK_SCAN} of the same rows as Parquet |",
        "|---|---|",
        *[f"| {name} | {ratio(took[name], took[SPARK_SCAN])} |" for name in _ranked(took, SPARK_SCAN)],
        "",
    ]
    name = next(name for name in local if name != ARROW_SCAN)
    return "\n".join(
        [*lines, f"{name}: {ratio(local[name], local[ARROW_SCAN])} times {ARROW_SCAN} of the same rows.", ""]
    )


def _record_lookup(kept: dict[str, Result]) -> str:
    if "record_lookup" not in kept:
        return ""
    seconds = kept["record_lookup"]["seconds"]
    ours = next(name for name in seconds if name.startswith("pyhudi"))
    lines = ["## Look-up by record key", "", "One key of 1M rows, by the record index of that table.", ""]
    lines += [f"{name}: {ratio(seconds[name], seconds[ours])} times {ours}." for name in seconds if name != ours]
    return "\n".join([*lines, ""])


def _lookup(kept: dict[str, Result]) -> str:
    lines = [
        "## Point lookup",
        "",
        "One row by key and partition.",
        "",
        f"| | rows | times {SPARK_SCAN} |",
        "|---|---|---|",
    ]
    for size in ("1M", "10M"):
        seconds = kept.get(f"point_lookup-{size.lower()}", {}).get("seconds", {})
        lines += [
            f"| {name} | {size} | {ratio(seconds[name], seconds[SPARK_SCAN])} |"
            for name in _ranked(seconds, SPARK_SCAN)
        ]
    return "\n".join([*lines, ""]) if len(lines) > 6 else ""


def _memory(kept: dict[str, Result]) -> str:
    if "memory" not in kept:
        return ""
    result = kept["memory"]
    lines = [
        "## Memory",
        "",
    ]
    lines += ["| load of 10M rows, heap 512 MB | driver | JVM | workers | sum |", "|---|---|---|---|---|"]
    for number, each in enumerate(result["loads"], 1):
        sizes = " | ".join(f"{each[part] / 2**20:.0f} MiB" for part in ("driver", "jvm", "workers", "total"))
        lines.append(f"| round {number} | {sizes} |")
    lines += [
        "",
        "| largest Python worker in an upsert of 60,000 rows | into 1M rows | into 10M rows | ratio |",
        "|---|---|---|---|",
    ]
    for number, pair in enumerate(result["upserts"], 1):
        small, large = pair["small"]["worker"], pair["large"]["worker"]
        lines.append(f"| round {number} | {small / 2**20:.0f} MiB | {large / 2**20:.0f} MiB | {large / small:.2f} |")
    return "\n".join([*lines, ""])


def picture(kept: dict[str, Result]) -> str:
    groups: dict[str, list[Bar]] = {}
    for verb in ("upsert", "load", "delete"):
        seconds = kept.get(f"{verb}-1m", {}).get("seconds", {})
        for name in _ranked(seconds, LIMIT):
            value = ratio(seconds[name], seconds[LIMIT])
            groups.setdefault(f"{verb}, 1M rows", []).append(
                Bar(name, value.middle, value.low, value.high, name.startswith("pyhudi"))
            )
    return bars("Time, as a multiple of the limit (shorter is better)", groups)
