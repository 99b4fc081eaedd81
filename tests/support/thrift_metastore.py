"""A small Hive Metastore behind real Thrift: databases, tables and partitions in memory, with the refusals that a sync meets.

tests/locks/test_catalogs.py has the real one.
"""

from __future__ import annotations

import copy
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from pymetastore.hive_metastore import ThriftHiveMetastore
from pymetastore.hive_metastore import ttypes as types
from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.server.TServer import TThreadedServer
from thrift.transport import TSocket, TTransport

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


class Metastore:
    """The handler of requests.

    ``calls``: the names of requests that change something. ``dies_at``: the number of the one before which it dies. ``compares``: whether an alteration
    may expect a value, as since 2.3.10 and 4.0. ``on_derby``: its database cannot compare the value. ``has_settings``: whether a connection may
    allow other types.
    """

    def __init__(self) -> None:
        self.databases: dict[str, Any] = {"default": types.Database(name="default")}
        self.tables: dict[tuple[str, str], Any] = {}
        self.parts: dict[tuple[str, str], dict[tuple[str, ...], Any]] = {}
        self.calls: list[str] = []
        self.dies_at = -1
        self.denies = False
        self.compares = True
        self.on_derby = False
        self.made = 0
        self.has_settings = True
        self._of_connection = threading.local()

    def setMetaConf(self, key: str, value: str) -> None:
        if not self.has_settings:
            raise types.MetaException(message=f"Invalid configuration key {key}")
        assert (key, value) == ("hive.metastore.disallow.incompatible.col.type.changes", "false")
        self._of_connection.takes_other_types = True

    def get_database(self, name: str) -> Any:
        if name not in self.databases:
            raise types.NoSuchObjectException(message=f"database {name}")
        return self.databases[name]

    def create_database(self, database: Any) -> None:
        self._changes("create_database")
        self.databases[database.name] = database

    def get_table_req(self, req: Any) -> Any:
        return types.GetTableResult(table=copy.deepcopy(self._table(req.dbName, req.tblName)))

    def create_table(self, tbl: Any) -> None:
        self._changes("create_table")
        if (tbl.dbName, tbl.tableName) in self.tables:
            raise types.AlreadyExistsException(message=f"table {tbl.tableName}")
        self.made += 1
        tbl.parameters.setdefault("transient_lastDdlTime", str(1_000 + self.made))
        self.tables[tbl.dbName, tbl.tableName] = tbl
        self.parts[tbl.dbName, tbl.tableName] = {}

    def get_all_tables(self, db_name: str) -> list[str]:
        return sorted(name for database, name in self.tables if database == db_name)

    def get_table_objects_by_name_req(self, req: Any) -> Any:
        found = [self.tables[req.dbName, name] for name in req.tblNames if (req.dbName, name) in self.tables]
        return types.GetTablesResult(tables=copy.deepcopy(found))

    def drop_table_with_environment_context(
        self, dbname: str, name: str, deleteData: bool, environment_context: Any
    ) -> None:
        self._changes("drop_table")
        assert deleteData is False
        self._table(dbname, name)
        del self.tables[dbname, name], self.parts[dbname, name]

    def alter_table_with_environment_context(self, dbname: str, tbl_name: str, new_tbl: Any, context: Any) -> None:
        self._changes("alter_table")
        before = self._table(dbname, tbl_name)
        expected = context.properties or {}
        key = expected.get("expected_parameter_key")
        if self.compares and key and before.parameters.get(key) != expected["expected_parameter_value"]:
            raise types.MetaException(message=f"The table has been modified. The parameter value for key '{key}' is")
        if self.on_derby and key:
            raise types.MetaException(
                message='JDODataStoreException: Error executing SQL query "update "TABLE_PARAMS" set'
            )
        for old, new in zip(before.sd.cols, new_tbl.sd.cols, strict=False):
            lenient = getattr(self._of_connection, "takes_other_types", False)
            if old.type != new.type and not _wider(old.type, new.type) and not lenient:
                text = f"The following columns have types incompatible with the existing columns: {new.name}"
                raise types.InvalidOperationException(message=text)
        self.tables[dbname, tbl_name] = new_tbl
        if (context.properties or {}).get("CASCADE") == "true":
            for part in self.parts[dbname, tbl_name].values():
                part.sd.cols = copy.deepcopy(new_tbl.sd.cols)

    def get_partition_names(self, db_name: str, tbl_name: str, max_parts: int) -> list[str]:
        keys = [one.name for one in self._table(db_name, tbl_name).partitionKeys]
        return [
            "/".join(f"{k}={_quoted(v)}" for k, v in zip(keys, values, strict=True))
            for values in self.parts[db_name, tbl_name]
        ]

    def get_partitions_by_names(self, db_name: str, tbl_name: str, names: list[str]) -> list[Any]:
        known = self.parts[db_name, tbl_name]
        return [known[values] for values in map(_values, names) if values in known]

    def add_partitions_req(self, request: Any) -> Any:
        self._changes("add_partitions")
        known = self.parts[request.dbName, request.tblName]
        for part in request.parts:
            if tuple(part.values) in known and not request.ifNotExists:
                raise types.AlreadyExistsException(message=str(part.values))
            known.setdefault(tuple(part.values), part)
        return types.AddPartitionsResult()

    def alter_partitions_with_environment_context(
        self, db_name: str, tbl_name: str, new_parts: Any, context: Any
    ) -> None:
        self._changes("alter_partitions")
        known = self.parts[db_name, tbl_name]
        for part in new_parts:
            if tuple(part.values) not in known:
                raise types.InvalidOperationException(message=str(part.values))
            known[tuple(part.values)] = part

    def drop_partitions_req(self, req: Any) -> Any:
        self._changes("drop_partitions")
        assert req.deleteData is False
        for name in req.parts.names:
            self.parts[req.dbName, req.tblName].pop(_values(name), None)
        return types.DropPartitionsResult()

    def _table(self, database: str, name: str) -> Any:
        if (database, name) not in self.tables:
            raise types.NoSuchObjectException(message=f"table {database}.{name}")
        return self.tables[database, name]

    def _changes(self, call: str) -> None:
        if self.dies_at == len(self.calls):
            raise ConnectionAbortedError("the server dies")
        if self.denies:
            raise types.MetaException(message="Permission denied: user has no rights")
        self.calls.append(call)


def _wider(old: str, new: str) -> bool:
    """Of Hive's ColumnType: numbers by their order; no decimal and no nested type becomes another one."""
    return old in _NUMBERS and new in _NUMBERS and _NUMBERS.index(old) < _NUMBERS.index(new)


def _quoted(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in "\"#%'*/:=?\\{[]^" or ord(c) < 32 else c for c in text)


def _values(name: str) -> tuple[str, ...]:
    return tuple(unquote(part.partition("=")[2]) for part in name.split("/"))


def _serve(server: Any) -> None:
    """Serve until the socket is closed; the server's own loop would report the closed socket for ever."""
    while True:
        try:
            client = server.serverTransport.accept()
        except (OSError, AttributeError):
            return
        threading.Thread(target=server.handle, args=(client,), daemon=True).start()


@contextmanager
def serving(handler: Metastore) -> Iterator[int]:
    """Serve a metastore on a free port of this machine, which is the value of the block."""
    transport = TSocket.TServerSocket("127.0.0.1", 0)
    transport.listen()
    port = transport.handle.getsockname()[1]
    factories = (TTransport.TBufferedTransportFactory(), TBinaryProtocolFactory())
    server = TThreadedServer(ThriftHiveMetastore.Processor(handler), transport, *factories)
    threading.Thread(target=_serve, args=(server,), daemon=True).start()
    try:
        yield port
    finally:
        transport.handle.shutdown(socket.SHUT_RDWR)  # wakes the thread, which a mere close would leave waiting
        transport.close()
