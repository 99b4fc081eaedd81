"""Write docs/reliability.md from docs/reliability/*.json: ``python scripts/reliability_page.py``; ``--check`` only says if it is out of date.

The files are written by the runs themselves (tests with PYHUDI_RECORD=1, ``python -m benchmarks.commits``, ``make soak KEEP=1``). A number that
no run has produced is not on the page; a run that has not been made is named as missing. The same files always give the same page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "reliability"
PAGE = ROOT / "docs" / "reliability.md"
Result = Mapping[str, Any]

OPENING = """# Reliability

Written by `make reliability` (`scripts/reliability_page.py`) from the files beside it in `reliability/`; do not edit. Every number comes from a run
of the code in this repository.

## What is promised
- **P1** A commit that was reported as done is in every later state of the table, until cleaning removes that state.
- **P2** A commit that was reported as failed is in none.
- **P3** A commit whose outcome could not be told has a token; `table.commit_status(token)` answers for it, and a definite answer never changes.
- **P4** Two visible rows never have the same record key, unless that check was switched off by name.
- **P5** Reading a state of the table again gives the same rows, or says that they were cleaned.
- **P6** A consumer that follows the table by completion time gets every commit, once.
- **P7** After a crash at any moment the next writer repairs the table; nobody has to be called.
- **P8** Nothing outside the table's folder is read, written or deleted, whatever the table's own files say.
- **P9** Damaged or hostile files cost a bounded amount of memory.
- **P10** P1 to P7 hold while clocks differ by up to the configured bound. Beyond it nothing becomes wrong on a storage with conditional writes;
  writers may be refused.

Next to a writer of Apache Hudi's own on the same table, P1 and P2 are Hudi's guarantee: see the known gaps below.

## How a commit works
1. Reserve a requested time that is above all others, by creating its heartbeat file if it is absent.
2. Announce it: the requested and the inflight file, each created if absent.
3. Write data files under names that no other attempt can have; announce each by a marker first.
4. Stage the bytes of the completed file. Nothing of this is visible yet.
5. Take the table's lock.
6. Publish what the commit record still names, so that nobody's decided commit is left behind.
7. Load the timeline, and see that nothing that completed since step 2 is in conflict; if it is, plan anew.
8. Choose a completion time above all others and swap the intent into the commit record by compare-and-swap. This is the decision.
9. Create the completed file from the staged bytes. A file of the table counts only if a completed commit names it.
10. Give the lock back; remove heartbeat, markers and staged bytes.

Safety rests on the swap of step 8, not on the lock. In detail, with what is on disk at every step: [How a write works](how-a-write-works.md).
"""

GAPS = """## Known gaps
- **Writers of Apache Hudi's own on the same table.** They do not know the commit record. A Hudi writer whose lock expired while it was stopped can
  still complete its commit on top of others, and its file-system lock provider removes a lock file without asking whose it is. With such a
  writer on the table P1 and P2 are what Hudi gives.
- **Storages without conditional writes.** On a storage that can neither create an object only if it is absent nor swap it, several writers are
  refused; one writer (`concurrency="single_writer"`) is what is left.
- **A restore and a stopped Hudi writer.** A commit that a restore took away can be created once more by a Hudi writer that was stopped in between;
  Hudi's own readers then show it.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page is out of date")
    check = parser.parse_args().check
    text = page({path.stem: json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))})
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    if check:
        print("docs/reliability.md is out of date; run python scripts/reliability_page.py")
        return 1
    PAGE.write_text(text)
    print("wrote docs/reliability.md")
    return 0


def page(kept: Mapping[str, Result]) -> str:
    """The whole page."""
    parts = [OPENING]
    known: dict[str, Callable[[Result], str]] = {
        "eleven_rows": _eleven_rows,
        "commits": _rates,
        "lock_hold": _lock_hold,
        "conflicts": _conflicts,
        "processes": _processes,
        "soak": _soak,
    }
    parts.append(_explored({name: result for name, result in kept.items() if name not in known}))
    missing = [name for name in known if name not in kept]
    parts += [render(kept[name]) for name, render in known.items() if name in kept]
    if missing:
        parts.append(f"## Not run yet\n{', '.join(missing)}.\n")
    parts.append(GAPS)
    return "\n".join(part for part in parts if part)


def _explored(others: Mapping[str, Result]) -> str:
    """Whatever tests have recorded: one table a file, one row for each entry that is a mapping, the other entries above it."""
    parts: list[str] = []
    for name, result in others.items():
        lines = [f"### {name.replace('_', ' ').capitalize()}", _taken(result), ""]
        plain = {key: value for key, value in result.items() if key != "taken" and not isinstance(value, dict | list)}
        rows = {key: value for key, value in result.items() if key != "taken" and isinstance(value, dict)}
        lines += [f"- {key.replace('_', ' ')}: {_shown(value)}" for key, value in plain.items()]
        lines += ["", *_table_of(rows)] if rows else []
        parts.append("\n".join([*lines, ""]))
    return "\n".join(["## What was explored", "", *parts]) if parts else ""


def _table_of(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    body = [
        [name.replace("_", " "), *(_shown(row.get(column, "")) for column in columns)] for name, row in rows.items()
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
    rows = result.get("rows", {key: value for key, value in result.items() if key != "taken"})
    named = rows if isinstance(rows, dict) else {str(row.get("row", n + 1)): row for n, row in enumerate(rows)}
    ordered = dict(sorted(named.items(), key=lambda item: (len(item[0]), item[0])))
    shown = {
        name: {k: v for k, v in row.items() if k != "row"} if isinstance(row, dict) else {"verdict": row}
        for name, row in ordered.items()
    }
    lines = [
        "## Eleven configurations",
        "The configurations of the published model of Hudi's concurrency control, run on this code with protections switched off as each row says:",
        "those that must fail are seen to fail.",
        _taken(result),
        "",
        *_table_of(shown),
        "",
    ]
    return "\n".join(lines)


def _rates(result: Result) -> str:
    lines = [
        "## Commits per second",
        "Commits of one row, each writer a process of its own, on a local disk with fsync. Apart: each writer inserts into a partition of its own.",
        "Same: all insert into one file group, so every two commits at once are in conflict, and one of them is planned anew. The median of the",
        "rounds, with the slowest and the fastest; lock times in milliseconds: median, 95th percentile, longest.",
        _taken(result),
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


def _lock_hold(result: Result) -> str:
    lines = [
        "## How long the lock is held",
        "A commit of one row by one writer, against the length of the active timeline (archival keeps it at 20 to 30 commits by itself; it was",
        "switched off for this) and the number of files. Milliseconds; the goal is 50.",
        _taken(result),
        "",
    ]
    for key, words in (("instants", "instants on the active timeline"), ("files", "files in the table")):
        rows = result[f"by_{key}"]
        longest = max(row["lock_held_ms"]["median"] for row in rows)
        body = [
            [
                f"{row[key]:,}",
                _times(row["lock_held_ms"]),
                _bar(row["lock_held_ms"]["median"], longest),
                _times(row["commit_ms"]),
            ]
            for row in rows
        ]
        lines += [*table([words, "lock held", "", "whole commit"], body), ""]
    return "\n".join(lines)


def _conflicts(result: Result) -> str:
    lines = [
        "## Conflicts",
        "Each commit updates one random row of 240, which lie in more or fewer file groups. Lost: the share of attempts that had to be planned anew.",
        _taken(result),
        "",
    ]
    body = [
        [
            str(row["file_groups"]),
            str(row["rows_per_group"]),
            str(row["writers"]),
            f"{row['lost_attempts']:.0%}",
            _bar(row["lost_attempts"], 1),
            f"{row['commits_per_second']:.1f}",
        ]
        for row in result["conflicts"]
    ]
    head = ["file groups", "rows in each", "writers", "lost", "", "commits/s"]
    return "\n".join([*lines, *table(head, body), ""])


def _processes(result: Result) -> str:
    lines = [
        "## Writers that share nothing but the table",
        "Processes with caches of their own; every tenth commit also adds one to a shared counter. Nothing was lost or doubled, the counter is",
        "the number of commits that moved it, the doctor found nothing, and archival kept the timeline short.",
        _taken(result),
        "",
    ]
    runs = {
        key.replace("_", ", ").replace("x", " writers x "): value for key, value in result.items() if key != "taken"
    }
    return "\n".join([*lines, *_table_of(runs), ""])


def _soak(result: Result) -> str:
    text = (
        f"{result['writers']} writers on a local disk for {result['seconds']:,} s, one of them killed every {result['every_s']:g} s: "
        f"{result['kills']:,} kills, {result['acknowledged']:,} acknowledged commits, none lost; {result['unheard']:,} commits were decided "
        f"before their writer could hear of it and stand, {result['given_up']:,} were not and left nothing. The counter says "
        f"{result['counter']:,}, as it must."
    )
    return f"## Writers that are killed\n{text}\n{_taken(result)}\n"


def _times(spread: Mapping[str, float]) -> str:
    return f"{spread['median']:.1f}, {spread['p95']:.1f}, {spread['max']:.1f}"


def _bar(value: float, longest: float) -> str:
    return "█" * max(1, round(20 * value / longest)) if value > 0 and longest > 0 else ""


def _taken(result: Result) -> str:
    taken = result.get("taken", {})
    words = [str(taken.get("date", "")), f"{taken['cores']} cores" if "cores" in taken else ""]
    words.append(f"commit {taken['commit']}" if "commit" in taken else "")
    words.append(f"bounds x {taken['explore']}" if taken.get("explore", 1) != 1 else "")
    found = ", ".join(word for word in words if word)
    return f"\n_{found}_" if found else ""


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
