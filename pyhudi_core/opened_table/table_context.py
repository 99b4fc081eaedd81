"""A table as one call reads it: storage, configuration and timeline, and the protocol by which the table is changed.

Every step of a write, a read or a service gets the context. A data table is at the root of its storage. Its metadata table is a second table below
``.hoodie/metadata``, with its own properties, timeline and file groups, and with the same protocol.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from pyhudi_core.lock.base import LockProvider
from pyhudi_core.model.commit import WRITER_KEY
from pyhudi_core.model.instant import format_time
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.base import Clock, Runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.storage.sources import open_beside
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline, TimelineFolder

METADATA_TABLE = ".hoodie/metadata"
"""The folder of the metadata table, which is a table of its own."""
Folders = MutableMapping[str, TimelineFolder]
"""Timeline folders that were opened before, with their caches, by path."""


class PreCommit(Protocol):
    """Pre-commit validators, which check the rows of a commit. They read tables, so they are made in a higher layer (``validators/``)."""

    def refuse_unfit(self, schema: pa.Schema) -> None:
        """Raise `HudiError` if a validator cannot check rows of this schema. Called before anything is written."""
        ...

    def run(self, attempt: Any, timeline: Timeline) -> bool:
        """Run all validators on an attempt (``write.attempt.Attempt``) on top of this timeline, without the lock. Raises `PreCommitError`.

        Returns whether one of the validators has read the table; in this case another commit can change its answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class CommitProtocol:
    """The settings by which tables are changed. A data table and its metadata table share one protocol.

    Attributes:
        storage: the storage of the commit record, staged bytes, heartbeats (which reserve requested times) and claims: the data table's folder.
        runtime: clock, ids, executor, timer and process.
        lock: the lock of all writers.
        options: the writer's options.
        protections: all on, except in tests.
        pre_commit: validators of every commit of this handle, also of commits by table services.
        remembered: a handle's memory between decisions (``transaction/decision.py``).
        beside: opens the storage of another table; None: open it by its location, if `open_beside` (``storage/sources.py``) allows it.
    """

    storage: Storage
    runtime: Runtime
    lock: LockProvider
    options: WriteOptions
    protections: Protections = Protections()
    pre_commit: PreCommit | None = None
    remembered: MutableMapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    beside: Callable[[str], Storage] | None = None

    def open_beside(self, location: str) -> Storage:
        """Return the storage of another table, which takes part in a decision with this one. Raises `UnsafePathError`."""
        return open_beside(self.storage, location) if self.beside is None else self.beside(location)


@dataclass(frozen=True, slots=True)
class TableContext:
    """One table, as it was configured when the call began.

    Attributes:
        storage: the table's folder: data files, markers, timeline and properties.
        config: its properties.
        folder: its timeline.
        protocol: the settings of the commit protocol.
        prefix: its folder below the storage of the protocol; empty for a data table.
        companions: the other tables under the same protocol: a metadata table, or its data table.
    """

    storage: Storage
    config: TableConfig
    folder: TimelineFolder
    protocol: CommitProtocol
    prefix: str = ""
    companions: tuple[TableContext, ...] = ()

    @classmethod
    def of(
        cls,
        storage: Storage,
        config: TableConfig,
        protocol: CommitProtocol,
        prefix: str = "",
        folders: Folders | None = None,
        clock: Clock | None = None,
    ) -> TableContext:
        """Return the table of these properties. If ``folders`` has an opened timeline folder of the table, it is used. ``clock``: None: the
        protocol's clock.
        """
        config = config.merged_by(protocol.options.older_merge_law)
        path = config.timeline_folder
        folder = folders.get(path) if folders is not None else None
        if folder is None:
            waits = clock or protocol.runtime.clock
            folder = TimelineFolder.of(storage, config, waits, protocol.runtime.executor)
            if folders is not None:
                folders[path] = folder
        return cls(storage, config, folder, protocol, prefix)

    @property
    def root(self) -> Storage:
        """The protocol's storage: commit record, staged bytes, heartbeats and claims."""
        return self.protocol.storage

    @property
    def runtime(self) -> Runtime:
        """The protocol's clock, ids, executor, timer and process."""
        return self.protocol.runtime

    @property
    def lock(self) -> LockProvider:
        """The protocol's lock."""
        return self.protocol.lock

    @property
    def options(self) -> WriteOptions:
        """The writer's options."""
        return self.protocol.options

    @property
    def protections(self) -> Protections:
        """The protocol's protections."""
        return self.protocol.protections

    @property
    def table(self) -> str:
        """The location, for messages."""
        return self.storage.location

    @property
    def utc(self) -> bool:
        """Whether the timeline's times are in UTC."""
        return self.config.timeline_timezone == "UTC"

    def now(self) -> str:
        """Return the clock's time as an instant time."""
        return format_time(self.runtime.instant_ms(), utc=self.utc)

    def writer(self) -> dict[str, str]:
        """Return the entries about the writer for the extra metadata; empty if the option ``pyhudi.commit.writer`` is off."""
        known = self.runtime.writer() if self.options.names_writer else {}
        return {WRITER_KEY + name: text for name, text in known.items()}

    def from_root(self, path: str) -> str:
        """Return a path of the table in the form of the commit record: from the root of the protocol's storage."""
        return f"{self.prefix}/{path}" if self.prefix else path

    def has(self, path: str) -> bool:
        """Say whether a path from the root is a file of this table's timeline."""
        return path.rpartition("/")[0] == self.from_root(self.folder.path)

    def below(self, prefix: str, folders: Folders | None = None, properties: bytes | None = None) -> TableContext:
        """Return the table in a folder below the root, under the same protocol. Raises `TableError` or `ConfigError` if it cannot be used.

        ``properties``: its properties file, if it was just read.

        The properties of a metadata table do not have the zone of its times, which is the zone of the data table.
        """
        storage = StorageBelow(self.root, prefix) if prefix else self.root
        config = TableConfig.from_properties(properties_file.read(storage, properties), table=storage.location)
        config = replace(config, timeline_timezone=self.config.timeline_timezone)
        return TableContext.of(storage, config, self.protocol, prefix, folders)

    def at(self, companion: TableContext) -> TableContext:
        """Return one of the companions; this table is a companion of it."""
        others = tuple(known for known in self.companions if known is not companion)
        return replace(companion, protocol=self.protocol, companions=(replace(self, companions=()), *others))

    def with_lock(self, lock: LockProvider) -> TableContext:
        """Return the same table with another lock."""
        return replace(self, protocol=replace(self.protocol, lock=lock))

    def with_options(self, options: WriteOptions) -> TableContext:
        """Return the same table with other options."""
        return replace(self, protocol=replace(self.protocol, options=options))

    def on(self, storage: Storage, folder: TimelineFolder) -> TableContext:
        """Return the same data table, seen through another storage (for example a read-only storage, or one that counts calls)."""
        return replace(self, storage=storage, folder=folder, protocol=replace(self.protocol, storage=storage))
