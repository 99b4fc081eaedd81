"""Types of columns: from Spark's SQL to Arrow, and back as text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlglot.expressions as exp

from pyhudi_core.statements.text import not_understood, place_of, refuse_unknown

_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}
_WORDS = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_int32, "INT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_large_string, "STRING"),
    (pa.types.is_binary, "BINARY"),
    (pa.types.is_large_binary, "BINARY"),
    (pa.types.is_date, "DATE"),
)


def arrow_type(kind: Any) -> pa.DataType:
    """Return the Arrow type of a type of SQL. Raises `InvalidOptionError` for a type that tables do not have."""
    name = kind.this.name if isinstance(kind, exp.DataType) and hasattr(kind.this, "name") else ""
    parts = kind.expressions
    if isinstance(kind, exp.DataType):
        refuse_unknown(kind, f"the type {name}", "this", "expressions", "nested")
    if name in _PLAIN and parts:
        raise not_understood(
            f"{kind.sql(dialect='spark')[:60]!r}{place_of(kind)} has a length, which tables do not keep",
            "Write STRING without a length, with a rule of the table where it matters: CHECK (length(name) <= 20). Nothing was changed.",
        )
    if name in _PLAIN:
        return _PLAIN[name]
    if name == "DECIMAL":
        digits = [int(part.name) for part in parts] or [10, 0]
        return pa.decimal128(digits[0], digits[1] if len(digits) > 1 else 0)
    if name == "ARRAY" and len(parts) == 1:
        return pa.list_(arrow_type(parts[0]))
    if name == "MAP" and len(parts) == 2:
        return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
    if name == "STRUCT" and parts and all(isinstance(part, exp.ColumnDef) for part in parts):
        return pa.struct([_field(part) for part in parts])
    raise not_understood(
        f"there is no type {kind.sql(dialect='spark')[:60]!r}{place_of(kind)}",
        "Types are those of Spark: BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(9, 2), STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, ARRAY<...>,"
        " MAP<..., ...>, STRUCT<name: ...>. Nothing was changed.",
    )


def type_of_column(column: Any) -> pa.DataType:
    """Return the Arrow type of a column, or of a field of a struct, that a statement defines."""
    if column.args.get("kind") is None:
        raise not_understood(f"{column.name!r}{place_of(column)} has no type", "Write name TYPE. Nothing was changed.")
    return arrow_type(column.args["kind"])


def _field(part: Any) -> pa.Field:
    """Return a field of a struct. Rules are of columns, so a field with one is refused."""
    if part.args.get("constraints"):
        rule = part.args["constraints"][0].sql(dialect="spark")
        raise not_understood(
            f"the field {part.name!r}{place_of(part)} of a struct has {rule[:60]!r}, which tables do not keep there",
            "Leave it out; a column has rules, and a table CHECK (condition). Nothing was changed.",
        )
    return pa.field(part.name, type_of_column(part))


def sql_type(kind: pa.DataType) -> str:
    """Return the type of SQL for the type of a column. If SQL has no such type, return Arrow's name for the type."""
    for test, word in _WORDS:
        if test(kind):
            return word
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz is not None else "TIMESTAMP_NTZ"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_type)}, {sql_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {sql_type(field.type)}' for field in kind)}>"
    return str(kind)


def quoted(name: str) -> str:
    """Return a name with quotes, as a statement has it."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
