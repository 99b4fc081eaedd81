"""Create a table, or open one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi_core.argument_types import refuses_wrong_types
from pyhudi_core.errors import (
    InvalidOptionError,
    PreconditionFailedError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
    at_table,
)
from pyhudi_core.lazy import lazy, lazy_call
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.masking import takes_options
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.properties import OPERATION_FIELD, MergeMode, TableConfig, TableType
from pyhudi_core.model.table_rules import NO_RULES, TableRules
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.options import TableOptions, WriteOptions
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage.at_once import all_of, each
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.paths import Place, allowing, is_catalog_address
from pyhudi_core.table import HudiTable
from pyhudi_core.timeline import properties_file

if TYPE_CHECKING:
    from pyhudi_core import doctor, validators
    from pyhudi_core.catalog import addresses
    from pyhudi_core.catalog.addresses import CatalogAddress
    from pyhudi_core.doctor import CheckReport, Incident, Limits, Progress
    from pyhudi_core.merge import record_merger
    from pyhudi_core.model import chosen_columns
    from pyhudi_core.model.new_table import new_table_config
    from pyhudi_core.model.partition_path import partition_paths
    from pyhudi_core.model.schema import normalise, to_avro
    from pyhudi_core.repairs.catalog_drop import CatalogDrop
    from pyhudi_core.repairs.drop import DroppedTable, TableDrop
    from pyhudi_core.storage.conditions import refuse_ignored_conditions
    from pyhudi_core.storage.no_table import no_table, refuse_inside, refuse_remains
    from pyhudi_core.validators import Validator, Validators
    from pyhudi_core.write import coercion, refusals, row_rules
    from pyhudi_core.write.first_metadata import asked_metadata_table
else:
    chosen_columns = lazy("pyhudi_core.model.chosen_columns")
    addresses = lazy("pyhudi_core.catalog.addresses")
    doctor, validators = lazy("pyhudi_core.doctor"), lazy("pyhudi_core.validators")
    record_merger = lazy("pyhudi_core.merge.record_merger")
    asked_metadata_table, coercion = (
        lazy("pyhudi_core.write.first_metadata.asked_metadata_table"),
        lazy("pyhudi_core.write.coercion"),
    )
    refusals, row_rules = lazy("pyhudi_core.write.refusals"), lazy("pyhudi_core.write.row_rules")
    new_table_config = lazy_call("pyhudi_core.model.new_table", "new_table_config")
    partition_paths = lazy_call("pyhudi_core.model.partition_path", "partition_paths")
    normalise = lazy_call("pyhudi_core.model.schema", "normalise")
    to_avro = lazy_call("pyhudi_core.model.schema", "to_avro")
    refuse_ignored_conditions = lazy_call("pyhudi_core.storage.conditions", "refuse_ignored_conditions")
    DroppedTable = lazy_call("pyhudi_core.repairs.drop", "DroppedTable")
    TableDrop = lazy_call("pyhudi_core.repairs.drop", "TableDrop")
    CatalogDrop = lazy_call("pyhudi_core.repairs.catalog_drop", "CatalogDrop")
    no_table = lazy_call("pyhudi_core.storage.no_table", "no_table")
    refuse_inside = lazy_call("pyhudi_core.storage.no_table", "refuse_inside")
    refuse_remains = lazy_call("pyhudi_core.storage.no_table", "refuse_remains")

_TYPES = {
    "copy_on_write": TableType.COPY_ON_WRITE,
    "cow": TableType.COPY_ON_WRITE,
    "merge_on_read": TableType.MERGE_ON_READ,
    "mor": TableType.MERGE_ON_READ,
}


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def create_table(
    location: Place,
    schema: Any,
    record_key: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str | None = None,
    name: str | None = None,
    options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, str] | None = None,
    pre_commit: Sequence[Validator] = (),
    exist_ok: bool = False,
    rules: TableRules = NO_RULES,
    version: int | None = None,
) -> HudiTable:
    """Create an empty table and its metadata table (no metadata table with ``hoodie.metadata.enable=false``).

    Commits keep the table small. They clean: they delete states older than the last ten commits, unless ``hoodie.clean.automatic=false``. They also
    compact merge-on-read tables, unless ``hoodie.compact.inline=false``.

    Args:
        location: a folder (``/lake/orders``, a ``pathlib.Path``, ``s3://bucket/orders``, ``memory://name``); or a name in a catalog
            (``thrift://metastore:9083/sales/orders``, ``glue://sales/orders``): then the folder is in the folder of the database, and the catalog
            gets the table.
        schema: a pyarrow schema, or a Spark ``StructType``.
        record_key: the column or columns that identify a row. Without them each inserted row gets a generated key.
        partition_by: partition columns, outermost first.
        ordering: the column or columns that decide which version of a row is newer; without them, the last write wins.
        table_type: ``"copy_on_write"`` (the default) or ``"merge_on_read"`` (``"cow"``, ``"mor"``); or give the option ``hoodie.table.type``.
        name: the table's name; the default is the last part of the location.
        options: Hudi's options (``hoodie.*``) and this package's options (``pyhudi.*``), see ``pyhudi help options``. They may also name the columns
            above.
        storage_options: options of the storage (region, endpoint, credentials).
        pre_commit: validators of every commit through this object, also of table services; the table does not store them.
        exist_ok: if the table exists, open it. It must have all of these columns, and each of these settings that is given: keys, partitions,
            ordering, type, rules.
        rules: the rules of every write: checks, columns without nulls, defaults, generated columns, comments (`TableRules`).
        version: the version of the table format: 8 (the default, for Hudi 1.0 and newer) or 9 (for Hudi 1.1 and newer); or give the option
            ``hoodie.write.table.version``.

    Raises:
        TableExistsError: a table already exists, or with ``exist_ok`` has differences, which the message names. Nothing was changed.
        TableError: the folder has data files of a table whose ``.hoodie`` is missing, or is in the folder of another table; nothing was changed.
        ConfigError, DataError: an argument is not valid; nothing was created.
        LockError: the lock server does not answer, or another writer holds the lock for too long; nothing was created.
    """
    if is_catalog_address(location):
        address = addresses.CatalogAddress.parse(str(location), storage_options, options, system_runtime())
        found = addresses.found(address)
        location = found.location if found else addresses.new_location(address)
        options = address.options_of(found.name if found else address.name)
        arguments = (schema, record_key, partition_by, ordering, table_type, name, options, storage_options)
        table = create_table(location, *arguments, pre_commit, exist_ok, rules, version)
        if found is None:
            table.catalog.sync()
        else:
            addresses.mark(address, found, dropping=False)
        return _named(table, address)
    storage = open_storage(location, storage_options or {})
    chosen = (options or {}) if version is None else {**(options or {}), "hoodie.write.table.version": version}
    opened = OpenedTable(storage, system_runtime(), chosen, pre_commit=_validators(pre_commit))
    with at_table(storage.location):
        try:
            return create_whole(opened, schema, record_key, partition_by, ordering, table_type, name, None, rules)
        except TableExistsError:
            if not exist_ok:
                raise
            return _opened_if_fit(opened, schema, record_key, partition_by, ordering, table_type, name, None, rules)


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def table_exists(
    location: Place, storage_options: Mapping[str, str] | None = None, options: Mapping[str, object] | None = None
) -> bool:
    """Say whether a table is at a location. ``options``: the options of a catalog.

    Raises `ConfigError`, `StorageError` and `CatalogError` if the location cannot be read.
    """
    if is_catalog_address(location):
        found = addresses.found(
            addresses.CatalogAddress.parse(str(location), storage_options, options, system_runtime())
        )
        return found is not None and table_exists(found.location, storage_options)
    storage = open_storage(location, storage_options or {})
    if _is_table(storage):
        return True
    # Only a listing says that a bucket is missing: HEAD has the same answer for a missing object.
    storage.list_folder(properties_file.PATH.rpartition("/")[0])
    return False


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def drop_table(
    location: Place,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
    missing_ok: bool = False,
    names_only: bool = False,
) -> DroppedTable:
    """Delete a table, as `HudiTable.drop`. This cannot be undone. It also completes an interrupted drop. ``names_only``: for a table in a catalog,
    delete only its names in the catalog, and no files.

    Raises `TableNotFoundError` if there is no table, unless ``missing_ok``; and `DropRefusedError` while the table is in use, or if the catalog's
    location has no table.
    """
    if names_only and not is_catalog_address(location):
        raise InvalidOptionError(
            f"names_only= is for the address of a table in a catalog, not for {str(location)!r:.200}",
            hint="Give thrift://host:9083/database/table or glue://database/table.",
        )
    try:
        if is_catalog_address(location):
            return _drop_at(location, storage_options, options)(names_only=names_only)
        return drop_of(location, storage_options, options)()
    except TableNotFoundError as error:
        if not missing_ok:
            raise
        return DroppedTable(str(location), why_not=error.message)


def drop_of(
    location: Place, storage_options: Mapping[str, str] | None = None, options: Mapping[str, object] | None = None
) -> TableDrop | CatalogDrop:
    """Return the drop of the table at a location, even if a drop has begun. Raises `TableNotFoundError` if there is no table."""
    if is_catalog_address(location):
        return _drop_at(location, storage_options, options)
    return _drop_of_files(OpenedTable(open_storage(location, storage_options or {}), system_runtime(), options or {}))


def _drop_at(
    location: Place, storage_options: Mapping[str, str] | None, options: Mapping[str, object] | None
) -> CatalogDrop:
    address = addresses.CatalogAddress.parse(str(location), storage_options, options, system_runtime())
    found = addresses.needed(address)
    there = OpenedTable(open_storage(found.location, storage_options or {}), system_runtime(), options or {})
    return CatalogDrop(address, lambda: found, partial(_drop_of_files, there))


def _drop_of_files(opened: OpenedTable, *begun: Callable[[], object]) -> TableDrop:
    try:
        opened.to_drop()
    except TableNotFoundError as error:
        raise no_table(opened.storage) from error
    return TableDrop(opened, *begun)


def _named(table: HudiTable, address: CatalogAddress | None) -> HudiTable:
    """Return a table that was opened by a name in a catalog, or by its location. Its drop deletes its names in the catalog, too."""
    if address is not None:
        table._opened.drop = partial(_drop_by_name, address)
    return table


def _drop_by_name(address: CatalogAddress, opened: OpenedTable) -> CatalogDrop:
    find = partial(addresses.found_at, address, opened.storage.location)
    return CatalogDrop(address, find, partial(_drop_of_files, opened))


def _is_table(storage: Storage) -> bool:
    return any(storage.head(path) is not None for path in (properties_file.PATH, properties_file.BACKUP))


def _opened_if_fit(opened: OpenedTable, *arguments: Any) -> HudiTable:
    """Return the existing table. Raises `TableExistsError` if it does not fit the arguments of `create_at`; an omitted one accepts the table."""
    table, wanted = HudiTable(opened), checked_config(opened, *arguments)
    config, columns = table.config, table.schema
    _, keys, partitions, orderings, kind, *_ = arguments
    compared = (
        ("record key", keys, config.record_key_fields, wanted.record_key_fields),
        ("partition columns", partitions, config.partition_fields, wanted.partition_fields),
        ("ordering columns", orderings, config.ordering_fields, wanted.ordering_fields),
        ("type", kind, config.table_type.value, wanted.table_type.value),
    )
    found = [
        f"its {what}: {_said(there)}, not {_said(asked)}"
        for what, argument, there, asked in compared
        if argument is not None and there != asked
    ]
    for field in normalise(_arrow_schema(arguments[0])):
        kind = columns.field(field.name).type if field.name in columns.names else None
        if kind != field.type:
            found.append(f"its column {field.name} is {kind or 'missing'}, not {field.type}")
    if wanted.rules.enforced not in (NO_RULES, config.rules.enforced):
        found.append("its rules: see table.rules")
    if found:
        empty = "" if table.timeline.commits else " It has no commit: table.drop() deletes it."
        raise TableExistsError(
            f"Another table exists here: {'; '.join(found[:5])}",
            table=opened.storage.location,
            hint=f"Open it with open_table, choose another location, or change it by table.alter.{empty}",
        )
    return table


def _said(value: object) -> str:
    return (", ".join(value) or "none") if isinstance(value, tuple) else str(value)


def create_whole(opened: OpenedTable, *arguments: Any) -> HudiTable:
    """Create a table as `create_table` does: by `create_at`, and with the metadata table if the options enable it. ``arguments``: the arguments of
    `create_at`.
    """
    context = _create(opened, *arguments)
    if context.options.metadata.of_new_tables:
        asked_metadata_table.make_first(context)
        opened.remember_new_files()
    return HudiTable(opened)


def create_at(
    opened: OpenedTable,
    schema: Any,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str | None = None,
    name: str | None = None,
    properties: Mapping[str, str] | None = None,
    rules: TableRules = NO_RULES,
) -> HudiTable:
    """Create a table without a metadata table on an existing storage and runtime, such as those of the simulator.

    With ``hoodie.metadata.enable=true`` the first write makes the metadata table.
    """
    _create(opened, schema, record_key, partition_by, ordering, table_type, name, properties, rules)
    return HudiTable(opened)


def _create(opened: OpenedTable, *arguments: Any) -> TableContext:
    """Write the properties of a new table, and return the table. ``arguments``: the arguments of `create_at`."""
    config = checked_config(opened, *arguments)
    storage = opened.storage
    all_of(
        storage,
        opened.runtime.executor,
        partial(_refuse_existing, storage, opened),
        partial(refuse_inside, storage, opened.runtime.executor),
        partial(refuse_remains, storage, partial(_refuse_existing, storage, opened)),
        partial(refuse_ignored_conditions, storage, opened.runtime.executor, opened.runtime.ids),
    )
    opened.refuse_unusable_lock(config)
    try:
        made = properties_file.create(storage, config.to_properties(), f"created by pyhudi {opened.runtime.ids.uuid()}")
    except PreconditionFailedError:
        _refuse_existing(storage, opened)
        raise
    return opened.created(made)


def checked_config(
    opened: OpenedTable,
    schema: Any,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str | None = None,
    name: str | None = None,
    properties: Mapping[str, str] | None = None,
    rules: TableRules = NO_RULES,
) -> TableConfig:
    """Return the properties of a table that `create_at` would create; ``properties`` are stored in addition. Changes nothing.

    Raises as `create_table` for arguments that are not valid.
    """
    storage = opened.storage
    _refuse_type("name", name, str | None, "text, such as name='orders'")
    _refuse_type("rules", rules, TableRules, "hudi.TableRules(...), such as rules=hudi.TableRules(not_null=['price'])")
    given, files = TableOptions.parse(opened.options), WriteOptions.parse(opened.options).files
    chosen = name if name is not None else given.name or storage.location.rstrip("/").rpartition("/")[2]
    logical = normalise(arrow_schema := _arrow_schema(schema))
    keys, partitions, orderings = (
        _names(record_key or given.key_columns, "record_key"),
        _names(partition_by or given.partition_columns, "partition_by"),
        _names(ordering or given.ordering_columns, "ordering"),
    )
    chosen_columns.refuse_absent(logical, {"record_key": keys, "partition_by": partitions, "ordering": orderings})
    chosen_columns.refuse_types(logical, keys, partitions, orderings, pandas=b"pandas" in (arrow_schema.metadata or {}))
    coercion.refuse_internal_names(arrow_schema, storage.location)
    if rules:
        rules = row_rules.in_spelling_of(rules, logical)
        row_rules.refuse_unfit(rules, logical)
        row_rules.refuse_expiry(rules, partitions, storage.location)
    config = new_table_config(
        chosen,
        keys,
        partitions,
        orderings,
        table_type_of(table_type or given.table_type or "copy_on_write"),
        to_avro(logical, chosen, comments=rules.comments),
        hive_style=given.hive_style,
        url_encode=given.url_encode,
        database=given.database or "",
        timeline_timezone=given.timeline_timezone,
        merge_mode=_merge_mode(given),
        version=int(given.table_version),
        extra={
            **given.extra_properties(),
            **({OPERATION_FIELD: "true"} if files.operation_field else {}),
            **(properties or {}),
            **rules.to_properties(),
        },
    )
    _refuse_unfit_merger(config, logical)
    chosen_columns.refuse_mark(logical, config, given.delete_field or "", given.delete_marker or "")
    if rules.refusing:
        options = WriteOptions.parse(opened.options, config=config)
        case = refusals.Case(
            operation=OperationType.ALTER_SCHEMA, table=storage.location, config=config, options=options
        )
        refusals.of_new_table(replace(case, demands=True))
    _refuse_unfit_index(config, WriteOptions.parse(opened.options, config=config), storage.location)
    partition_paths(pa.RecordBatch.from_pylist([], logical), config)  # refuses a key generator that no write could use
    return config


def _refuse_unfit_index(config: TableConfig, options: WriteOptions, location: str) -> None:
    """Raise `InvalidOptionError` for an index that the first write would refuse."""
    if options.index.type is not None:
        comes = asked_metadata_table.gets_record_index(config, options.metadata)
        case = refusals.Case(operation=OperationType.UPSERT, table=location, config=config, options=options)
        refusals.of_new_table(replace(case, record_index=comes, by_index=not config.generates_keys))


def _merge_mode(given: TableOptions) -> MergeMode | None:
    """Return the merge mode that the options name, directly or by their payload class or strategy id.

    Raises `InvalidOptionError` for a contradiction.
    """
    meant = {mode.payload_class: mode for mode in MergeMode} | {mode.strategy_id: mode for mode in MergeMode}
    by_class = meant.get(given.payload_class, MergeMode.CUSTOM) if given.payload_class else None
    by_id = meant.get(given.merge_strategy, MergeMode.CUSTOM) if given.merge_strategy else None
    said = {mode for mode in (given.merge_mode and MergeMode(given.merge_mode), by_class, by_id) if mode}
    if len(said) > 1:
        raise InvalidOptionError(
            f"hoodie.record.merge.mode={given.merge_mode}, hoodie.compaction.payload.class={given.payload_class} and"
            f" hoodie.record.merge.strategy.id={given.merge_strategy} do not say one way of merging",
            hint="For the mode CUSTOM give a payload class of Hudi, or the strategy id under which a merger is registered; for the others neither.",
        )
    return next(iter(said), None)


def _refuse_unfit_merger(config: TableConfig, schema: pa.Schema) -> None:
    """Raise `UnsupportedTableError` if the merger of a new table is unknown, or refused by writes.

    Raises `InvalidOptionError` if the merger cannot merge the columns.
    """
    if config.merge_mode is MergeMode.CUSTOM and record_merger.find_merger(config) is None:
        raise record_merger.unknown_merger(config, new=True)
    if feature := record_merger.unwritten_merging(config):
        raise UnsupportedTableError(
            f"The table would have {feature}, which this release does not write",
            hint="Create a copy-on-write table, or choose another way of merging. Nothing was created.",
        )
    reason = record_merger.why_unfit(config, schema, new=True)
    if reason is not None:
        raise InvalidOptionError(
            reason,
            hint=f"Create the table with these columns, or with another payload class or merger. {see('merging')}",
        )


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def open_table(
    location: Place,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
    runtime: Runtime | None = None,
    pre_commit: Sequence[Validator] = (),
    allow_sources: Place | Sequence[Place] = (),
) -> HudiTable:
    """Open a table, by its folder or by its name in a catalog, as in `create_table`.

    ``pre_commit``: validators of every commit of this handle, table services included. ``allow_sources``: folders outside of the table's parent
    folder that may contain source files of a bootstrapped table; same as the storage option of this name.

    Raises:
        TableNotFoundError: no table exists at the location.
        TableVersionError, UnsupportedTableError: this release cannot use the table; the message says why.
        ConfigError: an option is unknown, or contradicts the table.
    """
    location, options, address = _place_of(location, storage_options, options)
    storage = open_storage(location, allowing(storage_options, allow_sources))
    opened = OpenedTable(storage, runtime or system_runtime(), options or {}, pre_commit=_validators(pre_commit))
    try:
        opened.context()
    except TableNotFoundError as error:
        raise no_table(storage) from error
    return _named(HudiTable(opened), address)


@set_module("pyhudi")
@takes_options
@refuses_wrong_types
def check_table(
    location: Place,
    storage_options: Mapping[str, str] | None = None,
    keys: bool = True,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> CheckReport:
    """Examine a table as `HudiTable.check`, even if it is too damaged to open. Works without ``hoodie.properties``. Damage raises no error. Raises
    `ConfigError` if the location or a storage option is not valid.
    """
    location, *_ = _place_of(location, storage_options, {})
    opened = OpenedTable(open_storage(location, storage_options or {}), system_runtime(), {})
    return doctor.check(opened, doctor.CheckOptions.of(keys, limits, progress))


def record_incident(location: Place, storage_options: Mapping[str, str] | None = None) -> Incident:
    """Record files as `HudiTable.record_incident`, even if the table is too damaged to open."""
    location, *_ = _place_of(location, storage_options, {})
    return doctor.record(OpenedTable(open_storage(location, storage_options or {}), system_runtime(), {}))


def _place_of(
    location: Place, storage_options: Mapping[str, str] | None, options: Mapping[str, object] | None
) -> tuple[Place, Mapping[str, object] | None, CatalogAddress | None]:
    """Return the place, the options and the catalog address of a location. A catalog says where an address leads; other locations are unchanged."""
    if not is_catalog_address(location):
        return location, options, None
    address = addresses.CatalogAddress.parse(str(location), storage_options, options, system_runtime())
    found = addresses.needed(address)
    return found.location, address.options_of(found.name), address


def _validators(given: Sequence[Validator]) -> Validators | None:
    return None if given == () else validators.Validators.of(given)


def _arrow_schema(schema: Any) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if type(schema).__module__.startswith("pyspark.sql"):
        from pyhudi_core.engine.spark_types import to_arrow  # noqa: PLC0415  (Spark is imported only where it is used)

        return to_arrow(schema)
    if hasattr(schema, "__arrow_c_schema__"):
        return pa.schema(schema)
    if hasattr(schema, "__arrow_c_stream__"):
        from pyhudi_core.engine.local import as_table, readable  # noqa: PLC0415  (a new interpreter that opens a table does not need it)
        from pyhudi_core.engine.pandas_frames import is_pandas, pandas_schema  # noqa: PLC0415  (as above)

        with readable(type(schema).__name__):
            return pandas_schema(schema) if is_pandas(type(schema)) else as_table(schema).schema
    raise InvalidOptionError(
        f"schema= takes a pyarrow.Schema, a Spark StructType or a DataFrame of pandas or polars, not {type(schema).__name__}",
        hint="For example schema=data.schema for a pyarrow Table or a Spark DataFrame.",
    )


def _refuse_type(argument: str, value: object, types: type | UnionType, example: str) -> None:
    if not isinstance(value, types):
        raise InvalidOptionError(f"{argument}= cannot be {value!r:.80}", hint=f"Give {example}.")


def _names(value: str | Sequence[str], argument: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise InvalidOptionError(f"{argument}={value!r} is not a column", hint="Give the name of a column, or a list.")
    return names


def table_type_of(word: str) -> TableType:
    """Return the table type for a word of the public API. Raises `InvalidOptionError`."""
    found = _TYPES.get(str(word).lower())
    if found is None:
        raise InvalidOptionError(
            f"table_type={word!r} is unknown", hint='Use "copy_on_write" (or "cow"), or "merge_on_read" (or "mor").'
        )
    return found


def _refuse_existing(storage: Storage, opened: OpenedTable) -> None:
    paths = properties_file.PATH, properties_file.BACKUP
    found = each(storage, opened.runtime.executor, storage.head, paths)
    for path, info in zip(paths, found, strict=True):
        if info is not None:
            raise TableExistsError(
                "A Hudi table already exists here",
                table=storage.location,
                path=path,
                hint="Open it with open_table, or create_table(..., exist_ok=True).",
            )
