"""The local engine beside deltalake and PyIceberg: Arrow data in one process, without Spark; and what the tables take on the disk.

Each contestant does each operation once to warm up; then they take turns. A load, an upsert and a delete of 10,000 rows, a read of all rows, one of
a twentieth of them by a condition on a column that no file is sorted by, both also without our meta columns, one by key, a count, a new interpreter
that opens a table, and many commits of 100 new rows into a new table, once. At the end all tables must have the same number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from typing import Any

import numpy as np

from benchmarks import contestants, workload
from benchmarks.contestants import Contestant, ContestantError
from benchmarks.disk import bytes_of
from benchmarks.ratios import Goal, Ratio, ratio

Say = Callable[[str], None]
Result = dict[str, Any]
OURS = "pyhudi, local engine"
UNSAFE = f"{OURS}, without fsync"
ROWS_OF_A_COMMIT = 100
VERBS = {
    "load": "load",
    "upsert": "upsert of 10,000",
    "delete": "delete of 10,000",
    "scan": "read of all rows",
    "data": "read of all rows, without meta columns",
    "filtered": "filtered read",
    "filtered_data": "filtered read, without meta columns",
    "key": "read of one key",
    "counted": "count",
    "import": "import and open",
    "commits": "small commits",
}
FILTERED = ("qty", 50)
"""The filtered read takes rows whose value of this column is less; values are 0 to 999."""
AS_FAST = ("data", "filtered_data", "counted")
"""The verbs that do the same work here as in the peers."""
MAINTAINED = {"hoodie.metadata.enable": "true"}
"""Our tables keep a metadata table, as Hudi's do by default."""
WARM_UP = 1


def local_peers(size: int, batch: int, rounds: int, commits: int, say: Say) -> Result:
    """Seconds of each verb by contestant, and bytes on the disk after the load, at the end, and after the small commits."""
    seconds: dict[str, dict[str, list[float]]] = {verb: {} for verb in VERBS}
    result: Result = {"size": size, "batch": batch, "commits": commits, "seconds": seconds, "bytes": {}, "growth": {}}
    with ExitStack() as stack:
        runners = [stack.enter_context(each) for each in [contestants.pyhudi_local(), *contestants.local_peers()]]
        for verb in [name for name in VERBS if name != "commits"]:
            for number in range(rounds + WARM_UP):
                for each in runners if number % 2 else runners[::-1]:
                    taken = each.seconds(verb, table=_table(each), **_input(verb, size, batch, number))
                    say(f"local {verb} {size:,} round {number}: {each.name} {taken:.2f} s")
                    if number >= WARM_UP:
                        seconds[verb].setdefault(each.name, []).append(taken)
            _measure_disk(result, runners, "load" if verb == "load" else "upserts and deletes")
        counts = {each.name: each.ask("count", table=_table(each))["rows"] for each in runners}
        for name, each, storage in [(each.name, each, {}) for each in runners] + [
            (UNSAFE, runners[0], {"fsync": "false"})
        ]:
            command = {"table": _table(each), "commits": commits, "rows": ROWS_OF_A_COMMIT, "storage": storage}
            command["options"] = MAINTAINED
            answer = each.ask("commits", **command)
            say(f"local, {commits} commits: {name} {answer['seconds']:.2f} s")
            seconds["commits"][name] = [answer["seconds"]]
            result["growth"][name] = [late / early for late, early in zip(answer["last"], answer["first"], strict=True)]
        _measure_disk(result, runners, f"{commits} commits")
        counts |= {f"{each.name}, commits": each.ask("count", table=_table(each))["rows"] for each in runners}
    if len(set(counts.values())) != 2:
        raise ContestantError(f"The contestants ended with different tables: {counts}")
    return result


def goals(kept: dict[str, Result]) -> list[Goal]:
    """The promises of the local engine."""
    result = kept.get("local_peers")
    if result is None:
        return []
    sizes = result["bytes"][f"{result['commits']} commits"]
    least = min(size for name, size in sizes.items() if name != OURS)
    words = f"Small commits: the last tenth of {result['commits']}, times as many from the tenth on"
    peers = [name for name in result["growth"] if name not in (OURS, UNSAFE)]
    taken = [(verb, result["seconds"][verb]) for verb in AS_FAST]
    fastest = [(verb, each, min((each[name] for name in peers), key=median)) for verb, each in taken]
    return [
        *(
            Goal(f"Local engine, {VERBS[verb]}: times the fastest peer", ratio(each[OURS], best), 1.1, "local_peers")
            for verb, each, best in fastest
        ),
        Goal(
            "A new interpreter that imports the package and opens a table",
            Ratio.of(result["seconds"]["import"][OURS]),
            0.2,
            "local_peers",
            unit=" s",
        ),
        Goal(words, Ratio.of(result["growth"][OURS]), 1.15, "local_peers"),
        Goal(
            f"Disk after {result['commits']} small commits: times the smallest peer",
            Ratio.of([sizes[OURS] / least]),
            2,
            "local_peers",
            exact=True,
        ),
    ]


def section(kept: dict[str, Result]) -> str:
    """The tables of the page."""
    result = kept.get("local_peers")
    if result is None:
        return ""
    seconds, names = result["seconds"], list(result["growth"])
    lines = [
        "## Local engine beside deltalake and PyIceberg",
        "",
        f"{result['size']:,} rows as Arrow data in one process. Small commits: {result['commits']}, each with {ROWS_OF_A_COMMIT} rows.",
        "",
        f"| times {OURS} | {' | '.join(VERBS.values())} | last commits to first |",
        f"|---{'|---' * (len(VERBS) + 1)}|",
    ]
    for name in names:
        cells = [
            str(ratio(seconds[verb][name], seconds[verb][OURS])) if name in seconds[verb] else "" for verb in VERBS
        ]
        lines.append(f"| {name} | {' | '.join(cells)} | {Ratio.of(result['growth'][name])} |")
    moments = list(result["bytes"])
    lines += ["", f"| MB on the disk after | {' | '.join(moments)} |", f"|---{'|---' * len(moments)}|"]
    for name in result["bytes"][moments[0]]:
        sizes = [f"{result['bytes'][moment][name] / 1e6:.1f}" for moment in moments]
        lines.append(f"| {name} | {' | '.join(sizes)} |")
    return "\n".join([*lines, ""])


def _input(verb: str, size: int, batch: int, number: int) -> dict[str, Any]:
    """What a verb reads in one round; the same for all contestants."""
    if verb == "load":
        return {"data": str(workload.load_file(size)), "options": MAINTAINED}
    if verb.startswith("filtered"):
        return {"column": FILTERED[0], "below": FILTERED[1]}
    if verb == "upsert":
        return {"data": str(workload.upsert_file(size, number + 1, batch - batch // 10, batch // 10))}
    if verb == "delete":
        return {"data": str(workload.delete_file(size, number + 1, batch))}
    if verb == "key":
        return {"key": _kept_key(size, batch, number)}
    return {}


def _kept_key(size: int, batch: int, number: int) -> str:
    """The key of an inserted row, which no delete of this section takes away. Its partition is not given, so every file may hold it."""
    return str(workload.keys(np.array([size + number * (batch // 10)]))[0])


def _measure_disk(result: Result, runners: list[Contestant], moment: str) -> None:
    result["bytes"][moment] = {each.name: bytes_of(_table(each)) for each in runners}


def _table(who: Contestant) -> str:
    letters = "".join(letter if letter.isalnum() else "_" for letter in who.name.lower())
    return str(workload.HOME / "tables" / f"local_{letters}")
