"""Raise a table from version 6 to 8: the new timeline is made next to the old one, and one decision activates it (versions 4.3).

The two layouts have different folders: ``.hoodie`` itself, and ``.hoodie/timeline``. The properties say which folder counts. So the decision first
makes all files of the new timeline, and then changes the properties. Before that change every reader sees the old table, and after it the new one.

If the process dies after the decision, `finish_or_undo` of any process publishes the rest from the commit record. If it dies before the decision, it
leaves base files that no timeline names, with their markers, and its reservation: the same function removes them.

No file of the old timeline is changed. It stays as the way back, until there is a newer commit (``opened_table/old_timeline.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pyhudi_core.conflicts.conflict import Group
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    CorruptionError,
    StorageError,
    UnsupportedTableError,
)
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model import version_changes
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State, is_time
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import METADATA_PARTITIONS, TableConfig
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.compaction.compaction_execution import CompactionRun
from pyhudi_core.services.compaction.compaction_plan import CompactionOperation, CompactionPlan
from pyhudi_core.services.service import Execution, Refused
from pyhudi_core.services.versions import lowering_eight
from pyhudi_core.services.versions.conversion import (
    ConvertedFile,
    archived_rows,
    converted_instants,
    history_files,
)
from pyhudi_core.services.versions.version_plan import VersionPlan
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.at_once import each
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, heartbeat, layout, markers
from pyhudi_core.transaction.begin import Transaction, completion_time_after
from pyhudi_core.transaction.commit import ask_gate
from pyhudi_core.transaction.decision import OutcomeUnknown, StagedIntent, decide, publish_decided, staged_intent
from pyhudi_core.transaction.locking import holding_lock
from pyhudi_core.transaction.record import Publication, PublicationKind, record_store
from pyhudi_core.transaction.reserved_decision import deciding, unknown_told
from pyhudi_core.write.attempt import extra_of
from pyhudi_core.write.states import load
from pyhudi_core.write.tasks import Written

_NEW = f".hoodie/{version_changes.TIMELINE}"
_ROLLED_BACK = DATA_ACTIONS | {Action.CLUSTERING}
"""Pending instants that are put unchanged on the new timeline, and rolled back there."""
_LEFT_OUT = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLEAN, Action.INDEXING})
"""Pending plans that the new timeline does not have: the base files of the upgrade replace their result, or they can be planned again."""
_HINT = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class OlderTable:
    """A table of version 6 before it is raised; ``names`` are the files of its timeline."""

    context: TableContext
    timeline: Timeline
    names: tuple[str, ...]
    snapshot: Snapshot
    slices: tuple[FileSlice, ...]

    @property
    def pending(self) -> tuple[Instant, ...]:
        """The pending writes, which are rolled back afterwards."""
        return tuple(instant for instant in self.timeline.pending if instant.action in _ROLLED_BACK)

    @property
    def plans(self) -> tuple[Instant, ...]:
        """The plans that are omitted."""
        return tuple(instant for instant in self.timeline.pending if instant.action in _LEFT_OUT)

    @property
    def kept(self) -> Timeline:
        """The part of the old timeline that the new one gets."""
        return Timeline(tuple(i for i in self.timeline if i.is_completed or i.action in _ROLLED_BACK))


def look(context: TableContext) -> OlderTable:
    """Read a table of version 6."""
    timeline = context.folder.load()
    names = _instants_listed(context)
    # The upgrade uses the files in the folders, not the content of a metadata table that other programs wrote.
    unlisted = context.config.with_properties({METADATA_PARTITIONS: None}, table=context.table)
    snapshot = load(replace(context, config=unlisted), timeline)
    return OlderTable(context, timeline, names, snapshot, slices_to_settle(snapshot))


def _instants_listed(context: TableContext) -> tuple[str, ...]:
    """Return the files of instants in the newest listing; the listing also has other files, which may change."""
    folder = context.folder
    return tuple(sorted(name for name in folder.listed[0] if folder.layout.parse(name) is not None))


def plan(context: TableContext, *, roll_back: bool) -> VersionPlan:
    """Return what an upgrade to version 8 would do. Changes nothing."""
    return judged(context, roll_back=roll_back)[1]


def judged(context: TableContext, *, roll_back: bool) -> tuple[OlderTable | None, VersionPlan]:
    """Read a table once, and return it with the plan of its upgrade.

    The upgrade uses exactly this state: instants that begin after the read are a conflict.
    """
    why = version_changes.why_not_to_version_8(context.config)
    if why:
        return None, _refused(context, why)
    found = look(context)
    why = _why_not(found, roll_back=roll_back)
    if why:
        return found, replace(_refused(context, why), pending=found.pending, plans=found.plans)
    return found, VersionPlan(
        context.config.version,
        8,
        found.pending,
        found.plans,
        len(found.slices),
        sum(piece.size for piece in found.slices),
        len(found.kept),
        len(archived_rows(context.folder, found.kept)),
        indexes=context.config.metadata_partitions,
        properties=version_changes.to_version_8(context.config),
    )


def _refused(context: TableContext, why: str) -> VersionPlan:
    error = UnsupportedTableError(f"The table cannot be raised to version 8: {why}", table=context.table, hint=_HINT)
    return VersionPlan(context.config.version, 8, why_not=why, refused=Refused(error, mendable=False))


def _why_not(found: OlderTable, *, roll_back: bool) -> str:
    """Say why the table cannot be raised now."""
    context = found.context
    others = [i for i in found.timeline.pending if i.action not in _ROLLED_BACK | _LEFT_OUT]
    if others:
        return f"the {others[0].action} {others[0].requested_time} is pending: let the release of Hudi that began it end it"
    left = {lowering_eight.LIST, *lowering_eight.left_over(context.storage)}
    if any(info.path not in left for info in context.storage.list(f"{_NEW}/")) and not _ours(context):
        return f"{_NEW} has files: an upgrade or a downgrade by Hudi did not end, or its leftovers are to be removed by hand"
    beating = [time for time in _heartbeats(context) if not heartbeat.is_left(context, layout.heartbeat(time))]
    done = {instant.requested_time for instant in found.timeline.completed}
    alive = sorted(set(beating) - done)
    if alive:
        return f"a writer is alive ({alive[0]}): end it, or wait for its end"
    silent = [i.requested_time for i in found.pending if i.requested_time not in _heartbeats(context)]
    if silent and not roll_back:
        return (
            f"the write {silent[0]} is pending and keeps no heartbeat, so it may be alive: let Hudi end it or roll it back; or, if its program"
            " has ended, say so with roll_back=True (--roll-back)"
        )
    return ""


def _heartbeats(context: TableContext) -> list[str]:
    names = (info.path.rpartition("/")[2] for info in context.root.list(f"{layout.HEARTBEATS}/"))
    return [name for name in names if is_time(name)]


def _ours(context: TableContext) -> list[str]:
    """Return the requested times that processes of this package have reserved in the table."""
    return [t for t in _heartbeats(context) if heartbeat.is_ours(context, Instant(t, Action.COMMIT, State.REQUESTED))]


def finish_or_undo(context: TableContext) -> bool:
    """End the upgrade of a dead process: publish it if it was decided, otherwise remove its files. Returns whether the table is raised now.

    The removal holds the lock: a process that was only paused decides either before the removal, or after it, and then finds that its files are gone.
    """
    for time in _ours(context):
        if heartbeat.is_left(context, layout.heartbeat(time), ask_storage=True):
            publish_decided(_to_come(context), time)
            with holding_lock(_to_come(context), "remove what an upgrade left"):
                is_left = heartbeat.is_left(context, layout.heartbeat(time), ask_storage=True)
                if is_left and not _is_decided(context, time):
                    _remove(context, time, named=())
    return _version(context) != context.config.version


def _is_decided(context: TableContext, time: str) -> bool:
    """Say whether the table is raised, or whether the latest decision belongs to this upgrade; any process may publish it at any time."""
    if _version(context) != context.config.version:
        return True
    record = record_store(context.root).read()
    return record is not None and record.intent.requested_time == time


def _to_come(context: TableContext) -> TableContext:
    """Return the table with the properties of version 8 and the timeline of version 6, because a table of version 6 cannot be written otherwise."""
    config = context.config
    return replace(context, config=config.with_properties(version_changes.to_version_8(config), table=context.table))


def _version(context: TableContext) -> int:
    return TableConfig.from_properties(properties_file.read(context.root), table=context.table).version


def _remove(context: TableContext, time: str, named: Sequence[str]) -> None:
    """Remove the files of an upgrade, except the named ones. The reservation is removed last, because it leads to all the others."""
    markers.remove_leaks(context, time, named)
    markers.remove(context.storage, time)
    context.root.delete_many([info.path for info in context.root.list(f"{layout.STAGED}/{time}-")])
    context.root.delete(layout.heartbeat(time))


@dataclass(slots=True)
class Raising:
    """One attempt to raise a table of version 6.

    Attributes:
        found: the table as it was when the attempt began.
        transaction: the reservation; its context has the properties of version 8 and the timeline of version 6.
        bodies: the files that the decision creates, by path.
        staged: the staging paths of their bytes.
        named: the base files that the new timeline names.
        archived: number of archived instants.
    """

    found: OlderTable
    transaction: Transaction
    how: Execution
    bodies: dict[str, bytes] = field(default_factory=dict)
    staged: dict[str, str] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    archived: int = 0
    is_decided: bool = False

    @classmethod
    def begin(cls, found: OlderTable, how: Execution) -> Raising:
        """Reserve the requested time of the upgrade."""
        return cls(found, begin.reserve(_to_come(found.context), Action.COMPACTION), how)

    def run(self) -> None:
        """Write, convert, decide. After an error the attempt leaves no files, except if it is unknown whether it was decided."""
        context = self.transaction.context
        with (
            unknown_told(
                self.transaction,
                "the upgrade was decided",
                hint="Upgrade again: that ends what was decided, or removes what was not. Until then the table is read as it was.",
            ),
            deciding(self.transaction, "raise the table to version 8", self._sweep) as terms,
        ):
            completion = self._prepare()
            ask_gate(self.how.gate, context, "to raise the table")
            self.how.progress("decide", 0, 0)
            decision = decide(context, lambda timeline: self._intent(timeline, completion), lambda _: None, terms)
            self.is_decided = decision.published or self._is_raised()
            if not self.is_decided:
                raise CommitConflictError(
                    "Another process ended this upgrade, or took this process for dead", table=context.table, hint="Try again."
                )  # fmt: skip

    def _is_raised(self) -> bool:
        """Say whether another process has published our decision. Raises `OutcomeUnknown` if that cannot be read."""
        try:
            return _version(self.transaction.context) != self.found.context.config.version
        except (StorageError, CorruptionError) as error:
            raise OutcomeUnknown(error, decided=True) from error

    def _sweep(self) -> None:
        """Remove the files that nobody needs any more. If the attempt was not decided, remove its base files, too.

        If this process was interrupted while it published the decision, the files stay: the next upgrade publishes it.
        """
        context, time = self.transaction.context, self.transaction.requested_time
        if self.is_decided or not _is_decided(self.found.context, time):
            _remove(context, time, self.named if self.is_decided else ())

    def _prepare(self) -> str:
        """Write the base files and stage the new timeline. Return the completion time of the upgrade."""
        transaction, context = self.transaction, self.transaction.context
        marks = max(self.found.timeline.high_water_mark, transaction.requested_time)
        completion = completion_time_after(context, marks)
        rows = archived_rows(context.folder, self.found.kept)
        self.archived = len(rows)
        files = [*history_files(rows, version_changes.HISTORY), *converted_instants(context.folder, self.found.kept)]
        if self.found.slices:
            run = SettlingRun.of(transaction, self.found.slices, self.found.snapshot, self.how)
            metadata = run.commit(run.written())
            self.named = tuple(stat.path for stat in metadata.stats)
            files.extend(self._own_instant(metadata, completion))
        for number, file in enumerate(files):
            path = f"{_NEW}/{file.path}"
            self.bodies[path] = file.body
            self.staged[path] = layout.staged(transaction.requested_time, f"{transaction.nonce}-{number}")
        self.how.progress("stage the new timeline", 0, len(files))
        each(
            context.root,
            context.runtime.executor,
            lambda path: context.root.put(self.staged[path], self.bodies[path]),
            list(self.bodies),
        )
        return completion

    def _own_instant(self, metadata: CommitMetadata, completion: str) -> Iterator[ConvertedFile]:
        """Yield the compaction that made the base files."""
        time, marker = self.transaction.requested_time, self.transaction.sync_marker
        plan = CompactionPlan(tuple(CompactionOperation(piece) for piece in self.found.slices)).encode(marker)
        requested = Instant(time, Action.COMPACTION, State.REQUESTED)
        yield ConvertedFile(requested.file_name(), plan)
        yield ConvertedFile(replace(requested, state=State.INFLIGHT).file_name(), b"")
        done = Instant(time, Action.COMMIT, State.COMPLETED, completion)
        body = encode_record(metadata.record_name(done.action), metadata.to_avro(done.action), sync_marker=marker)
        yield ConvertedFile(done.file_name(), body)

    def _intent(self, timeline: Timeline, completion: str) -> StagedIntent:
        """Return the decision. Raises `CommitConflictError` if the table has changed since the conversion."""
        context, transaction = self.transaction.context, self.transaction
        before = self.found.context.config
        now = TableConfig.from_properties(properties_file.read(context.root), table=context.table)
        now = now.merged_by(context.options.older_merge_law)
        if _instants_listed(context) != self.found.names or dict(now.raw) != dict(before.raw):
            raise CommitConflictError(
                "Another program changed the timeline or the properties while the table was raised",
                table=context.table,
                hint="Nothing was raised; try again when no program of Hudi writes to the table.",
            )
        time = transaction.requested_time
        is_swept = bool(self.named) and not markers.marker_files(context.storage, time)
        if is_swept or context.root.head(layout.heartbeat(time)) is None:
            raise CommitAbortedError(
                "The reservation of this upgrade was taken for that of a dead process",
                table=context.table,
                hint="Nothing was raised; try again.",
            )
        changes = version_changes.to_version_8(before, transaction.requested_time)
        last = Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=tuple(sorted(changes.items())))
        created = [Publication(path, staged) for path, staged in self.staged.items()]
        groups = (len(created), 1) if created else (1,)
        return staged_intent(transaction, [*created, last], self.bodies, completion_time=completion, groups=groups)


# --- base files for the file groups that have logs, before a table of version 6 is raised
# The merge law of version 6 is not the law of version 8 (`merge/precombine.py`). Logs after a pending compaction are named after a
# plan that the new timeline does not have. So every such file group gets a base file with the rows that a reader of version 6 sees. All base
# files have the same requested time, above all others. No timeline has this time yet, so nobody reads them before the upgrade is decided.


def slices_to_settle(snapshot: Snapshot) -> tuple[FileSlice, ...]:
    """Return the newest slices of the file groups that have a log after their base file.

    Includes logs that no commit names, which a dead write may have left. In the newest slice of a group, Hudi would read such a log as soon as its
    instant is older than the timeline.
    """
    found = []
    for partition in snapshot.view.partitions():
        logged = dict(_newest_logs(snapshot, partition))
        for piece in snapshot.view.slices(partition):
            above = piece.base is not None and logged.get(piece.group, "") >= piece.base.name.requested_time
            if piece.logs or above:
                found.append(piece)
    return tuple(found)


def _newest_logs(snapshot: Snapshot, partition: str) -> Iterator[tuple[Group, str]]:
    """Yield each file group with the greatest time in the names of its logs, even of logs that no commit names."""
    names = (parse_data_file(split(info.path)[1]) for info in snapshot.view.listing.files(partition))
    logs = [(name.file_id, name.requested_time) for name in names if isinstance(name, LogFileName) and not name.is_cdc]
    for file_id, time in sorted(logs):
        yield (partition, file_id), time


@dataclass(slots=True)
class SettlingRun(CompactionRun):
    """Writes these base files. The transaction's context has the properties of the new version, the snapshot has the present ones."""

    @classmethod
    def of(
        cls, transaction: Transaction, slices: Sequence[FileSlice], snapshot: Snapshot, how: Execution
    ) -> SettlingRun:
        """Return the run for slices of a snapshot."""
        run = cls(transaction, slices, how)
        run.snapshot = run.current = snapshot
        return run

    def written(self) -> Written:
        """Write the base files. Rows keep the commits that changed them."""
        return self._write()

    def commit(self, written: Written) -> CommitMetadata:
        """Return the commit that names the files."""
        extra = extra_of(self.transaction, self.how.extra_metadata, self.snapshot, {}, self.snapshot.schema)
        return CommitMetadata(str(OperationType.COMPACT), written.stats, extra)
