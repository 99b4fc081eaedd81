"""Compare the ranges of consistent hashing with the file groups: the metadata of a partition must name every file group, and no replaced file group.

Rows are not hashed. A clustering finds a key that is in the wrong bucket.
"""

from __future__ import annotations

from pyhudi_core.doctor import schema
from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.errors import CorruptionError
from pyhudi_core.index.hash_ranges import has_completed, has_consistent_hashing, ranges_of
from pyhudi_core.index.hashing_metadata import FIRST, path_of, times_of
from pyhudi_core.snapshot.snapshot import Snapshot

_AREA = Area.FILES


def examine(exam: Examination, snapshot: Snapshot) -> None:
    """Examine each partition of a table with consistent hashing."""
    context = exam.context
    with exam.recording_failures(_AREA):
        if context is None or not has_consistent_hashing(context):
            return
    for partition in schema.partitions(exam, snapshot, _AREA):
        with exam.recording_failures(_AREA, partition):
            _examine(exam, snapshot, partition)


def _examine(exam: Examination, snapshot: Snapshot, partition: str) -> None:
    assert exam.context is not None
    there = {piece.file_id for piece in schema.slices(exam, snapshot, partition, _AREA)}
    try:
        ring = ranges_of(exam.context, snapshot, partition)
    except CorruptionError as error:
        exam.add(FindingKind.HASH_RANGES_DIFFER, describe(error), error.path)
        return
    if ring is None:
        if there:
            exam.add(FindingKind.HASH_RANGES_DIFFER, f"{len(there):,} file groups have no ranges of hashes", partition)
        return
    where = path_of(partition, ring.instant)
    strange, gone = there - set(ring.file_ids), _replaced(snapshot, partition) & set(ring.file_ids)
    if strange:
        exam.add(
            FindingKind.HASH_RANGES_DIFFER, f"No range has the file group {min(strange)} ({len(strange):,} such)", where
        )
    if gone:
        what = f"A range has the file group {min(gone)}, which was replaced ({len(gone):,} such)"
        exam.add(FindingKind.HASH_RANGES_DIFFER, what, where)
    pending = {instant.requested_time for instant in snapshot.timeline.pending}
    for time in sorted(times_of(exam.storage, partition) - pending - {FIRST}):
        if time in exam.context.folder.undone or not has_completed(snapshot, time):
            what = "The clustering that was to have these ranges of hashes has not completed, and is not planned"
            exam.add(FindingKind.HASH_RANGES_LEFT, what, path_of(partition, time), time)


def _replaced(snapshot: Snapshot, partition: str) -> set[str]:
    return {file_id for path, file_id in snapshot.visibility.replaced if path == partition}
