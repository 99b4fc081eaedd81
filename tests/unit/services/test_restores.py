"""Restores and rollbacks of completed commits: what they undo, what readers see meanwhile, and the commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.disk import contents, data_files, files
from support.homes import context_of
from support.metadata_tables import assert_metadata_is_true
from support.planned_services import expire
from support.restores import KINDS, PARTITIONS, at, begun, left_behind, now, table_of_four
from support.tables import make, orders, read_avro, reopen, rows

from pyhudi_core.cli import main
from pyhudi_core.errors import (
    CommitAbortedError,
    HudiError,
    InvalidOptionError,
)
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.services.restore import restore_work
from pyhudi_core.services.restore.restore_plan import RestorePlan, UndoneCommit, decode


@pytest.mark.one_in(2)
@pytest.mark.row("C10", "N15")
@pytest.mark.parametrize("kind", KINDS)
def test_the_state_of_the_commit_is_back_and_the_later_files_are_gone(location: str, kind: str) -> None:
    table, times = table_of_four(location, table_type=kind)
    wanted = at(table, times[1])
    plan = table.restore.plan(times[1])
    named = {path for commit in plan.commits for path in commit.files}
    assert [commit.instant.requested_time for commit in plan.commits] == times[:1:-1]
    own = {path for path in files(location) if not path.startswith(".hoodie/")}
    assert named == {path for path in own if times[2] in path or times[3] in path}
    assert plan.figures["bytes"] == sum(Path(location, path).stat().st_size for path in named)
    done = table.restore(times[1])
    assert (bool(done), done.to, done.commits, done.files) == (True, times[1], 2, len(named))
    assert now(table) == at(table, times[1]) == wanted
    assert not named & set(files(location))
    assert not [path for path in files(location) if times[2] in path or times[3] in path]
    assert not left_behind(location)
    assert table.check().ok, table.check().findings
    table.upsert(orders((1, "a", 9.0)))
    assert now(table) == sorted([(1, "a", 9.0), *wanted[1:]])
    assert table.check().ok, table.check().findings


@pytest.mark.row("C10")
def test_the_files_on_the_timeline_are_those_that_hudi_writes(location: str) -> None:
    table, times = table_of_four(location)
    table.savepoints.create(times[1])
    written = [stat.path for stat in table.commit_metadata(table.timeline.commits[3]).stats]
    [restore] = table.restore(times[1]).instants
    plan = read_avro(table, Instant(restore.requested_time, Action.RESTORE, State.REQUESTED), "HoodieRestorePlan")
    undone = [{"commitTime": time, "action": "commit"} for time in (times[3], times[2])]
    assert plan == {"instantsToRollback": undone, "version": 2, "savepointToRestoreTimestamp": times[1]}
    inflight = Path(location, f".hoodie/timeline/{restore.requested_time}.restore.inflight")
    assert inflight.read_bytes() == b""
    record = read_avro(table, restore, "HoodieRestoreMetadata")
    assert (record["startRestoreTime"], record["instantsToRollback"]) == (restore.requested_time, [times[3], times[2]])
    assert record["restoreInstantInfo"] == undone
    [one] = record["hoodieRestoreMetadata"][times[3]]
    assert (one["commitsRollback"], one["totalFilesDeleted"]) == ([times[3]], 2)
    assert sorted(one["partitionMetadata"]) == ["day=a", "day=e"]
    deleted = [path for part in one["partitionMetadata"].values() for path in part["successDeleteFiles"]]
    assert sorted(deleted) == sorted(f"{location}/{path}" for path in written)
    assert len(table.savepoints) == 1


@pytest.mark.row("C10")
def test_a_plan_names_pending_services_before_the_commits() -> None:
    """They were planned from files that go, so they go first."""
    commits = [Instant(time, Action.COMMIT, State.COMPLETED, f"{time}1") for time in ("003", "002")]
    compaction = Instant("004", Action.COMPACTION, State.REQUESTED)
    plan = RestorePlan(
        Instant("001", Action.COMMIT, State.COMPLETED, "0011"), tuple(map(UndoneCommit, commits)), (compaction,)
    )
    found = decode(plan.encode(bytes(16)), "")
    assert (found.to, found.undone) == ("001", (("004", "compaction"), ("003", "commit"), ("002", "commit")))


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("C10")
@pytest.mark.parametrize("kind", KINDS)
def test_the_metadata_table_is_built_again_and_true(location: str, kind: str) -> None:
    table, times = table_of_four(location, table_type=kind)
    table.metadata_table.create(PARTITIONS)
    table.upsert(orders((1, "a", 8.0), (99, "z", 1.0)))
    listed = table.config.metadata_partitions
    wanted = at(table, times[1])
    done = table.restore(times[1])
    assert (done.why_not, done.commits) == ("", 3)
    table = reopen(table)
    assert table.config.metadata_partitions == listed
    assert now(table) == wanted
    indexed = reopen(table, hoodie__index__type="RECORD_INDEX")
    indexed.upsert(orders((1, "a", 9.0), (12, "d", 2.0)))
    assert now(table) == sorted([(1, "a", 9.0), *wanted[1:], (12, "d", 2.0)])
    assert table.check().ok, table.check().findings
    if kind == "copy_on_write":
        assert_metadata_is_true(table)


@pytest.mark.row("C10")
def test_an_index_on_a_column_that_is_younger_than_the_point_is_left_out_and_all_others_are_built_again(
    location: str,
) -> None:
    table, times = table_of_four(location)
    table.upsert(orders((1, "a", 8.0)).append_column("city", pa.array(["Rome"])))
    table.indexes.create("by_city", ["city"])
    table.indexes.create("column_stats")
    done = table.restore(times[1])
    assert "secondary_index_by_city is on column 'city', which the table does not have" in done.why_not
    assert done.commits == 3
    table = reopen(table)
    assert table.config.metadata_partitions == ("column_stats", "files", "record_index")
    assert not left_behind(location)
    assert_metadata_is_true(table)
    table.upsert(orders((1, "a", 9.0)).append_column("city", pa.array(["Wien"])))
    assert table.indexes.create("by_city", ["city"])
    assert_metadata_is_true(table)


@pytest.mark.row("N15")
def test_a_restore_that_is_refused_beside_a_plan_of_an_index_or_a_half_made_savepoint_says_what_ends_them(
    location: str,
) -> None:
    table, times = table_of_four(location)
    plan = table.indexing.schedule(["record_index"])
    assert plan is not None
    with pytest.raises(CommitAbortedError, match=re.escape(f"table.indexing.cancel('{plan.requested_time}')")):
        table.restore(times[1])
    assert table.indexing.cancel(plan.requested_time)
    Path(location, ".hoodie/timeline", f"{times[0]}.savepoint.inflight").touch()
    with pytest.raises(CommitAbortedError, match=re.escape(f"table.savepoints.delete('{times[0]}')")):
        table.restore(times[1])
    assert table.savepoints.delete(times[0])
    assert table.restore(times[1])


@pytest.mark.row("C10")
def test_a_metadata_table_that_could_not_be_built_again_is_built_by_a_later_take_over(location: str) -> None:
    table, times = table_of_four(location)
    table.metadata_table.create(PARTITIONS)
    folder = Path(location, ".hoodie/timeline")
    restore = table.restore.schedule(times[1])
    assert restore is not None
    foreign = str(int(restore.requested_time) + 1)
    for state in ("commit.requested", "inflight"):
        (folder / f"{foreign}.{state}").touch()
    done = table.restore.execute(restore)
    assert "another program is writing" in done.why_not
    assert not reopen(table).config.metadata_partitions
    assert "another program is writing" in table.restore.take_over().why_not
    for left in folder.glob(f"{foreign}*"):
        left.unlink()
    assert "metadata table" not in table.restore.take_over().why_not
    assert set(reopen(table).config.metadata_partitions) == {"files", *PARTITIONS}
    assert not left_behind(location)
    assert_metadata_is_true(reopen(table))


@pytest.mark.row("N15")
def test_nothing_is_done_if_no_commit_is_later(location: str) -> None:
    table, times = table_of_four(location)
    before = contents(location)
    done = table.restore(times[-1])
    assert not done
    assert times[-1] in done.why_not
    assert not table.restore.run()
    assert table.restore.schedule(times[-1]) is None
    assert contents(location) == before


@pytest.mark.row("N15")
def test_a_restore_goes_to_a_savepoint_or_to_the_state_before_a_commit(location: str) -> None:
    table, times = table_of_four(location)
    saved = table.savepoints.create(times[2])
    assert table.restore(saved).commits == 1
    assert now(table)[0] == (1, "a", 2.0)
    table.savepoints.delete(saved.instant)
    assert table.restore(before=times[1]).to == times[0]
    assert now(table) == [(1, "a", 0.0), (10, "b", 1.0)]
    with pytest.raises(InvalidOptionError, match="no state to go back to"):
        table.restore(before=times[0])
    with pytest.raises(InvalidOptionError, match="not both"):
        table.restore(times[0], before=times[0])


@pytest.mark.row("C10")
def test_what_counts_is_when_commits_completed_not_when_they_began(location: str) -> None:
    table, times = table_of_four(location)
    with table.begin("insert") as early:
        early.write(orders((50, "q", 5.0)))
        late = table.upsert(orders((51, "r", 5.0))).instant
        done = early.commit()
    assert done.instant < late
    wanted = at(table, late)
    assert (50, "q", 5.0) not in wanted
    plan = table.restore.plan(late)
    assert [commit.instant.requested_time for commit in plan.commits] == [done.instant]
    table.restore(late)
    assert now(table) == wanted
    assert times[-1] in [instant.requested_time for instant in table.timeline.commits]


@pytest.mark.row("N15")
def test_a_planned_restore_can_be_taken_back_until_it_is_begun(location: str) -> None:
    table, times = table_of_four(location)
    before = now(table)
    restore = table.restore.schedule(times[1])
    assert restore is not None
    assert table.restore.cancel(restore)
    assert not table.restore.cancel(restore)
    assert now(table) == before
    assert table.upsert(orders((1, "a", 5.0)))
    again = table.restore.schedule(times[1])
    assert again is not None
    running = begun(table, again)
    assert not table.restore.cancel(again)
    running.heartbeat.handle.cancel()
    assert table.check().findings


@pytest.mark.one_in(2)
@pytest.mark.row("C10", "O9")
@pytest.mark.parametrize("kind", KINDS)
def test_readers_see_the_old_state_from_the_inflight_file_on_and_another_process_finishes(
    location: str, kind: str
) -> None:
    table, times = table_of_four(location, table_type=kind)
    table.metadata_table.create(PARTITIONS)
    wanted = at(table, times[1])
    restore = table.restore.schedule(times[1])
    assert restore is not None
    dead = begun(table, restore)
    dead.heartbeat.handle.cancel()
    fresh = reopen(table)
    assert fresh.config.metadata_partitions == ()
    assert now(fresh) == wanted
    assert set(times[2:]).isdisjoint(i.requested_time for i in fresh.timeline)
    assert any(times[3] in path for path in data_files(location))
    assert not fresh.restore.take_over(), "its process may be alive"
    expire(table, restore.requested_time)
    done = fresh.restore.take_over()
    assert (done.commits, [i.requested_time for i in done.instants]) == (2, [restore.requested_time])
    assert not any(times[3] in path for path in data_files(location))
    assert now(fresh) == wanted
    assert set(reopen(table).config.metadata_partitions) == {"files", *PARTITIONS}
    assert not left_behind(location)
    assert table.check().ok, table.check().findings


@pytest.mark.row("N15")
def test_the_gate_is_asked_before_anything_is_undone(location: str) -> None:
    table, times = table_of_four(location)
    before = now(table)
    with pytest.raises(CommitAbortedError, match="gate"):
        table.restore.run(times[1], gate=lambda: False)
    assert now(table) == before
    [pending] = table.timeline.pending
    assert pending.state is State.REQUESTED
    assert table.restore.run().commits == 2
    assert now(table)[0] == (1, "a", 1.0)


def test_a_damaged_commit_names_no_files_of_others_for_deletion(location: str) -> None:
    table, times = table_of_four(location)
    context = context_of(table)
    assert restore_work.is_of(f"day=a/x-0_0-1-1_{times[0]}.parquet", times[0])
    assert not restore_work.is_of(f"day=a/x-0_0-1-1_{times[0]}.parquet", times[1])
    assert context.table == location


@pytest.mark.row("N15")
def test_the_command_plans_and_restores(location: str) -> None:
    table, times = table_of_four(location)

    def run(*arguments: str) -> tuple[int, str]:
        found = CliRunner().invoke(main, ["restore", location, *arguments])
        assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
        return found.exit_code, found.output

    assert run()[0] == 2
    assert run("--to", times[1], "--before", times[1])[0] == 2
    assert run("--to", "1")[0] == 2
    code, text = run("--to", times[1], "--plan", "--json")
    shown = json.loads(text)
    assert (code, shown["due"], shown["figures"]["commits"], shown["to"]) == (0, True, 2, times[1])
    assert [one["instant"] for one in shown["undone"]] == [times[3], times[2]]
    assert run("--to", times[3], "--plan")[0] == 0
    code, text = run("--to", times[2], "--schedule", "--json")
    scheduled = json.loads(text)["instant"]
    assert code == 0
    assert run("--cancel", scheduled)[0] == 0
    assert run("--cancel", scheduled)[0] == 1
    assert run("--execute")[0] == 0
    assert run("--before", times[3], "--schedule")[0] == 0
    assert run("--execute")[0] == 0
    code, text = run("--to", times[1], "--json")
    assert (code, json.loads(text)["to"], json.loads(text)["figures"]["commits"]) == (0, times[1], 1)
    assert now(table)[0] == (1, "a", 1.0)


# --- rollbacks on request


@pytest.mark.row("C8", "N11")
@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_commit_is_rolled_back_and_an_older_one_is_not(location: str, kind: str) -> None:
    table, times = table_of_four(location, table_type=kind)
    before = contents(location)
    assert not table.rollback(times[3]), "only with completed=True"
    plan = table.rollback.plan(times[2])
    assert (bool(plan), times[3] in plan.why_not) == (False, True)
    with pytest.raises(InvalidOptionError, match=f"{times[3]} the first of them"):
        table.rollback(times[2], completed=True)
    plan = table.rollback.plan(times[3])
    assert plan.restore is not None
    assert plan.figures["commits"] == 1
    assert contents(location) == before
    wanted = at(table, times[2])
    done = table.rollback(times[3], completed=True)
    assert done.instant is not None
    assert done.instant.action is Action.RESTORE
    assert now(table) == wanted
    assert table.check().ok, table.check().findings


@pytest.mark.row("N11")
def test_the_first_commit_is_not_rolled_back(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0))).instant
    with pytest.raises(InvalidOptionError, match="no state to go back to"):
        table.rollback(first, completed=True)
    assert not table.rollback.plan(first)
    assert rows(table, "id") == [(1,)]


@pytest.mark.row("N11")
def test_the_command_rolls_pending_and_completed_instants_back(location: str) -> None:
    table, times = table_of_four(location)

    def run(*arguments: str) -> tuple[int, str]:
        found = CliRunner().invoke(main, ["rollback", location, *arguments])
        assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
        return found.exit_code, found.output

    with table.begin("upsert") as write:
        write.write(orders((70, "s", 7.0)))
        instant = str(write.instant)
        code, text = run(instant, "--plan", "--json")
        shown = json.loads(text)
        assert (code, shown["pending"], shown["alive"], len(shown["files"])) == (1, True, True, 1)
        assert run(instant, "--plan", "--force")[0] == 0
        assert run(instant)[0] == 2
        assert run(instant, "--force")[0] == 0
        with pytest.raises(HudiError):
            write.commit()
    assert run(instant)[0] == 1
    assert run("20200101000000000", "--plan")[0] == 1
    assert run("no time")[0] == 2
    assert run(times[2], "--plan")[0] == 1
    assert run(times[2])[0] == 2
    code, text = run(times[3], "--plan", "--json")
    assert (code, json.loads(text)["restore"]["to"]) == (0, times[2])
    code, text = run(times[3], "--json")
    assert (code, json.loads(text)["of"]) == (0, times[3])
    assert now(table)[0] == (1, "a", 2.0)
