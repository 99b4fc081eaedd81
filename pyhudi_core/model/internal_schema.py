"""Columns by number: how Hudi's evolution on read tells a renamed column from a new one.

Hudi's documentation, "Schema Evolution" (`hoodie.schema.on.read.enable`). ``ALTER TABLE`` gives every column, nested ones too, a number that
stays when its name changes. A commit says the columns that it made under ``latest_schema``, and ``.hoodie/.schema`` holds all versions, each named
by the requested time of the commit that made it. A file has the names of the newest version that is not later than the file.

Invariant: a column of a file is read as the table's column of the same number, whatever the two are called; a number that the file does not have
is null, also where another column had that name.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import CorruptTimelineError

_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class NumberedColumn:
    """A column: its number, its name, and what is inside of it (an array has ``element``, a map ``key`` and ``value``)."""

    number: int
    name: str
    inside: tuple[NumberedColumn, ...] = ()


Version = tuple[int, tuple[NumberedColumn, ...]]
"""A version of the schema: the requested time of its commit as a number, and the columns."""


@dataclass(frozen=True, slots=True)
class FileNames:
    """What the table's columns are called in a file. ``sources`` has None for columns that are not in it; ``inside`` only what differs."""

    sources: Mapping[str, str | None]
    inside: Mapping[str, FileNames]

    def of(self, name: str) -> str | None:
        """The name in the file; columns without a number, such as meta columns, have the same."""
        return self.sources.get(name, name)

    def within(self, name: str) -> FileNames | None:
        """The names inside of a nested column; None where they are the same."""
        return self.inside.get(name)


@dataclass(frozen=True, slots=True)
class Evolution:
    """The columns of a table's state, and the versions of its schema, oldest first."""

    columns: tuple[NumberedColumn, ...]
    versions: tuple[Version, ...]

    @property
    def renames(self) -> bool:
        """Whether any file can have other names than the table."""
        return any(_names(self.columns, columns) is not None for _, columns in self.versions)

    def names_at(self, requested_time: str) -> FileNames | None:
        """What columns are called in files that the commit of this time wrote; None if that is as they are called now."""
        place = bisect_right(self.versions, int(requested_time), key=lambda version: version[0])
        return None if place == 0 else _names(self.columns, self.versions[place - 1][1])


def in_file(names: FileNames | None, columns: Iterable[str]) -> list[str]:
    """What these columns of the table are called in a file; those that it does not have are left out."""
    found = columns if names is None else (names.of(column) for column in columns)
    return [name for name in found if name is not None]


def parse_versions(text: str, path: str) -> tuple[Version, ...]:
    """The versions in a file of ``.hoodie/.schema``, oldest first. Raises `CorruptTimelineError`."""
    try:
        found = [(int(raw["version_id"]), _fields(raw, 0)) for raw in json.loads(text)["schemas"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(error, path) from error
    return tuple(sorted(found, key=lambda version: version[0]))


def parse_version(text: str, path: str) -> Version:
    """The version that a commit says under ``latest_schema``. Raises `CorruptTimelineError`."""
    try:
        raw = json.loads(text)
        return int(raw["version_id"]), _fields(raw, 0)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(error, path) from error


def _fields(raw: Any, depth: int) -> tuple[NumberedColumn, ...]:
    """The columns inside of a type; none inside of a plain one, which is a text."""
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    kind = raw["type"] if isinstance(raw, dict) else None
    if kind == "record":
        return tuple(
            NumberedColumn(int(field["id"]), str(field["name"]), _fields(field["type"], depth + 1))
            for field in raw["fields"]
        )
    parts = {"array": ("element",), "map": ("key", "value")}.get(str(kind), ())
    return tuple(NumberedColumn(int(raw[f"{part}_id"]), part, _fields(raw[part], depth + 1)) for part in parts)


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
        hint="Restore the file from a copy; without them renamed columns would be read wrong.",
    )
