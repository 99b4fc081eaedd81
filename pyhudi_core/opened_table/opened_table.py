"""An opened table has the parts that stay the same between calls (storage, runtime, options). Each call makes its `TableContext` from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from pyhudi_core.errors import ConfigError, CorruptionError, StorageError, TableError, at_table
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.kind import LockRequest
from pyhudi_core.lock.kinds import ask_server, open_instants, open_lock
from pyhudi_core.model.properties import DROPPING, TableConfig
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opened_table.table_context import METADATA_TABLE, CommitProtocol, Folders, PreCommit, TableContext
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.base import Clock, Runtime
from pyhudi_core.storage.at_once import Ahead, both, each
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import TimelineFolder

T = TypeVar("T")


_Files = tuple[bytes | None, bytes | None]
"""The properties files of a table and of its metadata table; None for a file that was not read."""
NEW_FILES = "the properties files of a new table"
"""The key of `CommitProtocol.remembered` under which a handle stores `_Files`, from the creation of the metadata table until the first call."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The context of the last call of this handle, and the properties files from which the handle made this context."""

    files: _Files = field(repr=False)
    context: TableContext


@dataclass(slots=True)
class OpenedTable:
    """A table's storage, runtime and options. `context` reads the properties again; every call of the table uses it."""

    storage: Storage
    runtime: Runtime
    options: Mapping[str, object] = field(repr=False)
    lock: LockProvider | None = None
    protections: Protections = Protections()
    pre_commit: PreCommit | None = None
    beside: Callable[[str], Storage] | None = None
    drop: Callable[[OpenedTable], Any] | None = field(default=None, repr=False)
    """Returns the object that drops the table; only for a table that was opened by its name in a catalog."""
    _folders: dict[str, TimelineFolder] = field(default_factory=dict)
    _metadata_folders: dict[str, TimelineFolder] = field(default_factory=dict)
    _instants: dict[str, Clock | None] = field(default_factory=dict)
    _remembered: dict[str, Any] = field(default_factory=dict)
    _lists_metadata: bool = True
    _known: _Known | None = None
    _held: TableContext | None = None

    @contextmanager
    def verb(self) -> Iterator[TableContext]:
        """Yield the `context` for one call of the table. Errors from the block name the table."""
        with at_table(self.storage.location):
            yield self.context()

    def refuse_unusable_lock(self, config: TableConfig) -> None:
        """Raise `ConfigError`, as `context` does, if the lock or the source of instants cannot be made for a table that does not exist yet.

        Raises `LockError` if they are on a server that does not answer.
        """
        options, _, runtime = self._lock_and_runtime(config)
        if self.lock is None:
            ask_server(self._request(config, options))
        if options.clock.generator != "system":
            runtime.instant_ms()

    def context(self) -> TableContext:
        """Return the table with its current configuration. Raises `TableError` or `ConfigError` if it cannot be used."""
        if self._held is not None:
            return self._held
        with at_table(self.storage.location):
            return self._of(self._files())

    def at_one_moment(self) -> OpenedTable:
        """Return another handle, whose calls see one state of the table: the properties are read once, and each timeline is listed once.

        Only for reads: a write must see what other writers did. Both handles share their caches. Raises as `context`.
        """
        if self._held is not None:
            return self
        folders, metadata_folders = (
            {path: replace(folder) for path, folder in known.items()}
            for known in (self._folders, self._metadata_folders)
        )
        seen = replace(self, _folders=folders, _metadata_folders=metadata_folders)
        context = seen.context()
        for each_table in (context, *context.companions):
            each_table.folder.hold()
        seen._held = context
        return seen

    def to_drop(self) -> tuple[TableContext, bool]:
        """Return the table, and whether it is half dropped; for a half dropped table, every other call raises `TableHalfDroppedError`. Raises as
        `context`.
        """
        with at_table(self.storage.location):
            properties = properties_file.read(self.storage)
            half = bool(properties.pop(DROPPING, ""))
            return self._with(properties), half

    def created(self, properties: bytes) -> TableContext:
        """Return the table that was created just now with this properties file. Raises as `context`."""
        with at_table(self.storage.location):
            context = self._of((properties, None))
            self._known, self._lists_metadata = None, True  # the table gets a metadata table after this
            return context

    def remember_new_files(self) -> None:
        """Remember the properties files that the creation of the metadata table has stored for this handle, so that the first call can use them.

        They may be outdated, because `context_and_look` reads the files again and compares.
        """
        files = self._remembered.pop(NEW_FILES, None)
        if files is not None:
            Ahead.of(partial(self._of, files))

    def context_and_look(self, look: Callable[[TableContext], T]) -> tuple[TableContext, T]:
        """Return the table with its current configuration, and the result of ``look`` for it.

        On a network storage, the read of the properties and ``look`` run concurrently, if this handle has already read the properties. ``look`` then
        gets the last known context. Its result counts only if the bytes of the properties files are unchanged; otherwise ``look`` is called again.
        """
        known = self._known
        if known is None or self.storage.capabilities.parallel_calls <= 1:
            context = self.context()
            return context, look(context)
        with at_table(self.storage.location):
            attempt = partial(Ahead.of, partial(look, known.context))
            now, found = both(self.storage, self.runtime.executor, self._files, attempt)
            context = self._of(now)
            return context, look(context) if found.error or now != known.files else found.get()

    def _files(self) -> _Files:
        """Read the properties files of the table and of its metadata table concurrently, on a network storage; on other storages read nothing.

        The second file is omitted if the table had no metadata table at the last call. The step that needs a file repeats a failed read.
        """
        storage = self.storage
        if storage.capabilities.parallel_calls <= 1:
            return None, None
        below = f"{METADATA_TABLE}/{properties_file.PATH}"
        wanted = (properties_file.PATH, below) if self._lists_metadata else (properties_file.PATH,)
        found = each(storage, self.runtime.executor, partial(_read, storage), wanted)
        return found[0], found[1] if len(found) > 1 else None

    def _of(self, files: _Files) -> TableContext:
        context = self._with(properties_file.read(self.storage, files[0]), files[1])
        self._lists_metadata = bool(context.config.metadata_partitions)
        self._known = _Known(files, context) if files[0] is not None else None
        return context

    def _with(self, properties: Mapping[str, str], of_metadata: bytes | None = None) -> TableContext:
        config = TableConfig.from_properties(properties, table=self.storage.location)
        options, lock, runtime = self._lock_and_runtime(config)
        protocol = CommitProtocol(
            self.storage, runtime, lock, options, self.protections, self.pre_commit, self._remembered, self.beside
        )
        context = TableContext.of(self.storage, config, protocol, folders=self._folders, clock=self.runtime.clock)
        return _with_metadata_table(context, self._metadata_folders, of_metadata)

    def _lock_and_runtime(self, config: TableConfig) -> tuple[WriteOptions, LockProvider, Runtime]:
        """Return the options, and the lock and the runtime (with its source of instants) that they choose. No request is sent."""
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


def reopened(context: TableContext, *, any_version: bool = False) -> TableContext:
    """Return the same data table with its properties read again, and its metadata table if the properties list one now.

    Raises as `OpenedTable.context`, and `TableVersionError` if another writer has upgraded the table, except with ``any_version``.
    """
    config = TableConfig.from_properties(properties_file.read(context.root), table=context.root.location)
    folders = {context.folder.path: context.folder}
    now = TableContext.of(context.root, config, context.protocol, folders=folders)
    now.config.refuse_writing(context.table, None if any_version else context.config)
    return _with_metadata_table(now, {known.folder.path: known.folder for known in context.companions})


def opened_beside(context: TableContext, location: str) -> TableContext:
    """Return another table with its current configuration, to read it or to publish a decision in it. Its lock is the lock of ``context``. Raises as
    `reopened`.
    """
    protocol = replace(context.protocol, storage=context.protocol.open_beside(location), remembered={})
    config = TableConfig.from_properties(properties_file.read(protocol.storage), table=location)
    return _with_metadata_table(TableContext.of(protocol.storage, config, protocol), {})


def _read(storage: Storage, path: str) -> bytes | None:
    """Return a file; None if the read failed. The step that needs the file then reads it itself."""
    try:
        return storage.get(path)
    except StorageError:
        return None


def _with_metadata_table(context: TableContext, folders: Folders, properties: bytes | None = None) -> TableContext:
    """Return the table with its metadata table as a companion, if the table lists an existing one.

    ``properties``: the properties file of the metadata table, if the caller has just read it.
    """
    if not context.config.metadata_partitions or not context.config.reads_metadata_table:
        return context
    try:
        return replace(context, companions=(context.below(METADATA_TABLE, folders, properties),))
    except (TableError, CorruptionError, ConfigError):
        return context  # reads continue without the metadata table, and writes are refused
