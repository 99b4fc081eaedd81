"""Kill writers repeatedly: ``make soak SECONDS=600``.

Two writers (`--writers`) write to one table on a local disk. Every two seconds one of them gets SIGKILL, and is started again to continue its work.
At the end each writer commits once more without being killed. The table must contain every acknowledged commit once, the shared counter must equal
the number of commits that changed it, and the doctor must find nothing. The figures go to docs/reliability/soak.json. If a promise is broken, the
exit status is 1 and the table is kept for examination.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from reliability.processes import OPTIONS, Entry, Job, journals, judge, make_table, start  # noqa: E402
from reliability.recording import KEPT  # noqa: E402

from benchmarks.machine import occasion  # noqa: E402

LIFE = 1_000_000
"""Number of row ids that are reserved for each start of a writer."""


@dataclass
class Soak:
    """One run."""

    folder: Path
    writers: int
    every_s: float
    fsync: bool
    lives: list[int] = field(default_factory=list)
    processes: list[BaseProcess] = field(default_factory=list)
    kills: int = 0

    def job(self, writer: int, last: int = LIFE) -> Job:
        first = LIFE * self.lives[writer]
        return Job(
            str(self.folder / "table"),
            writer,
            str(self.folder / "journal"),
            first,
            first + last,
            apart=writer % 2 == 1,
            storage_options={} if self.fsync else {"fsync": "false"},
            options=OPTIONS,
        )

    def begin(self) -> None:
        make_table(str(self.folder / "table"), self.job_options(), OPTIONS)
        self.lives = [0] * self.writers
        self.processes = [start(self.job(writer)) for writer in range(self.writers)]

    def job_options(self) -> dict[str, str]:
        return {} if self.fsync else {"fsync": "false"}

    def kill_one(self) -> None:
        """Kill a writer with SIGKILL at a random time, and start it again."""
        writer = secrets.randbelow(self.writers)
        victim = self.processes[writer]
        assert victim.is_alive(), f"writer {writer} ended by itself with {victim.exitcode}"
        victim.kill()
        victim.join()
        self.kills += 1
        self.lives[writer] += 1
        self.processes[writer] = start(self.job(writer))

    def end(self) -> dict[str, object]:
        """Kill all writers, let each commit once more, and check the table."""
        for process in self.processes:
            process.kill()
            process.join()
        self.kills += len(self.processes)
        self.lives = [life + 1 for life in self.lives]
        last = [start(self.job(writer, 3)) for writer in range(self.writers)]
        for process in last:
            process.join(120)
        assert [process.exitcode for process in last] == [0] * self.writers, "a writer can no longer write"
        table = self.job(0).open()
        verdict = judge(table, journals(self.folder / "journal"))
        assert not table.timeline.pending.instants, "an instant of a dead writer is still pending"
        report = table.check()
        assert report.ok, str(report)
        return {**asdict(verdict), "kills": self.kills, "writers": self.writers, "active_instants": len(table.timeline)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=2, help="seconds between two kills")
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--fsync", action="store_true", help="let every file wait for the disk")
    parser.add_argument("--keep", action="store_true", help="write docs/reliability/soak.json")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pyhudi-soak-"))
    soak = Soak(folder, chosen.writers, chosen.every, chosen.fsync)
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
    result |= {"seconds": round(time.monotonic() - began), "every_s": chosen.every, "taken": occasion()}
    if chosen.keep:
        _keep(result)
    shutil.rmtree(folder)
    print(f"All promises kept: {result}")
    return 0


def _keep(result: dict[str, Any]) -> None:
    """Store the result, unless the stored one is of a longer run."""
    path = KEPT / "soak.json"
    longest = json.loads(path.read_text())["seconds"] if path.exists() else 0
    if result["seconds"] < longest:
        print(f"not kept: the figures there are of {longest} s; delete {path.name} to start anew")
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")


def _progress(soak: Soak, entries: list[Entry], seconds: float) -> Table:
    acks = [entry for entry in entries if entry.kind == "ack"]
    held = sorted(entry.lock_held for entry in acks)
    shown = Table(title=f"soak: {seconds:.0f} s")
    for name in ("writers", "kills", "commits", "commits/s", "attempts", "retries", "lock held, median ms"):
        shown.add_column(name, justify="right")
    shown.add_row(
        str(soak.writers),
        str(soak.kills),
        str(len(acks)),
        f"{len(acks) / seconds:.1f}",
        str(sum(entry.kind == "try" for entry in entries)),
        str(sum(entry.retries for entry in acks)),
        f"{held[len(held) // 2] * 1000:.1f}" if held else "",
    )
    return shown


if __name__ == "__main__":
    sys.exit(main())
