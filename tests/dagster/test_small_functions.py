"""What small functions promise: texts and figures for people, months that end years, what was there before a step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import dagster as dg
import psutil
import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql.classic.dataframe import DataFrame
from support.tables import make, orders
from support.waiting import until

import pyhudi_core as hudi
from pyhudi_core.orchestration import checkpoints, data, past_commits
from pyhudi_core.orchestration.backlog import Backlog
from pyhudi_core.orchestration.incremental import Changes
from pyhudi_core.orchestration.past_commits import PastCommit
from pyhudi_core.orchestration.settings import OPERATIONS
from pyhudi_dagster import HudiPartitions
from pyhudi_dagster.lake import interrupts, spark_session
from pyhudi_dagster.reporting.metadata import duration_entries, total_entry
from pyhudi_dagster.steps.writer import CompletedCommit
from pyhudi_dagster.timeline.identity import _LONGEST_LIST, RUN_ID, Identity, partitions_text
from pyhudi_dagster.timeline.timeline_view import entries_until


def test_an_asset_can_have_every_operation_that_changes_rows() -> None:
    assert {hudi.OperationType.of(word) for word in OPERATIONS} == {one for one in hudi.OperationType if one.is_writer}


def test_a_backlog_of_nothing_has_no_commits_and_no_rows() -> None:
    assert (Backlog().commits, Backlog().rows, str(Backlog())) == (0, 0, "nothing to read")


def test_work_is_not_abandoned_while_its_step_waits_for_it_nor_outside_of_work() -> None:
    assert not interrupts.is_abandoned()
    assert not interrupts.interruptibly(interrupts.is_abandoned, "work")


def test_a_few_keys_are_named_and_one_more_makes_a_digest() -> None:
    keys = [f"2026-01-{day:02d}" for day in range(1, _LONGEST_LIST + 2)]
    assert partitions_text(keys[:-1]) == ",".join(keys[:-1])
    assert partitions_text(keys).startswith(f"{keys[0]}...{keys[-1]} ({len(keys)}, ")


def test_the_newest_change_is_that_of_any_partition_unless_some_are_asked_for(location: str) -> None:
    table = make(location)
    first, second = table.upsert(orders((1, "a", 1.0))), table.upsert(orders((2, "b", 2.0)))
    newest, of_a = (past_commits.newest_change(table, *given) for given in ((), (lambda path: path == "day=a",)))
    assert newest is not None
    assert of_a is not None
    assert (newest.instant.requested_time, of_a.instant.requested_time) == (second.instant, first.instant)


def test_a_duration_is_told_to_the_millisecond(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    [instant] = table.timeline.commits
    timed = replace(instant, requested_time="20260101000000000", completion_time="20260101000001235")
    assert total_entry(PastCommit(timed, table.commit_metadata(instant))) == {"hudi/duration_total_s": 1.235}


def test_a_commit_of_another_process_that_told_no_figures_has_none(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    [instant] = table.timeline.commits
    told = duration_entries(CompletedCommit(table, PastCommit(instant, table.commit_metadata(instant))))
    assert set(told.values()) == {0}


def test_a_session_that_runs_already_was_not_started_by_this_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the end of the run would stop it; tests/dagster/test_spark.py has a real one."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    assert spark_session.started(lambda: "the session") == ("the session", False)


def test_a_dataframe_stays_one_and_none_is_no_data() -> None:
    """What it holds is not asked for, so it needs no session; tests/dagster/test_spark.py writes real ones."""
    frame = DataFrame(None, SimpleNamespace(_sc=None, _jsparkSession=None))
    assert data.normalised(frame) is frame
    assert data.normalised(None) is None


def test_changes_are_the_same_whatever_gap_was_accepted_meanwhile(location: str) -> None:
    table = make(location)
    one, other = (Changes("orders", table, None, "20260101000000000", Backlog()) for _ in range(2))
    one.accept_gap("skip", "anna")
    assert one == other


def test_the_timeline_view_ends_with_a_commit_of_a_release_that_wrote_no_completion_times(location: str) -> None:
    table = make(location)
    commits = [table.upsert(orders((number, "a", 1.0))) for number in range(3)]
    until_second = replace(table.timeline.commits[1], completion_time=None)
    shown = entries_until(table, until_second)
    assert [entry.requested for entry in shown] == [commit.instant for commit in commits[:2]]


def test_commits_from_before_the_attempt_are_not_read(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    asked: list[str] = []
    real: Callable[..., Any] = hudi.HudiTable.commits_with

    def watched(self: hudi.HudiTable, prefix: str, after: str = "") -> Any:
        asked.append(after)
        return real(self, prefix, after)

    monkeypatch.setattr(hudi.HudiTable, "commits_with", watched)
    identity = Identity("orders", "orders", "run")
    begun = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert past_commits.find_made(table, RUN_ID, partial(identity.made, attempt=frozenset({"run"})), begun) is None
    assert past_commits.find_made(table, RUN_ID, partial(identity.made, attempt=frozenset({"run"}))) is None
    assert "20260101" <= asked[0] <= "20260101120000000"
    assert asked[1] == ""


def _windows(cron: str) -> dg.TimeWindowPartitionsDefinition:
    return dg.TimeWindowPartitionsDefinition(
        start="2023-01-01", fmt="%Y-%m-%d", cron_schedule=cron, end="2024-04-01", timezone="UTC"
    )


def test_a_quarter_has_three_months_also_at_the_end_of_a_year() -> None:
    parts = HudiPartitions.of(_windows("0 0 1 */3 *"), "month", path_granularity="month")
    assert sorted(parts.values_of_key("2023-10-01")) == [("2023-10",), ("2023-11",), ("2023-12",)]
    assert parts.key_of(("2023-12",)) == "2023-10-01"


def test_a_week_has_seven_days_wherever_in_the_month_it_begins() -> None:
    parts = HudiPartitions.weekly("day", "2023-01-01", end_date="2023-03-01", path_granularity="day", fmt="%Y-%m-%d")
    days = [(datetime(2023, 1, 29, tzinfo=UTC) + timedelta(days=day)).strftime("%Y-%m-%d") for day in range(7)]
    assert sorted(parts.values_of_key("2023-01-29")) == [(day,) for day in days]


@pytest.mark.parametrize(("columns", "value"), [("hour", ("2023-01-01-06",)), (["day", "hour"], ("2023-01-01", "06"))])
def test_windows_of_hours_have_one_column_or_a_day_and_an_hour(columns: Any, value: tuple[str, ...]) -> None:
    definition = dg.TimeWindowPartitionsDefinition(
        start="2023-01-01-00", fmt="%Y-%m-%d-%H", cron_schedule="0 */6 * * *", end="2023-02-01-00", timezone="UTC"
    )
    assert HudiPartitions.of(definition, columns).values_of_key("2023-01-01-06") == frozenset({value})


@pytest.mark.parametrize(("days", "more"), [(6, ""), (8, " and 2 more")])
def test_rows_of_many_other_partitions_are_named_in_part_and_counted(
    run: Callable[..., Any], asset_of: Callable[..., Any], days: int, more: str
) -> None:
    named = [f"2026-01-{day:02d}" for day in range(1, days + 1)]
    data = pa.table({"id": range(days), "amount": [1.0] * days, "day": named, "ts": [1] * days})
    partitions = HudiPartitions.daily("day", "2026-01-01", end_date="2026-02-01")
    with pytest.raises(dg.Failure) as caught:
        run(asset_of(data, partitions=partitions), partition_key=named[0])
    assert f"day is {', '.join(named[1:6])}{more}" in str(caught.value)
    assert (" more" in str(caught.value)) is bool(more)


def test_the_end_of_a_start_of_spark_leaves_what_was_there_before_alone() -> None:
    """A process of a process, too: another session's JVM may have been started by a child."""
    name = spark_session._SPARKS_OWN[0]
    inner = f"[sys.executable, '-c', 'import time; time.sleep(100)', {name!r}]"
    parent = subprocess.Popen([sys.executable, "-c", f"import subprocess, sys; subprocess.run({inner})"])
    try:
        [old] = until(lambda: [p for p in psutil.Process(parent.pid).children() if name in " ".join(p.cmdline())])  # type: ignore[misc, attr-defined]
        launch = spark_session._Launch()
        launch.end()
        assert old not in launch._asked
        assert old.is_running()
        assert old.status() != psutil.STATUS_ZOMBIE
    finally:
        for process in [*psutil.Process(parent.pid).children(recursive=True), parent]:
            process.kill()
        parent.wait()


def test_a_write_without_inputs_repeats_the_positions_that_its_table_has(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    assert checkpoints.carried(table) == checkpoints.Positions()
    told = checkpoints.Positions().moved("upstream", "orders", (), "20260101000000001")
    table.upsert(orders((2, "a", 1.0)), extra_metadata=told.extra() | {checkpoints.SEEN: "20260101000000000"})
    table.upsert(orders((3, "a", 1.0)))
    assert checkpoints.carried(table).of("upstream", "orders").watermark == "20260101000000001"


def test_a_given_name_is_the_last_part_of_the_key_which_names_the_step(asset_of: Callable[..., Any]) -> None:
    assert asset_of(None).op.name == "orders"
    assert asset_of(None, key_prefix="shop").op.name == "shop__orders"
    named = asset_of(None, name="load", key_prefix="shop")
    assert (named.key, named.op.name) == (dg.AssetKey(["shop", "load"]), "shop__load")


def test_rows_of_a_dropped_partition_that_are_not_known_count_as_none(location: str) -> None:
    """Only a merge would count the rows of a partition with logs, and these are gone."""
    table = make(location, table_type="merge_on_read")
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0), (3, "b", 1.0)))
    table.upsert(orders((3, "b", 2.0)))
    table.delete_partitions(["day=a", "day=b"])
    commit = table.timeline.commits[-1]
    past = PastCommit(commit, table.commit_metadata(commit))
    assert past_commits.dropped_rows(table, past) == {"day=a": 2, "day=b": 0}
