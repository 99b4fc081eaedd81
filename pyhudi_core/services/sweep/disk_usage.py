"""Measure the storage of a table: every file of its folder, each counted once.

A file belongs to the newest state if the newest slice of a file group has it. A file has no owner if a sweep would delete it when it is old enough
(``services/sweep/files_to_sweep.py``). The other data files are older versions: ``as_of`` and ``incremental`` read them until a clean deletes them.

The files are listed before the timeline is read, so no file of a running write counts as one without an owner.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import chain

from pyhudi_core.model.file_names import parse_data_file, split
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import METADATA_TABLE, TableContext
from pyhudi_core.read.snapshots import snapshot
from pyhudi_core.services.service import Figures
from pyhudi_core.services.sweep.files_to_sweep import ListedPlace, plan_sweep
from pyhudi_core.storage.base import ObjectInfo


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
class Stored:
    """The number of files, and their size in bytes."""

    files: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, infos: Iterable[ObjectInfo]) -> Stored:
        """Return the number and the total size of files."""
        sizes = [info.size for info in infos]
        return cls(len(sizes), sum(sizes))


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class DiskUsage:
    """The storage that a table uses; no file is counted twice.

    Attributes:
        newest_state: base files and logs that reads of the newest state need.
        old_versions: older file slices, replaced file groups and change logs, which a clean deletes when they are old enough.
        writes_under_way: data files of pending instants.
        metadata_table: all files of the metadata table, old files included.
        nothing_names: files of killed and failed writes, which a sweep deletes when they are old enough.
        timeline: the rest of ``.hoodie``: instants, the archived timeline, properties, locks.
        other_files: all other files below the folder, such as the files that mark partitions.
    """

    newest_state: Stored = Stored()
    old_versions: Stored = Stored()
    writes_under_way: Stored = Stored()
    metadata_table: Stored = Stored()
    nothing_names: Stored = Stored()
    timeline: Stored = Stored()
    other_files: Stored = Stored()

    @property
    def parts(self) -> dict[str, Stored]:
        """The parts by name."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def total(self) -> Stored:
        """All files."""
        parts = self.parts.values()
        return Stored(sum(part.files for part in parts), sum(part.bytes for part in parts))

    @property
    def figures(self) -> Figures:
        """The size of each part and of all parts in bytes, and the number of files."""
        parts = {f"{name}_bytes": part.bytes for name, part in self.parts.items()}
        return {**parts, "bytes": self.total.bytes, "files": self.total.files}

    def __str__(self) -> str:
        parts = (f"{name.replace('_', ' ')} {part.bytes:,}" for name, part in self.parts.items() if part.files)
        return f"{self.total.bytes:,} bytes in {self.total.files:,} files: {', '.join(parts)}"


def disk_usage(context: TableContext) -> DiskUsage:
    """Count every file of a table. Lists all of them, and reads no row. Raises `CorruptionError` if a commit cannot be read."""
    place = ListedPlace.of(context)
    listed = {info.path: info for info in chain(place.files, context.root.list(".hoodie/"))}
    swept = list(plan_sweep(context, sys.maxsize, place).infos)
    unnamed = {info.path for info in swept}
    state = snapshot(context)
    newest = {file.path for piece in state.view.all_slices() for file in piece.files}
    pending = {instant.requested_time for instant in state.timeline.pending}
    found: dict[str, list[ObjectInfo]] = defaultdict(list)
    for path, info in listed.items():
        if path not in unnamed:
            found[_part_of(path, newest, pending)].append(info)
    return DiskUsage(**{name: Stored.of(infos) for name, infos in found.items()}, nothing_names=Stored.of(swept))


def _part_of(path: str, newest: set[str], pending: set[str]) -> str:
    """Return the part to which a named file belongs."""
    if path.startswith(f"{METADATA_TABLE}/"):
        return "metadata_table"
    if path.startswith(".hoodie/"):
        return "timeline"
    if path in newest:
        return "newest_state"
    name = parse_data_file(split(path)[1])
    if name is None:
        return "other_files"
    return "writes_under_way" if name.requested_time in pending else "old_versions"
