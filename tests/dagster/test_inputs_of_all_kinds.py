"""Parameters and outputs by Dagster's conventions: the context under its names, inputs with nothing to read, values that are no assets."""

from __future__ import annotations

import inspect
from datetime import datetime
from typing import Any, Optional

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi.errors import InvalidOptionError
from pyhudi_dagster import (
    HudiIOManager,
    HudiPartitions,
    checked_definitions,
    hudi_asset,
    hudi_external_asset,
    hudi_metadata,
    hudi_multi_asset,
    hudi_output,
)

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-10")
BEFORE = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
ONE = pa.table({"id": [1]})


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_node_events if event.is_step_failure]
    error = event.step_failure_data.error
    return " ".join((error.cause or error).message.split())


@pytest.fixture
def table(lake):
    """The table ``events`` with a row of each of two days."""
    rows = pa.table({"id": [1, 2], "day": ["2026-01-01", "2026-01-02"]})
    hudi.create_table(lake.location("events"), rows.schema, "id", "day").upsert(rows)


# --- the context


def first(context):
    return context


def second(_context):
    return _context


def third(context_):
    return context_


def fourth(_):
    return _


@pytest.mark.parametrize("function", [first, second, third, fourth])
def test_the_context_has_the_names_of_dagster(run, lake, function):
    seen: list[Any] = []

    def rows(*given):
        seen.append(function(*given))
        return ONE

    rows.__signature__ = inspect.signature(function)
    asset = hudi_asset(record_key="id")(rows)
    assert run(asset).success
    asset(dg.build_asset_context(), lake=lake)
    several = hudi_multi_asset(tables={"a": hudi_output(record_key="id")})(rows)
    assert not run(several, raise_on_error=False).success, "it returned no dict"
    assert [isinstance(each, dg.AssetExecutionContext) for each in seen] == [True] * 3


def test_a_context_that_dagster_would_take_for_an_input_is_refused_when_it_is_defined():
    with pytest.raises(InvalidOptionError, match="parameter ctx for the context") as refused:

        @hudi_asset(record_key="id")
        def named(ctx: dg.AssetExecutionContext): ...

    assert "_context" in refused.value.hint
    with pytest.raises(InvalidOptionError, match="parameter context for the context"):

        @hudi_asset(record_key="id")
        def second(orders: pa.Table, context): ...


# --- partitioned inputs


def test_a_partitioned_input_without_columns_is_refused_and_read_by_the_columns_of_its_input(lake, instance, table):
    events, seen = dg.AssetSpec("events", partitions_def=DAYS), []

    def count_of(metadata: dict[str, Any]) -> dg.AssetsDefinition:
        @dg.asset(partitions_def=DAYS, ins={"events": dg.AssetIn(input_manager_key="hudi", metadata=metadata)})
        def count(events: pa.Table) -> None:
            seen.extend(events["day"].to_pylist())

        return count

    def run(metadata: dict[str, Any]) -> dg.ExecuteInProcessResult:
        count = count_of(metadata)
        return dg.materialize([events, count], selection=[count], partition_key="2026-01-01", instance=instance, raise_on_error=False,
                              resources={"hudi": HudiIOManager(lake=lake)})  # fmt: skip

    assert "dg.AssetIn(metadata={'partition_by': 'column'})" in failure_of(run({}))
    assert not seen
    assert run({"partition_by": "day"}).success
    assert seen == ["2026-01-01"]


EMPTY = {
    "pa.Table": (pa.Table, lambda rows: rows.num_rows),
    "pa.RecordBatchReader": (pa.RecordBatchReader, lambda rows: rows.read_all().num_rows),
    "pd.DataFrame": (pd.DataFrame, len),
    "pl.DataFrame": (pl.DataFrame, len),
    "pl.LazyFrame": (pl.LazyFrame, lambda rows: len(rows.collect())),
    "Any": (Any, lambda rows: rows.num_rows),
    "pa.Table | None": (pa.Table | None, lambda rows: -1 if rows is None else rows.num_rows),
    "Optional[pd.DataFrame]": (Optional[pd.DataFrame], lambda rows: -1 if rows is None else len(rows)),  # noqa: UP045
}


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize("first", ["2026-01-01", "2026-01-02"])
def test_an_asset_that_reads_its_own_previous_partition_starts(lake, instance, kind, first):
    annotation, rows_in = EMPTY[kind]
    seen = []

    def balance(context, balance):
        seen.append(rows_in(balance))
        return pa.table({"id": [context.partition_key], "day": [context.partition_key]})

    balance.__annotations__ = {"balance": annotation}
    asset = dg.asset(partitions_def=DAYS, metadata=hudi_metadata(record_key="id", partition_by="day"),
                     ins={"balance": dg.AssetIn(partition_mapping=BEFORE)})(balance)  # fmt: skip
    days = [first, "2026-01-03" if first == "2026-01-02" else "2026-01-02"]
    for day in days:
        dg.materialize(
            [asset], partition_key=day, instance=instance, resources={"io_manager": HudiIOManager(lake=lake)}
        )
    assert seen == [-1 if "None" in kind or "Optional" in kind else 0, 1]


def test_an_empty_input_has_the_columns_of_its_table_or_of_its_schema(lake, instance):
    seen, schema = [], pa.schema([("id", pa.int64()), ("day", pa.string())])

    @dg.asset(partitions_def=DAYS, metadata=hudi_metadata(record_key="id", partition_by="day", schema=schema),
              ins={"own": dg.AssetIn(partition_mapping=BEFORE)})  # fmt: skip
    def own(context, own: pa.Table):
        seen.append(own.column_names)
        return pa.table({"id": [1], "day": [context.partition_key]})

    for day in ("2026-01-02", "2026-01-01"):
        dg.materialize([own], partition_key=day, instance=instance, resources={"io_manager": HudiIOManager(lake=lake)})
    assert seen == [["id", "day"], ["id", "day"]]


def test_an_input_of_another_asset_without_its_table_is_an_error(lake, instance):
    upstream = dg.AssetSpec("orders")

    @dg.asset
    def reader(orders: pa.Table) -> None: ...

    result = dg.materialize([upstream, reader], selection=[reader], instance=instance, raise_on_error=False,
                            resources={"io_manager": HudiIOManager(lake=lake)})  # fmt: skip
    assert "no Hudi table here" in failure_of(result)


# --- values that are no assets


@dg.op
def read() -> pa.Table:
    return ONE


@dg.op
def clean(rows: pa.Table) -> pa.Table:
    return rows


def test_an_output_that_is_no_asset_is_refused_with_the_op_and_what_to_do(lake, instance):
    @dg.graph_asset(metadata=hudi_metadata(record_key="id"))
    def cleaned():
        return clean(read())

    @dg.job(resource_defs={"io_manager": HudiIOManager(lake=lake)})
    def plain():
        read()

    resources = {"io_manager": HudiIOManager(lake=lake)}
    for result in (
        dg.materialize([cleaned], instance=instance, resources=resources, raise_on_error=False),
        plain.execute_in_process(instance=instance, raise_on_error=False),
    ):
        assert "output result of the op read is no asset" in failure_of(result)
        assert "io_manager_key='between_ops'" in failure_of(result)


def test_a_graph_asset_works_as_the_hint_says(lake, instance):
    @dg.op(out=dg.Out(io_manager_key="between_ops"))
    def first() -> pa.Table:
        return ONE

    @dg.graph_asset(metadata=hudi_metadata(record_key="id"))
    def cleaned():
        return clean(first())

    resources = {"io_manager": HudiIOManager(lake=lake), "between_ops": dg.InMemoryIOManager()}
    assert dg.materialize([cleaned], instance=instance, resources=resources).success
    assert lake.table("cleaned").scan().count() == 1


# --- Hudi assets as parameters of others


def test_a_hudi_asset_is_a_parameter_of_assets_and_checks_without_an_io_manager(lake, instance):
    seen = []

    @hudi_asset(record_key="id")
    def orders() -> pa.Table:
        return ONE

    @hudi_asset(record_key="id")
    def copy(orders: pa.Table) -> pa.Table:
        return orders

    @dg.asset
    def plain(orders: pd.DataFrame, copy: pl.DataFrame) -> None:
        seen.append((len(orders), len(copy)))

    @dg.asset_check(asset=orders)
    def has_rows(orders: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=orders.num_rows == 1)

    job = dg.define_asset_job("reading", selection=[plain])
    defs = checked_definitions(
        dg.Definitions(assets=[orders, copy, plain], asset_checks=[has_rows], jobs=[job], resources={"lake": lake})
    )
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    found = {(each.asset_key.to_user_string(), each.check_name) for each in result.get_asset_check_evaluations()}
    assert ("orders", "has_rows") in found
    assert all(each.passed for each in result.get_asset_check_evaluations())
    assert defs.resolve_job_def("reading").execute_in_process(instance=instance).success, "the asset is not in this run"
    assert seen == [(1, 1), (1, 1)]
    assert defs.load_asset_value("orders", instance=instance).num_rows == 1


@pytest.mark.parametrize("manager", [None, dg.FilesystemIOManager(), dg.InMemoryIOManager()])
def test_an_external_table_as_a_parameter_that_dagsters_io_manager_would_load_is_named_at_load(lake, manager):
    web = hudi_external_asset("web")

    @dg.asset
    def plain(web: pa.Table) -> None: ...

    @dg.asset_check(asset=web.key)
    def has_rows(web: pa.Table) -> dg.AssetCheckResult: ...  # type: ignore[empty-body]

    resources = {"lake": lake} if manager is None else {"lake": lake, "io_manager": manager}
    for parts in ({"assets": [web, plain]}, {"assets": [web], "asset_checks": [has_rows]}):
        with pytest.raises(InvalidOptionError, match="takes the Hudi asset web as the parameter web") as refused:
            checked_definitions(dg.Definitions(**parts, resources=resources))
        assert "input_manager_key" in refused.value.hint
        checked_definitions(dg.Definitions(**parts, resources={**resources, "io_manager": HudiIOManager(lake=lake)}))


# --- every cadence and format of keys


MINUTES = dg.TimeWindowPartitionsDefinition(
    start="2026-01-01-00:00", fmt="%Y-%m-%d-%H:%M", cron_schedule="*/15 * * * *"
)
CADENCES = {
    "yearly": dg.TimeWindowPartitionsDefinition(start="2020", fmt="%Y", cron_schedule="@yearly"),
    "monthly": dg.MonthlyPartitionsDefinition("2026-01", fmt="%Y-%m"),
    "quarterly": dg.TimeWindowPartitionsDefinition(start="2025-01", fmt="%Y-%m", cron_schedule="0 0 1 1,4,7,10 *"),
    "monthly on the 15th": dg.TimeWindowPartitionsDefinition(start="20250115", fmt="%Y%m%d", cron_schedule="0 0 15 * *"),
    "weekly": dg.WeeklyPartitionsDefinition("2026-01-05", day_offset=1),
    "weeks by number": dg.WeeklyPartitionsDefinition("2026-W02-1", fmt="%G-W%V-%u", day_offset=1),
    "daily": dg.DailyPartitionsDefinition("2026-01-01"),
    "daily without dashes": dg.DailyPartitionsDefinition("20260101", fmt="%Y%m%d"),
    "daily with slashes": dg.DailyPartitionsDefinition("01.01.2026", fmt="%d.%m.%Y"),
    "hourly": dg.HourlyPartitionsDefinition("2026-01-01T00", fmt="%Y-%m-%dT%H"),
    "six hours": dg.TimeWindowPartitionsDefinition(start="2026010100", fmt="%Y%m%d%H", cron_schedule="0 */6 * * *"),
    "minutes": dg.TimeWindowPartitionsDefinition(start="202601010000", fmt="%Y%m%d%H%M", cron_schedule="*/15 * * * *"),
}  # fmt: skip


@pytest.mark.parametrize("cadence", CADENCES)
def test_a_column_with_the_key_is_the_partition_whatever_its_format(lake, instance, cadence):
    definition = CADENCES[cadence]

    @dg.asset(partitions_def=definition, metadata=hudi_metadata(record_key="id", partition_by="at"))
    def rows(context) -> pa.Table:
        return pa.table({"id": [1], "at": [context.partition_key]})

    @dg.asset(partitions_def=definition)
    def reader(context, rows: pa.Table) -> None:
        assert rows["at"].to_pylist() == [context.partition_key]

    key = definition.get_partition_keys()[2]
    resources = {"io_manager": HudiIOManager(lake=lake)}
    assert dg.materialize([rows, reader], partition_key=key, instance=instance, resources=resources).success
    parts = HudiPartitions.of(definition, "at")
    assert [parts.key_of((each,)) for each in definition.get_partition_keys()[:5]] == definition.get_partition_keys()[
        :5
    ]


@pytest.mark.parametrize(
    ("definition", "columns", "fmt"),
    [
        (dg.HourlyPartitionsDefinition("2026-01-01-00:00"), "at", "%Y-%m-%d-%H:%M"),
        (dg.MonthlyPartitionsDefinition("2026-01-01"), "at", "%Y-%m-%d"),
        (MINUTES, "at", "%Y-%m-%d-%H:%M"),
        (dg.MultiPartitionsDefinition({"at": dg.MonthlyPartitionsDefinition("2026-01-01"), "shop": dg.StaticPartitionsDefinition(["a"])}),
         ["at", "shop"], {"at": "%Y-%m-%d"}),
    ],
)  # fmt: skip
def test_where_the_default_is_shorter_than_the_key_fmt_in_the_metadata_has_it(lake, instance, definition, columns, fmt):
    def rows_of(**more: Any) -> dg.AssetsDefinition:
        @dg.asset(partitions_def=definition, metadata=hudi_metadata(record_key="id", partition_by=columns, **more))
        def rows(context) -> pa.Table:
            at, _, shop = str(context.partition_key).partition("|")
            return pa.table({"id": [1], "at": [at], "shop": [shop]})

        return rows

    key, resources = definition.get_partition_keys()[2], {"io_manager": HudiIOManager(lake=lake)}
    run = {"partition_key": key, "instance": instance, "resources": resources}
    refused = dg.materialize([rows_of()], raise_on_error=False, **run)
    assert "fmt=" in failure_of(refused)
    assert dg.materialize([rows_of(fmt=fmt)], **run).success


def test_keys_that_dagster_itself_cannot_read_are_named():
    with pytest.raises(InvalidOptionError, match="Dagster cannot read its own partition keys") as refused:
        HudiPartitions.of(dg.WeeklyPartitionsDefinition(datetime(2026, 1, 5), fmt="%G-W%V"), "week")
    assert "%G-W%V-%u" in refused.value.hint
