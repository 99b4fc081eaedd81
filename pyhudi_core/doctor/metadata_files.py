"""Compare three sources: the files that the metadata table lists, the files that commits name, and the files in the folders.

If neither a commit nor the metadata table names a file, it is not reported here: both agree that it is not valid. In the texts of the findings, "it"
is the metadata table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.files import Named, in_newest_slices, named_by
from pyhudi_core.doctor.kinds import Area, FindingKind, Severity
from pyhudi_core.doctor.listing import Listed
from pyhudi_core.errors import UnsafePathError
from pyhudi_core.metadata_table.names import FILES, FOLDER
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import LogFileName, join, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.timeline.active import Timeline

_AREA = Area.METADATA_TABLE
_REMOVING = frozenset({Action.CLEAN, Action.RESTORE, Action.ROLLBACK})
_PLACE = f"{FOLDER}/{FILES}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The three sources at one time, for the listed folders.

    Attributes:
        table: the metadata table, opened for ``data``, the timeline.
        unknown: completed commits that the metadata table does not contain.
        partitions: the partitions that the metadata table lists.
        entries: sizes of the data files that the metadata table lists, by path.
        unsafe: listed paths outside the table.
        stored: sizes of the data files in the folders.
        named: the files that commits name.
        differing: sorted paths about which two of the three sources disagree.
    """

    table: MetadataTable
    data: Timeline
    unknown: tuple[Instant, ...]
    partitions: frozenset[str]
    entries: Mapping[str, int]
    unsafe: tuple[UnsafePathError, ...]
    stored: Mapping[str, int]
    named: Named
    differing: tuple[str, ...]

    @classmethod
    def of(
        cls, table: MetadataTable, data: Timeline, commits: Mapping[Instant, CommitMetadata], listed: Listed
    ) -> Comparison:
        """Read the metadata table, also for partitions that only another source has. Raises `CorruptionError` or `StorageError`."""
        named = named_by(None, commits)
        partitions = frozenset(table.data_partitions())
        wanted = {*partitions, *listed.partitions, *(split(path)[0] for path in named.sizes)}
        entries, unsafe = _entries_of(table, wanted if listed.complete else wanted & set(listed.folders))
        unknown = () if table.slices.knows(data.commits) else _unknown(table, data)
        stored = {path: file.info.size for path, file in listed.files.items()}
        differing = _differing(data, entries, stored, named)
        return cls(table, data, unknown, partitions, entries, unsafe, stored, named, differing)

    @property
    def agrees(self) -> bool:
        """Whether the sources agree."""
        return not (self.unknown or self.unsafe or self.differing)

    def listed_again(self, exam: Examination) -> Comparison:
        """List the folders of differing files again, and return the new comparison, without folders that cannot be listed."""
        folders = {split(path)[0] for path in self.differing}
        stored = {path: size for path, size in self.stored.items() if split(path)[0] not in folders}
        unseen = set(folders)
        for folder in sorted(folders):
            with exam.recording_failures(_AREA, folder):
                found = exam.storage.list_folder(folder).objects
                stored |= {info.path: info.size for info in found if _is_data_file(info.path)}
                unseen.discard(folder)
        entries = {path: size for path, size in self.entries.items() if split(path)[0] not in unseen}
        differing = _differing(self.data, entries, stored, self.named)
        return replace(self, entries=entries, stored=stored, differing=differing)


def _entries_of(table: MetadataTable, partitions: set[str]) -> tuple[dict[str, int], tuple[UnsafePathError, ...]]:
    entries: dict[str, int] = {}
    unsafe: list[UnsafePathError] = []
    for partition, files in table.files(sorted(partitions)).items():
        for name, size in files.items():
            path = join(partition, name)
            try:
                safe_relative_path(path)
            except UnsafePathError as error:
                unsafe.append(error)
                continue
            if _is_data_file(path):
                entries[path] = size
    return entries, tuple(unsafe)


def _differing(data: Timeline, entries: Mapping[str, int], stored: Mapping[str, int], named: Named) -> tuple[str, ...]:
    apart = {path for path in entries if stored.get(path) != entries[path]}
    apart |= {path for path in stored if path not in entries and (path in named.sizes or _is_old(data, path))}
    completed = {instant.requested_time for instant in data.commits}
    apart |= {path for path in entries if path not in named.sizes and _time(path) in completed}
    return tuple(sorted(apart))


def _is_old(data: Timeline, path: str) -> bool:
    """Say whether the file's instant is older than the active timeline."""
    first = data.first_write
    return first is not None and _time(path) < first


def _is_data_file(path: str) -> bool:
    return parse_data_file(split(path)[1]) is not None


def _is_log(path: str) -> bool:
    name = parse_data_file(split(path)[1])
    return isinstance(name, LogFileName) and not name.is_cdc


def _unknown(table: MetadataTable, data: Timeline) -> tuple[Instant, ...]:
    return tuple(instant for instant in data.commits if not table.slices.knows([instant]))


def _time(path: str) -> str:
    name = parse_data_file(split(path)[1])
    return name.requested_time if name is not None else ""


def report(exam: Examination, found: Comparison, listed: Listed) -> None:
    """Report every disagreement as a finding."""
    for instant in found.unknown:
        what = f"It does not contain the {instant.action} that completed at {instant.completion_time}"
        exam.add(FindingKind.METADATA_TABLE_BEHIND, what, FOLDER, instant.requested_time)
    for error in found.unsafe:
        exam.add(FindingKind.UNSAFE_PATH, describe(error), _PLACE, area=_AREA)
    unknown = {instant.requested_time for instant in found.unknown}
    _report_partitions(exam, found, unknown)
    newest = set(in_newest_slices(found.named))
    completed = {instant.requested_time for instant in found.data.commits}
    for path in found.differing:
        if path not in found.entries:
            _report_missing(exam, found, path, unknown)
        elif path not in found.stored:
            _report_gone(exam, found, path, is_newest=path in newest)
        else:
            _report_both(exam, found, path, completed)
    exam.counts["files in the metadata table"] = len(found.entries)
    exam.add_summary(
        _AREA, f"{len(found.entries):,} files in {len(found.partitions):,} partitions compared with commits and listing"
    )
    if not listed.complete:
        exam.not_examined(_AREA, "It was compared only with the folders that were listed", _PLACE)


def _report_partitions(exam: Examination, found: Comparison, unknown: set[str]) -> None:
    held = {split(path)[0] for path in found.stored if path in found.named.sizes and _time(path) not in unknown}
    for partition in sorted(held - found.partitions):
        what = "Commits name files in the partition, but it does not list the partition"
        exam.add(FindingKind.METADATA_PARTITION_MISSING, what, partition or "the table's own folder")


def _report_missing(exam: Examination, found: Comparison, path: str, unknown: set[str]) -> None:
    """Report a stored file that the metadata table does not list. Files of a missing commit are not reported again."""
    time = _time(path)
    if exam.config is not None and exam.config.was_raised and _is_log(path) and path not in found.named.writers:
        return  # version 6 names all logs of a slice, including logs of a write that was rolled back
    if path in found.named.sizes:
        if time not in unknown:
            what = "The file exists and a commit names it, but it is not listed"
            exam.add(FindingKind.METADATA_FILE_MISSING, what, path, time)
    elif exam.archived and time in exam.archived:
        what = "The file has the time of an archived instant, but it is not listed: only readers that list the folder read it"
        exam.add(FindingKind.METADATA_FILE_MISSING, what, path, time, severity=Severity.WARNING)


def _report_gone(exam: Examination, found: Comparison, path: str, *, is_newest: bool) -> None:
    """Report a listed file that is not stored. A clean deletes files first, and updates the metadata table at its end."""
    removing = any(instant.action in _REMOVING for instant in found.data.pending)
    if is_newest:
        exam.add(
            FindingKind.METADATA_FILE_GONE,
            "It lists the file of a latest slice, but the file does not exist",
            path,
            _time(path),
        )
    elif not removing:
        what = "It lists a file that does not exist; no commit names the file in a latest slice"
        exam.add(FindingKind.METADATA_FILE_GONE, what, path, _time(path), severity=Severity.WARNING)


def _report_both(exam: Examination, found: Comparison, path: str, completed: set[str]) -> None:
    """Report a file that is listed and stored with different sizes."""
    listed, stored, time = found.entries[path], found.stored[path], _time(path)
    if listed != stored:
        exam.add(
            FindingKind.METADATA_SIZE_DIFFERS, f"It lists {listed:,} bytes, but the file has {stored:,}", path, time
        )
    if path not in found.named.sizes and time in completed and exam.all_commits_known:
        what = "It lists the file, but the commit with the file's time does not name it"
        exam.add(FindingKind.METADATA_FILE_UNNAMED, what, path, time)
