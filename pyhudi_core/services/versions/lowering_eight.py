"""Lower a table from version 8 to 6: ordinary services make the files suitable, then one decision activates a timeline of layout 1 (versions 3.3 and
4.3).

A log of version 8 has the time of its own commit in its name. Hudi 0.15 would take this for the time of the log's base file. So no log may stay: a
compaction gives each file group a base file, and a clean deletes the older slices. Both are ordinary services of version 8, as are the removal of the
metadata table and the sweep of files that no commit names, which 0.15 would read. A crash between these steps leaves a table of version 8.

The decision creates all files of the new timeline in ``.hoodie`` and a list of the files of the old one (`LOWERED`); its last step changes the
properties. Afterwards the old files are removed, by that list: Hudi 1.x would find them if it raised the table later. A reader of this package that
lists the old folder too late sees the list, and begins again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pyhudi_core.errors import (
    CommitConflictError,
    CorruptTimelineError,
    ObjectNotFoundError,
    SnapshotExpiredError,
    UnsupportedTableError,
)
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.model import version_changes
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Action, is_time
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.opened_table.old_timeline import FOLDER, OldTimeline
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import METADATA_TABLE, TableContext
from pyhudi_core.savepoints.hold_files import held_files
from pyhudi_core.savepoints.savepoint_files import kept_files
from pyhudi_core.services.cleaning.clean_plan import CleaningPlan
from pyhudi_core.services.cleaning.cleaning import Cleaning, taking_all
from pyhudi_core.services.compaction.compaction import Compaction
from pyhudi_core.services.metadata.metadata_tables import MetadataTableOf
from pyhudi_core.services.service import Execution, Refused, refused_by
from pyhudi_core.services.sweep.sweep import Sweep
from pyhudi_core.services.versions import eight_and_nine
from pyhudi_core.services.versions.conversion_to_six import archived_log, instants_of_layout_one
from pyhudi_core.services.versions.version_plan import VersionPlan
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.at_once import each
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.layout_one.layout import LayoutOne
from pyhudi_core.timeline.layouts import LOWERED
from pyhudi_core.transaction import begin, heartbeat, layout, metadata_removal, removal, rollback
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import ask_gate
from pyhudi_core.transaction.decision import StagedIntent, decide, staged_intent
from pyhudi_core.transaction.locking import holding_lock
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import deciding, sweep_reservation, unknown_told
from pyhudi_core.write.key_form import has_prefixed_keys
from pyhudi_core.write.states import load

_OLD = f"{FOLDER}/{version_changes.TIMELINE}"
LIST = f"{_OLD}/{LOWERED}"
"""The files of the old timeline, as JSON; empty when they are removed."""
_FROM = 8
_SETTLED = frozenset({Action.COMPACTION, Action.CLEAN})
"""Actions of pending plans that are executed first; all other pending instants are refused by name."""


# --- plan


def plan(context: TableContext) -> VersionPlan:
    """Return the plan for a change from version 8 or 9 to 6. Changes nothing."""
    config, why = context.config, ""
    if config.version > _FROM:
        why = eight_and_nine.why_not_of(context, 8)
        config = config.with_properties(version_changes.to_version_8_again(config), table=context.table)
    timeline = context.folder.load()
    snapshot = load(context, timeline)
    slices = tuple(piece for piece in snapshot.view.all_slices() if piece.logs)
    why = why or version_changes.why_not_to_version_6(config) or _why_not(context, timeline, snapshot, slices)
    if why:
        return refused(context, why)
    old = OldTimeline.of(context.folder, context.config.raised_at)
    return VersionPlan(
        context.config.version,
        6,
        plans=tuple(instant for instant in timeline.pending if instant.action in _SETTLED),
        file_groups=len(slices),
        bytes=sum(piece.size for piece in slices),
        instants=len(timeline),
        files=len(old.files),
        logs=len(list(_logs(snapshot))),
        indexes=context.config.metadata_partitions,
        properties=version_changes.to_version_6(config),
    )


def refused(context: TableContext, why: str) -> VersionPlan:
    """Return the plan of a table that cannot be lowered."""
    error = UnsupportedTableError(
        f"The table cannot be lowered to version 6: {why}", table=context.table, hint="Nothing was changed."
    )
    return VersionPlan(context.config.version, 6, why_not=why, refused=Refused(error, mendable=False))


def _why_not(context: TableContext, timeline: Timeline, snapshot: Snapshot, slices: tuple[FileSlice, ...]) -> str:
    """Say why the table cannot be lowered now."""
    if context.config.may_prefix_keys and has_prefixed_keys(context, snapshot):
        return "its keys are column:value, and Hudi 0.15 writes the value alone"
    others = [instant for instant in timeline.pending if instant.action not in _SETTLED]
    if others:
        return f"the {others[0].action} {others[0].requested_time} is pending: end it, cancel it or roll it back first"
    alive = _alive(context)
    if alive:
        return f"a writer is alive ({alive[0]}): end it, or wait for its end"
    compaction = refused_by(Compaction(context).plan()) if slices else None
    if compaction is not None:
        return f"its logs cannot be compacted: {compaction.error.message}"
    strange = _strange_files(context)
    return f"{strange[0]} is a file of version 6 that the table does not know: see `pyhudi check`" if strange else ""


def _alive(context: TableContext, own: str = "") -> list[str]:
    """Return the requested times of writers with a heartbeat."""
    names = (info.path.rpartition("/")[2] for info in context.root.list(f"{layout.HEARTBEATS}/"))
    times = sorted(name for name in names if is_time(name) and name != own)
    return [time for time in times if not heartbeat.is_left(context, layout.heartbeat(time))]


def _strange_files(context: TableContext) -> list[str]:
    """Return the timeline files of layout 1 that no upgrade of this package has left."""
    one, known = LayoutOne(), {*OldTimeline.of(context.folder, context.config.raised_at).files}
    names = sorted(context.root.list_names(FOLDER)[0])
    return [f"{FOLDER}/{name}" for name in names if one.parse(name) is not None and f"{FOLDER}/{name}" not in known]


def _logs(snapshot: Snapshot) -> Iterator[str]:
    """Yield the logs of all slices."""
    for partition in snapshot.view.partitions():
        for info in snapshot.view.listing.files(partition):
            name = parse_data_file(split(info.path)[1])
            if isinstance(name, LogFileName) and not name.is_cdc:
                yield info.path


# --- settle


class _CleanOfLogs(Cleaning):
    """Clean all but the newest slices. It records that states before the newest commit are gone, so Hudi refuses to read them."""

    def _planned(self, timeline: Timeline, *, triggered: bool) -> CleaningPlan:
        found = super()._planned(timeline, triggered=triggered)
        newest = max(timeline.commits, key=lambda instant: instant.requested_time, default=None)
        return replace(found, earliest=newest)


def repair(context: TableContext) -> TableContext:
    """Finish the work of dead processes, including a lowering. Return the table afterwards."""
    if context.config.timeline_layout > 1:
        with suppress(SnapshotExpiredError):  # another process has lowered the table to version 6
            rollback.repair(context)
    now = context.below("")
    return reopened(now) if now.config.timeline_layout > 1 else now


def settle(context: TableContext, how: Execution) -> None:
    """Make the table's files suitable for version 6, by services of version 8. Raises the errors of these services."""
    Compaction(taking_all(reopened(context))).run(gate=how.gate, progress=how.progress)
    _remove_metadata_table(reopened(context))
    context = reopened(
        context
    )  # files are listed from here on: the metadata table does not know the files of writes that were rolled back
    timeline = context.folder.load()
    if any(_logs(load(context, timeline))) or any(instant.action is Action.CLEAN for instant in timeline.pending):
        _CleanOfLogs(taking_all(context)).run(gate=how.gate, progress=how.progress)
        _remove_rest(context)
    rollback.repair(context)  # a dead process's plan that was executed here has left its reservation
    Sweep(taking_all(context)).run(gate=how.gate, progress=how.progress)
    context.root.delete_many(OldTimeline.of(context.folder, context.config.raised_at).files)


def _remove_metadata_table(context: TableContext) -> None:
    """Unlist the metadata table, and remove the rest of its folder: Hudi 0.15 would build its own metadata table into that folder."""
    MetadataTableOf(context).drop()
    if context.root.list(f"{METADATA_TABLE}/"):
        with holding_lock(context, "remove what is left of a metadata table"):
            if not reopened(context).config.metadata_partitions:
                metadata_removal.remove_folder(context.root)


def _remove_rest(context: TableContext) -> None:
    """Remove logs of version 6 that a clean does not find: logs named after a plan that an upgrade omitted, and logs of writes that were rolled back.

    These logs are older than the newest base file of their group, and their own base files are gone. A living writer has its heartbeat or its instant
    before its first file; both are checked first. A writer that begins later has a time above the base files.
    """
    reserved = {info.path.rpartition("/")[2] for info in context.root.list(f"{layout.HEARTBEATS}/")}
    timeline = context.folder.load()
    living = reserved | {instant.requested_time for instant in timeline.pending}
    snapshot = load(context, timeline)
    slices = snapshot.view.all_slices()
    kept = kept_files(context.folder, timeline) | held_files(context) | {log.path for one in slices for log in one.logs}
    newest = {(one.partition, one.file_id): one.base.name.requested_time for one in slices if one.base is not None}
    rest = []
    for path in _logs(snapshot):
        partition, text = split(path)
        name = parse_data_file(text)
        assert name is not None, "it is a log"
        is_old = name.requested_time < newest.get((partition, name.file_id), "")
        if is_old and name.requested_time not in living and path not in kept:
            rest.append(path)
    removal.delete_data_files(context.storage, rest)


# --- convert and decide


@dataclass(slots=True)
class Lowering:
    """One attempt to lower a settled table from version 8 to 6.

    Attributes:
        context: the table, as it was when the attempt began.
        timeline, names: its timeline, and the timeline's files.
        archived: number of archived instants that are written again. bodies, staged: the bytes and the staging paths of the files that the decision
            creates, by path.
        listed_before: the list of an earlier lowering, if the table was raised again afterwards.
    """

    context: TableContext
    how: Execution
    timeline: Timeline
    names: tuple[str, ...]
    archived: int = 0
    bodies: dict[str, bytes] = field(default_factory=dict)
    staged: dict[str, str] = field(default_factory=dict)
    listed_before: bytes | None = None

    @classmethod
    def begin(cls, context: TableContext, how: Execution) -> Lowering:
        """Read the table, and refuse it if version 6 cannot represent it."""
        timeline = context.folder.load()
        names = _instants_listed(context)
        snapshot = load(context, timeline)
        why = version_changes.why_not_to_version_6(context.config) or _why_not(context, timeline, snapshot, ())
        if not why and timeline.pending:
            why = f"the {timeline.pending[0].action} {timeline.pending[0].requested_time} is pending: end it first"
        log = next(_logs(snapshot), "")
        if not why and log:
            why = f"the log {log} stays, which 0.15 would misread: a savepoint, a hold or a commit after the compaction keeps it"
        if why and (error := refused(context, why).refused) is not None:
            raise error.error
        return cls(context, how, timeline, names)

    def run(self) -> None:
        """Stage the new timeline and decide."""
        context = self.context
        transaction = begin.reserve(context, Action.INDEXING)
        what = "give the table version 6"
        with (
            unknown_told(
                transaction, "the version was changed", hint="Do it again: the next writer has ended what was decided."
            ),
            deciding(transaction, what, lambda: sweep_reservation(transaction)) as terms,
        ):
            self._stage(transaction)
            ask_gate(self.how.gate, context, what)
            decide(context, lambda timeline: self._intent(transaction, timeline), lambda _: None, terms)

    def _stage(self, transaction: Transaction) -> None:
        folder, archive = (
            self.context.folder,
            version_changes.to_version_6(self.context.config)[version_changes.ARCHIVE],
        )
        log, self.archived = archived_log(folder, self.timeline, archive or "")
        files = {f"{FOLDER}/{file.path}": file.body for file in (*log, *instants_of_layout_one(folder, self.timeline))}
        old = [info.path for info in self.context.root.list(f"{_OLD}/") if info.path != LIST]
        listed = {"time": transaction.requested_time, "files": sorted(old)}
        self.listed_before = self.context.root.get(LIST) if self.context.root.head(LIST) is not None else None
        self.bodies = {**files, LIST: json.dumps(listed).encode()}
        time, nonce = transaction.requested_time, transaction.nonce
        self.staged = {path: layout.staged(time, f"{nonce}-{number}") for number, path in enumerate(self.bodies)}
        self.how.progress("stage the new timeline", 0, len(files))
        each(
            self.context.root,
            self.context.runtime.executor,
            lambda path: self.context.root.put(self.staged[path], self.bodies[path]),
            list(self.bodies),
        )

    def _intent(self, transaction: Transaction, timeline: Timeline) -> StagedIntent | None:
        """Return the decision; None if another process has made it. Raises `CommitConflictError` if the table has changed since the conversion."""
        context = self.context
        now = TableConfig.from_properties(properties_file.read(context.root), table=context.table)
        if now.version == 6:
            return None
        is_changed = _instants_listed(context) != self.names or dict(now.raw) != dict(context.config.raw)
        if is_changed or _alive(context, transaction.requested_time):
            raise CommitConflictError(
                "Another program wrote to the table while it was lowered to version 6",
                table=context.table,
                hint="Try again.",
            )
        changes = tuple(sorted(version_changes.to_version_6(context.config).items()))
        last = Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=changes)
        created = [Publication(path, staged) for path, staged in self.staged.items() if path != LIST]
        of_old = Publication(LIST, self.staged[LIST], PublicationKind.REPLACE, digest(self.listed_before))
        time = begin.completion_time_after(context, max(timeline.high_water_mark, transaction.requested_time))
        groups = (len(created), 1, 1) if created else (1, 1)
        return staged_intent(transaction, [*created, of_old, last], self.bodies, completion_time=time, groups=groups)


def _instants_listed(context: TableContext) -> tuple[str, ...]:
    """Return the files of instants in the newest listing."""
    folder = context.folder
    return tuple(sorted(name for name in folder.listed[0] if folder.layout.parse(name) is not None))


# --- afterwards


def left_over(storage: Storage) -> tuple[str, ...]:
    """Return the files of the old timeline that a lowering has left, from its list; empty if the lowering has ended."""
    return _listed(storage)[1]


def _listed(storage: Storage) -> tuple[str, tuple[str, ...]]:
    """Return the requested time of the lowering and the files."""
    try:
        found = parse_json(storage.get(LIST) or b"{}", most_bytes=None)
        time, files = found.get("time", ""), found.get("files", [])
        if not isinstance(time, str) or not isinstance(files, list) or not all(isinstance(one, str) for one in files):
            raise TypeError("it is no list of files")
        return time, tuple(map(safe_relative_path, files))
    except ObjectNotFoundError:
        return "", ()
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptTimelineError(
            f"The list of what a lowering of the version leaves behind is damaged: {error!s:.200}",
            table=storage.location,
            path=LIST,
            hint="Remove it if the table has version 8 or higher; else restore it from a copy.",
        ) from error


def end(context: TableContext) -> int:
    """Remove the old timeline of a table that now has version 6, as the decision lists its files. Return the number of files. Can be repeated."""
    time, files = _listed(context.root)
    if (
        not time
        or TableConfig.from_properties(properties_file.read(context.root), table=context.table).timeline_layout > 1
    ):
        return 0  # a table that has the old timeline needs it
    context.root.delete_many(files)
    context.root.delete_many(info.path for info in context.root.list(f"{layout.STAGED}/{time}-"))
    context.root.delete(layout.heartbeat(time))
    context.root.put(LIST, b"")
    return len(files)


def forget(context: TableContext) -> None:
    """Remove the empty list, before a table of version 6 is raised again."""
    end(context)
    context.root.delete(LIST)
