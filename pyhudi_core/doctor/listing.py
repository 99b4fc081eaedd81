"""What lies in the table's folder, seen once: folders and their files, hidden ones of disks included.

The folder is walked one folder at a time rather than listed whole, so that one unreadable folder (a symbolic link that leads out, say) does not
hide the rest. Folders of a level are listed in parallel, with as many calls at once as the storage is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.kinds import Area
from pyhudi_core.model.file_names import PARTITION_METAFILE, BaseFileName, LogFileName, parse_data_file
from pyhudi_core.storage.base import Folder, ObjectInfo

_AREA = Area.FILES


@dataclass(slots=True)
class DataFile:
    """A base or log file in a partition."""

    info: ObjectInfo
    name: BaseFileName | LogFileName
    partition: str


@dataclass(slots=True)
class Listed:
    """Data files by path, partition folders, and all other names."""

    files: dict[str, DataFile] = field(default_factory=dict)
    partitions: set[str] = field(default_factory=set)
    folders: list[str] = field(default_factory=list)
    others: list[ObjectInfo] = field(default_factory=list)
    whole: bool = False


def walk(exam: Examination, found: Listed) -> None:
    """List every folder except ``.hoodie``, up to the limit of data files, into ``found``."""
    executor = exam.runtime.executor.at_least(exam.storage.capabilities.parallel_calls)
    level = [""]
    while level:
        folders = executor.map(lambda path: exam.folder(_AREA, path), level)
        following: list[str] = []
        for path, folder in zip(level, folders, strict=True):
            _take(found, path, folder)
            following.extend(name for name in folder.folders if name != ".hoodie")
        exam.progress(str(_AREA), len(found.files), 0)
        if len(found.files) > exam.limits.data_files and following:
            exam.not_examined(
                _AREA, f"More than {exam.limits.data_files:,} data files: {len(following):,} folders were not listed"
            )
            return
        level = following
    found.whole = True


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
