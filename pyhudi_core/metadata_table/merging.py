"""Merge the entries of one key (specification, "Metadata Table"; rules of releases 1.0 to 1.2).

Lists of files are maps that grow and shrink. Statistics are replaced if they are marked exact or deleted, and widened otherwise. All other
records are replaced. A delete removes the record.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.formats.avro.schema import safe_schema
from pyhudi_core.metadata_table import names, value_types
from pyhudi_core.metadata_table.record_schema import FILES_FIELD, STATS_FIELD, VALUE_TYPE
from pyhudi_core.metadata_table.slices import Arrival

Record = Mapping[str, Any]


def records(arrivals: Iterable[Arrival], wanted: frozenset[str] | None = None) -> dict[str, Record]:
    """Return the merged record of each key. ``wanted`` limits the deletes that are remembered; None for all."""
    found: dict[str, Record] = {}
    for arrival in arrivals:
        if arrival.entries is None:
            for key in arrival.deleted.to_pylist():
                found.pop(key, None)
            continue
        for key, record in decoded(arrival):
            old = found.get(key)
            found[key] = record if old is None else combine(old, record)
    return {key: record for key, record in found.items() if wanted is None or key in wanted}


def combine(old: Record, new: Record) -> Record:
    """Merge two records of one key; the second is the newer one.

    A list of files in the older record is changed in place, because it can be long and has no other user.
    """
    if new.get(FILES_FIELD) is not None:
        return {**new, FILES_FIELD: _files(old.get(FILES_FIELD) or {}, new[FILES_FIELD])}
    stats = new.get(STATS_FIELD)
    before = old.get(STATS_FIELD)
    if stats is None or before is None or stats["isDeleted"] or stats["isTightBound"] or before["isDeleted"]:
        return new
    return {**new, STATS_FIELD: _widened(before, stats)}


def _files(merged: dict[str, Any], new: Record) -> Record:
    for name, info in new.items():
        before = merged.get(name)
        if before is None:
            merged[name] = info
        elif info["isDeleted"]:
            # A delete mark stays until it meets the base file's entry; a later entry removes the mark.
            if before["isDeleted"]:
                merged[name] = info
            else:
                del merged[name]
        else:
            size = info["size"] if before["isDeleted"] else max(before["size"], info["size"])
            merged[name] = {"size": size, "isDeleted": False}
    return merged


def _widened(old: Record, new: Record) -> Record:
    counts = {
        name: (old[name] or 0) + (new[name] or 0) for name in ("valueCount", "totalSize", "totalUncompressedSize")
    }
    nulls = (old["nullCount"], new["nullCount"])
    counts["nullCount"] = None if None in nulls or min(nulls) < 0 else sum(nulls)
    kind = new.get(VALUE_TYPE)
    if kind is not None:
        old, kind = value_types.as_newer(old, new)
    low = _extreme(old["minValue"], new["minValue"], min, kind)
    high = _extreme(old["maxValue"], new["maxValue"], max, kind)
    said = {} if kind is None else {VALUE_TYPE: kind}
    return {**new, **counts, "minValue": low, "maxValue": high, **said}


def _extreme(one: Any, other: Any, choose: Any, kind: Record | None) -> Any:
    if one is None or other is None:
        return one if other is None else other
    try:
        return choose(one, other, key=lambda wrapped: _order(wrapped_value(wrapped), kind))
    except TypeError:
        # Values of a column whose type has changed cannot be compared; a NaN is useless as a bound.
        return {"value": math.nan}


def _order(value: Any, kind: Record | None) -> tuple[bool, Any]:
    """Return the sort key of Java's order of values: NaN is greater than all others, and bytes may be numbers."""
    number = value if kind is None else value_types.number_of(value, kind)
    return (isinstance(number, float) and math.isnan(number), number)


def wrapped_value(wrapped: Any) -> Any:
    """Return the value in one of the wrappers of statistics; None stays None."""
    if isinstance(wrapped, tuple):
        wrapped = wrapped[1]
    return wrapped["value"] if isinstance(wrapped, dict) else wrapped


def decoded(arrival: Arrival) -> Iterable[tuple[str, Record]]:
    """Decode records one by one, because they are few or have maps of any length."""
    assert arrival.entries is not None
    entries = arrival.entries
    view = memoryview(entries.data)
    places = zip(entries.key_list(), entries.value_starts.tolist(), entries.value_ends.tolist(), strict=True)
    try:
        parsed = parsed_schema(arrival.schema)
        for key, start, end in places:
            body = io.BytesIO(view[start:end])
            value = fastavro.schemaless_reader(
                body, parsed, None, return_record_name=True, return_record_name_override=True
            )
            if body.tell() != end - start:
                raise ValueError("it has bytes left over")
            yield key.decode("utf-8"), _checked(value)
    except (EOFError, ValueError, TypeError, LookupError, OverflowError, StopIteration, SchemaParseException) as error:
        raise CorruptAvroError(
            f"A record of the metadata table is damaged: {error!s:.200}",
            hint=names.REBUILD,
        ) from error


def _checked(value: Any) -> Record:
    """Return a record whose list of files has the expected structure. Raises ValueError, TypeError or KeyError for any other."""
    if not isinstance(value, dict):
        raise TypeError("it is no record")
    files = value.get(FILES_FIELD) or {}
    if not isinstance(files, dict):
        raise TypeError("its list of files is not a map")
    for info in files.values():
        if not isinstance(info["size"], int) or not isinstance(info["isDeleted"], bool):
            raise ValueError("its list of files has no sizes")
    return value


@lru_cache(maxsize=32)
def parsed_schema(schema: str) -> Any:
    """Return the schema as fastavro uses it, with timestamps as numbers. Raises ValueError for a dangerous one."""
    safe_schema(schema)  # refuse schemas that would make the decoder recurse or work without end
    return fastavro.parse_schema(json.loads(schema, object_hook=_with_plain_moments))


def _with_plain_moments(part: dict[str, Any]) -> dict[str, Any]:
    """Change a part of a schema so that timestamps are read as numbers, because some are out of Python's range."""
    return {name: value for name, value in part.items() if (name, value) != ("logicalType", "timestamp-micros")}
