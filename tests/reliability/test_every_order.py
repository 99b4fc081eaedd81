"""Two actors in every order, without a bound on preemptions. If that takes too long, the test prints the bound that it reached."""

from __future__ import annotations

import pytest
from reliability.kv_table import (
    KvWorld,
    What,
    Wrote,
    consistent,
    stage,
)
from reliability.test_interleavings import (
    DEATHS,
    FACTOR,
    Actor,
    all_succeed,
    nothing_is_left_of_the_dead,
    run,
    two_keys_in_one_group,
    upsert,
    with_a_dead_writer,
)

from pyhudi_core.errors import CommitConflictError
from pyhudi_core.testing import Bounds, History
from pyhudi_core.transaction.rollback import repair


def write_once(what: What) -> Actor:
    """A write without repair and without retries; everything else is as shipped."""

    def act(world: KvWorld) -> tuple[Wrote, ...]:
        try:
            return (stage(world, world.context(), what).finish(),)
        except CommitConflictError as conflict:
            world.failures.append(conflict)
            return ()

    return act


def one_of_both_or_both(world: KvWorld, history: History) -> None:
    consistent(world, history)
    written = sum(len(event.value) for event in history.of("ok"))
    assert written + len(world.failures) == 2
    assert written > 0, "both were refused, because of each other"


PAIRS: dict[str, tuple[tuple[What, What], bool]] = {
    "upsert_vs_upsert_same_group": ((What("k1", "a1"), What("k2", "b1")), True),
    "upsert_vs_upsert_same_key": ((What("k1", "a1"), What("k1", "b1")), True),
    "insert_vs_insert_same_key": ((What("k1", "a1", "fg1"), What("k1", "b1", "fg2")), False),
    "insert_vs_insert_different_groups": ((What("k1", "a1", "fg1"), What("k2", "b1", "fg2")), False),
}
"""Two writes, and whether their keys are in the first file group before."""


@pytest.mark.slow
@pytest.mark.row("K2")
@pytest.mark.row("K5")
@pytest.mark.parametrize("pair", PAIRS)
def test_two_writes_in_every_order(pair: str) -> None:
    """P1, P2, P4: all orders of two writes."""
    (first, second), is_there = PAIRS[pair]
    start = two_keys_in_one_group() if is_there else None
    assert run((write_once(first), write_once(second)), Bounds(), start, one_of_both_or_both).exhausted


@pytest.mark.row("R9")
def test_a_write_and_a_repair_in_every_order() -> None:
    """P7: a repair never rolls back a living writer."""
    actors = (upsert(What("k1", "a1")), lambda world: repair(world.context()))
    assert run(actors, Bounds(), check=all_succeed).exhausted


@pytest.mark.slow
@pytest.mark.parametrize("death", DEATHS)
def test_two_repairs_of_one_dead_writer_in_every_order(death: str) -> None:
    """P7: as far as 4,000 schedules go."""
    actors = (lambda world: repair(world.context()), lambda world: repair(world.context()))
    run(actors, Bounds(schedules=4000 * FACTOR), with_a_dead_writer(death), nothing_is_left_of_the_dead)


@pytest.mark.slow
def test_upserts_that_plan_anew_in_many_orders() -> None:
    """P1, P2, with repair, rollback and a second plan: as far as 10,000 schedules go."""
    actors = (upsert(What("k1", "a1")), upsert(What("k2", "b1")))
    run(actors, Bounds(schedules=10_000 * FACTOR), two_keys_in_one_group(), all_succeed)
