"""Choose the lock of a table from its options, or the one that fits its storage.

Packages of servers are imported only if the options name their lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lock.audit import AuditedLock
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.lock.in_process import InProcessLockProvider
from pyhudi_core.lock.server import LockServer, ServerLockProvider
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.options import LockOptions, LockServerOptions
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Storage


@dataclass(frozen=True, slots=True)
class LockRequest:
    """What a lock is opened for.

    Attributes:
        storage, runtime: the table's.
        name: the table's name (``hoodie.table.name``), the default key of some locks.
        lock, server: the options.
    """

    storage: Storage
    runtime: Runtime
    name: str
    lock: LockOptions
    server: LockServerOptions


def open_lock(request: LockRequest) -> LockProvider:
    """The lock that the options name, or else the one that fits the storage.

    Raises `InvalidOptionError` if an option of the lock is missing, and `MissingExtraError` if its package is not installed. No request is sent.
    """
    lock = _provider(request)
    return AuditedLock(lock, request.storage, request.runtime.clock) if request.lock.audit else lock


def _provider(request: LockRequest) -> LockProvider:
    storage, runtime, options = request.storage, request.runtime, request.lock
    kind = options.provider or _default_kind(storage)
    if kind == "in_process":
        return InProcessLockProvider(storage.location, runtime.ids, runtime.process.identity())
    if kind == "storage_based":
        return StorageBasedLockProvider(storage, runtime, validity_s=options.validity_s, renew_s=options.renew_s)
    if kind in _SERVERS:
        longest = request.server.retry_ms
        return ServerLockProvider(_SERVERS[kind](request), runtime, storage.location, longest_wait_ms=longest)
    return FileSystemLockProvider(
        storage, runtime.clock, runtime.ids, folder=options.path, expire_minutes=options.expire_minutes
    )


def _default_kind(storage: Storage) -> str:
    can = storage.capabilities
    if can.one_process or not can.put_if_absent:
        return "in_process"
    return "storage_based" if can.put_if_match else "file_system"


def _sql(request: LockRequest) -> LockServer:
    from pyhudi_core.lock.sql import SqlLockServer, open_database  # noqa: PLC0415

    given = request.server
    _require(request, {"pyhudi.lock.sql.url": given.sql_url})
    database = open_database(given.sql_url, given.request_ms / 1000)
    return SqlLockServer(database, request.storage.location, given.sql_lease_ms / 1000, request.runtime.process)


_SERVERS: Mapping[str, Callable[[LockRequest], LockServer]] = {"sql": _sql}


def _require(request: LockRequest, needed: Mapping[str, str]) -> None:
    missing = [key for key, value in needed.items() if not value]
    if missing:
        raise InvalidOptionError(
            f"The lock {request.lock.provider} needs the option {missing[0]}",
            table=request.storage.location,
            hint="docs/locks.md shows the options of each lock.",
        )
