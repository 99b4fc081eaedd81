"""Where a table lives: what stays the same between the verbs of one handle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyhudi_core.errors import ConfigError, CorruptionError, TableError, at_table
from pyhudi_core.lock import AuditedLock, FileSystemLockProvider, InProcessLockProvider, StorageBasedLockProvider
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.options import LockOptions, WriteOptions
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.transaction.context import CommitProtocol, PreCommit, TableContext
from pyhudi_core.transaction.layout import METADATA_TABLE
from pyhudi_core.transaction.place import Folders, TablePlace
from pyhudi_core.transaction.protections import Protections


@dataclass(slots=True)
class TableHome:
    """A table's storage, runtime and options. `context` reads the properties again; every call of the table uses it."""

    storage: Storage
    runtime: Runtime
    options: Mapping[str, object]
    lock: LockProvider | None = None
    protections: Protections = Protections()
    pre_commit: PreCommit | None = None
    _folders: dict[str, TimelineFolder] = field(default_factory=dict)
    _metadata_folders: dict[str, TimelineFolder] = field(default_factory=dict)

    @contextmanager
    def verb(self) -> Iterator[TableContext]:
        """`context` for one verb of the table; errors that come out of the block say which table it was."""
        with at_table(self.storage.location):
            yield self.context()

    def context(self) -> TableContext:
        """The table as it is configured now. Raises `TableError` or `ConfigError` if it cannot be used."""
        with at_table(self.storage.location):
            place = TablePlace.open(self.storage, self.runtime.clock, folders=self._folders)
            options = WriteOptions.parse(self.options, config=place.config)
        lock = self.lock or lock_provider(self.storage, self.runtime, options.lock)
        protocol = CommitProtocol(self.storage, self.runtime, lock, options, self.protections, self.pre_commit)
        return TableContext(place, protocol, _companions(protocol, place, self._metadata_folders))


def reopened(context: TableContext) -> TableContext:
    """The same data table with its properties read again, and its metadata table if they list one now. Raises as `TableHome.context`."""
    folders = {context.folder.path: context.folder}
    place = TablePlace.open(context.root, context.runtime.clock, folders=folders)
    below = {known.folder.path: known.folder for known in context.companions}
    return replace(context, place=place, companions=_companions(context.protocol, place, below))


def _companions(protocol: CommitProtocol, place: TablePlace, folders: Folders) -> tuple[TablePlace, ...]:
    """The metadata table, if the table lists one that is there."""
    if not place.config.metadata_partitions:
        return ()
    try:
        return (TablePlace.open(protocol.storage, protocol.runtime.clock, METADATA_TABLE, folders),)
    except (TableError, CorruptionError, ConfigError):
        return ()  # reads go on without it, and writes are refused


def lock_provider(storage: Storage, runtime: Runtime, options: LockOptions) -> LockProvider:
    """The lock that the options name, or else the one that fits the storage."""
    lock = _provider(storage, runtime, options)
    return AuditedLock(lock, storage, runtime.clock) if options.audit else lock


def _provider(storage: Storage, runtime: Runtime, options: LockOptions) -> LockProvider:
    kind = options.provider or _default_kind(storage)
    if kind == "in_process":
        return InProcessLockProvider(storage.location, runtime.ids, runtime.process.identity())
    if kind == "storage_based":
        return StorageBasedLockProvider(storage, runtime, validity_s=options.validity_s, renew_s=options.renew_s)
    return FileSystemLockProvider(
        storage, runtime.clock, runtime.ids, folder=options.path, expire_minutes=options.expire_minutes
    )


def _default_kind(storage: Storage) -> str:
    can = storage.capabilities
    if can.one_process or not can.put_if_absent:
        return "in_process"
    return "storage_based" if can.put_if_match else "file_system"
