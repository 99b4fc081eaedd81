"""A listing completed by the files that the newest commits name.

A storage may list an old state; a completed commit names the files that exist. A file that the newest visible commits name and a listing omits is
requested by its own path, which every storage answers correctly. So no reader or writer uses an older slice of a file group than that of its
snapshot's commits, and no writer treats an existing partition as new.

Only the latest `NEWEST` commits are used; an older listing is not completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyhudi_core.errors import HudiError, SnapshotExpiredError
from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Instant
from pyhudi_core.storage.base import ObjectInfo

NEWEST = 20


@dataclass(slots=True)
class NamedFiles:
    """A listing with the files that commits name added.

    ``head`` returns an object's facts, or None; ``lost`` returns the error for a missing file, or None if a newer file may have replaced it since.
    ``read_together`` gets the commits that will be read.
    """

    listing: FileListing
    visibility: Visibility
    head: Callable[[str], ObjectInfo | None]
    lost: Callable[[str], HudiError | None]
    read_together: Callable[[Iterable[Instant]], object] = lambda _instants: None
    _commits: list[Mapping[str, Sequence[WriteStat]]] | None = None

    def partitions(self) -> tuple[str, ...]:
        """Return all partition paths, sorted."""
        listed = self.listing.partitions()
        known = set(listed)
        new = {path for path in self._partitions_written() - known if self._named_in(path)}
        return tuple(sorted([*listed, *new])) if new else listed

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        """Return all files directly in a partition.

        Raises the error of ``lost``, or `SnapshotExpiredError`, if a file of the newest state is missing.
        """
        listed = self.listing.files(partition)
        named = self._named_in(partition)
        hidden = named - {info.path for info in listed} if named else frozenset()
        asked = {path: self.head(path) for path in sorted(hidden)}
        found = [info for info in asked.values() if info is not None]
        if len(found) < len(asked) and self.visibility.bound is None:
            self._refuse(next(path for path, info in asked.items() if info is None))
        return tuple(sorted([*listed, *found], key=lambda info: info.path)) if found else listed

    def prepare(self, partitions: Iterable[str]) -> None:
        self.listing.prepare(partitions)

    def _refuse(self, path: str) -> None:
        error = self.lost(path)
        if error is not None:
            raise error
        raise SnapshotExpiredError(
            "A file of the table's newest state is missing",
            path=path,
            hint="Read again, if writers and cleans were faster than this read (pyhudi.clean.keep.seconds keeps files for reads that take long); else"
            " the file was deleted by other means: run the doctor.",
        )

    def _partitions_written(self) -> set[str]:
        """Return the partitions that the newest commits wrote to."""
        return {path for commit in self._newest() for path in commit}

    def _named_in(self, partition: str) -> frozenset[str]:
        """Return the files of the partition's newest slices that the newest commits name; older slices may have been cleaned."""
        newest: dict[str, list[str]] = {}
        for commit in self._newest():
            for stat in commit.get(partition, ()):
                _take(newest, stat)
        replaced = self.visibility.replaced
        return frozenset(
            path for file_id, files in newest.items() if (partition, file_id) not in replaced for path in files
        )

    def _newest(self) -> list[Mapping[str, Sequence[WriteStat]]]:
        """Return the files that the newest commits wrote, by partition, in the order of their requested times."""
        if self._commits is None:
            newest = sorted(self.visibility.commits[-NEWEST:])
            self.read_together(newest)
            self._commits = [self.visibility.read_commit(instant).by_folder for instant in newest]
        return self._commits


def _take(newest: dict[str, list[str]], stat: WriteStat) -> None:
    name = split(stat.path)[1]
    if not name:
        return
    known = newest.setdefault(stat.file_id, [])
    if not isinstance(parse_data_file(name), LogFileName):
        known.clear()  # a new base file: all earlier files belong to an older slice
    known.append(stat.path)
