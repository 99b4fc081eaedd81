"""What the demo costs Dagster at rest: processor time and memory of `dagster dev` with the demo, against an empty code location, and against one
that has as many sensors and schedules, which do nothing: what Dagster itself needs for them.

    python scripts/idle_cost.py --minutes 5      writes docs/idle-cost.json and prints the table; docs/dagster-reference.md has its last line

All run at the same time, so that other work on the machine counts for all. Processor time is user and system time of all processes of each, those
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
FIGURES = ROOT / "docs" / "idle-cost.json"


def main() -> None:
    """Measure, store the figures and print them."""
    parser = argparse.ArgumentParser(description="Cost of the demo at rest.")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--show", action="store_true", help="print the table, and write nothing")
    parser.add_argument(
        "--data",
        help="the folder of `make demo` (.data), of which the demo gets a copy; without it, its tables do not exist yet",
    )
    given = parser.parse_args()
    minutes = given.minutes
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place) / name for name in ("empty", "idle", "demo")}
        for folder in folders.values():
            folder.mkdir()
        if given.data:
            shutil.copytree(Path(given.data) / "lake", folders["demo"] / "data" / "lake")
            # With its events, or the sensor would report all commits, and automation would start runs: that is no rest.
            shutil.copytree(Path(given.data) / "dagster", folders["demo"] / ".data" / "dagster")
        data = {"PYHUDI_DEMO_DATA": str(folders["demo"] / "data")}
        empty = DagsterDev(folders["empty"], {"nothing.py": EMPTY})
        demo = DagsterDev(folders["demo"], {"demo.py": DEMO}, data)
        idle = DagsterDev(folders["idle"], {"idle.py": IDLE})
        with empty.running(), idle.running(assets=False), demo.running():
            time.sleep(60)  # loading is over
            all_of_them = (("empty", empty), ("idle", idle), ("demo", demo))
            before = {name: _seconds(dev) for name, dev in all_of_them}
            began = time.monotonic()
            time.sleep(minutes * 60)
            took = time.monotonic() - began
            found = {}
            for name, dev in all_of_them:
                used = {kind: seconds - before[name][kind] for kind, seconds in _seconds(dev).items()}
                found[name] = {
                    "cpu_percent": round(100 * sum(used.values()) / took, 2),
                    "pss_mb": round(_pss(dev) / 1e6),
                    "seconds_per_minute": {kind: round(60 * seconds / took, 2) for kind, seconds in used.items()},
                }
    figures = {"minutes": minutes, **found}
    if not given.show:
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(_page(figures))


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
    empty, idle, demo = figures["empty"], figures["idle"], figures["demo"]
    more = {name: round(demo[name] - empty[name], 2) for name in ("cpu_percent", "pss_mb")}
    parts = "\n".join(
        f"| {kind} | " + " | ".join(f"{each['seconds_per_minute'][kind]}" for each in (empty, idle, demo)) + " |"
        for kind in KINDS
    )
    met = more["cpu_percent"] <= 2 and more["pss_mb"] <= 150
    verdict = "It is met." if met else "It is not met."
    return f"""# What the demo costs at rest

Written by `scripts/idle_cost.py`. `dagster dev` with the demo's code location (six tables, its sensors, and schedules for five services), and at the
same time one with an empty code location, and one with {SENSORS} sensors and {SCHEDULES} schedules that do nothing, all idle for
{figures["minutes"]:g} minutes: processor time in percent of one core, and proportional memory (PSS), of all processes together.

| | processor, % of a core | memory, MB |
|---|---|---|
| empty code location | {empty["cpu_percent"]} | {empty["pss_mb"]} |
| sensors and schedules that do nothing | {idle["cpu_percent"]} | {idle["pss_mb"]} |
| the demo | {demo["cpu_percent"]} | {demo["pss_mb"]} |
| the demo more than the empty one | {more["cpu_percent"]} | {more["pss_mb"]} |

Processor seconds in a minute, by process:

| | empty code location | sensors and schedules that do nothing | the demo |
|---|---|---|---|
{parts}

The bound is 2 % and 150 MB. {verdict} Loading the definitions imports neither pyspark nor pandas (`tests/dagster/test_loading.py`).
"""


if __name__ == "__main__":
    main()
