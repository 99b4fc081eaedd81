"""Column numbers, by which Hudi's evolution on read distinguishes a renamed column from a new one.

Hudi's documentation, "Schema Evolution" (``hoodie.schema.on.read.enable``). ``ALTER TABLE`` gives every column, nested ones included, a
number that stays when the name changes. A commit stores the columns under ``latest_schema``; ``.hoodie/.schema`` holds all versions, each
named by the requested time of its commit. A file has the column names of the newest version that is not later than the file.

Invariant: a column of a file is read as the table's column with the same number, under any name. If the file does not have the number of a column,
the column is null, even if another column of the file has its name.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.printing import printable

_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
@printable
class NumberedColumn:
    """A column: number, name, and nested columns (an array has ``element``, a map ``key`` and ``value``).

    ``kind`` is Hudi's word for its type: ``record``, ``array``, ``map``, or that of a plain type, such as ``decimal(10, 2)``.
    """

    number: int
    name: str
    inside: tuple[NumberedColumn, ...] = ()
    kind: str = ""
    optional: bool = True
    doc: str | None = None


class Version(NamedTuple):
    """A version of the schema: the requested time of its commit as a number (0: before the first change), the columns, and the greatest column number
    so far.
    """

    number: int
    columns: tuple[NumberedColumn, ...]
    greatest: int = -1


@dataclass(frozen=True, slots=True)
class FileNames:
    """The names of the table's columns in a file.

    ``sources`` has None for columns that are not in the file. ``inside`` has only nested columns with other names.
    """

    sources: Mapping[str, str | None]
    inside: Mapping[str, FileNames]

    def of(self, name: str) -> str | None:
        """Return the name in the file; columns without a number, such as meta columns, have the same name."""
        return self.sources.get(name, name)

    def within(self, name: str) -> FileNames | None:
        """Return the names inside a nested column; None if they are the same in the file."""
        return self.inside.get(name)


@dataclass(frozen=True, slots=True)
@printable
class Evolution:
    """The table's current columns, and the versions of its schema, oldest first.

    Attributes:
        versions: the versions, by the requested times of their commits.
        history: the versions, by the requested times of the commits that made them; the last one is current.
        kept_at: the requested time of the newest file of ``.hoodie/.schema``; empty if there is none.
    """

    columns: tuple[NumberedColumn, ...]
    versions: tuple[Version, ...]
    history: tuple[Version, ...] = ()
    kept_at: str = ""

    @property
    def renames(self) -> bool:
        """Whether a file can have other column names than the table."""
        return any(_names(self.columns, version.columns) is not None for version in self.versions)

    @property
    def greatest(self) -> int:
        """Return the greatest column number so far."""
        known = (max(version.greatest, _greatest(version.columns)) for version in self.history)
        return max((_greatest(self.columns), *known))

    def names_at(self, requested_time: str) -> FileNames | None:
        """Return the column names in files that the commit of this time wrote; None if they are the current names."""
        place = bisect_right(self.versions, int(requested_time), key=lambda version: version.number)
        return None if place == 0 else _names(self.columns, self.versions[place - 1].columns)


def names_at(evolution: Evolution | None, requested_time: str) -> FileNames | None:
    """Return the column names in files that the commit of this time wrote; None if they are the current names, or if columns have no numbers."""
    return None if evolution is None else evolution.names_at(requested_time)


def in_file(names: FileNames | None, columns: Iterable[str]) -> list[str]:
    """Return the names of these columns in a file, without the columns that the file does not have."""
    found = columns if names is None else (names.of(column) for column in columns)
    return [name for name in found if name is not None]


def parse_versions(text: str, path: str) -> tuple[Version, ...]:
    """Parse the versions in a file of ``.hoodie/.schema``, oldest first. Raises `CorruptTimelineError`."""
    try:
        found = [_version(raw) for raw in parse_json(text)["schemas"]]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise _damaged(error, path) from error
    return tuple(sorted(found, key=lambda version: version.number))


def parse_version(text: str, path: str) -> Version:
    """Parse the version that a commit stores under ``latest_schema``. Raises `CorruptTimelineError`."""
    try:
        return _version(parse_json(text))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise _damaged(error, path) from error


def version_text(version: Version) -> str:
    """Return a version as commits store it: the text that Hudi writes."""
    return json.dumps(_version_json(version), separators=(",", ":"), ensure_ascii=False)


def versions_text(versions: Iterable[Version]) -> str:
    """Return the content of a file of ``.hoodie/.schema``, for versions in any order; the newest comes first."""
    ordered = sorted(versions, key=lambda version: version.number, reverse=True)
    return json.dumps({"schemas": [*map(_version_json, ordered)]}, separators=(",", ":"), ensure_ascii=False)


def _version(raw: Any) -> Version:
    columns = _fields(raw, 0)
    return Version(int(raw["version_id"]), columns, int(raw.get("max_column_id", _greatest(columns))))


def _version_json(version: Version) -> dict[str, Any]:
    return {
        "max_column_id": version.greatest,
        "version_id": version.number,
        "type": "record",
        "fields": [*map(_field_json, version.columns)],
    }


def _field_json(column: NumberedColumn) -> dict[str, Any]:
    doc = {} if column.doc is None else {"doc": column.doc}
    kind = {"id": column.number, "name": column.name, "optional": column.optional, "type": _kind_json(column)}
    return {**kind, **doc}


def _kind_json(column: NumberedColumn) -> Any:
    if column.kind == "record":
        return {"type": "record", "fields": [*map(_field_json, column.inside)]}
    if column.kind == "array":
        (element,) = column.inside
        values = {"element_id": element.number, "element": _kind_json(element), "element_optional": element.optional}
        return {"type": "array", **values}
    if column.kind == "map":
        key, value = column.inside
        keys = {"key_id": key.number, "key": _kind_json(key)}
        values = {"value_id": value.number, "value": _kind_json(value), "value_optional": value.optional}
        return {"type": "map", **keys, **values}
    return column.kind


def _kind(raw: Any) -> str:
    """Return Hudi's word for a type. Raises `TypeError` if the value does not describe a type."""
    found = raw["type"] if isinstance(raw, dict) else raw
    if not isinstance(found, str) or (isinstance(raw, dict) and found not in ("record", "array", "map")):
        raise TypeError(f"{found!r:.80} is no type of a column")
    return found


def _fields(raw: Any, depth: int) -> tuple[NumberedColumn, ...]:
    """Return the columns inside a type; none for a plain type, which is a text."""
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    kind = _kind(raw)
    if not isinstance(raw, dict):
        return ()
    if kind == "record":
        return tuple(_column(field, depth) for field in raw["fields"])
    return tuple(
        NumberedColumn(
            int(raw[f"{part}_id"]),
            part,
            _fields(raw[part], depth + 1),
            _kind(raw[part]),
            bool(raw.get(f"{part}_optional", False)),
        )
        for part in (("element",) if kind == "array" else ("key", "value"))
    )


def _column(field: Any, depth: int) -> NumberedColumn:
    kind, doc = field["type"], field.get("doc")
    inside = _fields(kind, depth + 1)
    optional = bool(field.get("optional", True))
    return NumberedColumn(
        int(field["id"]), str(field["name"]), inside, _kind(kind), optional, None if doc is None else str(doc)
    )


def _greatest(columns: Iterable[NumberedColumn]) -> int:
    return max((max(column.number, _greatest(column.inside)) for column in columns), default=-1)


def _names(now: tuple[NumberedColumn, ...], then: tuple[NumberedColumn, ...]) -> FileNames | None:
    known = {column.number: column for column in then}
    sources = {column.name: known[column.number].name if column.number in known else None for column in now}
    inside = {
        column.name: names
        for column in now
        if column.number in known and (names := _names(column.inside, known[column.number].inside)) is not None
    }
    old = {column.name for column in then}
    same = all(source == name or (source is None and name not in old) for name, source in sources.items())
    return None if same and not inside else FileNames(sources, inside)


def _damaged(error: Exception, path: str) -> CorruptTimelineError:
    return CorruptTimelineError(
        f"The numbers of the table's columns cannot be read: {error!s:.200}",
        path=path,
        hint="Restore the file from a copy; without the numbers, renamed columns would be read wrongly.",
    )
