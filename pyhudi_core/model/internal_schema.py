"""Column numbers, which let Hudi's evolution on read tell a renamed column from a new one.

Hudi's documentation, "Schema Evolution" (``hoodie.schema.on.read.enable``). ``ALTER TABLE`` gives every column, nested ones included, a
number that stays when the name changes. A commit stores the columns under ``latest_schema``; ``.hoodie/.schema`` holds all versions, each
named by the requested time of its commit. A file has the column names of the newest version that is not later than the file.

Invariant: a column of a file is read as the table's column of the same number, whatever their names. A column whose number is not in
the file is null, even if another column of the file has its name.
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
    """A column: number, name, and nested columns (an array has ``element``, a map ``key`` and ``value``)."""

    number: int
    name: str
    inside: tuple[NumberedColumn, ...] = ()


Version = tuple[int, tuple[NumberedColumn, ...]]
"""A version of the schema: the requested time of its commit as a number, and the columns."""


@dataclass(frozen=True, slots=True)
class FileNames:
    """The table's columns by their names in a file. ``sources`` has None for columns that are not in the file;
    ``inside`` has only differences.
    """

    sources: Mapping[str, str | None]
    inside: Mapping[str, FileNames]

    def of(self, name: str) -> str | None:
        """Return the name in the file; columns without a number, such as meta columns, keep their name."""
        return self.sources.get(name, name)

    def within(self, name: str) -> FileNames | None:
        """Return the names inside a nested column; None if they are the same in the file."""
        return self.inside.get(name)


@dataclass(frozen=True, slots=True)
class Evolution:
    """The table's current columns, and the versions of its schema, oldest first."""

    columns: tuple[NumberedColumn, ...]
    versions: tuple[Version, ...]

    @property
    def renames(self) -> bool:
        """Whether a file can have other column names than the table."""
        return any(_names(self.columns, columns) is not None for _, columns in self.versions)

    def names_at(self, requested_time: str) -> FileNames | None:
        """Return the column names in files written by the commit of this time; None if they are the current ones."""
        place = bisect_right(self.versions, int(requested_time), key=lambda version: version[0])
        return None if place == 0 else _names(self.columns, self.versions[place - 1][1])


def in_file(names: FileNames | None, columns: Iterable[str]) -> list[str]:
    """Return the names of these columns in a file, without the columns that the file does not have."""
    found = columns if names is None else (names.of(column) for column in columns)
    return [name for name in found if name is not None]


def parse_versions(text: str, path: str) -> tuple[Version, ...]:
    """Parse the versions in a file of ``.hoodie/.schema``, oldest first. Raises `CorruptTimelineError`."""
    try:
        found = [(int(raw["version_id"]), _fields(raw, 0)) for raw in json.loads(text)["schemas"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(error, path) from error
    return tuple(sorted(found, key=lambda version: version[0]))


def parse_version(text: str, path: str) -> Version:
    """Parse the version that a commit stores under ``latest_schema``. Raises `CorruptTimelineError`."""
    try:
        raw = json.loads(text)
        return int(raw["version_id"]), _fields(raw, 0)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(error, path) from error


def _fields(raw: Any, depth: int) -> tuple[NumberedColumn, ...]:
    """Return the columns inside a type; none for a plain type, which is a text."""
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
        hint="Restore the file from a copy; without the numbers, renamed columns would be read wrongly.",
    )
