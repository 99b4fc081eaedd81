"""What a commit asks about its lock before it decides: whether it is the lock of the table's other writers, and whether it is still held.

Neither keeps a table safe (the commit record does that); both tell a writer early that something is wrong. Rolling back is always possible: the
record alone keeps it safe, and who was refused, or lost the lock, has to clean up.
"""

from __future__ import annotations

from collections.abc import Callable

from pyhudi_core.errors import LockLostError
from pyhudi_core.lock.identity import refuse_other_lock
from pyhudi_core.model.instant import Action
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.record import Record

LeaseLeft = Callable[[], float]
Check = Callable[[Timeline], None]


def refuse_foreign(context: TableContext, record: Record | None, action: Action) -> None:
    """Raise `LockIdentityError` if the latest decision was made under a lock that ours does not exclude."""
    if record is None or action is Action.ROLLBACK:
        return
    given_up, process = context.options.lock_change_from, context.runtime.process
    refuse_other_lock(
        record.lock_identity, context.lock.identity, given_up=given_up, process=process, table=context.table
    )


def recorded_lock(context: TableContext, record: Record | None, action: Action) -> str:
    """The identity that the next record names; a rollback leaves it as it is, because it may be made under any lock."""
    if record is not None and record.lock_identity and action is Action.ROLLBACK:
        return record.lock_identity
    return context.lock.identity


def while_held(context: TableContext, action: Action, lease_left_s: LeaseLeft, check: Check) -> Check:
    """The check, and then whether the lock is still ours: who knows that it is not need not try. Raises `LockLostError`."""

    def checked(timeline: Timeline) -> None:
        check(timeline)
        if lease_left_s() <= 0:
            raise LockLostError(
                "The lock ended while it was held: it could not be renewed in time",
                table=context.table,
                hint="Nothing was published; write again. If the machine or the storage is only slow, raise"
                " hoodie.write.lock.storage.validity.timeout.secs.",
            )

    return check if action is Action.ROLLBACK else checked
