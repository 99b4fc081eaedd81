"""`delete(where=...)`, `update`, `merge`, `replace` and `truncate` concurrent with another write, in every order of their steps: the result is that of one after the other.

All first read the matching rows, then write. In between another writer can change which rows match: in the file groups that
are rewritten, in other file groups, and in partitions that it has not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

import pyarrow as pa
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
from reliability.test_conflicts_interleaved import Verb, delete, insert, insert_overwrite, upsert
from support.wrapping import WrappedStorage

from pyhudi_core.errors import CommitConflictError
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, History, SimOptions, explore, explore_randomly
from pyhudi_core.write.result import Commit

Prices = Mapping[tuple[int, str], float]
BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0))
LIMIT = 15.0


def delete_cheap(where: str = f"price < {LIMIT}") -> Verb:
    return Verb(
        lambda table: table.delete(where=where),
        lambda found: {key: price for key, price in found.items() if price >= LIMIT},
    )


def delete_cheap_in(day: str) -> Verb:
    return Verb(
        lambda table: table.delete(where=f"price < {LIMIT} and day = '{day}'"),
        lambda found: {key: price for key, price in found.items() if price >= LIMIT or key[1] != day},
    )


def raise_cheap(where: str = f"price < {LIMIT}") -> Verb:
    return Verb(
        lambda table: table.update({"price": "price * 2"}, where=where),
        lambda found: {key: price * 2 if price < LIMIT else price for key, price in found.items()},
    )


def merge_cheap() -> Verb:
    """Raises what is cheap, and deletes the rest of its partition."""
    source = orders((1, "a", 100.0))
    return Verb(
        lambda table: (
            table.merge(source, on=["id", "day"])
            .when_matched_update({"price": "target.price + source.price"}, where="target.price < 15.0")
            .when_not_matched_by_source_delete("price < 15.0")
            .run()
        ),
        lambda found: {
            key: price + 100.0 if key == (1, "a") and price < LIMIT else price
            for key, price in found.items()
            if price >= LIMIT or key == (1, "a")
        },
    )


def replace_cheap() -> Verb:
    """One row comes in the place of all that are cheap."""
    return Verb(
        lambda table: table.replace(orders((9, "a", 9.0)), where=f"price < {LIMIT}"),
        lambda found: {**{key: price for key, price in found.items() if price >= LIMIT}, (9, "a"): 9.0},
    )


def truncate() -> Verb:
    return Verb(lambda table: table.truncate(), lambda found: {})


VERBS = {
    "delete": delete_cheap(),
    "update": raise_cheap(),
    "merge": merge_cheap(),
    "replace": replace_cheap(),
    "truncate": truncate(),
}


@cache
def setup() -> TableSetup:
    """A world whose storage already has the base table."""
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), dict(FULL))
    made = world_with_rows(*BASE, setup=empty)
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(empty, sim=replace(empty.sim, image=image, start_ms=now + 1_000))


def one_after_the_other(verbs: Mapping[str, Verb]) -> set[tuple[Row, ...]]:
    """The possible results of the calls in sequence."""
    outcomes = set()
    for order in permutations(verbs):
        found: Prices = {(key, day): price for key, day, price in BASE}
        for name in order:
            found = verbs[name].effect(found)
        outcomes.add(tuple(sorted((key, day, price) for (key, day), price in found.items())))
    return outcomes


def actor(verb: Verb) -> Callable[[TableWorld], object]:
    def act(world: TableWorld) -> object:
        return verb.call(world.table())  # false if the other one was first, and left no row that matches

    return act


def both_done(verbs: Mapping[str, Verb]) -> Callable[[TableWorld, History], None]:
    expected = one_after_the_other(verbs)

    def check(world: TableWorld, history: History) -> None:
        assert [history.outcome(name) for name in verbs] == ["ok"] * len(verbs), [history.error(n) for n in verbs]
        assert rows_of(world.table()) in expected
        assert not world.table().timeline.pending.instants

    return check


OTHERS = {
    "a known row comes to match": upsert((2, "a", 5.0)),
    "a known row of another partition comes to match": upsert((3, "b", 5.0)),
    "the row that matched does no more": upsert((1, "a", 50.0)),
    "one comes to match, one does no more": upsert((1, "a", 50.0), (2, "a", 5.0)),
    "a new row matches": upsert((7, "a", 5.0)),
    "a new row of a new partition matches": insert((7, "c", 5.0)),
    "the row that matches is deleted": delete((1, "a", 0.0)),
    "the partition is replaced by rows of which one matches": insert_overwrite((1, "a", 50.0), (2, "a", 5.0)),
    "the same is deleted": delete_cheap(),
    "what matches there is deleted": delete_cheap_in("a"),
    "the same is updated": raise_cheap(),
}
QUICK = {name: OTHERS[name] for name in ("one comes to match, one does no more", "a new row matches")}
"""With these, every order with one interruption is tried; with the others as many as the long run has time for."""


@pytest.mark.one_in(3)
@pytest.mark.row("K5")
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_verb_with_a_condition_beside_another_write_is_as_if_one_came_after_the_other(
    verb: Verb, other: Verb
) -> None:
    verbs = {"a": verb, "b": other}
    actors = [actor(verb) for verb in verbs.values()]
    world = lambda: table_world(setup())  # noqa: E731
    check = both_done(verbs)
    chance = explore_randomly(world, actors, check, Bounds(schedules=budget(12)), seed=7, priorities=True)
    chance.assert_clean()
    assert chance.complete > 6
    if other in QUICK.values() or budget(1) > 1:
        bounds = Bounds(preemptions=1 if budget(1) == 1 else 2, schedules=budget(200))
        report = explore(world, actors, check, bounds).assert_clean()
        print(f"{report.schedules} schedules, {report.complete} checked, {report.states} states, {report.exhausted=}")
        assert report.exhausted or budget(1) > 1, "not every order was tried"


def beside(world: TableWorld, data: pa.Table, always: bool = False, retries: int = 5) -> HudiTable:
    """A table whose commits are overtaken by an upsert, once or always: when their files are written, and before the lock is asked for."""
    upserts: list[Commit] = []

    class Overtaken(WrappedStorage):
        def __getattr__(self, name: str) -> Any:
            real = getattr(world.storage, name)
            if name != "put":
                return real

            def put(path: str, body: bytes) -> object:
                if "/staged/" in path and not world.sim.lock.holder and (always or not upserts):
                    upserts.append(world.table().upsert(data))
                return real(path, body)

            return put

    storage: Any = Overtaken()
    home = world.home(storage)
    return HudiTable(replace(home, options={**home.options, "pyhudi.commit.retries": retries}))


@pytest.mark.row("K5")
@pytest.mark.parametrize(
    ("data", "left"),
    [
        (((2, "a", 5.0),), ((3, "b", 30.0),)),
        (((1, "a", 50.0), (2, "a", 5.0)), ((1, "a", 50.0), (3, "b", 30.0))),
    ],
    ids=["comes to match", "one comes to, one no longer"],
)
def test_a_delete_that_was_staged_before_the_rows_changed_looks_again(
    data: tuple[Row, ...], left: tuple[Row, ...]
) -> None:
    """The upsert commits when the delete has found its rows and written its files, but not decided yet."""
    world = table_world(setup())
    commit = beside(world, orders(*data)).delete(where=f"price < {LIMIT}")
    assert commit.retries == 1
    assert len(world.table().timeline.commits) == 3
    assert rows_of(world.table()) == left


def test_a_delete_whose_rows_match_no_more_deletes_nothing_and_says_so() -> None:
    world = table_world(setup())
    result = beside(world, orders((1, "a", 50.0))).delete(where=f"price < {LIMIT}")
    assert not result
    assert result.reason == "no row matches the condition"
    assert rows_of(world.table()) == ((1, "a", 50.0), (2, "a", 20.0), (3, "b", 30.0))
    assert not world.table().timeline.pending.instants


def test_a_delete_whose_rows_keep_changing_gives_up_with_nothing_deleted() -> None:
    world = table_world(setup())
    with pytest.raises(CommitConflictError):
        beside(world, orders((1, "a", 1.0)), always=True, retries=2).delete(where=f"price < {LIMIT}")
    assert rows_of(world.table()) == ((1, "a", 1.0), (2, "a", 20.0), (3, "b", 30.0))
    assert not world.table().timeline.pending.instants


GONE = {
    "all rows": truncate(),
    "the rows of all partitions": Verb(
        lambda table: table.insert_overwrite_table(orders((8, "q", 80.0))), lambda found: {(8, "q"): 80.0}
    ),
    "the partition": Verb(
        lambda table: table.delete_partitions(["day=a"]),
        lambda found: {key: price for key, price in found.items() if key[1] != "a"},
    ),
    "the rows of the partition": insert_overwrite((7, "a", 70.0)),
    "the row": delete((1, "a", 0.0)),
}
ALONE = {"hoodie.parquet.small.file.limit": 0}
"""New rows get files of their own, so no file group says that two writes are about one row."""


@pytest.mark.row("K5")
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
@pytest.mark.parametrize("verb", [raise_cheap(), merge_cheap()], ids=["update", "merge"])
def test_a_row_that_is_deleted_when_a_verb_has_read_it_and_not_begun_to_write_does_not_come_back(
    verb: Verb, gone: Verb, kind: str
) -> None:
    options = {**FULL, **ALONE, "hoodie.table.type": kind, "hoodie.compact.inline.max.delta.commits": 1}
    world = world_with_rows(*BASE, setup=TableSetup(options=options))
    began: list[str] = []

    class Overtaken(WrappedStorage):
        def __getattr__(self, name: str) -> Any:
            real = getattr(world.storage, name)
            if name != "put_if_absent":
                return real

            def put(path: str, body: bytes) -> object:
                if "/.heartbeat/" in path and not began:
                    began.append(path)
                    gone.call(world.table())
                return real(path, body)

            return put

    storage: Any = Overtaken()
    verb.call(HudiTable(world.home(storage)))
    after = verb.effect(gone.effect({(key, day): price for key, day, price in BASE}))
    assert began
    assert rows_of(world.table()) == tuple(sorted((key, day, price) for (key, day), price in after.items()))
    assert not world.table().timeline.pending.instants
