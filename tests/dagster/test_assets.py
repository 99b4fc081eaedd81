"""A materialization is one commit, and names it."""

import dagster as dg
import pyarrow as pa
import pytest

from pyhudi_dagster import Changes, HudiWrite, hudi_asset


def rows_of(table):
    return sorted(table.scan(columns=["id", "amount"]).to_arrow().to_pylist(), key=lambda row: row["id"])


def commits(table):
    return list(table.timeline.commits)


def test_a_materialization_is_one_upsert_commit(run, lake, orders, asset_of):
    run(asset_of(orders(1, 2, ts=1)))
    run(asset_of(orders(2, 3, ts=2, amount=5.0)))

    table = lake.table("orders")
    assert [table.commit_metadata(one).operation for one in commits(table)] == ["UPSERT", "UPSERT"]
    assert rows_of(table) == [{"id": 1, "amount": 1.0}, {"id": 2, "amount": 5.0}, {"id": 3, "amount": 5.0}]


def test_the_materialization_names_its_own_commit(run, lake, orders, asset_of):
    result = run(asset_of(orders(1, 2)))

    (commit,) = commits(lake.table("orders"))
    (event,) = result.get_asset_materialization_events()
    tags = event.materialization.tags
    assert (tags["hudi/instant"], tags["hudi/completion"]) == (commit.requested_time, commit.completion_time)
    assert tags["dagster/data_version"] == commit.completion_time


def test_the_commit_names_its_run(run, lake, orders, asset_of):
    result = run(asset_of(orders(1), code_version="7"))

    table = lake.table("orders")
    extra = table.commit_metadata(commits(table)[0]).extra
    assert extra["dagster.run_id"] == result.run_id
    assert (extra["dagster.asset_key"], extra["dagster.step_key"]) == ("orders", "orders")
    assert (extra["dagster.retry_number"], extra["dagster.code_version"]) == ("0", "7")


def test_the_figures_of_a_commit_become_metadata(run, orders, asset_of):
    run(asset_of(orders(1, 2)))
    result = run(asset_of(orders(2, 3, ts=2)))

    facts = result.asset_materializations_for_node("orders")[0].metadata
    assert {name: facts[f"hudi/rows_{name}"].value for name in ("inserted", "updated", "deleted")} == {
        "inserted": 1,
        "updated": 1,
        "deleted": 0,
    }
    assert facts["dagster/row_count"].value == 3
    assert facts["dagster/size_bytes"].value > 0
    assert len(facts["hudi/timeline"].records) == 2
    assert "data:image/svg+xml;base64," in facts["hudi/timeline_chart"].value
    assert len(facts) <= 30


def test_the_columns_tab_shows_the_role_of_each_column(run, orders, asset_of):
    result = run(asset_of(orders(1), partition_by="day"))

    schema = result.asset_materializations_for_node("orders")[0].metadata["dagster/column_schema"].schema
    assert {column.name: set(column.tags) for column in schema.columns} == {
        "id": {"record_key"},
        "amount": set(),
        "day": {"partition"},
        "ts": {"ordering"},
    }


@pytest.mark.parametrize("nothing", ["none", "empty"])
def test_nothing_to_write_is_no_commit_and_no_event(run, lake, orders, asset_of, nothing):
    run(asset_of(orders(1)))
    result = run(asset_of(None if nothing == "none" else orders()))

    assert result.success
    assert not result.get_asset_materialization_events()
    assert len(commits(lake.table("orders"))) == 1


def test_an_empty_batch_of_insert_overwrite_table_empties_the_table_once(run, lake, orders, asset_of):
    run(asset_of(orders(1, 2)))
    empty = asset_of(orders(), operation="insert_overwrite_table")
    result = run(empty)

    assert rows_of(lake.table("orders")) == []
    assert result.asset_materializations_for_node("orders")[0].metadata["dagster/row_count"].value == 0
    assert not run(empty).get_asset_materialization_events()
    assert not run(asset_of(None, operation="insert_overwrite_table")).get_asset_materialization_events()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("operation", "given", "left"),
    [
        ("upsert", (2, 3), [1, 2, 3]),
        ("insert", (3,), [1, 2, 3]),
        ("bulk_insert", (3,), [1, 2, 3]),
        ("insert_overwrite", (3,), [3]),
        ("insert_overwrite_table", (3,), [3]),
        ("delete", (1,), [2]),
    ],
)
def test_every_operation_can_be_selected(run, lake, orders, asset_of, operation, given, left):
    run(asset_of(orders(1, 2)))
    run(asset_of(orders(*given, ts=2), operation=operation))

    assert [row["id"] for row in rows_of(lake.table("orders"))] == left


def test_an_asset_can_choose_the_operation_when_it_runs(run, lake, orders, asset_of):
    run(asset_of(orders(1, 2)))
    run(asset_of(lambda _: HudiWrite(orders(2), operation="delete", extra_metadata={"why": "recalled"})))

    table = lake.table("orders")
    assert [row["id"] for row in rows_of(table)] == [1]
    assert table.commit_metadata(commits(table)[-1]).extra["why"] == "recalled"


@pytest.mark.parametrize("kind", ["reader", "batches", "pandas"])
def test_rows_may_come_in_any_arrow_shape(run, lake, orders, asset_of, kind):
    table = orders(1, 2)
    shapes = {
        "reader": table.to_reader,
        "batches": lambda: iter(table.to_batches()),
        "pandas": table.to_pandas,
    }
    run(asset_of(lambda _: shapes[kind]()))

    rows = lake.table("orders").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == [1, 2]
    assert [name for name in rows.column_names if not name.startswith("_hoodie_")] == table.column_names, (
        "no index of a frame"
    )


def test_bad_data_fails_the_step_at_once_with_a_hint(run, lake, asset_of):
    ran = []
    bad = pa.table({"id": pa.array([None], pa.int64()), "ts": [1]})
    asset = asset_of(lambda _: ran.append(1) or bad, retry_policy=dg.RetryPolicy(max_retries=3))
    result = run(asset, raise_on_error=False)

    assert len(ran) == 1
    failure = result.failure_data_for_node("orders").user_failure_data
    assert "InvalidRecordKeyError" in failure.description
    assert failure.metadata["hudi/hint"].value
    assert "orders" not in lake.tables_by_name, "it was made for these rows"


def test_what_an_asset_can_have_passes_through(asset_of, orders):
    asset = asset_of(
        orders(1),
        key=["sales", "orders"],
        group_name="sales",
        owners=["team:lake"],
        tags={"tier": "gold"},
        code_version="3",
        retry_policy=dg.RetryPolicy(max_retries=1),
        automation_condition=dg.AutomationCondition.eager(),
        kinds={"hudi", "arrow"},
    )
    spec = next(iter(asset.specs))
    assert spec.key == dg.AssetKey(["sales", "orders"])
    assert (spec.group_name, list(spec.owners), spec.code_version) == ("sales", ["team:lake"], "3")
    assert spec.tags["tier"] == "gold"
    assert spec.kinds == {"hudi", "arrow"}
    assert spec.metadata["hudi/record_key"] == "id"
    assert asset.op.pool == "hudi/sales/orders"
    assert asset.op.retry_policy.max_retries == 1


def test_an_asset_without_a_record_key_does_not_load(asset_of):
    with pytest.raises(ValueError, match="record key"):
        asset_of(None, record_key=())


class Limit(dg.Config):
    top: int = 1


def test_config_resources_and_upstream_values_reach_the_function(run, lake, orders):
    @dg.asset
    def raw() -> pa.Table:
        return orders(1, 2, 3)

    @hudi_asset(record_key="id")
    def taken(context: dg.AssetExecutionContext, config: Limit, raw: pa.Table, lake: object) -> pa.Table:
        assert lake.location("taken").endswith("/taken")
        return raw.slice(0, config.top)

    run(raw, taken, run_config={"ops": {"taken": {"config": {"top": 2}}}})
    assert [row["id"] for row in rows_of(lake.table("taken"))] == [1, 2]


@pytest.fixture
def totals():
    @hudi_asset(record_key="day")
    def totals(orders: Changes) -> pa.Table | None:
        changed = orders.to_arrow()
        return changed.group_by("day").aggregate([("amount", "sum")])

    return totals


def test_a_downstream_asset_reads_only_what_changed_since_its_own_commit(run, lake, orders, asset_of, totals):
    run(asset_of(orders(1, 2, day="a")))
    run(totals)
    run(asset_of(orders(3, day="b", amount=4.0)))
    run(totals)

    table = lake.table("totals")
    last = table.commit_metadata(commits(table)[-1])
    assert (last.stats[0].inserts, last.stats[0].updates) == (1, 0)
    assert {row["day"]: row["amount_sum"] for row in table.scan().to_arrow().to_pylist()} == {"a": 2.0, "b": 4.0}


@pytest.mark.row("R11")
def test_the_position_of_a_reader_stands_in_its_own_commit(run, lake, orders, asset_of, totals):
    run(asset_of(orders(1)))
    run(totals)

    table = lake.table("totals")
    position = table.commit_metadata(commits(table)[-1]).extra["pyhudi.checkpoint.orders"]
    assert commits(lake.table("orders"))[-1].completion_time in position


def test_an_unchanged_upstream_is_no_run_of_the_function_and_no_event(run, orders, asset_of, totals):
    run(asset_of(orders(1)))
    run(totals)
    assert not run(totals).get_asset_materialization_events()


@pytest.mark.row("R11")
def test_a_failed_run_leaves_its_changes_pending(run, lake, orders, asset_of):
    broken = [True]

    @hudi_asset(record_key="id")
    def copy(orders: Changes) -> pa.Table:
        if broken.pop() if broken else False:
            raise RuntimeError("broken")
        return orders.to_arrow()

    run(asset_of(orders(1, 2)))
    run(copy, raise_on_error=False)
    run(copy)
    assert [row["id"] for row in rows_of(lake.table("copy"))] == [1, 2]


def test_commits_that_read_nothing_carry_the_positions_on(run, lake, orders, asset_of, totals):
    run(asset_of(orders(1, day="a")))
    run(totals)

    @hudi_asset(key="totals", record_key="day")
    def corrected() -> pa.Table:
        return pa.table({"day": ["z"], "amount_sum": [0.0]})

    run(corrected)
    table = lake.table("totals")
    assert "pyhudi.checkpoint.orders" in table.commit_metadata(commits(table)[-1]).extra


def test_a_new_table_of_an_asset_has_a_metadata_table_unless_its_lake_or_the_asset_says_no(
    run, lake, default_lake, orders, asset_of
):
    run(asset_of(orders(1)), resources={"lake": default_lake})
    run(asset_of(orders(2)), resources={"lake": default_lake})
    assert default_lake.table("orders").config.metadata_partitions == ("column_stats", "files")

    @hudi_asset(record_key="id", options={"hoodie.metadata.enable": "false"})
    def without() -> pa.Table:
        return orders(1)

    @hudi_asset(record_key="id")
    def others() -> pa.Table:
        return orders(1)

    run(without, resources={"lake": default_lake})
    run(others)
    assert default_lake.table("without").config.metadata_partitions == ()
    assert lake.table("others").config.metadata_partitions == ()
