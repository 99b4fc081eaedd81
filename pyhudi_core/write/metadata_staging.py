"""The staged files of a first build of metadata table partitions (`write.metadata_build`): where their bytes are, and what publishes them."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.new_metadata_table import FirstBuild
from pyhudi_core.transaction import layout
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind


@dataclass(frozen=True, slots=True)
class Moved:
    """A file of the metadata table (path below it), and where its bytes are staged."""

    path: str
    staged: str

    @property
    def publication(self) -> Publication:
        """Makes the file if it is not there, and only while this decision is the latest one."""
        return Publication(f"{names.FOLDER}/{self.path}", self.staged, PublicationKind.REPLACE, digest(None))


@dataclass(frozen=True, slots=True)
class StagedBuild:
    """One partition, staged: its files, and where the bytes of its completed deltacommit are."""

    first: FirstBuild
    files: tuple[Moved, ...]
    completed: str

    def publications(self, completion_time: str) -> list[Publication]:
        """All files, the completed deltacommit last."""
        completed = Moved(self.first.completed_path(completion_time), self.completed)
        return [moved.publication for moved in (*self.files, completed)]


@dataclass(slots=True)
class Staging:
    """Puts bytes where a later decision finds them. Their paths begin as those of a commit's bytes do, so that the same sweeps find them."""

    transaction: Transaction
    count: int = 0

    @property
    def prefix(self) -> str:
        return f"{layout.staged(self.transaction.requested_time, self.transaction.nonce)}.build"

    def kept(self, data: bytes) -> str:
        """Stage bytes; returns their path."""
        self.count += 1
        path = f"{self.prefix}.{self.count}"
        self.transaction.context.root.put(path, data)
        return path

    def put(self, path: str, data: bytes) -> Moved:
        """Stage a file of the metadata table."""
        return Moved(path, self.kept(data))
