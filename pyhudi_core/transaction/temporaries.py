"""Sweep the hidden files that killed processes leave on a disk while they write an object.

Looking everywhere costs a walk over the table, so it is done only when a dead process has left a trace that says that it wrote; the folder in
which such traces begin is looked at before every write.
"""

from __future__ import annotations

from pyhudi_core.storage.local_files import SweepsTemporaries
from pyhudi_core.transaction import layout
from pyhudi_core.transaction.context import TableContext


def sweep(context: TableContext, everywhere: bool) -> list[str]:
    """Remove temporary files that are older than a heartbeat may be; returns their paths."""
    storage = context.storage
    if not isinstance(storage, SweepsTemporaries):
        return []
    limit = context.options.heartbeat_interval_ms * context.options.heartbeat_tolerable_misses
    now = context.runtime.clock.now_ms()
    if everywhere:
        return storage.sweep_temporaries("", limit, now)
    hoodie = storage.sweep_temporaries(".hoodie", limit, now, deep=False)
    return hoodie + storage.sweep_temporaries(layout.HEARTBEATS, limit, now, deep=False)
