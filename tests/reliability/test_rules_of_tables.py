"""The rules of a table beside writers, in every order of their steps, and crashed at storage calls: no row is ever against a rule of the table."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace

import pytest
from reliability import crash_states as states
from reliability.crash_scenarios import KEPT, NEXT, Case, leaks_of, setup_for
from reliability.real_table import TableWorld, orders, rows_of, table_world
from reliability.service_runs import budget
from reliability.test_deletes_by_condition import setup

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.testing import Bounds, History, Profile, explore
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere

Actor = Callable[[TableWorld], object]
CHECK = {"cheap": "price < 1000"}
AGAINST = 5_000.0


def add_rule(world: TableWorld) -> object:
    return world.table().alter(add_check=CHECK, not_null="price", comment={"price": "in euro"})


def write_against(world: TableWorld) -> object:
    return world.table().upsert(orders((1, "a", AGAINST)))


def update_against(world: TableWorld) -> object:
    return world.table().update({"price": f"{AGAINST}"}, where="id = 1")


def drop_rule(world: TableWorld) -> object:
    return world.table().alter(drop_check="cheap", nullable="price", comment={"price": None})


def kept(world: TableWorld, history: History) -> None:
    """One of the two was first, and the other one found it."""
    del history
    table = world.table()
    dear = [price for _, _, price in rows_of(table) if price >= AGAINST]
    assert not (dear and table.rules.checks), "a row is against a rule"
    assert dear or table.rules.checks, "one of the two succeeds"
    assert not table.timeline.pending.instants


@pytest.mark.row("K11")
@pytest.mark.parametrize("other", [write_against, update_against])
def test_no_row_is_against_a_rule_in_any_order_of_a_write_and_a_new_rule(other: Actor) -> None:
    report = explore(
        lambda: table_world(setup()), [add_rule, other], kept, Bounds(preemptions=1, schedules=budget(200))
    )
    assert report.assert_clean().exhausted, "not every order was tried"


def read(world: TableWorld) -> Hashable:
    """The rows, each with the rules."""
    table = world.table()
    rules = str(sorted(table.rules.to_properties().items()))
    return tuple((*row, rules) for row in rows_of(table))


def proceed(world: TableWorld) -> None:
    """The next writer has a row that keeps the rules; it looks again if its own write published a decided change."""
    with suppress(SchemaMismatchError):
        world.table().upsert(orders(*NEXT))
        return
    world.table().upsert(orders(*NEXT))


def ruled(world: TableWorld) -> None:
    states.filled(world)
    add_rule(world)


CASES = {"added": Case(add_rule), "dropped": Case(drop_rule, ruled)}


def crash(name: str, kind: Profile, plan: CrashPlan) -> None:
    scenario = replace(CASES[name].named(f"rules_{name}", setup_for(kind)), read=read, proceed=proceed)
    report = crash_everywhere(scenario, plan).assert_clean()
    assert leaks_of([report]) <= KEPT


@pytest.mark.row("K11")
@pytest.mark.parametrize("name", CASES)
def test_rules_are_changed_wholly_or_not_at_all_wherever_the_process_dies(name: str) -> None:
    crash(name, Profile.S3, CrashPlan(share=0.1, twice=0.0))


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", CASES)
def test_rules_are_changed_wholly_or_not_at_all_after_a_crash_at_every_call(name: str, kind: Profile) -> None:
    crash(name, kind, CrashPlan(twice=0.1))
