"""Which clean has deleted a file, for the errors of reads that need it (specification, "Cleaning").

Cleans of the active timeline are asked, the newest first. A pending clean may have deleted files of its plan already.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi_core.errors import CorruptionError, LimitExceededError, ObjectNotFoundError, SnapshotExpiredError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.file_names import split
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.timeline.active import TimelineFolder


@contextmanager
def naming_clean(folder: TimelineFolder) -> Iterator[None]:
    """Add the clean that deleted the missing file to a `SnapshotExpiredError` raised inside, if a clean did."""
    try:
        yield
    except SnapshotExpiredError as error:
        clean = cleaned_by(folder, error.path) if error.path and error.instant is None else None
        if clean is not None:
            error.instant = clean.requested_time
            error.message = f"{error.message} by the clean {clean.requested_time}"
        raise


def cleaned_by(folder: TimelineFolder, path: str) -> Instant | None:
    """The newest clean of the active timeline that deleted this file, or is deleting it; the path is relative to the table."""
    partition, name = split(path)
    for instant in reversed(folder.load().instants):
        if instant.action is Action.CLEAN and name in _deleted(folder, instant, partition):
            return instant
    return None


def _deleted(folder: TimelineFolder, clean: Instant, partition: str) -> frozenset[str]:
    """The names of the files that a clean deletes in a partition; none if its file cannot be read."""
    done = clean.is_completed
    path = folder.file(clean if done else Instant(clean.requested_time, Action.CLEAN, State.REQUESTED))
    try:
        data = folder.storage.get(path)
        record = decode_record(data, "HoodieCleanMetadata" if done else "HoodieCleanerPlan", path=path) if data else {}
    except (ObjectNotFoundError, CorruptionError, LimitExceededError):
        return frozenset()
    if done:
        entry = (record.get("partitionMetadata") or {}).get(partition) or {}
        return frozenset(name.rpartition("/")[2] for name in entry.get("successDeleteFiles") or ())
    infos = (record.get("filePathsToBeDeletedPerPartition") or {}).get(partition) or ()
    return frozenset((info.get("filePath") or "").rpartition("/")[2] for info in infos)
