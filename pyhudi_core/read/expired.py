"""The advice in the error of an expired read: the options that would have kept the missing files or commits.

A clean removes files by its policy, and archival removes commits from the active timeline, from which changes are read. So different options help; a
read of changes from a table with cleans needs both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.timeline.lost_files import cleaned_by, newest_policy, policy_of

_BEGIN = "To keep more, raise "
_OF_POLICY = {
    "KEEP_LATEST_COMMITS": "hoodie.clean.commits.retained",
    "KEEP_LATEST_BY_HOURS": "hoodie.clean.hours.retained",
    "KEEP_LATEST_FILE_VERSIONS": "hoodie.clean.fileversions.retained",
}
_OF_ANY_POLICY = "hoodie.clean.commits.retained (under another hoodie.clean.policy hoodie.clean.hours.retained or hoodie.clean.fileversions.retained)"
_OF_ARCHIVAL = "hoodie.keep.min.commits and hoodie.keep.max.commits"


def to_keep_files(policy: str = "") -> str:
    """Return the advice for keeping files of older states, if cleans have this policy (empty: unknown)."""
    return f"{_BEGIN}{_OF_POLICY.get(policy, _OF_ANY_POLICY)} of the table, or make a savepoint."


def to_keep_changes(policy: str | None = "") -> str:
    """Return the advice for keeping changes of older commits; ``policy`` is None if the table is not cleaned."""
    files = (
        "" if policy is None else f", and because the table is cleaned also {_OF_POLICY.get(policy, _OF_ANY_POLICY)}"
    )
    return f"{_BEGIN}{_OF_ARCHIVAL} of the table, so that its commits are archived later{files}."


def how_to_keep_more(error: SnapshotExpiredError) -> str:
    """Return the sentence of an error that says how to keep more, for errors that wrap it; empty if no option would have helped."""
    _, found, rest = (error.hint or "").partition(_BEGIN)
    return f"{found}{rest}"


@contextmanager
def naming_clean(folder: TimelineFolder) -> Iterator[None]:
    """Add the clean that deleted the missing file, and the option of its policy, to a `SnapshotExpiredError` raised inside, if a clean deleted the
    file.
    """
    try:
        yield
    except SnapshotExpiredError as error:
        clean = cleaned_by(folder, error.path) if error.path and error.instant is None else None
        if clean is not None:
            error.instant = clean.requested_time
            error.message = f"{error.message} by the clean {clean.requested_time}"
        policy = newest_policy(folder) if clean is None else policy_of(folder, clean)
        for to_keep in (to_keep_files, to_keep_changes):
            error.hint = (error.hint or "").replace(to_keep(), to_keep(policy or ""))
        raise
