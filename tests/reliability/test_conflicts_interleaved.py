"""Pairs of real writes in every order of their steps: the conflict table is correct for `HudiTable` and its Parquet files.

Every actor is a process of its own that calls one verb of a table in a simulated storage. In the end the rows are those that the successful calls
give one after the other, in the order of their completion: no write is lost, half done, or done twice, and no key is there twice (promises P1,
P2 and P4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

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

from pyhudi_core.errors import CommitConflictError, DuplicateKeyError
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, History, Report, SimOptions, explore, explore_randomly
from pyhudi_core.write.result import Commit

Rows = Mapping[tuple[int, str], float]
BASE: tuple[Row, ...] = ((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))
ALL_ON = Protections()


@dataclass(frozen=True, slots=True)
class Verb:
    """A write method of a table, and its effect on the rows without other writers."""

    call: Callable[[HudiTable], Commit]
    effect: Callable[[Rows], Rows]


def upsert(*rows: Row) -> Verb:
    return Verb(lambda table: table.upsert(orders(*rows)), lambda found: {**found, **_as_rows(rows)})


def insert(*rows: Row) -> Verb:
    def effect(found: Rows) -> Rows:
        assert not found.keys() & _as_rows(rows).keys(), "an insert of a known key was let through"
        return {**found, **_as_rows(rows)}

    return Verb(lambda table: table.insert(orders(*rows)), effect)


def delete(*rows: Row) -> Verb:
    gone = _as_rows(rows).keys()
    return Verb(
        lambda table: table.delete(orders(*rows).select(["id", "day"])),
        lambda found: {key: price for key, price in found.items() if key not in gone},
    )


def insert_overwrite(*rows: Row) -> Verb:
    days = {day for _, day, _ in rows}
    return Verb(
        lambda table: table.insert_overwrite(orders(*rows)),
        lambda found: {**{key: price for key, price in found.items() if key[1] not in days}, **_as_rows(rows)},
    )


def delete_partition(day: str) -> Verb:
    return Verb(
        lambda table: table.delete_partitions([f"day={day}"]),
        lambda found: {key: price for key, price in found.items() if key[1] != day},
    )


def _as_rows(rows: tuple[Row, ...]) -> dict[tuple[int, str], float]:
    return {(key, day): price for key, day, price in rows}


@cache
def _setup(protections: Protections = ALL_ON) -> TableSetup:
    """A world whose storage already has the base table, which is written once and not in every run."""
    setup = TableSetup(SimOptions(lease_s=60, shared=is_shared), dict(FULL), protections)
    made = world_with_rows(*BASE, setup=setup)
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(setup, sim=replace(setup.sim, image=image, start_ms=now + 1_000))


def _world(protections: Protections = ALL_ON) -> TableWorld:
    return table_world(_setup(protections))


def _actor(verb: Verb) -> Callable[[TableWorld], object]:
    def act(world: TableWorld) -> object:
        try:
            return verb.call(world.table())
        except (DuplicateKeyError, CommitConflictError) as refused:
            return refused

    return act


def _serial(verbs: Mapping[str, Verb]) -> Callable[[TableWorld, History], None]:
    """The check: the rows are those of the successful calls in the order of their completion."""

    def check(world: TableWorld, history: History) -> None:
        done = {event.actor: event.value for event in history.of("ok") if isinstance(event.value, Commit)}
        expected: Rows = _as_rows(BASE)
        for name in sorted(done, key=lambda name: done[name].completion_time):
            expected = verbs[name].effect(expected)
        found = rows_of(world.table())
        assert found == tuple(sorted((key, day, price) for (key, day), price in expected.items()))

    return check


def _explore(
    one: Verb,
    other: Verb,
    check: Callable[[TableWorld, History], None] | None = None,
    protections: Protections = ALL_ON,
    preemptions: int = 1,
) -> Report:
    """Every order with one preemption, then orders with a few random switches; the long run has larger bounds."""
    verbs = {"a": one, "b": other}
    actors = [_actor(one), _actor(other)]
    world = lambda: _world(protections)  # noqa: E731
    checks = check or _serial(verbs)
    deep = Bounds(preemptions=min(preemptions + (budget(1) > 1), 2), schedules=budget(400))
    report = explore(world, actors, checks, deep)
    print(f"{report.schedules} schedules, {report.complete} checked, {report.states} states, all {report.exhausted}")
    if report.violation is not None:
        return report
    chance = explore_randomly(world, actors, checks, Bounds(schedules=budget(8)), seed=7, priorities=True)
    print(f"{chance.schedules} by chance, {chance.complete} checked, {chance.states} states")
    return report if chance.violation is None else chance


def _all_tried(report: Report) -> None:
    report.assert_clean()
    assert report.exhausted or budget(1) > 1, "not every order was tried"
    assert report.complete > 10


@pytest.mark.row("K7", "U3")
@pytest.mark.row("R6")
def test_insert_vs_insert_same_key() -> None:
    """Both come into file groups of their own; one of the two is refused, whoever is first."""
    one, other = insert((7, "a", 1.0)), insert((7, "a", 2.0))
    serial = _serial({"a": one, "b": other})

    def check(world: TableWorld, history: History) -> None:
        serial(world, history)
        ends = [event.value for event in history.of("ok")]
        assert sorted(type(end).__name__ for end in ends) == ["Commit", "DuplicateKeyError"]

    _all_tried(_explore(one, other, check))


@pytest.mark.row("R6", "D12")
def test_two_upserts_of_a_new_key_never_make_two_rows() -> None:
    one, other = upsert((7, "a", 1.0), (8, "a", 1.0)), upsert((7, "a", 2.0), (9, "a", 2.0))
    _all_tried(_explore(one, other, _both_commit(one, other)))


def test_without_the_check_of_keys_a_key_is_there_twice() -> None:
    report = _explore(insert((7, "a", 1.0)), insert((7, "a", 2.0)), protections=Protections(key_check=False))
    assert report.violation is not None
    assert "known key was let through" in str(report.violation.error)


@pytest.mark.row("K7")
def test_inserts_of_other_keys_into_one_partition_never_plan_anew() -> None:
    one, other = insert((7, "a", 1.0)), insert((8, "a", 2.0))
    _all_tried(_explore(one, other, _never_again(one, other)))


@pytest.mark.row("T13", "D12")
def test_disjoint_file_groups_never_conflict() -> None:
    one, other = upsert((1, "a", 10.0)), upsert((3, "b", 30.0))
    _all_tried(_explore(one, other, _never_again(one, other)))


@pytest.mark.row("K5")
def test_upsert_vs_delete() -> None:
    one, other = upsert((1, "a", 10.0)), delete((1, "a", 0.0))
    _all_tried(_explore(one, other, _both_commit(one, other)))


def test_delete_vs_insert_overwrite() -> None:
    one, other = delete((1, "a", 0.0)), insert_overwrite((2, "a", 20.0), (4, "a", 40.0))
    _all_tried(_explore(one, other, _both_commit(one, other)))


def test_delete_partition_vs_insert() -> None:
    one, other = delete_partition("a"), insert((7, "a", 70.0))
    _all_tried(_explore(one, other, _both_commit(one, other)))


@pytest.mark.row("K12")
def test_insert_overwrite_vs_upsert() -> None:
    one, other = insert_overwrite((1, "a", 10.0)), upsert((1, "a", 11.0), (7, "a", 70.0))
    _all_tried(_explore(one, other, _both_commit(one, other)))


def _both_commit(one: Verb, other: Verb) -> Callable[[TableWorld, History], None]:
    """The check: both writes succeed, because a write that loses is planned again."""
    serial = _serial({"a": one, "b": other})

    def check(world: TableWorld, history: History) -> None:
        serial(world, history)
        assert all(isinstance(event.value, Commit) for event in history.of("ok"))
        assert len(history.of("ok")) == 2

    return check


def _never_again(one: Verb, other: Verb) -> Callable[[TableWorld, History], None]:
    both = _both_commit(one, other)

    def check(world: TableWorld, history: History) -> None:
        both(world, history)
        assert [event.value.retries for event in history.of("ok")] == [0, 0]

    return check
