"""Find the files that ended processes left: markers of ended writes, unfinished files, and checksum files of Hadoop that no longer match;
and holds that cannot be read.

Hadoop stores the checksum of ``name`` in ``.name.crc`` and refuses a file that does not match. The format is four letters, the number of bytes of a
chunk, then one CRC-32 for each chunk. Small files under ``.hoodie`` are compared completely.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict

from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.errors import UnsafePathError
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.savepoints.hold_files import look_at_holds
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.transaction import layout
from pyhudi_core.transaction.waiting_rows import folders_of

_AREA = Area.LEFTOVERS
_OWN_FOLDERS = (".hoodie", layout.HEARTBEATS, layout.PRIVATE, layout.STAGED)
_COMPARED_BYTES = 1 << 20
_LEGEND = struct.Struct(">4si")


def examine(exam: Examination, folders: list[str]) -> None:
    """Examine markers, and the hidden files in the given folders and in the folders under ``.hoodie``."""
    markers = _examine_markers(exam)
    hidden = 0
    own = dict.fromkeys((*_OWN_FOLDERS, exam.timeline_folder))
    for folder in (*own, *folders):
        found: tuple[ObjectInfo, ...] = ()
        with exam.recording_failures(_AREA, folder):
            found = exam.storage.list_hidden(folder)
        hidden += len(found)
        if found:
            _examine_hidden(exam, folder, found, compare=folder in own)
    rows = exam.below(_AREA, f"{layout.ROWS}/")
    for waiting in folders_of(rows):
        what = f"{waiting.size:,} bytes of rows of a write that is running or was killed"
        exam.add(FindingKind.TEMPORARY_FILE_LEFT, what, waiting.folder)
    hidden += len(rows)
    _examine_holds(exam)
    exam.counts.update({"markers": markers, "hidden files": hidden})
    exam.add_summary(_AREA, f"{markers:,} markers, {hidden:,} hidden files")


def _examine_markers(exam: Examination) -> int:
    by_time: dict[str, list[ObjectInfo]] = defaultdict(list)
    found = exam.below(_AREA, f"{layout.MARKERS}/")
    for info in found:
        by_time[info.path[len(layout.MARKERS) + 1 :].partition("/")[0]].append(info)
    pending = {instant.requested_time for instant in exam.timeline.pending} | exam.living
    for time, infos in sorted(by_time.items()):
        if time not in pending:
            exam.add(
                FindingKind.MARKERS_LEFT,
                f"{len(infos):,} markers of a write that is not pending",
                layout.markers(time),
                time,
            )
        for info in infos:
            name = info.path.rpartition("/")[2]
            if name.startswith("MARKERS") and name != "MARKERS.type":
                _examine_names(exam, info, time)
    return len(found)


def _examine_holds(exam: Examination) -> None:
    """Report the holds that cannot be read, which stop cleaning."""
    with exam.recording_failures(_AREA, layout.HOLDS):
        for error in look_at_holds(exam.context).unreadable if exam.context is not None else ():
            exam.add(FindingKind.HOLD_UNREADABLE, describe(error), error.path)


def _examine_names(exam: Examination, info: ObjectInfo, time: str) -> None:
    """Examine a marker file of Hudi's timeline server, which contains the names of markers as text."""
    content = exam.read(_AREA, info)
    for line in (content or b"").decode("utf-8", "replace").splitlines():
        path = line.rpartition(".marker.")[0]
        try:
            safe_relative_path(path)
        except UnsafePathError as error:
            exam.add(FindingKind.UNSAFE_PATH, error.message[:300], info.path, time, area=_AREA)


def _examine_hidden(exam: Examination, folder: str, hidden: tuple[ObjectInfo, ...], *, compare: bool) -> None:
    there: dict[str, ObjectInfo] = {}
    if any(info.path.endswith(".crc") for info in hidden):
        there = {info.path: info for info in exam.folder(_AREA, folder).objects}
    base = f"{folder}/" if folder else ""
    for info in hidden:
        name = info.path[len(base) :]
        if not name.endswith(".crc"):
            exam.add(
                FindingKind.TEMPORARY_FILE_LEFT,
                "An unfinished file of a process that is running or was killed",
                info.path,
            )
            continue
        target = there.get(base + name[1 : -len(".crc")])
        if target is None:
            exam.add(
                FindingKind.CHECKSUM_WITHOUT_FILE, "The file that the checksum belongs to does not exist", info.path
            )
        elif compare and target.size <= _COMPARED_BYTES and not _fits(exam, info, target):
            exam.add(
                FindingKind.STALE_CHECKSUM, f"The checksum does not match {target.path.rpartition('/')[2]}", info.path
            )


def _fits(exam: Examination, checksum: ObjectInfo, target: ObjectInfo) -> bool:
    stored, data = exam.read(_AREA, checksum), exam.read(_AREA, target)
    if stored is None or data is None or len(stored) < _LEGEND.size:
        return stored is None or data is None
    magic, piece = _LEGEND.unpack_from(stored)
    if magic != b"crc\0" or piece <= 0:
        return False
    pieces = (data[at : at + piece] for at in range(0, len(data), piece))
    wanted = b"".join(struct.pack(">I", zlib.crc32(part)) for part in pieces)
    return stored[_LEGEND.size :] == wanted
