"""Take over commits that only the old timeline of a raised table has, if no later write was made without them.

Hudi's upgrade omits a file that it cannot read, and a writer of an old release that did not notice the upgrade writes to the old timeline. Readers
ignore the files of such a commit.

A commit is taken over unchanged, with the current time as completion time, so that readers of changes get its rows. This is correct only if its files
are the next ones in each of their file groups, and if none of its new keys is now in another file group. Every other commit stays on the old
timeline, and is reported with the reason. The decision also unlists the metadata table, which does not know the commit; the metadata table is made
again afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import CommitConflictError, CorruptionError, StorageError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.index.base import NOT_FOUND
from pyhudi_core.index.key_files import FileLookUp, IndexedFiles, no_logs
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.meta_fields import COMMIT_TIME, RECORD_KEY
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.model.properties import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT, TableConfig
from pyhudi_core.model.version_changes import VERSION
from pyhudi_core.opened_table.old_timeline import files_of, left_behind, remove_files
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.service import Execution
from pyhudi_core.services.versions.conversion import in_avro
from pyhudi_core.snapshot.snapshot import Snapshot, build
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.layout_one.layout import LayoutOne
from pyhudi_core.transaction import begin
from pyhudi_core.transaction.begin import Transaction, completion_time_after
from pyhudi_core.transaction.commit import ask_gate, tidy_up
from pyhudi_core.transaction.decision import StagedIntent, decide, staged_intent
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import deciding, sweep_reservation, unknown_told
from pyhudi_core.write.first_metadata.metadata_staging import Staging

_log = logging.getLogger(__name__)
_UNLISTED = {METADATA_PARTITIONS: None, METADATA_PARTITIONS_INFLIGHT: None}
_NEW = ("", "null")
"""The previous commit in the entry of the first file of a file group."""


@dataclass(frozen=True, slots=True)
class LeftCommit:
    """A commit that only the old timeline has.

    Attributes:
        instant: its instant on the old timeline.
        files: its files on the old timeline, each with its instant.
        why_not: why it cannot be taken over; empty if it can.
        rows: the number of rows that it wrote, as the commit says.
    """

    instant: Instant
    files: tuple[tuple[str, Instant], ...]
    why_not: str = ""
    rows: int = 0

    def __str__(self) -> str:
        return f"{self.instant.action} {self.instant.requested_time} ({self.rows:,} rows)"


def find(context: TableContext) -> list[LeftCommit]:
    """Return the commits that are only on the old timeline, oldest first, each checked against the current table. Changes nothing."""
    if context.config.timeline_layout == 1 or not context.config.was_raised:
        return []
    found = sorted(left_behind(context.folder), key=lambda instant: instant.requested_time)
    if not found:
        return []
    timeline = context.folder.load()
    # The folders are listed: a metadata table may contain such a commit, and then it could not give a snapshot without the commit.
    config = context.config.with_properties(_UNLISTED, table=context.table)
    snapshot = build(context.storage, context.folder, config, timeline, executor=context.runtime.executor)
    return [_judged(context, instant, snapshot, timeline) for instant in found]


def _judged(context: TableContext, instant: Instant, snapshot: Snapshot, timeline: Timeline) -> LeftCommit:
    files = files_of(context.folder, instant)
    path = files[-1][0]
    try:
        commit = LayoutOne().decode(context.storage.get(path), instant, path)
    except CorruptionError as error:
        return LeftCommit(instant, files, f"its file cannot be read: {error.message}")
    rows = sum(stat.rows for stat in commit.stats)
    return LeftCommit(instant, files, next(_reasons(context, instant, commit, snapshot, timeline), ""), rows)


def _reasons(
    context: TableContext, instant: Instant, commit: CommitMetadata, snapshot: Snapshot, timeline: Timeline
) -> Iterator[str]:
    """Yield the reasons against taking a commit over; cheap checks come first."""
    if commit.operation in SERVICE_OPERATIONS:
        yield "it is a table service, which changed no row: its rows are where they were"
    if instant.action is Action.REPLACECOMMIT:
        yield "it replaces file groups, which may have been written since"
    if not context.config.populate_meta_fields:
        yield "the table has no meta columns, so that its rows cannot be told apart"
    archived = context.folder.history.newest_completion("9" * 17) if timeline.has_history else ""
    if archived > instant.requested_time:
        yield "newer commits are archived, so that readers would take it for one of them"
    partitions = {stat.partition for stat in commit.stats}
    pieces = {piece.group: piece for piece in snapshot.view.all_slices(partitions & {*snapshot.view.partitions()})}
    for stat in commit.stats:
        if stat.path and (why := _why_not_next(context, instant, stat, pieces.get((stat.partition, stat.file_id)))):
            yield f"{why} ({stat.path})"
    own = {(stat.partition, stat.file_id) for stat in commit.stats}
    for partition in sorted(partitions):
        others = [piece for piece in pieces.values() if piece.partition == partition and piece.group not in own]
        if known := _keys_elsewhere(context, instant, commit, partition, others):
            yield f"{known:,} of its keys are in other file groups by now"


def _why_not_next(context: TableContext, instant: Instant, stat: WriteStat, piece: FileSlice | None) -> str:
    """Say why a file is not the next file of its file group; ``piece`` is the newest slice of the group."""
    info = context.storage.head(stat.path)
    if info is None:
        return "a file of it is gone"
    name = parse_data_file(split(stat.path)[1])
    if isinstance(name, LogFileName):
        below = instant.requested_time if piece is None else piece.requested_time
        since = () if piece is None else [log for log in piece.logs if log.name.requested_time > instant.requested_time]
        return "" if name.requested_time == below and not since else "its file group was written since"
    if not isinstance(name, BaseFileName) or (stat.size and info.size != stat.size):
        return "a file of it has another size than the commit says"
    before = stat.prev_commit in _NEW if piece is None else piece.requested_time == stat.prev_commit and not piece.logs
    return "" if before else "its file group was written since"


def _keys_elsewhere(
    context: TableContext, instant: Instant, commit: CommitMetadata, partition: str, others: Sequence[FileSlice]
) -> int:
    """Return how many keys of rows in the commit's base files of a partition are in other file groups."""
    keys = [RECORD_KEY, COMMIT_TIME]
    found = []
    for stat in commit.stats:
        if stat.partition == partition and isinstance(parse_data_file(split(stat.path)[1]), BaseFileName) and others:
            with context.storage.open_input(stat.path) as source:
                rows = pa.Table.from_batches(BaseFileReader(source, stat.path, keys).iter_batches())
            found.append(rows.filter(pc.equal(rows[COMMIT_TIME], instant.requested_time))[RECORD_KEY])
    if not found:
        return 0
    wanted = pa.chunked_array([chunk for column in found for chunk in column.chunks], pa.string())
    numbers, _ = FileLookUp().find(context.storage, tuple(IndexedFiles.of(piece, no_logs) for piece in others), wanted)
    return int((numbers != NOT_FOUND).sum())


def take_over(context: TableContext, how: Execution) -> tuple[Instant, ...]:
    """Take over the left commits without a ``why_not``, oldest first, each by one decision. Return their instants.

    Raises `CommitConflictError` if another process changes the table meanwhile.
    """
    done: list[Instant] = []
    while left := _next(context, len(done)):
        _take_over(context, left, how)
        done.append(left.instant)
    return tuple(done)


def _next(context: TableContext, done: int) -> LeftCommit | None:
    """Return the oldest commit that can be taken over; None if there is none.

    If the storage fails after others were taken over, that is the end, with a warning: the caller must not hear that nothing was done, and the next
    upgrade looks for the others again.
    """
    try:
        return next((left for left in find(context.below("")) if not left.why_not), None)
    except StorageError as error:
        if not done:
            raise
        _log.warning("%d commits were taken over, and whether there are others is not known: %s", done, error)
        return None


def _take_over(context: TableContext, left: LeftCommit, how: Execution) -> None:
    """Put a commit on the timeline."""
    context = context.below("")
    seen, what = context.folder.load(), f"take over the commit {left.instant.requested_time}"
    transaction = begin.reserve(context, Action.INDEXING)
    with (
        unknown_told(
            transaction, "a commit was taken over", hint="Do it again: the next writer has ended what was decided."
        ),
        deciding(transaction, what, lambda: sweep_reservation(transaction)) as terms,
    ):
        ask_gate(how.gate, context, what)
        decide(context, _TakeOver(transaction, left, seen).intent, lambda _: None, terms)
    tidy_up(what, context.table, lambda: remove_files(context.folder, left.instant))


@dataclass(frozen=True, slots=True)
class _TakeOver:
    """One decision. ``seen``: the timeline before the commit was checked."""

    transaction: Transaction
    left: LeftCommit
    seen: Timeline

    def intent(self, timeline: Timeline) -> StagedIntent:
        """Return the files of the instant, and the change that unlists the metadata table. Raises `CommitConflictError` after another commit."""
        context, transaction = self.transaction.context, self.transaction
        now = TableConfig.from_properties(properties_file.read(context.root), table=context.table)
        if dict(now.raw) != dict(context.config.raw) or timeline.commits.instants != self.seen.commits.instants:
            raise CommitConflictError(
                "Another writer changed the table while a commit was taken over", table=context.table, hint="Try again."
            )
        time = completion_time_after(context, max(timeline.high_water_mark, transaction.requested_time))
        bodies = dict(self._created(timeline, time))
        staging = Staging(transaction)
        made = [Publication(path, staging.kept(body)) for path, body in bodies.items()]
        changes = tuple(sorted({VERSION: str(now.version), **_UNLISTED}.items()))
        made.insert(-1, Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=changes))
        return staged_intent(transaction, made, bodies, completion_time=time, groups=(1,) * len(made))

    def _created(self, timeline: Timeline, completion: str) -> Iterator[tuple[str, bytes]]:
        """Yield the files of the instant that the timeline lacks, each with its bytes; the completed file is last."""
        context, layout = self.transaction.context, LayoutOne()
        is_pending = any(instant.group == self.left.instant.group for instant in timeline)
        for path, file in self.left.files:
            named = replace(file, completion_time=completion) if file.is_completed else file
            if file.is_completed or not is_pending:
                yield context.folder.file(named), in_avro(layout, file, context.storage.get(path), path)
