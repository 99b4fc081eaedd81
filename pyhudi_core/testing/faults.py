"""The faults of one storage call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from pyhudi_core.errors import PreconditionFailedError, StorageError, StorageStateUnknownError
from pyhudi_core.naming import set_module
from pyhudi_core.testing.hashing import stable_hash

V = TypeVar("V")
_MEMORY = 64


@set_module("pyhudi.testing")
class Fault(Enum):
    """Faults by name; budgets and schedules use the same names."""

    FAIL_BEFORE = "fail_before"
    """The call had no effect, and the caller gets an error."""
    THROTTLED = "throttled"
    """The store answered 503 until the adapter gave up; the call had no effect."""
    CONFLICT = "conflict"
    """The store answered 409 until the adapter gave up; the call had no effect."""
    UNKNOWN = "unknown"
    """The call had no effect, but the caller does not know its outcome."""
    LOST_ACK = "lost_ack"
    """The call took effect, but the caller does not know its outcome."""
    FALSE_PRECONDITION = "false_precondition"
    """The call took effect, but a hidden retry reports a failed condition, as if another writer was first (412 after success)."""
    TORN = "torn"
    """The writer has crashed, and the object has half of the bytes.

    Only on disks, and only if the write replaces an object: a new object is linked to its name when it is complete.
    """
    TORN_TEMPORARY = "torn_temporary"
    """The writer has crashed, and a hidden file in the same folder has half of the bytes (disks only)."""
    STALE_LIST = "stale_list"
    """The listing returns the state before the latest changes."""
    STALE_MISS = "stale_miss"
    """A new object is not found."""
    SLOW = "slow"
    """The call takes effect after a long time, in which other actors continue."""


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
    "discard": _SEND_FAULTS,
}
"""The possible faults of each verb. An unfinished file is opened, sent, and closed or aborted."""


def faults_of(verb: str, tears: bool) -> tuple[str, ...]:
    """Return the names of the faults of a verb; ``tears``: whether writes can be torn, as on a disk."""
    return tuple(fault.value for fault in FAULTS[verb] if tears or fault not in _TORN)


@dataclass(slots=True)
class Injection:
    """A fault that is planned for the next calls of a verb on matching paths."""

    fault: Fault
    verb: str
    path: str
    times: int

    def strikes(self, verb: str, path: str) -> bool:
        """Say whether the fault happens to this call; if so, count it."""
        if self.times <= 0 or verb != self.verb or not fnmatchcase(path, self.path):
            return False
        self.times -= 1
        return True


class Journal(Generic[V]):
    """The latest changes. A stale answer is an answer without them.

    Args:
        digest: computes the hash of an object.
    """

    def __init__(self, digest: Callable[[V], int]) -> None:
        self._hash = digest
        self._changes: list[tuple[str, V | None]] = []

    def add(self, path: str, old: V | None) -> None:
        """Record the object that was at the path before a change; None if there was none."""
        self._changes.append((path, old))
        del self._changes[:-_MEMORY]

    def digest(self, depth: int) -> int:
        """Return a hash of the stale answers that omit the latest ``depth`` changes."""
        latest = self._changes[-depth:]
        return hash(tuple((stable_hash(path), 0 if old is None else self._hash(old)) for path, old in latest))

    def is_new(self, path: str, depth: int) -> bool:
        """Say whether one of the latest ``depth`` changes created the object."""
        return any(p == path and old is None for p, old in self._changes[-depth:])

    def rewound(self, objects: Mapping[str, V], depth: int) -> dict[str, V]:
        """Return the objects in the state before the latest ``depth`` changes."""
        past = dict(objects)
        for path, old in reversed(self._changes[-depth:]):
            if old is None:
                past.pop(path, None)
            else:
                past[path] = old
        return past


def raise_before(fault: Fault | None, path: str) -> None:
    """Raise the error of a call that has no effect."""
    if fault in (Fault.FAIL_BEFORE, Fault.THROTTLED, Fault.CONFLICT):
        raise StorageError(f"The simulated storage refused ({fault.value})", path=path)
    if fault is Fault.UNKNOWN:
        raise StorageStateUnknownError("The simulated storage did not answer", path=path)


def raise_after(fault: Fault | None, path: str) -> None:
    """Raise the error of a call that took effect."""
    if fault is Fault.LOST_ACK:
        raise StorageStateUnknownError("The simulated storage did not answer", path=path)
    if fault is Fault.FALSE_PRECONDITION:
        raise PreconditionFailedError("The object is not in the expected state", path=path)
