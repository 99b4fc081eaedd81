"""What the demo costs Dagster at rest: processor time and memory of `dagster dev` with the demo, against an empty code location.

    python scripts/idle_cost.py --minutes 5      writes docs/idle-cost.json and the table of docs/dagster-idle.md

Both run at the same time, so that other work on the machine counts for both. Processor time is user and system time of all processes of each, those
that have ended included; memory is PSS, in which shared pages are divided.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.dagster_dev import DagsterDev  # noqa: E402

EMPTY = """import dagster as dg

@dg.asset
def nothing(): ...

defs = dg.Definitions(assets=[nothing])
"""
DEMO = "from definitions import defs"
PAGE = ROOT / "docs" / "dagster-idle.md"
FIGURES = ROOT / "docs" / "idle-cost.json"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description="Cost of the demo at rest.")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--show", action="store_true", help="print the page, and write nothing")
    parser.add_argument(
        "--data",
        help="the folder of `make demo` (.data), of which the demo gets a copy; without it, its tables do not exist yet",
    )
    given = parser.parse_args()
    minutes = given.minutes
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place) / name for name in ("empty", "demo")}
        for folder in folders.values():
            folder.mkdir()
        if given.data:
            shutil.copytree(Path(given.data) / "lake", folders["demo"] / "data" / "lake")
        data = {"PYHUDI_DEMO_DATA": str(folders["demo"] / "data")}
        empty = DagsterDev(folders["empty"], {"nothing.py": EMPTY})
        demo = DagsterDev(folders["demo"], {"demo.py": DEMO}, data)
        with empty.running(), demo.running():
            time.sleep(60)  # loading is over
            both = (("empty", empty), ("demo", demo))
            before = {name: _seconds(dev) for name, dev in both}
            began = time.monotonic()
            time.sleep(minutes * 60)
            took = time.monotonic() - began
            found = {}
            for name, dev in both:
                used = {kind: seconds - before[name][kind] for kind, seconds in _seconds(dev).items()}
                found[name] = {
                    "cpu_percent": round(100 * sum(used.values()) / took, 2),
                    "pss_mb": round(_pss(dev) / 1e6),
                    "seconds_per_minute": {kind: round(60 * seconds / took, 2) for kind, seconds in used.items()},
                }
    figures = {"minutes": minutes, **found}
    if given.show:
        print(_page(figures))
        return
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(_page(figures), encoding="utf-8")
    print(PAGE.read_text())


KINDS = {"daemon": "dagster._daemon", "webserver": "dagster_webserver", "code location": ""}


def _seconds(dev: DagsterDev) -> dict[str, float]:
    """Processor time of its processes so far, by what they are; a process has the time of its children that have ended, too."""
    found = dict.fromkeys(KINDS, 0.0)
    for each in dev.children():
        command = " ".join(each.cmdline())
        kind = next(kind for kind, word in KINDS.items() if word in command)
        found[kind] += sum(each.cpu_times()[:4])
    return found


def _pss(dev: DagsterDev) -> int:
    """Proportional memory of all its processes."""
    return sum(each.memory_full_info().pss for each in dev.children())


def _page(figures: dict) -> str:
    empty, demo = figures["empty"], figures["demo"]
    more = {name: round(demo[name] - empty[name], 2) for name in ("cpu_percent", "pss_mb")}
    parts = "\n".join(
        f"| {kind} | {empty['seconds_per_minute'][kind]} | {demo['seconds_per_minute'][kind]} |" for kind in KINDS
    )
    met = more["cpu_percent"] <= 2 and more["pss_mb"] <= 150
    verdict = "It is met." if met else "It is not met."
    return f"""# What the demo costs at rest

Written by `scripts/idle_cost.py`. `dagster dev` with the demo's code location (six tables, its sensors, and schedules for five services), and at the
same time one with an empty code location, both idle for {figures["minutes"]:g} minutes: processor time in percent of one core, and proportional
memory (PSS), of all processes together.

| | processor, % of a core | memory, MB |
|---|---|---|
| empty code location | {empty["cpu_percent"]} | {empty["pss_mb"]} |
| the demo | {demo["cpu_percent"]} | {demo["pss_mb"]} |
| more | {more["cpu_percent"]} | {more["pss_mb"]} |

Processor seconds in a minute, by process:

| | empty code location | the demo |
|---|---|---|
{parts}

The bound is 2 % and 150 MB. {verdict} Loading the definitions imports neither pyspark nor pandas (`tests/dagster/test_loading.py`).
"""


if __name__ == "__main__":
    main()
