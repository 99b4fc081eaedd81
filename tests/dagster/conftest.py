"""A lake in a folder, an instance, and a table of orders for the tests of ``pyhudi_dagster``."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.incremental import PARTITIONS

from pyhudi_dagster import Changes, HudiLakeResource, SparkResource, hudi_asset

ORDERS = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("day", pa.string()), ("ts", pa.int64())])
SPARK = {
    "spark.master": "local[2]",
    "spark.driver.memory": "512m",
    # Small jobs end before the better compiler has paid for itself.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.fixture(autouse=True)
def interrupts_are_raised() -> None:
    """Dagster replaces the handler during a run. It cannot put the old one back if an interrupted run is finalized in another thread."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def new_databases_are_not_stamped() -> Iterator[None]:
    """An instance in memory needs no note of its schema's version, which reads all migrations of Dagster for every test."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("event_log", "runs"):
            patch.setattr(f"dagster._core.storage.{kind}.in_memory.stamp_alembic_rev", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def spark_config() -> dict[str, str]:
    return dict(SPARK)


@pytest.fixture
def lake(tmp_path: Path) -> HudiLakeResource:
    """A lake whose tables are made without a metadata table, as its part of each commit takes time; those of `default_lake` are as users get them."""
    return HudiLakeResource(
        warehouse=str(tmp_path / "lake"),
        pyspark=SparkResource(spark_config=SPARK),
        options={"hoodie.metadata.enable": "false"},
    )


@pytest.fixture
def default_lake(lake: HudiLakeResource) -> HudiLakeResource:
    """The same lake without options."""
    return HudiLakeResource(warehouse=lake.warehouse, pyspark=SparkResource(spark_config=SPARK))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory. One on disk makes a database for every run, which takes most of a test's time; tests/e2e has real ones."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def kept() -> Iterator[dg.DagsterInstance]:
    """An instance on disk; Dagster gives a schedule no other."""
    with dg.instance_for_test() as instance:
        yield instance


@pytest.fixture
def orders() -> Callable[..., pa.Table]:
    """Rows of orders: ``orders(1, 2, day="2026-01-01", amount=3.0, ts=1)``."""

    def rows(*ids: int, day: str = "2026-01-01", amount: float = 1.0, ts: int = 1) -> pa.Table:
        count = len(ids)
        return pa.table([list(ids), [amount] * count, [day] * count, [ts] * count], schema=ORDERS)

    return rows


@pytest.fixture
def asset_of() -> Callable[..., dg.AssetsDefinition]:
    """An asset ``orders`` (key ``id``, ordering ``ts``) that returns what it is given, or what a function of the context makes."""

    def make(result: Any, **arguments: Any) -> dg.AssetsDefinition:
        arguments = {"record_key": "id", "ordering": "ts", **arguments}

        @hudi_asset(**arguments)
        def orders(context: dg.AssetExecutionContext) -> Any:
            return result(context) if callable(result) else result

        return orders

    return make


@pytest.fixture
def run(lake: HudiLakeResource, instance: dg.DagsterInstance) -> Callable[..., dg.ExecuteInProcessResult]:
    """Materialize assets with the lake, on the instance."""

    def materialize(*assets: Any, **arguments: Any) -> dg.ExecuteInProcessResult:
        resources = {"lake": lake, **arguments.pop("resources", {})}
        return dg.materialize(list(assets), instance=instance, resources=resources, **arguments)

    return materialize


@pytest.fixture
def seen() -> list[tuple[list[str], list[int]]]:
    """What the runs of `daily` were given, by their first partition key."""
    return []


@pytest.fixture
def daily(seen: list[tuple[list[str], list[int]]]) -> dg.AssetsDefinition:
    """An asset of daily partitions that reads what changed in the orders."""

    @hudi_asset(record_key="id", partitions=PARTITIONS, on_foreign_rows="drop")
    def daily(context: dg.AssetExecutionContext, orders: Changes) -> pa.Table:
        rows = orders.to_arrow()
        seen.append((list(context.partition_keys), sorted(rows["id"].to_pylist())))
        return rows

    return daily


@pytest.fixture
def copy() -> dg.AssetsDefinition:
    """An asset that copies the orders of at least 10, and so often has nothing to write."""

    @hudi_asset(record_key="id")
    def copy(orders: Changes) -> pa.Table:
        rows = orders.to_arrow()
        return rows.filter(pc.greater_equal(rows["amount"], 10.0))

    return copy
