"""Check that all writers of a table use the same lock.

Writers with different lock providers, or with different addresses, do not exclude each other and do not notice it. So every commit
records the identity of the lock that it held, and a commit must use the same lock as the previous commit.

The option ``pyhudi.lock.change.from`` moves a table to a new lock: it names the identity that is given up. After the first commit under the
new lock the option has no effect, so it never lets writers with two different locks continue at the same time.
"""

from __future__ import annotations

from pyhudi_core.errors import LockIdentityError
from pyhudi_core.runtime.base import Process

CHANGE_OPTION = "pyhudi.lock.change.from"
_IN_PROCESS = "in_process:"


def in_process_identity(name: str, process: str) -> str:
    """Return the identity of a lock inside one process; it contains the process."""
    return f"{_IN_PROCESS}{name}#{process}"


def refuse_other_lock(found: str, ours: str, *, given_up: str, process: Process, table: str) -> None:
    """Raise `LockIdentityError` if the latest commit used another lock than this writer.

    Args:
        found: the identity that the latest commit recorded; empty if it recorded none.
        ours: this writer's identity.
        given_up: the identity that the options allow to replace.
        process: reports whether the process of an in-process lock has ended.
        table: for the message.
    """
    if found in ("", ours, given_up) or _has_ended(found, process):
        return
    raise LockIdentityError(
        f"The latest commit was made under the lock {found!r}, but this writer uses {ours!r}: these two locks do not exclude each other",
        table=table,
        hint="Nothing was published. Give all writers of the table the same options of the lock, and spell its address alike. To move all of them"
        f" to this lock, stop the other writers and set {CHANGE_OPTION}={found} once.",
    )


def _has_ended(found: str, process: Process) -> bool:
    """Say whether the lock can have no holder any more, because it belonged to a process that is known to have ended."""
    return found.startswith(_IN_PROCESS) and process.is_gone(found.rpartition("#")[2])
