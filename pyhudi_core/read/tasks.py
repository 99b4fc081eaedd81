"""Tasks: picklable values that read a part of a scan or of changes in another process.

A task reads its parts one after the other, so it needs memory for one file slice at a time (a batch of base rows and the slice's logs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pyhudi_core.model.printing import printable
from pyhudi_core.storage.base import Storage, StorageSpec
from pyhudi_core.storage.opening import storage_from_spec


class Part(Protocol):
    """The part that a task reads in one step: a file slice, or the change of a file group."""

    @property
    def size(self) -> int:
        """The size of its files in bytes."""
        ...


class PartReader(Protocol):
    """Reads one part."""

    def read(self, storage: Storage, part: Any) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
@printable
class Task:
    """Some parts, with everything that another process needs to read them. ``most`` is the number of rows to read, None for all."""

    spec: StorageSpec
    reader: PartReader
    parts: tuple[Part, ...]
    most: int | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows of all parts, or the first ``most`` of them."""
        storage = storage_from_spec(self.spec)
        read = (batch for part in self.parts for batch in self.reader.read(storage, part))
        yield from first_rows(read, self.most)

    @property
    def size(self) -> int:
        """The size of the files in bytes."""
        return sum(part.size for part in self.parts)


def first_rows(batches: Iterable[pa.RecordBatch], most: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first ``most`` rows of the batches, or all if it is None. After the last row no batch is requested."""
    if most is None:
        yield from batches
        return
    rest = iter(batches)
    while most > 0 and (batch := next(rest, None)) is not None:
        yield batch.slice(0, min(most, batch.num_rows))
        most -= batch.num_rows


def tasks_for(storage: Storage, reader: PartReader, parts: Sequence[Part], most_bytes: int = 0) -> list[Task]:
    """Make a task for each part, or for consecutive parts of at most ``most_bytes`` bytes together. The order is preserved."""
    spec = storage.spec()
    return [Task(spec, reader, pack) for pack in _packed(parts, most_bytes)]


def _packed(parts: Sequence[Part], most_bytes: int) -> list[tuple[Part, ...]]:
    packs: list[list[Part]] = []
    room = 0
    for part in parts:
        size = part.size
        if not packs or size > room:
            packs.append([])
            room = most_bytes
        packs[-1].append(part)
        room -= size
    return [tuple(pack) for pack in packs]
