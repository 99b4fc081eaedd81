"""The hook: a connection of type ``hudi`` names a warehouse of tables, and has the options to open them.

A connection has the warehouse as its host, an S3 key as login and password, and in its extra ``storage_options`` and ``options``, each as an object
or as JSON text. All values that are secrets are masked in Airflow's logs. Opening a table starts no JVM.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import pyhudi as hudi
from pyhudi.errors import HudiError, InvalidOptionError, TableExistsError, TableNotFoundError
from pyhudi_airflow.airflow_names import AirflowNotFoundException, BaseHook, connection_in_loop, mask_secret
from pyhudi_airflow.provider import CONNECTION_TYPE, form
from pyhudi_core import orchestration
from pyhudi_core.orchestration import TableSettings

DEFAULT_CONNECTION = "hudi_default"
_SHOWN = 10


class HudiHook(BaseHook):
    """Opens tables of the warehouse of a connection of type ``hudi``.

    A table is named by its folder in the warehouse (``orders``, ``sales/orders``) or by a location (``/lake/orders``, ``s3://bucket/orders``). A
    location needs no connection: if the default connection does not exist, the table is opened without storage options.
    """

    conn_name_attr: ClassVar[str] = "hudi_conn_id"
    default_conn_name: ClassVar[str] = DEFAULT_CONNECTION
    conn_type: ClassVar[str] = CONNECTION_TYPE
    hook_name: ClassVar[str] = "Apache Hudi"

    def __init__(self, hudi_conn_id: str = DEFAULT_CONNECTION, **more: Any) -> None:
        super().__init__(**more)
        self.hudi_conn_id = hudi_conn_id
        self.absent: AirflowNotFoundException | None = None

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the connection form, for releases of Airflow that do not read it from the provider's description.

        In this form, options are entered into the extra, as JSON.
        """
        return {name.replace("-", "_"): value for name, value in form().items()} | {"hidden_fields": ["port", "schema"]}

    def get_conn(self) -> HudiHook:
        """Return the hook itself: there is no session to open."""
        return self

    @cached_property
    def settings(self) -> ConnectionSettings:
        """The settings of the connection. Raises `InvalidOptionError` for a connection of another type, and for an extra that is not JSON."""
        if self.absent is not None:
            raise self.absent
        return ConnectionSettings.of(self.get_connection(self.hudi_conn_id), self.hudi_conn_id)

    def location(self, table: str) -> str:
        """Return the location of a table, given its folder or its location."""
        self.refuse_no_name(table)
        if _is_location(table):
            return table.rstrip("/")
        return self.settings.lake.location_of(table)

    @staticmethod
    def refuse_no_name(table: object) -> None:
        """Raise `InvalidOptionError` for a value that is neither the name of a table in a warehouse nor a location."""
        if not isinstance(table, str) or not table.strip("/ "):
            raise InvalidOptionError(
                f"{table!r} names no table",
                hint="Give a name such as 'sales/orders', or a location such as '/lake/orders'.",
            )
        if not _is_location(table):
            orchestration.name_in_lake(table)

    def table(self, name: str, options: Mapping[str, object] | None = None) -> hudi.HudiTable:
        """Open a table. ``options`` are added to the connection's options. Raises `TableNotFoundError` if the table does not exist yet.

        If the table is only read, a log line lists the possible operations.
        """
        location, settings = self.location(name), self._settings_for(name)
        table = hudi.open_table(
            location, storage_options=settings.storage_options, options={**settings.options, **(options or {})}
        )
        orchestration.say_what_works(table)
        return table

    def table_or_new(self, name: str, schema: Any, **settings: Any) -> hudi.HudiTable:
        """Open a table, or create it with this schema (pyarrow or Spark) if it does not exist.

        ``settings``: ``record_key``, ``partition_by``, ``ordering``, ``table_type``, ``options``. Raises `TableMismatchError` if the settings of an
        existing table differ from the given settings.
        """
        return self.of_settings(name, settings_of(f"The table {name}", **settings), schema, "insert", [])

    def of_settings(
        self, name: str, settings: TableSettings, schema: Any, operation: str, new: list[hudi.HudiTable]
    ) -> hudi.HudiTable:
        """Open or create a table as `table_or_new` does, with checked settings, for a write with this operation. Add a created table to ``new``."""
        opened = orchestration.options_for_open(dict(settings.options))
        try:
            return self._matching(name, settings, opened)
        except TableNotFoundError:
            pass
        known = self._settings_for(name)
        try:
            new.append(settings.create(self.location(name), schema, operation, known.options, known.storage_options))
        except TableExistsError:  # another task created it first
            return self._matching(name, settings, opened)
        return new[-1]

    def _matching(self, name: str, settings: TableSettings, options: Mapping[str, object]) -> hudi.HudiTable:
        table = self.table(name, options)
        orchestration.refuse_mismatch(table, settings, "task")
        return table

    def tables(self) -> list[str]:
        """Return the names of the tables in the warehouse, sorted."""
        return list(self.settings.lake.list())

    def test_connection(self) -> tuple[bool, str]:
        """List the tables of the warehouse, for the button "Test" of the form."""
        try:
            found = self.tables()
        except (HudiError, AirflowNotFoundException) as error:
            return False, str(error)
        if not found:
            return True, f"{self.settings.warehouse} can be read, and has no table yet"
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return True, f"Tables in {self.settings.warehouse}: {', '.join(found[:_SHOWN])}{more}"

    def _settings_for(self, name: str) -> ConnectionSettings:
        """Return the settings of the connection. For a location, return empty settings if the default connection does not exist."""
        try:
            return self.settings
        except AirflowNotFoundException:
            if _is_location(name) and self.hudi_conn_id == DEFAULT_CONNECTION:
                return ConnectionSettings("", {}, {})
            raise


class ConnectionSettings:
    """The content of a connection: the warehouse, and the options of storage and tables. ``repr`` shows no options, because some are secret."""

    def __init__(self, warehouse: str, storage_options: dict[str, str], options: dict[str, str]) -> None:
        self.warehouse = warehouse
        self.storage_options = storage_options
        self.options = options

    def __repr__(self) -> str:
        return f"Settings of the warehouse {orchestration.masked_text(self.warehouse)}"

    @property
    def lake(self) -> hudi.Lake:
        """The tables of the warehouse by their names."""
        return hudi.lake(self.warehouse, self.storage_options, self.options)

    @classmethod
    def of(cls, connection: Any, conn_id: str) -> ConnectionSettings:
        """Read a connection, and register its secrets, so that no log shows them."""
        if connection.conn_type != CONNECTION_TYPE:
            raise InvalidOptionError(
                f"The connection {conn_id!r} has the type {connection.conn_type!r}, not 'hudi'",
                hint=f"Choose the type 'Apache Hudi' in its form, or set hudi_conn_id to another connection. {_example(conn_id)}",
            )
        extra = connection.extra_dejson
        unknown = sorted(set(extra) - {"storage_options", "options"})
        if unknown:
            raise InvalidOptionError(
                f"The extra of the connection {conn_id!r} has {unknown[0]!r}, which means nothing",
                hint="It may have storage_options and options. Options of S3 belong into storage_options, hoodie.* into options.",
            )
        storage = _mapping(extra.get("storage_options"), "storage_options", conn_id)
        if connection.login:
            storage.setdefault("access_key_id", connection.login)
            storage.setdefault("secret_access_key", connection.password or "")
        options = _mapping(extra.get("options"), "options", conn_id)
        mask_secrets(storage)
        mask_secrets(options)
        warehouse = str(connection.host or "")
        if not warehouse:
            raise InvalidOptionError(
                f"The connection {conn_id!r} names no warehouse",
                hint=f"Fill in its field Warehouse. {_example(conn_id)}",
            )
        return cls(warehouse.rstrip("/") or "/", storage, options)


def mask_secrets(options: Mapping[str, object]) -> None:
    """Register secret values of options, so that no log shows them."""
    for name, value in options.items():
        if value and orchestration.holds_secret(name, str(value)):
            mask_secret(str(value))


async def hook_in_loop(conn_id: str) -> HudiHook:
    """Return a hook for a trigger. The connection is fetched here, without blocking the loop; so the other methods may run in a thread."""
    hook = HudiHook(conn_id)
    try:
        connection = await connection_in_loop(hook, conn_id)
    except AirflowNotFoundException as error:
        hook.absent = error
    else:
        hook.settings = await asyncio.to_thread(ConnectionSettings.of, connection, conn_id)
    return hook


def settings_of(
    whose: str,
    record_key: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] | None = None,
    ordering: str | None = None,
    table_type: str | None = None,
    schema: Any = None,
    options: Mapping[str, str] | None = None,
) -> TableSettings:
    """Return the settings of a task for a new table. Raises `InvalidOptionError` if no table can be created with them."""
    keys, partitions = (
        (given,) if isinstance(given, str) else tuple(given or ()) for given in (record_key, partition_by)
    )
    settings = TableSettings(keys, partitions, ordering, table_type, schema, dict(options or {}))
    settings.refuse_unfit(whose)
    return settings


def _is_location(table: str) -> bool:
    return "://" in table or table.startswith(("/", "~"))  # opening a table refuses a '~'


def _example(conn_id: str) -> str:
    return f"""For example AIRFLOW_CONN_{conn_id.upper()}='{{"conn_type": "hudi", "host": "/lake"}}'."""


def _mapping(given: object, name: str, conn_id: str) -> dict[str, str]:
    """Parse options from an object or from JSON text. No error shows the text, because the text may have secrets."""
    try:
        found = json.loads(given) if isinstance(given, str) and given.strip() else given or {}
    except ValueError:
        found = None
    if not isinstance(found, dict) or any(isinstance(value, dict | list) for value in found.values()):
        raise InvalidOptionError(
            f"The {name} of the connection {conn_id!r} are no JSON object with a text for each name",
            hint='Write them as {"name": "value"}.',
        )
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}
