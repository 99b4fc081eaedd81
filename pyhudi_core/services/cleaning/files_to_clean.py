"""Plan a clean from a state of the table: its timeline, its commits, and the names of its files. Opens no data file.

As in Hudi, a plan reads only the partitions that commits changed between two commits: the earliest commit that the last clean retained, and the
earliest one that this clean retains. A plan reads all partitions in three cases: no clean recorded its earliest commit, a savepoint was deleted since
that clean, or the policy is by versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyhudi_core.conflicts.concurrent import pending_restores
from pyhudi_core.conflicts.matrix import Verdict
from pyhudi_core.errors import CorruptionError, ObjectNotFoundError, UnsupportedTableError
from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.view import FileGroupView, NamedFiles
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.lazy import lazy
from pyhudi_core.model.instant import Action, Instant, epoch_ms, format_time, is_time
from pyhudi_core.model.operation import OperationType
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options.write_options import CleaningOptions
from pyhudi_core.runtime.collection import collector_paused
from pyhudi_core.savepoints.hold_files import read_holds
from pyhudi_core.savepoints.savepoint_files import kept_files
from pyhudi_core.services.cleaning import clean_rules as cleaning_rules
from pyhudi_core.services.cleaning.clean_plan import DONE, SAVEPOINTS_KEY, CleaningPlan
from pyhudi_core.services.cleaning.clean_rules import BY_VERSIONS, Readers, Retained
from pyhudi_core.services.cleaning.removable_slices import Judge
from pyhudi_core.services.rewriting import refused_case
from pyhudi_core.services.service import Refused
from pyhudi_core.snapshot.snapshot import metadata_file_groups
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout
from pyhudi_core.write import cases
from pyhudi_core.write.metadata_part import metadata_update
from pyhudi_core.write.states import load

if TYPE_CHECKING:
    from pyhudi_core.iceberg import sync as iceberg
else:
    iceberg = lazy("pyhudi_core.iceberg.sync")

_HOUR_MS = 3_600_000
_MOST = 2
"""Commits that changed nothing extend the retained commits at most by this factor, as in archival."""


def plan_cleaning(
    context: TableContext, timeline: Timeline, options: CleaningOptions, *, triggered: bool = False
) -> CleaningPlan:
    """Return a plan for the state of the table at this timeline. With ``triggered``, the plan is empty unless the trigger of the options is reached.

    For a table that cannot be cleaned, no error is raised: the plan has the reason.
    """
    with collector_paused():
        return _plan(context, timeline, options, triggered=triggered)


def view_of(context: TableContext, timeline: Timeline) -> FileGroupView:
    """Return the file groups of a table, or of a metadata table in its folder."""
    if context.prefix:
        return metadata_file_groups(context.storage, context.folder, timeline, context.runtime.executor)
    return load(context, timeline).view


def _plan(context: TableContext, timeline: Timeline, options: CleaningOptions, *, triggered: bool) -> CleaningPlan:
    policy = options.policy
    last = last_clean(context, timeline)
    new = sum(1 for i in timeline.commits if i.requested_time > last.last_commit)
    trigger, due = f"{new} of {options.max_commits} commits since the last clean", new >= options.max_commits

    def nothing(why: str) -> CleaningPlan:
        return CleaningPlan(policy=policy, why_not=why, trigger=trigger, due=due)

    planned = [i for i in timeline.pending if i.action is Action.CLEAN]
    if triggered and not due:
        return nothing(trigger)
    if planned:
        return nothing(f"the clean {planned[0].requested_time} is planned already, and has to be executed first")
    if pending_restores(timeline):
        return nothing("a restore is pending, so the content of the table is not known")
    retained = _retained(context, timeline, options)
    if retained.nothing:
        return nothing(retained.why_not)
    refused = refusal_of(context)
    if refused is not None:
        return replace(nothing(refused.error.message), refused=refused)
    found = _Search(context, timeline, options, view_of(context, timeline), retained, last).run()
    earliest = None if found.is_part or policy == BY_VERSIONS else retained.earliest
    notes = "" if found.files else _why_empty(context, options, last, earliest, triggered=triggered)
    reasons = [retained.why_not, "" if found.files else "no file is old enough", found.why_not, found.held]
    return CleaningPlan(
        found.files,
        found.size,
        found.file_groups,
        earliest,
        max((i.requested_time for i in timeline.commits), default=""),
        policy,
        found.savepoints,
        "; ".join(filter(None, reasons)),
        trigger,
        due,
        found.incremental,
        context.table,
        notes,
    )


def _why_empty(
    context: TableContext, options: CleaningOptions, last: LastClean, earliest: Instant | None, *, triggered: bool
) -> str:
    """Return why a clean without files is completed; empty if it is not completed.

    It must record a later commit than the last clean. In addition, the options must clean by default, or enough hours must have passed.

    Without such a clean, each of the next commits would search again, and archival would keep the commits that the last clean retained.
    """
    if earliest is None or earliest.requested_time <= last.earliest:
        return ""
    if triggered and options.automatic is None:
        return "it was due, and no file is old enough"
    if options.empty_hours < 0:
        return ""
    was_ms = epoch_ms(last.completed, utc=context.utc) if last.completed else None
    if was_ms is None:
        return "no clean is on the timeline"
    hours = (context.runtime.clock.now_ms() - was_ms) / _HOUR_MS
    return f"the last clean is {hours:.1f} hours old" if hours >= options.empty_hours else ""


def refusal_of(context: TableContext) -> Refused | None:
    """Return why this release cannot clean the table; None if it can."""
    if not context.prefix:
        try:
            iceberg.refuse_others(context)
        except (CorruptionError, UnsupportedTableError) as error:
            return Refused(error)
    case = cases.at_begin(context, OperationType.CLEAN)
    if metadata_update.definitions_of(context, context.config.written_metadata_partitions):
        case = replace(case, undefined=metadata_update.why_undefined(context, load(context).schema))
    return refused_case(case)


@dataclass(frozen=True, slots=True)
class LastClean:
    """The newest completed clean. ``earliest`` is empty if the clean did not record what it retained. ``completed`` is its completion time."""

    earliest: str = ""
    last_commit: str = ""
    savepoints: frozenset[str] = frozenset()
    completed: str = ""


def last_clean(context: TableContext, timeline: Timeline) -> LastClean:
    """Return the newest completed clean of the active timeline."""
    cleans = [i for i in timeline if i.action is Action.CLEAN and i.is_completed]
    if not cleans:
        return LastClean()
    newest = max(cleans, key=lambda i: i.completion_time or i.requested_time)
    path = context.folder.file(newest)
    try:
        data = context.storage.get(path)
    except ObjectNotFoundError:
        return LastClean()  # the clean was archived after the timeline was read
    record = decode_record(data, DONE, path=path) if data else {}
    earliest = record.get("earliestCommitToRetain") or ""
    saved = (record.get("extraMetadata") or {}).get(SAVEPOINTS_KEY) or ""
    return LastClean(
        earliest if is_time(earliest) else "",
        record.get("lastCompletedCommitTimestamp") or "",
        frozenset(filter(None, saved.split(","))),
        newest.completion_time or newest.requested_time,
    )


def by_instant(before: Instant | None, now: Instant) -> Verdict | None:
    """Return the verdict on an instant that makes a plan outdated: a later savepoint or restore, or a restore that has not ended. None for others."""
    if now.action is Action.SAVEPOINT and before is None:
        return Verdict.REPLAN
    return Verdict.ABORT if now.action is Action.RESTORE and (before is None or now.is_pending) else None


def _retained(context: TableContext, timeline: Timeline, options: CleaningOptions) -> Retained:
    """Return what the policy of the options retains."""
    now = context.runtime.clock.now_ms()
    known = {instant.requested_time for instant in timeline}
    beats = (info.path.rpartition("/")[2] for info in context.root.list(f"{layout.HEARTBEATS}/"))
    reserved = tuple(time for time in beats if is_time(time) and time not in known)
    since = format_time(now - 1000 * options.keep_seconds, utc=context.utc) if options.keep_seconds else ""
    readers = Readers(reserved, since)
    if options.policy == BY_VERSIONS:
        return cleaning_rules.by_versions(timeline, readers)
    if options.policy == "KEEP_LATEST_BY_HOURS":
        oldest = format_time(now - _HOUR_MS * options.hours, utc=context.utc)
        return cleaning_rules.by_time(timeline, oldest, readers)
    return cleaning_rules.by_commits(timeline, _commits_to_keep(context, timeline, options.commits), readers)


def _commits_to_keep(context: TableContext, timeline: Timeline, wanted: int) -> int:
    """Return how many of the newest commits contain the wanted number of commits with files. Commits without files do not count, within limits."""
    counted = 0
    for number, instant in enumerate(reversed(timeline.commits.instants)):
        if counted == wanted or number == _MOST * wanted:
            return number
        counted += not context.folder.read_commit(instant).is_empty
    return max(wanted, len(timeline.commits))


@dataclass(slots=True)
class _Search:
    """The search for files to delete. ``count`` and ``size`` belong to ``files``. ``held`` has the files that holds keep.

    ``is_part``: the search did not read, or did not take, every file that could be deleted.
    """

    context: TableContext
    timeline: Timeline
    options: CleaningOptions
    view: FileGroupView
    retained: Retained
    last: LastClean
    files: dict[str, list[str]] = field(default_factory=dict)
    count: int = 0
    size: int = 0
    file_groups: int = 0
    savepoints: tuple[str, ...] = ()
    why_not: str = ""
    held: str = ""
    is_part: bool = False
    incremental: bool = False

    def run(self) -> _Search:
        """Read each partition, until the limit of the options is reached."""
        options, timeline = self.options, self.timeline
        saved = [i.requested_time for i in timeline if i.action is Action.SAVEPOINT and i.is_completed]
        self.savepoints = tuple(sorted(saved))
        partitions = self._chosen(list(self._partitions()))
        judge = self._judge(kept_files(self.context.folder, timeline) | self._held())
        self.listing.prepare(partitions)
        for partition in partitions:
            self._take(partition, judge, self.listing.files(partition))
            if self.is_full:
                self.is_part, self.why_not = True, f"a clean deletes at most about {options.max_files:,} files"
                break
        return self

    def _held(self) -> frozenset[str]:
        """Return the files of holds. While holds exist, the plan counts as incomplete, so that the next plan finds the files that they kept."""
        holds = read_holds(self.context).lasting
        if holds:
            self.is_part = True
            what = "a hold keeps" if len(holds) == 1 else f"{len(holds)} holds keep"
            self.held = f"{what} the files of a state, until {holds[-1].ends:%Y-%m-%d %H:%M:%S} UTC (table.holds)"
        return frozenset[str]().union(*(hold.paths for hold in holds))

    @property
    def listing(self) -> FileListing:
        """Return the listing of files without completing it from the commits.

        An incomplete listing is safe here: a file that it omits stays, and a slice that it shows is compared only with older slices.
        """
        found = self.view.listing
        return found.listing if isinstance(found, NamedFiles) else found

    @property
    def is_full(self) -> bool:
        """Whether the limit of the options is reached."""
        return 0 < self.options.max_files <= self.count

    def _take(self, partition: str, judge: Judge, files: Iterable[Any]) -> None:
        for removals in judge.removals(partition, files):
            names = [name for removal in removals for name in removal.names]
            self.files.setdefault(partition, []).extend(names)
            self.count += len(names)
            self.size += sum(removal.size for removal in removals)
            self.file_groups += 1
            if self.is_full:
                return

    def _judge(self, saved: frozenset[str]) -> Judge:
        before = self.retained.before
        options = self.options
        visibility = self.view.visibility
        gone = frozenset(
            (partition, file_id)
            for instant in self.timeline.commits
            if instant.action is Action.REPLACECOMMIT and instant.requested_time < before
            for partition, file_ids in visibility.read_commit(instant).replaced.items()
            for file_id in file_ids
        )
        versions = options.file_versions if options.policy == BY_VERSIONS else 1
        return Judge(visibility, before, versions, visibility.replaced, gone, saved)

    def _partitions(self) -> Sequence[str]:
        timeline, last = self.timeline, self.last
        first = min((i.requested_time for i in timeline.commits), default=cleaning_rules.ANY)
        known = last.earliest and first <= last.earliest and last.savepoints <= {*self.savepoints}
        by_commits = self.options.policy != BY_VERSIONS and self.retained.earliest is not None
        if not (self.options.incremental and known and by_commits):
            return self.listing.partitions()
        self.incremental = True
        changed: set[str] = set()
        for instant in timeline.commits:
            if last.earliest <= instant.requested_time < self.retained.before:
                changed |= self.view.visibility.read_commit(instant).partitions
        return sorted(changed)

    def _chosen(self, partitions: Sequence[str]) -> list[str]:
        """Return the partitions that pass the filter of the options."""
        options = self.options
        wanted = {path.strip() for path in options.partitions.split(",") if path.strip()}
        if not wanted and not options.partition_regex:
            return list(partitions)
        pattern = re.compile(options.partition_regex)
        found = [path for path in partitions if (path in wanted if wanted else pattern.fullmatch(path))]
        if len(found) < len(partitions):
            self.is_part = True
            self.why_not = f"{len(partitions) - len(found):,} partitions are not among those of the options"
        return found
