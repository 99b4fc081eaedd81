"""Examine record keys: in the latest slices, each key exists once in its partition (promise: two visible rows never have the same key).

Keys are compared as Arrow columns. If a partition has more keys than the limit in memory, it is read in several passes, and each pass compares the
keys with one remainder of their hash. So memory is bounded, and the result is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.doctor import schema
from pyhudi_core.doctor.examination import Examination, describe
from pyhudi_core.doctor.kinds import Area, FindingKind
from pyhudi_core.errors import CorruptionError, HudiError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.merge.merged_slice import Merging, merged_batches
from pyhudi_core.model.meta_fields import RECORD_KEY, with_meta_fields
from pyhudi_core.snapshot.snapshot import Snapshot

_AREA = Area.KEYS
_SHOWN_KEYS = 3


def examine(exam: Examination, snapshot: Snapshot) -> None:
    """Examine the keys of every partition."""
    partitions = schema.partitions(exam, snapshot, _AREA)
    compared = 0
    for number, partition in enumerate(partitions):
        exam.progress(str(_AREA), number, len(partitions))
        pieces = schema.slices(exam, snapshot, partition, _AREA)
        compared += _examine_partition(exam, snapshot, partition, pieces)
    exam.progress(str(_AREA), len(partitions), len(partitions))
    exam.counts["keys"] = compared
    exam.add_summary(_AREA, f"{compared:,} keys in {len(partitions):,} partitions")


def _examine_partition(exam: Examination, snapshot: Snapshot, partition: str, pieces: tuple[FileSlice, ...]) -> int:
    files = [SliceKeys(exam, snapshot, piece) for piece in pieces]
    rows = exam.runtime.executor.map(lambda file: file.rows(), files)
    limit = exam.limits.key_rows
    if limit is not None and sum(rows) > limit:
        kept, files = files, []
        for file, count in zip(kept, rows, strict=True):
            if limit <= 0:
                break
            files.append(file)
            limit -= count
        if len(files) < len(kept):
            what = f"The keys of {len(kept) - len(files):,} of {len(kept):,} files were not compared"
            exam.not_examined(_AREA, what, partition or None)
        rows = rows[: len(files)]
    passes = max(1, -(-sum(rows) // exam.limits.keys_in_memory))
    missing = 0
    for number in range(passes):
        chunks: list[pa.Array] = []
        for file in files:
            for keys in file.batches():
                present = keys.drop_null()
                if number == 0:
                    missing += len(keys) - len(present)
                chunks.append(_share(present, number, passes))
        _report_duplicates(exam, partition, pa.chunked_array(chunks, pa.string()), files)
    if missing:
        exam.add(FindingKind.KEY_MISSING, f"{missing:,} rows have no record key", partition or None)
    return sum(rows)


def _share(keys: pa.Array, number: int, passes: int) -> pa.Array:
    """Return the keys that pass ``number`` compares."""
    if passes == 1:
        return keys
    return keys.filter(pa.array(hash_keys(keys) % np.uint32(passes) == number))


def _report_duplicates(exam: Examination, partition: str, keys: pa.ChunkedArray, files: list[SliceKeys]) -> None:
    if len(keys) == pc.count_distinct(keys).as_py():
        return
    counted = pc.value_counts(keys)
    repeated = counted.filter(pc.greater(counted.field("counts"), 1))
    found = repeated.field("values")
    extra = pc.sum(repeated.field("counts")).as_py() - len(repeated)
    holders = sorted(
        {file.path for file in files for held in file.batches() if pc.any(pc.is_in(held, value_set=found)).as_py()}
    )
    shown = ", ".join(repr(key)[:80] for key in found[:_SHOWN_KEYS].to_pylist())
    more = " and others" if len(found) > _SHOWN_KEYS else ""
    what = f"{len(found):,} record keys exist more than once ({shown}{more}): {extra:,} surplus rows in {len(holders):,} files"
    exam.add(FindingKind.DUPLICATE_KEY, what, holders[0] if holders else partition)


@dataclass(frozen=True, slots=True)
class SliceKeys:
    """The keys of one file slice, merged with its logs. An unreadable file is a finding, and has no keys."""

    exam: Examination
    snapshot: Snapshot
    piece: FileSlice

    @property
    def path(self) -> str:
        """The file that findings name."""
        return self.piece.logs[-1].path if self.piece.logs else self.piece.path

    def rows(self) -> int:
        """Return the number of keys: from the footer, or counted if the slice has logs."""
        if self.piece.logs:
            return sum(map(len, self.batches()))
        try:
            with self.exam.recording_failures(_AREA, self.path), self.exam.storage.open_input(self.path) as source:
                return BaseFileReader(source, self.path, ()).rows
        except CorruptionError as error:
            self._damaged(error)
        return 0

    def batches(self) -> Iterator[pa.Array]:
        """Yield the keys as text, in batches."""
        merging = Merging(self.snapshot.config, self.snapshot.evolution)
        try:
            with self.exam.recording_failures(_AREA, self.path):
                for batch in self._merged(merging) if self.piece.logs else self._base():
                    yield merging.keys_of(batch).cast(pa.string())
        except CorruptionError as error:
            self._damaged(error)
        except HudiError as error:
            self.exam.not_examined(_AREA, f"The file's keys cannot be read: {describe(error)}", self.path)

    def _columns(self) -> tuple[str, ...]:
        config = self.snapshot.config
        return (RECORD_KEY,) if config.populate_meta_fields else tuple(config.record_key_fields)

    def _base(self) -> Iterator[pa.RecordBatch]:
        with self.exam.storage.open_input(self.path) as source:
            yield from BaseFileReader(source, self.path, self._columns()).iter_batches(use_threads=True)

    def _merged(self, merging: Merging) -> Iterator[pa.RecordBatch]:
        schema = with_meta_fields(self.snapshot.schema)
        wanted = pa.schema([schema.field(name) for name in self._columns()])
        return merged_batches(self.exam.storage, self.piece, merging, wanted, schema)

    def _damaged(self, error: CorruptionError) -> None:
        kinds, places = (FindingKind.FILE_DAMAGED, FindingKind.BOOTSTRAP_SOURCE_DIFFERS), (self.path, error.path)
        known = any(found.kind in kinds and found.where in places for found in self.exam.findings)
        if not known:
            self.exam.add(FindingKind.FILE_DAMAGED, describe(error), error.path or self.path, self.piece.requested_time)
        self.exam.incomplete.add(_AREA)
