"""One function for several tables: one step for all of them, and what holds if one of them fails."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from support.multi_assets import assets_of, rows

import pyhudi_core as hudi
from pyhudi_dagster import Changes, HudiPartitions, HudiPipes, HudiWrite, hudi_asset, hudi_multi_asset, hudi_output
from pyhudi_dagster.assets import multi_step
from pyhudi_dagster.steps import runner

DAYS = HudiPartitions.daily("day", "2026-01-01", end_date="2026-01-11")
NOT_NULL = hudi.not_null("name")


def ids(lake: Any, name: str) -> list[int]:
    return sorted(lake.table(name).scan(columns=["id"]).to_arrow()["id"].to_pylist())


def materialized(result: dg.ExecuteInProcessResult) -> list[str]:
    return [event.asset_key.to_user_string() for event in result.get_asset_materialization_events()]


def pending(lake: Any, name: str) -> list[Any]:
    return list(lake.table(name).timeline.pending) if name in lake.tables_by_name else []


def commits(lake: Any, name: str) -> list[Any]:
    """The commits of a table; none without a table, because a refused first write leaves none."""
    return list(lake.table(name).timeline.commits) if name in lake.tables_by_name else []


@pytest.fixture
def apart(monkeypatch):
    """As if the tables were in two stores."""
    monkeypatch.setattr(
        multi_step.orchestration, "why_not_together", lambda _: "they are in several stores", raising=False
    )


@pytest.fixture
def second_commit_fails(monkeypatch, apart):
    """Refuses the commit of lines once, after that of orders."""
    return refuse_lines(monkeypatch)


def refuse_lines(monkeypatch):
    wanted, refused = runner.gate, []

    def gate(step, table):
        def ask():
            if table.location.endswith("lines") and not refused:
                refused.append(table.location)
                raise RuntimeError("the storage is gone")
            return wanted(step, table)()

        return ask

    monkeypatch.setattr(runner, "gate", gate)
    return refused


def test_each_table_has_one_commit_with_its_figures_and_the_run(run, lake):
    result = run(assets_of({"lines": rows(1, 2, 3), "orders": rows(1, 2)}))
    assert materialized(result) == ["orders", "lines"]
    counts = [e.materialization.metadata["dagster/row_count"].value for e in result.get_asset_materialization_events()]
    assert counts == [2, 3]
    for name in ("orders", "lines"):
        (instant,) = commits(lake, name)
        extra = lake.table(name).commit_metadata(instant).extra
        assert (extra["dagster.asset_key"], extra["dagster.run_id"]) == (name, result.run_id)


def test_a_table_without_an_entry_is_not_written(run, lake):
    result = run(assets_of({"orders": rows(1)}))
    assert result.success
    assert materialized(result) == ["orders"]
    assert not run(assets_of(None)).get_asset_materialization_events()


def test_partitions_of_a_table_without_an_entry_are_not_deleted(run, lake):
    """None for partitions to delete means those of the run, but an entry that is not there means nothing."""
    rows_of_day = pa.table({"id": [1], "day": ["2026-01-01"]})
    run(assets_of({"orders": rows_of_day}, partitions=DAYS), partition_key="2026-01-01")
    deletes = {"operation": "delete_partitions"}
    run(assets_of({}, deletes, partitions=DAYS), partition_key="2026-01-01")
    assert ids(lake, "orders") == [1]
    run(assets_of({"orders": None}, deletes, partitions=DAYS), partition_key="2026-01-01")
    assert ids(lake, "orders") == []


def test_an_output_chooses_its_operation_at_run_time(run, lake):
    run(assets_of({"orders": rows(1, 2), "lines": rows(1, 2)}))
    run(assets_of({"orders": HudiWrite(rows(1), "delete"), "lines": rows(3)}, second={"operation": "insert"}))
    assert (ids(lake, "orders"), ids(lake, "lines")) == ([2], [1, 2, 3])


def test_bad_rows_of_the_last_table_publish_nothing_of_the_first(run, lake):
    failed = run(assets_of({"orders": rows(1), "lines": pa.table({"id": [None]})}), raise_on_error=False)
    assert not failed.success
    assert not materialized(failed)
    assert not commits(lake, "orders")
    assert not pending(lake, "orders"), "what was staged is rolled back"


def test_a_refusing_validator_of_the_last_table_publishes_nothing_and_is_a_failed_check(run, lake):
    result = {"orders": rows(1, name="Ada"), "lines": pa.table({"id": [1], "name": pa.array([None], pa.string())})}
    failed = run(assets_of(result, {"pre_commit": [NOT_NULL]}, {"pre_commit": [NOT_NULL]}), raise_on_error=False)
    checks = [(each.asset_key.to_user_string(), each.passed) for each in failed.get_asset_check_evaluations()]
    assert checks == [("lines", False)]
    assert not materialized(failed)
    assert not commits(lake, "orders")
    assert not pending(lake, "orders")


def test_if_the_second_commit_fails_the_first_is_published_and_reported_and_the_step_fails(
    run, lake, second_commit_fails
):
    failed = run(assets_of({"orders": rows(1), "lines": rows(1)}), raise_on_error=False)
    assert second_commit_fails
    assert not failed.success
    assert materialized(failed) == ["orders"]
    assert ids(lake, "orders") == [1]
    assert not commits(lake, "lines")
    assert not pending(lake, "lines")


def test_tables_of_one_store_are_published_in_one_step(run, lake):
    result = run(assets_of({"lines": rows(1, 2, 3), "orders": rows(1, 2)}))
    assert materialized(result) == ["orders", "lines"]
    times = {lake.table(name).timeline.commits[-1].completion_time for name in ("orders", "lines")}
    assert len(times) == 1


def test_if_one_commit_of_the_step_fails_no_table_is_published_and_a_retry_makes_all(run, lake, monkeypatch):
    refused = refuse_lines(monkeypatch)
    failed = run(assets_of({"orders": rows(1), "lines": rows(1)}), raise_on_error=False)
    assert refused
    assert not failed.success
    assert not materialized(failed)
    for name in ("orders", "lines"):
        assert not commits(lake, name)
        assert not pending(lake, name)
    assert materialized(run(assets_of({"orders": rows(1), "lines": rows(1)}))) == ["orders", "lines"]


def refused_late(run, lake):
    """A run whose second table gets a commit of another writer once its rows were checked: the validator is asked again, and refuses then."""
    asked = []

    def no_other_writer(candidate):
        candidate.count(candidate.after(columns=["id"]))  # it reads the table, so another commit makes it old
        asked.append(candidate.operation)
        if len(asked) == 1:
            lake.table("lines").upsert(rows(7))
            return None
        return "rows of another writer"

    run(assets_of({"lines": rows(1)}))
    asset = assets_of({"orders": rows(1), "lines": rows(2)}, second={"pre_commit": [no_other_writer]})
    return run(asset, raise_on_error=False), asked


def test_a_validator_that_refuses_at_the_step_publishes_no_table_and_is_a_failed_check(run, lake):
    failed, _ = refused_late(run, lake)
    assert not materialized(failed)
    assert [(each.asset_key.to_user_string(), each.passed) for each in failed.get_asset_check_evaluations()] == [
        ("lines", False)
    ]
    assert not commits(lake, "orders")


def test_a_second_commit_that_a_validator_refuses_late_says_that_the_first_is_published(run, lake, apart):
    failed, asked = refused_late(run, lake)
    assert len(asked) > 1
    assert materialized(failed) == ["orders"]
    assert [(each.asset_key.to_user_string(), each.passed) for each in failed.get_asset_check_evaluations()] == [
        ("orders", True),  # its timeline was read
        ("lines", False),
    ]
    failure = failed.failure_data_for_node("load").user_failure_data
    for said in (failure.description, failure.metadata["hudi/hint"].value):
        assert "Nothing was published in lines" in said
        assert "orders: published before lines failed; that stays" in said


def test_a_retry_adopts_the_first_commit_and_makes_the_second(run, lake, second_commit_fails):
    calls = []

    def load(context):
        calls.append(context.retry_number)
        return {"orders": rows(1), "lines": rows(1)}

    asset = assets_of(
        load, {"operation": "insert"}, {"operation": "insert"}, retry_policy=dg.RetryPolicy(max_retries=1)
    )
    result = run(asset)
    assert result.success
    assert calls == [0, 1]
    assert len(commits(lake, "orders")) == len(commits(lake, "lines")) == 1
    adopted = ["hudi/adopted" in e.materialization.metadata for e in result.get_asset_materialization_events()]
    assert adopted == [False, True, False], "orders, orders again by the retry, lines"


def test_a_subset_writes_only_the_selected_table(run, lake):
    selected = []

    def load(context):
        selected.append({key.to_user_string() for key in context.selected_asset_keys})
        return {"orders": rows(1), "lines": rows(1)}

    asset = assets_of(load, can_subset=True)
    result = run(asset, selection=["lines"])
    assert selected == [{"lines"}]
    assert materialized(result) == ["lines"]
    assert not (lake.table("lines").timeline.pending or hudi_exists(lake, "orders"))
    assert materialized(run(asset)) == ["orders", "lines"]


def hudi_exists(lake: Any, name: str) -> bool:
    try:
        lake.table(name)
    except hudi.errors.TableNotFoundError:
        return False
    return True


def test_a_backfill_over_a_range_is_one_commit_for_each_table_with_events_for_each_partition(run, lake):
    def load(context):
        days = list(context.partition_keys)
        table = pa.table({"id": days, "day": days})
        return {"orders": table, "lines": table.rename_columns(["id", "shipped"])}

    lines = {"partitions": HudiPartitions.of(DAYS.definition, "shipped")}
    tags = {"dagster/asset_partition_range_start": "2026-01-01", "dagster/asset_partition_range_end": "2026-01-03"}
    result = run(assets_of(load, second=lines, partitions=DAYS), tags=tags)
    events = result.get_asset_materialization_events()
    days = ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert [(e.asset_key.to_user_string(), e.partition) for e in events] == [
        (name, day) for name in ("orders", "lines") for day in days
    ]
    assert {e.materialization.metadata["dagster/partition_row_count"].value for e in events} == {1}
    assert len(commits(lake, "orders")) == len(commits(lake, "lines")) == 1
    assert sorted(lake.table("lines").snapshot().view.partitions()) == [f"shipped={day}" for day in days]


def test_rows_of_another_partition_in_one_table_publish_nothing_in_any(run, lake):
    good, bad = pa.table({"id": [1], "day": ["2026-01-01"]}), pa.table({"id": [1], "day": ["2026-01-05"]})
    asset = assets_of({"orders": good, "lines": bad}, partitions=DAYS)
    failed = run(asset, partition_key="2026-01-01", raise_on_error=False)
    assert "ForeignRowsError" in failed.failure_data_for_node("load").user_failure_data.description
    assert not commits(lake, "orders")


def test_the_assets_can_be_called_in_a_unit_test(lake):
    @hudi_multi_asset(tables={"orders": hudi_output(record_key="id"), "lines": hudi_output(record_key="id")})
    def load():
        return {"orders": rows(1), "lines": rows(1, 2)}

    results = load(lake=lake)
    assert [each.asset_key.to_user_string() for each in results] == ["orders", "lines"]
    assert results[1].metadata["dagster/row_count"] == 2


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ({"order": rows(1)}, "returned rows for order, but its decorator names no such table"),
        (rows(1), "does not say what belongs to which table"),
        ({"orders": rows(1), "lines": [1, 2]}, "The output lines returned list"),
        ({"orders": rows(1), "lines": HudiWrite(rows(1), "upsrt")}, "The output lines has operation='upsrt'"),
        ({"orders": rows(1), "lines": HudiWrite(HudiPipes(dg.PipesSubprocessClient()))}, "is HudiPipes"),
        ({"orders": rows(1), "lines": HudiPipes(dg.PipesSubprocessClient())}, "is HudiPipes"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(run, lake, result, says):
    failed = run(assets_of(result), raise_on_error=False)
    assert says in failed.failure_data_for_node("load").user_failure_data.description
    assert not hudi_exists(lake, "orders")


class TestChanges:
    """Each table stores how far it has read an input."""

    @pytest.fixture
    def seen(self) -> list[list[int]]:
        return []

    @pytest.fixture
    def load(self, seen):
        @hudi_multi_asset(
            tables={
                "first": hudi_output(record_key="id", operation="insert"),
                "lines": hudi_output(record_key="id", operation="insert"),
            },
            can_subset=True,
        )
        def load(source: Changes):
            found = source.to_arrow()
            seen.append(sorted(found["id"].to_pylist()))
            return {"first": found, "lines": found}

        return load

    @pytest.fixture
    def source(self, run):
        def write(*numbers: int) -> None:
            run(hudi_asset(key="source", record_key="id")(lambda: rows(*numbers)))

        return write

    def test_every_change_comes_once_to_every_table(self, run, lake, source, load, seen):
        source(1, 2)
        run(load)
        source(3)
        run(load)
        assert not materialized(run(load))
        assert seen == [[1, 2], [3]]
        assert ids(lake, "first") == ids(lake, "lines") == [1, 2, 3]

    def test_a_new_run_after_a_failed_second_commit_first_brings_the_second_table_to_the_first(
        self, run, lake, source, load, seen, second_commit_fails
    ):
        source(1)
        assert not run(load, raise_on_error=False).success
        source(2)
        assert materialized(run(load)) == ["lines"], "up to where the other table is"
        assert materialized(run(load)) == ["first", "lines"]
        assert seen == [[1], [1], [2]]
        assert ids(lake, "first") == ids(lake, "lines") == [1, 2], "inserted once, although the operation is insert"

    def test_a_retry_reads_up_to_where_the_adopted_commit_has_read(self, run, lake, source, seen, second_commit_fails):
        source(1)

        @hudi_multi_asset(
            tables={"first": hudi_output(record_key="id"), "lines": hudi_output(record_key="id")},
            retry_policy=dg.RetryPolicy(max_retries=1),
        )
        def load(context: dg.AssetExecutionContext, source: Changes):
            found = source.to_arrow()
            seen.append(sorted(found["id"].to_pylist()))
            lake.table("source").upsert(rows(7 + context.retry_number))
            return {"first": found, "lines": found}

        assert run(load).success
        assert seen == [[1], [1]]
        assert ids(lake, "first") == ids(lake, "lines") == [1]

    @pytest.mark.slow
    def test_a_table_that_was_left_out_before_catches_up(self, run, lake, source, load, seen):
        source(1)
        run(load, selection=["first"])
        source(2)
        run(load, selection=["first"])
        run(load)
        assert seen == [[1], [2], [1, 2]]
        assert ids(lake, "lines") == [1, 2]

    @pytest.mark.slow
    def test_tables_with_nothing_between_their_positions_are_written_together(self, run, lake, source, load, seen):
        source(1)
        run(load)
        source(2)
        run(load, selection=["lines"])
        with lake.table("source").begin("upsert", allow_empty=True) as write:
            write.commit()
        run(load, selection=["first"])  # its position is behind the commit without rows, that of lines before it
        source(3)
        assert materialized(run(load)) == ["first", "lines"]
