"""List the names of data files from the storage. (The metadata table is another source, in a higher layer.)

A folder is a partition if it holds ``.hoodie_partition_metadata`` (in any of its forms), at any depth, also below another partition. The root is the
only partition of a table without partition fields, and needs no such file. Hudi's Spark finds partitions by the same rules. A folder with ``.hoodie``
is another table, and nothing below it belongs to this table.

The given executor lists folders with as many concurrent calls as the storage supports well (`Capabilities.parallel_calls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyhudi_core.model.file_names import PARTITION_METAFILE
from pyhudi_core.runtime.base import Executor
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.storage.base import Folder, ObjectInfo, Storage
from pyhudi_core.storage.own_part import own_part
from pyhudi_core.storage.settled_files import IsSettled, SettledFiles


class FileListing(Protocol):
    """Lists partitions and the files in them."""

    def partitions(self) -> tuple[str, ...]:
        """Return all partition paths, sorted."""
        ...

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        """Return all files directly in a partition; empty if it does not exist."""
        ...

    def prepare(self, partitions: Iterable[str]) -> None:
        """Announce that `files` will be called for these partitions: unknown ones are listed now, together."""
        ...


def _never(_name: str) -> bool:
    return False


@dataclass(slots=True)
class StorageListing:
    """Lists each folder at most once, so that a snapshot sees one state of the folder.

    ``settled`` is the handle's cache of their files, and ``is_settled`` says which files may be cached.
    """

    storage: Storage
    partitioned: bool
    executor: Executor = SerialExecutor()
    settled: SettledFiles = field(default_factory=SettledFiles)
    is_settled: IsSettled = _never
    _files: dict[str, tuple[ObjectInfo, ...]] = field(default_factory=dict)
    _partitions: tuple[str, ...] | None = None

    def partitions(self) -> tuple[str, ...]:
        if self._partitions is None:
            self._partitions = tuple(sorted(self._walk())) if self.partitioned else ("",)
        return self._partitions

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        if partition not in self._files:
            self._files[partition] = self.settled.listed(self.storage, partition, self.is_settled)
        return self._files[partition]

    def prepare(self, partitions: Iterable[str]) -> None:
        if self.storage.capabilities.cheap_names:
            return  # listing them together has no advantage
        unknown = [partition for partition in dict.fromkeys(partitions) if partition not in self._files]
        for partition, folder in zip(unknown, list_folders(self.storage, self.executor, unknown), strict=True):
            self._files[partition] = folder.objects

    def _walk(self) -> list[str]:
        found: list[str] = []
        level = list(own_part("", self.storage.list_folder("")).folders)
        while level:
            following: list[str] = []
            for path, listed in zip(level, list_folders(self.storage, self.executor, level), strict=True):
                folder = own_part(path, listed)
                if any(info.path.rpartition("/")[2].startswith(PARTITION_METAFILE) for info in folder.objects):
                    self._files.setdefault(path, folder.objects)
                    found.append(path)
                following.extend(folder.folders)
            level = following
        return found


def list_folders(storage: Storage, executor: Executor, folders: Sequence[str]) -> list[Folder]:
    """Return the children of several folders, in their order."""
    calls = storage.capabilities.parallel_calls
    if calls <= 1:
        return [storage.list_folder(folder) for folder in folders]
    return executor.at_least(calls).map(storage.list_folder, folders)


@dataclass(frozen=True, slots=True)
class AddedFiles:
    """A listing with the files of an unpublished write, by partition."""

    listing: FileListing
    added: Mapping[str, tuple[ObjectInfo, ...]]

    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted({*self.listing.partitions(), *self.added}))

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        """Return each file once: the listing may already have files of the write."""
        own = self.added.get(partition, ())
        paths = {info.path for info in own}
        return (*(info for info in self.listing.files(partition) if info.path not in paths), *own)

    def prepare(self, partitions: Iterable[str]) -> None:
        self.listing.prepare(partitions)


@dataclass(frozen=True, slots=True)
class FixedListing:
    """A listing that is already known."""

    known: Mapping[str, tuple[ObjectInfo, ...]]

    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted(self.known))

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        return self.known.get(partition, ())

    def prepare(self, partitions: Iterable[str]) -> None:
        return
