"""Leaving out orders that nobody can tell apart leaves out nothing that can happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import PreconditionFailedError
from pyhudi_core.testing import Bounds, History, SimulationError, SimWorld, explore, explore_all

NAMES = ("x/1", "x/2", "y/1")
STEPS = (*((verb, name) for verb in ("get", "put", "create", "delete") for name in NAMES), ("list", "x/"), ("lock", ""))
Program = list[tuple[str, str]]


def actor(number: int, program: Program) -> Callable[[SimWorld], tuple[Any, ...]]:
    """Makes the steps one after the other, and returns what it saw; a lock is held until the end."""

    def act(world: SimWorld) -> tuple[Any, ...]:
        held = None
        seen: list[Any] = []
        for count, (verb, name) in enumerate(program):
            content = f"{number} {count}".encode()
            if verb == "get":
                seen.append(world.storage.get(name) if world.storage.head(name) else None)
            elif verb == "put":
                world.storage.put(name, content)
            elif verb == "create":
                seen.append(create(world, name, content))
            elif verb == "delete":
                world.storage.delete(name)
            elif verb == "list":
                seen.append(tuple((info.path, info.etag) for info in world.storage.list(name)))
            elif held is None:
                held = world.lock.acquire(60)
        if held is not None:
            held.release()
        return tuple(seen)

    return act


def create(world: SimWorld, name: str, content: bytes) -> bool:
    try:
        world.storage.put_if_absent(name, content)
    except PreconditionFailedError:
        return False
    return True


def ends(search: Callable[..., Any], programs: list[Program]) -> tuple[set[Any], Any]:
    """Everything that can come out: what is stored, what each actor saw or failed with, and in which order they ended."""
    found: set[Any] = set()

    def remember(world: SimWorld, history: History) -> None:
        stored = tuple(sorted((path, stored.data) for path, stored in world.storage.image().items()))
        found.add((stored, tuple((event.actor, event.kind, str(event.value)) for event in history.events)))

    report = search(SimWorld, [actor(n, program) for n, program in enumerate(programs)], remember, Bounds())
    assert report.exhausted
    return found, report.assert_clean()


programs = st.lists(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3), min_size=2, max_size=3)


@settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)
@given(programs)
def test_all_ends_are_reached_that_any_schedule_reaches(chosen: list[Program]) -> None:
    everything, long = ends(explore, chosen)
    found, short = ends(explore_all, chosen)
    assert found == everything
    assert short.schedules <= long.schedules


def test_actors_that_touch_nothing_in_common_need_few_schedules() -> None:
    chosen: list[Program] = [[("put", "x/1")] * 6, [("put", "x/2")] * 6]
    _, long = ends(explore, chosen)
    _, short = ends(explore_all, chosen)
    assert short.schedules * 3 < long.schedules


def test_a_lost_update_is_found() -> None:
    def increment(world: SimWorld) -> None:
        world.storage.put("counter", str(int(world.storage.get("counter")) + 1).encode())

    def counted() -> SimWorld:
        world = SimWorld()
        world.storage.put("counter", b"0")
        return world

    def nothing_is_lost(world: SimWorld, history: History) -> None:
        assert world.storage.get("counter") == b"2"

    report = explore_all(counted, [increment, increment], nothing_is_lost)
    assert report.violation is not None
    assert not report.exhausted


@pytest.mark.parametrize("bounds", [Bounds(preemptions=1), Bounds(crashes=1), Bounds(faults={"expire_lock": 1})])
def test_bounds_that_count_steps_are_refused(bounds: Bounds) -> None:
    with pytest.raises(SimulationError):
        explore_all(SimWorld, [lambda world: None], lambda world, history: None, bounds)
