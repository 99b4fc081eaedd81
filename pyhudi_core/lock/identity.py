"""Whether two writers use the same lock.

Writers with different lock providers, or with one at different addresses, do not exclude each other and notice nothing. So every commit
records the identity of the lock that it held, and a writer that finds another one there refuses to commit.

A lock moves once, by consent: the option ``pyhudi.lock.change.from`` names the identity that is given up. It changes nothing any more as soon
as a commit under the new lock has been made, so it cannot let two groups of writers go on side by side.
"""

from __future__ import annotations

from pyhudi_core.errors import LockIdentityError
from pyhudi_core.runtime.base import Process

CHANGE_OPTION = "pyhudi.lock.change.from"
_IN_PROCESS = "in_process:"


def in_process_identity(name: str, process: str) -> str:
    """The identity of a lock that one process keeps to itself: it says which."""
    return f"{_IN_PROCESS}{name}#{process}"


def refuse_other_lock(found: str, ours: str, *, given_up: str, process: Process, table: str) -> None:
    """Raise `LockIdentityError` if the latest commit was made under another lock than ours.

    Args:
        found: the identity that the latest commit recorded; empty if it recorded none.
        ours: this writer's.
        given_up: the identity that the options allow to be replaced.
        process: tells whether the process of an in-process lock has ended.
        table: for the message.
    """
    if found in ("", ours, given_up) or _has_ended(found, process):
        return
    raise LockIdentityError(
        f"The latest commit was made under the lock {found!r}, and this writer uses {ours!r}: the two do not exclude each other",
        table=table,
        hint="Nothing was published. Give all writers of the table the same hoodie.write.lock.provider. To move them all to"
        f" this one, stop the others and give {CHANGE_OPTION}={found} once.",
    )


def _has_ended(found: str, process: Process) -> bool:
    """Whether nobody can hold the lock any more: it belonged to a process that is known to be gone."""
    return found.startswith(_IN_PROCESS) and process.is_gone(found.rpartition("#")[2])
