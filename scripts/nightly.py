"""Run the parts that are too slow for `make test`, each for at most an hour, and write their results to docs/nightly.md.

    python scripts/nightly.py                  every part that has not passed with this code yet, those that never ran and the oldest first
    python scripts/nightly.py --anew           every part
    python scripts/nightly.py interop fuzz     these parts, independent of earlier results
    python scripts/nightly.py --page           no part: write docs/nightly.md from the kept results, for example after a part was added
    python scripts/nightly.py --check          no part: fail if docs/nightly.md is out of date

The output of each part is shown while it runs. For each part the page has the time of its last run, the commit, the duration and the last line of the
output. The exit status is 1 if a part failed. A part that takes more than an hour is stopped, and counts as failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.machine import CODE, commit  # noqa: E402
from scripts.nightly_parts import PARTS  # noqa: E402

KEPT = ROOT / "docs" / "nightly.json"
PAGE = ROOT / "docs" / "nightly.md"
LIMIT_S = 3600
STOPPED = "ended after an hour"
MOST = 160
"""Characters of a line of the output on the page."""
_CLOSING = re.compile(r"\b(\d+ (passed|failed|error)|All promises|promises? (kept|broken)|\d+ of \d+ caught)")
Result = dict[str, Any]


def main() -> int:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--anew", action="store_true", help="also parts that have passed with this code")
    parser.add_argument("--page", action="store_true", help="run nothing, only write the page")
    parser.add_argument("--check", action="store_true", help="run nothing, fail if the page is out of date")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page(_kept()))
    if options.check and PAGE.read_text() != page(_kept()):
        print("docs/nightly.md is out of date; run python scripts/nightly.py --page")
        return 1
    if options.page or options.check:
        return 0
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"unknown parts {', '.join(unknown)}; choose of {', '.join(PARTS)}")
    results = _kept()
    chosen = options.parts or [
        name for name in in_order(results) if options.anew or not passed_with_this_code(results.get(name))
    ]
    if skipped := [name for name in PARTS if name not in chosen and not options.parts]:
        print(f"passed with this code already: {', '.join(skipped)}")
    for name in chosen:
        result = _run(name)
        # Read again: another part may have been recorded meanwhile by another process.
        results = {**_kept(), name: result}
        KEPT.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(results))
    subprocess.run([sys.executable, "scripts/reliability_page.py"], cwd=ROOT, check=False)
    return int(any(results[name]["status"] for name in chosen))


def in_order(results: Mapping[str, Result]) -> list[str]:
    """All parts: those that never ran, those that failed, then the oldest run first. So each gets its turn, even if nights are short."""

    def turn(name: str) -> tuple[int, str]:
        run = results.get(name)
        return (0, "") if run is None else (1 if run["status"] else 2, run["date"])

    return sorted(PARTS, key=turn)


def _kept() -> dict[str, Result]:
    kept: dict[str, Result] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return kept


def passed_with_this_code(result: Result | None) -> bool:
    """Whether the part passed, and the code has not changed since."""
    if result is None or result["status"] or "changes" in result["commit"] or "changes" in commit():
        return False
    command = ["git", "diff", "--quiet", result["commit"], "HEAD", "--", *CODE]
    return subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL, check=False).returncode == 0


def _run(name: str) -> Result:
    part, began, of, lines = PARTS[name], time.monotonic(), commit(), list[str]()
    places = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYHUDI_RECORD": "1", "PYTHONPATH": places, **part.environment}
    late = threading.Event()
    with subprocess.Popen(
        part.words(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        start_new_session=True,
    ) as process:  # fmt: skip

        def end() -> None:
            late.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(LIMIT_S, end)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line.strip(" =\n"))
        finally:
            timer.cancel()
    return {
        "status": process.returncode,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "closing": STOPPED if late.is_set() else closing(lines, process.returncode),
        "commit": of,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }


def closing(lines: Sequence[str], status: int) -> str:
    """What the page says of an output: the last line with figures; of a part that failed, its first failed test or its last line, too."""
    figures = next((line for line in reversed(lines) if _CLOSING.search(line)), "")
    figures = re.sub(r"^\W+", "", figures)  # the last frame of a live table has no end of line
    if not status:
        return figures
    failed = next((line for line in lines if line.startswith(("FAILED ", "ERROR "))), "")
    last = next((line for line in reversed(lines) if line and not line.startswith("make")), "")
    return "; ".join(dict.fromkeys(part[:MOST] for part in (failed or last, figures) if part))


def page(results: Mapping[str, Result]) -> str:
    """The page for these results."""
    lines = [
        "# Nightly",
        "",
        "Written by `make nightly`; do not edit. The table shows the last run of each part. A part takes at most an hour on two cores. After an",
        "interruption, `make nightly` continues with the parts that have not passed with this code: first those that never ran, then those that",
        "failed, then those whose last run is oldest.",
        "",
        "| part | what it shows | last run | commit | minutes | result |",
        "|---|---|---|---|---|---|",
    ]
    for name, part in PARTS.items():
        run = results.get(name)
        if run is None:
            lines.append(f"| {name} | {part.what} | never | | | |")
            continue
        result = ("passed" if not run["status"] else "**failed**") + (
            f": {_cell(run['closing'])}" if run["closing"] else ""
        )
        lines.append(f"| {name} | {part.what} | {run['date']} | {run['commit']} | {run['minutes']} | {result} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
