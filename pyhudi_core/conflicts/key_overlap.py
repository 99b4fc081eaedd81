"""Compare the record keys that two commits inserted into one partition, without making Python objects of rows.

If the table has a record index, or the index of a write is global, keys are unique in the table, and the keys of all partitions are compared. Then
the keys in logs count, too: a row in a log can bring back a deleted key, or be the first row of its key in a bucket.

Specification, "Writer Expectations" 3, last check. The keys that a commit wrote are in the rows of its new base files whose commit time is its
instant. Only these two meta columns are read, and only row groups that can have such rows. In a log, all rows count.

Keys become sorted 64-bit hashes. The other commit's hashes are looked up by bisection, and matches are compared as text. Memory is bounded by
`HASHES` hashes and a batch of rows. A larger write is compared in parts, and the other commit's files are read once for each part.

Invariant: a common key of two commits is always found. A file that cannot be read counts as a file with a common key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.conflicts.conflict import KeyFinding, is_log
from pyhudi_core.errors import CorruptBaseFileError, CorruptionError, DataError, StorageError
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.key_hash import blocks, key_chunks
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, parse_data_file, split
from pyhudi_core.model.instant import Instant
from pyhudi_core.model.meta_fields import COMMIT_TIME, RECORD_KEY
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.model.record_key import key_columns, stored_keys
from pyhudi_core.storage.base import Storage

HASHES = 4 << 20
"""The maximum number of hashes in memory: 32 MB."""

_SHOWN = 10
_HINT = "Keys cannot be compared with this file's; write when its writer has ended, or run the doctor (table.check())."

Hashes = npt.NDArray[np.uint64]


def written_keys(
    storage: Storage, path: str, requested_time: str, config: TableConfig | None = None
) -> Iterator[pa.Array]:
    """Yield the record keys that an instant wrote into a base file, in batches. In a table without meta columns, yields the keys of all rows.

    Raises `CorruptBaseFileError`, `ObjectNotFoundError`, or another `StorageError`.
    """
    name = parse_data_file(split(path)[1])
    if not isinstance(name, BaseFileName) or name.extension != "parquet":
        raise CorruptBaseFileError("Its keys are not in a Parquet base file", path=path, hint=_HINT)
    with storage.open_input(path) as source:
        if config is not None and not config.populate_meta_fields:
            for batch in BaseFileReader(source, path, key_columns(config)).iter_batches():
                yield stored_keys(batch, config)
            return
        reader = BaseFileReader(source, path, (COMMIT_TIME, RECORD_KEY))
        if not {COMMIT_TIME, RECORD_KEY} <= set(reader.schema.names):
            raise CorruptBaseFileError("It has no meta columns, so its keys are not known", path=path, hint=_HINT)
        ranges = reader.row_group_statistics([COMMIT_TIME])
        chosen = [number for number, found in enumerate(ranges) if _may_hold(found, requested_time)]
        for batch in reader.iter_batches(chosen):
            ours = batch.filter(pc.equal(batch.column(COMMIT_TIME), requested_time))
            if len(ours):
                yield ours.column(RECORD_KEY)


def _may_hold(found: object, requested_time: str) -> bool:
    """Return whether a row group may hold rows of this commit time, by its statistics."""
    known = found.get(COMMIT_TIME) if isinstance(found, dict) else None
    if known is None or known.min is None or known.max is None:
        return True
    return bool(known.min <= requested_time <= known.max)


KeysInLog = Callable[[Storage, WriteStat], pa.Array]
"""Reads the record keys of all rows of a log file. Raises `CorruptionError`, `StorageError` or `DataError`."""


@dataclass(slots=True)
class KeyOverlap:
    """Compares the keys of one write with the keys of other commits; reads each other commit once.

    Args:
        storage: the storage of the table.
        requested_time: the requested time of the write.
        stats: the files of the write.
        keys_of_table: whether keys are compared across partitions, and keys in logs are included.
        keys_in_log: reads a log; without it logs count as unread.
        config: the table's configuration. Generated keys are never equal, so they are not read.
        hashes: the maximum number of hashes in memory.
    """

    storage: Storage
    requested_time: str
    stats: tuple[WriteStat, ...]
    keys_of_table: bool = False
    keys_in_log: KeysInLog | None = None
    config: TableConfig | None = None
    hashes: int = HASHES
    _known: dict[tuple[object, ...], KeyFinding] = field(default_factory=dict)
    _kept: dict[str | None, Hashes] = field(default_factory=dict)

    def known(self, instant: Instant, partitions: frozenset[str]) -> KeyFinding | None:
        """Return the result of an earlier comparison; None if there was none."""
        return self._known.get((*instant.group, partitions))

    def compare(self, instant: Instant, commit: CommitMetadata, partitions: frozenset[str]) -> KeyFinding:
        """Read the keys that the other commit inserted into the partitions, and look for keys of this write."""
        place = (*instant.group, partitions)
        if self.config is not None and self.config.generates_keys:
            self._known[place] = KeyFinding(())
        if place not in self._known:
            self._known[place] = self._compare(instant, commit, partitions)
        return self._known[place]

    def _compare(self, instant: Instant, commit: CommitMetadata, partitions: frozenset[str]) -> KeyFinding:
        shared: list[tuple[str, str]] = []
        try:
            for partition in [None] if self.keys_of_table else sorted(partitions):
                theirs = self._bringing(commit.stats, partition)
                found = self._in_partition(partition, theirs, instant.requested_time, _SHOWN - len(shared))
                shared.extend((min(partitions) if partition is None else partition, key) for key in found)
                if len(shared) >= _SHOWN:
                    break
        except (CorruptionError, StorageError, DataError) as error:
            return KeyFinding(tuple(shared), unread=str(error))
        return KeyFinding(tuple(shared))

    def _bringing(self, stats: Iterable[WriteStat], partition: str | None) -> tuple[WriteStat, ...]:
        """Return the files that may have brought new keys into a partition; None means all partitions."""
        inside = (stat for stat in stats if partition in (None, stat.partition))
        return tuple(
            stat for stat in inside if stat.inserts or (self.keys_of_table and stat.rows and is_log(stat.path))
        )

    def _keys_of(self, stat: WriteStat, requested_time: str) -> Iterator[pa.Array]:
        if self.keys_in_log is not None and is_log(stat.path):
            return iter([self.keys_in_log(self.storage, stat)])
        return written_keys(self.storage, stat.path, requested_time, self.config)

    def _in_partition(self, partition: str | None, theirs: tuple[WriteStat, ...], time: str, most: int) -> list[str]:
        for mine in self._own_parts(partition):
            for stat in theirs:
                for keys in self._keys_of(stat, time):
                    maybe = keys.filter(pa.array(_among(wide_hashes(keys), mine)))
                    found = self._sure(partition, maybe) if len(maybe) else []
                    if found:
                        return found[:most]
        return []

    def _sure(self, partition: str | None, maybe: pa.Array) -> list[str]:
        """Return the keys that this write really has, compared as text."""
        found: dict[str, None] = {}
        for keys in self._own_keys(partition):
            found.update(dict.fromkeys(keys.filter(pc.is_in(keys, value_set=maybe)).to_pylist()))
            if len(found) >= _SHOWN:
                break
        return sorted(found)

    def _own_keys(self, partition: str | None) -> Iterator[pa.Array]:
        for stat in self._bringing(self.stats, partition):
            yield from self._keys_of(stat, self.requested_time)

    def _own_parts(self, partition: str | None) -> Iterator[Hashes]:
        """Yield the sorted hashes of this write in parts that fit into memory.

        A single part stays in memory for the next comparison, if there is room.
        """
        if partition in self._kept:
            yield self._kept[partition]
            return
        waiting: list[Hashes] = []
        count, whole = 0, True
        for keys in self._own_keys(partition):
            waiting.append(wide_hashes(keys))
            count += len(waiting[-1])
            if count >= self.hashes:
                whole = False
                yield np.sort(np.concatenate(waiting))
                waiting, count = [], 0
        if waiting:
            last = np.sort(np.concatenate(waiting))
            if whole and len(last) + sum(map(len, self._kept.values())) <= self.hashes:
                self._kept[partition] = last
            yield last


def wide_hashes(keys: pa.Array) -> Hashes:
    """64 bits a key: two chained Murmur2 hashes."""
    parts = [np.empty(0, np.uint64)]
    for chunk in key_chunks(keys):
        hashes = np.zeros(len(chunk), np.uint64)
        for block in blocks(chunk):
            block.advance()
            first = block.state.astype(np.uint64)
            block.advance()
            hashes[block.index] = first << np.uint64(32) | block.state
        parts.append(hashes)
    return np.concatenate(parts)


def _among(wanted: Hashes, known: Hashes) -> npt.NDArray[np.bool_]:
    """Return which hashes are among the known ones, which are sorted."""
    places = np.searchsorted(known, wanted)
    places[places == len(known)] = 0
    return known[places] == wanted if len(known) else np.zeros(len(wanted), np.bool_)
