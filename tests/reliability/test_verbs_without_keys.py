"""`update`, `merge` and `replace` on tables that generate their keys: crashed at storage calls, and beside another writer in every order of their steps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

import pytest
from reliability.crash_scenarios import KEPT, NEXT, Case, Operation, leaks_of, setup_for
from reliability.crash_states import BEFORE
from reliability.real_table import FULL, SCHEMA, TableSetup, TableWorld, is_shared, orders, rows_of, table_world
from reliability.service_runs import budget, in_many_orders
from reliability.test_merge_on_read_crashes import MERGE_ON_READ

from pyhudi_core.conflicts.requirement import EntryIsOurs
from pyhudi_core.errors import CommitRequirementError
from pyhudi_core.opening import create_at
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere

KINDS: Mapping[str, Mapping[str, object]] = {"copy-on-write": {}, "merge-on-read": MERGE_ON_READ}


def filled(world: TableWorld) -> None:
    create_at(world.home(), SCHEMA, (), "day", name="orders")
    world.table().insert(orders(*BEFORE[:2]))
    world.table().insert(orders(*BEFORE[2:]))


def update(world: TableWorld) -> object:
    return world.table().update({"price": "price * 2"}, where="day = 'b'")


def merge(world: TableWorld) -> object:
    """Changes the row 1, inserts the row 4, and deletes the rest of what is cheap."""
    return (
        world.table()
        .merge(orders((1, "a", 10.0), (4, "a", 4.0)), on=["id", "day"])
        .when_matched_update({"price": "source.price"})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("price < 2.5")
        .run()
    )


def replace_day(world: TableWorld) -> object:
    return world.table().replace(orders((2, "b", 20.0), (9, "b", 9.0)), where="day = 'b'")


ADDED = "added"
ONCE = EntryIsOurs(ADDED, "", "the row of the next writer")
VERBS: Mapping[str, Operation] = {"update": update, "merge": merge, "replace": replace_day}
AFTER = {
    "update": ((1, "a", 1.0), (2, "b", 4.0), (3, "b", 6.0)),
    "merge": ((1, "a", 10.0), (3, "b", 3.0), (4, "a", 4.0)),
    "replace": ((1, "a", 1.0), (2, "b", 20.0), (9, "b", 9.0)),
}


def add(world: TableWorld) -> object:
    """A writer whose row no verb here finds."""
    return world.table().insert(orders(*NEXT))


def proceed(world: TableWorld) -> None:
    """The writer after a crash, which may crash too and is run again then.

    An insert without a key is another row each time. So the commit has an entry, and requires that no commit has the entry yet.
    """
    with world.table().begin("insert", extra_metadata={ADDED: "1"}, requirements=[ONCE]) as write:
        write.write(orders(*NEXT))
        with suppress(CommitRequirementError):
            write.commit()


def crash(name: str, kind: str, profile: Profile, plan: CrashPlan) -> None:
    case = Case(VERBS[name], filled)
    setup = setup_for(profile, **KINDS[kind])
    scenario = replace(case.named(f"{name}_without_keys", setup), proceed=proceed)
    report = crash_everywhere(scenario, plan).assert_clean()
    assert leaks_of([report]) <= KEPT


@pytest.mark.row("K11")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_on_a_table_without_keys_that_dies_is_there_or_is_not(name: str, kind: str) -> None:
    crash(name, kind, Profile.S3, CrashPlan(share=0.02, every_site=False, twice=0.0))


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_on_a_table_without_keys_that_dies_at_any_call_is_there_or_is_not(
    name: str, kind: str, profile: Profile
) -> None:
    crash(name, kind, profile, CrashPlan(twice=0.1))


# --- beside another writer


@cache
def _setup(kind: str) -> TableSetup:
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), {**FULL, **KINDS[kind]})
    made = table_world(empty)
    filled(made)
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(empty, sim=replace(empty.sim, image=image, start_ms=now + 1_000))


def both(name: str, world: TableWorld, history: History) -> None:
    """Both are done, and the rows are those of one after the other."""
    assert not list(history.of("failed")), history
    assert rows_of(world.table()) == tuple(sorted((*AFTER[name], *NEXT)))
    assert not world.table().timeline.pending.instants
    keys = world.table().scan(["_hoodie_record_key"]).to_arrow().column(0)
    assert len(keys.unique()) == len(keys), "two rows have one generated key"


def beside(name: str, kind: str, bounds: Bounds, by_chance: int) -> None:
    check = partial(both, name)
    in_many_orders(f"{name} without keys", _setup(kind), (VERBS[name], add), check, bounds, by_chance)


@pytest.mark.one_in(2)
@pytest.mark.row("K5")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_on_a_table_without_keys_beside_an_insert_loses_no_row(name: str, kind: str) -> None:
    beside(name, kind, Bounds(preemptions=1, schedules=budget(12)), budget(6))


@pytest.mark.slow
@pytest.mark.row("K5")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_on_a_table_without_keys_beside_an_insert_loses_no_row_in_far_more_orders(name: str, kind: str) -> None:
    beside(name, kind, Bounds(preemptions=2, schedules=600), 200)
