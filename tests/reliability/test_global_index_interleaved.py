"""Two writers under a global index, in every order: a key is in one partition, its last row's, and no reader sees it twice or missing (P1, P2,
P4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
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

from pyhudi_core.errors import CommitConflictError, DuplicateKeyError
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.testing import Bounds, History, SimOptions, explore, explore_randomly
from pyhudi_core.write.result import Commit

FACTOR = int(os.environ.get("PYHUDI_EXPLORE", "1"))
BASE: tuple[Row, ...] = ((1, "a", 1.0), (2, "b", 2.0))
ALL_ON = Protections()
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
PAIRS: dict[str, tuple[Row, Row]] = {
    "one new key in two partitions": ((7, "a", 7.0), (7, "b", 70.0)),
    "a move and an update": ((1, "b", 10.0), (1, "a", 11.0)),
    "two moves of one key": ((1, "b", 10.0), (1, "c", 11.0)),
    "a move and a new key beside it": ((1, "b", 10.0), (8, "b", 8.0)),
}


@cache
def _setup(kind: str, protections: Protections) -> TableSetup:
    options = {**FULL, "hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.table.type": kind}
    setup = TableSetup(SimOptions(lease_s=60, shared=is_shared), options, protections)
    made = world_with_rows(*BASE, setup=setup)
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(setup, sim=replace(setup.sim, image=image, start_ms=now + 1_000))


def _world(kind: str, protections: Protections = ALL_ON) -> TableWorld:
    return table_world(_setup(kind, protections))


def _writer(row: Row) -> Callable[[TableWorld], object]:
    def act(world: TableWorld) -> object:
        try:
            return world.table().upsert(orders(row))
        except (DuplicateKeyError, CommitConflictError) as refused:
            return refused

    return act


def _reader(world: TableWorld) -> object:
    """A concurrent reader: each key of the base table exists once."""
    keys = sorted(row[0] for row in rows_of(world.table()))
    assert [key for key in keys if key <= 2] == [1, 2], keys
    return "read"


def _last_row_wins(rows: Mapping[str, Row]) -> Callable[[TableWorld, History], None]:
    """The check: the rows are those of the successful writes in the order of their completion, each key once."""

    def check(world: TableWorld, history: History) -> None:
        assert not history.of("failed"), [str(event.value) for event in history.of("failed")]
        done = {event.actor: event.value for event in history.of("ok") if isinstance(event.value, Commit)}
        expected = {row[0]: row for row in BASE}
        for name in sorted(done, key=lambda name: done[name].completion_time):
            expected[rows[name][0]] = rows[name]
        assert rows_of(world.table()) == tuple(sorted(expected.values()))

    return check


@pytest.mark.one_in(2)
@pytest.mark.row("K8", "I10")
@pytest.mark.parametrize(
    ("pair", "kind"),
    [*((pair, "COPY_ON_WRITE") for pair in PAIRS), ("a move and an update", "MERGE_ON_READ")],
)
def test_a_key_is_once_where_its_last_row_said_whatever_two_writers_do(pair: str, kind: str) -> None:
    one, other = PAIRS[pair]
    actors = [_writer(one), _writer(other), _reader]
    check = _last_row_wins({"a": one, "b": other})
    explore_randomly(lambda: _world(kind), actors, check, Bounds(schedules=3 * FACTOR), seed=3).assert_clean()


@pytest.mark.slow
@pytest.mark.row("K8", "I10")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("pair", PAIRS)
def test_the_same_with_any_one_switch_between_them(pair: str, kind: str) -> None:
    one, other = PAIRS[pair]
    check = _last_row_wins({"a": one, "b": other})
    actors = [_writer(one), _writer(other)]
    explore(lambda: _world(kind), actors, check, Bounds(preemptions=1)).assert_clean()


def test_without_the_comparison_of_keys_a_new_key_comes_into_two_partitions() -> None:
    """What the comparison across partitions is for."""
    one, other = PAIRS["one new key in two partitions"]
    off = Protections(key_check=False)
    check = _last_row_wins({"a": one, "b": other})
    report = explore_randomly(
        lambda: _world("COPY_ON_WRITE", off), [_writer(one), _writer(other)], check, Bounds(schedules=10), seed=3
    )
    assert report.violation is not None
