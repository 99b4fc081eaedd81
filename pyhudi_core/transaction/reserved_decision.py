"""A decision that depends on a reservation instead of an inflight file: a new plan, a savepoint, the removal of a metadata table.

The requested time is reserved before the decision (``transaction/begin.py``), and the decision's intent names the reservation, the heartbeat file. So
if the process dies, another process finds the dead reservation. It publishes the decision if it was made, and otherwise removes the leftovers
(``rollback.repair``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyhudi_core.errors import CommitStateUnknownError, HudiError
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout
from pyhudi_core.transaction.begin import Transaction, completion_time_after
from pyhudi_core.transaction.decision import OutcomeUnknown, StagedIntent, Terms, staged_intent
from pyhudi_core.transaction.record import Publication

_log = logging.getLogger(__name__)


@contextmanager
def deciding(transaction: Transaction, what: str, sweep: Callable[[], None]) -> Iterator[Terms]:
    """The terms of a decision. The caller stages its bytes, and makes the decision inside this context. ``what`` names it in messages.

    ``sweep`` removes the staged bytes and the reservation. It is called at the end, also after an error, but not if the outcome is unknown. Then
    `OutcomeUnknown` is raised, the heartbeat stops, and the dead reservation stays for another process. If the storage fails during the sweep, the
    heartbeat stops, too, and the log has a warning, because the decision stands, and an earlier error matters more to the caller.
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
    """Sweep. Leftovers of a failure are harmless, because the heartbeat stops first: another process finds the dead reservation."""
    transaction.heartbeat.handle.cancel()
    tidy_up(what, transaction.context.table, sweep)


def tidy_up(what: str, table: str, remove: Callable[[], object]) -> None:
    """Remove what is not needed after a decision. If that fails, it stays, with a warning: the decision stands, and nobody reads what stays."""
    try:
        remove()
    except HudiError as error:
        _log.warning("could not sweep up after '%s' in %s: %s", what, table, error)


def reserved_intent(transaction: Transaction, timeline: Timeline, publications: Sequence[Publication]) -> StagedIntent:
    """Return the intent of a reservation without an instant on the timeline: changes of the properties and of definitions, in their order."""
    time = completion_time_after(transaction.context, max(timeline.high_water_mark, transaction.requested_time))
    return staged_intent(transaction, publications, {}, completion_time=time)


def sweep_reservation(transaction: Transaction) -> None:
    """Remove the staged bytes of a decision, if there are any, and its reservation."""
    context = transaction.context
    transaction.heartbeat.handle.cancel()  # first: if the rest fails, other processes must see that the reservation is dead
    staged = context.root.list(f"{layout.STAGED}/{transaction.requested_time}-")
    context.root.delete_many(info.path for info in staged)
    transaction.heartbeat.stop(context)
