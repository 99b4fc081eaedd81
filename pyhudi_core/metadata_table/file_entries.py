"""Entries of indexes that tasks make from written files of the data table, one file group at a time.

An index of this kind computes entries from the change of one file group (`FileIndex.entries`), and records from entries (`FileIndex.records`).
`write.file_indexes` calls it for the files of a commit, or for a complete table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.metadata_table.records import KEY, Records
from pyhudi_core.storage.base import Storage


@dataclass(frozen=True, slots=True)
class GroupEntries:
    """The change of one file group.

    Attributes:
        partition: its partition path.
        new: the written files, relative to the table, without change logs.
        before: the previous newest slice; None if there was none.
        after: the newest slice after; None if the group is replaced.
    """

    partition: str
    new: tuple[str, ...] = ()
    before: FileSlice | None = None
    after: FileSlice | None = None


class FileIndex(Protocol):
    """An index of the metadata table whose entries are made from files. A value that can be sent to tasks."""

    @property
    def partition(self) -> str:
        """The partition of the metadata table that holds this index."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The schema of the index's entries. The column ``key`` has the key of the record."""
        ...

    @property
    def of_slices(self) -> bool:
        """Whether the entries describe the rows of slices, not single files. A service that keeps all rows changes no entry of such an index."""
        ...

    @property
    def hashed(self) -> Callable[[pa.Array], pa.Array] | None:
        """The part of a key that chooses its file group, as `ByFileGroup.hashed`."""
        ...

    def entries(self, storage: Storage, change: GroupEntries) -> Iterator[pa.RecordBatch]:
        """Return the entries of the index for the change of a file group. Raises `CorruptionError` and its subclasses."""
        ...

    def records(self, entries: pa.Table) -> Records:
        """Return the records of all entries of one file group of the index, sorted by key."""
        ...


KEY_FIELD = pa.field(KEY, pa.string())
"""The field that entries of all kinds have."""
