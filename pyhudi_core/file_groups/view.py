"""The file groups of a table as one reader sees them: the newest visible slice of each file group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.file_groups.listing import FileListing
from pyhudi_core.file_groups.slice import BaseFile, FileSlice, LogFile, SlicePiece, newest_base, slices_of
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.file_names import READABLE_EXTENSIONS, BaseFileName, parse_data_file
from pyhudi_core.model.printing import printable
from pyhudi_core.runtime.collection import collector_paused

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
