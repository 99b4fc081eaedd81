"""Sweep the hidden files that killed processes leave on a disk while they write an object.

Looking everywhere costs a walk over the table, so it is done only when a dead process has left a trace that says that it wrote; the folder in
which such traces begin is looked at before every write.

The death of a process of this machine is known at once. At that time its files cannot be distinguished from files that running processes write. So a
small file records the death until it is longer ago than any write may take, and then the folders are searched (again).
"""

from __future__ import annotations

from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.transaction import layout


def remember(context: TableContext, requested_time: str) -> None:
    """Note that the process of an instant is dead, and may have left hidden files that are still too young to be swept."""
    storage = context.root
    if storage.capabilities.temporaries:
        storage.put(f"{layout.UNSWEPT}/{requested_time}", b"")


def sweep(context: TableContext, everywhere: bool) -> list[str]:
    """Remove temporary files that are older than a heartbeat may be; returns their paths."""
    storage = context.root
    if not storage.capabilities.temporaries:
        return []
    limit = context.options.heartbeat.expires_after_ms
    now = context.runtime.clock.now_ms()
    due = [info.path for info in storage.list(f"{layout.UNSWEPT}/") if now - info.modified_ms > limit]
    if not (everywhere or due):
        hoodie = storage.sweep_temporaries(".hoodie", limit, now, deep=False)
        return hoodie + storage.sweep_temporaries(layout.HEARTBEATS, limit, now, deep=False)
    swept = storage.sweep_temporaries("", limit, now)
    storage.delete_many(due)
    return swept
