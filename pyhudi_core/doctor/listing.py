"""List the table's folder once: folders, data files and other files.

Each folder is listed by a separate call, so that an unreadable folder (for example a symbolic link that leads out of the table) does not hide other
folders. The folders of one level are listed in parallel if this is faster on the storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.kinds import Area
from pyhudi_core.model.file_names import PARTITION_METAFILE, BaseFileName, LogFileName, parse_data_file
from pyhudi_core.storage.base import Folder, ObjectInfo
from pyhudi_core.storage.own_part import own_part

_AREA = Area.FILES


@dataclass(slots=True)
class DataFile:
    """A base or log file in a partition."""

    info: ObjectInfo
    name: BaseFileName | LogFileName
    partition: str


@dataclass(slots=True)
class Listed:
    """Data files by path, partition folders, and all other files. ``complete`` is False if the limit of data files was reached."""

    files: dict[str, DataFile] = field(default_factory=dict)
    partitions: set[str] = field(default_factory=set)
    folders: list[str] = field(default_factory=list)
    others: list[ObjectInfo] = field(default_factory=list)
    complete: bool = False


def walk(exam: Examination, found: Listed) -> None:
    """List every folder of the table except ``.hoodie``, up to the limit of data files, into ``found``."""
    executor = exam.runtime.executor.at_least(exam.storage.capabilities.parallel_calls)
    level = [""]
    while level:
        folders = executor.map(lambda path: own_part(path, exam.folder(_AREA, path)), level)
        following: list[str] = []
        for path, folder in zip(level, folders, strict=True):
            _take(found, path, folder)
            following.extend(folder.folders)
        exam.progress(str(_AREA), len(found.files), 0)
        if len(found.files) > exam.limits.data_files and following:
            exam.not_examined(
                _AREA, f"More than {exam.limits.data_files:,} data files: {len(following):,} folders were not listed"
            )
            return
        level = following
    found.complete = True


def _take(found: Listed, path: str, folder: Folder) -> None:
    found.folders.append(path)
    for info in folder.objects:
        name = info.path.rpartition("/")[2]
        if name.startswith(PARTITION_METAFILE):
            found.partitions.add(path)
            continue
        parsed = parse_data_file(name)
        if parsed is None:
            found.others.append(info)
        else:
            found.files[info.path] = DataFile(info, parsed, path)
