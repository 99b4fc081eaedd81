"""Non-blocking concurrency control in many orders of steps: writers of one file group both commit at the first attempt, also beside a compaction,
and what dies at any call is there or is not (promises P1 to P4).

Event time is the price, so the row with the higher price wins, whoever commits last. The quick suite takes a share of the cases; the slow tests take
all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from reliability.real_table import OPTIONS, SCHEMA, Row, TableSetup, TableWorld, is_shared, orders, rows_of, table_world
from reliability.service_runs import Act, Check, crash, crash_scenario, few_or_many, in_many_orders
from support.samples import one_in

from pyhudi_core.opening import create_at
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.write.result import Commit

MODE = {
    **OPTIONS,
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": 1,
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0))
"""Two file groups, each of one log."""


@cache
def setup(planned: bool = False, empty: bool = False) -> TableSetup:
    """A world with the table. ``planned``: a compaction of it is on the timeline. ``empty``: no bucket has a file group yet."""
    chosen = TableSetup(SimOptions(lease_s=60, shared=is_shared), MODE)
    made = table_world(chosen)
    table = create_at(made.home(), SCHEMA, "id", "day", ordering="price", name="orders")
    if not empty:
        table.upsert(orders(*BASE))
    if planned:
        made.table().compaction.schedule()
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(chosen, sim=replace(chosen.sim, image=image, start_ms=now + 1_000))


def upsert(*rows: Row) -> Act:
    return lambda world: world.table().upsert(orders(*rows))


def delete(*keys: tuple[int, str]) -> Act:
    return lambda world: world.table().delete(orders(*((*key, 0.0) for key in keys)).select(["id", "day"]))


def overwrite(world: TableWorld) -> object:
    return world.table().insert_overwrite(orders((9, "a", 9.0)))


def drop(world: TableWorld) -> object:
    return world.table().delete_partitions(["day=a"], missing_ok=True)


def compact(world: TableWorld) -> object:
    return world.table().compaction.run()


def execute(world: TableWorld) -> object:
    return world.table().compaction.execute()


def leaves(*outcomes: tuple[Row, ...], at_once: bool = True) -> Check:
    """The check: both have ended well, ``at_once`` without planning again, and the rows are one of the outcomes, also after a compaction."""

    def check(world: TableWorld, history: History) -> None:
        assert not list(history.of("failed")), history
        commits = [event.value for event in history.of("ok") if isinstance(event.value, Commit)]
        assert not at_once or [commit.retries for commit in commits] == [0] * len(commits)
        found = rows_of(world.table())
        assert found in {tuple(sorted(outcome)) for outcome in outcomes}, found
        logs = {info.path for info in world.storage.list("") if ".log." in info.path and not info.path.startswith(".")}
        table = world.table()
        named = {stat.path for instant in table.timeline.commits for stat in table.commit_metadata(instant).stats}
        assert logs <= named, "a log file stayed that no commit names"
        world.table().compaction.execute()
        world.table().compaction.run()
        table = world.table()
        assert rows_of(table) == found, "a compaction changed rows"
        assert len(table.scan(["id"], mode="read_optimized").to_arrow()) == len(found)
        assert table.check().ok, table.check().findings

    return check


ONE, TWO, THREE = BASE
PAIRS: dict[str, tuple[Callable[[], TableSetup], Act, Act, Check]] = {
    "updates of one row": (setup, upsert((1, "a", 12.0)), upsert((1, "a", 11.0)), leaves(((1, "a", 12.0), TWO, THREE))),
    "two first writers of a bucket": (
        lambda: setup(empty=True), upsert((1, "a", 2.0), (4, "a", 1.0)), upsert((1, "a", 3.0), (5, "a", 1.0)),
        leaves(((1, "a", 3.0), (4, "a", 1.0), (5, "a", 1.0))),
    ),
    "a new key twice in a new partition": (
        setup, upsert((7, "c", 7.0)), upsert((7, "c", 8.0), (1, "a", 15.0)),
        leaves(((1, "a", 15.0), TWO, THREE, (7, "c", 8.0))),
    ),
    "an update and a delete": (
        setup, upsert((1, "a", 11.0)), delete((1, "a"), (2, "a")),
        leaves((THREE, (1, "a", 11.0)), (THREE,)),
    ),
    "an update and a compaction": (setup, upsert((1, "a", 11.0)), compact, leaves(((1, "a", 11.0), TWO, THREE))),
    "an update and a planned compaction": (
        lambda: setup(planned=True), upsert((1, "a", 11.0), (4, "a", 4.0)), execute,
        leaves(((1, "a", 11.0), TWO, THREE, (4, "a", 4.0))),
    ),
    "an update and an overwrite": (
        setup, upsert((1, "a", 11.0)), overwrite,
        leaves(((9, "a", 9.0), THREE), ((9, "a", 9.0), (1, "a", 11.0), THREE), at_once=False),
    ),
    "an update and a deleted partition": (
        setup, upsert((1, "a", 11.0)), drop,
        leaves((THREE,), ((1, "a", 11.0), THREE), at_once=False),
    ),
}  # fmt: skip


@few_or_many((8, 4), (2_000, 500))
@pytest.mark.row("M2", "K5", "K7")
@pytest.mark.parametrize("name", one_in(3, PAIRS))
def test_writers_that_do_not_block_each_other_lose_no_row(name: str, bounds: Bounds, by_chance: int) -> None:
    world, one, other, check = PAIRS[name]
    in_many_orders(name, world(), (one, other), check, bounds, by_chance)


# --- crashes


def next_writer(world: TableWorld) -> None:
    world.table().upsert(orders((90, "a", 90.0)))
    world.table().compaction.take_over()
    world.table().compaction.execute()


CRASHED: dict[str, Act] = {
    "new bucket": upsert((4, "n", 4.0), (1, "a", 11.0)),
    "delete": delete((1, "a"), (3, "b")),
    "compact": compact,
}


@pytest.mark.row("M2", "K11")
def test_a_first_log_that_dies_at_any_call_is_there_or_is_not() -> None:
    scenario = crash_scenario("new bucket", setup(), CRASHED["new bucket"], next_writer, Profile.S3)
    crash(scenario, CrashPlan(share=0.02, every_site=False))


@pytest.mark.slow
@pytest.mark.row("M2", "K11")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", CRASHED)
def test_a_non_blocking_write_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(crash_scenario(name, setup(), CRASHED[name], next_writer, profile), CrashPlan(twice=0.1))
