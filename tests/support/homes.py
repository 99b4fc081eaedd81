"""Tables on storages and runtimes that a test creates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

import pyhudi_core as hudi
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.opening import create_at
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.local import LocalStorage
from support.tables import ORDERS


class StandingClock:
    """A clock that advances by a tick at each reading, and by sleeps."""

    def __init__(self, now_ms: int = 1_767_225_600_000, tick_ms: int = 1) -> None:
        self.time_ms = now_ms
        self.tick_ms = tick_ms
        self.slept: list[float] = []

    def now_ms(self) -> int:
        self.time_ms += self.tick_ms
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time_ms += round(seconds * 1000)


def runtime_with(**parts: Any) -> Runtime:
    """The system's runtime with some parts replaced."""
    return replace(system_runtime(), **parts)


def home_at(
    storage: Storage | str, runtime: Runtime | None = None, options: Mapping[str, object] | None = None
) -> OpenedTable:
    """The table's home on a storage, or on a folder without fsync."""
    real = LocalStorage(storage, fsync=False) if isinstance(storage, str) else storage
    return OpenedTable(real, runtime or system_runtime(), options or {})


def make_at(home: OpenedTable, schema: pa.Schema = ORDERS, **arguments: Any) -> hudi.HudiTable:
    """A new table of orders at a home."""
    arguments.setdefault("partition_by", "day" if "day" in schema.names else ())
    return create_at(home, schema, arguments.pop("record_key", "id"), **arguments)


def context_of(table: hudi.HudiTable) -> TableContext:
    """The table's context, for tests of lower packages."""
    return table._opened.context()
