"""Cache the facts of files that no process writes any more.

Without cleaning, a folder contains every version of every file, and each commit lists the folders that it changes. Old versions never change, so
their facts are requested once. Later only the name shows that the file still exists, so an old version costs a commit only one name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyhudi_core.model.file_names import join
from pyhudi_core.storage.base import ObjectInfo, Storage

_MOST_NEW = 64
"""If a folder has more new names, a listing with the facts of all files is cheaper than a request for each."""
_MOST_KEPT = 200_000
"""The maximum number of cached files in all folders together; about 100 MB."""
IsSettled = Callable[[str], bool]
"""Returns whether no process writes the file with this name any more."""


KeyRange = tuple[str | None, str | None]
"""The lowest and the highest key of a base file; None if unknown."""


@dataclass(slots=True)
class KeyRanges:
    """The key ranges of base files whose footers this process has read, by path. They are not sent to other processes."""

    _ranges: dict[str, KeyRange] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[KeyRanges], tuple[()]]:
        return KeyRanges, ()

    def get(self, path: str) -> KeyRange | None:
        """Return the range of a file; None if its footer was not read."""
        return self._ranges.get(path)

    def note(self, path: str, found: KeyRange) -> None:
        """Remember the range of a file."""
        if len(self._ranges) >= _MOST_KEPT:
            self._ranges.clear()
        self._ranges[path] = found


@dataclass(slots=True)
class SettledFiles:
    """The files of the folders that one handle has listed: by folder, and by name. ``key_ranges``: the key ranges of base files."""

    key_ranges: KeyRanges = field(default_factory=KeyRanges)
    _folders: dict[str, dict[str, ObjectInfo]] = field(default_factory=dict)
    _count: int = 0

    def listed(self, storage: Storage, folder: str, is_settled: IsSettled) -> tuple[ObjectInfo, ...]:
        """Return the objects of a folder, sorted by path, as `Storage.list_folder` returns them."""
        cheap_names = storage.capabilities.cheap_names
        known = self._folders.get(folder) if cheap_names else None
        names = () if known is None else storage.list_names(folder)[0]
        new = [] if known is None else [name for name in names if name not in known]
        if known is None or len(new) > _MOST_NEW:
            found = storage.list_folder(folder).objects
            if cheap_names:
                self._keep(folder, {}, found, is_settled)
            return found
        asked = [info for info in (storage.head(join(folder, name)) for name in new) if info is not None]
        if len(known) + len(new) > len(names):
            known = {name: known[name] for name in names if name in known}
        self._keep(folder, known, asked, is_settled)
        fresh = {_name(info): info for info in asked}
        there = (known.get(name) or fresh.get(name) for name in names)
        return tuple([info for info in there if info is not None])

    def _keep(
        self, folder: str, known: dict[str, ObjectInfo], new: Iterable[ObjectInfo], is_settled: IsSettled
    ) -> None:
        before = len(self._folders.get(folder, ()))
        named = ((_name(info), info) for info in new)
        known.update((name, info) for name, info in named if is_settled(name))
        if self._count - before + len(known) > _MOST_KEPT:
            self._folders.clear()
            self._count = before = 0
        self._folders[folder] = known
        self._count += len(known) - before


def _name(info: ObjectInfo) -> str:
    return info.path.rpartition("/")[2]
