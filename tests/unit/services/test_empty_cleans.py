"""Cleans without files: they note from which commit on later plans have to look, so tables that only grow are not listed completely each time."""

from __future__ import annotations

import pytest
from reliability.real_table import FULL, TableSetup, TableWorld, orders, rows_of, table_world
from support.cleanings import cleans
from support.metadata_tables import build
from support.tables import make

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.formats.avro.container import decode_record

HOUR = 3600.0


def growing(metadata: bool = False, **options: object) -> TableWorld:
    """A table whose commits each write rows to a partition of their own."""
    chosen = {**FULL, "hoodie.clean.commits.retained": 1, "hoodie.write.empty.clean.interval.hours": 2, **options}
    world = table_world(TableSetup(options=chosen))
    world.create()
    if metadata:
        build(world.table())
    grow(world, 0)
    return world


def grow(world: TableWorld, first: int, count: int = 4) -> None:
    for number in range(first, first + count):
        world.table().upsert(orders((number, f"d{number:02d}", 1.0)))


@pytest.mark.row("N9", "C4")
@pytest.mark.parametrize("metadata", [False, True])
def test_a_clean_without_files_makes_the_next_plan_look_only_at_what_changed_since(metadata: bool) -> None:
    world = growing(metadata)
    table = world.table()
    plan = table.cleaning.plan()
    assert plan and not plan.files
    assert "Delete nothing" in str(plan) and "no clean is on the timeline" in str(plan)
    assert plan.figures["files"] == 0
    done = table.cleaning.run()
    assert (done.files, done.kept, len(done.instants)) == (0, 0, 1)
    [clean] = cleans(world.table())
    record = decode_record(world.storage.get(f".hoodie/timeline/{clean.file_name()}"), "HoodieCleanMetadata", path="")
    assert record["earliestCommitToRetain"] == table.timeline.commits[3].requested_time
    assert (record["totalFilesDeleted"], record["partitionMetadata"]) == (0, {})
    grow(world, 10, 2)
    world.table().upsert(orders((10, "d10", 2.0)))
    world.table().upsert(orders((10, "d10", 3.0)))
    plan = world.table().cleaning.plan()
    assert plan.incremental and list(plan.files) == ["day=d10"]
    assert rows_of(world.table())[-1] == (11, "d11", 1.0)
    assert world.table().check().ok, world.table().check().findings


@pytest.mark.row("N9")
def test_an_empty_clean_waits_for_its_hours_and_for_something_to_note() -> None:
    world = growing()
    assert world.table().cleaning.run()
    assert not world.table().cleaning.run(), "nothing is new"
    grow(world, 4)
    assert not world.table().cleaning.plan(), "the last one is too young"
    world.wait(2 * HOUR)
    plan = world.table().cleaning.plan()
    assert "the last clean is 2." in plan.notes
    assert world.table().cleaning.run()
    world.wait(3 * HOUR)
    assert not world.table().cleaning.run(), "no commit is older than what it noted"


@pytest.mark.row("N9")
def test_files_that_get_old_after_an_empty_clean_are_deleted_by_the_next_one() -> None:
    world = growing()
    world.table().upsert(orders((2, "d02", 2.0)))
    world.table().cleaning.run()
    for price in (3.0, 4.0, 5.0):
        world.table().upsert(orders((2, "d02", price)))
    plan = world.table().cleaning.plan()
    assert plan.incremental and list(plan.files) == ["day=d02"]
    assert world.table().cleaning.run().files == len(plan.files["day=d02"])
    assert (2, "d02", 5.0) in rows_of(world.table())


@pytest.mark.row("N9")
def test_there_are_none_by_default_and_no_hours_are_refused(location: str) -> None:
    world = growing(**{"hoodie.write.empty.clean.interval.hours": -1})
    assert not world.table().cleaning.run()
    with pytest.raises(InvalidOptionError, match="empty"):
        make(location, options={"hoodie.write.empty.clean.interval.hours": 0}).cleaning.plan()
