"""The metadata of consistent hashing: the range of hashes of each file group in a partition, in Hudi's format.

It is a JSON file below ``.hoodie/.bucket_index/consistent_hashing_metadata/<partition>``, named by an instant. The content of the first file
(``00000000000000.hashing_meta``) follows from the partition and the number of its buckets. So two concurrent writers make the same file, and the file
is created only if it is absent. A clustering that splits or merges buckets writes a new file, named by its own instant. The new file is valid if the
clustering has completed, by the timeline or by an empty file ``<instant>.commit`` in the same folder. It is not valid if a restore has undone the
clustering. The value of a node is the last hash of its range. The file group of a node is the prefix of the node with ``-0``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import CorruptionError, PreconditionFailedError
from pyhudi_core.model.file_names import join
from pyhudi_core.storage.base import Storage

FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"
PARTITION_NUMBERS = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
"""The folder in which Hudi 1.1 and newer store numbers of simple buckets by partition (``hoodie.bucket.index.partition.expressions``)."""
FIRST = "00000000000000"
"""The instant in the name of a partition's first metadata."""
LARGEST = 0x7FFFFFFF
"""The largest hash."""
META = ".hashing_meta"
_COMMIT = ".commit"
_NAME = re.compile(r"([0-9]+)(\.hashing_meta|\.commit)")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HINT = "Restore the file, or write the partition again with Hudi. Without it nobody knows which file group has a key."


@dataclass(frozen=True, slots=True)
class HashingMetadata:
    """The metadata of one partition.

    Attributes:
        nodes: (last hash of the range, prefix of the file id), by hash.
        sequence: the number of clusterings that have changed the ranges.
        first_buckets: the number of ranges at the beginning; 0 if it is the number of nodes.
    """

    partition: str
    instant: str
    nodes: tuple[tuple[int, str], ...]
    sequence: int = 0
    first_buckets: int = 0

    @classmethod
    def first(cls, partition: str, buckets: int) -> HashingMetadata:
        """Return the first metadata of a partition: ranges of about equal size."""
        step = (LARGEST + buckets - 1) // buckets
        ends = [min(step * number, LARGEST) for number in range(1, buckets + 1)]
        begins = [0, *ends[:-1]]
        prefixes = (_prefix(partition, begin, end) for begin, end in zip(begins, ends, strict=True))
        return cls(partition, FIRST, tuple(zip(ends, prefixes, strict=True)))

    @classmethod
    def decode(cls, data: bytes, path: str) -> HashingMetadata:
        """Parse a file. Raises `CorruptionError`."""
        try:
            body: dict[str, Any] = json.loads(data)
            nodes = {_hash(node["value"]): _uuid(node["fileIdPrefix"]) for node in body["nodes"]}
            partition, instant = _text(body["partitionPath"]), _text(body["instant"])
            sequence, buckets = _count(body.get("seqNo", 0)), _count(body.get("numBuckets", 0))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptionError(
                f"The metadata of consistent hashing cannot be read: {error}", path=path, hint=_HINT
            ) from None
        if not nodes or len(set(nodes.values())) < len(nodes):
            raise CorruptionError(
                "The metadata of consistent hashing has no bucket, or one file group twice", path=path, hint=_HINT
            )
        first = 0 if buckets == len(nodes) else buckets
        return cls(partition, instant, tuple(sorted(nodes.items())), sequence, first)

    def encode(self) -> bytes:
        """Return the file's bytes, as Hudi writes them."""
        nodes = [{"value": value, "fileIdPrefix": prefix, "tag": "NORMAL"} for value, prefix in self.nodes]
        body = {
            "version": 0,
            "partitionPath": self.partition,
            "instant": self.instant,
            "numBuckets": self.first_buckets or len(self.nodes),
            "seqNo": self.sequence,
            "nodes": nodes,
        }
        return json.dumps(body, indent=2).encode()

    def changed(self, children: Iterable[ChildNode], instant: str) -> HashingMetadata:
        """Return the metadata after a clustering. Raises `ValueError` if a removed range does not exist, or no range is left."""
        nodes = dict(self.nodes)
        for child in children:
            if child.prefix is not None:
                nodes[child.end] = child.prefix
            elif nodes.pop(child.end, None) is None:
                raise ValueError(f"no range ends at {child.end}")
        if not nodes or len(set(nodes.values())) < len(nodes):
            raise ValueError("no range is left, or a file group has two")
        buckets = self.first_buckets or len(self.nodes)
        return HashingMetadata(self.partition, instant, tuple(sorted(nodes.items())), self.sequence + 1, buckets)

    @property
    def file_ids(self) -> tuple[str, ...]:
        """The file groups, in the order of their ranges."""
        return tuple(f"{prefix}-0" for _, prefix in self.nodes)


@dataclass(frozen=True, slots=True)
class ChildNode:
    """The change of one range by a clustering. The range gets a new file group; or it is removed (``prefix`` is None), and its hashes go to the next
    range.

    ``end`` is the last hash of the range. A new range takes its hashes from the present range of these hashes.
    """

    end: int
    prefix: str | None

    @property
    def file_id(self) -> str | None:
        """The new file group."""
        return None if self.prefix is None else f"{self.prefix}-0"


def encode_children(children: Iterable[ChildNode]) -> str:
    """Return the changes in the form of Hudi's clustering plans."""
    tags = ((child, "DELETE" if child.prefix is None else "REPLACE") for child in children)
    return json.dumps([{"value": child.end, "fileIdPrefix": child.prefix, "tag": tag} for child, tag in tags], indent=2)


def decode_children(text: str) -> tuple[ChildNode, ...]:
    """Return the changes of a plan. Raises `ValueError`."""
    try:
        found = json.loads(text)
        if not isinstance(found, list):
            raise TypeError("they are no list")
        return tuple(map(_child, found))
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"its changes of hash ranges cannot be read: {error}") from None


def _child(node: dict[str, Any]) -> ChildNode:
    tag = node["tag"]
    if tag not in ("DELETE", "REPLACE"):
        raise ValueError(f"{tag!r} is no change of a hash range")
    return ChildNode(_hash(node["value"]), _uuid(node["fileIdPrefix"]) if tag == "REPLACE" else None)


def is_consistent(storage: Storage) -> bool:
    """Return whether the table has metadata of consistent hashing."""
    found = storage.list_folder(FOLDER)
    return bool(found.objects or found.folders)


def has_partition_numbers(storage: Storage) -> bool:
    """Return whether partitions of the table have separate numbers of simple buckets."""
    return bool(storage.list_folder(PARTITION_NUMBERS).objects)


def load(
    storage: Storage, partition: str, has_completed: Callable[[str], bool], undone: Collection[str] = frozenset()
) -> HashingMetadata | None:
    """Return the valid metadata of a partition; None if there is none.

    Args:
        has_completed: returns whether the instant of a clustering has completed.
        undone: requested times that a restore has undone; the restore does not delete their files here.

    Raises `CorruptionError` if a file cannot be read.
    """
    kinds = _times(storage, partition)
    marked = kinds[_COMMIT].difference(undone)
    found = [time for time in kinds[META] if time == FIRST or time in marked or has_completed(time)]
    if not found:
        return None
    path = path_of(partition, max(found))
    return HashingMetadata.decode(storage.get(path), path)


def times_of(storage: Storage, partition: str) -> frozenset[str]:
    """Return the instants of all metadata files of a partition, valid or not."""
    return frozenset(_times(storage, partition)[META])


def path_of(partition: str, time: str) -> str:
    """Return the metadata file of an instant."""
    return join(_folder(partition), time + META)


def forget(storage: Storage, partition: str, time: str) -> None:
    """Remove the metadata file of an undone clustering, and its mark. Otherwise Hudi's writers may use the file."""
    storage.delete_many([path_of(partition, time), join(_folder(partition), time + _COMMIT)])


def _times(storage: Storage, partition: str) -> dict[str, set[str]]:
    """Return the instants of metadata files, and of their commit marks."""
    names = (_NAME.fullmatch(info.path.rpartition("/")[2]) for info in storage.list_folder(_folder(partition)).objects)
    kinds: dict[str, set[str]] = {META: set(), _COMMIT: set()}
    for name in filter(None, names):
        kinds[name[2]].add(name[1])
    return kinds


def make(storage: Storage, partition: str, buckets: int) -> HashingMetadata:
    """Write the first metadata of a partition, or read the metadata of a concurrent writer."""
    made = HashingMetadata.first(partition, buckets)
    path = path_of(partition, FIRST)
    try:
        storage.put_if_absent(path, made.encode())
    except PreconditionFailedError:
        return HashingMetadata.decode(storage.get(path), path)
    return made


def _folder(partition: str) -> str:
    return join(FOLDER, partition) if partition else FOLDER


def _prefix(partition: str, begin: int, end: int) -> str:
    """Return Java's ``UUID.nameUUIDFromBytes`` of the range and the partition."""
    digest = bytearray(
        hashlib.md5(begin.to_bytes(8) + end.to_bytes(8) + partition.encode(), usedforsecurity=False).digest()
    )
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    digits = digest.hex()
    return "-".join(digits[begin:end] for begin, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))


def _hash(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise ValueError(f"{value!r} is no hash")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _uuid(value: object) -> str:
    """Becomes a part of file names."""
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise ValueError(f"{value!r} is no file id")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
