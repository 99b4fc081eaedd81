"""Archival: completed instants move from the active timeline to the history (specification, "LSM Timeline"; limits in `limits`).

An archival is not an instant on the timeline. First, without the lock, it deletes data files that no commit names, because for archived instants a
file is valid by its name alone. The next steps are under the table's lock: write the rows; create the next manifest, which is the decision; move the
pointer; delete the timeline files of archived instants; merge layers. Last, without the lock, it removes staged bytes that were stored after the end
of their instant. If the process dies at any step, readers see the same table, and the next run finishes the work. If a lock expires and two runs
overlap, they decide one after the other. Neither run deletes an instant that is missing in the current history. A long timeline is archived in parts,
the oldest first; between two parts other writers get the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from pyhudi_core.errors import CorruptionError, LimitExceededError, ObjectNotFoundError, SnapshotExpiredError
from pyhudi_core.file_groups.unnamed_files import named_paths, recovered_until
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.file_names import parse_data_file, split
from pyhudi_core.model.instant import DATA_ACTIONS, WRITE_ACTIONS, Action, Instant, State, is_time, parse_file_name
from pyhudi_core.model.operation import SERVICE_OPERATIONS
from pyhudi_core.model.properties import TableType
from pyhudi_core.opened_table.table_context import METADATA_TABLE, TableContext
from pyhudi_core.services.archival.archived_files import drop_archived, rows_of
from pyhudi_core.services.archival.history_layers import merge_layers
from pyhudi_core.services.archival.limits import (
    ArchivalPlan,
    ArchivalRules,
    ArchivalState,
    MetadataTableInUse,
    plan_archival,
)
from pyhudi_core.services.compaction.compaction_rules import counted_from
from pyhudi_core.services.progress import ServiceProgress, silent
from pyhudi_core.services.service import Execution, Figures, ServiceResult, TableService, Turn
from pyhudi_core.storage.own_part import objects_of_table
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.timeline.history_writing import KEPT_MANIFESTS, HistoryWriter
from pyhudi_core.transaction import layout, removal
from pyhudi_core.transaction.commit import Gate, ask_gate
from pyhudi_core.transaction.decision import Terms, decide
from pyhudi_core.transaction.publication import create_once
from pyhudi_core.transaction.rollback import sweep_late_bytes
from pyhudi_core.write.retrying import Retries

AT_ONCE = 100
"""How many instants are archived under the lock. This bounds the time that writers wait, and the memory."""


@dataclass(frozen=True, slots=True)
class ArchivalResult(ServiceResult):
    """The result of a run. ``instants`` are the requested times of the instants that it moved to the archived timeline.

    Attributes:
        swept: data files that no commit named, relative to the table.
        deleted: deleted files of the active timeline, including leftovers of an earlier run.
        merges: number of merges of the history's files.
    """

    service: ClassVar[str] = "archival"
    swept: tuple[str, ...] = ()
    deleted: int = 0
    merges: int = 0

    def and_then(self, later: ArchivalResult) -> ArchivalResult:
        """Return the sum of both results. The reason (``why_not``) comes from the later result."""
        instants, deleted = self.instants + later.instants, self.deleted + later.deleted
        return ArchivalResult(instants, later.why_not, self.swept + later.swept, deleted, self.merges + later.merges)

    @property
    def figures(self) -> Figures:
        """Numbers of instants, files and merges."""
        return {
            "instants": len(self.instants),
            "swept": len(self.swept),
            "deleted": self.deleted,
            "merges": self.merges,
        }

    def __str__(self) -> str:
        if not self.instants and self.deleted:
            return f"Finished an earlier archival: {self.deleted} files of archived instants deleted"
        if not self.instants:
            return f"Nothing was archived: {self.why_not}"
        first, last = self.instants[0].requested_time, self.instants[-1].requested_time
        return f"Archived {len(self.instants)} instants, {first} to {last}; merged {self.merges} times"


class Archival(TableService[ArchivalResult]):
    """Archival of one table. Hudi has no instant for archival, so ``schedule`` returns None, and ``execute`` makes its own plan."""

    name = "archival"
    summary = "move old instants to the archived timeline"
    turns = ("archival.automatic",)

    def plan(self) -> ArchivalPlan:
        """Return the instants that `run` would archive now, and the limit that keeps the others. Changes nothing."""
        plan = plan_now(self.context, rules_of(self.context, triggered=False))
        if not plan:
            return plan
        triggered = plan_now(self.context, rules_of(self.context, triggered=True))
        folder, going = self.context.folder, {instant.group for instant in plan.instants}
        listed = (
            (info.size, parse_file_name(split(info.path)[1]))
            for info in folder.storage.list_folder(folder.path).objects
        )
        sizes = [size for size, instant in listed if instant is not None and instant.group in going]
        due, trigger = bool(triggered), "" if triggered else triggered.why_not
        return replace(plan, due=due, trigger=trigger, files=len(sizes), bytes=sum(sizes))

    def schedule(self) -> None:
        """Return None: Hudi has no scheduled archival. Use `run`, in any process."""
        return

    def _run(self, how: Execution, retries: Retries) -> ArchivalResult:
        """Archive down to ``hoodie.keep.min.commits``, whether or not there are more than ``hoodie.keep.max.commits``.

        The gate is asked each time before the lock is taken. An archival stores no extra metadata, and runs no Spark tasks.
        """
        rules = rules_of(self.context, triggered=False)
        return retries.until_done(lambda: archive(self.context, rules, how.gate, how.progress))

    def take_over(self) -> ArchivalResult:
        """Finish a run that died: move the pointer, and delete the files of archived instants. Archives no other instants."""
        if not _is_left_over(self.context):
            return self._nothing("no run was interrupted")
        rules = rules_of(self.context, triggered=False)
        return _when_published(self.context, partial(_move, self.context, rules, "", frozenset()))

    def after_commit(self, turn: Turn) -> bool:
        """Archive, if archival is due and ``hoodie.archive.automatic`` is on. The check uses the timeline that the commit found, and makes no
        listing.
        """
        folder, rules = self.context.folder, rules_of(self.context, triggered=True)
        found = folder.latest or folder.load()
        most = rules.keep_max or 0
        return len(found.commits) + 1 > most + turn.waits(most - rules.keep_min) and bool(archive(self.context, rules))

    def _execute(self, requested_time: str | None, execution: Execution) -> ArchivalResult:
        return self.run(gate=execution.gate, progress=execution.progress)

    def _nothing(self, why_not: str) -> ArchivalResult:
        return ArchivalResult(why_not=why_not)


def rules_of(context: TableContext, *, triggered: bool) -> ArchivalRules:
    """Return the rules of the options. With ``triggered``, archival needs more commits than ``hoodie.keep.max.commits``.

    A metadata table keeps one commit more than its data table, as in Hudi.
    """
    options, more = context.options.archival, 1 if context.prefix else 0
    keep_max = options.max_commits + more if triggered else None
    return ArchivalRules(options.min_commits + more, keep_max, options.beyond_savepoint)


def archive(
    context: TableContext, rules: ArchivalRules, gate: Gate | None = None, progress: ServiceProgress = silent
) -> ArchivalResult:
    """Archive the instants that the rules allow, and finish the work of an earlier run. Raises `LockTimeoutError`, and errors of damaged files."""
    planned = plan_now(context, rules)
    swept, before, stop = _sweep(context, planned) if planned else ((), "", "")
    if not planned and not _is_left_over(context):
        return ArchivalResult(why_not=planned.why_not)
    done = ArchivalResult(swept=swept)
    # Deleted files never come back, so this check stays valid under the lock, where no writer should wait for listings.
    cleaned = frozenset(instant for instant in planned.instants if instant.action is Action.REPLACECOMMIT)
    while True:
        progress("archive instants", len(done.instants), len(planned.instants))
        ask_gate(gate, context, "to archive")
        step = _when_published(context, partial(_move, context, rules, before, cleaned))
        done = done.and_then(step)
        if len(step.instants) < AT_ONCE:
            if done and not context.prefix:
                sweep_late_bytes(context, done.instants[-1].requested_time)
            return replace(done, why_not=stop or done.why_not or planned.why_not)
        rules = replace(rules, keep_max=None)  # the archival was due when it began


def _when_published(context: TableContext, move: Callable[[], ArchivalResult]) -> ArchivalResult:
    """Move instants under the lock, after every earlier decision is published. The decision is the history's next manifest, so there is no intent."""
    done: list[ArchivalResult] = []
    decide(context, lambda _: done.append(move()), lambda _: None, Terms("archive", any_lock=True))
    return done[0]


def _move(context: TableContext, rules: ArchivalRules, before: str, cleaned: Set[Instant]) -> ArchivalResult:
    """Do the steps under the lock, for the oldest instants before ``before``; unnamed files older than that are swept.

    Replacecommits are archived only if they are in ``cleaned``.
    """
    folder = context.folder
    writer = HistoryWriter(folder.history, create_once, lambda: context.runtime.ids.uuid().replace("-", ""))
    listed = folder.history.state()
    if listed.problem is not None:
        raise folder.history.lost(listed)
    if listed.number and listed.version != listed.number:
        writer.point()  # a process died before this step; no file may be deleted before Hudi's readers know the history
    plan = _plan(context, rules, cleaned.__contains__)
    chosen = tuple(instant for instant in plan.instants if instant.requested_time < before)[:AT_ONCE]
    moved: tuple[Instant, ...] = ()
    if chosen:
        try:
            added = writer.add(rows_of(folder, chosen), listed)
        except ObjectNotFoundError:
            return ArchivalResult(why_not="another process archives at the same time")
        if writer.decide(listed, [*listed.files, added]):
            moved = chosen
        else:
            writer.discard(added)
    deleted = drop_archived(folder)
    merges = merge_layers(writer, context.options.archival.batch_size) if moved else 0
    if moved:
        writer.sweep(listed, KEPT_MANIFESTS + merges)
    return ArchivalResult(moved, deleted=deleted, merges=merges, why_not=plan.why_not)


def _is_left_over(context: TableContext) -> bool:
    """Say whether a run died before it deleted all files, or before it moved the pointer."""
    files, has_history = context.folder.files()
    if not has_history:
        return False
    state = context.folder.history.state()
    return (bool(state.number) and state.version != state.number) or bool(context.folder.history.among(files, state))


# --- the state that the limits need


def plan_now(context: TableContext, rules: ArchivalRules) -> ArchivalPlan:
    """Plan from the current state of the table. Reads a few small files, and lists data folders only if a replacecommit could be archived."""
    return _plan(context, rules, lambda instant: _is_cleaned(context, instant))


def _plan(context: TableContext, rules: ArchivalRules, is_cleaned: Callable[[Instant], bool]) -> ArchivalPlan:
    """Plan from the current state of the table; plan again if a rollback or a restore undid a commit after the timeline was read."""
    while True:
        try:
            return _planned(context, rules, is_cleaned)
        except SnapshotExpiredError as gone:
            if gone.instant is None or context.folder.load().find(gone.instant) is not None:
                raise


def _planned(context: TableContext, rules: ArchivalRules, is_cleaned: Callable[[Instant], bool]) -> ArchivalPlan:
    # Reservations are read first: a writer that ends its reservation in between has completed, and is on the timeline.
    reserved = _reserved(context)
    data_first = _data_first(context)
    timeline = _unarchived(context.folder)
    # An indexing that is executed reads all commits since it began, so they stay. A planned indexing keeps nothing.
    known = {i.requested_time for i in timeline if not (i.action is Action.INDEXING and i.state is State.INFLIGHT)}
    state = ArchivalState(
        timeline,
        reserved=tuple(time for time in reserved if time not in known),
        schema_commit=_schema_commit(context, timeline),
        earliest_to_retain=_earliest_to_retain(context, timeline),
        metadata_table=_metadata_table(context),
        empty=_empty(context, timeline, rules),
        compaction_from=_compaction_from(context, timeline),
        data_first=data_first,
    )
    plan = plan_archival(state, rules)
    replacing = [i for i in plan.instants if i.action is Action.REPLACECOMMIT]
    uncleaned = frozenset(i.requested_time for i in replacing if not is_cleaned(i))
    return plan_archival(replace(state, uncleaned=uncleaned), rules) if uncleaned else plan


def _compaction_from(context: TableContext, timeline: Timeline) -> str | None:
    """Return the first instant that the trigger of compactions counts, for a metadata table or a merge-on-read table.

    A metadata table's timeline must not begin with a late build, because a late build has one of the first times. So the trigger keeps no late build.
    """
    options = context.options.compaction
    if context.prefix:
        other = (i for i in timeline if not i.requested_time.startswith(layout.INITIAL_INSTANTS))
        timeline = Timeline(tuple(other))
        options = replace(options, trigger="NUM_COMMITS", max_delta_commits=context.options.metadata.compact_after)
    elif context.config.table_type is not TableType.MERGE_ON_READ:
        return None
    return counted_from(timeline, options, context.now())


def _data_first(context: TableContext) -> str | None:
    """Return, for a metadata table, the first time on the timeline of its data table. Readers check that timeline before they use a log file."""
    if not context.prefix:
        return None
    data = next(place for place in context.companions if not place.prefix)
    return min((instant.requested_time for instant in data.folder.load()), default="")


def _unarchived(folder: TimelineFolder) -> Timeline:
    """Return the active timeline without instants that are archived and not deleted yet."""
    timeline = folder.load()
    archived = folder.history.among(timeline) if timeline.has_history else set()
    return Timeline(tuple(i for i in timeline if i not in archived), timeline.has_history)


def _reserved(context: TableContext) -> list[str]:
    names = (info.path.rpartition("/")[2] for info in context.root.list(f"{layout.HEARTBEATS}/"))
    return [name for name in names if is_time(name)]


def _schema_commit(context: TableContext, timeline: Timeline) -> str | None:
    for instant in reversed(timeline.instants):
        if instant.is_completed and instant.action in DATA_ACTIONS and instant.completion_time is not None:
            commit = context.folder.read_commit(instant)
            if commit.schema and commit.operation not in SERVICE_OPERATIONS:
                return instant.requested_time
    return None


def _empty(context: TableContext, timeline: Timeline, rules: ArchivalRules) -> frozenset[str]:
    """Return the commits that changed no rows.

    A commit that cannot be read counts as one that changed rows. The search runs only if the result matters.
    """
    commits = [instant for instant in timeline.commits if instant.completion_time is not None]
    if len(commits) <= (rules.keep_min if rules.keep_max is None else rules.keep_max):
        return frozenset()
    found = set()
    for instant in commits:
        with suppress(CorruptionError, LimitExceededError):
            if context.folder.read_commit(instant).is_empty:
                found.add(instant.requested_time)
    return frozenset(found)


def _earliest_to_retain(context: TableContext, timeline: Timeline) -> str | None:
    cleans = [i for i in timeline if i.action is Action.CLEAN and i.is_completed]
    if not cleans:
        return None
    path = context.folder.file(cleans[-1])
    data = context.storage.get(path)
    time = decode_record(data, "HoodieCleanMetadata", path=path)["earliestCommitToRetain"] if data else ""
    return time if is_time(time) else None


def _metadata_table(context: TableContext) -> MetadataTableInUse | None:
    if not context.config.metadata_partitions:
        return None
    folder = TimelineFolder(context.storage, f"{METADATA_TABLE}/.hoodie/timeline")
    compactions = [i.requested_time for i in folder.load() if i.is_completed and i.action is Action.COMMIT]
    return MetadataTableInUse(max(compactions, default=None))


def _is_cleaned(context: TableContext, instant: Instant) -> bool:
    """Say whether the files that a replacecommit replaced are deleted."""
    for partition, file_ids in context.folder.read_commit(instant).replaced.items():
        gone = set(file_ids)
        for info in context.storage.list_folder(partition).objects if gone else ():
            name = parse_data_file(split(info.path)[1])
            if name is not None and name.file_id in gone:
                return False
    return True


# --- data files that no commit names


def _sweep(context: TableContext, plan: ArchivalPlan) -> tuple[tuple[str, ...], str, str]:
    """Remove base and log files that no completed commit names and that are older than the first remaining write.

    Returns these files, the requested time of that write, and the reason for this limit: files that a recovery omitted stay, and readers must not
    take them for files of archived commits.
    """
    # The listing comes first. The writer of a listed file announced its instant before, so the timeline that is read afterwards shows the instant,
    # even if the plan does not know it. Files of a metadata table are valid by their instants alone, and Hudi's commits do not name all of them.
    infos = [] if context.prefix else objects_of_table(context.storage, context.runtime.executor)
    listed = [(split(info.path)[1], info.path) for info in infos]
    timeline = _unarchived(context.folder)
    going = {instant.group for instant in plan.instants}
    last = max(instant.requested_time for instant in plan.instants if instant.action in DATA_ACTIONS)
    writes = [i for i in timeline if i.action in WRITE_ACTIONS]
    first = min(i.requested_time for i in writes)
    before = min(i.requested_time for i in writes if i.group not in going and i.requested_time > last)
    completed = {i.requested_time: i for i in writes if i.is_completed}
    candidates: dict[str, list[str]] = {}
    for file_name, path in listed:
        name = parse_data_file(file_name)
        if name is not None and name.requested_time < before:
            candidates.setdefault(name.requested_time, []).append(path)
    unnamed: dict[str, str] = {}
    for time, paths in candidates.items():
        if time in completed:
            named = set(named_paths(context.folder.read_commit(completed[time])))
            unnamed |= {path: time for path in paths if path not in named}
        elif time < first and timeline.has_history:
            continue  # readers take it for a file of an archived commit, which it may be
        elif not _is_at_work(context, time) and context.folder.archived(timeline, time) is None:
            unnamed |= dict.fromkeys(paths, time)
    recovered = recovered_until(timeline, context.folder.read_commit) if unnamed else ""
    kept = {path: time for path, time in unnamed.items() if time < recovered}
    stop = ""
    if kept:
        oldest = min(kept.values())
        before = max((i.requested_time for i in writes if i.requested_time <= oldest), default="")
        stop = f"{len(kept)} files, {min(kept)} first, were left out of a recovery: move them away, or delete them"
    going_files = sorted(path for path, time in unnamed.items() if path not in kept and time >= first)
    return tuple(removal.delete_data_files(context.storage, going_files)), before, stop


def _is_at_work(context: TableContext, time: str) -> bool:
    """Say whether a write with this requested time is pending, even if the listing of the timeline does not show it."""
    inflight = (Instant(time, action, State.INFLIGHT) for action in WRITE_ACTIONS)
    return any(context.storage.head(context.folder.file(instant)) is not None for instant in inflight)
