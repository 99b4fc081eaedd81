"""Select the instants to archive. Pure: a function of the table's state and the options.

The oldest commits leave the active timeline first, until ``hoodie.keep.min.commits`` commits remain. A commit at or behind a limit stays. Most limits
are Hudi's. Four are this package's. A time that a writer has reserved but not announced counts as pending. The commit with the greatest completion
time stays, because the next completion time must be greater. The newest commit with the table's columns stays, because readers look for it. The
newest commit
without a savepoint stays: for readers the timeline begins with the first such commit, and older instants count as completed. Instants that the
trigger of compactions counts stay, too. Completed cleans and rollbacks are archived with the first newer commit. Savepoints, restores and indexing
stay. Commits that changed no rows (checkpoints of readers) do not count, unless the timeline would grow to twice its limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyhudi_core.model.instant import DATA_ACTIONS, WRITE_ACTIONS, Action, Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.timeline.active import Timeline

_GO_ALONG = frozenset({Action.CLEAN, Action.ROLLBACK})
_PENDING = WRITE_ACTIONS | {Action.ROLLBACK}
_EXTRA_FOR_CLEANING = 2
# Commits that changed no rows do not push other commits off the active timeline, but its length stays within this multiple of the limits.
_MOST = 2


@dataclass(frozen=True, slots=True)
class ArchivalRules:
    """The limits of the options. If a caller requested the run, ``keep_max`` is None, and only ``keep_min`` counts."""

    keep_min: int = 20
    keep_max: int | None = 30
    beyond_savepoint: bool = False


@dataclass(frozen=True, slots=True)
class MetadataTableInUse:
    """A metadata table that readers use, and the requested time of its last completed compaction."""

    last_compaction: str | None = None


@dataclass(frozen=True, slots=True)
class ArchivalState:
    """The facts that limit archival.

    Attributes:
        timeline: the active timeline without archived instants.
        reserved: requested times that writers hold and have not announced.
        uncleaned: requested times of replacecommits whose replaced files still exist.
        schema_commit: requested time of the newest commit with the table's columns.
        earliest_to_retain: the earliest commit that the last completed clean retained.
        metadata_table: the metadata table, if readers use one.
        compaction_from: requested time of the first instant that the trigger of compactions needs; None if there is no such trigger.
        empty: requested times of commits that changed no rows.
        data_first: for a metadata table, the first time on the timeline of its data table; None for a data table.
    """

    timeline: Timeline
    reserved: tuple[str, ...] = ()
    uncleaned: frozenset[str] = field(default=frozenset())
    schema_commit: str | None = None
    earliest_to_retain: str | None = None
    metadata_table: MetadataTableInUse | None = None
    compaction_from: str | None = None
    empty: frozenset[str] = field(default=frozenset())
    data_first: str | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """Instants from ``first`` on stay, because of ``reason``."""

    first: str
    reason: str


@dataclass(frozen=True, slots=True)
@printable
class ArchivalPlan:
    """The instants to archive, by requested time. If there are none, the plan is false and has the reason.

    ``due``: whether a commit would archive them now; otherwise ``trigger`` says when a commit will. ``files`` and ``bytes`` are the sizes of these
    instants on the active timeline, if they were counted.
    """

    instants: tuple[Instant, ...] = ()
    why_not: str = ""
    trigger: str = ""
    due: bool = False
    files: int = 0
    bytes: int = 0

    @property
    def figures(self) -> dict[str, int | float]:
        """Numbers of instants, of their files and bytes on the active timeline, and seconds."""
        figures = {"instants": len(self.instants), "files": self.files, "bytes": self.bytes}
        return with_seconds(figures, rewritten=self.bytes, files=self.files, instants=len(self.instants))

    def __bool__(self) -> bool:
        return bool(self.instants)

    def __str__(self) -> str:
        if not self.instants:
            return f"Nothing to archive: {self.why_not}"
        first, last = self.instants[0].requested_time, self.instants[-1].requested_time
        return f"Archive {len(self.instants)} instants, {first} to {last}" + (
            f"; {self.why_not}" if self.why_not else ""
        )


def plan_archival(state: ArchivalState, rules: ArchivalRules) -> ArchivalPlan:
    """Return the instants to archive now. ``why_not`` of the plan also names the limit that keeps the other instants."""
    restore = next((i for i in state.timeline if i.is_pending and i.action is Action.RESTORE), None)
    if restore is not None:
        return ArchivalPlan(why_not=f"the restore {restore.requested_time} is pending")
    saved = {i.requested_time for i in state.timeline if i.action is Action.SAVEPOINT}
    commits = [i for i in state.timeline if i.is_completed and i.action in DATA_ACTIONS]
    keep_min, keep_max = _kept(state, commits, rules)
    counted = sum(1 for i in commits if i.requested_time not in state.empty)
    if keep_max is not None and counted <= keep_max and len(commits) <= _MOST * keep_max:
        return ArchivalPlan(
            why_not=f"{len(commits)} completed commits are on the active timeline, and {keep_max} may be"
            + (
                f", where the {len(commits) - counted} that changed no rows do not count"
                if counted < len(commits)
                else ""
            )
        )
    oldest = commits[: _first_kept(commits, state.empty, keep_min)]
    if not oldest:
        return ArchivalPlan(
            why_not=f"{len(commits)} completed commits are on the active timeline, and the newest {keep_min} stay there"
        )
    limit = min(_limits(state, commits, rules), key=lambda limit: limit.first, default=None)
    allowed = [i for i in oldest if limit is None or i.requested_time < limit.first]
    chosen = [i for i in allowed if i.requested_time not in saved]
    why = limit.reason if limit is not None and len(allowed) < len(oldest) else ""
    if not chosen:
        return ArchivalPlan(why_not=why or "every commit that could go has a savepoint")
    highest = max(i.completion_time or "" for i in state.timeline if i.is_completed)
    along = [
        i
        for i in state.timeline
        if i.is_completed
        and i.action in _GO_ALONG
        and i.requested_time < chosen[-1].requested_time
        and (i.completion_time or highest) < highest
    ]
    return ArchivalPlan(tuple(sorted([*chosen, *along])), why)


def _kept(state: ArchivalState, commits: Sequence[Instant], rules: ArchivalRules) -> tuple[int, int | None]:
    """Return how many commits stay, and above which number of commits archival begins. Cleaning can need more than the options say."""
    keep_min, keep_max = rules.keep_min, rules.keep_max
    if state.earliest_to_retain:
        needed = sum(1 for i in commits if i.requested_time > state.earliest_to_retain) + _EXTRA_FOR_CLEANING
        more = max(0, needed - keep_min)
        return keep_min + more, None if keep_max is None else keep_max + more
    return keep_min, keep_max


def _first_kept(commits: Sequence[Instant], empty: frozenset[str], keep_min: int) -> int:
    """Return the position of the oldest of the newest ``keep_min`` commits that changed rows.

    Commits without changes stay with them, up to twice as many in all.
    """
    counted = 0
    for number in range(len(commits) - 1, -1, -1):
        if counted == keep_min or len(commits) - number > _MOST * keep_min:
            return number + 1
        counted += commits[number].requested_time not in empty
    return 0


def _limits(state: ArchivalState, commits: Sequence[Instant], rules: ArchivalRules) -> Iterator[Limit]:
    yield from _pending(state, commits)
    yield from _replaced(state, commits)
    yield from _metadata_table(state, commits)
    yield from _old_names(commits)
    yield from _unsaved(state, commits)
    if state.data_first is not None:
        yield Limit(state.data_first, f"{state.data_first} is on the timeline of the data table")
    newest = max(commits, key=lambda i: i.completion_time or "")
    yield Limit(newest.requested_time, f"{newest.requested_time} has the greatest completion time")
    if state.compaction_from is not None:
        yield Limit(state.compaction_from, "the instants since the last compaction say when the next one is due")
    if state.schema_commit is not None:
        yield Limit(state.schema_commit, f"{state.schema_commit} says what the table's columns are")
    if not rules.beyond_savepoint:
        saved = [i.requested_time for i in state.timeline if i.action is Action.SAVEPOINT]
        if saved:
            yield Limit(min(saved), f"{min(saved)} has a savepoint")


def _pending(state: ArchivalState, commits: Sequence[Instant]) -> Iterator[Limit]:
    """Yield a limit: the last completed commit before the earliest pending write stays, so that instants older than the first active one are
    archived.
    """
    pending = [i.requested_time for i in state.timeline if i.is_pending and i.action in _PENDING]
    earliest = min([*pending, *state.reserved], default=None)
    if earliest is None:
        return
    before = [i.requested_time for i in commits if i.requested_time < earliest]
    yield Limit(before[-1] if before else earliest, f"{earliest} is pending")


def _replaced(state: ArchivalState, commits: Sequence[Instant]) -> Iterator[Limit]:
    """Yield a limit: without the replacecommit, the replaced rows would reappear."""
    for instant in commits:
        if instant.requested_time in state.uncleaned:
            yield Limit(instant.requested_time, f"files that {instant.requested_time} replaced are not cleaned yet")
            return


def _metadata_table(state: ArchivalState, commits: Sequence[Instant]) -> Iterator[Limit]:
    """Yield a limit: entries that the metadata table has not compacted yet are valid only while their instant is on this timeline."""
    if state.metadata_table is None:
        return
    compacted = state.metadata_table.last_compaction
    for instant in commits:
        if compacted is None or (instant.completion_time or "") >= compacted:
            yield Limit(instant.requested_time, "the metadata table has not been compacted since")
            return


def _unsaved(state: ArchivalState, commits: Sequence[Instant]) -> Iterator[Limit]:
    """Yield a limit: without a commit that has no savepoint, Hudi cannot find the beginning of the timeline, and hides files of archived commits."""
    saved = {i.requested_time for i in state.timeline if i.action is Action.SAVEPOINT}
    unsaved = [i.requested_time for i in commits if i.requested_time not in saved]
    if unsaved:
        yield Limit(unsaved[-1], f"{unsaved[-1]} is the newest commit without a savepoint")


def _old_names(commits: Sequence[Instant]) -> Iterator[Limit]:
    """Yield a limit: completed files without a completion time were written before version 8."""
    for instant in commits:
        if instant.completion_time is None:
            yield Limit(instant.requested_time, f"{instant.requested_time} has no completion time in its name")
            return
