"""The sweep deletes what belongs to nobody, and nothing that a commit, a plan, a running writer or another table needs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.disk import contents, data_files, files
from support.metadata_tables import build
from support.planned_services import interrupted
from support.tables import make, make_inside, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.doctor.kinds import FindingKind
from pyhudi_core.errors import CommitAbortedError, HudiError
from pyhudi_core.model.file_names import parse_data_file

NOW = {"pyhudi.sweep.min.age.minutes": 0}
BEFORE_ALL = "20200101000000000"


def sweeping(table: hudi.HudiTable) -> hudi.HudiTable:
    return reopen(table, pyhudi__sweep__min__age__minutes=0)


def old(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (1, 1))


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    made = make(location)
    for number in range(3):
        made.upsert(orders((number, "a", 1.0), (10 + number, "b", 1.0)))
    return made


def leak(table: hudi.HudiTable, time: str | None = None) -> Path:
    """A base file of a task attempt that was given up: its instant (the first commit's) is there, and does not name it."""
    first = next(path for path in data_files(table.location) if path.startswith("day=a/"))
    name = parse_data_file(Path(first).name)
    assert name is not None
    copied = Path(table.location, "day=a", f"leaked-0_1-2-3_{time or name.requested_time}.parquet")
    shutil.copy(Path(table.location, first), copied)
    return copied


@pytest.mark.row("T3")
def test_the_sweep_deletes_what_the_doctor_calls_leaked_and_nothing_else(table: hudi.HudiTable) -> None:
    leaked = leak(table)
    before = rows(table)
    reported = [found.where for found in table.check().of(FindingKind.LEAKED_FILE)]
    there = contents(table.location)
    plan = sweeping(table).sweep.plan()
    assert contents(table.location) == there, "a plan changes nothing"
    assert list(plan.data_files) == reported == ["day=a/" + leaked.name]
    assert plan.figures["bytes"] == leaked.stat().st_size
    done = sweeping(table).sweep.run()
    assert done.data_files == plan.data_files
    assert set(there) - set(contents(table.location)) == {"day=a/" + leaked.name}
    assert rows(table) == before
    assert table.check().ok
    assert not sweeping(table).sweep.run()


def test_a_young_file_stays_until_it_is_old_enough(table: hudi.HudiTable) -> None:
    leaked = leak(table)
    planned = table.sweep.plan()
    assert not planned
    assert "1 files stay, younger than 1440 minutes" in planned.why_not
    assert not table.sweep.run()
    assert leaked.exists()
    old(leaked)
    assert table.sweep.run().data_files == ("day=a/" + leaked.name,)


@pytest.mark.row("T3", "L6")
def test_a_cancel_that_meets_a_running_clustering_leaves_files_that_the_sweep_deletes(location: str) -> None:
    table = reopen(make(location), hoodie__parquet__small__file__limit=0)
    build(table)
    table = reopen(table, hoodie__parquet__small__file__limit=0)
    table.insert(orders((1, "a", 1.0)))
    table.insert(orders((2, "a", 2.0)))
    plan = table.clustering.schedule()
    assert plan is not None
    held: dict[str, bytes] = {}

    def cancel() -> None:
        written = [path for path in data_files(location) if plan.requested_time in path]
        if written:
            held.update({path: Path(location, path).read_bytes() for path in written})
            assert reopen(table).clustering.cancel(plan)

    with pytest.raises(HudiError):
        table.clustering._execute(plan.requested_time, interrupted(cancel))
    assert held
    for path, data in held.items():  # as by a task that had not noticed the cancel
        Path(location, path).write_bytes(data)
    assert list(sweeping(table).sweep.plan().data_files) == sorted(held)
    assert sweeping(table).sweep.run()
    assert rows(table, "id") == [(1,), (2,)]
    assert table.check().ok


@pytest.mark.row("T3")
def test_a_commit_of_the_metadata_table_goes_whose_write_was_rolled_back(table: hudi.HudiTable) -> None:
    build(table)
    table = reopen(table)
    with reopen(table).begin("upsert") as write:
        write.write(orders((1, "a", 5.0)))
        time = write.instant
        timeline = Path(table.location, ".hoodie/metadata/.hoodie/timeline")
        old_part = [timeline / f"{time}.deltacommit.requested", timeline / f"{time}.deltacommit.inflight"]
    for path in old_part:  # as by a process that was taken for dead and went on
        path.write_bytes(b"")
    log = Path(table.location, ".hoodie/metadata/files", f".files-0000-0_{time}.log.1_7-7-7")
    log.write_bytes(b"half")
    table.upsert(orders((1, "a", 6.0)))
    done = sweeping(table).sweep.run()
    assert done.unpublished == 1
    assert not any(path.exists() for path in (*old_part, log))
    assert table.check().ok
    assert (1, 6.0) in rows(table, "id", "price")


@pytest.mark.row("T3")
def test_a_commit_of_the_metadata_table_stays_as_long_as_the_write_runs_that_it_belongs_to(
    table: hudi.HudiTable,
) -> None:
    """Hudi begins the commit of the metadata table before that of the table completes."""
    build(table)
    with reopen(table).begin("upsert") as write:
        write.write(orders((1, "a", 5.0)))
        timeline = Path(table.location, ".hoodie/metadata/.hoodie/timeline")
        part = [timeline / f"{write.instant}.deltacommit.{state}" for state in ("requested", "inflight")]
        for path in part:
            path.write_bytes(b"")
        shutil.rmtree(Path(table.location, ".hoodie/.heartbeat"))
        assert not sweeping(table).sweep.plan().unpublished
        sweeping(table).sweep.run()
        assert all(path.exists() for path in part)


@pytest.mark.row("T3")
def test_a_planned_compaction_of_the_metadata_table_stays(table: hudi.HudiTable) -> None:
    build(table)
    time = table.timeline.commits[-1].requested_time
    plan = Path(table.location, f".hoodie/metadata/.hoodie/timeline/{time[:-3]}999.compaction.requested")
    plan.write_bytes(b"")
    assert not sweeping(table).sweep.plan().unpublished
    assert plan.exists()


def test_files_of_a_running_write_and_of_a_dead_one_are_left_to_them(table: hudi.HudiTable) -> None:
    with reopen(table).begin("upsert") as write:
        write.write(orders((1, "a", 5.0), (77, "c", 7.0)))
        planned = sweeping(table).sweep.plan()
        assert not planned
        assert "of pending instants, or of writers with a heartbeat" in planned.why_not
        assert not sweeping(table).sweep.run()
        # A writer of another program keeps no heartbeat.
        shutil.rmtree(Path(table.location, ".hoodie/.heartbeat"))
        assert not sweeping(table).sweep.run()
        write.commit()
    assert (77, 7.0) in rows(table, "id", "price")


@pytest.mark.parametrize("what", ["compaction", "clustering"])
def test_the_files_of_a_planned_service_stay(location: str, what: str) -> None:
    table = reopen(make(location, table_type="MERGE_ON_READ"), hoodie__parquet__small__file__limit=0)
    table.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((1, "a", 2.0)))
    if what == "clustering":
        table.compaction.run()
        table.insert(orders((2, "a", 2.0)))
    plan = table.services[what].schedule()
    assert plan is not None
    Path(location, "day=a", f"new-0_1-2-3_{plan.requested_time}.parquet").write_bytes(b"being written by Hudi")
    assert not sweeping(table).sweep.run()


def test_markers_staged_bytes_and_registrations_of_ended_instants_go(table: hudi.HudiTable) -> None:
    time = table.timeline.commits[0].requested_time
    hoodie = Path(table.location, ".hoodie")
    left = [
        hoodie / ".temp" / time / "day=a" / f"x-0_1-2-3_{time}.parquet.marker.CREATE",
        hoodie / ".aux/.pyhudi/staged" / f"{time}-abc",
        hoodie / ".aux/.pyhudi/executions" / time / "000001",
    ]
    running = "99990101000000000"
    kept = [hoodie / ".temp" / running / "day=a" / f"x-0_1-2-3_{running}.parquet.marker.CREATE"]
    for path in (*left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    unfinished = next(Path(table.location).glob("day=a")) / ".pyhudi-0123.tmp"
    done = sweeping(table).sweep.run()
    assert (done.data_files, done.markers, done.staged) == ((), 1, 2)
    assert not [path for path in left if path.exists()]
    assert not (hoodie / ".temp" / time).exists(), "nor an empty folder"
    assert all(path.exists() for path in kept)
    assert not unfinished.exists()


def test_files_that_readers_take_for_archived_ones_stay(location: str) -> None:
    table = reopen(make(location), hoodie__keep__min__commits=2, hoodie__keep__max__commits=3)
    for number in range(6):
        table.upsert(orders((number, "a", 1.0)))
    table.archival.run()
    assert table.timeline.has_history
    before = contents(location)
    assert not sweeping(table).sweep.run(), "older slices are named by archived commits"
    leak(table, BEFORE_ALL)
    planned = sweeping(table).sweep.plan()
    assert not planned
    assert "shown to readers" in planned.why_not
    assert before.keys() < contents(location).keys()


def test_a_table_inside_the_folder_is_another_table(table: hudi.HudiTable) -> None:
    inner = make_inside(f"{table.location}/inner")
    inner.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((1, "a", 9.0)))  # a later time than those of the inner table
    assert not sweeping(table).sweep.plan()
    assert rows(inner, "id") == [(1,)]


def test_savepoints_keep_their_files(table: hudi.HudiTable) -> None:
    table.savepoints.create(table.timeline.commits[0])
    assert not sweeping(table).sweep.run()


@pytest.mark.parametrize("damaged", ["hold", "savepoint", "commit"])
def test_what_cannot_be_read_keeps_the_data_files_that_it_may_name_and_the_rest_is_swept(
    table: hudi.HudiTable, damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    leaked = leak(table)
    folder = Path(table.location, ".hoodie/.temp", table.timeline.commits[0].requested_time)
    folder.mkdir(parents=True)
    marker, staged = folder / "x", Path(table.location, ".hoodie/.aux/.pyhudi/staged", f"{folder.name}-x")
    staged.parent.mkdir(parents=True, exist_ok=True)
    for path in (marker, staged):
        path.write_bytes(b"x")
    if damaged == "hold":
        file = Path(table.location, ".hoodie/.aux/.pyhudi/holds", table.holds.create(seconds=9).name)
    elif damaged == "savepoint":
        file = Path(table.location, ".hoodie/timeline", table.savepoints.create().instant)
        [file] = file.parent.glob(f"{file.name}_*.savepoint")
    else:
        [file] = folder.parents[1].glob(f"timeline/{folder.name}_*.commit")
    good = file.read_bytes()
    file.write_bytes(b"damaged")
    old(leaked, marker, staged, file)
    done = sweeping(table).sweep.run()
    assert (done.data_files, done.markers, done.staged) == ((), 1, 1)
    assert leaked.exists() and not marker.exists() and not staged.exists()
    assert "all data files stay" in done.why_not and file.name in done.why_not
    assert [file.name in said for said in caplog.messages if "leaves all data files" in said] == [True]
    assert not sweeping(table).sweep.plan()
    file.write_bytes(good)
    assert sweeping(table).sweep.run().data_files == (f"day=a/{leaked.name}",)


def test_a_gate_that_says_no_keeps_everything(table: hudi.HudiTable) -> None:
    leaked = leak(table)
    with pytest.raises(CommitAbortedError):
        sweeping(table).sweep.run(gate=lambda: False)
    assert leaked.exists()


def test_the_command_shows_its_plan_and_sweeps(table: hudi.HudiTable) -> None:
    leaked = leak(table)
    run = CliRunner().invoke
    option = ["--option", "pyhudi.sweep.min.age.minutes=0"]
    shown = run(main, ["sweep", table.location, "--plan", "--json", *option])
    assert json.loads(shown.output)["data_files"] == ["day=a/" + leaked.name]
    assert leaked.exists()
    done = run(main, ["sweep", table.location, *option])
    assert (done.exit_code, leaked.exists()) == (0, False)
    assert "data_files 1" in done.output
    assert "Nothing to sweep" in run(main, ["sweep", table.location, "--plan", *option]).output
    assert run(main, ["sweep", f"{table.location}/none"]).exit_code == 2
    assert files(table.location, "*.parquet")
