"""The new files of a clustering, and the assignment of rows to them: by slices, or by the hashes of the keys for buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi_core.errors import CorruptionError
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.index.bucket import Hashing
from pyhudi_core.index.consistent import places_of
from pyhudi_core.index.hashing_metadata import HashingMetadata
from pyhudi_core.services.clustering.clustering_plan import ClusteringGroup
from pyhudi_core.services.clustering.rings import Rings
from pyhudi_core.services.plan_run import shared_out

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ByHash:
    """Assigns keys to new files.

    Attributes:
        ends: the ends of the ranges after the clustering.
        numbers: the number of the new file for each range; -1 for other ranges.
    """

    hashing: Hashing
    ends: Ints
    numbers: Ints

    @classmethod
    def of(cls, hashing: Hashing, ring: HashingMetadata, group: ClusteringGroup, first: int) -> ByHash:
        """Return the assignment for a group. Its new files have numbers from ``first`` on, in the order of its changes."""
        numbers = {file_id: first + number for number, file_id in enumerate(new_file_ids(group))}
        found = np.array([numbers.get(file_id, -1) for file_id in ring.file_ids], np.int64)
        return cls(hashing, np.array([end for end, _ in ring.nodes], np.int64), found)

    def of_keys(self, keys: pa.Array, path: str) -> Ints:
        """Return the number of the new file for each record key. Raises `CorruptionError` for a key in the wrong bucket."""
        found = self.numbers[places_of(self.hashing, keys, self.ends)]
        if len(found) and int(found.min()) < 0:
            key = keys[int(np.argmin(found))].as_py()
            raise CorruptionError(
                f"The record key {key!r} is in a bucket that does not have its hash",
                path=path,
                hint="Nothing was published. Look at hoodie.bucket.index.hash.field: it must name the columns that all writers hash.",
            )
        return found


@dataclass(frozen=True, slots=True)
class Piece:
    """A slice to read, and the number of the new file of its rows. If there are several new files, ``by_hash`` decides for each row."""

    number: int
    slice: FileSlice
    by_hash: ByHash | None = None

    @property
    def size(self) -> int:
        """Bytes of the slice's files."""
        return self.slice.size


@dataclass(frozen=True, slots=True)
class NewGroups:
    """The new files of some groups, by number: (partition, file id; None for a new one), and the slices that are read for them."""

    files: tuple[tuple[str, str | None], ...]
    pieces: tuple[Piece, ...]


def new_groups(wave: Sequence[ClusteringGroup], hashing: Hashing | None, rings: Rings, *, alone: bool) -> NewGroups:
    """Return the new files of groups that are written together.

    Args:
        hashing: how keys of buckets are hashed; None if the groups are not of buckets.
        rings: the ranges of their partitions after the clustering.
        alone: there is one group, whose sorted rows determine where its files end; its slices are read together.
    """
    files: list[tuple[str, str | None]] = []
    pieces: list[Piece] = []
    for group in wave:
        if group.children:
            assert hashing is not None
            by_hash = ByHash.of(hashing, rings[group.partition], group, len(files))
            pieces += [Piece(len(files), piece, by_hash) for piece in group.slices]
            files += [(group.partition, file_id) for file_id in new_file_ids(group)]
            continue
        shares = [group.slices] if alone else shared_out(group.slices, lambda piece: piece.size, group.outputs)
        for share in shares:
            pieces += [Piece(len(files), piece) for piece in share]
            files.append((group.partition, None))
    return NewGroups(tuple(files), tuple(pieces))


def new_file_ids(group: ClusteringGroup) -> list[str]:
    """Return the file ids of the new buckets of a group."""
    return [child.file_id for child in group.children if child.file_id is not None]
