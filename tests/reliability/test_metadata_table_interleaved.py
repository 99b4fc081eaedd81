"""Two writers on a table of each type with a metadata table: in every order its listing, statistics and record index stay correct (P1 and P10)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest
from reliability.real_table import OPTIONS, TableSetup, TableWorld, is_shared, orders, rows_of, table_world
from support.metadata_tables import assert_metadata_is_true, build, left_in_metadata_table

from pyhudi_core.errors import CommitConflictError, DuplicateKeyError
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, History, SimOptions, explore, explore_randomly

FACTOR = int(os.environ.get("PYHUDI_EXPLORE", "1"))
TYPES = {
    "copy-on-write": {},
    "merge-on-read": {"hoodie.table.type": "MERGE_ON_READ", "hoodie.compact.inline.max.delta.commits": 1},
}
"""Writes of the second type leave logs beside the base files, and record index and statistics have to know both."""
BASE = ((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))


@cache
def _setup(table_type: str) -> TableSetup:
    setup = TableSetup(SimOptions(lease_s=60, shared=is_shared), {**OPTIONS, **TYPES[table_type]})
    made = table_world(setup)
    made.create()
    made.table().insert(orders(*BASE))
    build(made.table())
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(setup, sim=replace(setup.sim, image=image, start_ms=now + 1_000))


def _world(table_type: str) -> TableWorld:
    return table_world(_setup(table_type))


def _actor(call: Callable[[HudiTable], object]) -> Callable[[TableWorld], object]:
    def act(world: TableWorld) -> object:
        try:
            return call(world.table())
        except (DuplicateKeyError, CommitConflictError) as refused:
            return refused

    return act


def it_is_true(world: TableWorld, history: History) -> None:
    """Nobody failed, the metadata table was not given up, and it says what is so."""
    assert not history.of("failed"), [str(event.value) for event in history.of("failed")]
    table = world.table()
    assert_metadata_is_true(table)
    assert not left_in_metadata_table(table)
    keys = [row[0] for row in rows_of(table)]
    assert len(keys) == len(set(keys)), "a key is in two partitions, and the record index knows one place"


PAIRS: dict[str, tuple[Callable[[HudiTable], object], Callable[[HudiTable], object]]] = {
    "upserts of one file group": (
        lambda table: table.upsert(orders((1, "a", 10.0), (7, "a", 7.0))),
        lambda table: table.upsert(orders((2, "a", 20.0), (8, "a", 8.0))),
    ),
    "an upsert and a delete": (
        lambda table: table.upsert(orders((3, "b", 30.0), (9, "new", 9.0))),
        lambda table: table.delete(orders((1, "a", 0.0)).select(["id", "day"])),
    ),
    "an upsert and an overwriting": (
        lambda table: table.upsert(orders((1, "a", 10.0), (7, "b", 7.0))),
        lambda table: table.insert_overwrite_table(orders((2, "a", 20.0))),
    ),
    "one new key in two partitions": (
        lambda table: table.upsert(orders((7, "a", 7.0))),
        lambda table: table.upsert(orders((7, "b", 70.0))),
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.row("K8", "P10")
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("pair", PAIRS)
def test_the_metadata_table_is_true_after_two_writers(pair: str, table_type: str) -> None:
    actors = [_actor(verb) for verb in PAIRS[pair]]
    explore_randomly(
        partial(_world, table_type), actors, it_is_true, Bounds(schedules=3 * FACTOR), seed=5
    ).assert_clean()


@pytest.mark.slow
@pytest.mark.row("K8", "P10")
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("pair", PAIRS)
def test_the_metadata_table_is_true_after_two_writers_with_any_one_switch_between_them(
    pair: str, table_type: str
) -> None:
    actors = [_actor(verb) for verb in PAIRS[pair]]
    explore(partial(_world, table_type), actors, it_is_true, Bounds(preemptions=1)).assert_clean()
