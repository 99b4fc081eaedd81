"""Many writers that request the same time."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from reliability.clocks import HOUR_MS
from reliability.counter_table import SCHEMA as COUNTER_SCHEMA
from reliability.counter_table import CounterWorld
from reliability.service_runs import budget
from support.wrapping import WrappedStorage

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.errors import PreconditionFailedError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import create_at
from pyhudi_core.testing import History, Profile, SimOptions, SimWorld
from pyhudi_core.testing.scheduler import RunBounds, ScheduleChoice
from pyhudi_core.testing.sim_clock import START_MS
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout
from pyhudi_core.transaction.begin import TOKEN_KEY, begin_write
from pyhudi_core.transaction.commit import finish


class CountsCollisions(WrappedStorage):
    """A storage that counts the requested times that two writers requested."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.collisions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def put_if_absent(self, path: str, data: bytes) -> Any:
        try:
            return self._storage.put_if_absent(path, data)
        except PreconditionFailedError:
            self.collisions += path.startswith(layout.HEARTBEATS)
            raise


def any_of(chance: random.Random, decision: ScheduleChoice) -> str:
    return chance.choice(decision.options)


def append(world: CounterWorld, group: str) -> str:
    """One commit that creates its own file group."""
    context = world.context()
    transaction = begin_write(context, Action.COMMIT, "UPSERT")
    name = f"{group}_0-0-0_{transaction.requested_time}.parquet"
    commit = CommitMetadata("UPSERT", (WriteStat(group, name, "", rows=1),), {TOKEN_KEY: transaction.token})
    body = encode_record("HoodieCommitMetadata", commit.to_avro(Action.COMMIT), sync_marker=transaction.sync_marker)

    def check(found: Timeline) -> None:
        own, mine = transaction.requested_time, Touched.by(commit)
        concurrent.refuse_conflicts(context, transaction.start, found, own, mine)

    return finish(transaction, lambda notes: body, check).instant.requested_time


@pytest.mark.row("R1", "R8")
def test_collision_birthday() -> None:
    """Twenty writers that commit once a minute, in virtual time. In a day two of them choose one millisecond in 98.6 of 100 cases; here all clocks
    show the same one in every minute, the writers' steps come in any order, and nothing is lost.
    """
    writers, minutes = 20, 2
    counters: list[CountsCollisions] = []
    total: list[int] = []

    def world() -> CounterWorld:
        sim = SimWorld(SimOptions(profile=Profile.S3, tick_ms=0))
        counters.append(CountsCollisions(sim.storage))
        options = {"hoodie.time.generator.max_expected_clock_skew_ms": 1, "hoodie.write.lock.wait_time_ms": HOUR_MS}
        home = OpenedTable(counters[-1], sim.runtime, options, sim.lock)  # type: ignore[arg-type]
        create_at(home, COUNTER_SCHEMA, "id", name="birthday")
        return CounterWorld(sim, home)

    def once_a_minute(world: CounterWorld, number: int) -> list[str]:
        acknowledged = []
        for minute in range(minutes):
            clock = world.sim.clock
            while clock.now_ms() < START_MS + (minute + 1) * 60_000:
                clock.sleep((START_MS + (minute + 1) * 60_000 - clock.now_ms()) / 1000)
            acknowledged.append(append(world, f"fg-{number}-{minute}"))
        return acknowledged

    def check(world: CounterWorld, history: History) -> None:
        acknowledged = sorted(time for event in history.of("ok") for time in event.value)  # type: ignore[attr-defined]
        commits = list(world.context().folder.load().commits)
        assert len(acknowledged) == writers * minutes, [str(event.value) for event in history.of("failed")]
        assert acknowledged == sorted(instant.requested_time for instant in commits), (
            "a commit is lost, or two share a time"
        )
        assert len(set(acknowledged)) == len(acknowledged)
        completions = [instant.completion_time for instant in commits]
        assert completions == sorted(set(completions))
        total.append(len(commits))

    for seed in range(budget(3)):
        chance = random.Random(seed)
        made = world()
        actors = [(f"w{number}", partial(once_a_minute, made, number)) for number in range(writers)]
        made.scheduler.history = History()
        made.scheduler.run(actors, partial(any_of, chance), RunBounds(steps=200_000))
        check(made, made.scheduler.history)
    collisions = sum(counter.collisions for counter in counters)
    print(f"{sum(total)} commits, {collisions} wanted a time that another one had")
    assert collisions > sum(total) / 10
