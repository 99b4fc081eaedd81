"""Two of your own writers on a simulated table: many orders of their steps, crashes, lost answers, and a check of the promises.

Runs without Spark, Java and disk. It needs `pip install 'pyhudi[testing]'`.
"""

from __future__ import annotations

from functools import cache, partial

import pyarrow as pa

import pyhudi as hudi
from pyhudi.testing import (
    Bounds,
    History,
    Image,
    Profile,
    SimOptions,
    SimWorld,
    attempt,
    check_promises,
    explore,
    explore_randomly,
)
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import create_at

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.string())])
OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": 1}


def opened(sim: SimWorld) -> OpenedTable:
    """One process and the location of its table; make a new one for every process."""
    return OpenedTable(sim.storage, sim.runtime, dict(OPTIONS), sim.lock)


@cache
def empty_table() -> Image:
    """Cached, because creating the table again in every run would cost more than the run."""
    sim = SimWorld(SimOptions(profile=Profile.S3))
    create_at(opened(sim), SCHEMA, "id", name="orders")
    return sim.storage.image()


def make_world() -> SimWorld:
    return SimWorld(SimOptions(profile=Profile.S3, image=empty_table(), lease_s=60, shared=is_shared))


def is_shared(path: str) -> bool:
    """Only one writer can name data files and markers; ignoring them removes most of the orders."""
    return not path.endswith((".parquet", ".marker.CREATE", ".marker.MERGE"))


def upsert(sim: SimWorld, key: int, value: str) -> str:
    """The work of one writer. `attempt` records the reported outcome for the check."""
    rows = pa.table({"id": [key], "value": [value]}, schema=SCHEMA)
    return attempt(sim.scheduler, {key: value}, lambda: hudi.HudiTable(opened(sim)).upsert(rows).completion_time)


def check(sim: SimWorld, history: History) -> None:
    """After every run: at every completion time, readers see what was reported to the writers."""
    table = hudi.HudiTable(opened(sim))

    def read(as_of: str) -> list[tuple[int, str]]:
        found = table.scan(columns=["id", "value"], as_of=as_of).to_arrow().to_pylist()
        return [(row["id"], row["value"]) for row in found]

    check_promises(history, [commit.completion_time or "" for commit in table.timeline.commits], read)


ACTORS = [partial(upsert, key=1, value="a1"), partial(upsert, key=1, value="b1")]

if __name__ == "__main__":
    orders = explore(make_world, ACTORS, check, Bounds(preemptions=1, schedules=60))
    print(orders.assert_clean())
    broken = Bounds(preemptions=1, crashes=1, faults={"lost_ack": 1}, schedules=40)
    print(explore_randomly(make_world, ACTORS, check, broken, seed=7).assert_clean())
