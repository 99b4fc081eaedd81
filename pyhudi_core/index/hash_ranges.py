"""Find the valid ranges of hashes of a state, if the table uses consistent hashing."""

from __future__ import annotations

from functools import partial

from pyhudi_core.index.hashing_metadata import HashingMetadata, is_consistent, load
from pyhudi_core.model.properties import TableType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.snapshot.snapshot import Snapshot


def has_consistent_hashing(context: TableContext, snapshot: Snapshot | None = None) -> bool:
    """Return whether the table has the metadata of consistent hashing. Only merge-on-read tables can have it.

    ``snapshot``: a state that may have the answer; if not, a folder is listed.
    """
    if context.config.table_type is not TableType.MERGE_ON_READ:
        return False
    known = None if snapshot is None else snapshot.hashed
    return is_consistent(context.storage) if known is None else known


def ranges_of(context: TableContext, snapshot: Snapshot, partition: str) -> HashingMetadata | None:
    """Return the ranges of a partition as of the snapshot; None if it has none. Raises `CorruptionError`."""
    return load(context.storage, partition, partial(has_completed, snapshot), context.folder.undone)


def has_completed(snapshot: Snapshot, time: str) -> bool:
    """Return whether the instant of a commit is completed, on the active or the archived timeline."""
    visibility = snapshot.visibility
    archived = visibility.history is not None and snapshot.timeline.has_history and visibility.history.find(time)
    return visibility.is_active(time) or bool(archived)
