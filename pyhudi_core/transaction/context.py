"""What every step of a transaction needs, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.lock.base import LockProvider
from pyhudi_core.model.instant import format_time
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import TimelineFolder
from pyhudi_core.transaction.protections import Protections


@dataclass(frozen=True, slots=True)
class TableContext:
    """A table with the outside it lives in: storage, clock, ids, executor, timer, lock."""

    storage: Storage
    runtime: Runtime
    lock: LockProvider
    config: TableConfig
    folder: TimelineFolder
    options: WriteOptions
    protections: Protections = Protections()

    @property
    def table(self) -> str:
        """The location, for messages."""
        return self.storage.location

    @property
    def utc(self) -> bool:
        """Whether the timeline's times are in UTC."""
        return self.config.timeline_timezone == "UTC"

    def now(self) -> str:
        """The clock's time as an instant time."""
        return format_time(self.runtime.clock.now_ms(), utc=self.utc)
