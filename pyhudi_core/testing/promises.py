"""The history checker: compares the outcomes that writers got with what readers see at every completion time.

ConsistentRead and NoDuplicateKeys are the invariants of J. Vanlightly's models of Hudi; P1 to P5 are the promises of this package. `attempt`
records what a writer is about to write and its outcome, as events of the run's history; `check_promises` then reads the table as of each of its
completion times and follows the rows from commit to commit.

Checked invariants
- ConsistentRead, P1: as of the completion time of an acknowledged write, the rows are the rows before the write, changed by the write, and no others;
- P2: a write reported as failed is in no state;
- P3: a write with unknown outcome (a crash, or a lost response) is complete in the table from one completion time on, or in no state;
- NoDuplicateKeys, P4: no state has a key twice;
- P5: reading a state again gives the same rows;
- a write that began after the acknowledgement of another write has the later completion time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyhudi_core.errors import CommitStateUnknownError, HudiError
from pyhudi_core.naming import set_module
from pyhudi_core.testing.history import Event, History
from pyhudi_core.testing.scheduler import Scheduler

Rows = Mapping[Hashable, Hashable]
Change = Mapping[Hashable, Hashable | None]
"""Values by key; None deletes. Values that name their writer (``"a1"``) make the writes distinguishable."""
ReadAsOf = Callable[[str], Iterable[tuple[Hashable, Hashable]]]
BEGINS, WROTE, FAILED = "begins_write", "wrote", "write_failed"


@set_module("pyhudi.testing")
class PromiseBroken(AssertionError):  # noqa: N818 (an assertion of tests, not an error of the package)
    """The rows that readers see contradict the outcomes that were reported to writers.

    Attributes:
        promise: the broken promise, such as ``P1``.
    """

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise


@dataclass(slots=True)
class _Write:
    change: Change
    began: int
    outcome: str = "unknown"
    completed: str = ""
    ended: int = 1 << 60


@set_module("pyhudi.testing")
def attempt(scheduler: Scheduler, change: Change, work: Callable[[], str]) -> str:
    """Write as the running actor, and record the intended change and its outcome in the history.

    Args:
        change: the change of the table's rows by the write.
        work: writes; returns the completion time of its commit.

    Raises what ``work`` raises. All of the package's errors except `CommitStateUnknownError` mean that the write failed.
    """
    scheduler.note(BEGINS, dict(change))
    try:
        completed = work()
    except CommitStateUnknownError:
        raise
    except HudiError as error:
        scheduler.note(FAILED, str(error))
        raise
    scheduler.note(WROTE, completed)
    return completed


@set_module("pyhudi.testing")
def check_promises(history: History, times: Sequence[str], read: ReadAsOf, before: Rows | None = None) -> None:
    """Follow the table from commit to commit.

    Args:
        history: the history of the run, with the events of `attempt`.
        times: the completion times of all commits of the run.
        read: returns the keys and values that a new reader sees as of a completion time, duplicates included.
        before: the rows at the start of the run.

    Raises `PromiseBroken` with the first broken promise.
    """
    writes = _writes(history)
    acknowledged = {write.completed: write for write in writes if write.outcome == "ok"}
    lost = sorted(acknowledged.keys() - set(times))
    if lost:
        raise PromiseBroken("P1", f"the acknowledged write at {lost[0]} is not on the timeline")
    _check_order(list(acknowledged.values()))
    open_writes = [write for write in writes if write.outcome == "unknown"]
    failed = [write for write in writes if write.outcome == "failed"]
    rows = dict(before or {})
    for time in sorted(times):
        seen = _seen(read, time)
        write = acknowledged.get(time) or next((w for w in open_writes if _applied(rows, w.change) == seen), None)
        if write is None:
            ghost = any(_applied(rows, w.change) == seen for w in failed)
            raise PromiseBroken("P2" if ghost else "P3", f"no write explains that readers see {seen} as of {time}")
        if write in open_writes:
            open_writes.remove(write)
        rows = _applied(rows, write.change)
        if seen != rows:
            raise PromiseBroken("P1", f"as of {time} readers see {seen}, but the acknowledged writes give {rows}")


def _writes(history: History) -> list[_Write]:
    """Return the writes of a run in the order in which they began, each with its outcome."""
    writes: list[_Write] = []
    current: dict[str, _Write] = {}
    for number, event in enumerate(history.events):
        if event.kind == BEGINS and isinstance(event.value, Mapping):
            current[event.actor] = _Write(event.value, number)
            writes.append(current[event.actor])
        elif event.kind in (WROTE, FAILED) and event.actor in current:
            _end(current.pop(event.actor), event, number)
    return writes


def _end(write: _Write, event: Event, number: int) -> None:
    write.outcome = "ok" if event.kind == WROTE else "failed"
    write.completed = str(event.value) if event.kind == WROTE else ""
    write.ended = number


def _check_order(writes: Sequence[_Write]) -> None:
    for earlier in writes:
        for later in writes:
            if earlier.ended < later.began and not earlier.completed < later.completed:
                raise PromiseBroken(
                    "P6", f"the write at {later.completed} began after the one at {earlier.completed} was acknowledged"
                )


def _seen(read: ReadAsOf, time: str) -> dict[Hashable, Hashable]:
    found = list(read(time))
    keys = [key for key, _ in found]
    twice = sorted({repr(key) for key in keys if keys.count(key) > 1})
    if twice:
        raise PromiseBroken("P4", f"as of {time} {', '.join(twice)} is there more than once")
    again = list(read(time))
    if sorted(map(repr, again)) != sorted(map(repr, found)):
        raise PromiseBroken("P5", f"as of {time} readers saw {found}, and then {again}")
    return dict(found)


def _applied(rows: Rows, change: Change) -> dict[Hashable, Hashable]:
    return {key: value for key, value in {**rows, **change}.items() if value is not None}
