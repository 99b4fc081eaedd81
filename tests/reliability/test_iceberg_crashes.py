"""A sync of the Iceberg metadata that dies at any call: readers see the state before or after, and the next sync finishes it.

The world is simulated, where no other engine reads. So all that the metadata says of each file is compared with what a sync that begins anew would say;
`iceberg_walk` has the other engines.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache

import pytest
from reliability.crash_scenarios import audit
from reliability.real_table import FULL, Row, TableSetup, TableWorld, orders, world_with_rows
from reliability.service_runs import crash, crash_scenario

from pyhudi_core.iceberg import table_metadata
from pyhudi_core.iceberg.file_changes import every_file, statistics_of
from pyhudi_core.iceberg.new_version import NewVersion
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


def states(world: TableWorld) -> tuple[dict[str, object], dict[str, object]]:
    """What the newest version says of each data file (rows, bytes, partition, metrics), and what a sync that begins anew would say. Reads the
    manifests of every kept snapshot.
    """
    context = world.table()._opened.context()
    found = table_metadata.load(context.storage)
    assert found is not None
    assert found.current is not None
    version = NewVersion.after(context, found, load(context))
    files: dict[int, dict[str, object]] = {}
    for one in found.snapshots:
        version.go_on(one)
        entries = [entry["data_file"] for entry in version.tree.every_file()]
        files[one["snapshot-id"]] = {entry["file_path"]: plain(entry) for entry in entries}
    anew = NewVersion.after(context, None, version.state)
    anew.take_columns(None, "", compared=False)
    there = every_file(context, version.state)
    made = anew.made(version.state.timeline.commits[-1], statistics_of(context, version.state, there, anew.spec()))
    wanted = [made.entry(file)[1]["data_file"] for file in there]
    return files[found.current["snapshot-id"]], {entry["file_path"]: plain(entry) for entry in wanted}


def plain(entry: dict[str, object]) -> object:
    """An entry without fields that have no value, which a manifest shows as null."""
    return {name: value for name, value in entry.items() if value is not None}


def audited(world: TableWorld, rows: Hashable) -> Audit:
    found = audit(world, rows)
    said, wanted = states(world)
    wrong = () if said == wanted else (f"the metadata says {said} and not {wanted}",)
    return Audit((*found.problems, *wrong), found.leaks, found.left_overs)


@pytest.mark.row("T3", "K11")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_sync_that_dies_at_any_call_is_finished_by_the_next_one(profile: Profile) -> None:
    crash(crash_scenario("iceberg", _setup(), sync, next_sync, profile, audited=audited), CrashPlan())
