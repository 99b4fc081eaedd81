"""Decide which files below a table's folder belong to the table. All listings of a table use this rule.

A folder with a ``.hoodie`` is another table, and no file in it belongs to the table above it. Hudi reads by the same rule. The exception is the
table's own ``.hoodie``: the metadata table in it belongs to the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.base import Folder, ObjectInfo, Storage

HOODIE = ".hoodie"


def is_table(names: Iterable[str]) -> bool:
    """Say whether a folder with sub-folders of these names, or paths, is a table."""
    return any(name.rpartition("/")[2] == HOODIE for name in names)


def is_other_table(path: str, names: Iterable[str]) -> bool:
    """Say whether a folder below a table, with sub-folders of these names, is another table. ``path`` is relative to the table."""
    return bool(path) and path.partition("/")[0] != HOODIE and is_table(names)


def own_part(path: str, folder: Folder) -> Folder:
    """Return the contents of a folder that belong to the table, without its ``.hoodie``; nothing if the folder is another table."""
    if is_other_table(path, folder.folders):
        return Folder((), ())
    return Folder(folder.objects, tuple(name for name in folder.folders if name.rpartition("/")[2] != HOODIE))


def objects_of_table(storage: Storage, executor: Executor) -> list[ObjectInfo]:
    """Return all objects of a table outside of its ``.hoodie``.

    Leaves out tables inside its folder, because their files would look like files of this table.
    """
    top = storage.list_folder("")
    folders = [path for path in top.folders if path != HOODIE]
    below = executor.at_least(storage.capabilities.parallel_calls).map(lambda path: storage.list(f"{path}/"), folders)
    return _without_other_tables([*top.objects, *chain.from_iterable(below)])


def _without_other_tables(objects: Iterable[ObjectInfo]) -> list[ObjectInfo]:
    """Return the objects, at any depth below a table, that belong to it, without its ``.hoodie``."""
    found = [info for info in objects if not info.path.startswith(f"{HOODIE}/")]
    inside = f"/{HOODIE}/"
    others = {info.path.partition(inside)[0] + "/" for info in found if inside in info.path}
    return [info for info in found if not info.path.startswith(tuple(others))]


def other_tables(folders: Iterable[str], list_folders: Callable[[Sequence[str]], Sequence[Folder]]) -> list[str]:
    """Return the other tables among these folders below a table, and among the folders above them. Lists each folder once."""
    ways = [folder.split("/") for folder in folders if folder]
    wanted = sorted({"/".join(parts[: depth + 1]) for parts in ways for depth in range(len(parts))})
    listed = list_folders(wanted) if wanted else ()
    return [path for path, found in zip(wanted, listed, strict=True) if is_other_table(path, found.folders)]
