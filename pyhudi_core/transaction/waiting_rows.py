"""Folders of rows that wait for a write in files (`layout.ROWS`): who owns one, and whether the owner lives.

A write with such rows may have no instant yet. So its folder has a heartbeat of its own, a file ``owner``. Spark's sinks have none: only Spark knows
whether they live, so they are judged by the age of their files alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyhudi_core.errors import HudiError
from pyhudi_core.runtime.base import TimerHandle
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.transaction import heartbeat
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.layout import ROWS

_log = logging.getLogger(__name__)
_OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A folder of this process; the timer keeps its heartbeat young."""

    folder: str
    timer: TimerHandle


def claim(context: TableContext) -> Claimed:
    """Make a folder for the rows of one write."""
    nonce = context.runtime.ids.uuid()
    folder, body = f"{ROWS}/{nonce}", heartbeat.body(context, nonce)
    path = f"{folder}/{_OWNER}"
    context.root.put(path, body)

    def beat() -> None:
        if context.root.head(path) is not None:
            context.root.put(path, body)

    seconds = context.options.heartbeat.interval_ms / 1000
    return Claimed(folder, context.runtime.timer.every(seconds, beat, f"rows {nonce}"))


def remove(storage: Storage, folder: str, now_ms: int) -> None:
    """Remove a folder after its write. What stays is swept some day, so a failure is logged, and does not make a commit look failed."""
    try:
        storage.delete_many([info.path for info in storage.list(f"{folder}/")])
        storage.sweep_temporaries(folder, 0, now_ms)
        storage.remove_empty_folders(folder)
    except HudiError as error:
        _log.warning(
            "could not remove the rows of a write in %s of %s; a sweep will: %s", folder, storage.location, error
        )


def remove_dead(context: TableContext) -> None:
    """Remove the folders whose owner has died."""
    now_ms = context.runtime.clock.now_ms()
    for folder, infos in by_folder(context.root.list(f"{ROWS}/")).items():
        if is_dead(context, infos, now_ms):
            remove(context.root, folder, now_ms)


def by_folder(rows: Iterable[ObjectInfo]) -> dict[str, list[ObjectInfo]]:
    """The files below `layout.ROWS` by the folder of their write."""
    folders: dict[str, list[ObjectInfo]] = {}
    for info in rows:
        folders.setdefault(info.path.rpartition("/")[0], []).append(info)
    return folders


def is_dead(context: TableContext, infos: Sequence[ObjectInfo], now_ms: int) -> bool | None:
    """Whether the owner of a folder with these files has died; None if it has no owner that says so."""
    owner = next((info for info in infos if info.path.endswith(f"/{_OWNER}")), None)
    if owner is None:
        return None
    if now_ms - owner.modified_ms > context.options.heartbeat.expires_after_ms:
        return True
    try:
        process = json.loads(context.root.get(owner.path)).get("process", "")
    except (HudiError, ValueError, AttributeError, RecursionError):
        return False
    return bool(process) and context.runtime.process.is_gone(str(process))
