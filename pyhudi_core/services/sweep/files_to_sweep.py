"""Find the files that a sweep deletes: files that no commit, no pending plan and no running writer names (specification, "Cleaning").

The order of reads makes this safe: first the files, then the heartbeats, then the timeline, then the archived timeline. A writer has its heartbeat
and its instant before its first file, and keeps the instant until the commit names the file. So a file that is found here had no owner when the
timeline was read. It gets no owner later: requested times only increase, so no process can begin an instant with the requested time in the file's
name.

Files of an instant that has a heartbeat, alive or dead, or that is pending, stay. Writers of other programs may have no heartbeat, but their instants
are pending.

If a commit, a savepoint or a hold cannot be read, it may name any data file of its table: all of them stay, and the rest is swept.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import chain

from pyhudi_core.conflicts.concurrent import pending_restores
from pyhudi_core.errors import CorruptionError, LimitExceededError, UnsafePathError
from pyhudi_core.file_groups.unnamed_files import FileOwner, Owners, named_paths, recovered_until
from pyhudi_core.model.file_names import parse_data_file, split
from pyhudi_core.model.instant import Instant, is_time
from pyhudi_core.model.printing import printable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.savepoints.hold_files import held_files
from pyhudi_core.savepoints.savepoint_files import kept_files
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.service import Figures
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.storage.own_part import objects_of_table
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import group, layout, markers, waiting_rows
from pyhudi_core.transaction.record import record_store
from pyhudi_core.transaction.waiting_rows import WaitingRows

Infos = tuple[ObjectInfo, ...]

_YOUNG, _PENDING = "younger than {minutes} minutes", "of pending instants, or of writers with a heartbeat"
_LEFT_OUT = "left out of a recovery: delete them if they are not needed"
_KEPT = {
    FileOwner.NOBODY_BUT_SHOWN: "shown to readers as files of archived commits (`pyhudi check` names them)",
    FileOwner.UNKNOWN: "of archived instants that cannot be read",
    FileOwner.LIVING_WRITE: _PENDING,
    FileOwner.DEAD_WRITE: _PENDING,
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
@printable
class SweptPlace:
    """The files to delete in one table: the data table, or its metadata table. Paths are relative to that table.

    Attributes:
        prefix: the folder of the metadata table; empty for the data table.
        data_files: base files, log files and change logs.
        markers: markers of instants that are not pending.
    """

    prefix: str
    data_files: Infos = ()
    markers: Infos = ()


@dataclass(frozen=True, slots=True)
@printable
class SweepPlan:
    """The files to delete. If there are none, the plan is false and has the reason.

    Attributes:
        places: the data table, and its metadata table.
        staged: staged bytes and registrations of executors whose instant is not pending; and decisions of ended transactions.
        rows: folders of rows that killed writes left.
        temporaries: hidden files that killed processes did not finish.
        unpublished: inflight or requested files of commits of the metadata table that were not published with their commit of the data table; all
            files of such a commit are deleted.
        why_not: why there is nothing to delete, or what stays.
    """

    places: tuple[SweptPlace, ...] = ()
    staged: Infos = ()
    rows: tuple[WaitingRows, ...] = ()
    temporaries: Infos = ()
    unpublished: Infos = ()
    why_not: str = ""

    @property
    def data_files(self) -> tuple[str, ...]:
        """The data files, relative to the table."""
        named = ((place.prefix, info.path) for place in self.places for info in place.data_files)
        return tuple(f"{prefix}/{path}" if prefix else path for prefix, path in named)

    @property
    def infos(self) -> Iterator[ObjectInfo]:
        """Every file of the plan, with its path relative to the table."""
        for place in self.places:
            inside = f"{place.prefix}/" if place.prefix else ""
            of_place = (*place.data_files, *place.markers, *(self.unpublished if inside else ()))
            yield from (replace(info, path=inside + info.path) for info in of_place)
        yield from chain(self.staged, self.temporaries, *(rows.files for rows in self.rows))

    @property
    def figures(self) -> Figures:
        """Numbers of files of each kind, number and size of all files, and seconds."""
        data, markers = [place.data_files for place in self.places], [place.markers for place in self.places]
        staged = [*self.staged, *chain.from_iterable(rows.files for rows in self.rows)]
        everything = [*chain(*data, *markers), *staged, *self.temporaries, *self.unpublished]
        figures = {
            "data_files": sum(map(len, data)),
            "markers": sum(map(len, markers)),
            "staged": len(staged),
            "temporaries": len(self.temporaries),
            "unpublished": len(self.unpublished),
            "files": len(everything),
            "bytes": sum(info.size for info in everything),
        }
        return with_seconds(figures, files=len(everything))

    def changed_before(self, latest_ms: int) -> SweepPlan:
        """Return the plan without files that were changed later than this time (milliseconds since 1970 by the storage's clock)."""

        def old(infos: Infos) -> Infos:
            return tuple(info for info in infos if info.modified_ms <= latest_ms)

        places = tuple(SweptPlace(place.prefix, old(place.data_files), old(place.markers)) for place in self.places)
        rows = tuple(rows for rows in self.rows if old(rows.files) == rows.files)
        return SweepPlan(places, old(self.staged), rows, old(self.temporaries), old(self.unpublished), self.why_not)

    def __bool__(self) -> bool:
        return any(self.figures.values())

    def __str__(self) -> str:
        left = f"; {self.why_not}" if self.why_not else ""
        if not self:
            return f"Nothing to sweep: {self.why_not}"
        shown = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in self.figures.items() if number)
        return f"Delete {shown}{left}"


def plan_sweep(context: TableContext, latest_ms: int, listed: ListedPlace | None = None) -> SweepPlan:
    """Return the plan of a sweep of files that were last changed before this time (milliseconds since 1970). Changes nothing.

    ``listed``: the objects of the table, if the caller has just listed them. If a commit, a savepoint or a hold cannot be read, the data files of its
    table stay, and a warning in the log names it.
    """
    found = [listed or ListedPlace.of(context), *(ListedPlace.of(context.at(place)) for place in context.companions)]
    unpublished = [
        (listed.context, instant) for listed in found[1:] for instant in listed.context.folder.load().pending
    ]
    staged = [*context.root.list(f"{layout.STAGED}/"), *context.root.list(f"{layout.EXECUTIONS}/")]
    rows = list(waiting_rows.folders_of(context.root.list(f"{layout.ROWS}/")))
    state = _State(context, latest_ms)
    beats = {info.path.rpartition("/")[2] for info in context.root.list(f"{layout.HEARTBEATS}/")}
    timelines = [listed.context.folder.load() for listed in found]
    if pending_restores(timelines[0]):
        return SweepPlan(why_not="a restore is pending")
    state.needed = beats | _decided(context, timelines[0]) | _unfinished(timelines[0])
    state.living = state.needed.union(*map(_unfinished, timelines))
    state.newest = max(timeline.high_water_mark for timeline in timelines)
    places = tuple(state.place(listed, timeline) for listed, timeline in zip(found, timelines, strict=True))
    loose = tuple(info for info in staged if state.may_go(info, _time_of_staged(info.path)))
    loose += tuple(info for info in group.resolved(context) if state.is_old(info))
    left = tuple(found for found in rows if state.is_left(found))
    temporaries = tuple(info for info in _temporaries(context.root, found) if state.is_old(info))
    parts = (state.unpublished(there, instant, timelines[0]) for there, instant in unpublished)
    return SweepPlan(places, loose, left, temporaries, tuple(chain(*parts)), state.why_not())


@dataclass(slots=True)
class ListedPlace:
    """The objects of one table, listed before anything else is read."""

    context: TableContext
    files: list[ObjectInfo]
    markers: list[ObjectInfo]

    @classmethod
    def of(cls, context: TableContext) -> ListedPlace:
        """List the partitions and the markers."""
        own = objects_of_table(context.storage, context.runtime.executor)
        return cls(context, own, list(context.storage.list(f"{layout.MARKERS}/")))

    @property
    def folders(self) -> Iterable[str]:
        """The folders with files."""
        return dict.fromkeys(split(info.path)[0] for info in self.files)


@dataclass(slots=True)
class _State:
    """The known state of the table, and what must stay.

    Attributes:
        latest_ms: files that were changed later stay.
        needed: requested times of all instants that may still be committed.
        living: the instants in ``needed``, and instants that are pending only in the metadata table.
        newest: the greatest known time.
        unreadable: what keeps all data files of a table.
    """

    context: TableContext
    latest_ms: int
    needed: Set[str] = frozenset()
    living: Set[str] = frozenset()
    newest: str = ""
    kept: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)

    def place(self, listed: ListedPlace, timeline: Timeline) -> SweptPlace:
        """Return the files to delete in one table."""
        times = ((info, info.path[len(layout.MARKERS) + 1 :].partition("/")[0]) for info in listed.markers)
        swept = tuple(info for info, time in times if self.may_go(info, time))
        return SweptPlace(listed.context.prefix, self._data_files(listed, timeline), swept)

    def _data_files(self, listed: ListedPlace, timeline: Timeline) -> Infos:
        """Return the data files to delete in one table; none if something cannot be read that may name them."""
        there = listed.context
        owners = Owners(timeline, self.living, frozenset(), _archive_of(there, timeline))
        try:
            named = (kept_files(there.folder, timeline) | held_files(there)).union(
                *(named_paths(there.folder.read_commit(instant)) for instant in timeline.commits)
            )
            unnamed = [info for info in listed.files if info.path not in named]
            recovered = recovered_until(timeline, there.folder.read_commit) if unnamed else ""
        except (CorruptionError, LimitExceededError, UnsafePathError) as error:
            _log.warning("A sweep of %s leaves all data files: %s", there.table, error)
            self.unreadable.append(f"all data files stay, because a file that may name them cannot be read: {error}")
            return ()
        return tuple(info for info in unnamed if self._is_nobodys(info, owners, recovered))

    def _is_nobodys(self, info: ObjectInfo, owners: Owners, recovered: str) -> bool:
        name = parse_data_file(split(info.path)[1])
        if name is None or name.requested_time.startswith(layout.INITIAL_INSTANTS):
            return False
        owner = owners.of(name.requested_time)
        if owner is not FileOwner.NOBODY:
            self._keep(_KEPT.get(owner))
            return False
        if name.requested_time < recovered:
            self._keep(_LEFT_OUT)
            return False
        return self.is_old(info)

    def may_go(self, info: ObjectInfo, time: str) -> bool:
        """Say whether a file of the instant with this requested time is no longer needed."""
        if not is_time(time) or time > self.newest:
            return False
        if time in self.living:
            self._keep(_PENDING)
            return False
        return self.is_old(info)

    def is_left(self, rows: WaitingRows) -> bool:
        """Say whether rows have no living owner, and none of their files is young.

        The write of such rows may have no instant.
        """
        if rows.is_owned and not waiting_rows.has_died(self.context, rows):
            self.kept[_PENDING] += len(rows.files)
            return False
        if all(info.modified_ms <= self.latest_ms for info in rows.files):
            return True
        self.kept[self._young] += len(rows.files)
        return False

    def unpublished(self, there: TableContext, instant: Instant, timeline: Timeline) -> Infos:
        """Return the file of a pending commit of the metadata table, if it can never complete: the data table's instant has ended without it."""
        time = instant.requested_time
        known = time in self.needed or timeline.find(time) is not None
        if instant.action not in markers.WRITES or known or time > timeline.high_water_mark:
            return ()
        info = there.storage.head(there.folder.file(instant))
        ended = info is not None and _archive_of(self.context, timeline)(time) is False
        return (info,) if info is not None and ended and self.is_old(info) else ()

    def is_old(self, info: ObjectInfo) -> bool:
        """Say whether the file was last changed long enough ago."""
        if info.modified_ms <= self.latest_ms:
            return True
        self._keep(self._young)
        return False

    @property
    def _young(self) -> str:
        return _YOUNG.format(minutes=self.context.options.upkeep.sweep_age_minutes)

    def _keep(self, why: str | None) -> None:
        if why is not None:
            self.kept[why] += 1

    def why_not(self) -> str:
        """Return what stays, and why."""
        kept = [f"{count:,} files stay, {why}" for why, count in sorted(self.kept.items())]
        if not kept and not self.unreadable:
            return "every other file is named by a commit" if self.newest else "the table has no commit yet"
        return "; ".join([*self.unreadable, *kept])


def _archive_of(context: TableContext, timeline: Timeline) -> Callable[[str], bool | None]:
    """Return a function that says whether a commit with a requested time was archived. Each time is looked up once."""
    known: dict[str, bool] = {}

    def was_archived(time: str) -> bool | None:
        if time not in known:
            known[time] = context.folder.archived(timeline, time) is not None
        return known[time]

    return was_archived


def _unfinished(timeline: Timeline) -> set[str]:
    """Return the requested times of pending instants, and of instants that write no data."""
    commits = set(timeline.commits)
    return {instant.requested_time for instant in timeline if instant not in commits}


def _decided(context: TableContext, timeline: Timeline) -> set[str]:
    """Return the requested time that the commit record names, unless its decision is published, which may need the bytes."""
    record = record_store(context.root).read()
    published = {instant.requested_time for instant in timeline.completed}
    return set() if record is None else {record.intent.requested_time} - published


def _time_of_staged(path: str) -> str:
    """Return the requested time in the path of staged bytes, or of a registration."""
    if path.startswith(f"{layout.EXECUTIONS}/"):
        return path[len(layout.EXECUTIONS) + 1 :].partition("/")[0]
    return path.rpartition("/")[2].partition("-")[0]


def _temporaries(storage: Storage, found: Iterable[ListedPlace]) -> Iterable[ObjectInfo]:
    """Return the unfinished files of a disk, in the folders that processes write to."""
    if not storage.capabilities.temporaries:
        return
    places = [(listed.context, folder) for listed in found for folder in listed.folders]
    own = (".hoodie", layout.HEARTBEATS, layout.PRIVATE, layout.STAGED, *storage.list_folder(layout.ROWS).folders)
    timelines = {listed.context.from_root(listed.context.folder.path) for listed in found}
    folders = {*own, *timelines, *(place.from_root(folder).rstrip("/") for place, folder in places)}
    for folder in sorted(folders):
        yield from (info for info in storage.list_hidden(folder) if not info.path.endswith(".crc"))
