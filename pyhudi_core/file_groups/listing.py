"""Where the names of data files come from: the storage itself (the metadata table is another source, on a floor above).

A folder is a partition if it holds ``.hoodie_partition_metadata`` (in any of its forms), at whatever depth, also below another partition;
the root is the only partition of a table without partition fields, and needs no such file. This is how Hudi's Spark finds partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pyhudi_core.model.file_names import PARTITION_METAFILE
from pyhudi_core.storage.base import ObjectInfo, Storage


class FileListing(Protocol):
    """Names partitions and the files in them."""

    def partitions(self) -> tuple[str, ...]:
        """All partition paths, sorted."""
        ...

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        """All files that lie directly in a partition; empty where there is none."""
        ...


@dataclass(slots=True)
class StorageListing:
    """Lists folders; each at most once, so that one snapshot sees one state of each."""

    storage: Storage
    partitioned: bool
    _files: dict[str, tuple[ObjectInfo, ...]] = field(default_factory=dict)
    _partitions: tuple[str, ...] | None = None

    def partitions(self) -> tuple[str, ...]:
        if self._partitions is None:
            self._partitions = tuple(sorted(self._walk())) if self.partitioned else ("",)
        return self._partitions

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        if partition not in self._files:
            self._files[partition] = self.storage.list_folder(partition).objects
        return self._files[partition]

    def _walk(self) -> list[str]:
        found: list[str] = []
        waiting = [name for name in self.storage.list_folder("").folders if name != ".hoodie"]
        while waiting:
            path = waiting.pop()
            folder = self.storage.list_folder(path)
            if any(info.path.rpartition("/")[2].startswith(PARTITION_METAFILE) for info in folder.objects):
                self._files.setdefault(path, folder.objects)
                found.append(path)
            waiting.extend(folder.folders)
        return found


@dataclass(frozen=True, slots=True)
class FixedListing:
    """A listing that is known already."""

    known: Mapping[str, tuple[ObjectInfo, ...]]

    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted(self.known))

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        return self.known.get(partition, ())
