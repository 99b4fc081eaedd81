"""Log compaction: plans, tables that read the same in every merge mode, and writers beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.disk import contents
from support.golden import unpack
from support.homes import context_of
from support.merge_cases import KINDS, Kind, stories
from support.merge_tables import as_logs, left
from support.metadata_tables import assert_metadata_is_true, build
from support.planned_services import all_rows, begun, interrupted, requested
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.model.instant import Action
from pyhudi_core.services.compaction.compaction_plan import decode
from pyhudi_core.services.compaction.log_compaction import LogCompactionRun

TWO = {"hoodie.log.compaction.blocks.threshold": 2}


def low(table: hudi.HudiTable, **options: object) -> hudi.HudiTable:
    return reopen(table, hoodie__log__compaction__blocks__threshold=2, **options)


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    """A file group with updates and a delete in three logs, and one with one log."""
    made = low(make(location, table_type="MERGE_ON_READ", ordering="ts"))
    made.upsert(orders((1, "a", 1.0, 10), (2, "a", 2.0, 10), (3, "b", 3.0, 10), (4, "a", 4.0, 10)))
    made.upsert(orders((1, "a", 1.5, 11), (3, "b", 3.5, 12)))
    made.upsert(orders((1, "a", 1.1, 5), (4, "a", 4.5, 20)))
    made.delete(pa.table({"id": [2], "day": ["a"]}))
    return made


@pytest.mark.row("C6", "N4")
def test_a_log_compaction_writes_one_log_and_changes_no_row(table: hudi.HudiTable) -> None:
    before, there = all_rows(table), contents(table.location)
    plan = table.log_compaction.plan()
    assert contents(table.location) == there
    assert (plan.figures["file_groups"], plan.figures["log_files"]) == (1, 3)
    done = table.log_compaction.run(extra_metadata={"who": "me"})
    assert (done.file_groups, done.log_files, done.rows, done.deletes) == (1, 3, 2, 1)
    assert all_rows(table) == before
    [instant] = done.instants
    commit = table.commit_metadata(instant)
    assert (instant.action, commit.operation, commit.raw["compacted"]) == (Action.DELTACOMMIT, "LOG_COMPACT", True)
    assert commit.extra["who"] == "me"
    assert table.check().ok
    after = str(int(instant.completion_time or "") - 1)
    assert not table.incremental(after=after).to_arrow().num_rows, "rows keep their commits"
    assert table.log_compaction.plan().why_not == "no file group has 2 log files since the last log compaction"
    assert table.compaction.run().log_files == 5
    assert all_rows(table) == before


@pytest.mark.row("C6", "H4")
def test_the_new_log_names_the_blocks_that_it_replaces_and_has_hudis_plan(table: hudi.HudiTable) -> None:
    pieces = {piece.group: piece for piece in table.snapshot().view.all_slices()}
    plan = table.log_compaction.schedule()
    assert plan is not None
    record = decode_record(requested(table, plan), "HoodieCompactionPlan")
    assert record["strategy"]["compactorClassName"].endswith(".LogCompactionExecutionHelper")
    assert (record["preserveHoodieMetadata"], record["version"]) == (True, 2)
    done = table.log_compaction.execute(plan)
    [stat] = table.commit_metadata(done.instants[0]).stats
    logs = pieces[stat.partition, stat.file_id].logs
    with context_of(table).storage.open_input(stat.path) as source:
        blocks = list(LogReader(source, stat.path).blocks())
    assert len(blocks) == 2, "rows, and a delete"
    for block in blocks:
        assert block.instant_time == plan.requested_time
        assert block.compacted_times == tuple(log.name.requested_time for log in reversed(logs))
        assert 5 not in block.headers, "no positions"


@pytest.mark.one_in(3)
@pytest.mark.row("C6", "N4", "J1", "J2")
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_every_case_of_the_merge_law_reads_the_same_after_it(kind: Kind, mode: str, location: str) -> None:
    told = {name: story for name, (_, story) in stories(kind).items()}
    table = low(as_logs(location, told, kind, mode))
    before = left(table, told)
    assert table.log_compaction.run()
    assert left(table, told) == before
    # Also for readers that merge every block, as Hudi's do by default.
    scanned = low(table)
    assert scanned.compaction.run()
    assert left(scanned, told) == before


@pytest.mark.one_in(3)
@pytest.mark.row("C6", "Q1")
@pytest.mark.parametrize("name", ["mor_avro", "mor_commit_time_parquet_log", "mor_event_delete", "mor_logcompact"])
def test_tables_of_hudi_read_the_same_after_it(name: str, tmp_path: Path) -> None:
    table = hudi.open_table(unpack(f"hudi-1.0.2/{name}", tmp_path), options=TWO)
    before = all_rows(table)
    assert table.log_compaction.run().rows
    assert all_rows(hudi.open_table(table.location)) == before
    assert_metadata_is_true(hudi.open_table(table.location))


@pytest.mark.row("N4")
def test_logs_with_partial_updates_are_left_alone_and_not_planned_again(tmp_path: Path) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_partial", tmp_path), options=TWO)
    before = all_rows(table)
    planned = table.log_compaction.plan().figures["file_groups"]
    done = table.log_compaction.run()
    assert done.file_groups < planned
    assert all_rows(hudi.open_table(table.location)) == before
    again = hudi.open_table(table.location, options=TWO).log_compaction.plan()
    assert not again
    assert "have partial updates in their logs" in again.why_not


@pytest.mark.row("N4")
def test_tables_whose_logs_cannot_be_merged_say_why(location: str, tmp_path: Path) -> None:
    assert "copy-on-write" in make(location).log_compaction.plan().why_not
    custom = hudi.open_table(unpack("hudi-1.0.2/mor_payload_partial_update", tmp_path), options=TWO)
    assert "a merger makes the table's rows" in custom.log_compaction.plan().why_not


@pytest.mark.row("L3", "N4")
def test_a_group_is_in_one_plan_only(table: hudi.HudiTable) -> None:
    assert table.log_compaction.schedule() is not None
    assert "in pending plans" in table.log_compaction.plan().why_not
    assert table.compaction.plan().figures["file_groups"] == 1
    assert table.log_compaction.run().file_groups == 1
    assert table.compaction.schedule() is not None
    for _ in range(3):
        table.upsert(orders((1, "a", 9.0, 90)))
    assert not table.log_compaction.plan()


@pytest.mark.row("K6", "L4", "N4")
def test_a_writer_that_begins_after_the_plan_goes_on_and_its_rows_win(table: hudi.HudiTable) -> None:
    plan = table.log_compaction.schedule()
    assert plan is not None
    table.upsert(orders((1, "a", 9.0, 20)))
    write = interrupted(lambda: reopen(table).upsert(orders((4, "a", 9.5, 30))))
    done = LogCompactionRun(begun(table, plan), decode(requested(table, plan), ""), write).run()
    assert done.metadata.stats
    assert rows(table, "id", "price") == [(1, 9.0), (3, 3.5), (4, 9.5)]
    assert table.compaction.run()
    assert rows(table, "id", "price") == [(1, 9.0), (3, 3.5), (4, 9.5)]


@pytest.mark.row("K6", "N4")
@pytest.mark.parametrize("ordering", [None, "ts"])
def test_a_writer_that_began_before_the_plan_is_planned_again_or_its_groups_are_left_out(
    location: str, ordering: str | None
) -> None:
    table = low(make(location, table_type="MERGE_ON_READ", ordering=ordering))
    table.upsert(orders((1, "a", 1.0, 1), (2, "b", 1.0, 1)))
    for number in range(2, 4):
        table.upsert(orders((1, "a", float(number), number), (2, "b", float(number), number)))
    older = reopen(table).begin("upsert")
    older.__enter__()
    older.write(orders((1, "a", 10.0, 10)))
    plan = table.log_compaction.schedule()
    older.commit()
    done = table.log_compaction.execute(plan)
    assert done.file_groups == 1, "the other group's log would hide the row"
    assert rows(table, "id", "price") == [(1, 10.0), (2, 3.0)]
    # The other order: the log compaction completes first.
    table.upsert(orders((1, "a", 11.0, 11)))
    late = reopen(table, pyhudi__commit__retries=0).begin("upsert")
    late.__enter__()
    late.write(orders((1, "a", 12.0, 12)))
    assert table.log_compaction.run().file_groups == 1
    with pytest.raises(CommitConflictError, match="changed the same file groups"):
        late.commit()
    table.upsert(orders((1, "a", 13.0, 13)))
    assert rows(table, "id", "price") == [(1, 13.0), (2, 3.0)]


@pytest.mark.row("N4", "I2")
def test_the_metadata_table_knows_the_new_log(table: hudi.HudiTable) -> None:
    build(table)
    table = low(table)
    before = all_rows(table)
    assert table.log_compaction.run()
    table = low(table)
    assert all_rows(table) == before
    assert_metadata_is_true(table)
    assert table.check().ok


@pytest.mark.row("N4")
def test_commits_compact_logs_when_it_is_due(location: str) -> None:
    table = low(make(location, table_type="MERGE_ON_READ"), hoodie__log__compaction__inline="true")
    for number in range(5):
        table.upsert(orders((1, "a", float(number))))
    done = [i for i in table.timeline.commits if table.commit_metadata(i).operation == "LOG_COMPACT"]
    assert len(done) == 3, "after the second log, and then after each, because the new log counts"
    assert rows(table, "price") == [(4.0,)]


def test_the_command_plans_and_executes(table: hudi.HudiTable) -> None:
    run = CliRunner().invoke
    option = ["--option", "hoodie.log.compaction.blocks.threshold=2"]
    shown = json.loads(run(main, ["log-compact", table.location, "--plan", "--json", *option]).output)
    assert [group["log_files"] for group in shown["file_groups"]] == [3]
    assert "file_groups 1" in run(main, ["log-compact", table.location, *option]).output
    assert run(main, ["log-compact", f"{table.location}/none"]).exit_code == 2


@pytest.mark.row("L6", "N4")
@pytest.mark.parametrize(("service", "compactions"), [("log_compaction", 0), ("compaction", 1)])
def test_a_plan_is_outdated_if_its_logs_became_one_log_while_it_was_decided(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch, service: str, compactions: int
) -> None:
    before = all_rows(table)
    kind = type(table.services[service])
    others: list[object] = []

    def beside(*_: object) -> tuple[()]:
        if not others:
            others.append(None)
            assert low(table).log_compaction.run()
        return ()

    monkeypatch.setattr(kind, "_published_before", beside)
    done = table.services[service].run()
    operations = [table.commit_metadata(commit).operation for commit in table.timeline.commits]
    assert operations.count("LOG_COMPACT") == 1
    assert operations.count("COMPACT") == compactions == len(done.instants)
    assert all_rows(table) == before
    assert table.check().ok
