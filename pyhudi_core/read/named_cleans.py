"""Errors of reads that miss a file name the clean that deleted it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.timeline.lost_files import cleaned_by


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
