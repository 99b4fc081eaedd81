"""The plan of a write: how many rows go to each destination, and which file groups are rewritten or made (Hudi's ``WorkloadProfile`` and
``UpsertPartitioner``).

Pure code: from tagged rows and the slices of a snapshot to buckets. First the rows and bytes are counted by file group, after the index has tagged
the rows (`WorkloadProfile`). Then each file group that receives rows becomes a bucket (`Planner`); other file groups have no bucket. A row with a
known key goes to the bucket of its file group, also if its own partition is another one. A new key goes to a small file group of its partition, if
there is room, or to a new group of the target size (specification, "Writer Expectations" 2).
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyhudi_core.errors import CorruptionError
from pyhudi_core.file_groups.skeletons import may_be_skeleton
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.index.base import TAG_FILE_ID, TAG_PARTITION, Group, Tagged
from pyhudi_core.model.meta_fields import PARTITION_PATH


@dataclass(frozen=True, slots=True)
class Volume:
    """The size of a batch's part for one destination; bytes as Arrow holds them, estimated from the columns' types."""

    rows: int
    bytes: int

    def __add__(self, other: Volume) -> Volume:
        return Volume(self.rows + other.rows, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """The destinations of the rows of a batch; counted after the index has tagged the rows.

    Attributes:
        tagged: the number of rows that the index assigned to each file group.
        new: the number of rows with unknown keys in each partition.
        whole: the partitions whose rows all go to one file group, which is also in `tagged`.
        elsewhere: the file groups that receive rows of another partition.
    """

    tagged: Mapping[Group, Volume]
    new: Mapping[str, Volume]
    whole: Mapping[str, str] = field(default_factory=dict)
    elsewhere: frozenset[Group] = frozenset()

    @classmethod
    def of(cls, tagged: Tagged, volumes: Mapping[str, Volume]) -> WorkloadProfile:
        """Count tagged rows; ``volumes``: the known sizes by partition. Reads the rows only if they have tags."""
        if not tagged.has_tags:
            whole = {(path, file_id): volumes[path] for path, file_id in tagged.whole.items()}
            new = {path: volume for path, volume in volumes.items() if path not in tagged.whole}
            return cls(whole, new, tagged.whole)
        groups: dict[Group, Volume] = {}
        rest: dict[str, Volume] = {}
        elsewhere: set[Group] = set()
        for (own, partition, file_id), rows in tagged.rows.count_by(PARTITION_PATH, TAG_PARTITION, TAG_FILE_ID).items():
            path = own or ""
            volume = Volume(rows, rows * volumes[path].bytes // max(1, volumes[path].rows))
            if file_id is not None:
                group = (partition or "", file_id)
                if group[0] != path:
                    elsewhere.add(group)
            elif path in tagged.whole:
                group = (path, tagged.whole[path])
            else:
                rest[path] = volume
                continue
            groups[group] = groups[group] + volume if group in groups else volume
        return cls(groups, rest, tagged.whole, frozenset(elsewhere))


_PART_ROWS, _PART_BYTES = 125_000, 96 << 20
"""At most this number of rows, and about this number of bytes of Arrow, of a new group are in a task's memory at once."""
_ARROW_TO_PARQUET = 0.5
_WORTH, _CHEAP = 8, 48 << 10
"""A base file takes new keys if it is at most ``_WORTH`` times as large as the new rows, or has at most ``_CHEAP`` bytes."""
_MOST_SMALL = 16
"""A partition with this number of small file groups without logs gets no further small file group for a few new keys."""
_MANY = 8
"""From this number on, new files are announced together."""
_TELLING_SIZE = 4 << 20
"""The size of a smaller file says little about its rows, because of its footer: the bloom filter of a file that Hudi wrote may have 430 KB."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One file group of a write.

    Attributes:
        base: its newest slice; None for a group that is new, or has no slice yet.
        room: how many bytes of new rows its file may take.
        expected: the expected work, to balance tasks.
        parts: the number of parts in which the rows come, which bounds a task's memory.
        new_partition: its partition has no file group yet.
        appends: the rows go to a log file on top of the slice, and the base file is not rewritten (merge-on-read).
        hashed: a bucket index placed the rows by a hash of their keys. New keys may not go to other groups, and existing keys were not looked up.
        keeps_late_out: rows that are older than their delete in the logs of the slice are not appended (``late_rows``).
    """

    number: int
    partition: str
    file_id: str
    base: FileSlice | None
    room: int
    expected: int
    parts: int = 1
    new_partition: bool = False
    appends: bool = False
    hashed: bool = False
    keeps_late_out: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Numbered buckets; the bucket of each tagged file group; for the untagged rows of a partition, buckets with weights."""

    buckets: tuple[Bucket, ...]
    groups: dict[Group, int]
    inserts: dict[str, tuple[tuple[int, float], ...]]

    @property
    def known_groups(self) -> frozenset[Group]:
        """Return the file groups of the snapshot that receive or lose rows."""
        return frozenset((bucket.partition, bucket.file_id) for bucket in self.buckets if bucket.base is not None)

    @property
    def only_many_new(self) -> bool:
        """Say whether the plan makes many file groups, and changes no existing group."""
        plain = (bucket.base is None and not bucket.appends and not bucket.hashed for bucket in self.buckets)
        return len(self.buckets) >= _MANY and all(plain)

    @property
    def rewritten_bytes(self) -> int:
        """Return the bytes of the rewritten files."""
        return sum(bucket.base.size for bucket in self.buckets if bucket.base is not None and not bucket.appends)


@dataclass(frozen=True, slots=True)
class Sizing:
    """The bytes of a full file, the limit of a small file, and the estimated bytes of a row for tables without files."""

    target: int
    small: int
    row_estimate: int


@dataclass(slots=True)
class Planner:
    """Makes plans.

    Args:
        sizing: the sizes of files.
        new_id: makes file ids.
        slices: the newest slices of a partition; called for the partitions that receive rows.
        merge_on_read: known keys are appended to logs; a partition's smallest file group takes new keys if it has no logs, as in Hudi, and if it is
            not much larger than the new rows. Its base file is rewritten, because an index that reads base files would not find new keys in logs.
        fills: small file groups take new keys.
        busy: file groups that a planned clustering rewrites; they take no new keys.
        left: file groups from which rows move inside their partition; they take no new keys.
        hashed: the index names file groups by a hash of keys, also groups that do not exist yet.
        logs_first: the first file of such a group is a log (non-blocking concurrency control).
        keeps_late_out: for a slice, whether rows that are older than their delete in its logs are not appended.
    """

    sizing: Sizing
    new_id: Callable[[], str]
    slices: Callable[[str], tuple[FileSlice, ...]]
    merge_on_read: bool = False
    fills: bool = True
    hashed: bool = False
    busy: frozenset[Group] = frozenset()
    logs_first: bool = False
    left: frozenset[Group] = frozenset()
    keeps_late_out: Callable[[FileSlice], bool] = lambda _piece: False
    _buckets: list[Bucket] = field(default_factory=list)
    _groups: dict[Group, int] = field(default_factory=dict)
    _inserts: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def upsert(self, profile: WorkloadProfile) -> Plan:
        """Plan tagged rows for their groups, and new rows for small groups and new groups. Raises `CorruptionError` as `delete`."""
        self._to_groups(profile)
        for partition, volume in profile.new.items():
            if volume.rows:
                self._inserts[partition] = self._fill(partition, volume)
        return self._plan()

    def delete(self, profile: WorkloadProfile) -> Plan:
        """Plan tagged rows for their groups, and no other rows. Raises `CorruptionError` if an index names a group that the snapshot does not
        have.
        """
        self._to_groups(profile, makes=False)
        return self._plan()

    def create(self, profile: WorkloadProfile, *, measure_files: bool) -> Plan:
        """Plan new rows for new groups, tagged rows for their groups. ``measure_files``: the partition's files show the bytes of a row."""
        self._to_groups(profile)
        for partition, volume in profile.new.items():
            found = self.slices(partition)
            size = self._row_size(volume, found if measure_files else ())
            self._inserts[partition] = self._make(partition, volume, volume.rows, size, new_partition=not found)
        return self._plan()

    def goes_to_one_file(self, partition: str, volume: Volume) -> bool:
        """Say whether one file of the partition can take all the rows, and a rewrite is worth its cost even if all rows are new."""
        found = self.slices(partition)
        size = volume.rows * self._row_size(volume, found)
        return size <= self.sizing.target and all(self._is_worth(piece, size) for piece in found)

    @staticmethod
    def _is_worth(piece: FileSlice, incoming: float) -> bool:
        """Say whether a file is not much larger than this number of bytes of new rows."""
        return piece.size <= max(_CHEAP, _WORTH * incoming)

    def _plan(self) -> Plan:
        return Plan(tuple(self._buckets), self._groups, self._inserts)

    def _to_groups(self, profile: WorkloadProfile, *, makes: bool = True) -> None:
        known: dict[str, dict[str, FileSlice]] = {}
        for (partition, file_id), volume in profile.tagged.items():
            if partition not in known:
                known[partition] = {piece.file_id: piece for piece in self.slices(partition)}
            piece = known[partition].get(file_id)
            if piece is None and self.hashed:
                if makes:
                    self._groups[partition, file_id] = self._named(partition, file_id, volume, bool(known[partition]))
                continue
            if piece is None:
                raise CorruptionError(
                    "The index says that a file group holds rows of the batch, but the table has no such file group",
                    path=f"{partition}/{file_id}" if partition else file_id,
                    hint="Nothing was published. The index is damaged or old: check the table (table.check()), and rebuild the index.",
                )
            self._groups[partition, file_id] = self._existing(piece, volume.rows)
            if profile.whole.get(partition) == file_id:
                self._inserts[partition] = ((self._groups[partition, file_id], 1.0),)

    def _fill(self, partition: str, volume: Volume) -> tuple[tuple[int, float], ...]:
        """Fill small groups, smallest first, then new groups."""
        found = self.slices(partition)
        size = self._row_size(volume, found)
        if not found:
            return self._make(partition, volume, volume.rows, size, new_partition=True)
        chosen: list[tuple[int, float]] = []
        left = float(volume.rows)
        small = sorted(found, key=lambda piece: -self._room(piece))
        for piece in self._worth_rewriting(small, volume.rows * size):
            room = self._room(piece)
            if left <= 0 or room < size:
                break
            taken = min(left, room / size)
            chosen.append((self._take(piece, math.ceil(taken)), taken))
            left -= room / size
        return (*chosen, *(self._make(partition, volume, left, size, new_partition=False) if left > 0 else ()))

    def _worth_rewriting(self, small: Sequence[FileSlice], incoming: float) -> Sequence[FileSlice]:
        """Return the small groups whose files are not much larger than the new rows; ``incoming`` is their bytes.

        Otherwise each commit with a few new keys would rewrite the same growing file, and the bytes on disk would grow with the square of the
        commits. A new group takes the keys, and the keys of the next commits, so its file grows. A partition that has many small groups gets no more
        of
        them: then the smallest one is rewritten (decision 0107). A merge-on-read table rewrites one file at most (decision 0039).
        """
        worth = [piece for piece in small if self._is_worth(piece, incoming)]
        if not worth and sum(self._room(piece) > 0 for piece in small) >= _MOST_SMALL:
            worth = [small[0]]
        return worth[:1] if self.merge_on_read else worth

    def _make(
        self, partition: str, volume: Volume, rows: float, size: float, *, new_partition: bool
    ) -> tuple[tuple[int, float], ...]:
        """Return new groups of the target size for ``rows`` rows of the volume."""
        count = max(1, math.ceil(rows * size / self.sizing.target))
        each = rows / count
        wide = volume.bytes / max(1, volume.rows)
        parts = max(1, math.ceil(int(each) / _PART_ROWS), math.ceil(int(each) * wide / _PART_BYTES))
        return tuple((self._new(partition, int(each), parts, new_partition=new_partition), each) for _ in range(count))

    def _take(self, piece: FileSlice, rows: int) -> int:
        """Return the bucket of a group that also takes new rows."""
        number = self._groups.get(piece.group)
        if number is None:
            number = self._existing(piece, 0)
        bucket = self._buckets[number]
        self._buckets[number] = replace(bucket, expected=bucket.expected + rows, appends=False)
        return number

    def _room(self, piece: FileSlice) -> int:
        if not self.fills or piece.base is None or piece.logs or piece.group in self.busy | self.left:
            return 0
        if may_be_skeleton(piece.base.path):
            return 0  # the size of a skeleton says nothing about its rows
        return self.sizing.target - piece.size if piece.size < self.sizing.small else 0

    def _existing(self, piece: FileSlice, rows: int) -> int:
        number = len(self._buckets)
        size = 0 if self.merge_on_read else piece.size
        room, appends = self._room(piece), self.merge_on_read
        late = appends and self.keeps_late_out(piece)
        found = Bucket(
            number, piece.partition, piece.file_id, piece, room, size + rows, appends=appends, keeps_late_out=late
        )
        return self._add(replace(found, room=sys.maxsize, hashed=True) if self.hashed else found)

    def _named(self, partition: str, file_id: str, volume: Volume, has_others: bool) -> int:
        """Return the bucket of a group that an index has named, and that does not exist yet."""
        parts = max(1, math.ceil(volume.rows / _PART_ROWS), math.ceil(volume.bytes / _PART_BYTES))
        parts = 1 if self.logs_first else parts  # one log file
        made = Bucket(len(self._buckets), partition, file_id, None, sys.maxsize, volume.rows, parts, not has_others)
        return self._add(replace(made, hashed=True, appends=self.logs_first))

    def _new(self, partition: str, rows: int, parts: int, *, new_partition: bool) -> int:
        number = len(self._buckets)
        fresh = Bucket(number, partition, self.new_id(), None, self.sizing.target, rows, parts, new_partition)
        return self._add(fresh)

    def _add(self, bucket: Bucket) -> int:
        self._buckets.append(bucket)
        return bucket.number

    def _row_size(self, volume: Volume, slices: Iterable[FileSlice]) -> float:
        """Return the bytes of a row in a base file: from the partition's files, otherwise from the batch's own width."""
        written = (piece.stat for piece in slices if piece.stat is not None)
        stats = [stat for stat in written if stat.rows and stat.size >= _TELLING_SIZE]
        if stats:
            return max(1.0, sum(stat.size for stat in stats) / sum(stat.rows for stat in stats))
        measured = volume.bytes / max(1, volume.rows) * _ARROW_TO_PARQUET
        return min(float(self.sizing.row_estimate), max(1.0, measured))


def balance(buckets: Iterable[Bucket], tasks: int) -> dict[int, int]:
    """Return the task of each bucket: the largest bucket first, each to the task with the least work."""
    loads = [(0, task) for task in range(tasks)]
    chosen: dict[int, int] = {}
    for bucket in sorted(buckets, key=lambda bucket: (-bucket.expected, bucket.number)):
        load, task = loads[0]
        chosen[bucket.number] = task
        heapq.heapreplace(loads, (load + bucket.expected + 1, task))
    return chosen
