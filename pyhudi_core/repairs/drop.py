"""The drop of a table deletes all files of the table.

One decision under the table's lock begins it: the property ``pyhudi.table.dropping`` names the drop. The drop is refused while a writer, a service or
a hold exists. From the decision on, every reader of the properties gets `TableHalfDroppedError`, and no earlier write can commit, because every
commit reads the properties under the lock. Then the data files are deleted, then the files in ``.hoodie``, and ``hoodie.properties`` last. So if the
process dies, the properties show that the table is half dropped, and the next drop finishes the work.

The drop deletes only files of the table: data files by their names, the files that mark partitions, the Iceberg metadata of this project, and
``.hoodie``. Tables inside the folder and files of other programs stay; the rows of a bootstrapped table stay at their source. A writer of Hudi
does not know the property, so end such writers first.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from pyhudi_core.argument_types import OfTable
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    DropRefusedError,
    HudiError,
    PreconditionFailedError,
    TableNotFoundError,
    at_table,
)
from pyhudi_core.iceberg import table_metadata
from pyhudi_core.model.file_names import PARTITION_METAFILE, parse_data_file, split
from pyhudi_core.model.instant import Action
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import DROPPING
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.savepoints.hold_files import read_holds
from pyhudi_core.savepoints.savepoint_files import read_savepoints
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.progress import ServiceProgress, Steps, silent
from pyhudi_core.services.restore.commits_to_undo import at_work
from pyhudi_core.services.service import Figures
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.storage.own_part import HOODIE, objects_of_table
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, heartbeat, layout, removal
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import Gate, ask_gate
from pyhudi_core.transaction.decision import OutcomeUnknown, StagedIntent, decide
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import deciding, reserved_intent, sweep_reservation

_LAST = (properties_file.BACKUP, properties_file.PATH)
"""The files that are deleted last, in this order: readers use the backup if the properties are gone."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
@printable
class TableDropPlan:
    """What a drop would delete; false if the drop would be refused.

    Attributes:
        files, bytes: number and size of the files to delete.
        savepoints: the commits whose savepoints are deleted with the table.
        left: paths of files of other programs in the folder; they stay.
        half_dropped: whether an earlier drop has begun; this drop would finish it.
        why_not: the users of the table.
        names: the table's names in a catalog, which are removed; empty if it was not found by a catalog.
    """

    files: int
    bytes: int
    savepoints: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    half_dropped: bool = False
    why_not: str = ""
    names: tuple[str, ...] = ()

    @property
    def figures(self) -> Figures:
        """Numbers of files and bytes to delete, of files that stay, and of seconds."""
        return with_seconds({"files": self.files, "bytes": self.bytes, "left": len(self.left)}, files=self.files)

    def __bool__(self) -> bool:
        return not self.why_not

    def __str__(self) -> str:
        if not self:
            return f"It would be refused: {self.why_not}"
        finish = "Finish a drop that has begun: delete" if self.half_dropped else "Delete the table for good:"
        saved = f", {len(self.savepoints)} savepoints among them" if self.savepoints else ""
        return (
            f"{finish} {self.files:,} files, {self.bytes:,} bytes{saved}{_staying(self.left)}{_in_catalog(self.names)}"
        )


@dataclass(frozen=True, slots=True)
@printable
class DroppedTable:
    """The result of a drop; false if there was no table. ``left``: paths of files of other programs, which stay. ``names``: names that were removed
    from a catalog.
    """

    location: str
    files: int = 0
    bytes: int = 0
    left: tuple[str, ...] = ()
    why_not: str = ""
    names: tuple[str, ...] = ()

    @property
    def figures(self) -> Figures:
        """Numbers of deleted files and bytes, and of files that stay."""
        return {"files": self.files, "bytes": self.bytes, "left": len(self.left)}

    def __bool__(self) -> bool:
        return not self.why_not

    def __str__(self) -> str:
        if not self:
            return f"Nothing was dropped: {self.why_not}"
        return f"Dropped {self.location}: {self.files:,} files, {self.bytes:,} bytes{_staying(self.left)}{_in_catalog(self.names)}"


def _in_catalog(names: tuple[str, ...]) -> str:
    return f"; in the catalog: {', '.join(names)}" if names else ""


def _staying(left: tuple[str, ...]) -> str:
    if not left:
        return ""
    names = ", ".join(left[:_SHOWN]) + (", ..." if len(left) > _SHOWN else "")
    return f"; {len(left):,} files that are not of Hudi stay: {names}"


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a table: data files, its other files outside of ``.hoodie``, ``.hoodie`` without the properties, and files that stay."""

    data: list[ObjectInfo]
    marks: list[ObjectInfo]
    hoodie: list[ObjectInfo]
    last: list[ObjectInfo]
    left: tuple[str, ...]

    @classmethod
    def of(cls, context: TableContext) -> _Files:
        storage = context.root
        synced = table_metadata.is_ours(storage)
        data, marks, left = list[ObjectInfo](), list[ObjectInfo](), list[str]()
        for info in objects_of_table(storage, context.runtime.executor):
            name = split(info.path)[1]
            if parse_data_file(name) is not None:
                data.append(info)
            elif name.startswith(PARTITION_METAFILE) or (synced and table_metadata.is_metadata(info.path)):
                marks.append(info)
            else:
                left.append(info.path)
        below = storage.list(f"{HOODIE}/")
        hoodie = [info for info in below if info.path not in _LAST]
        return cls(data, marks, hoodie, [info for info in below if info.path in _LAST], tuple(left))

    @property
    def all(self) -> list[ObjectInfo]:
        return [*self.data, *self.marks, *self.hoodie, *self.last]

    @property
    def bytes(self) -> int:
        return sum(info.size for info in self.all)


def _nothing() -> None: ...


@printable
class TableDrop(OfTable):
    """The drop of one table: ``table.drop()``. ``table.drop.plan()`` shows what the drop would delete."""

    _METHODS: ClassVar[str] = ".plan()"

    def __init__(self, opened: OpenedTable, begun: Callable[[], object] = _nothing) -> None:
        """Make the drop. ``begun`` is called when the drop has been decided, before the first file is deleted."""
        self._opened, self._begun = opened, begun

    def __repr__(self) -> str:
        return f"Drop of {self._opened.storage.location}"

    def plan(self) -> TableDropPlan:
        """Return what a drop would delete now, and the users of the table. Lists every file, and changes nothing."""
        with at_table(self._opened.storage.location):
            context, half = self._opened.to_drop()
            timeline = context.folder.load()
            why_not = _in_use(context, timeline, half=half)
            saved = () if half else tuple(one.instant for one in read_savepoints(context.folder, timeline))
            files = _Files.of(context)
            return TableDropPlan(len(files.all), files.bytes, saved, files.left, half, why_not)

    def __call__(self, gate: Gate | None = None, *, progress: ServiceProgress | None = None) -> DroppedTable:
        """Delete the table permanently: its rows, its history, its savepoints. On a disk the empty folder stays.

        ``gate``: is asked under the table's lock.

        If this process dies, the table's properties say that it is half dropped, and the next call, or `pyhudi.drop_table`, finishes the drop.

        Raises `DropRefusedError` while a writer or a service is running or a hold has not ended: nothing was changed.
        """
        with at_table(self._opened.storage.location):
            context, half = self._opened.to_drop()
            transaction = begin.reserve(context, Action.INDEXING)
            return _Dropping(transaction, half, progress or silent, self._begun, gate).run()


@dataclass(slots=True)
class _Dropping:
    """One drop. Its reservation is kept young until only the properties are left, so that two processes do not drop at the same time."""

    transaction: Transaction
    half: bool
    progress: ServiceProgress
    begun: Callable[[], object]
    gate: Gate | None

    def run(self) -> DroppedTable:
        transaction = self.transaction
        context = transaction.context
        try:
            with deciding(transaction, "drop the table", lambda: None) as terms:
                decide(context, self._intent, self._refuse_in_use, terms)
        except OutcomeUnknown as unknown:
            raise CommitStateUnknownError(
                f"The storage failed while the drop was decided: {unknown.error.message}",
                token=transaction.token,
                table=context.table,
                hint="Drop the table again; hudi.drop_table(location) takes a table that is half dropped, too.",
            ) from unknown.error
        except BaseException:
            sweep_reservation(transaction)
            raise
        try:
            self.begun()
            return self._delete()
        except HudiError as error:
            transaction.heartbeat.handle.cancel()
            with suppress(HudiError):  # otherwise the heartbeat expires
                transaction.heartbeat.stop(context)
            raise CommitStateUnknownError(
                f"The drop has begun, and did not end: {error.message}",
                token=transaction.token,
                table=context.table,
                path=error.path,
                hint="hudi.drop_table(location) or `pyhudi drop LOCATION` finishes it; until then the table is neither read nor written.",
            ) from error

    def _intent(self, timeline: Timeline) -> StagedIntent:
        changes = ((DROPPING, self.transaction.requested_time),)
        change = Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=changes)
        return reserved_intent(self.transaction, timeline, [change])

    def _refuse_in_use(self, timeline: Timeline) -> None:
        """Raise `DropRefusedError`, under the lock, if another process uses the table, or if the table is no longer the half dropped one. Then ask
        the gate.
        """
        context, time = self.transaction.context, self.transaction.requested_time
        if self.half and not _dropping(context.root):
            raise DropRefusedError(
                "The table is not dropped: another process ended the drop, and a new table is there",
                table=context.table,
                hint="Nothing was changed. Drop again if the new table is to go, too.",
            )
        why_not = _in_use(context, timeline, half=self.half, own=time, ask_storage=True)
        if why_not:
            raise DropRefusedError(
                f"The table is not dropped: {why_not}",
                table=context.table,
                hint="Nothing was changed. Wait until it has ended, or end it: table.rollback(instant), table.holds.delete(hold). Then drop again.",
            )
        ask_gate(self.gate, context, "to drop the table")

    def _delete(self) -> DroppedTable:
        context = self.transaction.context
        storage = context.root
        self._refuse_other(0)
        files = _Files.of(context)
        steps = Steps(self.progress, "delete files", len(files.all))
        steps.begin()

        def gone(number: int) -> None:
            steps.add(number)
            self._refuse_other(number)

        removal.delete_data_files(storage, [info.path for info in files.data], gone=gone)
        removal.delete_leftovers(storage, [info.path for info in files.marks], layout.MARKERS, gone=gone)
        self.transaction.heartbeat.handle.cancel()  # or it would be written again
        removal.delete_leftovers(storage, [info.path for info in files.hoodie], layout.MARKERS, gone=gone)
        storage.sweep_temporaries("", 0, context.runtime.clock.now_ms())
        try:
            properties_file.remove(storage, lambda: self._refuse_other(0))
        except PreconditionFailedError as error:
            raise self._overtaken() from error
        steps.end()
        folders = {info.path.partition("/")[0] for info in files.all if "/" in info.path}
        for folder in sorted(folders):
            storage.remove_empty_folders(folder)
        # The drop's own heartbeat and its decision are not of the table: the plan did not count them.
        records = [info.path for info in files.hoodie if info.path.startswith(f"{layout.COMMIT_RECORD}.")]
        own = {layout.heartbeat(self.transaction.requested_time), max(records, default="")}
        dropped = [info for info in files.all if info.path not in own]
        return DroppedTable(context.table, len(dropped), sum(info.size for info in dropped), files.left)

    def _refuse_other(self, _number: int) -> None:
        """Raise `CommitAbortedError` unless the table that this process drops still exists: the process may have been paused for a long time."""
        if _dropping(self.transaction.context.root) != self.transaction.requested_time:
            raise self._overtaken()

    def _overtaken(self) -> CommitAbortedError:
        context = self.transaction.context
        return CommitAbortedError(
            "Another process took this drop for dead, and goes on with it",
            table=context.table,
            instant=self.transaction.requested_time,
            hint="This process deletes nothing more; hudi.table_exists(location) says whether the other one has ended.",
        )


def _dropping(storage: Storage) -> str:
    """Return the requested time of the drop that the properties name; empty if there are no properties, or if they name no drop."""
    try:
        return properties_file.read(storage).get(DROPPING, "")
    except TableNotFoundError:
        return ""


def _in_use(context: TableContext, timeline: Timeline, *, half: bool, own: str = "", ask_storage: bool = False) -> str:
    """Return the users of a table; empty if there are none. In a half dropped table only another drop can be running."""
    doing = [] if half else [text for instant in timeline.pending if (text := at_work(context, instant))]
    if not half:
        doing += [
            f"a hold keeps files until {hold.ends:%Y-%m-%d %H:%M:%S} UTC ({hold.name})"
            for hold in read_holds(context).lasting
        ]
    named = {instant.requested_time for instant in timeline.pending}
    for info in context.root.list(f"{layout.HEARTBEATS}/"):
        time = split(info.path)[1]
        if time not in (*named, own) and not heartbeat.is_left(context, info.path, ask_storage=ask_storage):
            doing.append(f"a process has begun {time}, and is alive")
    return "; ".join(doing[:_SHOWN])
