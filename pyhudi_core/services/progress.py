"""The progress of an execution of a table service, for the command line, Dagster, or a program of the user.

The caller passes a callable (`Execution.progress`). It is called as ``progress(what, done, total)``: the current work, the number of finished steps,
and the number of all steps (0: unknown). The threads of the tasks call it, so the numbers may come out of order. Tasks on Spark run in other
processes: only the beginning and the end of their part is reported. Nothing is reported after the decision of a commit. So an error of the callable
ends the execution as any other error does. Earlier steps are not undone: a clean, a restore or a sweep may have deleted files, and an archival or an
erasure may have completed some of its moves or commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import pyarrow as pa

from pyhudi_core.engine.base import Engine, TaskFunction, TaskInfo

ServiceProgress = Callable[[str, int, int], object]
"""Called with the current work, the number of finished steps, and the number of all steps (0: unknown)."""

T = TypeVar("T")


def silent(_what: str, _done: int, _total: int) -> None:
    """Show no progress."""


@dataclass(slots=True)
class Steps:
    """Equal steps of one kind, such as written files. Any thread may report a step."""

    progress: ServiceProgress
    what: str
    total: int
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def begin(self) -> None:
        """Report that no step is finished yet."""
        self.progress(self.what, 0, self.total)

    def add(self, number: int = 1) -> None:
        """Report this number of finished steps."""
        done = 0
        for _ in range(number):
            done = next(self._numbers)
        if number:
            self.progress(self.what, min(done, self.total), self.total)

    def end(self) -> None:
        """Report that all steps are finished."""
        self.progress(self.what, self.total, self.total)

    def over(self, items: Sequence[T]) -> Iterator[T]:
        """Yield the items. Each item is reported as finished when the next one is requested."""
        self.begin()
        for item in items:
            yield item
            self.add()

    def counted(self, task: TaskFunction, engine: Engine) -> TaskFunction:
        """Return the task function. If it runs in this process, each row that it yields (a written file) is reported as a step."""
        return _Counted(task, self) if engine.in_process else task


@dataclass(frozen=True, slots=True)
class _Counted:
    """Task function: runs another one, and reports its rows."""

    task: TaskFunction
    steps: Steps

    def __call__(self, info: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.task(info, batches):
            self.steps.add(batch.num_rows)
            yield batch
