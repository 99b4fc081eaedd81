"""What the demo costs Dagster at rest (`make evidence PARTS=idle-cost`): processor time and memory of `dagster dev` with the demo, with an empty code
location, and with as many sensors and schedules that do nothing, which is what Dagster itself needs for them.

All run at the same time, so that other work on the machine counts for all. Processor time is user and system time of all processes of each, those
that have ended included; memory is PSS, in which shared pages are divided.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.dagster_dev import DagsterDev  # noqa: E402

from benchmarks.recording import record  # noqa: E402

EMPTY = """import dagster as dg

@dg.asset
def nothing(): ...

defs = dg.Definitions(assets=[nothing])
"""
SENSORS, SCHEDULES = 3, 5
"""Of the demo, those that are on."""
IDLE = f"""import dagster as dg

@dg.op
def nothing(): ...

@dg.job
def never():
    nothing()

def skips(context):
    return dg.SkipReason("nothing to do")

ON = {{"job": never, "execution_fn": skips, "default_status": dg.DefaultScheduleStatus.RUNNING}}
defs = dg.Definitions(
    jobs=[never],
    sensors=[
        dg.SensorDefinition(
            f"sensor_{{number}}", evaluation_fn=skips, job=never, default_status=dg.DefaultSensorStatus.RUNNING
        )
        for number in range({SENSORS})
    ],
    schedules=[
        dg.ScheduleDefinition(name=f"schedule_{{number}}", cron_schedule="*/10 * * * *", **ON) for number in range({SCHEDULES})
    ],
)
"""
DEMO = "from definitions import defs"
NAMES = {"empty": "an empty code location", "idle": "sensors and schedules that do nothing", "demo": "the demo"}


def main() -> None:
    """Measure, and hand the figures over."""
    parser = argparse.ArgumentParser(description="Cost of the demo at rest.")
    parser.add_argument("--minutes", type=float, default=5)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        folders = {name: Path(place) / name for name in NAMES}
        for folder in folders.values():
            folder.mkdir()
        code = {"empty": EMPTY, "idle": IDLE, "demo": DEMO}
        data = {"PYHUDI_DEMO_DATA": str(folders["demo"] / "data")}
        all_of_them = {name: DagsterDev(folders[name], {f"{name}_code.py": code[name]}, data) for name in NAMES}
        for name, dev in all_of_them.items():
            running.enter_context(dev.running(assets=name != "idle"))
        time.sleep(60)  # loading is over
        before, began = {name: _seconds(dev) for name, dev in all_of_them.items()}, time.monotonic()
        time.sleep(minutes * 60)
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
