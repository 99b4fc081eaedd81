"""Transactions over two tables beside each other, beside a plain write and a reader of both, in many orders, with crashes: all or nothing, never torn.

Beside a program that does not know the commit record, and rolls back what looks dead: all or nothing, unless one table shows its part already; then
the doctor says so.

The real code runs on the simulated storages, with the real locks of the two tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from reliability.real_table import OPTIONS, is_shared
from reliability.service_runs import budget

from pyhudi_core import table_transactions
from pyhudi_core.errors import CommitError, CorruptionError, HudiError, LockError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import Action, Instant, State, time_after
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import create_at
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.table import HudiTable
from pyhudi_core.table_transactions import snapshot, transaction
from pyhudi_core.testing import Bounds, History, Profile, Scheduler, SimOptions, SimWorld, explore, explore_randomly
from pyhudi_core.testing.sim_storage import everything_is_shared
from pyhudi_core.transaction import group, heartbeat, markers
from pyhudi_core.transaction.rollback_plans import metadata_record, plan_record

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
NAMES = ("lines", "orders")
PROFILES = [Profile.LOCAL_POSIX, Profile.S3]
FULL = {**OPTIONS, "hoodie.parquet.small.file.limit": 0, "hoodie.write.lock.filesystem.expire": 1}


def rows(*values: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [key for key, _ in values], "value": [value for _, value in values]}, SCHEMA)


@dataclass
class TwoTables:
    """A simulated world with two tables in one store."""

    sim: SimWorld
    seen: list[tuple[str, dict[int, int], dict[int, int]]] = field(default_factory=list)

    @property
    def scheduler(self) -> Scheduler:
        return self.sim.scheduler

    def home(self, name: str) -> OpenedTable:
        def beside(location: str) -> Any:
            return StorageBelow(self.sim.storage, location.rpartition("/")[2])

        storage = StorageBelow(self.sim.storage, name)
        return OpenedTable(storage, self.sim.runtime, dict(FULL), beside=beside)

    def tables(self) -> tuple[HudiTable, ...]:
        """Both tables, as a new process opens them."""
        return tuple(HudiTable(self.home(name)) for name in NAMES)

    def values(self) -> list[dict[int, int]]:
        return [_values(table.scan(SCHEMA.names)) for table in self.tables()]


def _values(scan: Any) -> dict[int, int]:
    return {row["id"]: row["value"] for row in scan.to_arrow().to_pylist()}


def world_of(profile: Profile, shared: Callable[[str], bool] = is_shared) -> Callable[[], TwoTables]:
    """A world with both tables. ``shared``: as in `SimOptions`; who sleeps too long meets others at its data files, too."""
    options = SimOptions(profile=profile, shared=shared)
    made = TwoTables(SimWorld(options))
    for name in NAMES:
        create_at(made.home(name), SCHEMA, "id", name=name)
    for table in made.tables():
        table.upsert(rows((1, 0), (2, 0)))
    image, now = made.sim.storage.image(), made.scheduler.time_ms
    # Another seed: identifiers must differ from those that were taken when the state was made.
    again = SimOptions(profile=profile, shared=shared, image=image, start_ms=now + 1_000, seed=1)
    return lambda: TwoTables(SimWorld(again))


def change_both(value: int) -> Callable[[TwoTables], object]:
    """Gives key 1 the same value in both tables."""

    def act(world: TwoTables) -> object:
        tables = world.tables()
        with transaction(tables) as changes:
            for table in reversed(tables):
                changes.upsert(table, rows((1, value), (value, value)))
        return changes

    return act


def in_turn(value: int) -> Callable[[TwoTables], object]:
    """Changes both tables with handles that have lost an attempt before: it holds both locks from its first attempt on."""

    def act(world: TwoTables) -> object:
        tables = world.tables()
        for table in tables:
            table._opened.context().protocol.remembered[table_transactions._TURNS] = (1, 2)
        with transaction(tables) as changes:
            for table in reversed(tables):
                changes.upsert(table, rows((1, value), (value, value)))
        return changes

    return act


def plain(world: TwoTables) -> object:
    return world.tables()[0].upsert(rows((2, 7)))


def read_both(world: TwoTables) -> object:
    """Reads both tables as of one time, and once more later."""
    tables = world.tables()
    state = snapshot(tables)
    found = [_values(state.scan(table, SCHEMA.names)) for table in tables]
    world.seen.append((state.time, found[0], found[1]))
    return state.time


def untorn(first: dict[int, int], second: dict[int, int]) -> bool:
    """Say whether both tables have the same of what transactions change: everything but key 2."""
    return {**first, 2: 0} == {**second, 2: 0}


def check(world: TwoTables, history: History) -> None:
    for time, first, second in world.seen:
        assert untorn(first, second), (time, first, second)
    world.sim.clock.advance(400)
    for table in world.tables():
        table.upsert(rows((99, 99)))  # repairs what a crashed process left
    first, second = world.values()
    assert untorn(first, second), (first, second)
    for value, name in ((11, "a"), (12, "b")):
        if history.outcome(name) == "ok":
            assert first.get(value) == value, f"{name} was acknowledged"
        else:
            error = history.error(name)
            assert history.outcome(name) == "crashed" or isinstance(error, CommitError | LockError), error
    assert first[1] in {value for value in (0, 11, 12) if value == 0 or value in first}
    for table in world.tables():
        assert not table.timeline.pending.instants
    times = [
        {c.completion_time for c in table.timeline.commits if "pyhudi.transaction" in table.commit_metadata(c).extra}
        for table in world.tables()
    ]
    assert times[0] == times[1]


ACTORS = [change_both(11), change_both(12), plain, read_both]


@pytest.mark.row("K5", "T14")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_transactions_change_both_tables_or_none_and_no_reader_sees_one_without_the_other(profile: Profile) -> None:
    bounds = Bounds(schedules=budget(20))
    # Whoever comes after a rollback removes what is left of the attempt, while the process that rolled it back does the same.
    world = world_of(profile, everything_is_shared)
    report = explore_randomly(world, ACTORS, check, bounds, seed=2, priorities=True)
    report.assert_clean()
    assert report.complete > 10


@pytest.mark.row("K5", "T14")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
@pytest.mark.parametrize("second", [in_turn(12), change_both(12)], ids=["both in turn", "one in turn"])
def test_transactions_that_take_turns_change_both_tables_or_none(
    second: Callable[[TwoTables], object], profile: Profile
) -> None:
    bounds = Bounds(crashes=1, schedules=budget(12))
    actors = [in_turn(11), second, plain, read_both]
    report = explore_randomly(world_of(profile, everything_is_shared), actors, check, bounds, seed=9, priorities=True)
    report.assert_clean()
    assert report.complete > 6


@pytest.mark.row("K5", "T14")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_a_transaction_in_turn_that_dies_or_sleeps_at_any_call_changes_both_tables_or_none(profile: Profile) -> None:
    world, actors = world_of(profile, everything_is_shared), [in_turn(11), plain, read_both]
    for bounds in (
        Bounds(preemptions=0, crashes=1, schedules=budget(80)),
        Bounds(preemptions=0, faults={"pause": 1}, schedules=budget(40)),
    ):
        explore(world, actors, check_one, bounds).assert_clean()


@pytest.mark.row("K5", "T14")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_a_coordinator_that_dies_at_any_call_leaves_both_tables_changed_or_none(profile: Profile) -> None:
    world, actors = world_of(profile), [ACTORS[0], plain, read_both]
    chance = explore_randomly(
        world, actors, check_one, Bounds(crashes=1, schedules=budget(12)), seed=4, priorities=True
    )
    chance.assert_clean()
    explore(world, actors, check_one, Bounds(preemptions=0, crashes=1, schedules=budget(80))).assert_clean()


def check_one(world: TwoTables, history: History) -> None:
    """`check`, where the actors are one transaction, a plain write and a reader."""
    renamed = History([type(e)("x" if e.actor == "b" else e.actor, e.kind, e.value) for e in history.events])
    renamed.add("b", "crashed", None)
    check(world, renamed)


@pytest.mark.row("K5", "T14")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_a_coordinator_that_sleeps_longer_than_its_heartbeat_changes_both_tables_or_none(profile: Profile) -> None:
    bounds = Bounds(faults={"pause": 1}, schedules=budget(15))
    explore_randomly(
        world_of(profile, everything_is_shared), ACTORS, check, bounds, seed=6, priorities=True
    ).assert_clean()


@pytest.mark.row("K5", "T14")
@pytest.mark.parametrize("answer", [True, False], ids=["published early", "replaced early"])
def test_without_asking_the_decision_a_prepared_table_is_torn_from_the_other(
    answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An intent that is published before the decision, or taken for void and replaced, is what the group prevents."""
    monkeypatch.setattr(group, "is_committed", lambda _context, _intent: answer)
    bounds = Bounds(preemptions=0, crashes=1, schedules=400)
    report = explore(world_of(Profile.S3), ACTORS[:1], check_one, bounds)
    with pytest.raises(AssertionError):
        report.assert_clean()


def roll_back_as_hudi(world: TwoTables, names: tuple[str, ...] = NAMES) -> list[str]:
    """Roll back what looks dead, as Hudi's own writers do: without the commit record. Returns the tables where there was something."""
    done = []
    for name in names:
        context = world.home(name).context()
        timeline = context.folder.load()
        for victim in (i for i in timeline.pending if i.action is Action.COMMIT and heartbeat.is_dead(context, i)):
            files = markers.files_of(context, victim.requested_time)
            time = time_after(time_after(timeline.high_water_mark))
            plan = encode_record("HoodieRollbackPlan", plan_record(context, victim, files), sync_marker=bytes(16))
            for state, body in ((State.REQUESTED, plan), (State.INFLIGHT, b"")):
                context.storage.put(context.folder.file(Instant(time, Action.ROLLBACK, state)), body)
            context.storage.delete_many(files)
            record = encode_record(
                "HoodieRollbackMetadata", metadata_record(context, victim, files), sync_marker=bytes(16)
            )
            finished = Instant(time, Action.ROLLBACK, State.COMPLETED, time_after(time))
            context.storage.put(context.folder.file(finished), record)
            for state in (State.INFLIGHT, State.REQUESTED):
                context.storage.delete(context.folder.file(Instant(victim.requested_time, victim.action, state)))
            done.append(name)
    return done


def is_detected(world: TwoTables, history: History) -> bool:
    """Say whether the coordinator, or the doctor, says that something is wrong."""
    kinds = {finding.kind for table in world.tables() for finding in table.check().findings}
    return isinstance(history.error("a"), CorruptionError) or bool(kinds & {"transaction_torn", "file_missing"})


def check_beside_hudi(world: TwoTables, history: History) -> None:
    """All or nothing, or somebody says that it is not so; and what was acknowledged is there."""
    world.sim.clock.advance(400)
    roll_back_as_hudi(world, NAMES[:1])
    try:
        for table in world.tables():
            table.upsert(rows((99, 99)))
        first, second = world.values()
    except HudiError:
        assert is_detected(world, history)
        return
    assert untorn(first, second) or is_detected(world, history), (first, second)
    if history.outcome("a") == "ok":
        assert first[11] == second[11] == 11


def sleeping(world: TwoTables) -> object:
    world.sim.runtime.clock.sleep(400)
    return roll_back_as_hudi(world)


@pytest.mark.row("K5", "T14")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_a_coordinator_that_sleeps_while_hudi_rolls_its_parts_back_tears_nothing_unseen(profile: Profile) -> None:
    bounds = Bounds(faults={"pause": 1}, schedules=budget(6))
    world = world_of(profile, everything_is_shared)
    explore_randomly(world, [ACTORS[0], sleeping], check_beside_hudi, bounds, seed=8, priorities=True).assert_clean()


def torn_after_crashes(monkeypatch: pytest.MonkeyPatch | None) -> set[tuple[bool, bool]]:
    """Crash a coordinator at every call. Then Hudi rolls one part back, and this package writes. Returns which tables had the transaction."""
    if monkeypatch is not None:
        monkeypatch.setattr(group, "_stands", lambda _context, _parts: True)
    outcomes: set[tuple[bool, bool]] = set()

    def look(world: TwoTables, history: History) -> None:
        world.sim.clock.advance(400)
        was_published = world.values()[1].get(11) == 11  # the last table is published first
        lost = roll_back_as_hudi(world, NAMES[:1])
        for table in reversed(world.tables()):
            table.upsert(rows((99, 99)))
        first, second = (11 in values for values in world.values())
        if was_published and lost:
            assert is_detected(world, history)
        else:
            outcomes.add((first, second))

    bounds = Bounds(preemptions=0, crashes=1, schedules=400)
    report = explore(world_of(Profile.S3), ACTORS[:1], look, bounds)
    report.assert_clean()
    assert report.complete > 50
    return outcomes


@pytest.mark.slow
@pytest.mark.row("K5", "T14")
def test_what_hudi_rolls_back_of_a_dead_coordinator_before_a_table_shows_it_is_void_in_all_tables() -> None:
    assert torn_after_crashes(None) == {(False, False), (True, True)}


@pytest.mark.slow
@pytest.mark.row("K5", "T14")
def test_if_the_decision_alone_counted_a_rollback_by_hudi_would_tear_the_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (False, True) in torn_after_crashes(monkeypatch)
