"""The files of a data table, as its metadata table lists them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.storage.base import ObjectInfo


@dataclass(slots=True)
class MetadataListing:
    """Lists a data table's files from the metadata table. The partitions of one `prepare` call are looked up together.

    Without such a call, the first requested partition is looked up alone, and then all others, because the caller probably needs all of them.
    ``instead`` lists the storage; it is used if another process has dropped the metadata table.
    """

    table: MetadataTable
    instead: FileListing
    _dropped: bool = False
    _asked: bool = False
    _files: dict[str, tuple[ObjectInfo, ...]] = field(default_factory=dict)
    _partitions: tuple[str, ...] | None = None

    def partitions(self) -> tuple[str, ...]:
        """Return all partition paths, sorted."""
        if self._partitions is None:
            found = None if self._dropped else self.table.unless_dropped(self.table.data_partitions)
            self._dropped = found is None
            self._partitions = self.instead.partitions() if found is None else found
        return self._partitions

    def prepare(self, partitions: Iterable[str]) -> None:
        """Look up the partitions that are not known yet, and no others."""
        unknown = tuple(path for path in dict.fromkeys(partitions) if path not in self._files)
        if unknown:
            self._look_up(unknown)

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        """Return all files that are listed in a partition."""
        if partition not in self._files:
            wanted = tuple({*self.partitions(), partition} - self._files.keys()) if self._asked else (partition,)
            self._asked = True
            self._look_up(wanted)
        return self._files[partition]

    def _look_up(self, partitions: Sequence[str]) -> None:
        found = None if self._dropped else self.table.unless_dropped(lambda: self.table.files(partitions))
        if found is None:
            self._dropped = True
            self.instead.prepare(partitions)
            self._files |= {path: self.instead.files(path) for path in partitions}
            return
        for path, files in found.items():
            prefix = f"{path}/" if path else ""
            self._files[path] = tuple(ObjectInfo(prefix + name, size, 0, "") for name, size in sorted(files.items()))
        for path in partitions:
            self._files.setdefault(path, ())
