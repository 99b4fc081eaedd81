"""A real table in a simulated world: `HudiTable` with its Parquet files on `SimStorage`, in one thread.

Every call of `TableWorld.table` is another process: nothing is cached between two of them. The rows are orders (id, day, price); days are the
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pyhudi_core.lock.base import LockProvider
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opening import create_at
from pyhudi_core.storage.base import Storage
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile, Scheduler, SimOptions, SimStorage, SimWorld

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64())])
OPTIONS: Mapping[str, object] = {
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
    "hoodie.index.bloom.num_entries": 10,
    "hoodie.bloom.index.filter.dynamic.max.entries": 100,
}
"""Small waits and small files."""
FULL = {**OPTIONS, "hoodie.parquet.small.file.limit": 0}
"""Every file counts as full, so that new keys come into file groups of their own."""
HEARTBEAT_LIMIT_S = 180
"""Longer than heartbeats and the simulated lock's lease live."""

Row = tuple[int, str, float]


@dataclass(frozen=True, slots=True)
class TableSetup:
    """The options with which the tables of a world are opened.

    Attributes:
        sim: the simulated outside; ``image`` and ``start_ms`` start it where another one stood.
        options: the table's options.
        protections: which protections are on.
        lock: makes the lock provider of one process; None is the simulated lock. A name of `hoodie.write.lock.provider`
            is an option instead: set ``real_lock``.
        real_lock: take the lock that the options name.
    """

    sim: SimOptions = SimOptions(lease_s=60)
    options: Mapping[str, object] = field(default_factory=lambda: dict(OPTIONS))
    protections: Protections = Protections()
    lock: Callable[[SimWorld], LockProvider] | None = None
    real_lock: bool = False


@dataclass
class TableWorld:
    """A simulated world with one table (or the location of one); explorations create a new one for every run."""

    sim: SimWorld
    setup: TableSetup

    @property
    def scheduler(self) -> Scheduler:
        return self.sim.scheduler

    @property
    def storage(self) -> SimStorage:
        return self.sim.storage

    def home(self, storage: Storage | None = None) -> OpenedTable:
        """The view of one process on the table. ``storage`` may wrap the world's storage."""
        setup = self.setup
        lock = None if setup.real_lock else setup.lock(self.sim) if setup.lock else self.sim.lock
        return OpenedTable(storage or self.sim.storage, self.sim.runtime, dict(setup.options), lock, setup.protections)

    def table(self, storage: Storage | None = None) -> HudiTable:
        """The table as a new process opens it."""
        return HudiTable(self.home(storage))

    def create(self, partitioned: bool = True, schema: pa.Schema = SCHEMA) -> HudiTable:
        """Create the table."""
        return create_at(self.home(), schema, "id", "day" if partitioned else (), name="orders")

    def wait(self, seconds: float = HEARTBEAT_LIMIT_S) -> None:
        """Let time pass outside of the actors, so that heartbeats and leases of crashed actors expire."""
        self.sim.clock.advance(seconds)


def table_world(setup: TableSetup | None = None, **sim: Any) -> TableWorld:
    """A new world; keywords are those of `SimOptions` (``profile``, ``image``, ``seed``, ...)."""
    chosen = setup or TableSetup()
    chosen = replace(chosen, sim=replace(chosen.sim, **sim))
    return TableWorld(SimWorld(chosen.sim), chosen)


def world_with_rows(*rows: Row, setup: TableSetup | None = None, **sim: Any) -> TableWorld:
    """A world with a table that holds the rows, written in one upsert."""
    world = table_world(setup, **sim)
    table = world.create()
    if rows:
        table.upsert(orders(*rows))
    return world


def orders(*rows: Row) -> pa.Table:
    """Rows (id, day, price)."""
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def rows_of(table: HudiTable) -> tuple[Row, ...]:
    """The rows that a new reader sees, sorted, including duplicates."""
    found = table.scan(columns=SCHEMA.names).to_arrow()
    return tuple(sorted(tuple(row.values()) for row in found.to_pylist()))


def is_shared(path: str) -> bool:
    """For ``SimOptions(shared=...)``: only one writer can name data files and markers. Staged commits are read by any process that publishes a
    decision.

    A rollback or the next writer's clean-up does touch those of a dead writer, which is allowed.
    """
    return not (path.endswith((".parquet", ".marker.CREATE", ".marker.MERGE")) or ".log." in path)


__all__ = [
    "FULL",
    "HEARTBEAT_LIMIT_S",
    "OPTIONS",
    "SCHEMA",
    "Profile",
    "Row",
    "TableSetup",
    "TableWorld",
    "is_shared",
    "orders",
    "rows_of",
    "table_world",
    "world_with_rows",
]
