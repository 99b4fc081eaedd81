"""Tables by their names in a catalog: the address ``thrift://host:9083/database/table`` of a Hive Metastore, and ``glue://database/table``.

Without the table, such an address means a lake: all Hudi tables of the database. `open_table` and similar functions call `found` to locate a table,
so they all accept such addresses. The catalog only gives the location of a table: its rows, columns and options come from its folder.

A merge-on-read table has several names in a catalog. A lake lists the shortest name; all of the names open the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from pyhudi_core.catalog import opening
from pyhudi_core.catalog.objects import Catalog, CatalogTable, ChangedMeanwhile
from pyhudi_core.catalog.places import openable, place_of, same_place
from pyhudi_core.catalog.wanted import is_hudi
from pyhudi_core.errors import CatalogError, InvalidOptionError, TableNotFoundError, UnsupportedTableError
from pyhudi_core.lock.clients.hive_metastore import servers_of
from pyhudi_core.model.masking import masked_text
from pyhudi_core.model.properties import DROPPING
from pyhudi_core.naming import nearest
from pyhudi_core.options import WriteOptions
from pyhudi_core.options.catalog import GLUE, HMS, CatalogOptions
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import StorageSpec

_SCHEMES = {"thrift": HMS, "glue": GLUE}
_FORM = "Write thrift://host:9083/database/table or glue://database/table; without the table it is the lake of the database's tables."
_HIVE = "hoodie.datasource.hive_sync."
_SUFFIXES = ("_ro", "_rt")
_TRIES = 5
_T = TypeVar("_T")


@dataclass(frozen=True)
class CatalogAddress:
    """A database in a catalog, and usually a table in the database.

    Attributes:
        text: the address, as users wrote it.
        database, name: their names in lower case, as catalogs have them; ``name`` is empty for a lake.
        keys: the options by which a sync finds the same catalog.
        runtime: the runtime for requests to the catalog.
        given, storage_options: the caller's options.
    """

    text: str
    database: str
    name: str
    keys: Mapping[str, str]
    runtime: Runtime = field(repr=False)
    given: Mapping[str, object] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(
        cls,
        text: str,
        storage_options: Mapping[str, str] | None,
        options: Mapping[str, object] | None,
        runtime: Runtime,
    ) -> CatalogAddress:
        """Parse an address. Raises `InvalidOptionError`, which does not show a password."""
        scheme, _, rest = text.partition("://")
        mode = _SCHEMES[scheme.lower()]
        hosts, _, inside = rest.rstrip("/").partition("/") if mode == HMS else ("", "", rest.rstrip("/"))
        parts = inside.split("/")
        if not all(parts) or len(parts) > 2 or (mode == HMS and not hosts):
            raise InvalidOptionError(f"{masked_text(text)!r:.200} names no database of a catalog", hint=_FORM)
        uris = ",".join(f"thrift://{host}" for host in hosts.split(","))
        keys = {f"{_HIVE}mode": mode, f"{_HIVE}database": parts[0].lower()}
        if mode == HMS:
            servers_of(uris, f"The address {masked_text(text, 100)}")
            keys[f"{_HIVE}metastore.uris"] = uris
        name = parts[1].lower() if len(parts) == 2 else ""
        return cls(text.rstrip("/"), parts[0].lower(), name, keys, runtime, options or {}, storage_options or {})

    @cached_property
    def catalog_options(self) -> CatalogOptions:
        """The options of the catalog. Raises `ConfigError`."""
        return WriteOptions.parse(
            {**self.given, **self.keys, **({f"{_HIVE}table": self.name} if self.name else {})}
        ).catalog

    def ask(self, what: Callable[[Catalog], _T]) -> _T:
        """Send a request to the catalog. The database must exist. Raises `CatalogError`."""
        options = self.catalog_options
        with opening.opened(options, StorageSpec("glue://", self.storage_options), self.runtime) as catalog:
            if not catalog.has_database(self.database):
                raise CatalogError(
                    f"{catalog.place} has no database {self.database}",
                    table=masked_text(self.text),
                    hint="Create it there, or correct the address.",
                )
            return what(catalog)

    def options_of(self, name: str) -> dict[str, object]:
        """Return the options of the catalog's table ``name``, so that its sync uses the same catalog."""
        return {**self.given, **self.keys, f"{_HIVE}table": name}


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A Hudi table in a catalog.

    Attributes:
        location: its folder.
        name: the name in the catalog from which a sync derives all names of the table.
        entries: all its names in the catalog.
        place: the catalog, for messages.
    """

    location: str
    name: str
    entries: tuple[CatalogTable, ...]
    place: str

    @property
    def dropping(self) -> bool:
        """Whether a drop of the table has begun; see `mark`."""
        return all(DROPPING in one.parameters for one in self.entries)


def found(address: CatalogAddress) -> FoundTable | None:
    """Return the table at an address; None if the catalog has none of this name.

    Raises `UnsupportedTableError` for a table that is not Hudi's, `InvalidOptionError` for the address of a lake, and `CatalogError`.
    """
    if not address.name:
        raise InvalidOptionError(
            f"{address.text} is a database of a catalog, not a table", hint=f"{_FORM} hudi.lake takes it."
        )

    def look(catalog: Catalog) -> FoundTable | None:
        one = catalog.table(address.database, address.name)
        if one is None:
            return None
        if not is_hudi(one):
            raise UnsupportedTableError(
                f"{catalog.place} has the table {one.full_name}, and it is not a Hudi table",
                table=address.text,
                hint="Choose another name. Nothing was changed.",
            )
        stem = next((one.name.removesuffix(end) for end in _SUFFIXES if one.name.endswith(end)), one.name)
        names = dict.fromkeys((one.name, stem, *(f"{stem}{end}" for end in _SUFFIXES)))
        same = [
            other
            for name in names
            if (other := catalog.table(address.database, name)) is not None and _same(one, other)
        ]
        name = stem if len(same) > 1 else one.name
        return FoundTable(openable(one.location), name, tuple(same), catalog.place)

    return address.ask(look)


def found_at(address: CatalogAddress, location: str) -> FoundTable | None:
    """Return the table at an address if it is the table in this folder; None if the catalog no longer has a name of it. Raises `CatalogError`."""
    try:
        one = found(address)
    except UnsupportedTableError:  # another table has the name now
        return None
    return one if one is not None and same_place(one.location, location) else None


def needed(address: CatalogAddress) -> FoundTable:
    """Return the table at an address. Raises `TableNotFoundError`, and as `found`."""
    one = found(address)
    if one is None:
        near = nearest(address.name, names_in(replace(address, name="")))
        raise TableNotFoundError(
            f"The catalog has no table {address.database}.{address.name}",
            table=address.text,
            hint=f"Did you mean {near!r}?" if near else "hudi.lake(...).list() shows the Hudi tables of the database.",
        )
    return one


def names_in(address: CatalogAddress) -> tuple[str, ...]:
    """Return the names of the Hudi tables of a database, sorted, one name for each table. Raises `CatalogError`."""
    tables = address.ask(lambda catalog: [one for one in catalog.tables(address.database) if is_hudi(one)])
    shortest: dict[str, str] = {}
    for one in sorted(tables, key=lambda one: (len(one.name), one.name)):
        shortest.setdefault(place_of(one.location), one.name)
    return tuple(sorted(shortest.values()))


def new_location(address: CatalogAddress) -> str:
    """Return the location for a new table of this name: a folder in the database's folder. Raises `CatalogError` if the database has none."""

    def ask(catalog: Catalog) -> str:
        folder = catalog.folder_of(address.database)
        if not folder:
            raise CatalogError(
                f"The database {address.database} of {catalog.place} says no location for new tables",
                table=address.text,
                hint="Give the database one; or create the table by its location, and bring it into the catalog: table.catalog.sync().",
            )
        return f"{openable(folder)}/{address.name}"

    return address.ask(ask)


def remove(address: CatalogAddress, table: FoundTable) -> None:
    """Remove all names of a table from the catalog. The files of the table stay."""
    _for_each(address, table, lambda catalog, one: catalog.remove(one))


def mark(address: CatalogAddress, table: FoundTable, dropping: bool = True) -> None:
    """Mark all names of a table. The mark means that a drop has begun, so the names may be removed when the table is gone. If ``dropping`` is false,
    remove the marks.
    """

    def change(catalog: Catalog, one: CatalogTable) -> None:
        kept = {name: text for name, text in one.parameters.items() if name != DROPPING}
        parameters = {**kept, DROPPING: "true"} if dropping else kept
        if parameters != one.parameters:
            catalog.alter(replace(one, parameters=parameters), cascade=False)

    _for_each(address, table, change)


def _for_each(address: CatalogAddress, table: FoundTable, do: Callable[[Catalog, CatalogTable], None]) -> None:
    """Call a function for each name of a table that the catalog still has."""

    def ask(catalog: Catalog) -> None:
        for one in table.entries:
            if not any(done(catalog, one) for _ in range(_TRIES)):
                raise CatalogError(
                    f"Other processes changed the table {one.full_name} in {catalog.place} {_TRIES} times meanwhile",
                    table=masked_text(address.text),
                    hint="Do it again.",
                )

    def done(catalog: Catalog, one: CatalogTable) -> bool:
        now = catalog.table(one.database, one.name)
        if now is not None and _same(one, now):
            try:
                do(catalog, now)
            except ChangedMeanwhile:
                return False
        return True

    address.ask(ask)


def _same(one: CatalogTable, other: CatalogTable) -> bool:
    return is_hudi(other) and same_place(other.location, one.location)
