"""Make, list and delete savepoints (specification, "Timeline": savepoint). `timeline.savepoints` explains and reads savepoints.

A savepoint is decided under the table's lock, like a commit. It is refused if files of its state are already cleaned, or if a pending clean will
delete them; a later clean sees the savepoint. So the files of a savepoint stay until the savepoint is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from pyhudi_core.argument_types import OfTable
from pyhudi_core.conflicts.concurrent import conflict_error, refuse_pending_restore
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind
from pyhudi_core.errors import (
    CommitConflictError,
    InvalidOptionError,
    ObjectNotFoundError,
    UnsupportedTableError,
    at_table,
)
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.model.file_names import join
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.bounds import CommitLike
from pyhudi_core.read.snapshots import snapshot
from pyhudi_core.savepoints.savepoint_files import RECORD, TAGGED_BY, Savepoint, read_savepoints
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, heartbeat, layout
from pyhudi_core.transaction.begin import Transaction, completion_time_after
from pyhudi_core.transaction.decision import StagedIntent, Terms, decide, staged_intent
from pyhudi_core.transaction.instant_removal import files_of_instant, remove_files, remove_instant
from pyhudi_core.transaction.record import Publication
from pyhudi_core.transaction.reserved_decision import deciding, unknown_told
from pyhudi_core.write.retrying import Retries

CommitPoint = Instant | CommitLike | str
"""The name of a commit of a table: an instant, the result of a write, or a requested time."""
_LEFT_AFTER_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
@printable
class Savepoints(OfTable):
    """The savepoints of one table. Iterating reads them, the oldest commit first."""

    _METHODS: ClassVar[str] = ".create(instant), or iterate over it"

    context: TableContext

    def __iter__(self) -> Iterator[Savepoint]:
        with at_table(self.context.table):
            return iter(read_savepoints(self.context.folder, self.context.folder.load()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __str__(self) -> str:
        found = ", ".join(savepoint.instant for savepoint in self)
        return f"Savepoints of {self.context.table}: {found or 'none'}"

    def _shown(self) -> list[dict[str, object]]:
        return [
            {"commit": one.instant, "by": one.created_by, "files": len(one.paths), "comment": one.comment}
            for one in self
        ]

    def create(self, instant: CommitPoint | None = None, comment: str = "", created_by: str = "pyhudi") -> Savepoint:
        """Make a savepoint of a completed commit, by default of the newest commit. If the commit already has a savepoint, return that savepoint.

        Raises `InvalidOptionError` if there is no such commit, `UnsupportedTableError` if it has a tag, `SnapshotExpiredError` if files of its state
        are cleaned already, and `CommitConflictError` if a clean will delete some of them. After such an error nothing has changed.
        """
        with at_table(self.context.table), Retries(self.context) as retries:
            return retries.until_done(lambda: _create(reopened(self.context), instant, comment, created_by))

    def delete(self, instant: CommitPoint) -> bool:
        """Delete the savepoint of a commit: from now on cleaning may delete its files. Returns False if the commit has none.

        Given a savepoint of this list, it deletes only that one, and not a newer savepoint of the same commit.
        """
        context = reopened(self.context)
        with at_table(context.table):
            time = time_of(instant)
        found: list[Instant] = []

        def remove(timeline: Timeline) -> None:
            if isinstance(instant, Savepoint) and not any(_is_of(i, instant) for i in timeline.completed):
                return
            found.extend(files_of_instant(context.folder, time, {Action.SAVEPOINT}))
            # The completed file is deleted last: if this process dies before, the savepoint still exists, and does not look half made.
            remove_files(context.folder, reversed(found))

        with at_table(context.table):
            decide(context, remove, lambda _: None, Terms(f"delete the savepoint {time}"))
        return bool(found)


def _is_of(instant: Instant, savepoint: Savepoint) -> bool:
    named = (instant.requested_time, instant.completion_time or "")
    return instant.action is Action.SAVEPOINT and named == (savepoint.instant, savepoint.completion_time)


def half_made(context: TableContext, timeline: Timeline, now_ms: int) -> tuple[Instant, ...]:
    """Return the savepoints that a process left half made or half deleted: their inflight file is a day old.

    Savepoints have no heartbeat, and Hudi keeps a savepoint inflight while it lists the files of the table, which takes long for a large table.
    Savepoints of this package are published in one decision, which any process finishes.
    """
    infos = [
        (i, context.storage.head(context.folder.file(i))) for i in timeline.pending if i.action is Action.SAVEPOINT
    ]
    limit = max(_LEFT_AFTER_MS, context.options.heartbeat.expires_after_ms)
    return tuple(i for i, info in infos if info is not None and now_ms - info.modified_ms > limit)


def remove_half_made(context: TableContext) -> tuple[Instant, ...]:
    """Remove half made savepoints under the lock, and return them. A savepoint whose decision was made is not removed, but published."""
    removed: list[Instant] = []
    if not half_made(context, context.folder.load(), context.runtime.clock.now_ms()):
        return ()
    now_ms = heartbeat.storage_time_ms(context)  # the storage dates the files, and this machine's clock may be wrong

    def remove(timeline: Timeline) -> None:
        for found in half_made(context, timeline, now_ms):
            removed.extend(remove_instant(context.folder, found.requested_time, {Action.SAVEPOINT}))

    with at_table(context.table):
        decide(context, remove, lambda _: None, Terms("remove savepoints that are half made"))
    return tuple(removed)


def time_of(point: CommitPoint) -> str:
    """Return the requested time of a commit, given as an instant, as the result of a write, or as the time itself."""
    if isinstance(point, str):
        return point
    if isinstance(point, Instant):
        return point.requested_time
    named = getattr(point, "instant", None)
    if not isinstance(named, str):
        raise InvalidOptionError(
            f"{point!r} ({type(point).__name__}) does not name a commit",
            hint="Give an instant of table.timeline, what a write returned, or the digits of an instant as text.",
        )
    return named


_HINT = "Give one of table.timeline.commits, or its requested time."


def saved_commit(context: TableContext, timeline: Timeline, instant: CommitPoint | None, hint: str = _HINT) -> Instant:
    """Return the completed commit that an instant, a commit or a requested time names; None: the newest.

    Raises `InvalidOptionError` if there is none.
    """
    if instant is None:
        commits = timeline.commits
        if len(commits):
            return commits[-1]
        raise InvalidOptionError("The table has no commit", table=context.table, hint="Write to it first.")
    time = time_of(instant)
    found = next((i for i in timeline if i.requested_time == time and i.action in DATA_ACTIONS), None)
    if found is not None and found.is_completed:
        return found
    archived = isinstance(time, str) and context.folder.archived(timeline, time) is not None
    what = "is archived" if archived else "has not completed" if found is not None else "is not on the timeline"
    raise InvalidOptionError(
        f"{str(time)[:80]!r} {what}, so it is no commit that a state of the table can be named by",
        table=context.table,
        hint=hint,
    )


def _create(context: TableContext, instant: CommitPoint | None, comment: str, created_by: str) -> Savepoint:
    """Return one attempt."""
    timeline = context.folder.load()
    commit = saved_commit(context, timeline, instant)
    known = known_savepoint(context, timeline, commit.requested_time, created_by)
    if known is not None:
        return known
    refuse_pending_restore(context, timeline)
    state = snapshot(context, commit)
    files: dict[str, list[str]] = {}
    for piece in state.view.all_slices():
        files.setdefault(piece.partition, []).extend(str(file.name) for file in piece.files)
    created_ms = context.runtime.clock.now_ms()
    named = {partition: tuple(sorted(names)) for partition, names in sorted(files.items())}
    savepoint = Savepoint(commit.requested_time, "", created_by, comment, created_ms, named)
    return _Creating(begin.reserve(context, Action.SAVEPOINT), commit, state, savepoint).run()


def known_savepoint(context: TableContext, timeline: Timeline, time: str, created_by: str) -> Savepoint | None:
    """Return the savepoint of a commit. Raises `UnsupportedTableError` if it is a tag, because the caller needs a savepoint that stays."""
    known = next((found for found in read_savepoints(context.folder, timeline) if found.instant == time), None)
    if known is not None and known.created_by == TAGGED_BY != created_by:
        raise UnsupportedTableError(
            f"The commit {time} has a tag ({known.comment}), which its schedule deletes",
            table=context.table,
            instant=time,
            hint=f"Delete the tag, table.savepoints.delete('{time}'), and try again: that makes a savepoint that stays.",
        )
    return known


@dataclass(slots=True)
class _Creating:
    """A savepoint that is not on the timeline yet. Until then, its reservation protects it."""

    transaction: Transaction
    commit: Instant
    state: Snapshot
    savepoint: Savepoint

    def run(self) -> Savepoint:
        """Decide and publish it."""
        transaction = self.transaction
        context = transaction.context
        time = self.commit.requested_time
        with (
            unknown_told(
                transaction,
                "the savepoint was decided",
                hint="table.savepoints shows whether it is there; make it again if not.",
                instant=time,
            ),
            deciding(transaction, f"savepoint of {time}", self._sweep) as terms,
        ):
            for path, body in self._bodies().items():
                context.root.put(path, body)
            decide(context, self._intent, self._refuse_changed, terms)
        made = known_savepoint(context, context.folder.load(), time, self.savepoint.created_by)
        if made is None:
            raise CommitConflictError(
                "Another process took this one for dead", table=context.table, instant=time, hint="Try again."
            )
        return made

    @property
    def _staged(self) -> tuple[str, str]:
        """The staging paths of the inflight and of the completed file."""
        prefix = layout.staged(self.transaction.requested_time, self.transaction.nonce)
        return f"{prefix}.inflight", prefix

    def _bodies(self) -> dict[str, bytes]:
        inflight, completed = self._staged
        body = encode_record(RECORD, self.savepoint.to_avro(), sync_marker=self.transaction.sync_marker)
        return {inflight: b"", completed: body}

    def _sweep(self) -> None:
        context = self.transaction.context
        self.transaction.heartbeat.handle.cancel()
        context.root.delete_many(self._staged)
        self.transaction.heartbeat.stop(context)

    def _intent(self, timeline: Timeline) -> StagedIntent | None:
        """Return the decision for this timeline; None if the commit has a savepoint by now."""
        transaction = self.transaction
        context, time = transaction.context, self.commit.requested_time
        if any(i.is_completed and i.requested_time == time and i.action is Action.SAVEPOINT for i in timeline):
            return None
        highest = max(timeline.high_water_mark, transaction.requested_time, begin.companions_high_water_mark(context))
        done = completion_time_after(context, highest)
        inflight = Instant(time, Action.SAVEPOINT, State.INFLIGHT)
        paths = [
            context.from_root(context.folder.file(instant))
            for instant in (inflight, replace(inflight, state=State.COMPLETED, completion_time=done))
        ]
        publications = [Publication(path, staged) for path, staged in zip(paths, self._staged, strict=True)]
        bodies = dict(zip(paths, self._bodies().values(), strict=True))
        return staged_intent(transaction, publications, bodies, completion_time=done)

    def _refuse_changed(self, found: Timeline) -> None:
        """Raise `CommitConflictError`, under the lock, unless the commit is there, and no file of its state was or will be cleaned."""
        context = self.transaction.context
        refuse_pending_restore(context, found)
        if self.commit not in found.instants:
            raise CommitConflictError(
                "The commit was archived or removed while its savepoint was made",
                table=context.table,
                instant=self.commit.requested_time,
                hint="Nothing was published; look at table.timeline.",
            )
        known = set(self.state.timeline.completed)
        cleans = [i for i in found if i.action is Action.CLEAN and i not in known]
        for clean in cleans:
            if clean.is_completed or files_to_clean(context, clean) & self.savepoint.paths:
                conflict = Conflict(ConflictKind.OPERATION, clean, operation=OperationType.CLEAN)
                raise conflict_error(context, conflict, self.commit.requested_time)


def files_to_clean(context: TableContext, clean: Instant) -> frozenset[str]:
    """Return the paths of the files that a pending clean will delete; plans have names, paths or URIs. Raises `CorruptionError`."""
    path = context.folder.file(Instant(clean.requested_time, Action.CLEAN, State.REQUESTED))
    try:
        plan = decode_record(context.storage.get(path), "HoodieCleanerPlan", path=path)
    except ObjectNotFoundError:
        return frozenset()
    named = {
        partition: [entry["filePath"] or "" for entry in entries or ()]
        for partition, entries in (plan.get("filePathsToBeDeletedPerPartition") or {}).items()
    }
    for partition, names in (plan.get("filesToBeDeletedPerPartition") or {}).items():
        named.setdefault(partition, []).extend(names or ())
    return frozenset(join(part, name.rpartition("/")[2]) for part, names in named.items() for name in names)
