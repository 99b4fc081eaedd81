"""Work with the tables of a lake by name. A lake is a folder or bucket with tables in its folders, without a server; or a database of a catalog
(``thrift://metastore:9083/sales``, ``glue://sales``).

`tables_below` finds tables for `Lake.list`, `upkeep`, the command, Dagster and Airflow. The name of a table is its folder below the lake
(``sales/orders``), or its name in the database. `Lake.rename` renames the folder in one step, under the table's lock. A writer that began earlier
loses its reservation, so its commit is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.errors import (
    InvalidOptionError,
    PreconditionFailedError,
    TableError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
)
from pyhudi_core.file_groups.listing import list_folders
from pyhudi_core.lazy import lazy
from pyhudi_core.lock.base import follow_folder
from pyhudi_core.model.file_names import PARTITION_METAFILE
from pyhudi_core.model.masking import takes_options
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.opening import create_table, drop_of, drop_table, open_table, table_exists
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.no_table import no_table, refuse_file, refuse_inside
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.own_part import HOODIE, is_table
from pyhudi_core.storage.paths import LAKE_DEPTH, Place, is_catalog_address, name_in_lake, options_in_lake
from pyhudi_core.table import HudiTable
from pyhudi_core.transaction import heartbeat
from pyhudi_core.transaction.layout import HEARTBEATS
from pyhudi_core.transaction.locking import holding_lock

if TYPE_CHECKING:
    from pyhudi_core.catalog import addresses
    from pyhudi_core.repairs.drop import DroppedTable, TableDropPlan
else:
    addresses = lazy("pyhudi_core.catalog.addresses")


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def lake(
    location: Place, storage_options: Mapping[str, str] | None = None, options: Mapping[str, object] | None = None
) -> Lake:
    """Return the lake of a folder or bucket, or of a database of a catalog. Reads nothing; the folder need not exist.

    Args:
        location: the folder with the tables (``/lake``, ``s3://bucket/lake``); or the database (``thrift://metastore:9083/sales``, ``glue://sales``).
        storage_options, options: options for every table, as in `open_table`.

    Raises `ConfigError` if an argument is not valid.
    """
    WriteOptions.parse(options or {})
    if is_catalog_address(location):
        address = addresses.CatalogAddress.parse(str(location), storage_options, options, system_runtime())
        if address.name:
            raise InvalidOptionError(
                f"{address.text} is a table of a catalog, not a database with tables",
                hint="Open it with open_table, or omit the name of the table.",
            )
        place = address.text
    else:
        place = open_storage(location, storage_options).location.rstrip("/") or "/"
    return Lake(place, dict(storage_options or {}), dict(options or {}))


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class Lake:
    """The tables in a folder or bucket, or in a database of a catalog; made by `lake`. A table's name is its folder below the lake, such as
    ``orders`` or ``sales/orders``, or its name in the database.

    ``options`` of a call are added to the lake's options.
    """

    location: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"Lake: {self.location}"

    def list(self) -> tuple[str, ...]:
        """Return the names of all tables, sorted. Lists the folders 6 levels deep, or asks the catalog.

        Raises `InvalidOptionError` if the location is a table or a file, and `CatalogError` if the catalog does not answer.
        """
        found = tables_below(self.location, self.storage_options, self.options)
        if found == [self.location]:
            raise InvalidOptionError(
                f"{self.location} is a table, not a folder with tables",
                hint="Open it with open_table, or give the folder above it.",
            )
        if not found and not is_catalog_address(self.location):
            refuse_file(open_storage(self.location, self.storage_options))
        return tuple(one.removeprefix(self.location).strip("/") for one in found)

    def location_of(self, name: str) -> str:
        """Return the location of a table, which need not exist. Raises `InvalidOptionError` if the name is not valid."""
        return f"{self.location.rstrip('/')}/{name_in_lake(name)}"

    def exists(self, name: str) -> bool:
        """Say whether there is a table of this name."""
        return table_exists(self.location_of(name), self.storage_options, self.options)

    def __contains__(self, name: str) -> bool:
        return self.exists(name)

    def table(self, name: str, options: Mapping[str, object] | None = None) -> HudiTable:
        """Open a table. Raises as `open_table`: `TableNotFoundError` if there is no table of this name."""
        return open_table(self.location_of(name), self._storage(name), {**self.options, **(options or {})})

    def _storage(self, name: str) -> Mapping[str, str]:
        return options_in_lake(self.storage_options, self.location, name)

    def create(
        self,
        name: str,
        schema: Any,
        record_key: str | Sequence[str] | None = None,
        *,
        options: Mapping[str, object] | None = None,
        **arguments: Any,
    ) -> HudiTable:
        """Create a table. After the name, the arguments are those of `create_table` after the location; the errors are the same."""
        own, where = {**self.options, **(options or {})}, self.location_of(name)
        return create_table(where, schema, record_key, options=own, storage_options=self._storage(name), **arguments)

    def create_or_open(
        self, name: str, schema: Any, record_key: str | Sequence[str] | None = None, **arguments: Any
    ) -> HudiTable:
        """Open a table, or create it if no table has this name. The arguments are those of `create`.

        Raises `TableExistsError` for a table with another key, partition, ordering, type or rule than the given one, or without one of the columns.
        """
        return self.create(name, schema, record_key, exist_ok=True, **arguments)

    def drop(self, name: str, *, missing_ok: bool = False, names_only: bool = False) -> DroppedTable:
        """Delete a table with its files and its names in the catalog. This cannot be undone; `drop_plan` shows what a drop would delete.

        ``names_only``: delete only the names in the catalog, and no files.

        Raises `TableNotFoundError` if there is no table of this name, unless ``missing_ok``; and `DropRefusedError` while the table is in use, or if
        the catalog's location has no table.
        """
        return drop_table(self.location_of(name), self.storage_options, self.options, missing_ok, names_only)

    def drop_plan(self, name: str) -> TableDropPlan:
        """Return what `drop` would delete now, and the users of the table. Changes nothing. Raises `TableNotFoundError`."""
        return drop_of(self.location_of(name), self.storage_options, self.options).plan()

    def rename(self, name: str, new: str) -> HudiTable:
        """Rename a table in one step, and return it. Its rows, history and options do not change. Works only for lakes on a disk.

        Writers that began before the rename get an error and commit nothing. First stop writers of Hudi on Spark. The property ``hoodie.table.name``
        and catalog entries with the old location do not change.

        Raises, and changes nothing: `UnsupportedTableError` for a lake in an object store or in memory; `TableExistsError` if the new folder exists;
        `TableError` if a process is writing, or if the folder contains other tables.
        """
        if is_catalog_address(self.location):
            raise UnsupportedTableError(
                "A table of a catalog is not renamed here",
                table=self.location_of(name),
                hint=f"Sync it under its new name: table.catalog.sync(table={new!r}). Then take the older names out of the catalog.",
            )
        storage, old, target = open_storage(self.location, self.storage_options), name_in_lake(name), name_in_lake(new)
        if not storage.capabilities.renames_folders:
            raise UnsupportedTableError(
                "A table can be renamed only on a disk: this storage does not rename a folder in one step",
                table=self.location_of(name),
                hint=f"Make {new!r} with create_table, and write the rows of {name!r} into it; the history stays behind.",
            )
        opened = OpenedTable(
            open_storage(self.location_of(name), self.storage_options), system_runtime(), dict(self.options)
        )
        context = opened.context()
        self._refuse_others(storage, old, target)
        target_storage = open_storage(self.location_of(new), self.storage_options)
        refuse_inside(target_storage, context.runtime.executor, context.storage.location)
        with holding_lock(context, f"rename to {new}") as holding:
            _refuse_writers(context)
            try:
                storage.rename_folder(old, target)
            except PreconditionFailedError as error:
                raise _exists(self.location_of(new)) from error
            if holding.session is not None:
                follow_folder(holding.session, open_storage(self.location_of(new), self.storage_options))
        return self.table(new)

    def _refuse_others(self, storage: Storage, old: str, target: str) -> None:
        """Refuse a table whose folder contains others, and a new name that is taken or lies inside of a table."""
        names = self.list()
        inside = [one for one in names if one.startswith(f"{old}/")]
        if inside:
            raise TableError(
                f"Other tables are in the folder of the table, such as {inside[0]}",
                table=self.location_of(old),
                hint="Rename these first. Nothing was changed.",
            )
        around = [one for one in names if target.startswith(f"{one}/")]
        if around:
            raise InvalidOptionError(
                f"The new name {target!r} is inside of the table {around[0]!r}",
                hint="Choose a name outside of it. Nothing was changed.",
            )
        if storage.head(target) is not None or any(storage.list_names(target)):
            raise _exists(self.location_of(target))


def _exists(location: str) -> TableExistsError:
    return TableExistsError(
        "There is something at the new name already", table=location, hint="Choose another name. Nothing was changed."
    )


def _refuse_writers(context: TableContext) -> None:
    """Raise `TableError` if a process has reserved an instant and is not known to be dead."""
    for info in context.root.list_folder(HEARTBEATS).objects:
        if not heartbeat.is_left(context, info.path, ask_storage=True):
            raise TableError(
                f"A process is writing: the write {info.path.rpartition('/')[2]} lives",
                table=context.table,
                hint="Rename when the write has ended. Nothing was changed.",
            )


def no_tables(location: str, storage_options: Mapping[str, str] | None = None) -> TableNotFoundError:
    """Return the error for a location where `tables_below` finds no table."""
    if is_catalog_address(location):
        hint = "A sync brings a table into a catalog: table.catalog.sync(), or pyhudi catalog-sync."
        return TableNotFoundError("The database has no Hudi table", table=location, hint=hint)
    return no_table(open_storage(location, storage_options))


@takes_options
def tables_below(
    location: str, storage_options: Mapping[str, str] | None = None, options: Mapping[str, object] | None = None
) -> list[str]:
    """Return the locations of the tables at or below a folder, sorted; searches `LAKE_DEPTH` levels. For a table, returns only its location. For a
    database of a catalog, returns addresses; ``options`` are the options of the catalog.

    A table may be in the folder of a table that was made later (``sales/eu``, then ``sales``), but not in one of its partitions.
    """
    if is_catalog_address(location):
        address = addresses.CatalogAddress.parse(location, storage_options, options, system_runtime())
        return [location] if address.name else [f"{address.text}/{name}" for name in addresses.names_in(address)]
    storage, executor = open_storage(location, storage_options), system_runtime().executor
    found: list[str] = []
    if HOODIE in storage.location.split("/"):
        return found  # a metadata table is a part of its table
    level = [""]
    for _ in range(LAKE_DEPTH + 1):
        following: list[str] = []
        for path, folder in zip(level, list_folders(storage, executor, level), strict=True):
            table = is_table(folder.folders)
            if table:
                found.append(f"{storage.location.rstrip('/')}/{path}".rstrip("/"))
                if not path:
                    return found
            # A table without partition columns has the metafile of a partition in its own folder.
            if table or not any(info.path.rpartition("/")[2].startswith(PARTITION_METAFILE) for info in folder.objects):
                following += [name for name in folder.folders if not name.rpartition("/")[2].startswith(".")]
        level = following
    return sorted(found)
