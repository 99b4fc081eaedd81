"""Auto mode: what is due is decided by statistics, explained, and run within limits; one broken table does not stop the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.compactions import planned, with_logs
from support.disk import contents, data_files
from support.golden import unpack
from support.tables import FAST, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lake import Outcome, UpkeepLine, tables_below
from pyhudi_core.services.clustering.clustering import Clustering
from pyhudi_core.services.registry import SERVICES

pytestmark = pytest.mark.row("N16")


def _lines(report: hudi.UpkeepReport, service: str) -> list[UpkeepLine]:
    return [line for line in report.lines if line.service == service]


def _command(*arguments: str) -> Result:
    found = CliRunner().invoke(main, arguments)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_every_service_says_yes_or_no_and_why_and_a_plan_changes_nothing(location: str) -> None:
    table = with_logs(location)
    before = contents(location)
    report = hudi.upkeep(table, plan=True)
    assert [line.service for line in report.lines] == [kind.name for kind in SERVICES]
    assert all(line.reason for line in report.lines)
    (compaction,) = _lines(report, "compaction")
    assert compaction.outcome is Outcome.DUE
    assert compaction.reason.startswith("3 of 5 delta commits; logs have ")
    assert compaction.bytes == sum(Path(location, path).stat().st_size for path in data_files(location)) + sum(
        path.stat().st_size for path in Path(location).rglob(".*.log.*")
    )
    assert compaction.seconds > 0
    assert contents(location) == before


def test_what_is_due_runs_and_is_not_due_afterwards(location: str) -> None:
    table = with_logs(location)
    before = rows(table, "id", "price", "_hoodie_commit_time")
    report = hudi.upkeep(location, storage_options=FAST)
    (compaction,) = _lines(report, "compaction")
    assert (compaction.outcome, compaction.result.partition(":")[0]) == (Outcome.RAN, "compaction")
    assert compaction.took is not None
    assert report
    assert rows(table, "id", "price", "_hoodie_commit_time") == before
    assert not hudi.upkeep(table, plan=True).with_outcome(Outcome.DUE)


def test_a_gate_that_refuses_leaves_the_table_as_it_is(location: str) -> None:
    table = with_logs(location)
    before = data_files(location)
    report = hudi.upkeep(table, hudi.UpkeepRules(("compaction",)), gate=lambda: False)
    assert "The gate refused" in report.failed[0].reason
    assert data_files(location) == before


def test_compaction_is_due_by_the_share_of_log_bytes(location: str) -> None:
    table = with_logs(location)
    (never,) = hudi.upkeep(table, hudi.UpkeepRules(("compaction",), log_ratio=50), plan=True).lines
    assert never.outcome is Outcome.NOT_DUE
    assert "limit 5000%" in never.reason


def test_clustering_is_due_by_the_file_groups_that_it_saves(location: str) -> None:
    table = make(location, options={"hoodie.parquet.small.file.limit": 0})
    for key in range(4):
        table.insert(orders((key, "a", 1.0)))
    for limit, outcome in ((4, Outcome.NOT_DUE), (3, Outcome.RAN)):
        (line,) = hudi.upkeep(table, hudi.UpkeepRules(("clustering",), small_groups=limit)).lines
        assert (line.outcome, f"it would save 3 file groups (limit {limit})" in line.reason) == (outcome, True)


def test_archival_is_due_by_the_length_of_the_timeline(location: str) -> None:
    made = make(location, partition_by=())
    options = {"hoodie__keep__min__commits": 2, "hoodie__keep__max__commits": 4, "hoodie__archive__automatic": False}
    table = reopen(made, **options, hoodie__clean__commits__retained=1)
    for key in range(5):
        table.upsert(orders((key, "a", 1.0)))
    (line,) = hudi.upkeep(table, hudi.UpkeepRules(("archival",))).lines
    assert line.reason == "5 commits on the timeline (limit 4)"
    assert line.outcome is Outcome.RAN
    (line,) = hudi.upkeep(table, hudi.UpkeepRules(("archival",))).lines
    assert line.outcome is Outcome.NOT_DUE


def test_a_plan_that_nobody_executes_is_due(location: str) -> None:
    table = with_logs(location)
    plan = planned(table)
    (line,) = hudi.upkeep(table, hudi.UpkeepRules(("compaction",), log_ratio=50)).lines
    assert line.reason == f"planned and not executed: {plan.requested_time}"
    assert line.outcome is Outcome.RAN
    assert table.timeline.find(plan.requested_time).is_completed  # type: ignore[union-attr]


def test_limits_leave_the_less_urgent_tables_for_another_run(tmp_path: Path) -> None:
    busy, calm = with_logs(str(tmp_path / "busy")), with_logs(str(tmp_path / "calm"))
    for step in range(3):
        busy.upsert(orders((1, "a", 1.5, 20 + step)))
    only = ("compaction",)
    (first, second) = hudi.upkeep([calm, busy], hudi.UpkeepRules(only), plan=True).lines
    limit = max(first.bytes, second.bytes) + 1
    report = hudi.upkeep([calm, busy], hudi.UpkeepRules(only, bytes=limit))
    assert [(line.table == busy.location, line.outcome) for line in report.lines] == [
        (False, Outcome.LEFT),
        (True, Outcome.RAN),
    ]
    assert report.lines[0].reason.startswith("it would rewrite about ")
    (left,) = hudi.upkeep(calm, hudi.UpkeepRules(only, seconds=0.0001)).lines
    assert left.outcome is Outcome.LEFT
    assert "left of this run's limit" in left.reason


def test_a_broken_table_and_a_failing_service_do_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = make(str(tmp_path / "lake/a"))
    Path(broken.location, ".hoodie/hoodie.properties").write_text("no properties")
    healthy = with_logs(str(tmp_path / "lake/deep/b"))

    def fails(self: Any) -> Any:
        raise ZeroDivisionError("a fault of the service")

    monkeypatch.setattr(Clustering, "plan", fails)
    assert tables_below(str(tmp_path)) == [broken.location, healthy.location]
    report = hudi.upkeep(str(tmp_path), storage_options=FAST)
    assert not report
    assert [(line.table, line.service) for line in report.failed] == [
        (broken.location, ""),
        (healthy.location, "clustering"),
    ]
    assert "ZeroDivisionError: a fault of the service" in report.failed[1].reason
    assert _lines(report, "compaction")[0].outcome is Outcome.RAN


@pytest.mark.parametrize("wrong", [{"services": ("compress",)}, {"seconds": 0}, {"bytes": -1}, {"log_ratio": 0}])
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        hudi.UpkeepRules(**wrong)


def test_a_table_of_version_9_is_skipped_with_its_reason_and_the_others_are_looked_after(tmp_path: Path) -> None:
    nine = unpack("hudi-1.2.0/mor_v9", tmp_path / "nine")
    with_logs(str(tmp_path / "eight"))
    before = contents(nine)
    report = hudi.upkeep(str(tmp_path))
    assert report, "it is no failure"
    (skipped,) = report.with_outcome(Outcome.SKIPPED)
    assert (skipped.table, skipped.service) == (nine, "")
    assert "version 9, which this release reads and does not write" in skipped.reason
    assert report.with_outcome(Outcome.RAN)
    assert contents(nine) == before
    assert _command("upkeep", nine).exit_code == 0


def test_the_command_has_exit_codes_for_done_failed_and_no_table(tmp_path: Path) -> None:
    table = with_logs(str(tmp_path / "lake/good"))
    before = contents(table.location)
    shown = _command("upkeep", str(tmp_path), "--plan", "--json")
    found = {line["service"]: line for line in json.loads(shown.output)}
    assert (shown.exit_code, found["compaction"]["outcome"]) == (0, "due")
    assert contents(table.location) == before
    done = _command("upkeep", str(tmp_path), "--service", "compaction", "--storage-option", "fsync=false")
    assert (done.exit_code, "1 ran" in done.output) == (0, True)
    Path(make(str(tmp_path / "lake/bad")).location, ".hoodie/hoodie.properties").write_text("no properties")
    failed = _command("upkeep", str(tmp_path))
    assert (failed.exit_code, "1 failed" in failed.output) == (1, True)
    assert _command("upkeep", str(tmp_path / "nothing")).exit_code == 2
    assert _command("upkeep", str(tmp_path), "--service", "compress").exit_code == 2


def test_an_index_that_needs_footers_only_is_built_within_a_limit_below_the_size_of_the_table(location: str) -> None:
    table = reopen(make(location, options={"hoodie.metadata.enable": "false"}))
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    table = reopen(table, hoodie__metadata__enable="true")
    size = sum(Path(location, path).stat().st_size for path in data_files(location))
    statistics, keys = (
        table.indexing.plan(["files", "column_stats", "bloom_filters"]),
        table.indexing.plan(["record_index"]),
    )
    assert (statistics.figures["files"], statistics.figures["bytes"]) == (2, 0)
    assert (keys.figures["files"], keys.figures["bytes"]) == (2, size), "the keys are in the rows"
    (line,) = _lines(hudi.upkeep(table, hudi.UpkeepRules(services=("indexing",), bytes=size - 1)), "indexing")
    assert line.outcome is Outcome.RAN, line.reason
