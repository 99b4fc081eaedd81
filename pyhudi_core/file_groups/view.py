"""The file groups of a table as one reader sees them: the newest visible slice of each file group.

`NamedFiles` completes a listing, because a storage may list an old state. The completed commits name the files that exist. If the newest visible
commits name a file that the listing omits, the file is requested by its own path; every storage answers such a request correctly. So no reader or
writer uses a slice that is older than the commits of its snapshot, and no writer treats an existing partition as new. Only the latest
`NEWEST` commits are used; an older listing is not completed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter

from pyhudi_core.errors import HudiError, SnapshotExpiredError, UnsupportedTableError
from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile, SlicePiece, newest_base, slices_of
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.file_names import READABLE_EXTENSIONS, BaseFileName, LogFileName, parse_data_file, split
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.printing import printable
from pyhudi_core.runtime.collection import collector_paused
from pyhudi_core.storage.base import ObjectInfo

NEWEST = 20
"""The number of commits whose files complete a listing."""

_Version = tuple[str, str, int]
"""The requested time in the name of a base file, the name, and the size: just enough to order the versions of a file group."""


@dataclass(slots=True)
@printable
class FileGroupView:
    """Slices by partition, computed at the first request and then cached. ``table`` is for messages."""

    listing: FileListing
    visibility: Visibility
    table: str
    _slices: dict[str, tuple[FileSlice, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"FileGroupView of {self.table}"

    def _shown(self) -> dict[str, str]:
        return {"table": self.table}

    def partitions(self) -> tuple[str, ...]:
        """Return every partition folder, including those without visible files; sorted."""
        return self.listing.partitions()

    def slices(self, partition: str) -> tuple[FileSlice, ...]:
        """Return the newest visible slice of each file group of one partition, sorted by file id."""
        if partition not in self._slices:
            self._slices[partition] = self._assemble(partition)
        return self._slices[partition]

    def all_slices(self, partitions: Iterable[str] | None = None) -> list[FileSlice]:
        """Return the slices of several partitions (default: all)."""
        with collector_paused():
            chosen = self.partitions() if partitions is None else tuple(partitions)
            self.prepare(chosen)
            return [piece for partition in chosen for piece in self.slices(partition)]

    def prepare(self, partitions: Iterable[str]) -> None:
        """Announce that `slices` will be called for these partitions: on a network storage their folders are listed together."""
        self.listing.prepare(partition for partition in partitions if partition not in self._slices)

    def base_slices(self, partition: str) -> tuple[FileSlice, ...]:
        """Return the newest visible base file of each group, for read-optimized queries; ``logs`` are the logs that the query omits."""
        return self._built(partition, newest_base)

    def _assemble(self, partition: str) -> tuple[FileSlice, ...]:
        return self._built(partition, lambda pieces: pieces[-1] if pieces else None)

    def _built(self, partition: str, choose: Callable[[list[SlicePiece]], SlicePiece | None]) -> tuple[FileSlice, ...]:
        bases: dict[str, list[_Version]] = defaultdict(list)
        logs: dict[str, list[LogFile]] = defaultdict(list)
        start = len(partition) + 1 if partition else 0
        for info in self.listing.files(partition):
            file_name = info.path[start:]
            found = _base_file(file_name)
            if found is not None:
                bases[found[0]].append((found[1], file_name, info.size))
                continue
            name = parse_data_file(file_name)
            if isinstance(name, BaseFileName):
                self._refuse_unless_invisible(name.requested_time, info.path)
            elif name is not None and not name.is_cdc and self.visibility.admits(name.requested_time, info.path):
                writers = self.visibility.writers_of_old_log(name.requested_time, info.path)
                logs[name.file_id].append(LogFile(partition, name, info.size, writers))
        replaced = self.visibility.replaced
        visible = (
            self._chosen(partition, bases.get(file_id, []), logs.get(file_id, []), choose)
            for file_id in sorted({*bases, *logs})
            if (partition, file_id) not in replaced
        )
        return tuple(piece for piece in visible if piece is not None)

    def _chosen(
        self,
        partition: str,
        versions: list[_Version],
        logs: list[LogFile],
        choose: Callable[[list[SlicePiece]], SlicePiece | None],
    ) -> FileSlice | None:
        bases = _newest_first(partition, versions)
        if len(versions) == 1 and not logs:
            base = next(bases, None)
            return None if base is None else self._alone(base)
        admitted = (base for base in bases if self.visibility.admits(base.name.requested_time, base.path))
        # Without logs the newest base file is the answer, and older names and commits need not be read.
        kept = list(admitted) if logs else [base for base in [next(admitted, None)] if base is not None]
        found = choose(slices_of(kept, logs, self.visibility.completed_at))
        if found is None:
            return None
        base = found.base
        stat = None if base is None else self.visibility.stat(base.name.requested_time, base.path)
        return FileSlice(base, stat, tuple(found.logs))

    def _alone(self, base: BaseFile) -> FileSlice | None:
        """Return the slice of a group with a single base file, as most groups of a large table have."""
        time = base.name.requested_time
        if not self.visibility.is_active(time):
            return FileSlice(base) if self.visibility.is_archived(time) else None
        path = base.path
        return FileSlice(base, self.visibility.stat(time, path)) if self.visibility.admits(time, path) else None

    def _refuse_unless_invisible(self, requested_time: str, path: str) -> None:
        if self.visibility.admits(requested_time, path) or self.visibility.is_archived(requested_time):
            raise UnsupportedTableError(
                "The table holds base files of a format that this release does not read",
                table=self.table,
                path=path,
                hint="Read it with Hudi, or rewrite it into Parquet base files first.",
            )


@lru_cache(maxsize=1 << 15)
def _base_file(file_name: str) -> tuple[str, str] | None:
    """Return file id and requested time in the name of a readable base file; None for other names.

    This is fast, because every commit needs all old names.
    """
    stem, _, extension = file_name.rpartition(".")
    if file_name.startswith(".") or extension not in READABLE_EXTENSIONS:
        return None
    return stem.partition("_")[0], stem.rpartition("_")[2]


def _newest_first(partition: str, versions: list[_Version]) -> Iterator[BaseFile]:
    """Yield the base files of one file group, newest first. A name is parsed on request, because usually only the newest is needed."""
    for _, file_name, size in sorted(versions, key=itemgetter(0), reverse=True):
        name = parse_data_file(file_name)
        if isinstance(name, BaseFileName):
            yield BaseFile(partition, name, size)


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
