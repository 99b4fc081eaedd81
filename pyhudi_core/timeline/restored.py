"""Find the instants that a restore undoes, by its plan (specification, "Restore"; `HoodieRestorePlan`).

As soon as a restore is inflight, readers omit the instants that it names, permanently. Restores are not archived, and a requested time is never
reused. A process that was paused during the restore may later create the completed file of an undone commit. Readers of this project still do not
show that commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyhudi_core.errors import CorruptTimelineError, ObjectNotFoundError
from pyhudi_core.lazy import lazy_call
from pyhudi_core.model.instant import WRITE_ACTIONS, Action, Instant, is_time
from pyhudi_core.storage.base import Storage

if TYPE_CHECKING:
    from pyhudi_core.formats.avro.container import decode_record
else:
    decode_record = lazy_call("pyhudi_core.formats.avro.container", "decode_record")

PLAN = "HoodieRestorePlan"
DONE = "HoodieRestoreMetadata"


def is_undone(instant: Instant, named: frozenset[str]) -> bool:
    """Say whether a restore undoes an instant: it names the requested time, and the instant is a write or a planned service. (Savepoints and cleans
    may have the same times.)
    """
    return instant.requested_time in named and instant.action in WRITE_ACTIONS


def named_by(storage: Storage, requested: str, completed: str | None) -> frozenset[str]:
    """Return the requested times that a restore undoes.

    Args:
        requested: the path of its plan.
        completed: the path of its completed file, which names the instants if the plan is missing; None if the restore is pending.

    Raises `CorruptionError` if the existing file cannot be read: then it is unknown which commits count.
    """
    for path, record in ((requested, PLAN), (completed, DONE)):
        data = _read(storage, path)
        if data:
            named = times_of(decode_record(data, record, path=path or "")["instantsToRollback"])
            if not all(map(is_time, named)):
                raise CorruptTimelineError(
                    "The plan of a restore names something else than a requested time",
                    path=path,
                    hint="Restore the file from a copy; until then it is not known which commits count.",
                )
            return frozenset(named)
    return frozenset()


def times_of(named: list[object]) -> list[str]:
    """Return the requested times in a restore's plan (which has records) or in a completed restore (which has texts)."""
    return [str(entry["commitTime"]) if isinstance(entry, dict) else str(entry) for entry in named]


def _read(storage: Storage, path: str | None) -> bytes:
    try:
        return storage.get(path) if path is not None else b""
    except ObjectNotFoundError:
        return b""


def begun(files: list[Instant]) -> dict[str, Instant]:
    """Return the inflight and completed restores among the files of a timeline, by requested time."""
    found = sorted((i for i in files if i.action is Action.RESTORE and i.rank), key=lambda instant: instant.rank)
    return {instant.requested_time: instant for instant in found}
