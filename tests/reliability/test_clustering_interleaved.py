"""Clustering concurrent with writers, with another clustering, and with crashes: it loses no update, and each plan is completed once.

The table is copy-on-write with two small file groups in one partition. The quick suite takes a share of the orders and crashes, chosen by a seed; the
slow tests take far more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import cache, partial

import pytest
from reliability.crash_scenarios import audit
from reliability.crash_states import crashed_before
from reliability.real_table import FULL, Row, TableSetup, TableWorld, is_shared, orders, rows_of, world_with_rows
from reliability.service_runs import BREATHLESS, Act, budget, crash, crash_scenario, in_many_orders

from pyhudi_core.doctor.kinds import FindingKind, Severity
from pyhudi_core.errors import CommitAbortedError, CommitConflictError
from pyhudi_core.model.instant import Action
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import Audit, CrashPlan, CrashScenario

BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0))
OPTIONS = {**FULL, "hoodie.clustering.plan.strategy.sort.columns": "price", "pyhudi.commit.retries": 2}
ALLOW = {"hoodie.clustering.updates.strategy": "allow"}
METADATA = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.record.index.enable": True,
    "hoodie.metadata.record.index.min.filegroup.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
}
REJECT = {"hoodie.clustering.updates.strategy": "reject"}
NOTHING: Mapping[str, object] = {}


def setup_of(planned: bool, **options: object) -> TableSetup:
    return _setup(planned, tuple(sorted(options.items())))


@cache
def _setup(planned: bool, options: tuple[tuple[str, object], ...]) -> TableSetup:
    """A world with the table; ``planned``: a clustering of it is on the timeline."""
    base = OPTIONS | {key: value for key, value in options if key in METADATA}
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), base)
    made = world_with_rows(*BASE, setup=empty)
    made.table().insert(orders((4, "a", 5.0)))
    if planned:
        made.table().clustering.schedule()
    image, now = made.storage.image(), made.scheduler.time_ms
    # Whoever takes another process for dead, or cancels its plan, removes its files and markers, so these are shared as well. Without another seed
    # the processes would make the file ids again that the table has.
    sim = replace(
        empty.sim, image=image, start_ms=now + 1_000, seed=5, shared=SimOptions().shared if options else is_shared
    )
    return replace(empty, sim=sim, options={**OPTIONS, **dict(options)})


def attempt(act: Act) -> Act:
    """The act; if another process is in its way, the error is the result."""

    def attempted(world: TableWorld) -> object:
        try:
            return act(world)
        except (CommitAbortedError, CommitConflictError) as refused:
            return refused

    return attempted


run = attempt(lambda world: world.table().clustering.run())
execute = attempt(lambda world: world.table().clustering.execute())


def upsert(*rows: Row) -> Act:
    return attempt(lambda world: world.table().upsert(orders(*rows)))


def cancel(world: TableWorld) -> object:
    plans = [i for i in world.table().timeline.pending if i.action is Action.CLUSTERING]
    return [world.table().clustering.cancel(plan) for plan in plans]


def holds(before: tuple[Row, ...], after: tuple[Row, ...]) -> Callable[[TableWorld, History], None]:
    """The rows are ``after`` if the second actor's write was committed, else ``before``; and the table can be clustered."""

    def check(world: TableWorld, history: History) -> None:
        assert not list(history.of("failed")), history
        committed = not isinstance(history.result("b"), Exception)
        expected = tuple(sorted(after if committed else before))
        table = world.table()
        assert rows_of(table) == expected, history
        found = table.check()
        assert not [f for f in found.findings if f.severity.value == "error"], found.findings
        # The next clustering finishes whatever is left, and changes no row either.
        world.wait()
        table.clustering.take_over()
        world.table().clustering.execute()
        world.table().clustering.run()
        table = world.table()
        assert rows_of(table) == expected
        assert not table.timeline.pending.instants
        # An executor that lives on writes files after a cancel has removed those that it found; the sweep service removes them.
        left = [
            f
            for f in table.check().findings
            if f.kind is not FindingKind.LEAKED_FILE and f.severity is not Severity.INFO
        ]
        assert not left, left
        times = [i.requested_time for i in table.timeline.commits if i.action is Action.REPLACECOMMIT]
        assert len(times) == len(set(times))

    return check


ALL = (*BASE, (4, "a", 5.0))
UPDATED = (ALL[0], (2, "a", 22.0), *ALL[2:])
BESIDE: dict[str, tuple[bool, dict[str, object], Act, Callable[[TableWorld, History], None]]] = {
    "an update of the group": (False, {}, upsert((2, "a", 22.0)), holds(ALL, UPDATED)),
    "an update that is allowed, with a plan": (True, ALLOW, upsert((2, "a", 22.0)), holds(ALL, UPDATED)),
    "a new key, with a plan": (True, {}, upsert((7, "a", 7.0)), holds(ALL, (*ALL, (7, "a", 7.0)))),
    "another run": (False, {}, run, holds(ALL, ALL)),
    "a cancel": (True, REJECT, cancel, holds(ALL, ALL)),
}


WITH_METADATA: dict[str, tuple[bool, dict[str, object], Act, Callable[[TableWorld, History], None]]] = {
    f"{name}, with a metadata table": (planned, {**options, **METADATA}, act, check)
    for name, (planned, options, act, check) in BESIDE.items()
}


def beside(name: str, bounds: Bounds, by_chance: int) -> None:
    planned, options, other, check = (BESIDE | WITH_METADATA)[name]
    setup = setup_of(planned, **options)
    in_many_orders(name, setup, (execute if planned else run, other), check, bounds, by_chance)


@pytest.mark.one_in(2)
@pytest.mark.row("K6", "L2")
@pytest.mark.parametrize("name", BESIDE)
def test_a_clustering_beside_another_process(name: str) -> None:
    beside(name, Bounds(preemptions=1, schedules=budget(8)), budget(4))


@pytest.mark.slow
@pytest.mark.row("I5", "K6", "L2")
@pytest.mark.parametrize("name", WITH_METADATA)
def test_a_clustering_with_a_metadata_table_beside_another_process(name: str) -> None:
    beside(name, Bounds(preemptions=2, schedules=300), 100)


@pytest.mark.slow
@pytest.mark.row("K6", "L2")
@pytest.mark.parametrize("name", BESIDE)
def test_a_clustering_beside_another_process_in_far_more_orders(name: str) -> None:
    beside(name, Bounds(preemptions=2, schedules=2_000), 500)


def two_executors(bounds: Bounds, by_chance: int, **options: object) -> None:
    setup = setup_of(True, **options)
    in_many_orders("two executors", setup, (execute, execute), holds(ALL, ALL), bounds, by_chance, seed=3)


@pytest.mark.one_in(2)
@pytest.mark.row("L6", "U16")
@pytest.mark.parametrize("options", [{}, BREATHLESS], ids=["living", "breathless"])
def test_two_executors_of_one_clustering(options: dict[str, object]) -> None:
    two_executors(Bounds(preemptions=1, schedules=budget(8)), budget(4), **options)


@pytest.mark.slow
@pytest.mark.row("L6", "U16")
@pytest.mark.parametrize("options", [{}, BREATHLESS], ids=["living", "breathless"])
def test_two_executors_of_one_clustering_in_far_more_orders(options: dict[str, object]) -> None:
    two_executors(Bounds(preemptions=2, schedules=2_000), 1_000, **options)


# --- crashes


def next_writer(world: TableWorld) -> None:
    """A writer, and then the process that maintains the table."""
    world.table().upsert(orders((90, "c", 90.0)))
    world.table().clustering.take_over()
    world.table().clustering.execute()


def audit_clustered(world: TableWorld, rows: Hashable) -> Audit:
    """The files that a clustering replaced stay until a clean; they are no leak."""
    found = audit(world, rows)
    return replace(found, leaks=tuple(kind for kind in found.leaks if kind != "replaced_group_kept"))


def scenario(
    name: str,
    operate: Act,
    planned: bool,
    profile: Profile,
    prepare: Act | None = None,
    options: Mapping[str, object] = NOTHING,
) -> CrashScenario[TableWorld]:
    setup = setup_of(planned, **options)
    return crash_scenario(name, setup, operate, next_writer, profile, prepare, audit_clustered)


def with_dead_executor(world: TableWorld) -> None:
    """A process that died after it wrote its files."""
    crashed_before(world, execute, "list", "*/.temp/*")


SCENARIOS: dict[str, Callable[[Profile], CrashScenario[TableWorld]]] = {
    "run": partial(scenario, "run", lambda world: world.table().clustering.run(), False),
    "run_with_metadata_table": partial(
        scenario, "run", lambda world: world.table().clustering.run(), False, options=METADATA
    ),
    "schedule": partial(scenario, "schedule", lambda world: world.table().clustering.schedule(), False),
    "execute": partial(scenario, "execute", lambda world: world.table().clustering.execute(), True),
    "cancel": partial(scenario, "cancel", cancel, True),
    "take_over": partial(
        scenario, "take_over", lambda world: world.table().clustering.take_over(), True, prepare=with_dead_executor
    ),
}


@pytest.mark.row("K11", "L6")
@pytest.mark.parametrize("name", ["run", "cancel"])
def test_a_clustering_that_dies_at_any_call_changes_no_row_and_is_finished(name: str) -> None:
    crash(SCENARIOS[name](Profile.S3), CrashPlan(share=0.02, every_site=False))


@pytest.mark.slow
@pytest.mark.row("K11", "L6")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_clustering_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(SCENARIOS[name](profile), CrashPlan(twice=0.1))
