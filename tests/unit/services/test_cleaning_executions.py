"""Executions of cleans: by one process at a time, taken over from processes that died, and after commits."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from support.cleanings import cleans, extra_of, filled, keeping, states
from support.disk import data_files
from support.homes import context_of
from support.tables import FAST, make, orders, read_avro, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import CommitAbortedError, CorruptTimelineError, UnsupportedTableError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import State, time_after
from pyhudi_core.services.cleaning.clean_plan import decode
from pyhudi_core.transaction import plan_executors


@pytest.mark.row("L6")
def test_a_clean_that_another_process_executes_is_refused_with_its_name(location: str) -> None:
    table = keeping(filled(location))
    plan = table.cleaning.schedule()
    assert plan is not None
    begun = plan_executors.begin_execution(context_of(table), plan)
    done = table.cleaning.execute(plan)
    assert "executes the clean" in done.why_not
    os.utime(Path(location, ".hoodie/.heartbeat", plan.requested_time), (1, 1))
    assert table.cleaning.take_over().files == 2
    with pytest.raises(CommitAbortedError, match="another process cancelled it, or has completed it"):
        plan_executors.refuse_overtaken(begun)  # type: ignore[arg-type]
    assert not table.timeline.pending.instants
    assert table.check().ok


@pytest.mark.row("L6")
def test_a_clean_that_died_after_its_deletes_is_finished_by_the_next_run(location: str) -> None:
    table = keeping(filled(location))
    plan = table.cleaning.schedule()
    assert plan is not None
    plan_executors.begin_execution(context_of(table), plan)
    for name in table.cleaning._read(plan).files["day=a"]:  # type: ignore[union-attr]
        Path(location, "day=a", name).unlink()
    assert states(table)[-3:] == [2.0, 3.0, 4.0]
    os.utime(Path(location, ".hoodie/.heartbeat", plan.requested_time), (1, 1))
    assert table.cleaning.run().files == 2
    assert len(cleans(table)) == 1
    assert table.check().ok


def test_a_gate_that_refuses_keeps_every_file(location: str) -> None:
    table = keeping(filled(location))
    before = data_files(location)
    with pytest.raises(CommitAbortedError, match="gate"):
        table.cleaning.run(gate=lambda: False)
    assert data_files(location) == before
    assert [i.state for i in cleans(table)] == [State.INFLIGHT]
    assert table.cleaning.run(extra_metadata={"who": "me"}).files == 2
    [clean] = cleans(table)
    assert extra_of(read_avro(table, clean, "HoodieCleanMetadata")) == {"who": "me"}


def test_nothing_is_planned_while_a_clean_is_planned_or_a_restore_is_pending(location: str) -> None:
    table = keeping(filled(location))
    first = table.cleaning.schedule()
    assert first is not None
    assert "is planned already" in table.cleaning.plan().why_not
    assert table.cleaning.schedule() is None
    table.cleaning.execute()
    time = time_after(table.timeline.high_water_mark)
    Path(location, ".hoodie/timeline", f"{time}.restore.inflight").write_bytes(b"")
    assert "a restore is pending" in table.cleaning.plan().why_not


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "hoodie.properties", "notes.txt", "..", ""],
)  # fmt: skip
def test_a_plan_that_names_other_files_than_data_files_is_refused(name: str) -> None:
    record = {"policy": "", "filePathsToBeDeletedPerPartition": {"day=a": [{"filePath": f"/tmp/t/day=a/{name}"}]}}
    with pytest.raises(CorruptTimelineError, match="no data file"):
        decode(encode_record("HoodieCleanerPlan", record, sync_marker=b"0" * 16), "plan")


def test_a_plan_whose_partition_leaves_the_table_is_refused() -> None:
    record = {"policy": "", "filePathsToBeDeletedPerPartition": {"../other": [{"filePath": "/x/f_0-0-0_1.parquet"}]}}
    with pytest.raises(CorruptTimelineError, match="segment"):
        decode(encode_record("HoodieCleanerPlan", record, sync_marker=b"0" * 16), "plan")


@pytest.mark.row("N9")
def test_commits_clean_when_that_is_due_if_the_option_is_on(location: str) -> None:
    table = keeping(filled(location, 3), hoodie__clean__automatic="true", hoodie__clean__trigger__max__commits=3)
    table.upsert(orders((1, "a", 3.0, 3)))
    assert len(cleans(table)) == 1
    for number in range(4, 7):
        table.upsert(orders((1, "a", float(number), number)))
    assert len(cleans(table)) == 2
    assert states(table)[-3:] == [4.0, 5.0, 6.0]


@pytest.mark.row("N7")
def test_a_clean_makes_way_for_the_archival_of_replaced_groups_and_archival_keeps_what_it_retained(
    location: str,
) -> None:
    options = {"hoodie__clean__automatic": "true", "hoodie__keep__min__commits": 4, "hoodie__keep__max__commits": 6}
    table = keeping(filled(location, 2), 3, **options)
    table.insert_overwrite(orders((1, "a", 2.0, 2)))
    for number in range(3, 14):
        table.upsert(orders((1, "a", float(number), number)))
    kept = table.timeline.commits
    assert len(kept) <= 8
    assert states(table)[-4:] == [10.0, 11.0, 12.0, 13.0]
    assert len(data_files(location)) == 5, "four slices of row 1, and row 2"
    assert table.check().ok


def test_a_clean_that_cannot_keep_an_index_is_refused_before_it_is_planned_and_before_it_deletes(location: str) -> None:
    times = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    known = {"hoodie.metadata.enable": "true", "pyhudi.expression.index.timezone": "UTC"}
    table = make(location, times, partition_by=(), options=known)
    for number in range(4):
        table.upsert(pa.table({"id": [1], "at": [number]}, schema=times))
    table.indexes.create("months", ["at"], "column_stats", {"expr": "month"})
    unaware = reopen(table, hoodie__clean__commits__retained=1)
    with pytest.raises(UnsupportedTableError, match=r"pyhudi\.expression\.index\.timezone"):
        unaware.cleaning.run()
    assert not unaware.timeline.pending.instants
    aware = hudi.open_table(location, storage_options=FAST, options={**known, "hoodie.clean.commits.retained": 1})
    assert aware.cleaning.schedule()
    kept = data_files(location)
    with pytest.raises(UnsupportedTableError, match="time zone"):
        unaware.cleaning.execute()
    assert data_files(location) == kept
    assert aware.cleaning.execute().files
    assert aware.check().ok
