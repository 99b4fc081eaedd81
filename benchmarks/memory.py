"""Peak memory of a contestant: the sum over its processes, and the largest single Python worker.

Proportional set size (PSS) counts a page that n processes share as 1/n in each, so a sum over processes counts
nothing twice. It is sampled from `/proc/<pid>/smaps_rollup`; a worker's own peak comes from `VmHWM`, which the
kernel keeps, so no peak is missed between two samples. Linux only.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

EVERY = 0.1
WORKER = "pyspark.daemon"


@dataclass
class MemoryWatch:
    """Watches a process and all its descendants while the `with` block runs; figures are bytes.

    Attributes:
        total: the largest sum of PSS at one time.
        parts: the parts of this sum: driver, jvm, workers.
        worker: the largest peak resident size of one Python worker (a worker runs one task at a time).
        worker_pss: the largest PSS seen of one Python worker.
    """

    pid: int
    total: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    worker: int = 0
    worker_pss: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._sample()
            self._stop.wait(EVERY)

    def _sample(self) -> None:
        parts = {"driver": 0, "jvm": 0, "workers": 0}
        for process in _family(self.pid):
            try:
                size = _kilobytes(process.pid, "smaps_rollup", "Pss:")
                parts[self._part(process, size)] += size
            except (OSError, psutil.Error):
                continue  # it ended after it was listed
        total = sum(parts.values())
        if total > self.total:
            self.total, self.parts = total, parts

    def _part(self, process: psutil.Process, size: int) -> str:
        if process.pid == self.pid:
            return "driver"
        if process.name() == "java":
            return "jvm"
        if WORKER in " ".join(process.cmdline()):
            parent = process.parent()
            if parent is not None and WORKER in " ".join(parent.cmdline()):
                self.worker = max(self.worker, _kilobytes(process.pid, "status", "VmHWM:"))
                self.worker_pss = max(self.worker_pss, size)
        return "workers"


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def _kilobytes(pid: int, file: str, name: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0
