"""Folders with files of rows that wait for a write (`layout.ROWS`): who owns a folder, and whether the owner lives.

A write with such rows may have no instant yet. So the folder of the write has a heartbeat of its own, the file ``owner``. Folders of Spark's sinks
have no heartbeat: only Spark knows whether a sink lives, so only the age of the files counts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from pyhudi_core.errors import HudiError
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.transaction import heartbeat
from pyhudi_core.transaction.heartbeat import Heartbeat
from pyhudi_core.transaction.layout import ROWS

_log = logging.getLogger(__name__)
_LATE_MS = 1 << 42
"""A time later than all files (in the year 2109): every unfinished file counts as old, except files that a living process has open."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A folder for the rows of a write of this process, and the heartbeat of the folder."""

    folder: str
    beat: Heartbeat


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """A folder of waiting rows in the storage, and the files of the folder."""

    folder: str
    files: tuple[ObjectInfo, ...]

    @property
    def is_owned(self) -> bool:
        """Whether the owner keeps a heartbeat in the folder."""
        return any(info.path == _owner(self.folder) for info in self.files)

    @property
    def size(self) -> int:
        """The size of the files in bytes."""
        return sum(info.size for info in self.files)


def claim(context: TableContext) -> Claimed:
    """Make a folder for the rows of one write, and start the heartbeat of the folder."""
    nonce = context.runtime.ids.uuid()
    folder, body = f"{ROWS}/{nonce}", heartbeat.body(context, nonce)
    context.root.put(_owner(folder), body)
    return Claimed(folder, heartbeat.keep_young(context, _owner(folder), body))


def give_back(context: TableContext, claimed: Claimed) -> None:
    """Remove a folder of this process, and stop the heartbeat of the folder."""
    claimed.beat.handle.cancel()
    remove(context.root, claimed.folder)


def remove(storage: Storage, folder: str) -> None:
    """Remove the folder of an ended write. A failure is only logged, so that the commit does not look failed. A later sweep removes the files."""
    try:
        storage.delete_many([info.path for info in storage.list(f"{folder}/")])
        storage.sweep_temporaries(folder, 0, _LATE_MS)
        storage.remove_empty_folders(folder)
    except HudiError as error:
        _log.warning(
            "could not remove the rows of a write in %s of %s; a sweep will: %s", folder, storage.location, error
        )


def remove_dead(context: TableContext) -> None:
    """Remove the folders whose owner has died."""
    for rows in folders_of(context.root.list(f"{ROWS}/")):
        if rows.is_owned and has_died(context, rows, ask_storage=True):
            remove(context.root, rows.folder)


def folders_of(files: Iterable[ObjectInfo]) -> Iterator[WaitingRows]:
    """Group listed files below `layout.ROWS` by the folder of their write. ``files`` is sorted by path."""
    for folder, found in groupby(files, lambda info: info.path.rpartition("/")[0]):
        yield WaitingRows(folder, tuple(found))


def has_died(context: TableContext, rows: WaitingRows, *, ask_storage: bool = False) -> bool:
    """Say whether the owner is known to be dead; ``ask_storage`` as for `heartbeat.is_dead`."""
    return heartbeat.is_left(context, _owner(rows.folder), ask_storage=ask_storage)


def _owner(folder: str) -> str:
    return f"{folder}/owner"
