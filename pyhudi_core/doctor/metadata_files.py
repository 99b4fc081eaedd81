"""Compare three sources: the metadata table's list of files, the files that commits name, and the files in the folders.

A file that neither a commit nor the metadata table names is no disagreement: both say that it does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.files import Named, in_newest_slices, named_by
from pyhudi_core.doctor.kinds import Area, Kind, Severity
from pyhudi_core.doctor.listing import Listed
from pyhudi_core.errors import UnsafePathError
from pyhudi_core.metadata_table.names import FILES, FOLDER
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.file_names import join, parse_data_file, split
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.timeline.active import Timeline

_AREA = Area.METADATA_TABLE
_REMOVING = frozenset({Action.CLEAN, Action.RESTORE, Action.ROLLBACK})
_PLACE = f"{FOLDER}/{FILES}"


@dataclass(frozen=True, slots=True)
class Look:
    """The three sources at one moment, for the listed folders.

    Attributes:
        table: the metadata table, opened for ``data``, the timeline.
        unknown: completed commits that it does not know.
        partitions: the partitions that it lists.
        told: sizes of the data files that it lists, by path.
        unsafe: listed paths outside the table.
        stored: sizes of the data files in the folders.
        named: the files that commits name.
        differing: paths for which two of the three differ; sorted.
    """

    table: MetadataTable
    data: Timeline
    unknown: tuple[Instant, ...]
    partitions: frozenset[str]
    told: Mapping[str, int]
    unsafe: tuple[UnsafePathError, ...]
    stored: Mapping[str, int]
    named: Named
    differing: tuple[str, ...]

    @classmethod
    def of(
        cls, table: MetadataTable, data: Timeline, commits: Mapping[Instant, CommitMetadata], listed: Listed
    ) -> Look:
        """Read the metadata table, also for partitions that only the other sources have. Raises `CorruptionError` or `StorageError`."""
        named = named_by(None, commits)
        partitions = frozenset(table.data_partitions())
        wanted = {*partitions, *listed.partitions, *(split(path)[0] for path in named.sizes)}
        told, unsafe = _told(table, wanted if listed.whole else wanted & set(listed.folders))
        unknown = () if table.slices.knows(data.commits) else _unknown(table, data)
        stored = {path: file.info.size for path, file in listed.files.items()}
        differing = _differing(data, told, stored, named)
        return cls(table, data, unknown, partitions, told, unsafe, stored, named, differing)

    @property
    def agrees(self) -> bool:
        """Whether the sources agree."""
        return not (self.unknown or self.unsafe or self.differing)

    def listed_again(self, exam: Examination) -> Look:
        """Return the look with the folders of differing files listed again, without folders that cannot be listed."""
        folders = {split(path)[0] for path in self.differing}
        stored = {path: size for path, size in self.stored.items() if split(path)[0] not in folders}
        unseen = set(folders)
        for folder in sorted(folders):
            with exam.looking(_AREA, folder):
                found = exam.storage.list_folder(folder).objects
                stored |= {info.path: info.size for info in found if _is_data_file(info.path)}
                unseen.discard(folder)
        told = {path: size for path, size in self.told.items() if split(path)[0] not in unseen}
        differing = _differing(self.data, told, stored, self.named)
        return replace(self, told=told, stored=stored, differing=differing)


def _told(table: MetadataTable, partitions: set[str]) -> tuple[dict[str, int], tuple[UnsafePathError, ...]]:
    told: dict[str, int] = {}
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
                told[path] = size
    return told, tuple(unsafe)


def _differing(data: Timeline, told: Mapping[str, int], stored: Mapping[str, int], named: Named) -> tuple[str, ...]:
    apart = {path for path in told if stored.get(path) != told[path]}
    apart |= {path for path in stored if path not in told and (path in named.sizes or _is_old(data, path))}
    completed = {instant.requested_time for instant in data.commits}
    apart |= {path for path in told if path not in named.sizes and _time(path) in completed}
    return tuple(sorted(apart))


def _is_old(data: Timeline, path: str) -> bool:
    """Whether the file's instant is older than the active timeline."""
    first = data.first_write
    return first is not None and _time(path) < first


def _is_data_file(path: str) -> bool:
    return parse_data_file(split(path)[1]) is not None


def _unknown(table: MetadataTable, data: Timeline) -> tuple[Instant, ...]:
    return tuple(instant for instant in data.commits if not table.slices.knows([instant]))


def _time(path: str) -> str:
    name = parse_data_file(split(path)[1])
    return name.requested_time if name is not None else ""


def report(exam: Examination, look: Look, listed: Listed) -> None:
    """Report every disagreement as a finding."""
    for instant in look.unknown:
        what = f"It does not know the {instant.action} that completed at {instant.completion_time}"
        exam.add(Kind.METADATA_TABLE_BEHIND, what, FOLDER, instant.requested_time)
    for error in look.unsafe:
        exam.add(Kind.UNSAFE_PATH, describe(error), _PLACE, area=_AREA)
    unknown = {instant.requested_time for instant in look.unknown}
    _report_partitions(exam, look, unknown)
    newest = set(in_newest_slices(look.named))
    completed = {instant.requested_time for instant in look.data.commits}
    for path in look.differing:
        if path not in look.told:
            _report_missing(exam, look, path, unknown)
        elif path not in look.stored:
            _report_gone(exam, look, path, is_newest=path in newest)
        else:
            _report_both(exam, look, path, completed)
    exam.counts["files in the metadata table"] = len(look.told)
    exam.saw(_AREA, f"{len(look.told):,} files in {len(look.partitions):,} partitions against commits and listing")
    if not listed.whole:
        exam.not_examined(_AREA, "It was compared only with the folders that were listed", _PLACE)


def _report_partitions(exam: Examination, look: Look, unknown: set[str]) -> None:
    held = {split(path)[0] for path in look.stored if path in look.named.sizes and _time(path) not in unknown}
    for partition in sorted(held - look.partitions):
        what = "Commits name files in the partition, and it does not list the partition"
        exam.add(Kind.METADATA_PARTITION_MISSING, what, partition or "the table's own folder")


def _report_missing(exam: Examination, look: Look, path: str, unknown: set[str]) -> None:
    """Report a stored file that the metadata table does not list, unless its commit is unknown there and reported already."""
    time = _time(path)
    if path in look.named.sizes:
        if time not in unknown:
            what = "A commit names the file, it is there, and it is not listed"
            exam.add(Kind.METADATA_FILE_MISSING, what, path, time)
    elif exam.archived and time in exam.archived:
        what = "The file has the time of an archived instant, and it is not listed: only listings of the folder show it"
        exam.add(Kind.METADATA_FILE_MISSING, what, path, time, severity=Severity.WARNING)


def _report_gone(exam: Examination, look: Look, path: str, *, is_newest: bool) -> None:
    """Report a listed file that is not stored. A clean deletes files first, and updates the metadata table at its end."""
    removing = any(instant.action in _REMOVING for instant in look.data.pending)
    if is_newest:
        exam.add(Kind.METADATA_FILE_GONE, "It lists the file of a newest slice, and it is not there", path, _time(path))
    elif not removing:
        what = "It lists a file, not of a newest slice that a commit names, and it is not there"
        exam.add(Kind.METADATA_FILE_GONE, what, path, _time(path), severity=Severity.WARNING)


def _report_both(exam: Examination, look: Look, path: str, completed: set[str]) -> None:
    """Report a file that is listed and stored with different sizes."""
    told, stored, time = look.told[path], look.stored[path], _time(path)
    if told != stored:
        exam.add(Kind.METADATA_SIZE_DIFFERS, f"It says {told:,} bytes, and the file has {stored:,}", path, time)
    if path not in look.named.sizes and time in completed and exam.all_commits_known:
        what = "It lists the file, and the commit with the file's time does not name it"
        exam.add(Kind.METADATA_FILE_UNNAMED, what, path, time)
