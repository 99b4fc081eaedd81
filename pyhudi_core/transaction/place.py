"""Where a table is: its storage, its timeline and its configuration, as one value.

A data table is at the root of its storage. Its metadata table is a second place, below ``.hoodie/metadata``, with its own properties, timeline and
file groups. The code that reads tables and the services work on a place; ``context`` adds the protocol by which it is changed.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, replace

from pyhudi_core.model.properties import TableConfig
from pyhudi_core.runtime.base import Clock
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import TimelineFolder

Folders = MutableMapping[str, TimelineFolder]
"""Timeline folders that were opened before, with what they remember, by path."""


@dataclass(frozen=True, slots=True)
class TablePlace:
    """One table.

    Attributes:
        storage: the table's folder.
        config: its properties when the place was opened.
        folder: its timeline.
        prefix: its folder below the storage of the protocol; empty for a data table.
    """

    storage: Storage
    config: TableConfig
    folder: TimelineFolder
    prefix: str = ""

    @classmethod
    def open(
        cls, root: Storage, clock: Clock, prefix: str = "", folders: Folders | None = None, zone: str = ""
    ) -> TablePlace:
        """Read the properties of the table in a folder of the storage. Raises `TableError` or `ConfigError` if it cannot be used.

        ``zone``: that of its times. The properties of a metadata table do not say it; it is that of the data table.
        """
        storage = StorageBelow(root, prefix) if prefix else root
        config = TableConfig.from_properties(properties_file.read(storage), table=storage.location)
        config = replace(config, timeline_timezone=zone) if zone else config
        return cls(storage, config, timeline_folder(storage, config, clock, folders), prefix)

    @property
    def table(self) -> str:
        """The location, for messages."""
        return self.storage.location

    @property
    def utc(self) -> bool:
        """Whether the timeline's times are in UTC."""
        return self.config.timeline_timezone == "UTC"

    def from_root(self, path: str) -> str:
        """A path of the table as the commit record names it: from the root of the protocol's storage."""
        return f"{self.prefix}/{path}" if self.prefix else path

    def has(self, path: str) -> bool:
        """Whether a path from the root is a file of this table's timeline."""
        return path.rpartition("/")[0] == self.from_root(self.folder.path)


def timeline_folder(
    storage: Storage, config: TableConfig, clock: Clock, folders: Folders | None = None
) -> TimelineFolder:
    """The timeline of a table; the same object again if ``folders`` has it."""
    path = f".hoodie/{config.timeline_path}"
    folder = folders.get(path) if folders is not None else None
    if folder is None:
        utc, raised = config.timeline_timezone == "UTC", config.was_raised
        folder = TimelineFolder(storage, path, config.history_path, raised, utc=utc, clock=clock)
        if folders is not None:
            folders[path] = folder
    return folder
