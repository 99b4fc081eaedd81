"""The bucket index with the engine CONSISTENT_HASHING: each range of hashes has a file group, and ranges can be split and merged.

The metadata of a partition assigns ranges to file groups (``index/hashing_metadata.py``). The hash is XXH32 of the values of the hash fields, one
after the other. A hash belongs to the first range that ends at it or after it. As with simple buckets there is no look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import Dataset, TaskInfo
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.formats.xxhash import xxh32
from pyhudi_core.index.base import TAGS, Group, Tagged
from pyhudi_core.index.bucket import Hashing
from pyhudi_core.index.hashing_metadata import LARGEST, HashingMetadata
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY


@dataclass(frozen=True, slots=True)
class ConsistentIndex:
    """Tags each row with the file group of its range, which may not exist yet.

    Args:
        hashing: the fields that are hashed.
        metadata: returns the metadata of a partition; None if it has none, so that its rows get no tag.
        file_ids: returns the ids of the file groups of a partition.
        replaced: removed file groups. After an overwrite, Hudi does not assign new file groups to their ranges, so readers would not see rows of
            these ranges.
    """

    hashing: Hashing
    metadata: Callable[[str], HashingMetadata | None]
    file_ids: Callable[[str], Collection[str]]
    replaced: Collection[Group]

    def tag(self, rows: Dataset, partitions: Collection[str], exact: Collection[str]) -> Tagged:
        """Tag rows, as `Index.tag`. Raises `UnsupportedTableError` if the file groups of a partition do not fit its metadata."""
        rings = {}
        for partition in partitions:
            ring = self.metadata(partition)
            if ring is not None:
                self._refuse_unfit(partition, ring)
                rings[partition] = ring
        schema = pa.schema([*rows.schema, *TAGS])
        return Tagged(rows.map(_Tag(self.hashing, rings, schema), schema))

    def _refuse_unfit(self, partition: str, ring: HashingMetadata) -> None:
        strange = sorted(set(self.file_ids(partition)) - set(ring.file_ids))
        gone = sorted({file_id for path, file_id in self.replaced if path == partition} & set(ring.file_ids))
        if strange or gone:
            raise UnsupportedTableError(
                f"The file group {strange[0]} is not in the metadata of consistent hashing" if strange else
                f"The file group {gone[0]} was replaced, but the metadata of consistent hashing still names it",
                path=partition or None,
                hint="Nothing was written. Rows would not be found, or not be seen: write the rows of the partition into a new table.",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Tag:
    """Task function: adds `TAGS`. Makes texts only once for each file group."""

    hashing: Hashing
    rings: Mapping[str, HashingMetadata]
    schema: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ends = {path: np.array([end for end, _ in ring.nodes], np.int64) for path, ring in self.rings.items()}
        for batch in batches:
            own = batch.column(PARTITION_PATH)
            paths, hashes = own.dictionary_encode(), _hashes(self.hashing, batch.column(RECORD_KEY))
            codes = paths.indices.to_numpy()
            file_ids: list[str] = []
            chosen = np.full(len(batch), -1, np.int64)
            for code, path in enumerate(paths.dictionary.to_pylist()):
                if path not in ends:
                    continue
                here = np.flatnonzero(codes == code)
                places = _places(hashes[here], ends[path])
                chosen[here] = places + len(file_ids)
                file_ids += self.rings[path].file_ids
            known = pa.array(chosen, mask=chosen < 0)
            tagged = pa.array(file_ids, pa.string()).take(known)
            partition = pc.if_else(known.is_valid(), own, pa.scalar(None, own.type))
            columns = [*batch.columns, partition, tagged, pa.nulls(len(batch), pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def places_of(hashing: Hashing, keys: pa.Array, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return for each record key the number of its range. ``ends``: the last hashes of the ranges, in order.

    Raises as `Hashing.values`.
    """
    return _places(_hashes(hashing, keys), ends)


def _places(hashes: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.searchsorted(ends, hashes) % len(ends)  # after the last range comes the first


def _hashes(hashing: Hashing, keys: pa.Array) -> npt.NDArray[np.int64]:
    values = hashing.values(keys)
    text = values[0] if len(values) == 1 else pc.binary_join_element_wise(*values, "")
    return (xxh32(text) & np.uint32(LARGEST)).astype(np.int64)
