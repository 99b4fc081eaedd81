"""Run the slow targets, and keep what they closed with in docs/nightly.md.

    python scripts/nightly.py            all slow targets, one after the other
    python scripts/nightly.py interop    some of them

Each target is a make target; its output is shown as it comes. The page says for each when it last ran, at which commit, how long it took and its
closing line. The exit status is 1 if any failed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "nightly.json"
PAGE = ROOT / "docs" / "nightly.md"
TARGETS = {
    "interop": "Apache Hudi 1.0.2, 1.1.1, 1.2.0 and hudi-rs read and continue our tables",
    "fuzz": "damaged input for every parser: 50,000 cases each, within bounds of time and memory",
    "smoke35": "the Spark tests on PySpark 3.5",
    "explore": "two writers: every order and every crash, with three times the quick suite's bounds",
    "reliability": "slow reliability tests: two processes with 1,000 commits each, all crash points; the cost of commits (reliability.md)",
    "mutants": "small changes to the code are noticed by the tests (score in reliability.md)",
    "bench": "benchmarks (figures in benchmarks.md)",
}
_CLOSING = re.compile(r"\b(\d+ (passed|failed|error)|All promises|promises? (kept|broken))")


def main() -> int:
    chosen = sys.argv[1:] or list(TARGETS)
    unknown = [name for name in chosen if name not in TARGETS]
    if unknown:
        print(f"unknown targets {unknown}; choose of {list(TARGETS)}")
        return 2
    results = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in chosen:
        results[name] = _run(name)
        KEPT.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(results))
    return int(any(results[name]["status"] for name in chosen))


def _run(name: str) -> dict[str, object]:
    started = time.monotonic()
    closing = ""
    environment = {**os.environ, "PYHUDI_EXPLORE": "3"} if name == "explore" else dict(os.environ)
    command = ["make", "--no-print-directory", name]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if _CLOSING.search(line):
                closing = line.strip(" =\n")
    return {
        "status": process.returncode,
        "minutes": round((time.monotonic() - started) / 60, 1),
        "closing": closing,
        "commit": _commit(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }


def _commit() -> str:
    head = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    changed = subprocess.check_output(["git", "status", "--porcelain", "--untracked-files=no"], cwd=ROOT, text=True)
    return f"{head} and changes" if changed.strip() else head


def page(results: dict[str, dict[str, object]]) -> str:
    """The page for these results."""
    lines = [
        "# Nightly",
        "",
        "Written by `make nightly`; do not edit. The last run of each slow target.",
        "",
        "| target | what it shows | last run | commit | minutes | result |",
        "|---|---|---|---|---|---|",
    ]
    for name, what in TARGETS.items():
        run = results.get(name)
        if run is None:
            lines.append(f"| {name} | {what} | never | | | |")
            continue
        result = ("passed" if not run["status"] else "**failed**") + (f": {run['closing']}" if run["closing"] else "")
        lines.append(f"| {name} | {what} | {run['date']} | {run['commit']} | {run['minutes']} | {result} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
