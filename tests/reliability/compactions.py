"""What the explorations of compaction and of log compaction share: a merge-on-read table, and a service that is planned and executed beside others.

Both promise the same: no row changes, and each plan is completed once. A file says what its service is called, and what its table holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

from reliability.crash_states import crashed_before
from reliability.real_table import (
    FULL,
    SCHEMA,
    Row,
    TableSetup,
    TableWorld,
    is_shared,
    orders,
    rows_of,
    world_with_rows,
)
from reliability.service_runs import BREATHLESS, Act, Check, crash_scenario, in_many_orders

from pyhudi_core.errors import CommitAbortedError, CommitConflictError
from pyhudi_core.model.instant import Action
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashScenario

BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0))
AFTER = ((1, "a", 10.0), (2, "a", 21.0), (3, "b", 30.0))
MERGE_ON_READ = {**FULL, "hoodie.table.type": "MERGE_ON_READ"}


def upsert(*rows: Row) -> Act:
    return lambda world: world.table().upsert(orders(*rows))


def overwrite(world: TableWorld) -> object:
    return world.table().insert_overwrite(orders((9, "a", 9.0)))


@dataclass(frozen=True, eq=False)
class Compacting:
    """One of the two services.

    Attributes:
        name: its attribute of a table.
        options: those of the table.
        prices: of key 2, one update after the other; each makes a log.
        completed: how many times a plan of it was completed.
        at_last: what has to be true of the table at last, when nothing is left to do.
    """

    name: str
    options: Mapping[str, object]
    prices: tuple[float, ...]
    completed: Callable[[HudiTable], int]
    at_last: Callable[[TableWorld, tuple[Row, ...]], None]

    def setup_of(self, planned: bool, **options: object) -> TableSetup:
        """A world with the table; ``planned``: a plan of the service is on the timeline."""
        return _setup(self, planned, tuple(sorted(options.items())))

    def run(self, world: TableWorld) -> object:
        return getattr(world.table(), self.name).run()

    def execute(self, world: TableWorld) -> object:
        """The work of a process that finds a plan; if another process completes the plan first, this one raises an error."""
        try:
            return getattr(world.table(), self.name).execute()
        except (CommitAbortedError, CommitConflictError) as refused:
            return refused

    def finish(self, world: TableWorld) -> None:
        """Execute what others left."""
        getattr(world.table(), self.name).take_over()
        getattr(world.table(), self.name).execute()

    def holds(self, *expected: Row, completions: int | None = None) -> Check:
        """The check: nobody failed, and the table has these rows, now and after the next run, which finishes whatever is left."""

        def check(world: TableWorld, history: History) -> None:
            assert not list(history.of("failed")), history
            table = world.table()
            assert rows_of(table) == tuple(sorted(expected))
            assert completions is None or self.completed(table) == completions
            found = table.check()
            assert not [f for f in found.findings if f.severity.value == "error"], found.findings
            world.wait()
            self.finish(world)
            self.run(world)
            table = world.table()
            assert rows_of(table) == tuple(sorted(expected))
            assert not table.timeline.pending.instants
            self.at_last(world, tuple(sorted(expected)))
            assert world.table().check().ok, world.table().check().findings

        return check

    def beside(self) -> dict[str, tuple[bool, Act, Check]]:
        """Stories: whether the plan is there before, what the other process does, and what holds at last."""
        updated = (AFTER[0], (2, "a", 22.0), AFTER[2])
        return {
            "an update of the group": (False, upsert((2, "a", 22.0)), self.holds(*updated)),
            "an update and a new key, with a plan": (
                True, upsert((2, "a", 22.0), (7, "a", 7.0)), self.holds(*updated, (7, "a", 7.0)),
            ),
            "an overwrite of the partition": (True, overwrite, self.holds((9, "a", 9.0), AFTER[2])),
            "another run": (False, self.run, self.holds(*AFTER, completions=1)),
        }  # fmt: skip

    def explore(self, name: str, story: tuple[bool, Act, Check], bounds: Bounds, by_chance: int) -> None:
        planned, other, check = story
        actors = (self.execute if planned else self.run, other)
        in_many_orders(name, self.setup_of(planned), actors, check, bounds, by_chance)

    def two_executors(self, bounds: Bounds, by_chance: int, **options: object) -> None:
        check = self.holds(*AFTER, completions=None if options else 1)
        setup = self.setup_of(True, **options)
        in_many_orders("two executors", setup, (self.execute, self.execute), check, bounds, by_chance, seed=3)

    def crashes(self, name: str, profile: Profile) -> CrashScenario[TableWorld]:
        """The operation of `CRASHED` as one that dies; the next writer comes, and then the process that maintains the table."""
        planned, prepare = CRASHED[name]

        def operate(world: TableWorld) -> object:
            return getattr(getattr(world.table(), self.name), name)()

        def proceed(world: TableWorld) -> None:
            world.table().upsert(orders((90, "a", 90.0)))
            self.finish(world)

        before = None if prepare is None else partial(prepare, self)
        return crash_scenario(name, self.setup_of(planned), operate, proceed, profile, before)


@cache
def _setup(service: Compacting, planned: bool, options: tuple[tuple[str, object], ...]) -> TableSetup:
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), dict(service.options))
    made = world_with_rows(*BASE, setup=empty)
    for price in service.prices:
        made.table().upsert(orders((2, "a", price)))
    if planned:
        getattr(made.table(), service.name).schedule()
    image, now = made.storage.image(), made.scheduler.time_ms
    # Whoever takes another process for dead removes its files and markers, so these are shared as well.
    sim = replace(empty.sim, image=image, start_ms=now + 1_000, shared=SimOptions().shared if options else is_shared)
    return replace(empty, sim=sim, options={**service.options, **dict(options)})


def with_dead_executor(service: Compacting, world: TableWorld) -> None:
    """A process that died after it wrote its files."""
    crashed_before(world, service.execute, "list", "*/.temp/*")


CRASHED: dict[str, tuple[bool, Callable[[Compacting, TableWorld], None] | None]] = {
    "run": (False, None),
    "schedule": (False, None),
    "execute": (True, None),
    "take_over": (True, with_dead_executor),
}
"""Operations that die: whether there is a plan before, and what happened to the table."""
LIVES: dict[str, dict[str, object]] = {"living": {}, "breathless": BREATHLESS}
"""Options of two executors that know that the other one lives, and of two that take each other for dead."""


def base_files(table: HudiTable) -> int:
    return len([instant for instant in table.timeline.commits if instant.action is Action.COMMIT])


def base_files_show(world: TableWorld, expected: tuple[Row, ...]) -> None:
    found = world.table().scan(SCHEMA.names, mode="read_optimized").to_arrow().to_pylist()
    assert tuple(sorted(tuple(row.values()) for row in found)) == expected, "read-optimized queries show all"


def merged_logs(table: HudiTable) -> int:
    return len([each for each in table.timeline.commits if table.commit_metadata(each).operation == "LOG_COMPACT"])


def is_compacted(world: TableWorld, expected: tuple[Row, ...]) -> None:
    world.table().compaction.run()
    assert rows_of(world.table()) == expected, "a compaction merges the old logs and the new one"


COMPACTION = Compacting("compaction", MERGE_ON_READ, (21.0,), base_files, base_files_show)
LOG_COMPACTION = Compacting(
    "log_compaction",
    {**MERGE_ON_READ, "hoodie.log.compaction.blocks.threshold": 2},
    (20.5, 21.0),
    merged_logs,
    is_compacted,
)
