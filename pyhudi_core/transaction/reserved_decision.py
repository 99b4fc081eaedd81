"""A decision that a reservation stands for: a plan on its way to the timeline, a savepoint, the removal of a metadata table.

The requested time is reserved before the decision (``transaction/begin.py``), and the decision's intent names the reservation, the heartbeat file.
So if the process dies, another one finds the dead reservation, and publishes what was decided or sweeps up what was not (``rollback.repair``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.decision import OutcomeUnknown, Terms


@contextmanager
def deciding(transaction: Transaction, what: str, sweep: Callable[[], None]) -> Iterator[Terms]:
    """The terms of the decision (``what`` names it in messages), which is made inside this context, after its bytes are staged.

    ``sweep`` removes the staged bytes and the reservation. It is called at the end, also after an error; but not if the outcome is unknown: then
    `OutcomeUnknown` is raised, the heartbeat stops, and the dead reservation stays for another process.
    """
    try:
        yield Terms(what, seems_alive=lambda: transaction.heartbeat.is_young(transaction.context))
    except OutcomeUnknown:
        transaction.heartbeat.handle.cancel()
        raise
    except BaseException:
        sweep()
        raise
    sweep()
