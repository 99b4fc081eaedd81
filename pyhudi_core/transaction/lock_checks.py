"""What a commit asks about its lock before it decides: whether it is the lock of the table's other writers, and whether it is still held.

Neither keeps a table safe (the commit record does that); both tell a writer early that something is wrong. Rolling back is always possible: the
record alone keeps it safe, and who was refused, or lost the lock, has to clean up.
"""

from __future__ import annotations

from collections.abc import Callable

from pyhudi_core.errors import LockLostError
from pyhudi_core.lock.identity import refuse_other_lock
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.record import Record

LeaseLeft = Callable[[], float]


def refuse_foreign(context: TableContext, record: Record | None) -> None:
    """Raise `LockIdentityError` if the latest decision was made under a lock that ours does not exclude."""
    if record is None:
        return
    given_up, process = context.options.lock.change_from, context.runtime.process
    refuse_other_lock(
        record.lock_identity, context.lock.identity, given_up=given_up, process=process, table=context.table
    )


def recorded_lock(context: TableContext, record: Record | None, *, any_lock: bool) -> str:
    """The identity that the next record names; a decision that may be made under any lock leaves it as it is."""
    if record is not None and record.lock_identity and any_lock:
        return record.lock_identity
    return context.lock.identity


def refuse_lost(context: TableContext, lease_left_s: LeaseLeft) -> None:
    """Raise `LockLostError` if the lock is not ours any more: who knows that need not try."""
    if lease_left_s() <= 0:
        raise LockLostError(
            "The lock ended while it was held: it could not be renewed in time",
            table=context.table,
            hint="Nothing was published; write again. If the machine or the storage is only slow, raise"
            " hoodie.write.lock.storage.validity.timeout.secs.",
        )
