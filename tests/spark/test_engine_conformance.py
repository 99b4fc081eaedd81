"""Spark does what every engine must do, with small batches and with distributed ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from support import engine_cases
from support.spark_frames import frame

from pyhudi_core.engine import spark as engine
from pyhudi_core.engine.base import Dataset
from pyhudi_core.runtime.system import SerialExecutor


@pytest.mark.parametrize("case", engine_cases.CASES, ids=lambda case: case.__name__)
def test_spark(spark: Any, way: str, case: Any) -> None:
    # Spark's workers do not have the folder of the tests on their path.
    cloudpickle.register_pickle_by_value(engine_cases)
    on_spark = engine.SparkEngine(spark, SerialExecutor())

    def make(table: pa.Table) -> Dataset:
        return on_spark.dataset(frame(spark, table))

    case(on_spark, make)
