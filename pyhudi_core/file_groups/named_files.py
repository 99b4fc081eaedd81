"""A listing that shows at least the files which the newest commits name.

Listings of a storage may be old; a completed commit says which files there are. What the newest visible commits name and a listing leaves out is
therefore asked for by its own path, which every storage answers truthfully. So neither a reader nor a writer starts from an older slice of a file
group than its snapshot's commits say, and no writer takes a partition for new that is not.

A listing that is older than the latest `NEWEST` commits is not made up for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import LogFileName, parse_data_file, split
from pyhudi_core.storage.base import ObjectInfo

NEWEST = 20


@dataclass(slots=True)
class NamedFiles:
    """A listing, made up for by what commits name. ``head`` gives an object's facts, or None."""

    listing: FileListing
    visibility: Visibility
    head: Callable[[str], ObjectInfo | None]
    _named: dict[str, frozenset[str]] | None = None

    def partitions(self) -> tuple[str, ...]:
        """All partition paths, sorted."""
        listed = self.listing.partitions()
        new = self._by_partition().keys() - set(listed)
        return tuple(sorted([*listed, *new])) if new else listed

    def files(self, partition: str) -> tuple[ObjectInfo, ...]:
        """All files that lie directly in a partition. Raises `SnapshotExpiredError` if the newest state has lost one of its own."""
        listed = self.listing.files(partition)
        named = self._by_partition().get(partition, frozenset())
        hidden = named - {info.path for info in listed} if named else frozenset()
        asked = {path: self.head(path) for path in sorted(hidden)}
        found = [info for info in asked.values() if info is not None]
        if len(found) < len(asked) and self.visibility.bound is None:
            self._refuse(next(path for path, info in asked.items() if info is None))
        return tuple(sorted([*listed, *found], key=lambda info: info.path)) if found else listed

    def _refuse(self, path: str) -> None:
        raise SnapshotExpiredError(
            "A file that the newest state of the table consists of is gone",
            path=path,
            hint="Read again, if writers and cleans were faster than this read; else somebody deleted it: the doctor tells more.",
        )

    def _by_partition(self) -> dict[str, frozenset[str]]:
        """The files of the newest slices, as far as the newest commits name them; older slices may have been cleaned."""
        if self._named is None:
            newest: dict[tuple[str, str], list[str]] = {}
            for instant in sorted(self.visibility.commits[-NEWEST:]):
                for stat in self.visibility.read_commit(instant).stats:
                    _take(newest, stat)
            paths: dict[str, set[str]] = {}
            for (partition, file_id), files in newest.items():
                if (partition, file_id) not in self.visibility.replaced:
                    paths.setdefault(partition, set()).update(files)
            self._named = {partition: frozenset(files) for partition, files in paths.items()}
        return self._named


def _take(newest: dict[tuple[str, str], list[str]], stat: WriteStat) -> None:
    partition, name = split(stat.path)
    known = newest.setdefault((partition, stat.file_id), []) if name else []
    if not isinstance(parse_data_file(name), LogFileName):
        known.clear()  # a new base file: what came before belongs to an older slice
    known.append(stat.path)
