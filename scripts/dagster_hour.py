"""An hour of Dagster with 60 tables and everything on: ``python scripts/dagster_hour.py`` (`make evidence PARTS=dagster-hour`: 40 minutes of it, as
a part with its start and its end has an hour).

Three ``dagster dev`` run at the same time, so that other work on the machine counts for all:

- ``empty``: a code location with one asset.
- ``looked_at``: 60 tables in YAML, half on a disk and half on an S3 gateway, with all schedules, sensors and checks; nobody writes. It may take
  at most 3 % of a core more than ``empty``.
- ``busy``: 60 tables of the same two lakes in three code locations. Schedules and automation materialize, processes outside Dagster write, and every
  few minutes one process gets SIGKILL: a writer, the worker of a run, a code server, the daemon.

At the end nobody writes any more, and ``busy`` has to come to rest by itself. Then each acknowledged row is there once, every commit with rows has
its event once, no event is without a commit, and the doctor finds nothing. If a promise is broken, the exit status is 1 and the folder is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import boto3  # noqa: E402
import psutil  # noqa: E402
from locks.servers import gateway, scratch  # noqa: E402
from support.dagster_dev import DagsterDev, until  # noqa: E402
from support.speed import slowness  # noqa: E402

from benchmarks.recording import record  # noqa: E402
from scripts.dagster_hour_lakes import (  # noqa: E402
    BUSY,
    EMPTY,
    KEY,
    LOOKED_AT,
    Lakes,
    hourly,
    judge,
    locations,
    project,
    write_forever,
)  # fmt: skip

BOUND = 3.0
"""Percent of an idle core, beyond an empty location. Other work on the machine makes the same work take more processor time (`support.speed`): the
measured percent is divided by that factor.
"""
SPEED_S = 60
WARM_S = 90
KINDS = ("writer", "run", "code server", "writer", "run", "daemon")
_STOP = """mutation($id: String!, $selector: String!) { stopRunningSchedule(scheduleOriginId: $id, scheduleSelectorId: $selector) { __typename } }"""
_SCHEDULES = """{ repositoriesOrError { ... on RepositoryConnection { nodes { schedules { name id scheduleState { id selectorId status } } } } } }"""
ENDED = ("SUCCESS", "FAILURE", "CANCELED")


@dataclass
class Hour:
    """The busy one: its writers, its kills, and what it took."""

    folder: Path
    lakes: Lakes
    dev: DagsterDev
    writers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    lives: Counter[int] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)

    def write(self, number: int) -> None:
        """Start a writer, or its next life."""
        self.lives[number] += 1
        words = [
            sys.executable,
            __file__,
            "--writer",
            str(number),
            "--life",
            str(self.lives[number]),
            "--folder",
            str(self.folder),
        ]
        self.writers[number] = subprocess.Popen(
            words, stdout=(self.folder / "writers.log").open("ab"), stderr=subprocess.STDOUT
        )

    def kill(self, kind: str) -> bool:
        """Kill a process of a kind; False if there was none."""
        if kind == "writer":
            number = random.choice(list(self.writers))
            assert self.writers[number].poll() is None, f"writer {number} ended by itself: see writers.log"
            self.writers[number].kill()
            self.writers[number].wait()
            self.write(number)
        elif (found := self._victim(kind)) is None:
            return False
        else:
            found.kill()
        if kind == "daemon":  # `dagster dev` ends with its daemon
            with contextlib.suppress(subprocess.TimeoutExpired):
                assert self.dev.process is not None
                self.dev.process.wait(60)
            self.dev.stop()
            self.dev.start()
            until(self.dev.is_ready, 600, "all code locations")
        self.kills[kind] += 1
        return True

    def _victim(self, kind: str) -> psutil.Process | None:
        found = []
        for each in self.dev.children():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if kind_of(each) == kind:
                    found.append(each)
        return random.choice(found) if found else None

    def stop_writing(self) -> None:
        """End the writers, and switch off the schedules that materialize."""
        for writer in self.writers.values():
            writer.send_signal(signal.SIGTERM)
        for writer in self.writers.values():
            writer.wait(120)
        for repository in self.dev.ask(_SCHEDULES)["repositoriesOrError"]["nodes"]:
            for each in repository["schedules"]:
                if each["name"].startswith("load"):
                    state = each["scheduleState"]
                    self.dev.ask(_STOP, id=state["id"], selector=state["selectorId"])


def at_rest(dev: DagsterDev) -> bool:
    """Whether no run waits or works."""
    return all(run["status"] in ENDED for run in dev.runs())


def kind_of(process: psutil.Process) -> str:
    """What a process of ``dagster dev`` is."""
    words = " ".join(process.cmdline())
    if "dagster._daemon" in words:
        return "daemon"
    if "dagster_webserver" in words or "dagster-webserver" in words:
        return "webserver"
    if "spawn_main" in words:
        parent = process.parent()
        return "run" if parent is not None and "grpc" in " ".join(parent.cmdline()) else "step"
    return "code server" if "api grpc" in words or "code-server" in words else "other"


def seconds(dev: DagsterDev) -> Counter[str]:
    """Processor time so far by kind of process; children that have ended count for runs."""
    found: Counter[str] = Counter()
    for each in dev.children():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            own, times = kind_of(each), each.cpu_times()
            found[own] += times.user + times.system
            found["ended children"] += times.children_user + times.children_system
    return found


def main() -> int:
    """Run the hour."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--kill-every", type=float, default=120, help="seconds between two kills")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--writer", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--life", type=int, default=0, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.writer is not None:
        write_forever(chosen.folder, chosen.writer, chosen.life)
        return 0
    subprocess.run([sys.executable, str(ROOT / "scripts" / "servers.py"), "versitygw"], check=True)
    folder = Path(tempfile.mkdtemp(prefix="pyhudi-dagster-hour-"))
    try:
        with scratch() as place, gateway(place, KEY["access_key_id"], KEY["secret_access_key"]).running() as server:
            found = hour(folder, server.port, chosen.minutes, chosen.kill_every)
    except AssertionError as broken:
        print(f"a promise is broken: {broken}\nthe folder stays at {folder}")
        return 1
    record("dagster_hour", found)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def hour(folder: Path, port: int, minutes: float, kill_every: float) -> dict[str, object]:
    """Run all three for so long; the figures. Raises `AssertionError` for a broken promise."""
    lakes = Lakes(folder, port)
    client = boto3.client("s3", endpoint_url=lakes.storage["endpoint_url"], region_name="us-east-1", aws_access_key_id=KEY["access_key_id"],
                          aws_secret_access_key=KEY["secret_access_key"])  # fmt: skip
    client.create_bucket(Bucket="lakes")
    lakes.save()
    began = time.time()
    devs: dict[str, DagsterDev] = {}
    for name, wanted in (("empty", {}), ("looked_at", LOOKED_AT), ("busy", BUSY)):
        (folder / name).mkdir()
        project(folder / name, lakes, name, wanted, hourly(began))
        devs[name] = DagsterDev(
            folder / name, locations(wanted) or {"empty.py": EMPTY}, lakes.environment(folder / name)
        )
    print(f"{folder}: the tables are made", flush=True)
    busy = Hour(folder, lakes, devs["busy"])
    with contextlib.ExitStack() as running:
        for dev in devs.values():
            dev.start()
            running.callback(dev.stop)
        for name, dev in devs.items():
            until(dev.is_ready, 900, f"the server of {name}")
        for number in range(4):
            busy.write(number)
            running.callback(lambda number=number: busy.writers[number].kill())
        time.sleep(WARM_S)
        until(lambda: at_rest(devs["looked_at"]), 900, "the end of the first copies")
        before, started = {name: seconds(devs[name]) for name in ("empty", "looked_at")}, time.monotonic()
        kinds = iter(KINDS * 1000)
        kind, next_kill = next(kinds), kill_every
        factors: list[float] = []
        while (now := time.monotonic() - started) < minutes * 60:
            if now >= len(factors) * SPEED_S:
                factors.append(slowness())
            if now >= next_kill and busy.kill(kind):
                print(f"{now:5.0f} s: killed a {kind}", flush=True)
                kind, next_kill = next(kinds), now + kill_every
            time.sleep(2)
        took = time.monotonic() - started
        percent = {name: _percent(seconds(devs[name]), before[name], took) for name in before}
        measured, factor = sum(percent["looked_at"].values()) - sum(percent["empty"].values()), median(factors)
        beyond = round(measured / factor, 2)
        print(
            f"{took:.0f} s; percent of a core: {percent}; beyond: {measured:.2f} / {factor:.2f} = {beyond}", flush=True
        )
        busy.stop_writing()
        for name, dev in devs.items():  # the last kill may have been that of a code server
            until(dev.is_ready, 900, f"the code locations of {name}")
        until(lambda: at_rest(busy.dev), 900, "the end of all runs")
        runs = len(busy.dev.runs())
        verdict = judge(
            folder, lakes, busy.dev, devs["looked_at"], resting=lambda: (at_rest(busy.dev), len(busy.dev.runs()))
        )
    found = {
        "minutes": round(took / 60, 1),
        "percent": percent,
        "slowness": round(factor, 2),
        "percent_of_an_idle_core_beyond_an_empty_location": beyond,
        "kills": dict(busy.kills),
        "runs": runs,
        **verdict,
    }
    print(found, flush=True)
    assert beyond <= BOUND, f"looking at 60 tables takes {beyond} % of an idle core, more than {BOUND} %"
    return found


def _percent(after: Counter[str], before: Counter[str], took: float) -> dict[str, float]:
    """Percent of a core by kind of process. The time of a process that has ended goes from its kind to the ended children."""
    return {kind: round(100 * (after[kind] - before[kind]) / took, 2) for kind in sorted(after.keys() | before.keys())}


if __name__ == "__main__":
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    sys.exit(main())
