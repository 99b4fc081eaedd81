"""A Hive Metastore as a catalog, through its Thrift interface (Hive 3 and 4). It uses the same connection as the lock in a metastore.

It uses only requests that both releases support: Hive 4 no longer has ``get_table``. After an alteration, the metastore does not count files again.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyhudi_core.catalog.objects import (
    EXTERNAL,
    MANAGED,
    OUTPUT_FORMAT,
    SERDE,
    AlreadyThere,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    ChangedMeanwhile,
    Values,
    refused,
)
from pyhudi_core.errors import CatalogError
from pyhudi_core.lock.clients.hive_metastore import HiveConnection, HiveMetastore
from pyhudi_core.model.partition_path import DEFAULT_PARTITION, escaped
from pyhudi_core.options.catalog import CA
from pyhudi_core.runtime.base import Clock

_MOST_PARTITIONS = 10_000_000
_PIECE, _PIECE_OF_TABLES = 1_000, 100
"""The numbers of partitions, and of tables, that one request reads."""
_NO_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
_ALTERED = "transient_lastDdlTime"
"""The parameter with the second of the last alteration; each table of a metastore has it."""
_OTHER_VALUE = "The table has been modified"
"""The answer of a metastore (2.3.10, 4.0 and newer) if a parameter does not have the expected value."""
_ANY_TYPES = {"hive.metastore.disallow.incompatible.col.type.changes": "false"}
"""A metastore compares the types of columns by their places, and knows no wider decimals and structs; `may_become` compared them by names."""
_CANNOT_COMPARE = "TABLE_PARAMS"
"""The table of a metastore's database that it names in its answer if this database (Derby, Oracle) cannot compare the value. The metastore has found
the expected value, and changed nothing."""


class MetastoreCatalog:
    """A connection to a metastore.

    Args:
        where: its servers.
        clock: gives the creation times in the metastore's own fields.
        owner: the owner of new tables.
    """

    def __init__(self, where: HiveMetastore, clock: Clock, owner: str) -> None:
        where = replace(where, most=_MOST_PARTITIONS)
        self._connection = HiveConnection(where, "A Hive Metastore as a catalog", _ANY_TYPES)
        self._types = self._connection.types
        self._clock, self._owner = clock, owner
        self._compares = True
        self.place = f"The Hive Metastore ({where.address})"

    def has_database(self, name: str) -> bool:
        return self._ask("get_database", name, otherwise=self._types.NoSuchObjectException) is not None

    def folder_of(self, database: str) -> str:
        return self._ask("get_database", database).locationUri or ""

    def tables(self, database: str) -> Iterator[CatalogTable]:
        names = self._ask("get_all_tables", database)
        for start in range(0, len(names), _PIECE_OF_TABLES):
            request = self._types.GetTablesRequest(dbName=database, tblNames=names[start : start + _PIECE_OF_TABLES])
            for raw in self._ask("get_table_objects_by_name_req", request).tables:
                yield _table_of(raw)

    def create_database(self, name: str) -> None:
        database = self._types.Database(name=name, description="", parameters={})
        self._ask("create_database", database, otherwise=self._types.AlreadyExistsException)

    def table(self, database: str, name: str) -> CatalogTable | None:
        request = self._types.GetTableRequest(dbName=database, tblName=name)
        found = self._ask("get_table_req", request, otherwise=self._types.NoSuchObjectException)
        return None if found is None else _table_of(found.table)

    def create(self, table: CatalogTable) -> None:
        raw = self._types.Table(
            tableName=table.name,
            dbName=table.database,
            owner=self._owner,
            createTime=self._now(),
            lastAccessTime=0,
            retention=0,
            sd=self._descriptor(table, table.location, table.input_format),
            partitionKeys=self._fields(table.partition_keys),
            parameters=dict(table.parameters),
            tableType=MANAGED if table.managed else EXTERNAL,
        )
        try:
            self._ask("create_table", raw)
        except self._types.AlreadyExistsException:
            raise AlreadyThere from None

    def alter(self, table: CatalogTable, *, cascade: bool) -> None:
        raw = copy.deepcopy(table.raw)
        raw.sd.cols = self._fields(table.columns)
        raw.sd.inputFormat, raw.sd.location = table.input_format, raw.sd.location or table.location
        raw.sd.serdeInfo.parameters = dict(table.serde_parameters)
        raw.parameters = dict(table.parameters)
        how = {"CASCADE": "true"} if cascade else {}
        altered = (table.raw.parameters or {}).get(_ALTERED, "")
        if altered.isdecimal():
            raw.parameters[_ALTERED] = str(max(self._now(), int(altered) + 1))
            if self._compares:
                try:
                    self._alter(table, raw, expected_parameter_key=_ALTERED, expected_parameter_value=altered, **how)
                except CatalogError as error:
                    if _OTHER_VALUE in error.message:
                        raise ChangedMeanwhile from None
                    if _CANNOT_COMPARE not in error.message:
                        raise
                    self._compares = False  # each further attempt would take 20 s: the metastore repeats it
                else:
                    return
        self._alter(table, raw, **how)

    def _alter(self, table: CatalogTable, raw: Any, **how: str) -> None:
        request = ("alter_table_with_environment_context", table.database, table.name, raw, self._context(**how))
        self._ask(*request)

    def remove(self, table: CatalogTable) -> None:
        request = (table.database, table.name, False, self._context())
        self._ask("drop_table_with_environment_context", *request, otherwise=self._types.NoSuchObjectException)

    def partitions(self, table: CatalogTable, wanted: Collection[Values] | None) -> dict[Values, CatalogPartition]:
        if wanted is None:
            names: Sequence[str] = self._ask("get_partition_names", table.database, table.name, -1)
        else:
            names = [_name(table, values) for values in wanted]
        found = {}
        for start in range(0, len(names), _PIECE):
            piece = list(names[start : start + _PIECE])
            for raw in self._ask("get_partitions_by_names", table.database, table.name, piece):
                values = tuple(raw.values)
                found[values] = CatalogPartition(values, raw.sd.location or "", raw.sd.inputFormat or "")
        return found

    def add(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        made = [self._partition(table, one) for one in partitions]
        request = self._types.AddPartitionsRequest(table.database, table.name, made, ifNotExists=True, needResult=False)
        self._ask("add_partitions_req", request)

    def change(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        names = [_name(table, one.values) for one in partitions]
        found = self._ask("get_partitions_by_names", table.database, table.name, names)
        there = {tuple(raw.values): raw for raw in found}
        made = [self._partition(table, one, there.get(one.values)) for one in partitions]
        self._ask("alter_partitions_with_environment_context", table.database, table.name, made, self._context())

    def drop(self, table: CatalogTable, values: Sequence[Values]) -> None:
        request = self._types.DropPartitionsRequest(
            table.database,
            table.name,
            self._types.RequestPartsSpec(names=[_name(table, one) for one in values]),
            deleteData=False,
            ifExists=True,
            needResult=False,
        )
        self._ask("drop_partitions_req", request, otherwise=self._types.NoSuchObjectException)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, *arguments: object, otherwise: type[Exception] | None = None) -> Any:
        """Send a request; None if the metastore answers with ``otherwise``. `AlreadyExistsException` passes, other failures become `CatalogError`."""
        connection = self._connection
        try:
            return connection.send(method, *arguments)
        except connection.failures as error:
            if otherwise is not None and isinstance(error, otherwise):
                return None
            if isinstance(error, self._types.AlreadyExistsException):
                raise
            failed = connection.failed(error)
        raise refused(self.place, f"do {method}", failed, authorities=CA)

    def _now(self) -> int:
        return self._clock.now_ms() // 1_000

    def _context(self, **properties: str) -> Any:
        return self._types.EnvironmentContext({**_NO_STATISTICS, **properties})

    def _fields(self, columns: Iterable[CatalogColumn]) -> list[Any]:
        return [self._types.FieldSchema(one.name, one.type, one.comment) for one in columns]

    def _descriptor(self, table: CatalogTable, location: str, input_format: str) -> Any:
        types = self._types
        return types.StorageDescriptor(
            cols=self._fields(table.columns),
            location=location,
            inputFormat=input_format,
            outputFormat=OUTPUT_FORMAT,
            compressed=False,
            numBuckets=0,
            serdeInfo=types.SerDeInfo(None, SERDE, dict(table.serde_parameters)),
            bucketCols=[],
            sortCols=[],
            parameters={},
            storedAsSubDirectories=False,
        )

    def _partition(self, table: CatalogTable, one: CatalogPartition, there: Any = None) -> Any:
        """Return a partition; ``there``: the existing one, whose other fields stay, such as parameters of other programs."""
        descriptor = self._descriptor(table, one.location, one.input_format)
        if there is not None:
            made = copy.deepcopy(there)
            made.sd = copy.copy(made.sd)
            for name in ("cols", "location", "inputFormat", "outputFormat", "serdeInfo"):
                setattr(made.sd, name, getattr(descriptor, name))
            return made
        now = self._now()
        return self._types.Partition(list(one.values), table.database, table.name, now, 0, descriptor, {})


def _table_of(raw: Any) -> CatalogTable:
    descriptor = raw.sd
    return CatalogTable(
        database=raw.dbName,
        name=raw.tableName,
        columns=_columns_of(descriptor.cols),
        partition_keys=_columns_of(raw.partitionKeys or ()),
        location=descriptor.location or "",
        input_format=descriptor.inputFormat or "",
        parameters=dict(raw.parameters or {}),
        serde_parameters=dict((descriptor.serdeInfo and descriptor.serdeInfo.parameters) or {}),
        managed=raw.tableType == MANAGED,
        created=str(raw.createTime or ""),
        raw=raw,
    )


def _columns_of(fields: Iterable[Any]) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(one.name, one.type, one.comment or "") for one in fields)


def _name(table: CatalogTable, values: Values) -> str:
    """Return the metastore's name of a partition."""
    pairs = zip(table.partition_keys, values, strict=True)
    return "/".join(f"{escaped(key.name)}={escaped(value) or DEFAULT_PARTITION}" for key, value in pairs)
