"""Write docs/reliability.md and its pictures from docs/reliability/*.json: ``python scripts/reliability_page.py``; ``--check`` only says whether
they are out of date.

The runs write these files (tests with PYHUDI_RECORD=1, ``python -m benchmarks.commits``, ``make soak KEEP=1``). Every number on the page comes from a
run; the page lists the runs that are missing. The same files always give the same page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.picture import Bar, bars  # noqa: E402
from scripts import expected_violations  # noqa: E402
from scripts.mutants.page import render as mutants  # noqa: E402
from scripts.reliability_text import GAPS, OPENING  # noqa: E402

DOCS = ROOT / "docs"
KEPT = DOCS / "reliability"
PAGE = "reliability.md"
RATES_PICTURE, HOLD_PICTURE = "images/commits.svg", "images/lock-hold.svg"
GOAL_MS = 50
Result = Mapping[str, Any]

LONG_RUNS = ("disk_2x1000", "disk_8x250", "store_2x1000", "store_8x250")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    check = parser.parse_args().check
    kept = {path.stem: json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))}
    made = {PAGE: page(kept), **pictures(kept)}
    old = [name for name, text in made.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text]
    if check and old:
        print(f"out of date: {', '.join(old)}; run python scripts/reliability_page.py")
        return 1
    for name in old:
        (DOCS / name).write_text(made[name])
        print(f"wrote docs/{name}")
    return 0


def pictures(kept: Mapping[str, Result]) -> dict[str, str]:
    """The pictures on the page, by name."""
    made: dict[str, str] = {}
    if "commits" in kept:
        groups = {
            title: [
                Bar(f"{r['writers']} writers", r["commits_per_second"], r["low"], r["high"], True)
                for r in kept["commits"]["rates"]
                if r["place"] == place
            ]
            for place, title in (("disjoint", "a partition each"), ("same", "all in one file group"))
        }
        made[RATES_PICTURE] = bars("Small commits per second (median, slowest and fastest round)", groups)
    if "lock_hold" in kept:
        groups = {
            words: [_hold_bar(f"{row[size]:,}", row["lock_held_ms"]) for row in kept["lock_hold"][f"by_{key}"]]
            for key, (size, words) in HOLD_BY.items()
        }
        made[HOLD_PICTURE] = bars(
            f"Lock held for a small commit, ms (median to 95th percentile; goal {GOAL_MS})", groups
        )
    return made


def _hold_bar(name: str, held: Mapping[str, float]) -> Bar:
    return Bar(name, held["median"], held["median"], held["p95"], held["median"] <= GOAL_MS)


def page(kept: Mapping[str, Result]) -> str:
    """The complete page."""
    parts = [OPENING]
    known: dict[str, Callable[[Any], str]] = {
        "sequences": _sequences,
        "eleven_rows": _eleven_rows,
        "commits": _rates,
        "lock_hold": _lock_hold,
        "lock_calls": _lock_calls,
        "conflicts": _conflicts,
        "processes": _processes,
        "soak": _soak,
        "mutants": _mutants,
    }
    parts.append(_explored({name: result for name, result in kept.items() if name not in known}))
    missing = [name for name in known if name not in kept]
    parts += [render(kept[name]) for name, render in known.items() if name in kept]
    if missing:
        parts.append(f"## Not run yet\n{', '.join(missing)}.\n")
    parts.append(GAPS)
    return "\n".join(part for part in parts if part)


def _explored(others: Mapping[str, Result]) -> str:
    """All other recordings of tests: one table for each file, one row for each entry that is a mapping, the other entries above the table."""
    parts: list[str] = []
    for name, result in others.items():
        lines = [f"### {name.replace('_', ' ').capitalize()}", _taken(result), ""]
        plain = {key: value for key, value in result.items() if key != "taken" and not isinstance(value, dict | list)}
        rows = {key: value for key, value in result.items() if key != "taken" and isinstance(value, dict)}
        lines += [f"- {key.replace('_', ' ')}: {_shown(value)}" for key, value in plain.items()]
        lines += ["", *_table_of(rows)] if rows else []
        lines += ["", expected_violations.EXPLORED_NOTE] if name == "explored" else []
        parts.append("\n".join([*lines, ""]))
    return "\n".join(["## What was explored", "", *parts]) if parts else ""


def _sequences(result: Result) -> str:
    slices = [entry for entry in result.values() if isinstance(entry, dict) and "sequences" in entry]
    runs = sorted({f"{entry['taken'].get('date')}, commit {entry['taken'].get('commit')}" for entry in slices})
    return (
        "## Random sequences\n"
        "Random sequences of writes, crashes, wrong clocks, expiring locks and archival on a model of the table (`make machine`). A slice has its\n"
        "number as seed, so it can be repeated; only a slice without any violation is counted.\n\n"
        f"_{'; '.join(runs)}_\n\n"
        f"- {sum(entry['sequences'] for entry in slices):,} sequences in {len(slices)} slices, of the 20,000 that `make machine` runs; no violation\n"
        f"- {sum(entry['seconds'] for entry in slices) / 60:,.0f} minutes of processor time\n"
    )


def _mutants(result: Result) -> str:
    return mutants(result, _taken(result), table)


def _table_of(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    runs = _runs(rows)
    columns = list(dict.fromkeys(column for row in rows.values() for column in row if column != "taken"))
    columns += ["run"] if runs else []
    body = [
        [name.replace("_", " "), *(_shown({**row, "run": runs.get(name, "")}.get(column, "")) for column in columns)]
        for name, row in rows.items()
    ]
    return table(["", *(column.replace("_", " ") for column in columns)], body)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value[:8]) + (" ..." if len(value) > 8 else "")
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    return str(value).replace("|", "\\|")


def _eleven_rows(result: Result) -> str:
    named = {name: row for name, row in result.items() if name != "taken"}
    rows = [{"row": n, **named[n]} for n in sorted(named, key=lambda n: (int(n.split()[0].rstrip(",")), n))]
    runs = _runs(named)
    head = [
        "row",
        "locking",
        "writes",
        "switched off",
        "expected",
        "found",
        "schedules",
        "states",
        "all within the bound",
        "s",
    ]
    head += ["run"] if runs else []
    body = [
        [
            str(row["row"]),
            str(row["locking"]),
            str(row["writes"]),
            expected_violations.switched_off(row),
            expected_violations.expected(row),
            str(row["failure"]),
            f"{row['schedules']:,}",
            f"{row['states']:,}",
            _shown(row["exhausted"]),
            f"{row['seconds']:.1f}",
            runs.get(row["row"], ""),
        ][: len(head)]
        for row in rows
    ]
    lines = [
        "## Eleven configurations",
        "The configurations of the published model of Hudi's concurrency control, run on this code. Each row switches off the protections that it",
        "names, and a configuration that must fail has to fail. If the model leaves a setting open, the row has one entry for each value. The four",
        "letters (y or n) are: create if absent, salted names, times that only grow, key check.",
        expected_violations.summary(named),
        _taken(result),
        "",
        *table(head, body),
        "",
    ]
    return "\n".join(lines)


def _rates(result: Result) -> str:
    lines = [
        "## Commits per second",
        "Commits of one row on a local disk with fsync; each writer is a separate process. Apart: each writer inserts into its own partition.",
        "Same: all writers insert into one file group, so every two concurrent commits conflict, and one of them is planned again. The table shows",
        "the median of the rounds, with the slowest and the fastest; lock times are in milliseconds: median, 95th percentile, longest.",
        _taken(result),
        "",
        f"![Commits per second]({RATES_PICTURE})",
        "",
    ]
    body = [
        [
            {"disjoint": "apart", "same": "same"}[rate["place"]],
            str(rate["writers"]),
            f"{rate['commits_per_second']:.1f} ({rate['low']:.1f} to {rate['high']:.1f})",
            f"{rate['retries_per_commit']:.2f}",
            _times(rate["lock_wait_ms"]),
            _times(rate["lock_held_ms"]),
        ]
        for rate in result["rates"]
    ]
    head = ["partitions", "writers", "commits/s", "retries per commit", "lock wait", "lock held"]
    return "\n".join([*lines, *table(head, body), ""])


HOLD_BY = {
    "history": ("archived", "archived commits"),
    "instants": ("instants", "instants on the active timeline"),
    "files": ("files", "files in the table"),
}


def _lock_hold(result: Result) -> str:
    lines = [
        "## How long the lock is held",
        f"A commit of one row by one writer, in milliseconds: median, 95th percentile, longest; the goal is {GOAL_MS}. Archival normally",
        "keeps the active timeline at 20 to 30 commits; it was switched off for longer timelines in a table below. The commits of a comparison",
        "alternate between its tables. The processor time is the cost of the code; the rest is four waits for the disk, and for other processes.",
        _taken(result),
        "",
        f"![How long the lock is held]({HOLD_PICTURE})",
        "",
    ]
    for key, (size, words) in HOLD_BY.items():
        body = [
            [
                f"{row[size]:,}",
                *(_times(row[what]) for what in ("lock_held_ms", "lock_processor_ms", "commit_ms")),
                str(row["commits"]),
            ]
            for row in result[f"by_{key}"]
        ]
        lines += [*table([words, "lock held", "processor time of it", "complete commit", "commits"], body), ""]
    return "\n".join(lines)


def _lock_calls(result: Result) -> str:
    stores = {key.replace("_", " "): value for key, value in result.items() if key != "taken"}
    first = next(iter(stores.values()))
    lines = [
        "## Storage calls under the lock",
        "Storage calls while the lock is held, by purpose. A test counts them for a small table, for a table with",
        f"{first['commits']} commits (most of them archived) and for a table with {first['files']} files, and fails if the counts differ. None of",
        "the calls touches a data file or a folder of data files. At most 6 calls are allowed without a metadata table, and 9 with one; each",
        "timeline is listed once.",
        _taken(result),
        "",
    ]
    names = sorted({name for calls in stores.values() for name in calls} - {"commits", "files", "calls", "taken"})
    body = [[name, *(str(calls.get(name, 0)) for calls in stores.values())] for name in names]
    body.append(["**all**", *(f"**{calls['calls']}**" for calls in stores.values())])
    return "\n".join([*lines, *table(["call", *stores], body), ""])


def _conflicts(result: Result) -> str:
    lines = [
        "## Conflicts",
        "Each commit updates one random row of 240; the number of file groups varies. Lost: the share of attempts that had to be planned again.",
        _taken(result),
        "",
    ]
    body = [
        [
            str(row["file_groups"]),
            str(row["rows_per_group"]),
            str(row["writers"]),
            f"{row['lost_attempts']:.0%}",
            f"{row['commits_per_second']:.1f}",
        ]
        for row in result["conflicts"]
    ]
    head = ["file groups", "rows in each", "writers", "lost", "commits/s"]
    return "\n".join([*lines, *table(head, body), ""])


def _processes(result: Result) -> str:
    lines = [
        "## Writers in separate processes",
        "The processes share only the table; every tenth commit also adds one to a shared counter. Nothing was lost or duplicated, the counter",
        "equals the number of commits that changed it, the doctor found nothing, and archival kept the timeline short. On the disk all writers",
        "insert into one partition. The object store is an emulator in the test's process, so its times do not apply to a real object store.",
        "",
    ]
    head = ["", "acknowledged", "rows found", "counter", "retries", "s", "commits/s", "load", "date", "commit"]
    body = [_process(key, run) for key, run in result.items() if key != "taken"]
    missing = [_shape(key) for key in LONG_RUNS if key not in result]
    left = [f"Not run yet: {'; '.join(missing)}.", ""] if missing else []
    return "\n".join([*lines, *table(head, body), "", *left])


def _shape(key: str) -> str:
    """`disk_2x1000` in words."""
    kind, _, shape = key.partition("_")
    writers, commits = map(int, shape.split("x"))
    return f"{kind}, {writers} writers with {commits:,} commits each"


def _process(key: str, run: Result) -> list[str]:
    return [
        _shape(key),
        f"{run['acknowledged']:,}",
        f"{run['rows']:,}",
        str(run["counter"]),
        str(run["retries"]),
        f"{run['seconds']:,.0f}",
        f"{run['acknowledged'] / run['seconds']:.1f}",
        str(run["taken"]["load"]),
        run["taken"]["date"],
        run["taken"]["commit"],
    ]


def _soak(result: Result) -> str:
    text = (
        f"{result['writers']} writers on a local disk for {result['seconds']:,} s, one of them killed every {result['every_s']:g} s: "
        f"{result['kills']:,} kills, {result['acknowledged']:,} acknowledged commits, none lost. Of the killed commits, {result['unheard']:,} were "
        f"already decided and are in the table; {result['given_up']:,} were not decided and left nothing. The counter is "
        f"{result['counter']:,}, as expected."
    )
    return f"## Killed writers\n{text}\n{_taken(result)}\n"


def _times(spread: Mapping[str, float]) -> str:
    return f"{spread['median']:.1f}, {spread['p95']:.1f}, {spread['max']:.1f}"


def _taken(result: Result) -> str:
    """Machine and date of a run. A load above the number of cores means that the machine had other work, so times are too long."""
    if _runs(result):
        return "\n_The last column shows the date and the commit of each run._"
    entries = [entry["taken"] for entry in result.values() if isinstance(entry, dict) and "taken" in entry]
    taken = entries[-1] if entries else result.get("taken", {})
    load = [str(taken[name]) for name in ("load_before", "load") if name in taken]
    said = {
        taken.get("date"): "date" in taken,
        f"commit {taken.get('commit')}": "commit" in taken,
        f"{taken.get('cores')} cores": "cores" in taken,
        f"{taken.get('memory_gb')} GB of memory": "memory_gb" in taken,
        f"a write and fsync of 4 KB takes {taken.get('disk_sync_ms')} ms": "disk_sync_ms" in taken,
        f"load average {' before and '.join(load)}{' after' if len(load) > 1 else ''}": bool(load),
        f"bounds x {taken.get('explore')}": taken.get("explore", 1) != 1,
    }
    found = ", ".join(str(words) for words, known in said.items() if known)
    return f"\n_{found}_" if found else ""


def _runs(result: Mapping[str, Any]) -> dict[str, str]:
    """Date and commit of each entry, by name; empty if all entries belong to one run."""
    taken = {name: entry["taken"] for name, entry in result.items() if isinstance(entry, dict) and "taken" in entry}
    said = {name: f"{one.get('date')}, {one.get('commit')}" for name, one in taken.items()}
    return said if len(set(said.values())) > 1 else {}


def table(head: Iterable[str], body: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    names = list(head)
    return [
        f"| {' | '.join(names)} |",
        f"|{'|'.join('---' for _ in names)}|",
        *(f"| {' | '.join(row)} |" for row in body),
    ]


if __name__ == "__main__":
    sys.exit(main())
