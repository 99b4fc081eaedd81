"""The tables that a statement names: the table or data that the caller gave for a name, or a path in the statement itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import sqlglot.expressions as exp

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.opening import open_table
from pyhudi_core.statements.text import not_understood, place_of
from pyhudi_core.storage.paths import Place
from pyhudi_core.table import HudiTable

_PATHS = ("hudi", "pyhudi")
"""The words that a statement may have before a path: hudi.`/lake/orders`."""


@dataclass(frozen=True, slots=True)
class Names:
    """The meanings of the names in a statement.

    ``given``: for each name a table of Hudi, the location of a table, or data. A name may have a dot, as in ``shop.orders``. ``whole``: whether
    ``given`` has all tables of a lake, so that no other tables exist.
    """

    given: Mapping[str, object]
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    whole: bool = False

    def table(self, name: Any) -> HudiTable:
        """Return the table of Hudi that a name of the statement means. Raises `InvalidOptionError` for an unknown name, and for data."""
        found = self.source(name)
        if not isinstance(found, HudiTable):
            raise InvalidOptionError(
                f"{shown(name)}{_at(name)} is data in this process ({type(found).__name__}), not a table of Hudi",
                hint="Write into a table of Hudi: tables={'orders': hudi.open_table(location)}, or its location. Nothing was changed.",
            )
        return found

    def source(self, name: Any) -> object:
        """Return the table of Hudi, or the data, for a name. If the name has a location, the table at the location is opened."""
        place = self.place(name)
        if is_place(place):
            return open_table(place, self.storage_options, self.options)
        return place

    def place(self, name: Any) -> object:
        """Return the value that the caller gave for a name. A location is not opened."""
        parts = parts_of(name)
        key = self._key(parts)
        if key is not None:
            return self.given[key]
        if is_path(parts):
            return parts[1]
        known = ", ".join(map(str, self.given)) or "none"
        raise InvalidOptionError(
            f"The statement names the table {shown(name)}{_at(name)}, which is not known",
            hint=f"Give it: tables={{{shown(name)}: table or location}}, or write hudi.`/path/of/the/table`. Known: {known}. Nothing was changed.",
        )

    def knows(self, name: Any) -> bool:
        """Say whether the caller gave a value for a name."""
        return self._key(parts_of(name)) is not None

    def _key(self, parts: tuple[str, ...]) -> str | None:
        name = ".".join(parts)
        if name in self.given:
            return name
        alike = [key for key in self.given if key.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None


def is_place(given: object) -> TypeGuard[Place]:
    """Say whether the value that the caller gave for a name is a location."""
    return isinstance(given, str) or hasattr(given, "__fspath__")


def is_path(parts: tuple[str, ...]) -> bool:
    """Say whether a name is a path: hudi.`/lake/orders`."""
    return len(parts) == 2 and parts[0].lower() in _PATHS


def parts_of(name: Any) -> tuple[str, ...]:
    """Return the parts of a name that is a node of sqlglot. A tuple is returned unchanged."""
    if isinstance(name, exp.Schema):
        name = name.this
    if isinstance(name, tuple):
        return name
    if not isinstance(name, exp.Table) or not isinstance(name.this, exp.Identifier):
        raise not_understood(f"{name.sql(dialect='spark')[:60]!r}{place_of(name)} is no name of a table")
    return tuple(part.name for part in name.parts)


def shown(name: Any) -> str:
    """Return a name for messages."""
    return repr(".".join(parts_of(name)))


def _at(name: Any) -> str:
    return "" if isinstance(name, tuple) else place_of(name)
