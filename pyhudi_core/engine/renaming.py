"""`rename_columns`: give data column names that a Hudi table can have, and return the same kind of data."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyhudi_core.engine.local import as_table
from pyhudi_core.model.column_names import renamed, snake_names, snake_schema
from pyhudi_core.naming import set_module


@set_module("pyhudi")
def rename_columns(data: Any) -> Any:
    """Return data with names in snake case: 'Größe (cm)' becomes groesse_cm, and OrderId becomes order_id.

    The names of fields of structs change, too, except in pandas DataFrames, where structs are Python objects. The rule is in `model.column_names`.

    Args:
        data: a DataFrame of Spark, pandas or polars, or any data with the Arrow C stream interface.

    Returns data of the same kind for Spark, pandas, polars, and Arrow's tables, batches and readers (no row is read); otherwise a pyarrow Table.

    Raises:
        SchemaMismatchError: two columns would get the same name, or a name has no letters and digits.
        ConfigError: the argument is not data.
    """
    module = type(data).__module__.partition(".")[0]
    if module == "pyspark":
        return _spark(data)
    if module == "pandas":
        return _pandas(data)
    if isinstance(data, pa.RecordBatchReader):
        schema = snake_schema(data.schema)
        return pa.RecordBatchReader.from_batches(schema, (renamed(batch, schema) for batch in data))
    if isinstance(data, pa.RecordBatch):
        return renamed(data, snake_schema(data.schema))
    table = as_table(data)
    schema = snake_schema(table.schema)
    made = pa.Table.from_batches([renamed(batch, schema) for batch in table.to_batches()], schema)
    return type(data)(made) if module == "polars" else made


def _pandas(frame: Any) -> Any:
    """Return a pandas DataFrame. A named index is renamed, too, because it becomes a column of a table."""
    levels = [name for name in frame.index.names if name is not None]
    names = snake_names([str(name) for name in (*levels, *frame.columns)])
    made = frame.set_axis(names[len(levels) :], axis="columns")
    of_index = iter(names)
    made.index = frame.index.set_names([None if name is None else next(of_index) for name in frame.index.names])
    return made


def _spark(frame: Any) -> Any:
    """Return a Spark DataFrame. Fields of a struct are renamed by a cast to a struct with the new names."""
    from pyhudi_core.engine import spark_types  # noqa: PLC0415  (Spark is imported only where it is used)

    schema = spark_types.to_arrow(frame.schema)
    wanted = spark_types.to_spark(snake_schema(schema))
    named = frame.toDF(*wanted.names)
    return named.select([named[item.name].cast(item.dataType).alias(item.name) for item in wanted.fields])
