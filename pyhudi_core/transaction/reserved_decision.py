"""A decision that a reservation stands for: a plan on its way to the timeline, a savepoint, the removal of a metadata table.

The requested time is reserved before the decision (``transaction/begin.py``), and the decision's intent names the reservation, the heartbeat file.
So if the process dies, another one finds the dead reservation, and publishes what was decided or sweeps up what was not (``rollback.repair``).
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
    """The terms of the decision (``what`` names it in messages), which is made inside this context, after its bytes are staged.

    ``sweep`` removes the staged bytes and the reservation. It is called at the end, also after an error; but not if the outcome is unknown: then
    `OutcomeUnknown` is raised, the heartbeat stops, and the dead reservation stays for another process. If the storage fails during the sweep, the
    heartbeat stops, too, and the log has a warning: what was decided is decided, and an earlier error is the one that the caller needs.
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
    """Raise `CommitStateUnknownError` for a decision whose outcome is not known. ``happened`` says what the storage failed at, as a clause."""
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
    """Sweep. What stays behind if this fails is harmless, because the heartbeat stops first: another process finds the dead reservation."""
    transaction.heartbeat.handle.cancel()
    tidy_up(what, transaction.context.table, sweep)


def tidy_up(what: str, table: str, remove: Callable[[], object]) -> None:
    """Remove what is not needed after a decision. If that fails, it stays, with a warning: the decision stands, and nobody reads what stays."""
    try:
        remove()
    except HudiError as error:
        _log.warning("could not sweep up after '%s' in %s: %s", what, table, error)


def reserved_intent(transaction: Transaction, timeline: Timeline, publications: Sequence[Publication]) -> StagedIntent:
    """Return what a reservation decides without an instant on the timeline: changes of the properties and of definitions, in their order."""
    time = completion_time_after(transaction.context, max(timeline.high_water_mark, transaction.requested_time))
    return staged_intent(transaction, publications, {}, completion_time=time)


def sweep_reservation(transaction: Transaction) -> None:
    """Remove the staged bytes of a decision, if there are some, and its reservation."""
    context = transaction.context
    transaction.heartbeat.handle.cancel()  # first: if the rest fails, others must see that the reservation is dead
    staged = context.root.list(f"{layout.STAGED}/{transaction.requested_time}-")
    context.root.delete_many(info.path for info in staged)
    transaction.heartbeat.stop(context)
