"""Find record keys that other writers put into several file groups of a partition, and choose the copy that stays.

A partition is read in two passes. The first keeps a hash of four bytes for each key; the second reads the copies of the keys
whose hash occurs twice. The copies count as versions of one row, in the order of their commits. The copy that the table's merge law chooses stays.

Only file groups of one partition are compared. Keys that one file has twice are counted, but they are not removed: a delete of the key would
remove all its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.merge.law import MergeLaw
from pyhudi_core.merge.merged_slice import Merging, merged_batches
from pyhudi_core.merge.record_merger import ordering_of
from pyhudi_core.model.meta_fields import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY, with_meta_fields
from pyhudi_core.model.printing import printable
from pyhudi_core.services.estimates import with_seconds
from pyhudi_core.services.service import Figures
from pyhudi_core.snapshot.snapshot import Snapshot
from pyhudi_core.storage.base import Storage

SURPLUS = pa.schema([("partition", pa.string()), ("key", pa.string()), ("file_id", pa.string()), ("kept", pa.string())])
"""A row to remove: its file group, and the file group whose row of the same key stays."""

_FILE, _POSITION = "_pyhudi_file", "_pyhudi_copy"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
@printable
class DuplicatePlan:
    """The rows that would be removed; false if there are none.

    Attributes:
        surplus: one row of `SURPLUS` for each key and file group.
        in_one_file: keys that one file has more than once; they stay.
        snapshot: the state that was read.
    """

    surplus: pa.Table
    in_one_file: int
    snapshot: Snapshot = field(repr=False)

    @property
    def why_not(self) -> str:
        """The reason why there is nothing to remove, or why some rows stay."""
        if self.in_one_file:
            return f"{self.in_one_file:,} keys are in one file twice, which this command does not repair: rewrite their partitions"
        return "" if self else "no partition has a record key in two file groups"

    @property
    def figures(self) -> Figures:
        """Numbers of keys, of rows to remove, of their file groups, and of seconds."""
        groups = self.surplus.group_by(["partition", "file_id"]).aggregate([]).num_rows
        keys = self.surplus.group_by(["partition", "key"]).aggregate([]).num_rows
        return with_seconds({"keys": keys, "rows": len(self.surplus), "file_groups": groups}, files=groups)

    def __bool__(self) -> bool:
        return len(self.surplus) > 0

    def __str__(self) -> str:
        if not self:
            return f"nothing to remove: {self.why_not}"
        counts = self.figures
        shown = ", ".join(map(repr, self.surplus["key"].unique().slice(0, _SHOWN).to_pylist()))
        more = " and others" if counts["keys"] > _SHOWN else ""
        text = f"{counts['rows']:,} surplus rows of {counts['keys']:,} keys ({shown}{more}) in {counts['file_groups']:,} file groups"
        return f"{text}; {self.why_not}" if self.why_not else text


def find_duplicates(snapshot: Snapshot, storage: Storage) -> DuplicatePlan:
    """Search every partition. Raises `CorruptionError` for files that cannot be read."""
    found: list[pa.Table] = []
    in_one_file = 0
    for partition in snapshot.view.partitions():
        pieces = snapshot.view.slices(partition)
        surplus, repeated = _Partition(snapshot, storage, partition, pieces).surplus()
        found.append(surplus)
        in_one_file += repeated
    return DuplicatePlan(pa.concat_tables([SURPLUS.empty_table(), *found]), in_one_file, snapshot)


@dataclass(frozen=True, slots=True)
class _Partition:
    snapshot: Snapshot
    storage: Storage
    path: str
    pieces: Sequence[FileSlice]

    def surplus(self) -> tuple[pa.Table, int]:
        """Return the rows to remove, and the number of keys that one file has twice."""
        suspects = self._suspects()
        if not len(suspects):
            return SURPLUS.empty_table(), 0
        copies = self._copies(suspects)
        counts = copies.group_by([RECORD_KEY, _FILE]).aggregate([([], "count_all")])
        inside = counts.filter(pc.greater(counts["count_all"], 1))[RECORD_KEY]
        copies = copies.filter(pc.invert(pc.is_in(copies[RECORD_KEY], value_set=inside.combine_chunks())))
        kept = MergeLaw(ordering_of(self.snapshot.config)).reduce(copies, RECORD_KEY, _POSITION)
        winner = kept[_FILE].take(pc.index_in(copies[RECORD_KEY], value_set=kept[RECORD_KEY].combine_chunks()))
        goes = pc.not_equal(copies[_FILE], winner)
        gone = copies.filter(goes)
        ids = pa.array([piece.file_id for piece in self.pieces], pa.string())
        columns = [
            pa.repeat(pa.scalar(self.path), len(gone)), gone[RECORD_KEY],
            ids.take(gone[_FILE].combine_chunks()), ids.take(winner.filter(goes).combine_chunks()),
        ]  # fmt: skip
        return pa.table(columns, schema=SURPLUS), len(inside.unique())

    def _suspects(self) -> np.ndarray:
        """Return the hashes that occur more than once; different keys can have the same hash."""
        hashes = [hash_keys(batch.column(RECORD_KEY)) for piece in self.pieces for batch in self._read(piece, ())]
        values, counts = np.unique(np.concatenate(hashes or [np.zeros(0, np.uint32)]), return_counts=True)
        return values[counts > 1]

    def _copies(self, suspects: np.ndarray) -> pa.Table:
        """Return all rows of the keys with these hashes that occur more than once, in the order of their commits."""
        columns = (COMMIT_TIME, COMMIT_SEQNO, *ordering_of(self.snapshot.config))
        parts = []
        for number, piece in enumerate(self.pieces):
            for batch in self._read(piece, columns):
                some = batch.filter(pa.array(np.isin(hash_keys(batch.column(RECORD_KEY)), suspects)))
                parts.append(pa.Table.from_batches([some]).append_column(_FILE, pa.array(np.full(len(some), number))))
        found = pa.concat_tables(parts)
        counted = pc.value_counts(found[RECORD_KEY])
        twice = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
        found = found.filter(pc.is_in(found[RECORD_KEY], value_set=twice))
        found = found.sort_by([(COMMIT_TIME, "ascending"), (COMMIT_SEQNO, "ascending"), (_FILE, "ascending")])
        return found.append_column(_POSITION, pa.array(np.arange(len(found)))).combine_chunks()

    def _read(self, piece: FileSlice, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        schema = with_meta_fields(self.snapshot.schema)
        wanted = pa.schema([item for item in schema if item.name in {RECORD_KEY, *columns}])
        merging = Merging(self.snapshot.config, self.snapshot.evolution)
        for batch in merged_batches(self.storage, piece, merging, wanted, schema):
            yield batch.select(wanted.names).cast(wanted)
