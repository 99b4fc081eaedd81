"""A decision that depends on a reservation instead of an inflight file: a new plan, a savepoint, the removal of a metadata table.

The requested time is reserved before the decision (``transaction/begin.py``), and the decision's intent names the reservation, which is the heartbeat
file. So if the process dies, another process finds the dead reservation. If the decision was made, the other process publishes the decision.
Otherwise the other process removes the leftovers (``rollback.repair``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyhudi_core.errors import CommitStateUnknownError
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout
from pyhudi_core.transaction.begin import Transaction, completion_time_after
from pyhudi_core.transaction.commit import tidy_up
from pyhudi_core.transaction.decision import OutcomeUnknown, StagedIntent, Terms, staged_intent
from pyhudi_core.transaction.record import Publication


@contextmanager
def deciding(transaction: Transaction, what: str, sweep: Callable[[], None]) -> Iterator[Terms]:
    """The terms of a decision. Inside this context, the caller stages the bytes of the decision, and makes the decision.

    ``what`` names the decision in messages.

    ``sweep`` removes the staged bytes and the reservation. ``sweep`` is called at the end of the context, also after an error, but not if the outcome
    of the decision is unknown. If the outcome is unknown, `OutcomeUnknown` is raised, the heartbeat stops, and the dead reservation stays for another
    process. If the storage fails during ``sweep``, the heartbeat stops, too, and a warning is logged. That error of the storage is not raised,
    because the decision stands, and an earlier error matters more to the caller.
    """
    try:
        yield Terms(what, seems_alive=lambda: transaction.heartbeat.is_young(transaction.context))
    except OutcomeUnknown:
        transaction.heartbeat.handle.cancel()
        raise
    except BaseException:
        _swept(transaction, what, sweep)
        raise
    _swept(transaction, what, sweep)


@contextmanager
def unknown_told(transaction: Transaction, happened: str, *, hint: str, instant: str | None = None) -> Iterator[None]:
    """Raise `CommitStateUnknownError` for a decision whose outcome is unknown. ``happened`` is a clause that says where the storage failed."""
    try:
        yield
    except OutcomeUnknown as unknown:
        raise CommitStateUnknownError(
            f"The storage failed while {happened}: {unknown.error.message}",
            token=transaction.token,
            table=transaction.context.table,
            instant=instant,
            hint=hint,
        ) from unknown.error


def _swept(transaction: Transaction, what: str, sweep: Callable[[], None]) -> None:
    """Stop the heartbeat, and call ``sweep``. Leftovers after a failure of ``sweep`` are harmless, because another process finds the dead
    reservation.
    """
    transaction.heartbeat.handle.cancel()
    tidy_up(what, transaction.context.table, sweep)


def reserved_intent(transaction: Transaction, timeline: Timeline, publications: Sequence[Publication]) -> StagedIntent:
    """Return the intent of a reservation that has no instant on the timeline. ``publications`` change properties and definitions, in this order."""
    time = completion_time_after(transaction.context, max(timeline.high_water_mark, transaction.requested_time))
    return staged_intent(transaction, publications, {}, completion_time=time)


def sweep_reservation(transaction: Transaction) -> None:
    """Remove the staged bytes of a decision, if there are any, and the reservation of the decision."""
    context = transaction.context
    transaction.heartbeat.handle.cancel()  # first, so that other processes see that the reservation is dead if a later step fails
    staged = context.root.list(f"{layout.STAGED}/{transaction.requested_time}-")
    context.root.delete_many(info.path for info in staged)
    transaction.heartbeat.stop(context)
