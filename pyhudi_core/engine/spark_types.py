"""Arrow types and Spark types, both ways; PySpark's own converters are private and differ between its releases."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark

from pyhudi_core.errors import SchemaMismatchError

_SIMPLE: tuple[tuple[pa.DataType, type[spark.DataType]], ...] = (
    (pa.bool_(), spark.BooleanType),
    (pa.int8(), spark.ByteType),
    (pa.int16(), spark.ShortType),
    (pa.int32(), spark.IntegerType),
    (pa.int64(), spark.LongType),
    (pa.float32(), spark.FloatType),
    (pa.float64(), spark.DoubleType),
    (pa.string(), spark.StringType),
    (pa.binary(), spark.BinaryType),
    (pa.date32(), spark.DateType),
    (pa.timestamp("us", "UTC"), spark.TimestampType),
    (pa.timestamp("us"), spark.TimestampNTZType),
    (pa.null(), spark.NullType),
)


def to_arrow(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's rows."""
    return pa.schema([_to_arrow_field(field) for field in schema.fields])


def to_spark(schema: pa.Schema) -> spark.StructType:
    """Return the Spark schema of Arrow rows. Raises `SchemaMismatchError` for types that Spark does not have."""
    return spark.StructType([spark.StructField(field.name, _to_spark(field.type, field.name)) for field in schema])


def with_nullable_elements(kind: spark.DataType) -> spark.DataType:
    """Return the same type with nullable elements and values.

    PySpark cannot convert ``array()`` to Arrow, because its elements have the type void and are never null.
    """
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(with_nullable_elements(kind.elementType))
    if isinstance(kind, spark.MapType):
        return spark.MapType(kind.keyType, with_nullable_elements(kind.valueType))
    if isinstance(kind, spark.StructType):
        fields = [spark.StructField(f.name, with_nullable_elements(f.dataType), f.nullable) for f in kind.fields]
        return spark.StructType(fields)
    return kind


def _to_arrow_field(field: spark.StructField) -> pa.Field:
    kind = _to_arrow(field.dataType, field.name)
    return pa.field(field.name, kind, field.nullable or pa.types.is_null(kind))


def _to_arrow(kind: spark.DataType, column: str) -> pa.DataType:
    for arrow, simple in _SIMPLE:
        if isinstance(kind, simple):
            return arrow
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        return pa.list_(pa.field("element", _to_arrow(kind.elementType, column)))
    if isinstance(kind, spark.MapType):
        return pa.map_(_to_arrow(kind.keyType, column), _to_arrow(kind.valueType, column))
    if isinstance(kind, spark.StructType):
        return pa.struct([_to_arrow_field(field) for field in kind.fields])
    raise SchemaMismatchError(
        f"Column {column!r} has Spark's type {kind.simpleString()}, which a table of version 8 cannot hold",
        hint="Cast it to a type that it can hold, or omit the column.",
    )


def _to_spark(kind: pa.DataType, column: str) -> spark.DataType:
    for arrow, simple in _SIMPLE:
        if kind == arrow:
            return simple()
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return spark.TimestampType() if kind.tz else spark.TimestampNTZType()
    if pa.types.is_decimal128(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_list(kind):
        return spark.ArrayType(_to_spark(kind.value_type, column))
    if pa.types.is_map(kind):
        return spark.MapType(_to_spark(kind.key_type, column), _to_spark(kind.item_type, column))
    if pa.types.is_struct(kind):
        fields = [spark.StructField(kind[i].name, _to_spark(kind[i].type, column)) for i in range(kind.num_fields)]
        return spark.StructType(fields)
    raise SchemaMismatchError(
        f"Column {column!r} has the type {kind}, which Spark does not have",
        hint="Read it with to_arrow() or to_batches(), or leave the column away with columns=[...].",
    )
