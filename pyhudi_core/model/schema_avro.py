"""A table's schema as the Avro text in commits and base-file footers.

Written as Hudi's Spark writer does (specification, "Schema"; equal byte for byte to commits of Hudi 1.0.2):
record ``<table>_record`` in namespace ``hoodie.<table>``, every field a union of null and its type with default null,
nested records named after their field, decimals as the smallest fixed named ``fixed``, microseconds everywhere. Reading also
accepts unions in any order, milliseconds, decimals as bytes, enums and UUIDs as strings, and repeated use of named types.

Invariant: ``from_avro(to_avro(schema, name)) == schema`` for every logical schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import CorruptAvroError, UnsupportedTableError
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.meta_fields import META_FIELDS, OPERATION
from pyhudi_core.model.schema_types import MAX_DECIMAL_PRECISION, joined

_MAX_DEPTH = 32
_MAX_TYPES = 20_000
_MASK = "__"

_PLAIN: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}
_FROM_PLAIN: dict[str, pa.DataType] = {avro: kind for kind, avro in _PLAIN.items() if isinstance(avro, str)}
_FROM_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time64("us"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("us"),
}


def to_avro(
    schema: pa.Schema,
    table_name: str,
    *,
    meta_fields: bool = False,
    operation: bool = False,
    comments: Mapping[str, str] | None = None,
) -> str:
    """Return the Avro JSON text of a logical schema.

    Args:
        schema: the table's columns, logical types only.
        table_name: characters that Avro does not allow are replaced as Hudi does.
        meta_fields: put the five meta columns first, as in base-file footers.
        operation: put the sixth meta column after them.
        comments: descriptions of columns, stored as their ``doc``.
    """
    name = avro_name(table_name)
    namespace = f"hoodie.{name}"
    record = _record(f"{name}_record", namespace, schema)
    for field in record["fields"] if comments else ():
        if comments and field["name"] in comments:
            field["doc"] = comments[field["name"]]
    if meta_fields:
        names = (*META_FIELDS, OPERATION) if operation else META_FIELDS
        own = [{"name": field, "type": ["null", "string"], "doc": "", "default": None} for field in names]
        record["fields"] = own + record["fields"]
    return json.dumps(record, separators=(",", ":"))


def avro_name(table_name: str) -> str:
    """Replace characters that Avro does not allow in names by two underscores, as Hudi does."""
    first = re.sub("[^A-Za-z_]", _MASK, table_name[:1])
    return first + re.sub("[^A-Za-z0-9_]", _MASK, table_name[1:])


def _record(name: str, namespace: str, fields: Iterable[pa.Field]) -> dict[str, Any]:
    inner = f"{namespace}.{name}"
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [
            {"name": field.name, "type": ["null", _avro_type(field.type, field.name, inner)], "default": None}
            for field in fields
        ],
    }


def _avro_type(kind: pa.DataType, name: str, namespace: str) -> Any:
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain
    types = pa.types
    if types.is_decimal128(kind):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": decimal_size(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if types.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, name, namespace)]}
    if types.is_map(kind):
        return {"type": "map", "values": ["null", _avro_type(kind.item_type, name, namespace)]}
    if types.is_struct(kind):
        return _record(name, namespace, kind.fields)
    raise TypeError(f"{kind} is not a logical type; normalise the schema first")


def decimal_size(precision: int) -> int:
    """Return the size in bytes of the smallest two's complement number for decimals of ``precision`` digits."""
    return (int(10**precision - 1).bit_length() + 8) // 8


def from_avro(text: str, *, path: str | None = None, table: str | None = None) -> pa.Schema:
    """Return the logical schema in Avro JSON text, without meta columns.

    Args:
        text: the schema in a commit, a footer or ``hoodie.table.create.schema``.
        path: the file of the text, for errors.
        table: the table's location, for errors.

    Raises:
        CorruptAvroError: not JSON, or not an Avro record schema.
        UnsupportedTableError: a column has a type that this package cannot read.
    """
    try:
        return _schema(text)
    except _UnsupportedTypeError as error:
        raise UnsupportedTableError(
            f"The table's schema has {error}", table=table, path=path, hint="Read the table with Apache Hudi"
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptAvroError(
            f"Not an Avro schema: {error!s:.200}",
            table=table,
            path=path,
            detail=str(error),
            hint="The commit's metadata is damaged; later commits carry the schema too",
        ) from error


@lru_cache(maxsize=256)
def _schema(text: str) -> pa.Schema:
    """Return the logical schema in Avro JSON text. Commits, plans and footers of a table have few different texts."""
    return pa.schema(_AvroReader().columns(parse_json(text)))


class _UnsupportedTypeError(Exception):
    """A column of a valid schema has no logical type."""


class _AvroReader:
    """One pass over one schema. A named type can be used again after its definition, but not inside it."""

    def __init__(self) -> None:
        self._named: dict[str, pa.DataType | None] = {}
        self._count = 0

    def columns(self, raw: Any) -> list[pa.Field]:
        if not isinstance(raw, dict) or raw.get("type") != "record":
            raise ValueError("it is not a record")
        record = self._record(raw, "", "", 0)
        meta = {*META_FIELDS, OPERATION}
        return [field for field in record.fields if field.name not in meta]

    def _spend(self, types: int, depth: int) -> None:
        """Limit the size of the expanded schema, which grows each time a named type is used again."""
        self._count += types
        if depth > _MAX_DEPTH or self._count > _MAX_TYPES:
            raise ValueError("it is nested too deeply or has too many types")

    def _type(self, raw: Any, namespace: str, column: str, depth: int) -> pa.DataType:
        self._spend(1, depth)
        if isinstance(raw, list):
            return self._union(raw, namespace, column, depth)
        if isinstance(raw, str):
            return _FROM_PLAIN[raw] if raw in _FROM_PLAIN else self._reference(raw, namespace, column, depth)
        if not isinstance(raw, dict):
            raise ValueError(f"column {column} has no type")
        kind = raw.get("type")
        if kind == "record":
            return self._record(raw, namespace, column, depth)
        if kind == "array":
            return pa.list_(self._type(raw.get("items"), namespace, f"{column}.element", depth + 1))
        if kind == "map":
            return pa.map_(pa.string(), self._type(raw.get("values"), namespace, f"{column}.value", depth + 1))
        if kind in ("fixed", "enum"):
            found = pa.string() if kind == "enum" else _binary(raw, column)
            self._named[_full_name(raw, namespace)] = found
            return found
        if isinstance(kind, str) and kind in _FROM_PLAIN:
            return _binary(raw, column) if kind == "bytes" else _annotated(kind, raw)
        return self._type(kind, namespace, column, depth + 1)

    def _union(self, raw: list[Any], namespace: str, column: str, depth: int) -> pa.DataType:
        branches = [branch for branch in raw if branch != "null"]
        if len(branches) != 1:
            raise _UnsupportedTypeError(f"a union of {len(branches)} types in column {column}")
        return self._type(branches[0], namespace, column, depth + 1)

    def _record(self, raw: dict[str, Any], namespace: str, column: str, depth: int) -> pa.DataType:
        full = _full_name(raw, namespace)
        self._named[full] = None
        inner = full.rpartition(".")[0]
        fields = raw.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            raise ValueError(f"record {full:.100} has no fields")
        made = []
        for field in fields:
            name = field.get("name")
            if not isinstance(name, str):
                raise ValueError(f"a field of record {full:.100} has no name")
            made.append(pa.field(name, self._type(field.get("type"), inner, joined(column, name), depth + 1)))
        if len({field.name for field in made}) != len(made):
            raise ValueError(f"record {full:.100} has a field twice")
        self._named[full] = pa.struct(made)
        return self._named[full]

    def _reference(self, name: str, namespace: str, column: str, depth: int) -> pa.DataType:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._named and name not in self._named:
            raise ValueError(f"type {name:.100} of column {column} is not defined")
        found = self._named.get(full, self._named.get(name))
        if found is None:
            raise _UnsupportedTypeError(f"a recursive type in column {column}")
        size, height = _extent(found)
        self._spend(size, depth + height)
        return found


def _extent(kind: pa.DataType) -> tuple[int, int]:
    """Return the number of types in a type, itself included, and its height."""
    children = [_extent(kind.field(index).type) for index in range(kind.num_fields)]
    return 1 + sum(size for size, _ in children), 1 + max((height for _, height in children), default=0)


def _full_name(raw: dict[str, Any], namespace: str) -> str:
    name, own = raw.get("name"), raw.get("namespace", namespace)
    if not isinstance(name, str) or not isinstance(own, str):
        raise ValueError("a named type has no name")
    return name if "." in name or not own else f"{own}.{name}"


def _annotated(kind: str, raw: dict[str, Any]) -> pa.DataType:
    """Return the primitive type with its logical type; unknown logical types are ignored, as Avro requires."""
    logical = raw.get("logicalType")
    found = _FROM_LOGICAL.get((kind, logical)) if isinstance(logical, str) else None
    return _FROM_PLAIN[kind] if found is None else found


def _binary(raw: dict[str, Any], column: str) -> pa.DataType:
    logical = raw.get("logicalType")
    if logical == "duration":
        raise _UnsupportedTypeError(f"a duration in column {column}")
    if logical != "decimal":
        return pa.binary()
    precision, scale = raw.get("precision"), raw.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
        raise ValueError(f"column {column} is a decimal of no valid precision and scale")
    if precision > MAX_DECIMAL_PRECISION:
        raise _UnsupportedTypeError(f"a decimal of {precision} digits in column {column}")
    return pa.decimal128(precision, scale)
