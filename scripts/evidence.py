"""Run what is too slow for `make test`, in parts of at most an hour, and record each in docs/evidence; make docs/evidence.md.

    python scripts/evidence.py                   every part that has not passed with this code: never run, failed, the oldest first
    python scripts/evidence.py --anew            every part
    python scripts/evidence.py 'bench-*' fuzz    these parts, whatever their earlier results are
    python scripts/evidence.py --list            no part: what each of them shows, and its last outcome
    python scripts/evidence.py --page            no part: write the page from the records

A record has the day, the commit, the machine, the command, the outcome, and the figures that the run handed over (benchmarks/recording.py). Nothing
else reads the records: `make check` and `make test` do not depend on them. The exit status is 1 if a part failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.machine import CODE, commit, occasion  # noqa: E402
from benchmarks.recording import PLACE  # noqa: E402
from scripts import evidence_page  # noqa: E402
from scripts.evidence_parts import PARTS, Part  # noqa: E402

RECORDS = ROOT / "docs" / "evidence"
LIMIT_S = 3600
MOST = 160
"""Characters of a line of the output that are kept."""
_CLOSING = re.compile(r"\b(\d+ (passed|failed|error)|All promises|\d+ of \d+ mutants)")
Record = dict[str, Any]


def main() -> int:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; * stands for any letters")
    parser.add_argument("--anew", action="store_true", help="also parts that have passed with this code")
    parser.add_argument("--list", action="store_true", help="run nothing, list the parts")
    parser.add_argument("--page", action="store_true", help="run nothing, only write the page")
    options = parser.parse_args()
    records = evidence_page.records(RECORDS)
    if unknown := [given for given in options.parts if not any(fnmatchcase(name, given) for name in PARTS)]:
        parser.error(f"unknown parts {', '.join(unknown)}; choose of {', '.join(PARTS)}")
    if options.list:
        for name, part in PARTS.items():
            print(f"{name:20} {part.what} ({records[name]['outcome'] if name in records else 'never run'})")
    elif not options.page:
        chosen = [name for name in PARTS if any(fnmatchcase(name, given) for given in options.parts)] or [
            name for name in in_order(records) if options.anew or not passed_with_this_code(records.get(name))
        ]
        print(f"parts: {', '.join(chosen) or 'none, all have passed with this code'}", flush=True)
        for name in chosen:
            records[name] = run(name, PARTS[name])
            evidence_page.write(records)
        return int(any(records[name]["outcome"] != "passed" for name in chosen))
    if not options.list:
        evidence_page.write(records)
    return 0


def in_order(records: Mapping[str, Record]) -> list[str]:
    """All parts: those that never ran, those that failed, then the oldest run first. So each gets its turn, even if nights are short."""
    turns = dict.fromkeys(PARTS, (0, ""))
    turns |= {name: (1 + (one["outcome"] == "passed"), one["day"]) for name, one in records.items() if name in PARTS}
    return sorted(PARTS, key=lambda name: turns[name])


def passed_with_this_code(record: Record | None) -> bool:
    """Whether the part passed, and the code has not changed since."""
    if record is None or record["outcome"] != "passed" or "changes" in record["commit"] or "changes" in commit():
        return False
    command = ["git", "diff", "--quiet", record["commit"], "HEAD", "--", *CODE]
    with suppress(FileNotFoundError):  # without git nothing is known to be the same
        return subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL, check=False).returncode == 0
    return False


def run(name: str, part: Part, records: Path = RECORDS) -> Record:
    """Run a part, show its output, and write its record."""
    began, taken, lines = time.monotonic(), occasion(), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.jsonl"
        places = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        environment = {**os.environ, PLACE: str(figures), "PYTHONPATH": places, **part.environment}
        with subprocess.Popen(
            part.words(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
        ) as process:  # fmt: skip
            timer = threading.Timer(LIMIT_S, os.killpg, (process.pid, signal.SIGKILL))
            timer.start()
            try:
                for line in process.stdout or ():
                    print(line, end="", flush=True)
                    lines.append(line.strip(" =\n"))
            finally:
                timer.cancel()
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for line in figures.read_text(encoding="utf-8").splitlines() if figures.exists() else ():
            for kind, entries in json.loads(line).items():
                found[kind].update(entries)
    command = shlex.join([*(f"{name}={value}" for name, value in part.environment.items()), *part.words()])
    machine = {key: value for key, value in taken.items() if key not in ("date", "commit")}
    record = {
        "day": taken["date"], "commit": taken["commit"], "machine": machine, "command": command,
        "outcome": "passed" if not process.returncode else "failed", "minutes": round((time.monotonic() - began) / 60, 1),
        "closing": closing(lines, process.returncode), "figures": found,
    }  # fmt: skip
    records.mkdir(exist_ok=True)
    (records / f"{name}.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return record


def closing(lines: Sequence[str], status: int) -> str:
    """What the record says of an output: the last line with figures; of a part that failed, its first failed test or its last line, too."""
    figures = next((line for line in reversed(lines) if _CLOSING.search(line)), "")
    figures = re.sub(r"^\W+", "", figures)  # the last frame of a live table has no end of line
    if not status:
        return figures
    if status == -signal.SIGKILL:
        return f"ended after {LIMIT_S // 60} minutes"
    failed = next((line for line in lines if line.startswith(("FAILED ", "ERROR "))), "")
    last = next((line for line in reversed(lines) if line and not line.startswith("make")), "")
    return "; ".join(dict.fromkeys(part[:MOST] for part in (failed or last, figures) if part))


if __name__ == "__main__":
    sys.exit(main())
