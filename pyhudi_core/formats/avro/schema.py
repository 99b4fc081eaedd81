"""Check an untrusted Avro schema from a file, and return a schema that is safe for decoding.

Invariants of the result of `safe_schema` (Avro 1.11 specification, "Schema Declaration")
- every value takes at least one byte, so the number of bytes limits the work of decoding. A bare null, an empty record and a fixed of size 0 are
  refused, because ten bytes can announce 2^60 nulls;
- no type contains itself; the depth of nesting and the number of types are limited;
- only structure remains: logical types, properties, defaults and foreign names are removed.

`fitter` compares a writer's schema once with this package's schema, so that records of an equal schema need no conversion.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 32
MAX_TYPES = 10_000

_SIMPLE = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_PROMOTIONS: dict[str, frozenset[str]] = {
    "boolean": frozenset({"boolean"}),
    "int": frozenset({"int"}),
    "long": frozenset({"int", "long"}),
    "float": frozenset({"int", "long", "float"}),
    "double": frozenset({"int", "long", "float", "double"}),
    "bytes": frozenset({"bytes", "fixed"}),
    "string": frozenset({"string", "enum"}),
}

Fit = Callable[[Any], Any]


class SchemaRefusedError(ValueError):
    """The schema is damaged, or unsafe for decoding. The caller, who knows the file, converts it to a typed error."""


def safe_schema(text: str) -> Any:
    """Return the structure of the schema in ``text``, with named types inlined as Python references.

    Raises:
        SchemaRefusedError: not JSON, not a schema, recursive, too deep, too large, or with values of no bytes.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaRefusedError("the schema is not JSON") from error
    return _SchemaReader().read(raw, "", 0)


class _SchemaReader:
    """One pass over one schema; holds the types named so far."""

    def __init__(self) -> None:
        self._named: dict[str, dict[str, Any] | None] = {}
        self._count = 0

    def read(self, raw: Any, namespace: str, depth: int) -> Any:
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_TYPES:
            raise SchemaRefusedError("the schema is nested too deeply or has too many types")
        if isinstance(raw, list):
            return self._union(raw, namespace, depth)
        if isinstance(raw, str):
            return raw if raw in _SIMPLE else self._reference(raw, namespace)
        if not isinstance(raw, dict):
            raise SchemaRefusedError("a type is neither a name nor an object")
        kind = raw.get("type")
        if isinstance(kind, list | dict):
            return self.read(kind, namespace, depth + 1)
        if kind in ("record", "error"):
            return self._record(raw, namespace, depth)
        if kind == "array":
            return {"type": "array", "items": self.read(raw.get("items"), namespace, depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.read(raw.get("values"), namespace, depth + 1)}
        if kind in ("fixed", "enum"):
            return self._leaf(raw, namespace, kind)
        return self.read(kind, namespace, depth + 1)

    def _union(self, raw: list[Any], namespace: str, depth: int) -> list[Any]:
        if not raw:
            raise SchemaRefusedError("a union has no branch")
        return ["null" if _is_null(branch) else self.read(branch, namespace, depth + 1) for branch in raw]

    def _reference(self, name: str, namespace: str) -> dict[str, Any]:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full, self._named.get(name, {}))
        if found is None:
            raise SchemaRefusedError(f"type {name!r:.100} contains itself")
        if not found:
            raise SchemaRefusedError(f"type {name!r:.100} is unknown or has no bytes")
        return found

    def _claim(self, raw: dict[str, Any], namespace: str) -> tuple[str, str]:
        """Return the full name and the namespace of a type that is being defined; until it is complete, a reference to it is a cycle."""
        name, own = raw.get("name"), raw.get("namespace", namespace)
        if not isinstance(name, str) or not name or not isinstance(own, str):
            raise SchemaRefusedError("a named type has no name")
        full = name if "." in name or not own else f"{own}.{name}"
        if full in self._named:
            raise SchemaRefusedError(f"type {full!r:.100} is defined twice")
        self._named[full] = None
        return full, full.rpartition(".")[0]

    def _record(self, raw: dict[str, Any], namespace: str, depth: int) -> dict[str, Any]:
        full, inner = self._claim(raw, namespace)
        fields = raw.get("fields")
        if not isinstance(fields, list) or not fields:
            raise SchemaRefusedError("a record has no fields")
        read: dict[str, Any] = {}
        for field in fields:
            name = field.get("name") if isinstance(field, dict) else None
            if not isinstance(name, str) or name in read:
                raise SchemaRefusedError("a field has no name or one that is taken")
            read[name] = self.read(field.get("type"), inner, depth + 1)
        made = {"type": "record", "fields": read}
        self._named[full] = made
        return made

    def _leaf(self, raw: dict[str, Any], namespace: str, kind: str) -> dict[str, Any]:
        full, _ = self._claim(raw, namespace)
        made: dict[str, Any]
        if kind == "fixed":
            size = raw.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 1 << 31:
                raise SchemaRefusedError("a fixed has no positive size")
            made = {"type": "fixed", "size": size}
        else:
            symbols = raw.get("symbols")
            if not isinstance(symbols, list) or not symbols or not all(isinstance(s, str) for s in symbols):
                raise SchemaRefusedError("an enum has no symbols")
            made = {"type": "enum", "symbols": symbols}
        self._named[full] = made
        return made


def different(names: list[str]) -> tuple[str, ...]:
    """Return the names of one record, enum or union. Raises ValueError for a duplicate, or a name that is not text."""
    if len(set(names)) < len(names):
        raise ValueError("it has a name twice")
    for name in names:
        name.encode()
    return tuple(names)


def _is_null(raw: Any) -> bool:
    return raw == "null" or (isinstance(raw, dict) and raw.get("type") == "null")


def codec_schema(safe: Any) -> Any:
    """Return a safe schema for the decoder: with generated names, each named type defined once and then referred to."""
    names: dict[int, str] = {}

    def write(node: Any) -> Any:
        if isinstance(node, str):
            return node
        if isinstance(node, list):
            return [write(branch) for branch in node]
        kind = node["type"]
        if kind == "array":
            return {"type": "array", "items": write(node["items"])}
        if kind == "map":
            return {"type": "map", "values": write(node["values"])}
        if id(node) in names:
            return names[id(node)]
        names[id(node)] = name = f"t{len(names)}"
        if kind == "fixed":
            return {"type": "fixed", "name": name, "size": node["size"]}
        if kind == "enum":
            return {"type": "enum", "name": name, "symbols": node["symbols"]}
        fields = [{"name": field, "type": write(inner)} for field, inner in node["fields"].items()]
        return {"type": "record", "name": name, "fields": fields}

    return write(safe)


def fitter(writer: Any, reader: Any) -> Fit | None:
    """Return a function that converts a value of ``writer`` to ``reader``; None if no conversion is needed.

    Both are safe schemas; record fields of ``reader`` may be ``(schema, default)`` pairs (see `with_defaults`).
    Missing fields get their default, additional fields stay.

    Raises:
        SchemaRefusedError: a field is missing and has no default, or its type differs.
    """
    writer_branches, writer_null = _branches(writer)
    (branch,), reader_null = _branches(reader)
    fits = [_fit_branch(candidate, branch) for candidate in writer_branches]
    if len(fits) > 1 and any(fits):
        raise SchemaRefusedError("a union has several records")
    fit = fits[0] if fits else None
    if not writer_null:
        return fit
    if reader_null:
        return None if fit is None else lambda value: None if value is None else fit(value)
    return lambda value: _required(value, fit)


def _required(value: Any, fit: Fit | None) -> Any:
    if value is None:
        raise SchemaRefusedError("a value that must be there is null")
    return value if fit is None else fit(value)


def _branches(node: Any) -> tuple[list[Any], bool]:
    if not isinstance(node, list):
        return [node], False
    return [branch for branch in node if branch != "null"], "null" in node


def _kind(node: Any) -> str:
    return node if isinstance(node, str) else str(node["type"])


def _fit_branch(writer: Any, reader: Any) -> Fit | None:
    kind, wanted = _kind(writer), _kind(reader)
    if kind not in _PROMOTIONS.get(wanted, {wanted}):
        raise SchemaRefusedError(f"a value is {kind} where {wanted} is expected")
    if wanted == "record":
        return _fit_record(writer["fields"], reader["fields"])
    if wanted in ("array", "map"):
        inner = "items" if wanted == "array" else "values"
        fit = fitter(writer[inner], reader[inner])
        if fit is None:
            return None
        if wanted == "array":
            return lambda items: [fit(item) for item in items]
        return lambda values: {key: fit(value) for key, value in values.items()}
    return None


def _fit_record(writer: dict[str, Any], reader: dict[str, Any]) -> Fit | None:
    defaults: dict[str, Any] = {}
    fits: dict[str, Fit] = {}
    for name, (kind, default) in reader.items():
        if name in writer:
            fit = fitter(writer[name], kind)
            if fit is not None:
                fits[name] = fit
        elif default is NO_DEFAULT:
            raise SchemaRefusedError(f"field {name} is missing")
        else:
            defaults[name] = default
    if not defaults and not fits:
        return None

    def fit_record(record: dict[str, Any]) -> dict[str, Any]:
        for name, default in defaults.items():
            record[name] = list(default) if isinstance(default, list) else default
        for name, fit in fits.items():
            record[name] = fit(record[name])
        return record

    return fit_record


NO_DEFAULT = object()


def with_defaults(schema: Any) -> Any:
    """Return a schema of this package for `fitter`: fields are ``(schema, default)``, names are resolved."""
    named: dict[str, Any] = {}

    def read(node: Any) -> Any:
        if isinstance(node, list):
            return [read(branch) for branch in node]
        if isinstance(node, str):
            return named.get(node, node)
        kind = node["type"]
        if kind == "array":
            return {"type": "array", "items": read(node["items"])}
        if kind == "map":
            return {"type": "map", "values": read(node["values"])}
        if kind != "record":
            return kind
        fields = {f["name"]: (read(f["type"]), f.get("default", NO_DEFAULT)) for f in node["fields"]}
        named[node["name"]] = {"type": "record", "fields": fields}
        return named[node["name"]]

    return read(schema)
