"""What can go wrong with one call of a storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import TypeVar

from pyhudi_core.errors import PreconditionFailedError, StorageError, StorageStateUnknownError
from pyhudi_core.testing.scheduler import stable_hash

V = TypeVar("V")
_MEMORY = 64


class Fault(Enum):
    """Faults by name; the names are those of budgets and schedules."""

    FAIL_BEFORE = "fail_before"
    """Nothing happened, and the caller is told so."""
    THROTTLED = "throttled"
    """503 until the adapter gave up; nothing happened."""
    CONFLICT = "conflict"
    """409 until the adapter gave up; nothing happened."""
    UNKNOWN = "unknown"
    """Nothing happened, but the caller cannot know."""
    LOST_ACK = "lost_ack"
    """It happened, but the caller cannot know."""
    FALSE_PRECONDITION = "false_precondition"
    """It happened, but a hidden retry makes the caller believe that somebody else was first (412 after success)."""
    TORN = "torn"
    """Half of the bytes are there, and the writer has crashed."""
    STALE_LIST = "stale_list"
    """The listing shows the state before the latest changes."""
    STALE_MISS = "stale_miss"
    """A new object is not found yet."""


READ_FAULTS = (Fault.FAIL_BEFORE, Fault.THROTTLED, Fault.STALE_MISS)
LIST_FAULTS = (Fault.FAIL_BEFORE, Fault.THROTTLED, Fault.STALE_LIST)
_WRITE_FAULTS = (Fault.FAIL_BEFORE, Fault.THROTTLED, Fault.UNKNOWN, Fault.LOST_ACK)
_CONDITIONAL_FAULTS = (*_WRITE_FAULTS, Fault.CONFLICT, Fault.FALSE_PRECONDITION)
FAULTS: dict[str, tuple[Fault, ...]] = {
    "get": READ_FAULTS,
    "head": READ_FAULTS,
    "open_input": READ_FAULTS,
    "list": LIST_FAULTS,
    "put": (*_WRITE_FAULTS, Fault.TORN),
    "put_if_absent": (*_CONDITIONAL_FAULTS, Fault.TORN),
    "put_if_match": (*_CONDITIONAL_FAULTS, Fault.TORN),
    "delete": _WRITE_FAULTS,
    "delete_if_match": _CONDITIONAL_FAULTS,
}
"""Which faults can happen to which verb."""


@dataclass(slots=True)
class Injection:
    """A fault that is planned for the next calls of a verb on matching paths."""

    fault: Fault
    verb: str
    path: str
    times: int

    def strikes(self, verb: str, path: str) -> bool:
        """Whether it happens now; counts down."""
        if self.times <= 0 or verb != self.verb or not fnmatchcase(path, self.path):
            return False
        self.times -= 1
        return True


class Journal:
    """The latest changes, so that stale answers can be made from them."""

    def __init__(self, depth: int = 3) -> None:
        self._depth = depth
        self._changes: list[tuple[str, object]] = []

    def add(self, path: str, old: object) -> None:
        """Remember what was at the path before a change; None for nothing."""
        self._changes.append((path, old))
        del self._changes[:-_MEMORY]

    def digest(self) -> int:
        """A hash of what stale answers would be made from."""
        return hash(tuple(stable_hash(repr(change)) for change in self._changes[-self._depth :]))

    def is_new(self, path: str) -> bool:
        """Whether the object was made by one of the latest changes."""
        return any(p == path and old is None for p, old in self._changes[-self._depth :])

    def rewound(self, objects: Mapping[str, V]) -> dict[str, V]:
        """The objects as they were before the latest changes."""
        past = dict(objects)
        for path, old in reversed(self._changes[-self._depth :]):
            if old is None:
                past.pop(path, None)
            else:
                past[path] = old  # type: ignore[assignment]
        return past


def raise_before(fault: Fault | None, path: str) -> None:
    """Raise what the caller of a call that does not happen is told."""
    if fault in (Fault.FAIL_BEFORE, Fault.THROTTLED, Fault.CONFLICT):
        raise StorageError(f"The simulated storage refused ({fault.value})", path=path)
    if fault is Fault.UNKNOWN:
        raise StorageStateUnknownError("The simulated storage did not answer", path=path)


def raise_after(fault: Fault | None, path: str) -> None:
    """Raise what the caller of a call that did happen is told."""
    if fault is Fault.LOST_ACK:
        raise StorageStateUnknownError("The simulated storage did not answer", path=path)
    if fault is Fault.FALSE_PRECONDITION:
        raise PreconditionFailedError("The object is not in the expected state", path=path)
