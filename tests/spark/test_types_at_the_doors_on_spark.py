"""A Spark DataFrame meets a column of another type as an Arrow batch does, in `upsert` and in ``format("pyhudi")``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.spark_frames import frame
from support.tables import FAST
from support.type_pairs import ACCEPTED, REFUSED, SOURCES, TARGETS, data, expected, found, stored

import pyhudi_core as hudi
from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.spark import register

NOT_OF_SPARK = {"uint8", "uint32", "uint64", "uint64_large", "float16", "large_text", "dictionary", "date64", "time_of_day", "time_of_day_ns",
                "seconds", "millis", "nanos", "nanos_fine", "berlin", "nulls"}  # fmt: skip
PAIRS = [pair for pair in ACCEPTED if pair[0] not in NOT_OF_SPARK and pair[1] != "time_of_day"]


def _table(location: str, rows: pa.Table) -> hudi.HudiTable:
    table = hudi.create_table(location, rows.schema, record_key="id", storage_options=FAST)
    table.upsert(rows)
    return table


@pytest.mark.parametrize("door", ["upsert", pytest.param("data source", marks=pytest.mark.slow)])
def test_types_that_fit_give_the_columns_and_values_of_an_upsert(spark: Any, location: str, door: str) -> None:
    rows = frame(spark, data(PAIRS), 1)
    table = _table(location, stored(PAIRS))
    if door == "upsert":
        table.upsert(rows)
    else:
        register(spark)
        rows.write.format("pyhudi").mode("append").save(location)
    assert found(table.scan().to_arrow(), PAIRS) == expected(PAIRS)


def test_types_that_do_not_fit_are_refused_with_the_words_of_an_upsert(spark: Any) -> None:
    kinds = {source: values for source, values in SOURCES.items() if source not in NOT_OF_SPARK}
    batches = {source: pa.table({"id": [2], "c": values}) for source, values in kinds.items()}
    frames = {source: frame(spark, rows, 1) for source, rows in batches.items()}
    for target, values in TARGETS.items():
        table = hudi.create_table(
            f"memory://spark-types/{target}", pa.schema([("id", pa.int64()), ("c", values.type)]), "id"
        )
        for source in (source for source, other in REFUSED if other == target and source in frames):
            with pytest.raises(SchemaMismatchError) as of_arrow:
                table.upsert(batches[source])
            with pytest.raises(SchemaMismatchError) as of_spark:
                table.upsert(frames[source])
            assert of_spark.value.message == of_arrow.value.message, (source, target)


def test_columns_of_a_dataframe_are_renamed_also_inside_of_others(spark: Any) -> None:
    given = spark.createDataFrame([(1, [("x",)])], "`Order No.` int, `Die Namen` array<struct<`Vor Name`: string>>")
    found = hudi.rename_columns(given)
    assert found.schema.simpleString() == "struct<order_no:int,die_namen:array<struct<vor_name:string>>>"
    assert [tuple(row) for row in found.selectExpr("order_no", "die_namen[0].vor_name").collect()] == [(1, "x")]
