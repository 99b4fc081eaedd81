"""Find the commits that a restore would undo, and the reasons to refuse the restore (specification, "Restore").

The point is a completed commit; commits that completed after it are undone. The restored state is the state that readers saw when the point was the
newest commit. Hudi compares requested times instead; the results differ only for commits that ran at the same time.

A restore deletes the files of undone commits, and cannot bring back deleted files. So the files of the point's state must exist, and no writer,
executor of a plan or clean may be running.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from functools import partial

from pyhudi_core.conflicts.concurrent import refuse_pending_restore
from pyhudi_core.conflicts.matrix import Verdict
from pyhudi_core.errors import CommitAbortedError, InvalidOptionError
from pyhudi_core.model.file_names import parse_data_file, split
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.snapshot_token import SnapshotToken
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.bounds import TimePoint, as_text, token_of
from pyhudi_core.read.history_rows import moment, row_counts, writer_of
from pyhudi_core.read.snapshots import snapshot
from pyhudi_core.savepoints.savepoint_files import Savepoint
from pyhudi_core.savepoints.savepoints import CommitPoint, saved_commit, time_of
from pyhudi_core.services.outdated import Outdating
from pyhudi_core.services.restore.restore_plan import RestorePlan, UndoneCommit
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, plan_executors, requested_rollbacks
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.group import TRANSACTION_KEY, tables_of
from pyhudi_core.write import cases, refusals

_REWRITES = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
_HINT = (
    "Wait until it has ended, or end it; roll the write of a process that is gone back with table.rollback(instant), and finish a clean with"
    " table.cleaning.take_over()."
)
_HINTS = {
    Action.INDEXING: "Execute the plan with table.indexing.execute('{time}'), or remove it with table.indexing.cancel('{time}').",
    Action.SAVEPOINT: "Wait until the savepoint is made. If its process is gone, table.savepoints.delete('{time}') removes what is left of it at"
    " once; table.failed_writes.run() does it after a day.",
}
"""Hints about a pending instant, by action; all other actions have ``_HINT``."""
_TIME_HINT = (
    "Give one of table.timeline.commits, its requested time, or a time with its zone: '2026-01-31 12:00:00+00:00'."
)
_LAST = "9" * 17
"""A text that sorts after every time."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a restore: a commit, or the state before a commit. Without both, no restore is requested.

    Attributes:
        to: the commit whose state is restored; or a time, which means the newest commit that had completed by then.
        before: the first commit that is undone.
        alone: refuse the restore if commits after ``before`` would be undone, too.
    """

    to: TimePoint | Savepoint | None = None
    before: CommitPoint | None = None
    alone: bool = False

    def __bool__(self) -> bool:
        return self.to is not None or self.before is not None

    @property
    def before_time(self) -> str:
        """The requested time of the first commit that is undone; empty if the target is the point itself."""
        return "" if self.before is None else time_of(self.before)

    def point(self, context: TableContext, timeline: Timeline) -> Instant:
        """Return the commit whose state is restored. Raises `InvalidOptionError` if there is no such commit, and for a time without a zone."""
        if self.to is not None and self.before is not None:
            raise InvalidOptionError(
                "A restore goes to a commit or to the state before one, not both",
                table=context.table,
                hint="Give either the commit or before=.",
            )
        if self.before is None:
            return _commit_of(context, timeline, self.to)
        undone = saved_commit(context, timeline, self.before)
        earlier = [i for i in timeline.commits if (i.completion_time or "") < (undone.completion_time or "")]
        if earlier:
            return earlier[-1]
        raise InvalidOptionError(
            f"No commit on the timeline completed before {undone.requested_time}, so there is no state to go back to",
            table=context.table,
            hint="To empty the table, write no rows with insert_overwrite_table.",
        )


def _commit_of(context: TableContext, timeline: Timeline, to: TimePoint | Savepoint | None) -> Instant:
    """Return the commit that a point names, or the newest one that had completed by a time.

    Digits are never parsed as a time: a mistyped instant must not restore another state.
    """
    named = to.instant if isinstance(to, Savepoint) else to
    if not (isinstance(named, date | SnapshotToken) or token_of(named) is not None or _is_time_of_day(named)):
        completed = next((i for i in timeline.commits if i.completion_time == named), None)
        return completed or saved_commit(context, timeline, named, _TIME_HINT)
    assert named is not None, "it is a time"
    time = as_text(named, utc=context.utc, name="to", digits=False)
    earlier = [i for i in timeline.commits if (i.completion_time or "") <= time]
    if earlier:
        return earlier[-1]
    first = next(iter(timeline.commits), None)
    oldest = f"The oldest one that it can go back to is {first.requested_time}." if first is not None else ""
    raise InvalidOptionError(
        f"No commit on the timeline had completed by {named}, so there is no state to go back to",
        table=context.table,
        hint=f"Nothing was changed. {oldest}".rstrip(),
    )


def _is_time_of_day(text: object) -> bool:
    try:
        return isinstance(text, str) and not text.isdecimal() and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def plan_restore(context: TableContext, timeline: Timeline, target: Target) -> RestorePlan:
    """Return what would be undone. False if nothing completed after the point.

    Raises what `refuse` raises, `InvalidOptionError` if the point is no completed commit of the timeline, or if ``target.alone`` forbids it,
    `SnapshotExpiredError` if files of its state are gone, and `UnsupportedTableError` if the table's metadata table could not be built again.
    """
    point = target.point(context, timeline)
    later = tuple(i for i in reversed(timeline.commits) if (i.completion_time or "") > (point.completion_time or ""))
    if not later:
        said = _said(point, utc=context.utc)
        why_not = f"no commit completed after {point.requested_time} (completed {said})"
        return RestorePlan(point, why_not=why_not, completed=said)
    if target.alone and len(later) > 1:
        raise not_alone(context, target.before_time, [i.requested_time for i in reversed(later[:-1])])
    refusals.at_begin(cases.at_begin(context, OperationType.RESTORE))
    refuse(context, timeline)
    _refuse_saved(context, timeline, later)
    _refuse_archived(context, timeline, point)
    snapshot(context, point)  # checks that the files of the state exist
    return RestorePlan(
        point,
        tuple(_undone(context, instant) for instant in later),
        tuple(reversed([i for i in timeline.pending if i.action in _REWRITES])),
        tuple(i for i in timeline.pending if i.action is Action.CLEAN),
        context.config.metadata_partitions,
        completed=_said(point, utc=context.utc),
    )


def _said(commit: Instant, *, utc: bool) -> str:
    """Return the time when a commit completed, as a text for users."""
    when = moment(commit.completion_time or "", utc=utc)
    return f"{when:%Y-%m-%d %H:%M:%S} UTC" if when is not None else commit.completion_time or ""


def not_alone(context: TableContext, time: str, later: list[str]) -> InvalidOptionError:
    """Return the error for a commit that cannot be undone without later commits. ``later``: their requested times, oldest first."""
    return InvalidOptionError(
        f"{len(later)} commits completed after {time}, {later[0]} the first of them, so it cannot be rolled back alone",
        table=context.table,
        instant=time,
        hint=f"Nothing was changed. table.restore(before={time!r}) or `pyhudi restore LOCATION --before {time}` undoes all of them.",
    )


def refuse(context: TableContext, timeline: Timeline) -> None:
    """Raise `CommitAbortedError` if another process is writing to the table, and `CommitConflictError` if another restore is pending."""
    refuse_pending_restore(context, timeline)
    for instant in timeline.pending:
        doing = at_work(context, instant)
        if doing:
            raise CommitAbortedError(
                f"The table is not restored while {doing}",
                table=context.table,
                instant=instant.requested_time,
                hint=f"Nothing was changed. {_HINTS.get(instant.action, _HINT).format(time=instant.requested_time)}",
            )


def at_work(context: TableContext, instant: Instant) -> str:
    """Return a text about a pending instant that prevents a restore or a drop; empty if it does not prevent it."""
    what = f"the {instant.action} {instant.requested_time}"
    if instant.action in DATA_ACTIONS:
        return (
            "" if heartbeat.is_dead(context, instant) else f"{what} is being written, or its writer keeps no heartbeat"
        )
    if instant.action in _REWRITES:
        return "" if plan_executors.is_free(context, instant) else f"{what} is executed by another process"
    if instant.action is Action.ROLLBACK:
        return "" if requested_rollbacks.is_free(context, instant) else f"{what} is executed by another process"
    if instant.action is Action.CLEAN:
        begun = instant.state is State.INFLIGHT or not plan_executors.is_free(context, instant)
        return f"{what} is deleting files, or has not ended" if begun else ""
    return f"{what} is pending" if instant.action in (Action.INDEXING, Action.SAVEPOINT) else ""


def _refuse_saved(context: TableContext, timeline: Timeline, later: tuple[Instant, ...]) -> None:
    times = {instant.requested_time for instant in later}
    saved = [i.requested_time for i in timeline if i.action is Action.SAVEPOINT and i.requested_time in times]
    if saved:
        raise CommitAbortedError(
            f"{len(saved)} of the commits that would be undone have a savepoint, {saved[0]} among them",
            table=context.table,
            instant=saved[0],
            hint="Nothing was changed. Delete these savepoints with table.savepoints.delete(instant), or go back to one of them.",
        )


def _refuse_archived(context: TableContext, timeline: Timeline, point: Instant) -> None:
    """Raise an error if a commit after the point is archived. This is possible if that commit ran at the same time as the point."""
    if not timeline.has_history:
        return
    archived = next(iter(context.folder.history.completed_between(point.completion_time or "", _LAST)), None)
    if archived is not None:
        raise CommitAbortedError(
            f"The commit {archived.requested_time} completed after {point.requested_time} and is archived, so it cannot be undone",
            table=context.table,
            instant=archived.requested_time,
            hint="Nothing was changed. Go back to a later commit.",
        )


def _undone(context: TableContext, instant: Instant) -> UndoneCommit:
    commit = context.folder.read_commit(instant)
    files = tuple(sorted(path for path in commit.paths if is_of(path, instant.requested_time)))
    size = sum(stat.size + sum(stat.change_log_sizes) for stat in commit.stats)
    tables = tables_of(commit.extra.get(TRANSACTION_KEY, ""))
    # A copied table belongs to no transaction.
    others = tables.keys() - {context.table} if tables.get(context.table) == instant.requested_time else ()
    operation, user = commit.operation or "", writer_of(commit)["user"]
    return UndoneCommit(instant, files, size, operation, *row_counts(commit), user=user, tables=tuple(sorted(others)))


def is_of(path: str, requested_time: str) -> bool:
    """Say whether the instant wrote a data file, judged by the name of the file. So a damaged commit cannot cause the deletion of files of other
    commits.
    """
    name = parse_data_file(split(path)[1])
    return name is not None and name.requested_time == requested_time


def outdating(transaction: Transaction) -> Outdating:
    """Return what makes a plan outdated: an instant that completed or was planned later, or an error of `refuse`."""
    return Outdating(by_instant=_by_instant, also=partial(refuse, transaction.context))


def _by_instant(before: Instant | None, now: Instant) -> Verdict | None:
    known = before is not None and _matters(before)
    return Verdict.REPLAN if _matters(now) and not known else None


def _matters(instant: Instant) -> bool:
    return instant.is_completed or instant.action in _REWRITES
