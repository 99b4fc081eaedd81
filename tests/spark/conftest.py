"""One small Spark session for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs Spark."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A classic session on two cores, without a UI."""
    from pyspark.sql import SparkSession

    place = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("pyhudi tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        # Small jobs end before the better compiler has paid for itself.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .config("spark.local.dir", str(place / "local"))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(params=[pytest.param("gathered", marks=pytest.mark.slow), "distributed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small batches run partly at the driver, others in the executors all the way.

    What runs at the driver is the local engine's code, so in the quick suite only some tests of test_spark_tables.py run both.
    """
    from pyhudi_core.engine import spark as engine

    monkeypatch.setattr(engine, "GATHER_BYTES", 1 << 40 if request.param == "gathered" else -1)
    return str(request.param)
