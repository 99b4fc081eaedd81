"""Hostile tables: good tables of which files were changed by somebody who wants to harm their reader; and a process that reads many of them.

``python -m support.hostile_tables FOLDER FIRST COUNT`` reads the tables with these numbers, and prints a line of JSON for each fault. The same number gives
the same table.

These are faults: a read outside of the table's folder, a new process, code that comes from the table, a long wait, much processor time or memory, and an
error of another class than those of the package. The kernel reports reads in a folder beside the table, and Python reports every other open.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

import pyhudi_core as hudi
from pyhudi_core.cli.main import main as command
from pyhudi_core.errors import HudiError
from pyhudi_core.opening import check_table
from support.fuzzing import MEGABYTE, measured_memory
from support.hostile_changes import MAKERS, change
from support.speed import slowness
from support.tables import FAST, orders
from support.watching import untouched

SERVICES = ("compaction", "clustering", "cleaning", "archival", "expiry", "sweep", "log_compaction")
MOST_MEMORY = 700 * MEGABYTE
"""What one table may add to the 200 MB or so of the process."""
_WAIT_S = 60
_SECONDS = 1.0
_CANARY = "canary-of-another-folder"


# --- doors


def _scan(place: str) -> object:
    return hudi.open_table(place, FAST).scan().to_arrow().to_pylist()


def _scan_with_condition(place: str) -> object:
    table = hudi.open_table(place, FAST)
    name = table.schema.names[0]
    return table.scan(where=f"{name} IS NOT NULL AND {name} <> '0'").to_arrow().to_pylist()


def _optimized(place: str) -> object:
    return hudi.open_table(place, FAST).scan(mode="read_optimized").count()


def _changes(place: str) -> object:
    table = hudi.open_table(place, FAST)
    newest = table.timeline.commits.instants[-2:]  # older ones were archived or cleaned
    since = newest[0].completion_time if newest else None
    return [list(table.incremental(since).to_batches()), list(table.changes(since).to_batches())]


def _lookup(place: str) -> object:
    table = hudi.open_table(place, FAST)
    names, schema = table.config.identifying_fields, table.schema
    row = [pa.array(["1"]).cast(schema.field(name).type if name in schema.names else pa.string()) for name in names]
    return table.lookup(pa.table(row, list(names))).to_arrow().to_pylist()


def _history(place: str) -> object:
    table = hudi.open_table(place, FAST)
    return [
        str(table.timeline),
        str(table.history()),
        [str(one) for one in table.archived_commits()],
        str(table.size()),
    ]


def _check(place: str) -> object:
    return [str(finding) for finding in check_table(place).findings]


def _shown(words: str) -> Callable[[str], object]:
    def show(place: str) -> object:
        done = CliRunner().invoke(command, [words, place])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert "Traceback" not in done.output
        return done.output

    show.__name__ = f"_show_{words}"
    return show


def _plan(service: str) -> Callable[[str], object]:
    def plan(place: str) -> object:
        return str(getattr(hudi.open_table(place, FAST), service).plan())

    plan.__name__ = f"_plan_{service}"
    return plan


DOORS = [
    *(_scan, _scan_with_condition, _optimized, _changes, _lookup, _history, _check),
    *map(_shown, ("show", "timeline", "services", "head")),
    *map(_plan, SERVICES),
]


# --- the process


class Slow(Exception):
    """A door took too long. Not an error of the package, so nothing that handles those handles it."""


@contextmanager
def _limits(seconds: float) -> Iterator[None]:
    """Raise `Slow` in a call that takes so much processor time, or a minute of waiting."""

    def stop(number: int, _: object) -> None:
        raise Slow("waits" if number == signal.SIGALRM else f"takes more than {seconds:.1f} s of the processor")

    before = [signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)]
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(_WAIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in zip((signal.SIGALRM, signal.SIGPROF), before, strict=True):
            signal.signal(number, handler)


class Watch:
    """What Python tells of the process: opens, processes, connections, code."""

    def __init__(self, lake: Path) -> None:
        self.seen: list[str] = []
        self.on = False
        self._lake = os.path.realpath(lake)
        parts = (
            {sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platstdlib")}
            | set(sys.path)
            | {str(Path(hudi.__file__).parent.parent)}
        )
        self._own = tuple(os.path.realpath(part) + "/" for part in parts if part) + (
            "/usr/share/zoneinfo",
            "/usr/lib",
            "/dev/null",
            "/proc/",
            "/sys/",
        )
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if not path.startswith((self._lake + "/", *self._own)):
                self.seen.append(f"opened {path}")
        elif event in (
            "subprocess.Popen",
            "os.system",
            "os.exec",
            "os.fork",
            "os.posix_spawn",
            "socket.connect",
            "ctypes.dlopen",
            "pickle.find_class",
        ):
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event == "exec":
            name = str(getattr(arguments[0], "co_filename", ""))
            if os.path.realpath(name).startswith(self._lake):
                self.seen.append(f"ran {name}")
        elif (
            event == "import"
            and isinstance(arguments[1], str)
            and os.path.realpath(arguments[1]).startswith(self._lake)
        ):
            self.seen.append(f"imported {arguments[1]}")


def prepare(folder: Path) -> dict[str, Path]:
    """Make the good tables, each in a lake of its own, and a folder outside with a canary."""
    lakes = {}
    for name, maker in MAKERS.items():
        lake = folder / "good" / name
        lake.mkdir(parents=True)
        maker(str(lake / "table"))
        lakes[name] = lake
    outside = folder / "outside"
    outside.mkdir()
    pq.write_table(orders((7, _CANARY, 1.0)), outside / "f.parquet")
    (outside / "hoodie.properties").write_text(
        f"hoodie.table.name={_CANARY}\nhoodie.table.version=8\nhoodie.table.type=COPY_ON_WRITE\n"
    )
    return lakes


def run(folder: Path, first: int, count: int) -> int:
    """Read the tables with these numbers; prints their faults, and returns how many calls were refused."""
    lakes, outside, refused = prepare(folder), folder / "outside", 0
    watch = Watch(folder / "lake")
    _warm(lakes["merge_on_read"], folder)
    for number in range(first, first + count):
        if number % 100 == first % 100:
            print(number - first, "tables", file=sys.stderr)
        name, lake, said, doors = _hostile(number, lakes, folder)
        for door in doors:
            fault, was_refused = _try(door, lake, outside, watch, _SECONDS)
            if fault.startswith(Slow.__name__):  # its own good table, on this machine at this time, says what is normal
                seconds = 4 * _seconds(door, lakes[name], folder) + _SECONDS * slowness()
                fault, was_refused = _try(door, _hostile(number, lakes, folder)[1], outside, watch, seconds)
            refused += was_refused
            if fault:
                print(
                    json.dumps(
                        {"number": number, "table": name, "door": door.__name__, "changes": said, "fault": fault}
                    ),
                    flush=True,
                )
    return refused


def _hostile(
    number: int, lakes: dict[str, Path], folder: Path
) -> tuple[str, Path, list[str], list[Callable[[str], object]]]:
    """Make a table; returns its kind, its lake, its changes, and the doors that are tried."""
    chance = random.Random(number)
    name = list(lakes)[number % len(lakes)]
    lake = _copy(lakes[name], folder)
    said = [change(lake / "table", folder / "outside", chance) for _ in range(chance.choice((1, 1, 2, 4)))]
    return name, lake, said, chance.sample(DOORS, 3)


def _copy(lake: Path, folder: Path) -> Path:
    """A lake as it was at the beginning, under the one name that every lake has; its files are links to the good ones."""
    place = folder / "lake"
    shutil.rmtree(place, ignore_errors=True)
    for good, _, names in os.walk(lake):
        new = f"{place}{good[len(str(lake)) :]}"
        os.mkdir(new)
        for name in names:
            os.link(f"{good}/{name}", f"{new}/{name}")
    return place


def _warm(lake: Path, folder: Path) -> None:
    """Import what each door needs."""
    for door in DOORS:
        _seconds(door, lake, folder)


def _seconds(door: Callable[[str], object], lake: Path, folder: Path) -> float:
    """The processor time of a door at a good table."""
    place = str(_copy(lake, folder) / "table")
    started = time.process_time()
    with suppress(HudiError):
        door(place)
    return time.process_time() - started


def _try(door: Callable[[str], object], lake: Path, outside: Path, watch: Watch, seconds: float) -> tuple[str, bool]:
    """The fault of a door, or an empty text; and whether the table was refused."""
    watch.seen, refused, fault, memory = [], False, "", None
    try:
        with untouched(outside), measured_memory() as memory, _limits(seconds):
            watch.on = True
            try:
                if _CANARY in str(door(str(lake / "table"))):
                    fault = "shows what is in another folder"
            finally:
                watch.on = False
    except HudiError as error:
        refused = True
        if _CANARY in f"{error}{vars(error)}":
            fault = "shows what is in another folder"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)
        last = [
            f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
            for frame in where
            if "support" not in frame.filename
        ][-6:]
        fault = f"{type(error).__name__}: {error!s:.300} at {last}"
    if memory is not None and memory.grown > MOST_MEMORY:
        fault = f"takes {memory.grown // MEGABYTE} MB"
    return fault or "; ".join(watch.seen), refused


def main() -> None:
    """Read the tables that the arguments name."""
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    refused = run(folder, first, count)
    print(json.dumps({"tables": count, "refused": refused, "memory": _most_memory()}))


def _most_memory() -> int:
    """Return the most memory that this process had, in MB. ``ru_maxrss`` would have that of the process that started it, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


if __name__ == "__main__":
    main()
