"""Reads cut into tasks: values that other processes read by themselves, whatever engine carries them there.

A task holds all that is needed to read some file slices, or the changes of some file groups, one after the other: so its memory is that of one
slice (a batch of base rows and the slice's logs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.read.changes import ChangeReader, Changes, GroupChange
from pyhudi_core.read.merged import Merging
from pyhudi_core.read.scan import RowFilter, Scan
from pyhudi_core.storage.base import StorageSpec
from pyhudi_core.storage.opening import storage_from_spec

Part = TypeVar("Part", FileSlice, GroupChange)


@dataclass(frozen=True, slots=True)
class SliceTask:
    """Reads file slices."""

    spec: StorageSpec
    rows: RowFilter
    merging: Merging
    parts: tuple[FileSlice, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The wanted rows."""
        storage = storage_from_spec(self.spec)
        for piece in self.parts:
            yield from self.rows.read_slice(storage, piece, self.merging)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(map(size_of, self.parts))


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Reads changes of file groups."""

    spec: StorageSpec
    reader: ChangeReader
    parts: tuple[GroupChange, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes."""
        storage = storage_from_spec(self.spec)
        for change in self.parts:
            yield from self.reader.read(storage, change)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(map(size_of, self.parts))


Task = SliceTask | ChangeTask


def scan_tasks(scan: Scan, most_bytes: int = 0, slices: Sequence[FileSlice] | None = None) -> list[Task]:
    """Tasks for a scan, or for some of its slices: one for each slice, or for neighbours of at most so many bytes together."""
    chosen = scan.slices() if slices is None else slices
    spec = scan.storage.spec()
    return [SliceTask(spec, scan.rows, scan.merging, parts) for parts in _packed(chosen, most_bytes)]


def change_tasks(changes: Changes, most_bytes: int = 0) -> list[Task]:
    """Tasks for changes, in the order of their commits: one for each file group of a commit, or for neighbours."""
    spec = changes.storage.spec()
    return [ChangeTask(spec, changes.reader, parts) for parts in _packed(changes.groups, most_bytes)]


def size_of(part: FileSlice | GroupChange | None) -> int:
    """Bytes of the files of a slice, or of a group before and after a change."""
    if part is None:
        return 0
    if isinstance(part, FileSlice):
        base = 0 if part.base_file is None else part.base_file.size
        return base + sum(log.size for log in part.logs)
    return size_of(part.before) + size_of(part.after)


def _packed(parts: Sequence[Part], most_bytes: int) -> list[tuple[Part, ...]]:
    packs: list[list[Part]] = []
    room = 0
    for part in parts:
        size = size_of(part)
        if not packs or size > room:
            packs.append([])
            room = most_bytes
        packs[-1].append(part)
        room -= size
    return [tuple(pack) for pack in packs]
