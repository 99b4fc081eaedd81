"""The base files of a state, in manifests ordered by spec, partition and file id: the leaves of a tree whose root is the manifest list.

The list has the first key of each leaf (``pyhudi.leaves`` of its header, which other readers ignore). So the leaf of a file group is found without
reading a manifest. A commit reads and writes only the leaves of its own file groups, for any number of files in the table.

A separate manifest of the removing snapshot names the removed files once. `removed_in` reads this manifest when files will be deleted.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.formats.avro.container import DECODE_ERRORS
from pyhudi_core.iceberg import manifests, table_metadata
from pyhudi_core.iceberg.bounds import encoded
from pyhudi_core.iceberg.manifests import ADDED, DELETED, EXISTING, Entry
from pyhudi_core.iceberg.partition_spec import PartitionSpec, SpecField

MOST = 400
"""The maximum number of files in a leaf. A smaller number makes a commit cheaper, and the list of manifests longer."""
LEAVES = "pyhudi.leaves"
Key = tuple[int, str, str]
"""Spec, partition, file id."""
Read = Callable[[str], bytes]
"""Reads an object of the metadata by its path in manifests."""


@dataclass(slots=True)
class ManifestLeaf:
    """One manifest: its first key, its entry in the list, and its files if they were read."""

    first: Key
    line: Entry
    files: dict[Key, Entry] | None = None


@dataclass(frozen=True, slots=True)
class Writing:
    """The inputs of new manifests.

    Attributes:
        put: writes an object under a new name, and returns its path for manifests.
        snapshot_id, sequence: id and sequence number of the snapshot.
        spec: the partition fields.
        header: the entries of a manifest about schema and spec, by spec.
    """

    put: Callable[[Callable[[bytes], bytes]], tuple[str, int]]
    snapshot_id: int
    sequence: int
    spec: PartitionSpec
    header: Callable[[int], Mapping[str, str]]

    def fields(self, spec_id: int) -> tuple[SpecField, ...]:
        """Return the partition fields of a spec."""
        return self.spec.fields if spec_id else ()


@dataclass(slots=True)
class Tree:
    """The leaves, in the order of their keys. ``root``: the table's location, which is removed from paths to make keys."""

    root: str
    read: Read
    leaves: list[ManifestLeaf] = field(default_factory=list)

    @classmethod
    def open(cls, root: str, read: Read, path: str) -> Tree:
        """Read a manifest list. Raises `CorruptAvroError`."""
        lines, header = manifests.decode(read(path), path)
        live = [line for line in lines if line["added_files_count"] + line["existing_files_count"]]
        firsts = _firsts(header)
        if firsts is None or len(firsts) != len(live):
            raise CorruptAvroError(
                "A manifest list of the table's Iceberg metadata was not written by this project",
                path=path,
                hint=table_metadata.AGAIN,
            )
        return cls(root, read, [ManifestLeaf(first, line) for first, line in zip(firsts, live, strict=True)])

    def find(self, keys: Iterable[Key]) -> dict[Key, Entry]:
        """Return the existing files of these keys."""
        found: dict[Key, Entry] = {}
        for leaf, inside in self._by_leaf(keys):
            files = self._files(leaf)
            found |= {key: files[key] for key in inside if key in files}
        return found

    def every_file(self) -> list[Entry]:
        """Return all files. Reads every manifest."""
        return [entry for leaf in self.leaves for entry in self._files(leaf).values()]

    def change(self, removed: Mapping[Key, Entry], added: Mapping[Key, Entry], writing: Writing) -> list[Entry]:
        """Remove and add files, and return the entries of the new list. Only leaves with one of the keys are read and written."""
        touched: set[int] = set()
        for leaf, inside in self._by_leaf({**removed, **added}):
            files = self._files(leaf)
            for key in inside:
                files.pop(key, None)
            files |= {key: added[key] for key in inside if key in added}
            touched.add(id(leaf))
        self.leaves = self._written(touched, writing)
        gone = [
            _line(
                writing,
                spec_id,
                [{**entry, "status": DELETED, "snapshot_id": writing.snapshot_id} for _, entry in some],
            )
            for spec_id, some in groupby(sorted(removed.items(), key=lambda one: one[0]), lambda one: one[0][0])
        ]
        return [*(leaf.line for leaf in self.leaves), *gone]

    def firsts(self) -> str:
        """Return the header of the list with the first key of each leaf."""
        return json.dumps([leaf.first for leaf in self.leaves], separators=(",", ":"))

    def _by_leaf(self, keys: Iterable[Key]) -> list[tuple[ManifestLeaf, list[Key]]]:
        if not self.leaves:
            self.leaves = [ManifestLeaf((0, "", ""), {}, {})]
        begins = [leaf.first for leaf in self.leaves]
        placed = sorted((max(bisect_right(begins, key) - 1, 0), key) for key in keys)
        return [(self.leaves[place], [key for _, key in some]) for place, some in groupby(placed, itemgetter(0))]

    def _files(self, leaf: ManifestLeaf) -> dict[Key, Entry]:
        if leaf.files is None:
            path = leaf.line["manifest_path"]
            entries, _ = manifests.decode(self.read(path), path)
            spec_id = leaf.line["partition_spec_id"]
            leaf.files = {self.key(spec_id, entry): {**entry, "status": EXISTING} for entry in entries}
        return leaf.files

    def key(self, spec_id: int, entry: Entry) -> Key:
        """Return the key of a file."""
        folder, _, name = entry["data_file"]["file_path"][len(self.root) + 1 :].rpartition("/")
        return spec_id, folder, name.partition("_")[0]

    def _written(self, touched: set[int], writing: Writing) -> list[ManifestLeaf]:
        """Return the leaves. Changed leaves are written again, neighbours together, so that small leaves grow and large leaves are split."""
        found: list[ManifestLeaf] = []
        for is_touched, run in groupby(self.leaves, lambda leaf: id(leaf) in touched):
            if not is_touched:
                found += (leaf for leaf in run if leaf.line)  # not the placeholder leaf of an empty tree
                continue
            files = sorted((one for leaf in run for one in (leaf.files or {}).items()), key=itemgetter(0))
            for spec_id, some in groupby(files, lambda one: one[0][0]):
                chosen = list(some)
                parts = -(-len(chosen) // MOST)
                bounds = [place * len(chosen) // parts for place in range(parts + 1)]
                for start, end in pairwise(bounds):
                    part = chosen[start:end]
                    line = _line(writing, spec_id, [entry for _, entry in part])
                    found.append(
                        ManifestLeaf(part[0][0], line, {key: {**entry, "status": EXISTING} for key, entry in part})
                    )
        return found


def _firsts(header: Mapping[str, str]) -> list[Key] | None:
    """Return the first keys of the leaves; None if the header has no readable ones."""
    try:
        return [(int(spec), str(part), str(file_id)) for spec, part, file_id in json.loads(header.get(LEAVES, "[]"))]
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def removed_in(read: Read, path: str, snapshot_id: int) -> list[str]:
    """Return the files that a snapshot removes, as its manifests name them; ``path``: its manifest list."""
    lines, _ = manifests.decode(read(path), path)
    own = [line for line in lines if line["added_snapshot_id"] == snapshot_id and line["deleted_files_count"]]
    return [
        entry["data_file"]["file_path"]
        for line in own
        for entry in manifests.decode(read(line["manifest_path"]), line["manifest_path"])[0]
        if entry["status"] == DELETED
    ]


def _line(writing: Writing, spec_id: int, entries: Sequence[Entry]) -> Entry:
    """Write a manifest, and return its entry for the list."""
    fields = writing.fields(spec_id)
    path, size = writing.put(lambda sync: manifests.encode(entries, fields, writing.header(spec_id), sync))
    line: Entry = {
        "manifest_path": path,
        "manifest_length": size,
        "partition_spec_id": spec_id,
        "content": 0,
        "sequence_number": writing.sequence,
        "min_sequence_number": min(entry["sequence_number"] for entry in entries),
        "added_snapshot_id": writing.snapshot_id,
    }
    for status, name in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted")):
        chosen = [entry["data_file"]["record_count"] for entry in entries if entry["status"] == status]
        line |= {f"{name}_files_count": len(chosen), f"{name}_rows_count": sum(chosen)}
    return {**line, "partitions": [_summary(one, entries) for one in fields]}


def _summary(one: SpecField, entries: Sequence[Entry]) -> dict[str, Any]:
    values = [entry["data_file"]["partition"].get(one.name) for entry in entries]
    known = [value for value in values if value is not None]
    try:
        low, high = (encoded(bound(known), one.kind) if known else None for bound in (min, max))
    except DECODE_ERRORS as error:
        raise manifests.unreadable("", f"a value of the partition field {one.name!r} does not fit: {error}") from error
    return {"contains_null": len(known) < len(values), "contains_nan": None, "lower_bound": low, "upper_bound": high}
