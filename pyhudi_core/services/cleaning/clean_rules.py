"""Choose the commits that a clean keeps readable, and so the slices of a file group that it deletes. Pure.

Specification, "Cleaning", with Hudi's three policies. All policies have a **horizon**, which is a completion time: every state of the table from the
horizon on stays complete. The policy chooses the horizon: the completion time of the commit before the last N commits (`KEEP_LATEST_COMMITS`), or
some hours ago. The horizon is never later than a state that a pending write, a planned service or a slow reader may still read.

Hudi's plans have only requested times, so the horizon becomes the **earliest** commit to retain. Its requested time is the smallest among the commits
that completed after the horizon, and smaller than the requested time of every pending instant. A slice is deleted if its requested time is smaller
than the requested time of the earliest commit, unless it is the newest such slice of its group, or the newest slice of the group. Proof that every
state from the horizon on stays complete: assume that such a state shows slice s, and that a later slice q of the group is also older than the
earliest commit. The state does not contain q, so q completed after the horizon. So the earliest commit is not later than q, which contradicts the
assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi_core.model.instant import WRITE_ACTIONS, Action, Instant
from pyhudi_core.timeline.active import Timeline

ANY = "~"
"""A text that sorts after every time."""
_READING = WRITE_ACTIONS | {Action.INDEXING}
"""Actions that read files while they are pending."""
BY_COMMITS = "KEEP_LATEST_COMMITS"
BY_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True)
class Readers:
    """Readers of older states, in addition to the readers of the last commits.

    Attributes:
        reserved: requested times that writers hold and have not announced.
        since: the time from which states are kept for slow readers; empty if there is none.
    """

    reserved: tuple[str, ...] = ()
    since: str = ""


@dataclass(frozen=True, slots=True)
class Retained:
    """The limits of a clean. Slices with a requested time below ``before`` may be deleted. ``earliest`` is None if ``before`` is not the time of a
    commit. ``why_not``: why no file, or no other file, may be deleted. ``nothing``: whether no file may be deleted.
    """

    before: str = ANY
    earliest: Instant | None = None
    why_not: str = ""
    nothing: bool = False


def pending_times(timeline: Timeline, readers: Readers) -> list[str]:
    """Return the requested times of all writes and table services that may be reading files now."""
    pending = [instant.requested_time for instant in timeline.pending if instant.action in _READING]
    return [*pending, *readers.reserved]


def by_commits(timeline: Timeline, commits: int, readers: Readers) -> Retained:
    """Retain the states of the last ``commits`` commits, and the state before them, from which their changes are computed."""
    found = timeline.commits.instants
    if len(found) <= commits:
        has = f"{len(found)} commit{'s' * (len(found) != 1)}"
        return Retained(why_not=f"the timeline has {has}, and the policy keeps the last {commits}", nothing=True)
    return _retained(timeline, _completion(found[-commits - 1]), readers)


def by_time(timeline: Timeline, since: str, readers: Readers) -> Retained:
    """Retain every state from a time on."""
    return _retained(timeline, since, readers)


def by_versions(timeline: Timeline, readers: Readers) -> Retained:
    """Retain the slices that readers use now; the number of versions determines which other slices stay. A reader that began after the newest commit
    reads the newest state, whose slices always stay.
    """
    newest = max(map(_completion, timeline.commits), default="")
    held = [*pending_times(timeline, readers), *_savepoints_begun(timeline), *filter(None, [readers.since])]
    held = [time for time in held if time < newest]
    return _retained(timeline, min(held), readers) if held else Retained()


def _retained(timeline: Timeline, horizon: str, readers: Readers) -> Retained:
    commits = timeline.commits.instants
    if not commits:
        return Retained(why_not="the timeline has no commit", nothing=True)
    pending = min(pending_times(timeline, readers), default=ANY)
    horizon = min([horizon, pending, *_savepoints_begun(timeline), *filter(None, [readers.since])])
    why = f"{pending} is pending, and may read what it found when it began" if pending == horizon else ""
    if horizon in _savepoints_begun(timeline):
        why = "a savepoint was begun or half deleted; table.savepoints.delete(instant) removes it"
    kept = [instant for instant in commits if _completion(instant) > horizon] or [commits[-1]]
    earliest = min(kept, key=lambda instant: instant.requested_time)
    if earliest.requested_time < pending:
        return Retained(earliest.requested_time, earliest, why)
    why = why or f"{pending} is pending since before the commits that stay"
    older = [instant for instant in commits if instant.requested_time < pending]
    if not older:
        return Retained(why_not=why, nothing=True)
    earliest = max(older, key=lambda instant: instant.requested_time)
    return Retained(earliest.requested_time, earliest, why)


def _completion(instant: Instant) -> str:
    return instant.completion_time or instant.requested_time


def _savepoints_begun(timeline: Timeline) -> list[str]:
    """Return the completion times of commits for which a savepoint is being made. The files of such a savepoint are not known yet."""
    begun = {instant.requested_time for instant in timeline.pending if instant.action is Action.SAVEPOINT}
    return [_completion(instant) for instant in timeline.commits if instant.requested_time in begun] if begun else []


def removable(times: Sequence[str], before: str, versions: int = 1) -> frozenset[str]:
    """Return the slices of a file group that may be deleted. ``times`` names its slices, oldest first; the newest ``versions`` stay."""
    older = [time for time in times if time < before]
    kept = {*times[-versions:], *older[-1:]}
    return frozenset(time for time in older if time not in kept)
