"""The bucket index: the hash of a key gives its file group (specification, "Indexes", BUCKET with the engine SIMPLE).

Each partition has at most one file group for each bucket, and the first eight characters of a file id are the number of its bucket. There is no
look-up, so a tag does not show whether the key exists. File groups neither split nor roll over.

The hash is Java's hash of the list of the values of the hash fields. All writers give a new file group of a bucket the same id, so two writers that
make it at the same time conflict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.engine.base import Dataset, TaskInfo
from pyhudi_core.errors import CorruptionError, InvalidRecordKeyError, UnsupportedTableError
from pyhudi_core.index.base import TAGS, Group, Tagged
from pyhudi_core.metadata_table.names import java_hashes
from pyhudi_core.model.meta_fields import PARTITION_PATH, RECORD_KEY

ANEW = "To change the number, write all rows again by insert_overwrite_table."
_NUMBERED = re.compile(r"[0-9]{8}-")
_DIGITS = 8
_MADE = re.compile(r"([0-9]{8})-0000-0000-0000-([0-9]{12})-0")


@dataclass(frozen=True, slots=True)
class Hashing:
    """The assignment of keys to buckets.

    Attributes:
        buckets: the number of buckets of a partition.
        keys: the columns of the record key.
        fields: the hashed key columns.
    """

    buckets: int
    keys: tuple[str, ...]
    fields: tuple[str, ...]

    def __str__(self) -> str:
        """The text that commits store. It shows a conflict between two writers with different buckets."""
        return f"{self.buckets}:{','.join(self.fields)}"

    def of(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return the bucket of each record key. Raises as `values`."""
        found = np.ones(len(keys), np.uint32)
        for value in self.values(keys):
            found = found * np.uint32(31) + java_hashes(value)
        return (found & np.uint32(0x7FFFFFFF)).astype(np.int64) % self.buckets

    def values(self, keys: pa.Array) -> list[pa.Array]:
        """Return the values of the hash fields. Raises `InvalidRecordKeyError` for keys that Hudi would parse differently."""
        values = [keys] if len(self.keys) == 1 else self._parts(keys)
        for value in values:
            if pc.any(pc.match_substring(value, ":")).as_py():
                raise InvalidRecordKeyError(
                    "A record key has a colon in a value, and Hudi's bucket index takes keys apart at colons",
                    hint="Hudi's releases hash such keys in different ways; use another index, or keys without colons.",
                )
        return values

    def _parts(self, keys: pa.Array) -> list[pa.Array]:
        """Return the values of the hash fields in keys of several columns, which are texts ``name:value,name:value``."""
        parts = pc.split_pattern(keys, ",")
        if pc.any(pc.not_equal(pc.list_value_length(parts), len(self.keys))).as_py():
            raise InvalidRecordKeyError(
                "A record key has a comma in a value, and Hudi's bucket index takes keys apart at commas",
                hint="Use another index, or keys without commas.",
            )
        texts = {name: pc.list_element(parts, number) for number, name in enumerate(self.keys)}
        return [pc.utf8_slice_codeunits(texts[name], len(name) + 1) for name in self.fields]


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """Tags each row with the file group of its bucket, which may not exist yet.

    Args:
        hashing: the assignment of keys to buckets.
        file_ids: returns the ids of the file groups of a partition.
        replaced: removed file groups; their ids are not used again.
        replaces: whether the write replaces the existing file groups, so that its rows go into new file groups.
        anew: whether the write replaces the file groups of the complete table, so that it may use another number of buckets.
    """

    hashing: Hashing
    file_ids: Callable[[str], Collection[str]]
    replaced: Collection[Group]
    replaces: bool = False
    anew: bool = False

    def tag(self, rows: Dataset, partitions: Collection[str], exact: Collection[str]) -> Tagged:
        """Tag rows, as `Index.tag`.

        Raises `UnsupportedTableError` if a partition has file groups that are not buckets, and `CorruptionError` for two file groups of one bucket.
        """
        known = {partition: self._known(partition) for partition in partitions}
        schema = pa.schema([*rows.schema, *TAGS])
        return Tagged(rows.map(_Tag(self.hashing, known, schema), schema))

    def _known(self, partition: str) -> dict[int, str]:
        """Return, by bucket, the file ids that differ from the id that this package gives to a new bucket."""
        there: dict[int, str] = {}
        for file_id in self.file_ids(partition):
            if not _NUMBERED.match(file_id) or (int(file_id[:_DIGITS]) >= self.hashing.buckets and not self.anew):
                raise UnsupportedTableError(
                    f"The partition has the file group {file_id}, which does not belong to a bucket below {self.hashing.buckets}",
                    path=partition or None,
                    hint=f"Set hoodie.bucket.index.num.buckets to the number that the table was made with. {ANEW}",
                )
            bucket = int(file_id[:_DIGITS])
            if bucket in there:
                raise CorruptionError(
                    f"The partition has two file groups of bucket {bucket}: {there[bucket]} and {file_id}",
                    path=partition or None,
                    hint="Two writers without a common lock made them. Delete one of them by Hudi's repair, or rewrite the partition.",
                )
            there[bucket] = file_id
        gone = [file_id for path, file_id in self.replaced if path == partition]
        used = [*gone, *there.values()] if self.replaces else gone
        after: dict[int, int] = {}
        for made in filter(None, map(_MADE.fullmatch, used)):
            after[int(made[1])] = max(after.get(int(made[1]), 0), int(made[2]) + 1)
        named = {bucket: file_id_of(bucket, generation) for bucket, generation in after.items()}
        return named if self.replaces else {**named, **there}


def file_id_of(bucket: int, generation: int = 0) -> str:
    """Return the file id of a bucket's new file group: the first id, or a later one if earlier file groups were replaced."""
    return f"{bucket:0{_DIGITS}d}-0000-0000-0000-{generation:012d}-0"


@dataclass(frozen=True, slots=True)
class _Tag:
    """Task function: adds `TAGS`. Makes texts only once for each file group."""

    hashing: Hashing
    known: Mapping[str, Mapping[int, str]]
    schema: pa.Schema

    def __call__(self, task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        buckets = self.hashing.buckets
        for batch in batches:
            own = batch.column(PARTITION_PATH)
            paths = own.dictionary_encode()
            pairs = paths.indices.to_numpy().astype(np.int64) * buckets + self.hashing.of(batch.column(RECORD_KEY))
            different, inverse = np.unique(pairs, return_inverse=True)
            names = paths.dictionary.to_pylist()
            file_ids = [
                self.known.get(names[pair // buckets], {}).get(pair % buckets) or file_id_of(pair % buckets)
                for pair in different.tolist()
            ]
            tagged = pa.array(file_ids, pa.string()).take(pa.array(inverse))
            columns = [*batch.columns, own, tagged, pa.nulls(len(batch), pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
