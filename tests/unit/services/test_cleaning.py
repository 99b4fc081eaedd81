"""Cleaning: which files go, which stay, what can be read afterwards, and executions by one process at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from reliability.real_table import FULL, TableSetup, table_world
from reliability.real_table import orders as real_orders
from support.cleanings import cleans, extra_of, filled, keeping, states
from support.disk import contents, data_files
from support.metadata_tables import assert_metadata_is_true, build, left_in_metadata_table, metadata_of
from support.tables import make, orders, read_avro, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import InvalidOptionError, SnapshotExpiredError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.metadata_table import names
from pyhudi_core.model.instant import Action, Instant, State, time_after

TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")


def plan_record(table: hudi.HudiTable, instant: Instant) -> dict[str, Any]:
    return dict(read_avro(table, Instant(instant.requested_time, Action.CLEAN, State.REQUESTED), "HoodieCleanerPlan"))


@pytest.mark.row("C4", "N7")
def test_a_plan_names_the_older_slices_and_writes_nothing(location: str) -> None:
    table = keeping(filled(location))
    before = contents(location)
    plan = table.cleaning.plan()
    assert contents(location) == before
    commits = table.timeline.commits
    gone = [table.commit_metadata(i).stats for i in commits[:2]]
    assert sorted(plan.files["day=a"]) == sorted(
        stat.path.rpartition("/")[2] for stats in gone for stat in stats if stat.partition == "day=a"
    )
    assert list(plan.files) == ["day=a"]
    assert (plan.figures["files"], plan.figures["file_groups"], plan.earliest) == (2, 1, commits[3])
    assert plan.size == sum(stat.size for stats in gone for stat in stats if stat.partition == "day=a")
    assert (plan.trigger, plan.due) == ("5 of 1 commits since the last clean", True)
    assert str(plan).startswith("Delete 2 files of 1 file groups")


@pytest.mark.row("C4")
def test_plan_and_clean_on_the_timeline_are_hudis_records(location: str) -> None:
    table = keeping(filled(location))
    planned = table.cleaning.plan()
    instant = table.cleaning.schedule()
    assert instant is not None
    record = plan_record(table, instant)
    earliest = table.timeline.commits[3]
    assert record["earliestInstantToRetain"] == {
        "timestamp": earliest.requested_time, "action": "commit", "state": "COMPLETED",
    }  # fmt: skip
    assert (record["version"], record["policy"]) == (2, "KEEP_LATEST_COMMITS")
    assert record["lastCompletedCommitTimestamp"] == table.timeline.commits[-1].requested_time
    paths = [info["filePath"] for info in record["filePathsToBeDeletedPerPartition"]["day=a"]]
    assert paths == [f"{location}/day=a/{name}" for name in planned.files["day=a"]]
    done = table.cleaning.execute()
    assert (done.files, done.partitions, done.kept) == (2, 1, 0)
    [completed] = cleans(table)
    assert done.instants == (completed,)
    clean = read_avro(table, completed, "HoodieCleanMetadata")
    assert (clean["earliestCommitToRetain"], clean["totalFilesDeleted"], clean["version"]) == (
        earliest.requested_time, 2, 2,
    )  # fmt: skip
    assert clean["partitionMetadata"]["day=a"]["successDeleteFiles"] == list(planned.files["day=a"])
    inflight = read_avro(table, Instant(instant.requested_time, Action.CLEAN, State.INFLIGHT), "HoodieCleanerPlan")
    assert inflight == record, "release 1.0 reads the plan from the inflight file"


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("N7", "L1")
@pytest.mark.parametrize("kind", TYPES)
def test_the_last_commits_can_be_read_after_a_clean_and_older_ones_say_that_they_are_gone(
    location: str, kind: str
) -> None:
    table = keeping(filled(location, 3, table_type=kind), 2)
    if kind == "MERGE_ON_READ":
        table.compaction.run()
    for number in range(3, 6):
        table.upsert(orders((1, "a", float(number), number)))
    commits = table.timeline.commits
    newest = rows(table, "id", "price")
    changes = table.changes(after=commits[-3].completion_time).to_arrow()
    changed = rows(table.incremental(after=commits[-3].completion_time), "id", "price")
    assert table.cleaning.run()
    assert rows(table, "id", "price") == newest == [(1, 5.0), (2, 0.0)]
    found = states(table)
    assert found[-3:] == [3.0, 4.0, 5.0]
    assert None in found
    assert table.changes(after=commits[-3].completion_time).to_arrow() == changes
    assert rows(table.incremental(after=commits[-3].completion_time), "id", "price") == changed == [(1, 5.0)]
    first = next(i for i, price in zip(commits, found, strict=True) if price is None)
    [clean] = cleans(table)
    for read in (table.changes, table.incremental):
        with pytest.raises(SnapshotExpiredError, match=f"by the clean {clean.requested_time}") as refused:
            read(until=first)
        assert refused.value.instant == clean.requested_time
    with pytest.raises(SnapshotExpiredError, match=f"by the clean {clean.requested_time}"):
        table.scan(as_of=first)
    assert table.check().ok, table.check().findings
    assert not table.cleaning.run()


@pytest.mark.row("N8")
def test_by_versions_so_many_slices_of_each_group_stay(location: str) -> None:
    table = reopen(
        filled(location), hoodie__clean__policy="keep_latest_file_versions", hoodie__clean__fileversions__retained=2
    )
    assert table.cleaning.run().files == 3
    assert states(table) == [None, None, None, 3.0, 4.0]
    [clean] = cleans(table)
    assert read_avro(table, clean, "HoodieCleanMetadata")["earliestCommitToRetain"] == ""


@pytest.mark.row("N9")
def test_by_versions_all_partitions_are_looked_at_also_beside_a_running_write(location: str) -> None:
    """A running write holds the files that it began from; from their time on nothing says that older files of other partitions are gone."""
    table = filled(location)
    table.upsert(orders((2, "b", 1.0, 1)))
    by_versions = {"hoodie__clean__policy": "KEEP_LATEST_FILE_VERSIONS"}
    with table.begin("upsert") as write:
        write.write(orders((3, "c", 1.0, 1)))
        table.upsert(orders((2, "b", 2.0, 2)))
        assert reopen(table, **by_versions, hoodie__clean__fileversions__retained=3).cleaning.run().files
        plan = reopen(table, **by_versions, hoodie__clean__fileversions__retained=1).cleaning.plan()
        assert (plan.incremental, sorted(plan.files)) == (False, ["day=a"])
        assert not keeping(table, 1).cleaning.plan().incremental


@pytest.mark.row("N9")
def test_by_hours_nothing_of_the_last_hours_goes(location: str) -> None:
    table = reopen(filled(location), hoodie__clean__policy="KEEP_LATEST_BY_HOURS", hoodie__clean__hours__retained=1)
    plan = table.cleaning.plan()
    assert (bool(plan), plan.why_not) == (False, "no file is old enough")


@pytest.mark.row("N9")
def test_states_of_the_last_seconds_stay_for_slow_readers(location: str) -> None:
    table = keeping(filled(location), 1, pyhudi__clean__keep__seconds=3_600)
    assert not table.cleaning.run()
    assert keeping(table, 1).cleaning.run().files == 3


@pytest.mark.row("N9")
@pytest.mark.row("D4", "N9")
def test_the_state_of_a_token_stays_for_the_stated_time_and_is_refused_after_it() -> None:
    world = table_world(TableSetup(options={**FULL, "hoodie.clean.commits.retained": 1}))
    world.create()
    table = world.table()
    table.upsert(real_orders((1, "a", 1.0)))
    token, before = table.snapshot_token(), table.scan().to_arrow()
    for price in (2.0, 3.0, 4.0):
        table.upsert(real_orders((1, "a", price)))
    world.setup = replace(world.setup, options={**world.setup.options, "pyhudi.clean.keep.seconds": 3_600})
    world.wait(3_000)
    assert not world.table().cleaning.run()
    assert world.table().scan(as_of=token).to_arrow().equals(before)
    world.wait(3_600)
    assert world.table().cleaning.run()
    with pytest.raises(SnapshotExpiredError):
        world.table().scan(as_of=token).to_arrow()


def test_a_filter_and_a_limit_leave_the_rest_to_the_next_clean(location: str) -> None:
    table = make(location, ordering="ts")
    for number in range(4):
        table.upsert(orders(*((n, day, float(number), number) for n, day in enumerate("abcd"))))
    only = keeping(table, 1, hoodie__clean__partition__filter__selected="day=b, day=x")
    assert only.cleaning.run().files == 2
    assert read_avro(table, cleans(table)[0], "HoodieCleanMetadata")["earliestCommitToRetain"] == ""
    pattern = keeping(table, 1, hoodie__clean__partition__filter__regex="day=[ab]", pyhudi__clean__max__files=1)
    plan = pattern.cleaning.plan()
    assert (plan.figures["files"], list(plan.files), plan.earliest) == (2, ["day=a"], None)
    assert "at most about 1 files" in plan.why_not
    assert keeping(table, 1).cleaning.run().files == 6
    assert table.check().ok


def test_a_broken_pattern_is_refused_before_anything_happens(location: str) -> None:
    with pytest.raises(InvalidOptionError, match="regular expression"):
        reopen(filled(location, 1), hoodie__clean__partition__filter__regex="(")


@pytest.mark.row("N7")
def test_the_next_plan_looks_only_at_partitions_that_were_changed_since(location: str) -> None:
    table = keeping(filled(location))
    assert table.cleaning.run()
    for number in range(5, 8):
        table.upsert(orders((1, "a", float(number), number), (2, "b", float(number), number)))
    Path(location, "day=c").mkdir()
    plan = table.cleaning.plan()
    assert plan.incremental
    full = keeping(table, hoodie__clean__incremental__enabled="false").cleaning.plan()
    assert not full.incremental
    assert plan.files == full.files
    assert plan.figures["files"] == 4, "three slices of row 1, and the first one of row 2"


def test_files_of_replaced_groups_go_when_the_replacement_is_older_than_what_stays(location: str) -> None:
    table = keeping(filled(location, 2), 2)
    table.insert_overwrite(orders((1, "a", 9.0, 9)))
    assert not table.cleaning.plan(), "the state before the overwrite can still be read"
    for number in range(10, 12):
        table.upsert(orders((2, "b", float(number), number)))
    table.upsert(orders((2, "b", 12.0, 12)))
    gone = [
        path
        for path in data_files(location)
        if path in {s.path for i in table.timeline.commits[:2] for s in table.commit_metadata(i).stats}
    ]
    done = table.cleaning.run()
    assert done.files == 3
    assert len([path for path in gone if Path(location, path).exists()]) == 0
    assert rows(table, "id", "price") == [(1, 9.0), (2, 12.0)]
    assert table.check().ok


def savepoint(table: hudi.HudiTable, instant: Instant) -> Path:
    """A savepoint of a commit, as Hudi makes it; returns its completed file."""
    found: dict[str, list[str]] = {}
    for piece in table.snapshot(as_of=instant).view.all_slices():
        found.setdefault(piece.partition, []).extend(str(file.name) for file in piece.files)
    record = {
        "savepointedBy": "me", "savepointedAt": 0, "comments": "", "version": 1,
        "partitionMetadata": {p: {"partitionPath": p, "savepointDataFile": n} for p, n in found.items()},
    }  # fmt: skip
    time = instant.requested_time
    folder = Path(table.location, ".hoodie/timeline")
    (folder / f"{time}.savepoint.inflight").write_bytes(b"")
    done = folder / f"{time}_{time_after(instant.completion_time or '')}.savepoint"
    done.write_bytes(encode_record("HoodieSavepointMetadata", record, sync_marker=b"0" * 16))
    return done


def test_files_of_a_savepoint_stay_and_go_when_it_is_gone(location: str) -> None:
    table = keeping(filled(location), 1)
    made = savepoint(table, table.timeline.commits[1])
    assert table.cleaning.run().files == 2
    assert states(table) == [None, 1.0, None, 3.0, 4.0]
    [clean] = cleans(table)
    assert extra_of(read_avro(table, clean, "HoodieCleanMetadata")) == {
        "savepointed_timestamps": table.timeline.commits[1].requested_time
    }
    made.unlink()
    made.with_name(f"{made.name[:17]}.savepoint.inflight").unlink()
    plan = table.cleaning.plan()
    assert (plan.figures["files"], plan.incremental) == (1, False)
    assert table.cleaning.run().files == 1


def test_a_savepoint_made_after_the_plan_keeps_its_files(location: str) -> None:
    table = keeping(filled(location), 1)
    assert table.cleaning.schedule() is not None
    savepoint(table, table.timeline.commits[1])
    done = table.cleaning.execute()
    assert (done.files, done.kept) == (2, 1)
    assert states(table) == [None, 1.0, None, 3.0, 4.0]
    assert read_avro(table, cleans(table)[0], "HoodieCleanMetadata")["earliestCommitToRetain"] == ""


def test_a_plan_that_names_files_of_the_newest_state_does_not_delete_them(location: str) -> None:
    table = filled(location, 3)
    every = {"day=a": [Path(path).name for path in data_files(location) if "day=a" in path]}
    body = table.cleaning.plan().__class__(every, policy="KEEP_LATEST_COMMITS", table=location).encode(b"0" * 16)
    time = time_after(table.timeline.high_water_mark)
    Path(location, ".hoodie/timeline", f"{time}.clean.requested").write_bytes(body)
    done = table.cleaning.execute()
    assert (done.files, done.kept) == (2, 1)
    assert rows(table, "id", "price") == [(1, 2.0), (2, 0.0)]


def test_the_file_of_a_task_that_failed_does_not_stand_for_the_newest_slice(location: str) -> None:
    """It has the time of a completed commit that does not name it."""
    table = keeping(filled(location, 2), 1)
    table.upsert(orders((2, "b", 5.0, 5)))
    table.upsert(orders((2, "b", 6.0, 6)))
    last = table.timeline.commits[-1]
    [stat] = [s for i in table.timeline.commits[1:2] for s in table.commit_metadata(i).stats]
    left = stat.path.replace(table.timeline.commits[1].requested_time, last.requested_time)
    Path(location, left).write_bytes(b"half a file")
    table.cleaning.run()
    assert Path(location, stat.path).exists()
    assert rows(table, "id", "price") == [(1, 1.0), (2, 6.0)]


def test_files_of_a_running_write_stay(location: str) -> None:
    table = keeping(filled(location), 1)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 9.0, 9)))
        before = set(data_files(location))
        assert keeping(table, 1).cleaning.run().files == 3
        assert len(before) - len(data_files(location)) == 3
        write.commit()
    assert rows(table, "id", "price") == [(1, 9.0), (2, 0.0)]
    assert table.check().ok


def test_a_pending_compaction_keeps_what_it_will_read(location: str) -> None:
    table = keeping(filled(location, table_type="MERGE_ON_READ"), 1)
    assert table.compaction.schedule() is not None
    for number in range(5, 9):
        table.upsert(orders((1, "a", float(number), number)))
    assert not table.cleaning.run()
    table.compaction.execute()
    for number in range(9, 11):
        table.upsert(orders((1, "a", float(number), number)))
    assert table.cleaning.run().files == 5
    assert rows(table, "id", "price") == [(1, 10.0), (2, 0.0)]
    assert table.check().ok


def test_a_log_that_was_deleted_makes_its_state_gone_even_without_a_base_file(location: str) -> None:
    """A clean deletes the logs of a slice one after the other; what is left is no state of the table."""
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    table = make(location, table_type="MERGE_ON_READ", ordering="ts", options=options)
    for number in range(3):
        table.upsert(orders((1, "a", float(number), number)))
    second = table.timeline.commits[1]
    named = [stat.path for stat in table.commit_metadata(second).stats]
    table.compaction.run()
    table.upsert(orders((1, "a", 9.0, 9)))
    assert dict(rows(table.scan(as_of=second), "id", "price")) == {1: 1.0}
    for path in named:
        Path(location, path).unlink()
    with pytest.raises(SnapshotExpiredError, match="cleaned"):
        table.scan(as_of=second)
    assert rows(table, "id", "price") == [(1, 9.0)]


# --- the metadata table


@pytest.mark.row("I1", "I2")
def test_a_clean_keeps_a_metadata_table_true(location: str) -> None:
    table = filled(location, 2)
    build(table)
    for number in range(2, 6):
        table.upsert(orders((1, "a", float(number), number)))
    before = set(metadata_of(table).scan(names.COLUMN_STATS))
    assert keeping(table).cleaning.run().files == 3
    assert_metadata_is_true(table)
    assert not left_in_metadata_table(table)
    gone = before - set(metadata_of(table).scan(names.COLUMN_STATS))
    assert len(gone) == 3 * len(before) // 7, "the statistics of the deleted files are gone"
    assert states(table)[-3:] == [3.0, 4.0, 5.0]
    assert table.check().ok, table.check().findings
    table.upsert(orders((3, "b", 1.0, 1)))
    assert_metadata_is_true(table)


def test_a_table_whose_metadata_table_cannot_be_kept_is_not_cleaned(location: str) -> None:
    table = keeping(filled(location), 1)
    properties = Path(location, ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text() + "hoodie.table.metadata.partitions=files,secondary_index_x\n")
    plan = table.cleaning.plan()
    assert not plan
    assert "secondary_index_x" in plan.why_not


def run_cli(*arguments: str) -> Result:
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 0, found.output
    return found


def test_the_command_line_plans_and_cleans(location: str) -> None:
    table = filled(location)
    given = ["--option", "hoodie.clean.commits.retained=2"]
    found = json.loads(run_cli("clean", location, "--plan", "--json", *given).output)
    assert (found["due"], found["figures"]["files"]) == (True, 2)
    assert "Delete 2 files" in run_cli("clean", location, "--plan", *given).output
    assert json.loads(run_cli("clean", location, "--schedule", "--json", *given).output)["instant"]
    done = json.loads(run_cli("clean", location, "--execute", "--json").output)
    assert done["figures"]["files"] == 2
    assert "nothing was done" in run_cli("clean", location, *given).output
    assert len(cleans(table)) == 1
