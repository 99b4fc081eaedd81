"""An opened table: what stays the same from call to call (storage, runtime, options), and from which each call makes its `TableContext`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyhudi_core.errors import ConfigError, CorruptionError, TableError, at_table
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.kind import LockRequest
from pyhudi_core.lock.opening import ask_server, open_instants, open_lock
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opened_table.table_context import METADATA_TABLE, CommitProtocol, Folders, PreCommit, TableContext
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.base import Clock, Runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import TimelineFolder


@dataclass(slots=True)
class OpenedTable:
    """A table's storage, runtime and options. `context` reads the properties again; every call of the table uses it."""

    storage: Storage
    runtime: Runtime
    options: Mapping[str, object] = field(repr=False)
    lock: LockProvider | None = None
    protections: Protections = Protections()
    pre_commit: PreCommit | None = None
    _folders: dict[str, TimelineFolder] = field(default_factory=dict)
    _metadata_folders: dict[str, TimelineFolder] = field(default_factory=dict)
    _instants: dict[str, Clock | None] = field(default_factory=dict)

    @contextmanager
    def verb(self) -> Iterator[TableContext]:
        """`context` for one verb of the table; errors that come out of the block say which table it was."""
        with at_table(self.storage.location):
            yield self.context()

    def refuse_unusable_lock(self, config: TableConfig) -> None:
        """Raise `ConfigError`, as `context` does, if the lock or the source of instants cannot be made for a table that is not there yet.

        Raises `LockError` if they are on a server that does not answer.
        """
        options, _, runtime = self._lock_and_runtime(config)
        if self.lock is None:
            ask_server(self._request(config, options))
        if options.clock.generator != "system":
            runtime.instant_ms()

    def context(self) -> TableContext:
        """Return the table as it is configured now. Raises `TableError` or `ConfigError` if it cannot be used."""
        with at_table(self.storage.location):
            config = TableConfig.from_properties(properties_file.read(self.storage), table=self.storage.location)
            options, lock, runtime = self._lock_and_runtime(config)
        protocol = CommitProtocol(self.storage, runtime, lock, options, self.protections, self.pre_commit)
        context = TableContext.of(self.storage, config, protocol, folders=self._folders, clock=self.runtime.clock)
        return _with_metadata_table(context, self._metadata_folders)

    def _lock_and_runtime(self, config: TableConfig) -> tuple[WriteOptions, LockProvider, Runtime]:
        """Return the options with what they choose: the lock, and the runtime with its source of instants. No request is sent."""
        options = WriteOptions.parse(self.options, config=config)
        request = self._request(config, options)
        return options, self.lock or open_lock(request), self._with_instants(request)

    def _request(self, config: TableConfig, options: WriteOptions) -> LockRequest:
        generator = options.clock.generator
        return LockRequest(self.storage, self.runtime, config.name, options.lock, generator)

    def _with_instants(self, request: LockRequest) -> Runtime:
        """Return the runtime with the source of instants that the options name, which is opened once."""
        generator = request.generator
        if generator == "system" or self.runtime.instants is not None:
            return self.runtime
        if generator not in self._instants:
            self._instants[generator] = open_instants(request)
        return replace(self.runtime, instants=self._instants[generator])


def reopened(context: TableContext) -> TableContext:
    """Return the same data table with its properties read again, and its metadata table if they list one now. Raises as `OpenedTable.context`, and
    `TableVersionError` if another writer has upgraded the table to a version that is only read.
    """
    config = TableConfig.from_properties(properties_file.read(context.root), table=context.root.location)
    folders = {context.folder.path: context.folder}
    now = TableContext.of(context.root, config, context.protocol, folders=folders)
    now.config.refuse_writing(context.table)
    return _with_metadata_table(now, {known.folder.path: known.folder for known in context.companions})


def _with_metadata_table(context: TableContext, folders: Folders) -> TableContext:
    """With its metadata table as a companion, if the table lists one that is there."""
    if not context.config.metadata_partitions or not context.config.reads_metadata_table:
        return context
    try:
        return replace(context, companions=(context.below(METADATA_TABLE, folders),))
    except (TableError, CorruptionError, ConfigError):
        return context  # reads go on without it, and writes are refused
