"""Markers: the names of the files that a write is about to create, so that a dead write's files can be found and removed.

Hudi's DIRECT layout: one empty object ``.hoodie/.temp/<requested time>/<partition>/<file>.marker.<CREATE|MERGE>`` for each file, made before
the file. Folders that Hudi's timeline server wrote (``MARKERS.type`` and ``MARKERS<n>`` text files) are read too.
"""

from __future__ import annotations

from collections.abc import Collection

from pyhudi_core.errors import UnsafePathError
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.storage.base import Storage
from pyhudi_core.transaction import layout, removal
from pyhudi_core.transaction.context import TableContext

_SERVER_TYPE = "MARKERS.type"


def create(storage: Storage, requested_time: str, path: str, kind: str) -> None:
    """Announce a data file (path relative to the table) before it is written."""
    storage.put(f"{layout.markers(requested_time)}/{path}.marker.{kind}", b"")


def announced(storage: Storage, requested_time: str) -> list[str]:
    """The data files that an instant's markers name; paths relative to the table. Names that leave the table are passed over."""
    return sorted(announced_kinds(storage, requested_time))


def announced_kinds(storage: Storage, requested_time: str) -> dict[str, str]:
    """The same with the kind of each file: CREATE, MERGE or APPEND."""
    folder = layout.markers(requested_time)
    found: list[str] = []
    for info in storage.list(f"{folder}/"):
        name = info.path[len(folder) + 1 :]
        if name == _SERVER_TYPE:
            continue
        if name.startswith("MARKERS") and "/" not in name:
            found.extend(storage.get(info.path).decode("utf-8", "replace").splitlines())
        else:
            found.append(name)
    named = ((_data_file(marker), marker.rpartition(".")[2]) for marker in found)
    return {path: kind for path, kind in named if path is not None}


def _data_file(marker: str) -> str | None:
    path, separator, _ = marker.rpartition(".marker.")
    if not separator:
        return None
    try:
        return safe_relative_path(path)
    except UnsafePathError:
        return None


def remove_leaks(context: TableContext, requested_time: str, wanted: Collection[str] = ()) -> None:
    """Remove files of task attempts that were given up: announced by a marker, but not part of the result."""
    leaked = [path for path in announced(context.storage, requested_time) if path not in wanted]
    removal.delete_data_files(context.storage, leaked, contained=context.protections.path_containment)


def remove(storage: Storage, requested_time: str) -> None:
    """Remove an instant's markers."""
    storage.delete_many(info.path for info in storage.list(f"{layout.markers(requested_time)}/"))
    storage.remove_empty_folders(layout.markers(requested_time))
