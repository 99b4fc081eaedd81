"""Auto mode: what is due is decided by statistics, explained, and run within limits; one broken table does not stop the others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.compactions import planned, with_logs
from support.disk import contents, data_files
from support.golden import OTHER_VERSIONS, unpack
from support.tables import FAST, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lake_tables import tables_below
from pyhudi_core.services import estimates
from pyhudi_core.services.clustering.clustering import Clustering
from pyhudi_core.services.registry import SERVICES
from pyhudi_core.services.upkeep import part_of
from pyhudi_core.services.upkeep_rules import SERVICE_NAMES
from pyhudi_core.upkeep_run import Outcome, UpkeepLine

pytestmark = pytest.mark.row("N16")


def _lines(report: hudi.UpkeepReport, service: str) -> list[UpkeepLine]:
    return [line for line in report.lines if line.service == service]


def _command(*arguments: str) -> Result:
    found = CliRunner().invoke(main, arguments)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_the_names_are_those_of_the_registry_in_its_order() -> None:
    assert tuple(kind.name for kind in SERVICES) == SERVICE_NAMES


def test_every_service_says_yes_or_no_and_why_and_a_plan_changes_nothing(location: str) -> None:
    table = with_logs(location)
    before = contents(location)
    report = hudi.upkeep(table, plan=True)
    said = [line.service for line in report.lines]
    assert sorted(said) == sorted(kind.name for kind in SERVICES)
    assert said[:5] == ["sweep", "failed_writes", "restore", "cleaning", "metadata_cleaning"], "room is made first"
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


def test_a_clean_that_is_due_is_done_although_a_clustering_is_due_too() -> None:
    table = hudi.create_table(
        "memory://due-clean/t", orders().schema, "id", options={"hoodie.archive.automatic": False}
    )
    for group in range(14):
        table.bulk_insert(orders((group, "a", 0.0)))
    for number in range(14):
        table.upsert(orders((0, "a", float(number))))
    due = {line.service for line in hudi.upkeep(table, plan=True).with_outcome(Outcome.DUE)}
    assert {"cleaning", "clustering"} <= due
    ran = [line.service for line in hudi.upkeep(table).with_outcome(Outcome.RAN)]
    assert ran.index("cleaning") < ran.index("clustering")
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


def in_three_groups(location: str, service: str) -> hudi.HudiTable:
    """A table with work for the service in three partitions of equal size."""
    options = {
        "hoodie.parquet.small.file.limit": 0,
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled": False,
    }
    kind = "merge_on_read" if service == "compaction" else "copy_on_write"
    table = make(location, table_type=kind, options=options)
    for day in "abc":
        table.insert(orders((1, day, 1.0, 1)))
        if service == "clustering":
            table.insert(orders((2, day, 1.0, 1)))
    table.upsert(orders(*((1, day, 2.0, 2) for day in "abc")))
    return table


@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_of_a_service_beyond_the_limit_a_part_is_done_in_each_run_until_nothing_is_due(
    location: str, service: str
) -> None:
    table = in_three_groups(location, service)
    before = rows(table, "id", "day", "price")
    rules = hudi.UpkeepRules((service,), small_groups=1, log_ratio=0.01)
    (complete,) = hudi.upkeep(table, rules, plan=True).lines
    limited = replace(rules, bytes=complete.bytes * 2 // 5)  # one of three groups
    (shown,) = hudi.upkeep(table, limited, plan=True).lines
    assert (shown.outcome, shown.reason.startswith("a part that fits into the limits, ")) == (Outcome.DUE, True)
    for _ in range(3):
        (line,) = hudi.upkeep(table, limited).lines
        assert line.outcome is Outcome.RAN, line
        assert 0 < line.bytes <= complete.bytes * 2 // 5
        assert rows(table, "id", "day", "price") == before
    (line,) = hudi.upkeep(table, limited).lines
    assert line.outcome is Outcome.NOT_DUE, line
    assert table.check().ok


def test_a_limit_of_time_makes_parts_too(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "BYTES_PER_SECOND", 1000)
    table = in_three_groups(location, "compaction")
    (whole,) = hudi.upkeep(table, hudi.UpkeepRules(("compaction",), log_ratio=0.01), plan=True).lines
    rules = hudi.UpkeepRules(("compaction",), log_ratio=0.01, seconds=whole.seconds * 0.45)
    (part,) = hudi.upkeep(table, rules, plan=True).lines
    assert (part.outcome, whole.bytes / 4 < part.bytes < whole.bytes / 2) == (Outcome.DUE, True)
    assert part.seconds < whole.seconds * 0.45
    exact = hudi.UpkeepRules(("compaction",), log_ratio=0.01, seconds=whole.seconds)
    (line,) = hudi.upkeep(table, exact, plan=True).lines
    assert (line.outcome, line.bytes) == (Outcome.DUE, whole.bytes), "what just fits is done as a whole"
    assert [one.to_dict()["freed_bytes"] for one in (whole, part)] == [0, 0], "a compaction deletes nothing"


def test_a_group_that_is_larger_than_the_limit_and_a_plan_on_the_timeline_are_left(location: str) -> None:
    table = in_three_groups(location, "compaction")
    rules = hudi.UpkeepRules(("compaction",), log_ratio=0.01)
    (whole,) = hudi.upkeep(table, rules, plan=True).lines
    (left,) = hudi.upkeep(table, replace(rules, bytes=10)).lines
    assert (left.outcome, left.reason.startswith("it would rewrite about ")) == (Outcome.LEFT, True)
    assert part_of(table.services["compaction"], 0.5) is None
    assert part_of(table.services["cleaning"], 1e9) is None
    # Half of the work is planned, and nobody executes it: plans are executed completely.
    half = reopen(table, pyhudi__compaction__max__bytes=whole.bytes // 2)
    assert half.compaction.schedule() is not None
    (left,) = hudi.upkeep(table, replace(rules, bytes=10)).lines
    assert (left.outcome, "planned and not executed" in left.reason) == (Outcome.LEFT, True)
    assert len(table.timeline.pending.instants) == 1


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
    figures = ("estimated_bytes", "freed_bytes", "estimated_seconds", "seconds")
    for line in report.failed:
        assert [line.to_dict()[name] for name in figures] == [0, 0, 0.0, None], "of what failed nothing is claimed"
    assert _lines(report, "compaction")[0].outcome is Outcome.RAN


@pytest.mark.parametrize("wrong", [{"services": ("compress",)}, {"seconds": 0}, {"bytes": -1}, {"log_ratio": 0}])
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        hudi.UpkeepRules(**wrong)


def test_a_table_of_version_6_is_skipped_with_its_reason_and_the_others_are_looked_after(tmp_path: Path) -> None:
    six = unpack("hudi-0.15.0/mor_avro", tmp_path / "six", OTHER_VERSIONS)
    with_logs(str(tmp_path / "eight"))
    before = contents(six)
    report = hudi.upkeep(str(tmp_path))
    assert report, "it is no failure"
    (skipped,) = report.with_outcome(Outcome.SKIPPED)
    assert (skipped.table, skipped.service) == (six, "")
    assert "version 6, which this release reads and does not write" in skipped.reason
    assert report.with_outcome(Outcome.RAN)
    assert contents(six) == before
    assert _command("upkeep", six).exit_code == 0


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


def test_a_plan_of_several_tables_shows_what_is_due_and_of_one_table_also_what_is_not(tmp_path: Path) -> None:
    one, other = with_logs(str(tmp_path / "lake/one")), make(str(tmp_path / "lake/other"))
    several = _command("upkeep", str(tmp_path), "--plan").output
    assert "compaction" in several
    assert "clustering" not in several
    assert other.location not in several
    assert "--all shows why" in several
    assert "clustering" in _command("upkeep", str(tmp_path), "--plan", "--all").output
    assert "clustering" in _command("upkeep", one.location, "--plan").output


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
