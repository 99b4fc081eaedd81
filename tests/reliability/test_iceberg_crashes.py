"""A sync of the Iceberg metadata that dies at any call: readers see the state before or after, and the next sync finishes it.

The world is simulated, where no other engine reads. So the files that the metadata names are compared with those of the table; `iceberg_walk` has
the other engines.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache

import pytest
from reliability.crash_scenarios import audit
from reliability.real_table import FULL, Row, TableSetup, TableWorld, orders, world_with_rows
from reliability.service_runs import crash, crash_scenario

from pyhudi_core.iceberg import retention, table_metadata
from pyhudi_core.iceberg.file_changes import every_file
from pyhudi_core.iceberg.tree import Tree
from pyhudi_core.testing import Profile, SimOptions
from pyhudi_core.testing.crash_cases import Audit, CrashPlan
from pyhudi_core.write.states import load

BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0))
OPTIONS = {**FULL, "pyhudi.iceberg.snapshots": 2}


@cache
def _setup() -> TableSetup:
    """A world whose metadata does not know the two newest commits, and lets older snapshots go at the next sync."""
    empty = TableSetup(SimOptions(lease_s=60, shared=SimOptions().shared), OPTIONS)
    made = world_with_rows(*BASE, setup=empty)
    made.table().iceberg.sync()
    for price in (11.0, 12.0):
        made.table().upsert(orders((1, "a", price)))
    image, now = made.storage.image(), made.scheduler.time_ms
    return TableSetup(SimOptions(lease_s=60, shared=SimOptions().shared, image=image, start_ms=now + 1_000), OPTIONS)


def sync(world: TableWorld) -> object:
    return world.table().iceberg.sync()


def next_sync(world: TableWorld) -> None:
    world.table().upsert(orders((90, "a", 90.0)))
    sync(world)


def named(world: TableWorld) -> tuple[set[str], set[str]]:
    """The data files that the newest version names, and those of the table."""
    context = world.table()._opened.context()
    found = table_metadata.load(context.storage)
    assert found is not None
    assert found.current is not None
    root = retention.location_of(context)
    tree = Tree.open(root, retention.reader_of(context.storage, root), found.current["manifest-list"])
    there = {entry["data_file"]["file_path"].removeprefix(f"{root}/") for entry in tree.every_file()}
    return there, {file.path for file in every_file(context, load(context))}


def audited(world: TableWorld, rows: Hashable) -> Audit:
    found = audit(world, rows)
    there, wanted = named(world)
    wrong = () if there == wanted else (f"the metadata names {there - wanted} and not {wanted - there}",)
    return Audit((*found.problems, *wrong), found.leaks, found.left_overs)


@pytest.mark.row("T3", "K11")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_sync_that_dies_at_any_call_is_finished_by_the_next_one(profile: Profile) -> None:
    crash(crash_scenario("iceberg", _setup(), sync, next_sync, profile, audited=audited), CrashPlan())
