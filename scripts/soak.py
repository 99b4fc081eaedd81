"""Kill writers, readers and table services repeatedly: ``python scripts/soak.py --seconds 600`` (`make evidence PARTS=soak`).

Two writers (`--writers`) write to one merge-on-read table (`--table-type`) on a local disk, beside a process that runs all table services in random
order (`--services`) and a reader (`--readers`). Every two seconds one of them gets SIGKILL, and is started again to continue its work. At the end
each writer commits once more without being killed, and a last process does what is left of the services. The table must contain every acknowledged
commit once, the shared counter must equal the number of commits that changed it, nothing may be pending, and the doctor must find nothing. If
a promise is broken, the exit status is 1 and the table is kept for examination.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from rich.live import Live
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from reliability import soak_processes  # noqa: E402
from reliability.processes import OPTIONS, Entry, Job, end_of, journals, judge, make_table, start  # noqa: E402
from reliability.soak_processes import Beside, done_beside, start_beside  # noqa: E402

from benchmarks.recording import record  # noqa: E402
from pyhudi_core import HudiTable  # noqa: E402

LIFE = 1_000_000
"""Number of row ids that are reserved for each start of a writer."""


WRITING: Mapping[str, object] = {**OPTIONS, **soak_processes.OPTIONS}


@dataclass
class Soak:
    """One run. Processes have numbers: first the writers, then those beside them; ``lives`` counts how often each was started."""

    folder: Path
    writers: int
    beside: tuple[str, ...]
    every_s: float
    fsync: bool
    table_type: str = "merge_on_read"
    lives: list[int] = field(default_factory=list)
    processes: list[BaseProcess] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)

    def job(self, writer: int, last: int = LIFE) -> Job:
        first = LIFE * self.lives[writer]
        place, journal = str(self.folder / "table"), str(self.folder / "journal")
        apart = writer % 2 == 1
        return Job(place, writer, journal, first, first + last, apart, storage_options=self.storage, options=WRITING)

    def start(self, number: int) -> BaseProcess:
        """Start a process, or the next life of it."""
        if number < self.writers:
            return start(self.job(number))
        seed = number + 100 * self.lives[number]
        return start_beside(Beside(self.job(0), self.beside[number - self.writers], seed))

    def kind(self, number: int) -> str:
        """What a process is."""
        return "writer" if number < self.writers else self.beside[number - self.writers]

    def begin(self) -> None:
        make_table(str(self.folder / "table"), self.storage, WRITING, self.table_type)
        self.lives = [0] * (self.writers + len(self.beside))
        self.processes = [self.start(number) for number in range(len(self.lives))]

    @property
    def storage(self) -> dict[str, str]:
        """The options of the table's storage."""
        return {} if self.fsync else {"fsync": "false"}

    def kill_one(self) -> None:
        """Kill a process with SIGKILL at a random time, and start it again."""
        for number, process in enumerate(self.processes):
            assert process.is_alive(), f"{self.kind(number)} {number} ended by itself: {end_of(process)}"
        number = secrets.randbelow(len(self.processes))
        self.processes[number].kill()
        self.processes[number].join()
        self.kills[self.kind(number)] += 1
        self.lives[number] += 1
        self.processes[number] = self.start(number)

    def end(self) -> dict[str, object]:
        """Kill all processes, finish what is left, let each writer commit once more, and check the table."""
        for number, process in enumerate(self.processes):
            process.kill()
            process.join()
            self.kills[self.kind(number)] += 1
        self.lives = [life + 1 for life in self.lives]
        self.finished()  # until then a clustering of a dead process refuses writes to its file groups
        last = [start(self.job(writer, 3)) for writer in range(self.writers)]
        for process in last:
            process.join(120)
        ends = [end_of(process) for process in last]
        assert not any(ends), f"a writer can no longer write: {ends}"
        table = self.finished()
        verdict = judge(table, journals(self.folder / "journal"))
        assert not table.timeline.pending.instants, f"pending: {table.timeline.pending}"
        report = table.check()
        assert report.ok, str(report)
        done = done_beside(self.folder / "journal")
        services = {name: count for name, count in sorted(done.items()) if not name.startswith("read")}
        ran = sum(count for name, count in services.items() if name.endswith(" done"))
        assert "services" not in self.beside or ran, "no service did anything: kill more slowly (--every)"
        assert "reader" not in self.beside or done["read done"], "nothing was read: kill more slowly (--every)"
        return {
            **asdict(verdict),
            "kills": sum(self.kills.values()),
            "killed": dict(self.kills),
            "writers": self.writers,
            "active_instants": len(table.timeline),
            "table_type": self.table_type,
            "reads": done["read done"],
            "services": services,
        }

    def finished(self) -> HudiTable:
        """The table after everything that killed processes had left is done."""
        time.sleep(6)  # longer than heartbeats of killed processes count
        for service in self.job(0).open().services.values():
            service.take_over()
            service.run()
        return self.job(0).open()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=2, help="seconds between two kills")
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--services", type=int, default=1, help="processes that run all table services")
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--table-type", choices=("merge_on_read", "copy_on_write"), default="merge_on_read")
    parser.add_argument("--fsync", action="store_true", help="let every file wait for the disk")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pyhudi-soak-"))
    beside = ("services",) * chosen.services + ("reader",) * chosen.readers
    soak = Soak(folder, chosen.writers, beside, chosen.every, chosen.fsync, chosen.table_type)
    began = time.monotonic()
    try:
        soak.begin()
        with Live(refresh_per_second=2) as live:
            while (now := time.monotonic() - began) < chosen.seconds:
                time.sleep(min(chosen.every, max(0.0, chosen.seconds - now)))
                soak.kill_one()
                live.update(_progress(soak, journals(folder / "journal"), time.monotonic() - began))
        result = soak.end()
    except AssertionError as broken:
        print(f"a promise is broken: {broken}\nthe table stays at {folder}")
        return 1
    finally:
        for process in soak.processes:
            process.kill()
    result |= {"seconds": round(time.monotonic() - began), "every_s": chosen.every}
    record("soak", result)
    shutil.rmtree(folder)
    kills, acknowledged = result["kills"], result["acknowledged"]
    print(
        f"All promises kept: {kills:,} kills, {acknowledged:,} acknowledged commits, none lost, {result['reads']:,} reads"
    )
    return 0


def _progress(soak: Soak, entries: list[Entry], seconds: float) -> Table:
    acks = [entry for entry in entries if entry.kind == "ack"]
    held = sorted(entry.lock_held for entry in acks)
    shown = Table(title=f"soak: {seconds:.0f} s")
    done = sum(count for name, count in done_beside(soak.folder / "journal").items() if name.endswith(" done"))
    for name in (
        "writers",
        "kills",
        "commits",
        "commits/s",
        "attempts",
        "retries",
        "lock held, median ms",
        "done beside",
    ):
        shown.add_column(name, justify="right")
    shown.add_row(
        str(soak.writers),
        str(sum(soak.kills.values())),
        str(len(acks)),
        f"{len(acks) / seconds:.1f}",
        str(sum(entry.kind == "try" for entry in entries)),
        str(sum(entry.retries for entry in acks)),
        f"{held[len(held) // 2] * 1000:.1f}" if held else "",
        str(done),
    )
    return shown


if __name__ == "__main__":
    sys.exit(main())
