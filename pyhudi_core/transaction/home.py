"""Where a table lives: what stays the same between the verbs of one handle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi_core.lock import FileSystemLockProvider, InProcessLockProvider
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.protections import Protections


@dataclass(slots=True)
class TableHome:
    """A table's storage, runtime and options; `context` reads its properties anew, as every verb does."""

    storage: Storage
    runtime: Runtime
    options: Mapping[str, object]
    lock: LockProvider | None = None
    protections: Protections = Protections()
    _folders: dict[str, TimelineFolder] = field(default_factory=dict)

    def context(self) -> TableContext:
        """The table as it is configured now. Raises `TableError` or `ConfigError` if it cannot be used."""
        properties = properties_file.read(self.storage)
        config = TableConfig.from_properties(properties, table=self.storage.location)
        options = WriteOptions.parse(self.options, config=config)
        path = f".hoodie/{config.timeline_path}"
        folder = self._folders.setdefault(path, TimelineFolder(self.storage, path))
        lock = self.lock or lock_provider(self.storage, self.runtime, options)
        return TableContext(self.storage, self.runtime, lock, config, folder, options, self.protections)


def lock_provider(storage: Storage, runtime: Runtime, options: WriteOptions) -> LockProvider:
    """The lock that the options name."""
    if options.lock_provider == "in_process":
        return InProcessLockProvider(storage.location, runtime.ids)
    return FileSystemLockProvider(
        storage, runtime.clock, runtime.ids, folder=options.lock_path, expire_minutes=options.lock_expire_minutes
    )
