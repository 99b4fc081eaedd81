"""Look up a sample of record keys in the record index: it must return the file group from which each key was read.

The sample has an equal number of keys from the start of each newest file slice, logs merged. Entries of keys that are in no file are not
searched.
"""

from __future__ import annotations

import pyarrow as pa

from pyhudi_core.doctor import schema
from pyhudi_core.doctor.examination import Examination
from pyhudi_core.doctor.keys import SliceKeys
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.snapshot.snapshot import Snapshot

_AREA = Area.METADATA_TABLE
_SHOWN_KEYS = 3

Group = tuple[str, str]


def examine(exam: Examination, table: MetadataTable, snapshot: Snapshot) -> None:
    """Look up the sample. Raises `CorruptionError` or `StorageError` if the record index cannot be read."""
    known = schema.partitions(exam, snapshot, _AREA)
    pieces = [piece for partition in known for piece in schema.slices(exam, snapshot, partition, _AREA)]
    pieces.sort(key=lambda piece: piece.requested_time, reverse=True)
    chosen = pieces[: min(exam.limits.footers, exam.limits.index_keys)]
    share = -(-exam.limits.index_keys // max(1, len(chosen)))
    sampled = {(piece.partition, piece.file_id): _some_keys(exam, snapshot, piece, share) for piece in chosen}
    wanted = list(dict.fromkeys(key for keys in sampled.values() for key in keys))
    found = table.record_locations(wanted).select(["key", "partition", "file_id"]).to_pylist() if wanted else []
    places: dict[str, set[Group]] = {}
    for row in found:
        places.setdefault(row["key"], set()).add((row["partition"], row["file_id"]))
    for group, keys in sampled.items():
        _compare(exam, group, keys, places)
    exam.counts["keys looked up in the record index"] = len(wanted)
    exam.add_summary(_AREA, f"{exam.examined[_AREA]}, {len(wanted):,} keys in the record index")


def _some_keys(exam: Examination, snapshot: Snapshot, piece: FileSlice, count: int) -> list[str]:
    for batch in SliceKeys(exam, snapshot, piece).batches():
        keys: pa.Array = batch.drop_null()
        return list(keys.slice(0, count).to_pylist())
    return []


def _compare(exam: Examination, group: Group, keys: list[str], places: dict[str, set[Group]]) -> None:
    partition, file_id = group
    unknown = [key for key in keys if key not in places]
    elsewhere = [key for key in keys if group not in places.get(key, {group})]
    where = f"{partition}/{file_id}" if partition else file_id
    if unknown:
        what = f"The record index does not know {_of(unknown, keys)} of the file group"
        exam.add(FindingKind.METADATA_INDEX_DIFFERS, what, where)
    if elsewhere:
        other = min(places[elsewhere[0]])
        what = f"The record index has {_of(elsewhere, keys)} of the file group elsewhere, such as in {other[1]!r} of {other[0]!r}"
        exam.add(FindingKind.METADATA_INDEX_DIFFERS, what, where)


def _of(some: list[str], keys: list[str]) -> str:
    shown = ", ".join(repr(key)[:80] for key in some[:_SHOWN_KEYS])
    return f"{len(some):,} of {len(keys):,} keys looked up ({shown})"
