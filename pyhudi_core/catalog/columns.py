"""The types of columns in catalogs: Hive's type strings, and Spark's schema as JSON, cut into pieces that fit into a parameter.

Hudi's HiveSchemaUtil and SparkDataSourceTableUtils are the models. Names are in lower case for Hive, and unchanged for Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

_HIVE = {
    pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double",
    pa.string(): "string", pa.binary(): "binary", pa.date32(): "date", pa.time64("us"): "bigint",
}  # fmt: skip
_SPARK = {
    pa.bool_(): "boolean", pa.int32(): "integer", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double",
    pa.string(): "string", pa.binary(): "binary", pa.date32(): "date", pa.time64("us"): "long",
}  # fmt: skip
_WIDER = {"int": ("bigint", "float", "double"), "bigint": ("float", "double"), "float": ("double",)}
"""The wider types as which a Hive reader can read older files."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


_MOST_COMMENT = 255
"""The length of a comment in bytes that Glue takes, and each database of a metastore."""


def hive_comment(text: str) -> str:
    """Return a comment in the form of catalogs: on one line, and cut to their maximum length."""
    line = " ".join(text.split())
    cut = line.encode()[:_MOST_COMMENT].decode(errors="ignore")
    return cut if cut == line else f"{cut.encode()[: _MOST_COMMENT - 3].decode(errors='ignore')}..."


def hive_type(kind: pa.DataType, *, timestamps: bool) -> str:
    """Return the type as Hive writes it, without blanks. ``timestamps``: whether times are ``timestamp``; otherwise they are ``bigint``."""
    types = pa.types
    if types.is_timestamp(kind):
        return "timestamp" if timestamps else "bigint"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_list(kind):
        return f"array<{hive_type(kind.value_type, timestamps=timestamps)}>"
    if types.is_map(kind):
        return f"map<string,{hive_type(kind.item_type, timestamps=timestamps)}>"
    if types.is_struct(kind):
        inside = (f"{each.name.lower()}:{hive_type(each.type, timestamps=timestamps)}" for each in kind.fields)
        return f"struct<{','.join(inside)}>"
    return _HIVE[kind]


def spark_schema(fields: Iterable[pa.Field], comments: Mapping[str, str]) -> str:
    """Return Spark's JSON for columns in this order. ``comments``: descriptions of columns."""
    shown = [_spark_field(each, comments.get(each.name, "")) for each in fields]
    return json.dumps({"type": "struct", "fields": shown}, separators=(",", ":"), ensure_ascii=False)


def _spark_field(each: pa.Field, comment: str = "") -> dict[str, Any]:
    metadata = {"comment": comment} if comment else {}
    return {"name": each.name, "type": _spark_type(each.type), "nullable": True, "metadata": metadata}


def _spark_type(kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_list(kind):
        return {"type": "array", "elementType": _spark_type(kind.value_type), "containsNull": True}
    if types.is_map(kind):
        value = _spark_type(kind.item_type)
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
    if types.is_struct(kind):
        return {"type": "struct", "fields": [_spark_field(each) for each in kind.fields]}
    return _SPARK[kind]


def in_pieces(name: str, text: str, size: int) -> dict[str, str]:
    """Return a long text as several parameters, in Spark's form: ``name.numParts`` and ``name.part.0`` and so on."""
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return {f"{name}.numParts": str(len(pieces)), **{f"{name}.part.{n}": piece for n, piece in enumerate(pieces)}}


def from_pieces(name: str, parameters: Mapping[str, str]) -> object:
    """Return the parsed content that `in_pieces` wrote; None if it is not readable."""
    try:
        count = int(parameters.get(f"{name}.numParts", "0"))
        return json.loads("".join(parameters[f"{name}.part.{n}"] for n in range(count))) if count else None
    except (KeyError, ValueError, RecursionError):
        return None


def may_become(before: str, after: str) -> bool:
    """Say whether Hive can read files with the type ``before`` as ``after``: the same type, a wider number, or a nested type with more fields."""
    if before == after or after in _WIDER.get(before, ()):
        return True
    old, new = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if old and new:
        return old[2] == new[2] and int(old[1]) <= int(new[1])
    kinds = [text.partition("<")[0] for text in (before, after)]
    return kinds[0] == kinds[1] and kinds[0] in ("struct", "array", "map")
