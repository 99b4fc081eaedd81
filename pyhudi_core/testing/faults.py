"""The faults of one storage call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from pyhudi_core.errors import PreconditionFailedError, StorageError, StorageStateUnknownError
from pyhudi_core.testing.hashing import stable_hash

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
    """Half of the bytes are there under the object's name, and the writer has crashed (disks only, and only where a
    write replaces: what is created once is linked to its name when it is whole).
    """
    TORN_TEMPORARY = "torn_temporary"
    """Half of the bytes are there in a hidden file beside the object, and the writer has crashed (disks only)."""
    STALE_LIST = "stale_list"
    """The listing shows the state before the latest changes."""
    STALE_MISS = "stale_miss"
    """A new object is not found yet."""
    SLOW = "slow"
    """The call is made, but only after a long time in which others go on."""


READ_FAULTS = (Fault.FAIL_BEFORE, Fault.THROTTLED, Fault.STALE_MISS, Fault.SLOW)
LIST_FAULTS = (Fault.FAIL_BEFORE, Fault.THROTTLED, Fault.STALE_LIST, Fault.SLOW)
_SEND_FAULTS = (Fault.FAIL_BEFORE, Fault.THROTTLED, Fault.SLOW)
_WRITE_FAULTS = (*_SEND_FAULTS, Fault.UNKNOWN, Fault.LOST_ACK)
_CONDITIONAL_FAULTS = (*_WRITE_FAULTS, Fault.CONFLICT, Fault.FALSE_PRECONDITION)
_TORN = (Fault.TORN, Fault.TORN_TEMPORARY)
FAULTS: dict[str, tuple[Fault, ...]] = {
    "get": READ_FAULTS,
    "head": READ_FAULTS,
    "open_input": READ_FAULTS,
    "list": LIST_FAULTS,
    "put": (*_WRITE_FAULTS, *_TORN),
    "put_if_absent": (*_CONDITIONAL_FAULTS, Fault.TORN_TEMPORARY),
    "put_if_match": _CONDITIONAL_FAULTS,
    "delete": _WRITE_FAULTS,
    "delete_if_match": _CONDITIONAL_FAULTS,
    "open_output": _SEND_FAULTS,
    "send_output": _SEND_FAULTS,
    "close_output": (*_WRITE_FAULTS, *_TORN),
    "abort_output": _SEND_FAULTS,
    "sweep": _SEND_FAULTS,
}
"""Which faults can happen to which verb. A file in the making is opened, sent, and closed or aborted."""


def faults_of(verb: str, tears: bool) -> tuple[str, ...]:
    """The names of the faults of a verb; ``tears`` says whether the storage writes like a disk."""
    return tuple(fault.value for fault in FAULTS[verb] if tears or fault not in _TORN)


@dataclass(slots=True)
class Injection:
    """A fault that is planned for the next calls of a verb on matching paths."""

    fault: Fault
    verb: str
    path: str
    times: int

    def strikes(self, verb: str, path: str) -> bool:
        """Whether the fault happens now; counts down."""
        if self.times <= 0 or verb != self.verb or not fnmatchcase(path, self.path):
            return False
        self.times -= 1
        return True


class Journal(Generic[V]):
    """The latest changes, used to make stale answers.

    Args:
        digest: a hash of what was at a path.
    """

    def __init__(self, digest: Callable[[V], int]) -> None:
        self._hash = digest
        self._changes: list[tuple[str, V | None]] = []

    def add(self, path: str, old: V | None) -> None:
        """Remember what was at the path before a change; None for nothing."""
        self._changes.append((path, old))
        del self._changes[:-_MEMORY]

    def digest(self, depth: int) -> int:
        """Return a hash of the content of stale answers that are ``depth`` changes old."""
        latest = self._changes[-depth:]
        return hash(tuple((stable_hash(path), 0 if old is None else self._hash(old)) for path, old in latest))

    def is_new(self, path: str, depth: int) -> bool:
        """Whether the object was made by one of the latest changes."""
        return any(p == path and old is None for p, old in self._changes[-depth:])

    def rewound(self, objects: Mapping[str, V], depth: int) -> dict[str, V]:
        """Return the objects as they were before the latest changes."""
        past = dict(objects)
        for path, old in reversed(self._changes[-depth:]):
            if old is None:
                past.pop(path, None)
            else:
                past[path] = old
        return past


def raise_before(fault: Fault | None, path: str) -> None:
    """Raise the caller's error for a call that does not happen."""
    if fault in (Fault.FAIL_BEFORE, Fault.THROTTLED, Fault.CONFLICT):
        raise StorageError(f"The simulated storage refused ({fault.value})", path=path)
    if fault is Fault.UNKNOWN:
        raise StorageStateUnknownError("The simulated storage did not answer", path=path)


def raise_after(fault: Fault | None, path: str) -> None:
    """Raise the caller's error for a call that did happen."""
    if fault is Fault.LOST_ACK:
        raise StorageStateUnknownError("The simulated storage did not answer", path=path)
    if fault is Fault.FALSE_PRECONDITION:
        raise PreconditionFailedError("The object is not in the expected state", path=path)
