"""Markers name the files that a write will create, so that a dead write's files can be found and removed.

Hudi's DIRECT layout: one empty object ``.hoodie/.temp/<requested time>/<partition>/<file>.marker.<CREATE|MERGE>`` for each file, created before the
file. A write of many new files has the layout of Hudi's timeline server: ``MARKERS.type``, and text files ``MARKERS<number>`` with such names. An
instant has only one layout, because Hudi looks for the markers of one layout only.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pyhudi_core.errors import UnsafePathError
from pyhudi_core.model.file_names import parse_data_file, split
from pyhudi_core.model.instant import Action, State
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.own_part import objects_of_table
from pyhudi_core.transaction import layout, removal

_SERVER_TYPE, _SERVER = "MARKERS.type", b"TIMELINE_SERVER_BASED"

_LATE_MS = 1 << 42
"""A time later than all files (in the year 2109): every unfinished marker counts as old. A process that still writes one writes it again."""

WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
"""The pending actions of writes. Table services have other actions."""


def create(storage: Storage, requested_time: str, path: str, kind: str) -> None:
    """Announce a data file (path relative to the table) before it is written."""
    storage.put(f"{layout.markers(requested_time)}/{path}.marker.{kind}", b"")


def create_together(storage: Storage, requested_time: str, paths: Sequence[str], kind: str, number: int) -> None:
    """Announce data files before they are written, in the layout of Hudi's timeline server.

    ``number`` is below 2**31, because Hudi reads the number as an ``int``. ``number`` is random, so that no other task or attempt has the same
    number.
    """
    folder = layout.markers(requested_time)
    storage.put(f"{folder}/{_SERVER_TYPE}", _SERVER)
    storage.put(f"{folder}/MARKERS{number}", "".join(f"{path}.marker.{kind}\n" for path in paths).encode())


def announced(storage: Storage, requested_time: str, listed: Sequence[str] | None = None) -> list[str]:
    """Return the data files that an instant's markers name; paths relative to the table. Names outside the table are ignored.

    ``listed``: the files of the markers, if the caller has just listed them.
    """
    return sorted(announced_kinds(storage, requested_time, listed))


def announced_kinds(storage: Storage, requested_time: str, listed: Sequence[str] | None = None) -> dict[str, str]:
    """Return the data files as `announced` does, with the kind of each file: CREATE, MERGE or APPEND."""
    folder = layout.markers(requested_time)
    found: dict[str, str] = {}
    for path in marker_files(storage, requested_time) if listed is None else listed:
        name = path[len(folder) + 1 :]
        if name == _SERVER_TYPE:
            continue
        is_list = name.startswith("MARKERS") and "/" not in name
        for marker in _lines(storage.get(path)) if is_list else (name,):
            data_file = _data_file(marker)
            if data_file is not None:
                found[data_file] = marker.rpartition(".")[2]
    return found


def _lines(data: bytes) -> Iterator[str]:
    """Yield the lines of a file one by one: a file of many short lines would be many texts."""
    return (line.decode("utf-8", "replace").rstrip("\r\n") for line in io.BytesIO(data))


def _data_file(marker: str) -> str | None:
    path, separator, _ = marker.rpartition(".marker.")
    if not separator:
        return None
    try:
        return safe_relative_path(path)
    except UnsafePathError:
        return None


def remove_leaks(
    context: TableContext,
    requested_time: str,
    wanted: Collection[str] = (),
    is_own: Callable[[str], bool] = lambda _path: True,
    listed: Sequence[str] | None = None,
) -> list[str]:
    """Remove files of abandoned task attempts: files that a marker announces, and that are not in ``wanted``.

    Only files for which ``is_own`` returns True are removed. ``listed`` is the same as in `announced`.

    Returns the paths of the removed files.
    """
    found = announced(context.storage, requested_time, listed)
    leaked = [path for path in found if path not in wanted and is_own(path)]
    if leaked:
        removal.delete_given_up(context.storage, leaked, contained=context.protections.path_containment)
    return leaked


def marker_files(storage: Storage, requested_time: str) -> list[str]:
    """Return the files of an instant's markers."""
    return [info.path for info in storage.list(f"{layout.markers(requested_time)}/")]


def files_below(place: TableContext, requested_time: str) -> list[str]:
    """Return the files of an instant's markers in a table, from the root."""
    return [place.from_root(path) for path in marker_files(place.storage, requested_time)]


def remove(storage: Storage, requested_time: str) -> None:
    """Remove an instant's markers."""
    storage.delete_many(marker_files(storage, requested_time))
    remove_folder(storage, requested_time)


def remove_folder(storage: Storage, requested_time: str) -> None:
    """Remove the folder of an instant's markers, if it has no marker any more. Markers that a killed process did not finish are removed first."""
    folder = layout.markers(requested_time)
    storage.sweep_temporaries(folder, 0, _LATE_MS)
    storage.remove_empty_folders(folder)


def remove_some(storage: Storage, requested_time: str, paths: Collection[str]) -> None:
    """Remove the markers of some files of an instant. The markers of other files stay."""
    folder = layout.markers(requested_time)
    gone = {f"{folder}/{path}" for path in paths}
    found = (info.path for info in storage.list(f"{folder}/"))
    storage.delete_many([marker for marker in found if marker.rpartition(".marker.")[0] in gone])


@dataclass(frozen=True, slots=True)
class LeftAtCompanion:
    """The names of the files that a write left in one companion table: data files, markers, and timeline files in the order of their removal."""

    storage: Storage
    requested_time: str
    data_files: tuple[str, ...]
    markers: tuple[str, ...]
    instants: tuple[str, ...]

    def remove(self) -> None:
        """Remove these files. The timeline files are removed last, because they show the next process that a crash interrupted the removal."""
        removal.delete_given_up(self.storage, self.data_files)
        self.storage.delete_many(self.markers)
        remove_folder(self.storage, self.requested_time)
        for path in self.instants:
            self.storage.delete(path)


def left_at_companions(
    context: TableContext, requested_time: str, *, completed: bool = False
) -> Iterator[LeftAtCompanion]:
    """Yield the names of the files that a pending write left in the companion tables.

    With ``completed``, completed instants in the companion tables count, too. Hudi's writers complete the commit of the metadata table before the
    commit of the data table, and may die between the two commits. The write is pending in the data table, so no reader has used the commit of the
    metadata table. The caller has decided that the write will never complete.
    """
    for place in context.companions:
        for instant in place.folder.load():
            if (
                instant.requested_time == requested_time
                and instant.action in WRITES
                and (completed or instant.is_pending)
            ):
                gone = [
                    replace(instant, state=state, completion_time=None) for state in (State.INFLIGHT, State.REQUESTED)
                ]
                yield LeftAtCompanion(
                    place.storage,
                    requested_time,
                    tuple(files_of(context.at(place), requested_time)),
                    tuple(marker_files(place.storage, requested_time)),
                    tuple(place.folder.file(file) for file in ([instant, *gone] if instant.is_completed else gone)),
                )


def remove_at_companions(context: TableContext, requested_time: str, *, completed: bool = False) -> None:
    """Remove the files that a pending write left in the companion tables. ``completed`` is the same as in `left_at_companions`."""
    for left in left_at_companions(context, requested_time, completed=completed):
        left.remove()


def remove_late_at_companions(context: TableContext, requested_time: str) -> None:
    """Remove files that a writer created in a companion table after another process had rolled the instant back in that table."""
    for place in context.companions:
        if place.folder.load().find(requested_time) is None:
            removal.delete_given_up(place.storage, files_of(context.at(place), requested_time))
            remove(place.storage, requested_time)


def files_of(context: TableContext, requested_time: str) -> list[str]:
    """Return the data files of an instant. The markers name the files; without markers, the requested time in the file names shows the files.

    In a companion table both sources count, because not every file of a metadata table has a marker (`metadata_table.commits`).
    """
    named = [path for path in announced(context.storage, requested_time) if _is_of(path, requested_time)]
    if named and not context.prefix:
        return named
    listed = (info.path for info in objects_of_table(context.storage, context.runtime.executor))
    return sorted({*named, *(path for path in listed if _is_of(path, requested_time))})


def _is_of(path: str, requested_time: str) -> bool:
    name = parse_data_file(split(path)[1])
    return name is not None and name.requested_time == requested_time
