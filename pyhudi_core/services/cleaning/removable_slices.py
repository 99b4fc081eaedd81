"""The files of a partition that a clean deletes, from their names and the commits (specification, "Cleaning"). Pure.

Only files of completed instants are considered, so files of running writers stay. A base file counts as a slice only if its commit names it.
Otherwise a file that a failed task left could count as the newest slice, and the real newest slice would be deleted. A slice is deleted completely,
with all its logs and change logs, because readers would regard the remaining files as a complete slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from pyhudi_core.file_groups.slice import BaseFile, LogFile, slices_of
from pyhudi_core.file_groups.visibility import Visibility
from pyhudi_core.model.file_names import BASE_EXTENSIONS, BaseFileName, LogFileName, join, parse_data_file
from pyhudi_core.services.cleaning.clean_rules import removable
from pyhudi_core.storage.base import ObjectInfo

Group = tuple[str, str]
"""Partition and file id."""
_Version = tuple[str, str, int]
"""The requested time in the name of a base file, the name, and the size in bytes."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Files of one slice that are deleted together; ``size`` in bytes."""

    names: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Judge:
    """The facts that determine which files of a partition are deleted.

    Attributes:
        visibility: the visibility of the newest state.
        before, versions: as in `cleaning_rules.removable`.
        replaced: every file group that a commit replaced.
        gone: the replaced file groups whose replacing commit is older than ``before``: no retained state shows them.
        saved: files that savepoints keep, relative to the table.
    """

    visibility: Visibility
    before: str
    versions: int
    replaced: frozenset[Group]
    gone: frozenset[Group]
    saved: frozenset[str]

    def removals(self, partition: str, files: Iterable[ObjectInfo]) -> Iterator[list[Removal]]:
        """Yield, for each file group with files to delete, these files slice by slice."""
        bases, logs = _by_group(partition, files)
        for file_id in sorted({*bases, *logs}):
            versions, found = bases.get(file_id, []), logs.get(file_id, [])
            group = (partition, file_id)
            is_gone = group in self.gone
            if not is_gone and (group in self.replaced or len(versions) + len(found) < 2):
                continue
            plain = not found and not is_gone
            removals = self._of_bases(partition, versions) if plain else self._of_slices(group, versions, found)
            if removals:
                yield removals

    def _of_bases(self, partition: str, versions: list[_Version]) -> list[Removal]:
        """Return the files to delete of a group without logs. Their commits need not be read."""
        ordered = sorted(versions, key=itemgetter(0), reverse=True)
        times: list[str] = []
        for time, name, _ in ordered:
            wanted = len(times) < self.versions or (time < self.before and not any(t < self.before for t in times))
            if wanted and time not in times and self.visibility.admits(time, join(partition, name)):
                times.append(time)
        return [
            Removal((name,), size)
            for time, name, size in ordered
            if times and time < self.before and time not in times and self._may_go(partition, time, [name])
        ]

    def _of_slices(self, group: Group, versions: list[_Version], logs: list[LogFile]) -> list[Removal]:
        """Return the files to delete of a group with logs, or of a replaced group."""
        partition, whole = group[0], group in self.gone
        seen = self.visibility
        bases = [_base(partition, version) for version in versions]
        named = [base for base in bases if seen.admits(base.name.requested_time, base.path)]
        done = [log for log in logs if self._is_done(log.name.requested_time)]
        pieces = slices_of(named, done, seen.completed_at)
        times = [piece.time for piece in pieces]
        going = frozenset(times) if whole else removable(times, self.before, self.versions)
        found: list[Removal] = []
        for piece in pieces:
            files: list[BaseFile | LogFile] = [*filter(None, [piece.base]), *piece.logs]
            if piece.time in going and not any(file.path in self.saved for file in files):
                found.append(Removal(tuple(str(file.name) for file in files), sum(file.size for file in files)))
        known = {base.path for base in named}
        for base in bases:
            time = base.name.requested_time
            stray = base.path not in known and time < self.before and (whole or (times and time not in times))
            if stray and self._may_go(partition, time, [str(base.name)]):
                found.append(Removal((str(base.name),), base.size))
        return found

    def _may_go(self, partition: str, time: str, names: Iterable[str]) -> bool:
        return self._is_done(time) and not any(join(partition, name) in self.saved for name in names)

    def _is_done(self, time: str) -> bool:
        return self.visibility.is_active(time) or self.visibility.is_archived(time)


def _by_group(
    partition: str, files: Iterable[ObjectInfo]
) -> tuple[dict[str, list[_Version]], dict[str, list[LogFile]]]:
    """Return base files and logs by file id. Names of base files are split, not parsed, because a table can have very many."""
    bases: dict[str, list[_Version]] = {}
    logs: dict[str, list[LogFile]] = {}
    start = len(partition) + 1 if partition else 0
    for info in files:
        text = info.path[start:]
        if text.startswith("."):
            name = parse_data_file(text)
            if isinstance(name, LogFileName):
                logs.setdefault(name.file_id, []).append(LogFile(partition, name, info.size))
            continue
        stem, _, extension = text.rpartition(".")
        parts = stem.split("_")
        if extension in BASE_EXTENSIONS and len(parts) == 3 and parts[2].isascii() and parts[2].isdigit():
            bases.setdefault(parts[0], []).append((parts[2], text, info.size))
    return bases, logs


def _base(partition: str, version: _Version) -> BaseFile:
    name = parse_data_file(version[1])
    assert isinstance(name, BaseFileName), version[1]
    return BaseFile(partition, name, version[2])
