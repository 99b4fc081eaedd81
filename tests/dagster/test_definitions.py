"""What an asset's definition says about its table: said once, read everywhere, and refused when it cannot work."""

import dagster as dg
import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi_core import create_table
from pyhudi_core.errors import InvalidOptionError
from pyhudi_dagster import (
    Changes,
    HudiIOManager,
    HudiLakeResource,
    HudiPartitions,
    HudiTranslator,
    TableMismatchError,
    checked_definitions,
    hudi_asset,
    hudi_external_asset,
    hudi_metadata,
)
from pyhudi_dagster.reporting.metadata import column_schema

DAILY = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-02-01")


def ids(table):
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def test_the_specs_metadata_shows_the_table_as_json(asset_of, orders):
    (spec,) = asset_of(orders(1), table="erp/orders", partition_by="day", operation="insert").specs
    assert spec.metadata["hudi/info"] == {
        "lake": "lake",
        "table": "erp/orders",
        "table_type": "copy_on_write",
        "record_key": ["id"],
        "partition_by": ["day"],
        "ordering": "ts",
        "operation": "insert",
    }


def test_the_table_that_an_asset_names_is_the_one_it_writes_and_locks(run, lake, orders, asset_of):
    asset = asset_of(orders(1), table="erp/orders_v2")
    result = run(asset)

    assert ids(lake.table("erp/orders_v2")) == [1]
    assert asset.op.pool == "hudi/erp/orders_v2"
    facts = result.asset_materializations_for_node("orders")[0].metadata
    assert facts["dagster/table_name"].value == "erp/orders_v2"
    assert facts["dagster/uri"].value == lake.location("erp/orders_v2")
    (spec,) = asset.specs
    assert (spec.metadata["dagster/table_name"], spec.metadata["dagster/storage_kind"]) == ("erp/orders_v2", "hudi")


@pytest.mark.parametrize("named_by", ["its definition among those of the job", "the asset", "the spec"])
def test_changes_come_from_the_table_that_the_upstream_asset_names(run, lake, orders, asset_of, named_by):
    upstream = asset_of(orders(1, 2), table="erp/orders_v2")
    given = {"the asset": {"changes": upstream}, "the spec": {"changes": next(iter(upstream.specs))}}

    @hudi_asset(record_key="id", changes_of=given.get(named_by, {"changes": "orders"}))
    def copy(changes: Changes) -> pa.Table:
        return changes.to_arrow()

    run(upstream, copy)
    assert ids(lake.table("copy")) == [1, 2]


@pytest.mark.parametrize("table", [None, "erp/orders_v2"])
def test_an_io_manager_reads_the_partition_of_a_hudi_asset_and_not_the_whole_table(run, lake, orders, table):
    seen = {}

    @hudi_asset(record_key="id", table=table, partitions=HudiPartitions.of(DAILY, ("day",)), io_manager_key="tables")
    def daily(context: dg.AssetExecutionContext) -> pa.Table:
        return orders(int(context.partition_key[-2:]), day=context.partition_key)

    @dg.asset(partitions_def=DAILY)
    def reader(context: dg.AssetExecutionContext, daily: pa.Table) -> None:
        seen[context.partition_key] = daily["id"].to_pylist()

    for day in ("2026-01-01", "2026-01-02"):
        run(daily, reader, partition_key=day, resources={"tables": HudiIOManager(lake=lake)})
    assert seen == {"2026-01-01": [1], "2026-01-02": [2]}


def test_an_io_manager_follows_the_table_that_a_plain_asset_names(lake, instance, orders):
    @dg.asset(metadata=hudi_metadata(record_key="id", table="erp/orders_v2"))
    def plain() -> pa.Table:
        return orders(1, 2)

    @dg.asset
    def reader(plain: pa.Table) -> None:
        assert plain["id"].to_pylist() == [1, 2]

    dg.materialize([plain, reader], instance=instance, resources={"io_manager": HudiIOManager(lake=lake)})
    assert ids(lake.table("erp/orders_v2")) == [1, 2]


def test_a_translator_names_assets_and_tables(run, lake, orders):
    class ErpTranslator(HudiTranslator):
        def get_asset_key(self, definition):
            return definition.key.with_prefix("erp")

        def get_table_name(self, definition):
            return f"bronze/{definition.key.path[-1]}"

        def get_group_name(self, definition):
            return "erp"

        def get_tags(self, definition):
            return {**super().get_tags(definition), "source": "erp"}

        def get_owners(self, definition):
            return ["team:erp"]

        def get_description(self, definition):
            return f"{definition.description} From the ERP."

        def get_kinds(self, definition):
            return {"hudi", "arrow"}

        def get_metadata(self, definition):
            return {"system": "erp"}

        def get_automation_condition(self, definition):
            return dg.AutomationCondition.eager()

    @hudi_asset(record_key="id", tags={"tier": "gold"}, translator=ErpTranslator())
    def invoices() -> pa.Table:
        """Invoices."""
        return orders(1)

    (spec,) = invoices.specs
    assert spec.key == dg.AssetKey(["erp", "invoices"])
    assert (spec.group_name, list(spec.owners), spec.kinds) == ("erp", ["team:erp"], {"hudi", "arrow"})
    assert (spec.tags["source"], spec.tags["tier"]) == ("erp", "gold")
    assert spec.description == "Invoices. From the ERP."
    assert spec.metadata["system"] == "erp"
    assert spec.automation_condition == dg.AutomationCondition.eager()
    run(invoices)
    assert ids(lake.table("bronze/invoices")) == [1]


def test_a_prefix_comes_before_the_key_and_the_table(run, lake, orders, asset_of):
    asset = asset_of(orders(1), key_prefix=["raw", "web"])
    assert asset.key == dg.AssetKey(["raw", "web", "orders"])
    run(asset)
    assert ids(lake.table("raw/web/orders")) == [1]


def test_a_backfill_policy_of_dagster_counts(asset_of):
    parts = HudiPartitions.of(DAILY, ("day",))
    assert asset_of(None, partitions=parts).backfill_policy == dg.BackfillPolicy.single_run()
    policy = dg.BackfillPolicy.multi_run(7)
    assert asset_of(None, partitions=parts, backfill_policy=policy).backfill_policy == policy


def test_required_resources_are_there(run, lake, orders):
    @hudi_asset(record_key="id", required_resource_keys={"limit"})
    def taken(context: dg.AssetExecutionContext) -> pa.Table:
        return orders(1, 2, 3).slice(0, context.resources.limit)

    run(taken, resources={"limit": dg.ResourceDefinition.hardcoded_resource(2)})
    assert ids(lake.table("taken")) == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"partitions_def": DAILY}, "partitions=HudiPartitions"),
        ({"check_specs": [dg.AssetCheckSpec("c", asset="orders")]}, "asset_check"),
        ({"can_subset": True}, "one table"),
        ({"ordring": "ts"}, "ordring"),
        ({"backfill_policy": dg.BackfillPolicy.single_run()}, "no partitions"),
        ({"backfill_policy": dg.BackfillPolicy.single_run(), "backfill": "single_run"}, "one of them"),
        ({"key": "orders", "name": "load"}, "one of them"),
        ({"operation": "merge"}, "merge"),
        ({"on_foreign_rows": "warn"}, "fail, drop, allow"),
        ({"table": "../x"}, "below the warehouse"),
        ({"table": "/tmp/x"}, "below the warehouse"),
    ],
)
def test_what_cannot_work_is_refused_when_definitions_are_loaded(asset_of, arguments, says):
    with pytest.raises(ValueError, match=says):
        asset_of(None, **arguments)


@pytest.mark.parametrize("metadata", [{"record_key": "id"}, hudi_metadata(record_key="id")])
def test_a_partitioned_asset_without_partition_columns_is_refused(lake, instance, orders, metadata, tmp_path):
    @dg.asset(metadata=metadata, partitions_def=DAILY)
    def daily() -> pa.Table:
        return orders(1)

    resources = {"io_manager": HudiIOManager(lake=lake)}
    with pytest.raises(ValueError, match="partition_by"):
        checked_definitions(dg.Definitions(assets=[daily], resources=resources))
    failed = dg.materialize(
        [daily], partition_key="2026-01-01", instance=instance, resources=resources, raise_on_error=False
    )
    assert not failed.success
    assert not (tmp_path / "lake").exists()


def test_an_asset_that_an_io_manager_cannot_store_is_refused_when_definitions_are_loaded(lake, orders):
    @dg.asset(io_manager_key="tables")
    def plain() -> pa.Table:
        return orders(1)

    with pytest.raises(ValueError, match="plain has no record key in its metadata"):
        checked_definitions(dg.Definitions(assets=[plain], resources={"tables": HudiIOManager(lake=lake)}))


def test_definitions_that_can_work_come_through_the_check(lake, asset_of, orders):
    @dg.asset(metadata=hudi_metadata(record_key="id", partition_by="day"), partitions_def=DAILY)
    def daily() -> pa.Table:
        return orders(1)

    @dg.asset(partitions_def=DAILY)
    def no_table() -> None: ...

    whole = dg.Definitions(
        assets=[daily, no_table, asset_of(None)], resources={"io_manager": HudiIOManager(lake=lake), "lake": lake}
    )
    assert checked_definitions(whole) is whole


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"record_key": ("id", "day")}, "record key: the asset has id, day, the table has id"),
        ({"partition_by": "day"}, "partition columns: the asset has day, the table has none"),
        ({"ordering": "amount"}, "ordering: the asset has amount, the table has ts"),
        ({"table_type": "mor"}, "table type: the asset has merge_on_read, the table has copy_on_write"),
    ],
)
def test_an_existing_table_that_is_organised_in_another_way_is_an_error_that_shows_both(
    run, lake, orders, asset_of, arguments, what
):
    run(asset_of(orders(1)))
    ran = []
    result = run(
        asset_of(lambda _: ran.append(1) or orders(2), retry_policy=dg.RetryPolicy(max_retries=2), **arguments),
        raise_on_error=False,
    )

    failure = result.failure_data_for_node("orders").user_failure_data
    assert what in failure.description
    assert TableMismatchError.__name__ in failure.description
    assert ran in ([], [1])
    assert ids(lake.table("orders")) == [1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"record_key": "amount"},
        {"pre_commit": [hudi.not_null("empty")]},
        {"record_key": "empty"},
    ],
    ids=["type of the key", "rule", "no value"],
)
def test_a_refused_first_write_leaves_no_table_and_the_corrected_asset_succeeds(run, lake, orders, asset_of, arguments):
    rows = orders(1).append_column("empty", pa.array([None], pa.string()))
    assert not run(asset_of(rows, **arguments), raise_on_error=False).success
    assert not hudi.table_exists(lake.location("orders"))
    assert run(asset_of(rows)).success
    assert ids(lake.table("orders")) == [1]


def test_a_setting_that_an_asset_omits_accepts_the_table_as_it_is(run, lake, orders, asset_of):
    given = {"partition_by": "day", "ordering": "ts", "table_type": "merge_on_read"}
    run(asset_of(orders(1), **given))
    for number, name in enumerate(given, 2):
        run(asset_of(orders(number), **{**given, name: None}))
    assert ids(lake.table("orders")) == [1, 2, 3, 4]
    assert lake.table("orders").config.table_type.name == "MERGE_ON_READ"


def test_a_key_generator_that_makes_folders_of_its_own_is_an_error_that_shows_it(run, lake, orders, asset_of, tmp_path):
    run(asset_of(orders(1), partition_by="day"))
    properties = tmp_path / "lake/orders/.hoodie/hoodie.properties"
    text = properties.read_text()
    assert "hoodie.table.keygenerator.type=SIMPLE" in text
    properties.write_text(text.replace("keygenerator.type=SIMPLE", "keygenerator.type=TIMESTAMP"))

    result = run(asset_of(orders(2), partition_by="day"), raise_on_error=False)
    assert "the table has TIMESTAMP" in result.failure_data_for_node("orders").user_failure_data.description


def test_the_columns_tab_shows_the_roles_that_the_table_has(run, lake, orders):
    create_table(
        lake.location("orders"), schema=orders().schema, record_key=["id"], partition_by=["day"], ordering="ts"
    )

    columns = {column.name: set(column.tags) for column in column_schema(lake.table("orders")).columns}
    assert columns == {"id": {"record_key"}, "amount": set(), "day": {"partition"}, "ts": {"ordering"}}


def test_the_columns_tab_shows_the_rules_that_the_table_keeps(lake, orders):
    rules = hudi.TableRules({"positive": "amount > 0"}, ["amount"], {"day": "'a'"}, comments={"amount": "in euro"})
    create_table(lake.location("orders"), schema=orders().schema, record_key=["id"], rules=rules)

    found = column_schema(lake.table("orders"))
    assert found.constraints.other == ["positive: CHECK (amount > 0)"]
    columns = {column.name: column for column in found.columns}
    assert (columns["amount"].constraints.nullable, columns["amount"].description) == (False, "in euro")
    assert columns["day"].constraints.other == ["DEFAULT 'a'"]
    assert columns["ts"].constraints.nullable


def test_a_lake_that_is_called_otherwise_is_used(instance, tmp_path, orders):
    @hudi_asset(record_key="id", lake="bronze")
    def one() -> pa.Table:
        return orders(1)

    bronze = HudiLakeResource(warehouse=str(tmp_path / "bronze"))
    dg.materialize([one], instance=instance, resources={"bronze": bronze})
    assert ids(bronze.table("one")) == [1]


def test_a_missing_upstream_fails_at_once_and_says_what_to_run_first(run):
    ran = []

    @hudi_asset(record_key="id", retry_policy=dg.RetryPolicy(max_retries=2))
    def copy(context: dg.AssetExecutionContext, orders: Changes) -> pa.Table:
        ran.append(1)
        return orders.to_arrow()

    result = run(copy, raise_on_error=False)
    assert "Materialize the upstream asset first" in result.failure_data_for_node("copy").user_failure_data.description
    assert not ran
    assert result.retry_attempts_for_node("copy") == 0


def test_the_schedule_of_the_demo_requests_no_day_that_is_under_way(kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from definitions import days_job, defs, next_day

    def request():
        with dg.build_schedule_context(instance=kept, repository_def=defs.get_repository_def()) as context:
            return next_day.evaluate_tick(context)

    (first,) = request().run_requests
    job = defs.resolve_job_def(days_job.name)
    for status in (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED):
        tags = {"dagster/partition": first.partition_key}
        run = kept.create_run_for_job(job, tags=tags, status=status)
        assert request().skip_message == f"The day {first.partition_key} is under way."
        kept.delete_run(run.run_id)
    assert [each.partition_key for each in request().run_requests] == [first.partition_key]


@pytest.mark.parametrize("schema", [None, pa.schema([("id", pa.int64()), ("total", pa.float64())])])
def test_the_lineage_of_columns_is_what_the_definition_states(run, schema):
    @hudi_asset(record_key="id", schema=schema, column_lineage={"total": ["sales/lines.price", "rates.factor"]})
    def totals() -> pa.Table:
        return pa.table({"id": [1], "total": [2.0]})

    stated = dg.TableColumnLineage(
        {
            "total": [
                dg.TableColumnDep(dg.AssetKey(["sales", "lines"]), "price"),
                dg.TableColumnDep(dg.AssetKey("rates"), "factor"),
            ]
        }
    )
    assert next(iter(totals.specs)).metadata["dagster/column_lineage"] == stated
    (event,) = run(totals).get_asset_materialization_events()
    assert event.materialization.metadata["dagster/column_lineage"].value == stated


@pytest.mark.parametrize(
    ("lineage", "words"),
    [
        ({"total": ["price"]}, "names no column of an asset"),
        ({"total": ["/lines.price"]}, "names no column of an asset"),
        ({"sum": ["a.b"]}, "does not have"),
        ({"": ["a.b"]}, "no column or no source"),
        ({"total": []}, "no column or no source"),
    ],
)
def test_a_lineage_that_cannot_be_is_refused(lineage, words):
    with pytest.raises(InvalidOptionError, match=words):
        hudi_asset(
            name="totals",
            record_key="id",
            schema=pa.schema([("id", pa.int64()), ("total", pa.int64())]),
            column_lineage=lineage,
        )(lambda: None)


@pytest.mark.parametrize("argument", ["pool", "io_manager_key", "table"])
def test_an_argument_that_is_an_empty_text_is_refused(argument):
    with pytest.raises(InvalidOptionError, match=f"{argument}=''"):
        hudi_asset(name="totals", record_key="id", **{argument: ""})(lambda: None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"table": ""}, "table=''"),
        ({"deps": [dg.AssetKey(["web", "events"])]}, "depends on itself"),
        ({"key": "web//events"}, "is not an asset key"),
    ],
)
def test_an_external_asset_that_cannot_be_is_refused(given, words):
    with pytest.raises(InvalidOptionError, match=words):
        hudi_external_asset(**{"key": "web/events", **given})
