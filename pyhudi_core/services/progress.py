"""How far an execution of a table service is, for whoever watches it: the command line, Dagster, a program of the user.

Progress is a callable that is given from outside (`Execution.progress`). It is called as ``progress(what, done, total)``: what is done now, how many
of it are done, and how many there are (0: not known). Its calls come from the threads of the tasks, so the numbers may come out of order. Tasks
on Spark run in other processes: there only the beginning and the end of their part is reported. Nothing is reported after the decision of a commit,
so an error that the callable raises ends the execution like any other error there. What was done before it stays done: a clean, a restore or a sweep
may have deleted files, an archival (in several moves) or an erasure (in several commits) has completed the steps before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import pyarrow as pa

from pyhudi_core.engine.base import Engine, TaskFunction, TaskInfo

ServiceProgress = Callable[[str, int, int], object]
"""Called with what is done now, the number done, and the number of all (0: not known)."""

T = TypeVar("T")


def silent(_what: str, _done: int, _total: int) -> None:
    """Show no progress."""


@dataclass(slots=True)
class Steps:
    """Equal steps of one kind, such as files that are written; any thread may report one."""

    progress: ServiceProgress
    what: str
    total: int
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def begin(self) -> None:
        """Report that none is done yet."""
        self.progress(self.what, 0, self.total)

    def add(self, number: int = 1) -> None:
        """Report that so many more are done."""
        done = 0
        for _ in range(number):
            done = next(self._numbers)
        if number:
            self.progress(self.what, min(done, self.total), self.total)

    def end(self) -> None:
        """Report that all are done."""
        self.progress(self.what, self.total, self.total)

    def over(self, items: Sequence[T]) -> Iterator[T]:
        """Yield the items; each is reported as done when the next one is asked for."""
        self.begin()
        for item in items:
            yield item
            self.add()

    def counted(self, task: TaskFunction, engine: Engine) -> TaskFunction:
        """Return the task function; where it runs in this process, each row that it yields (a written file) is a step."""
        return _Counted(task, self) if engine.in_process else task


@dataclass(frozen=True, slots=True)
class _Counted:
    """Task function: another one, whose rows are reported."""

    task: TaskFunction
    steps: Steps

    def __call__(self, info: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.task(info, batches):
            self.steps.add(batch.num_rows)
            yield batch
