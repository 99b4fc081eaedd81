"""Hold the table's lock for a few steps, and give it back whatever happens in them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyhudi_core.errors import HudiError, at_table
from pyhudi_core.lock.base import LockSession, lease_left_s
from pyhudi_core.transaction.context import TableContext

_log = logging.getLogger(__name__)
_ATTEMPTS = 3


@contextmanager
def holding_lock(context: TableContext, purpose: str) -> Iterator[Callable[[], float]]:
    """Wait for the lock and hold it; gives what tells the seconds that it is still ours. Raises `LockTimeoutError` that says which table it
    is about.
    """
    if not context.protections.lock:
        yield lambda: float("inf")
        return
    with at_table(context.table):
        session = context.lock.acquire(context.options.lock.wait_ms / 1000, purpose)
    try:
        yield lambda: lease_left_s(session)
    finally:
        give_back(context, session)


def give_back(context: TableContext, session: LockSession) -> None:
    """What was decided under the lock stands, so a lock that cannot be given back must not look like a failure of that."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            session.release()
        except HudiError as error:
            if attempt == _ATTEMPTS:
                _log.warning("could not give back the lock of %s: %s", context.table, error)
        else:
            return
