"""Which file group a row goes to. Pure: from the volumes of a batch and the slices of a snapshot to buckets.

A bucket is one file group to rewrite or to make. Rows whose key is known go to the bucket of its group. New keys go to small file groups first,
as far as they have room for them, and then to new groups of the target size (specification, "Writer Expectations" 2; Hudi's small-file
handling). A partition with one group needs no look-up: its whole volume goes to that group's bucket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.write.prepare import Volume

_PART_ROWS = 125_000
_ARROW_TO_PARQUET = 0.5
_TELLING_SIZE = 4 << 20  # smaller files consist of their bloom filter, and say little about rows


@dataclass(frozen=True, slots=True)
class Bucket:
    """One file group of a write. ``room`` is how many bytes of new rows its file may take; ``parts`` bounds a task's memory."""

    number: int
    partition: str
    file_id: str
    base: FileSlice | None
    room: int
    expected: int
    parts: int = 1
    new_partition: bool = False


@dataclass(frozen=True, slots=True)
class PartitionRoute:
    """Where a partition's rows go: by known group, and new keys by hash over weighted buckets."""

    groups: dict[str, int]
    inserts: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Buckets by number, routes by partition, and the partitions whose keys must be looked up."""

    buckets: tuple[Bucket, ...]
    routes: dict[str, PartitionRoute]
    lookup: dict[str, tuple[FileSlice, ...]]


@dataclass(frozen=True, slots=True)
class Sizing:
    """Bytes of a full file, and below which a file is small; estimated bytes of a row for tables without files."""

    target: int
    small: int
    row_estimate: int


@dataclass(slots=True)
class Planner:
    """Builds a plan, one partition after the other. ``new_id`` makes file ids."""

    sizing: Sizing
    new_id: Callable[[], str]
    buckets: list[Bucket] = field(default_factory=list)
    routes: dict[str, PartitionRoute] = field(default_factory=dict)
    lookup: dict[str, tuple[FileSlice, ...]] = field(default_factory=dict)

    def merge(self, partition: str, volume: Volume, slices: tuple[FileSlice, ...], *, find: bool = False) -> None:
        """Upsert: known keys to their groups, new ones to small groups and new groups. ``find`` asks for a look-up in any case."""
        size = self._row_size(volume, slices)
        if not slices:
            self.create(partition, volume, new_partition=True)
            return
        if len(slices) == 1 and not find and volume.rows * size <= self.sizing.target:
            number = self._existing(slices[0], volume.rows)
            self.routes[partition] = PartitionRoute({slices[0].file_id: number}, ((number, 1.0),))
            return
        groups = {piece.file_id: self._existing(piece, volume.rows // len(slices)) for piece in slices}
        self.lookup[partition] = slices
        self.routes[partition] = PartitionRoute(groups, self._inserts(partition, volume.rows, size, groups))

    def remove(self, partition: str, volume: Volume, slices: tuple[FileSlice, ...]) -> None:
        """Delete: known keys to their groups, unknown ones nowhere."""
        groups = {piece.file_id: self._existing(piece, volume.rows // len(slices)) for piece in slices}
        only = tuple((number, 1.0) for number in groups.values()) if len(slices) == 1 else ()
        if len(slices) > 1:
            self.lookup[partition] = slices
        self.routes[partition] = PartitionRoute(groups, only)

    def create(self, partition: str, volume: Volume, *, new_partition: bool, find: tuple[FileSlice, ...] = ()) -> None:
        """All rows to new groups; ``find`` are the slices whose keys must not occur."""
        rows = volume.rows
        count = max(1, math.ceil(rows * self._row_size(volume, find) / self.sizing.target))
        inserts = tuple((self._new(partition, rows // count, new_partition), 1.0) for _ in range(count))
        if find:
            self.lookup[partition] = find
        self.routes[partition] = PartitionRoute({}, inserts)

    def plan(self) -> Plan:
        return Plan(tuple(self.buckets), self.routes, self.lookup)

    def _inserts(self, partition: str, rows: int, size: float, groups: dict[str, int]) -> tuple[tuple[int, float], ...]:
        """Fill small groups, smallest first, then new groups, for at most ``rows`` new keys."""
        small = sorted((self.buckets[number] for number in groups.values()), key=lambda bucket: -bucket.room)
        chosen: list[tuple[int, float]] = []
        left = float(rows)
        for bucket in small:
            if left <= 0 or bucket.room < size:
                break
            chosen.append((bucket.number, min(left, bucket.room / size)))
            left -= bucket.room / size
        count = math.ceil(left * size / self.sizing.target) if left > 0 else 0
        chosen.extend((self._new(partition, int(left / count), False), left / count) for _ in range(count))
        return tuple(chosen)

    def _existing(self, piece: FileSlice, rows: int) -> int:
        room = self.sizing.target - piece.base.size if piece.base.size < self.sizing.small else 0
        return self._add(Bucket(len(self.buckets), piece.partition, piece.file_id, piece, room, piece.base.size + rows))

    def _new(self, partition: str, rows: int, new_partition: bool) -> int:
        parts = max(1, math.ceil(rows / _PART_ROWS))
        number = len(self.buckets)
        fresh = Bucket(number, partition, self.new_id(), None, self.sizing.target, rows, parts, new_partition)
        return self._add(fresh)

    def _add(self, bucket: Bucket) -> int:
        self.buckets.append(bucket)
        return bucket.number

    def _row_size(self, volume: Volume, slices: Iterable[FileSlice]) -> float:
        """Bytes of a row in a base file: from the partition's files, else from the batch's own width."""
        written = (piece.stat for piece in slices if piece.stat is not None)
        stats = [stat for stat in written if stat.rows and stat.size >= _TELLING_SIZE]
        if stats:
            return max(1.0, sum(stat.size for stat in stats) / sum(stat.rows for stat in stats))
        measured = volume.bytes / max(1, volume.rows) * _ARROW_TO_PARQUET
        return min(float(self.sizing.row_estimate), max(1.0, measured))


def balance(buckets: Iterable[Bucket], tasks: int) -> dict[int, int]:
    """The task of each bucket: largest first, each to the task with the least to do."""
    load = [0] * tasks
    chosen: dict[int, int] = {}
    for bucket in sorted(buckets, key=lambda bucket: (-bucket.expected, bucket.number)):
        task = load.index(min(load))
        chosen[bucket.number] = task
        load[task] += bucket.expected + 1
    return chosen
