"""Upserts with ``batch=True`` beside each other and beside other writes, in many orders of their steps, with crashes: one after the other in effect.

The real code runs on the simulated storages. What is promised: rows are those of the calls in some order; an acknowledged batch is in exactly one
commit; a batch of a writer that crashed is in one commit or in none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import permutations

import pytest
from reliability.real_table import (
    FULL,
    Row,
    TableSetup,
    TableWorld,
    is_shared,
    orders,
    rows_of,
    table_world,
    world_with_rows,
)
from reliability.service_runs import budget

from pyhudi_core.batches import combined
from pyhudi_core.conflicts.requirement import EntryIsOurs
from pyhudi_core.errors import CommitRequirementError
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.shared_commits import answers_in
from pyhudi_core.testing import Bounds, History, Profile, SimOptions, explore, explore_randomly

BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0))
BATCHES: dict[str, tuple[Row, ...]] = {
    "a": ((1, "a", 11.0), (5, "a", 5.0)),
    "b": ((1, "a", 12.0), (6, "b", 6.0)),
}
PLAIN: tuple[Row, ...] = ((1, "a", 13.0), (7, "a", 7.0))
PROFILES = [Profile.LOCAL_POSIX, Profile.S3]


def world_of(profile: Profile) -> Callable[[], TableWorld]:
    setup = TableSetup(SimOptions(profile=profile, lease_s=60, shared=is_shared), dict(FULL))
    made = world_with_rows(*BASE, setup=setup)
    image, now = made.storage.image(), made.scheduler.time_ms
    return lambda: table_world(setup, image=image, start_ms=now + 1_000)


def hand_in(rows: tuple[Row, ...]) -> Callable[[TableWorld], object]:
    return lambda world: world.table().upsert(orders(*rows), batch=True)


def plain(world: TableWorld) -> object:
    return world.table().upsert(orders(*PLAIN))


def serial(parts: list[tuple[Row, ...]]) -> set[tuple[Row, ...]]:
    """The possible results of upserts one after the other."""
    found = set()
    for order in permutations(parts):
        rows = {(key, day): price for key, day, price in BASE}
        for part in order:
            rows.update({(key, day): price for key, day, price in part})
        found.add(tuple(sorted((key, day, price) for (key, day), price in rows.items())))
    return found


def check(world: TableWorld, history: History) -> None:
    """What holds after each run; what a crashed writer brought may be there or not."""
    world.wait()
    world.table().upsert(orders((99, "z", 1.0)), batch=True)  # repairs, and takes or drops what waits
    rows = {row for row in rows_of(world.table()) if row[0] != 99}
    sure, maybe = [], []
    for name, part in {**BATCHES, "c": PLAIN}.items():
        (sure if history.outcome(name) == "ok" else maybe).append(part)
        assert history.outcome(name) in {"ok", "crashed"}, history.error(name)
    sets = [sure + [maybe[at] for at in range(len(maybe)) if chosen >> at & 1] for chosen in range(1 << len(maybe))]
    assert any(tuple(sorted(rows)) in serial(parts) for parts in sets), rows
    table = world.table()
    tokens = Counter(
        token for commit in map(table.commit_metadata, table.timeline.commits) for token in answers_in(commit)
    )
    assert not tokens or max(tokens.values()) == 1, tokens
    acknowledged = {history.result(name).token for name in BATCHES if history.outcome(name) == "ok"}
    assert acknowledged <= tokens.keys()
    assert not table.timeline.pending.instants
    assert all(".rows" not in info.path for info in world.storage.list(".hoodie/.aux/.pyhudi/batches/"))


ACTORS = [*(hand_in(rows) for rows in BATCHES.values()), plain]


@pytest.mark.row("K5", "T12")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_batches_beside_each_other_and_a_plain_write_come_one_after_the_other(profile: Profile) -> None:
    world = world_of(profile)
    chance = explore_randomly(world, ACTORS, check, Bounds(schedules=budget(25)), seed=3, priorities=True)
    chance.assert_clean()
    assert chance.complete > 10


@pytest.mark.row("K5", "T12")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
def test_a_writer_that_crashes_at_any_call_loses_no_batch_of_another_and_doubles_none(profile: Profile) -> None:
    world = world_of(profile)
    bounds = Bounds(preemptions=1, crashes=1, schedules=budget(60))
    chance = explore_randomly(world, ACTORS, check, Bounds(crashes=1, schedules=budget(25)), seed=5, priorities=True)
    chance.assert_clean()
    explore(world, ACTORS, check, bounds).assert_clean()


class _Everybody:
    """A lead that everybody gets."""

    identity = "everybody"

    def acquire(self, timeout_s: float, note: str = "") -> _Everybody:
        return self

    def release(self) -> None:
        return None


@pytest.mark.row("K5", "T12")
@pytest.mark.parametrize("checked", [True, False], ids=["as it is", "without its requirement"])
def test_two_leaders_at_once_double_no_batch_because_the_commit_requires_it(
    checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lead is only there to avoid work; the requirement of the commit is what keeps a batch from being in two commits."""
    monkeypatch.setattr(combined, "_lead_lock", lambda _context: _Everybody())
    if not checked:
        monkeypatch.setattr(combined.NotAnswered, "failure", lambda _self, _state: None)
    bounds = Bounds(schedules=budget(40))
    report = explore_randomly(world_of(Profile.S3), ACTORS, check, bounds, seed=11, priorities=True)
    if checked:
        report.assert_clean()
    else:
        with pytest.raises(AssertionError):
            report.assert_clean()


def moves(rows: tuple[Row, ...]) -> Callable[[TableWorld], object]:
    """Rows with a position that nobody may have moved before, such as the checkpoint of a consumer: two processes of one pipeline."""

    def act(world: TableWorld) -> object:
        table = world.table()
        with table._writing(OperationType.UPSERT, {"position": str(rows)}, None, ()) as write:
            write.note(requirements=[EntryIsOurs("position", "", "the position")], allow_empty=True)
            return combined.upsert(write, table._upserting, orders(*rows))

    return act


MOVERS = [*(moves(rows) for rows in BATCHES.values()), plain]


def check_position(world: TableWorld, history: History) -> None:
    """At most one of the two is in the table, whoever crashed; what was acknowledged is there, and only the other one was refused."""
    world.wait()
    table = world.table()
    table.upsert(orders((99, "z", 1.0)), batch=True)
    found = [(instant, commit.extra["position"]) for instant, commit in table.commits_with("position")]
    assert len(found) <= 1, found
    rows = {row for row in rows_of(table) if row[0] != 99}
    names = {name for name, part in BATCHES.items() if found and found[0][1] == str(part)}
    for name in BATCHES:
        outcome = history.outcome(name)
        assert outcome in {"ok", "crashed"} or isinstance(history.error(name), CommitRequirementError), history.error(
            name
        )
        assert name in names if outcome == "ok" else True
    if all(history.outcome(name) != "crashed" for name in BATCHES):
        assert names, "one of the two has moved it"
    parts = [BATCHES[name] for name in names]
    choices = [[*parts, PLAIN]] if history.outcome("c") == "ok" else [[*parts, PLAIN], parts]
    assert any(tuple(sorted(rows)) in serial(chosen) for chosen in choices), rows


@pytest.mark.row("K5", "T12")
@pytest.mark.parametrize("profile", PROFILES, ids=str)
@pytest.mark.parametrize("crashes", [0, 1])
def test_a_position_that_goes_with_batches_moves_once(crashes: int, profile: Profile) -> None:
    bounds = Bounds(crashes=crashes, schedules=budget(20))
    explore_randomly(world_of(profile), MOVERS, check_position, bounds, seed=13, priorities=True).assert_clean()


@pytest.mark.row("K5", "T12")
def test_without_the_requirement_of_each_batch_a_position_moves_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combined.OfBatch, "failure", lambda _self, _state: None)
    report = explore_randomly(
        world_of(Profile.S3), MOVERS, check_position, Bounds(schedules=budget(20)), seed=13, priorities=True
    )
    with pytest.raises(AssertionError):
        report.assert_clean()
