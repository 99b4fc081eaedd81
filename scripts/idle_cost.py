"""What the demo costs Dagster at rest (`make evidence PARTS=idle-cost`): processor time and memory of `dagster dev` with the demo, and with an empty
code location.

Both run at the same time, so that other work on the machine counts for both. Processor time is user and system time of all processes of each, those
that have ended included; memory is PSS, in which shared pages are divided.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.dagster_dev import DagsterDev  # noqa: E402

from benchmarks.recording import record  # noqa: E402

EMPTY = "import dagster as dg\n\n@dg.asset\ndef nothing(): ...\n\ndefs = dg.Definitions(assets=[nothing])\n"
DEMO = "from definitions import defs"
MINUTES = 5
NAMES = {"empty": "an empty code location", "demo": "the demo"}


def main() -> None:
    """Measure, and hand the figures over."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        folders = {name: Path(place) / name for name in NAMES}
        for folder in folders.values():
            folder.mkdir()
        code = {"empty": EMPTY, "demo": DEMO}
        data = {"PYHUDI_DEMO_DATA": str(folders["demo"] / "data")}
        all_of_them = {name: DagsterDev(folders[name], {f"{name}_code.py": code[name]}, data) for name in NAMES}
        for dev in all_of_them.values():
            running.enter_context(dev.running())
        time.sleep(60)  # loading is over
        before, began = {name: _seconds(dev) for name, dev in all_of_them.items()}, time.monotonic()
        time.sleep(MINUTES * 60)
        took = time.monotonic() - began
        found = {
            NAMES[name]: {
                "cpu_percent": round(100 * (_seconds(dev) - before[name]) / took, 2),
                "pss_mb": round(sum(each.memory_full_info().pss for each in dev.children()) / 1e6),
            }
            for name, dev in all_of_them.items()
        }
    for name, figures in found.items():
        print(name, figures)
    record("idle_cost", found)


def _seconds(dev: DagsterDev) -> float:
    """Processor time of its processes so far; a process has the time of its children that have ended, too."""
    return sum(sum(each.cpu_times()[:4]) for each in dev.children())


if __name__ == "__main__":
    main()
