"""Choose the lock of a table from its options, or the one that fits its storage.

A lock is imported when it is opened, and packages of servers only if the options name their lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.late import late, late_call
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.options import LockOptions, LockServerOptions
from pyhudi_core.options.locks import GENERATOR, PROVIDER, refuse_incomplete, refuse_without_provider
from pyhudi_core.runtime.base import Clock, Runtime
from pyhudi_core.storage.base import Storage

if TYPE_CHECKING:
    import xxhash

    from pyhudi_core.lock.audit import AuditedLock
    from pyhudi_core.lock.dynamodb import DynamoDb
    from pyhudi_core.lock.in_process import InProcessLockProvider
    from pyhudi_core.lock.server import LockServer, ServerLockProvider
    from pyhudi_core.lock.server_clock import ServerClock
    from pyhudi_core.lock.storage_based import StorageBasedLockProvider
    from pyhudi_core.lock.zookeeper import ZooKeeper
else:
    xxhash = late("xxhash")
    AuditedLock = late_call("pyhudi_core.lock.audit", "AuditedLock")
    InProcessLockProvider = late_call("pyhudi_core.lock.in_process", "InProcessLockProvider")
    ServerClock = late_call("pyhudi_core.lock.server_clock", "ServerClock")
    ServerLockProvider = late_call("pyhudi_core.lock.server", "ServerLockProvider")
    StorageBasedLockProvider = late_call("pyhudi_core.lock.storage_based", "StorageBasedLockProvider")

_HUDI_SEED = 0xFFFFFFFFDABADABA
_SHORTEST_LEASE_MS = 2_000


@dataclass(frozen=True, slots=True)
class LockRequest:
    """What a lock is opened for.

    Attributes:
        storage, runtime: the table's.
        name: the table's name (``hoodie.table.name``), the default key of some locks.
        lock, server: the options.
        generator: where the times of instants come from.
    """

    storage: Storage
    runtime: Runtime
    name: str
    lock: LockOptions
    server: LockServerOptions
    generator: str = "system"


def open_lock(request: LockRequest) -> LockProvider:
    """The lock that the options name, or else the one that fits the storage.

    Raises `InvalidOptionError` if an option of the lock is missing, or a server is given without its lock, and `MissingExtraError` if the lock's
    package is not installed. No request is sent.
    """
    lock = _provider(request)
    return AuditedLock(lock, request.storage, request.runtime.clock) if request.lock.audit else lock


def ask_server(request: LockRequest) -> None:
    """Acquire and release the lock if it is on a server. Raises as `open_lock`, and `LockError` if the lock cannot be acquired."""
    if request.lock.provider in _SERVERS:
        _provider(request).acquire(request.lock.wait_ms / 1000, "create the table").release()


def _provider(request: LockRequest) -> LockProvider:
    storage, runtime, options = request.storage, request.runtime, request.lock
    if not options.provider:
        refuse_without_provider(request.generator, partial(_is_given, request), storage.location)
    kind = options.provider or _default_kind(storage)
    if kind == "in_process":
        return InProcessLockProvider(storage.location, runtime.ids, runtime.process.identity())
    if kind == "storage_based":
        return StorageBasedLockProvider(storage, runtime, validity_s=options.validity_s, renew_s=options.renew_s)
    if kind in _SERVERS:
        _refuse_incomplete(request, PROVIDER, kind)
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
    database = open_database(given.sql_url, given.request_ms / 1000)
    return SqlLockServer(database, request.storage.location, given.sql_lease_ms / 1000, request.runtime.process)


def _zookeeper(request: LockRequest, *, implicit: bool = False) -> LockServer:
    from pyhudi_core.lock.zookeeper import ZooKeeperLockServer  # noqa: PLC0415

    return ZooKeeperLockServer(_zookeeper_servers(request), _zookeeper_path(request, implicit=implicit))


def _zookeeper_servers(request: LockRequest) -> ZooKeeper:
    from pyhudi_core.lock.zookeeper import ZooKeeper, hosts_of  # noqa: PLC0415

    given = request.server
    hosts = hosts_of(given.zookeeper_url, given.zookeeper_port)
    return ZooKeeper(hosts, given.zookeeper_session_ms / 1000, given.zookeeper_connection_ms / 1000)


def _zookeeper_path(request: LockRequest, *, implicit: bool) -> str:
    """The lock's node, as Hudi's two providers choose it."""
    if implicit:
        return f"/tmp/{_implicit_key(request)}/lock_key"  # noqa: S108 (a node, not a file)
    given = request.server
    base = given.zookeeper_base_path.strip("/")
    return f"/{base}/{given.zookeeper_lock_key or request.name}".replace("//", "/")


def _dynamodb(request: LockRequest, *, implicit: bool = False) -> LockServer:
    from pyhudi_core.lock.dynamodb import DynamoDbLockServer  # noqa: PLC0415

    key = _implicit_key(request) if implicit else request.server.dynamodb_key or request.name
    runtime = request.runtime
    # Half of the wait, so that a writer that waits sees the lease of a dead one end.
    lease_ms = max(_SHORTEST_LEASE_MS, request.lock.wait_ms // 2)
    return DynamoDbLockServer(_dynamodb_table(request), key, lease_ms, runtime.clock, runtime.process)


def _dynamodb_table(request: LockRequest) -> DynamoDb:
    from pyhudi_core.lock.dynamodb import DynamoDb  # noqa: PLC0415

    given = request.server
    _refuse_half_credentials(given)
    endpoint = given.dynamodb_endpoint
    return DynamoDb(
        given.dynamodb_table,
        given.dynamodb_region or os.environ.get("AWS_REGION") or "us-east-1",
        endpoint if "://" in endpoint or not endpoint else f"https://{endpoint}",
        given.request_ms / 1000,
        given.dynamodb_creation_ms / 1000,
        given.dynamodb_billing,
        (given.dynamodb_reads, given.dynamodb_writes),
        given.aws_access_key,
        given.aws_secret_key,
        given.aws_session_token,
    )


def _refuse_half_credentials(given: LockServerOptions) -> None:
    """Raise `InvalidOptionError` for a key without the other. Other parts of Hudi read these options, too, so it is asked only for DynamoDB."""
    keys = {"hoodie.aws.access.key": given.aws_access_key, "hoodie.aws.secret.key": given.aws_secret_key}
    missing = [key for key, value in keys.items() if not value]
    if len(missing) == 1 or (missing and given.aws_session_token):
        raise InvalidOptionError(
            f"The credentials for DynamoDB are not complete: {' and '.join(missing)} is missing",
            hint="Give both keys, and the session token if they are temporary; or none, so that boto3 finds the credentials.",
        )


def _hive_metastore(request: LockRequest) -> LockServer:
    from pyhudi_core.lock.hive_metastore import HiveLockServer, HiveMetastore, servers_of  # noqa: PLC0415

    given, runtime = request.server, request.runtime
    where = HiveMetastore(servers_of(given.hive_uris), given.request_ms / 1000)
    heartbeat_s = given.hive_heartbeat_ms / 1000
    return HiveLockServer(where, given.hive_database, given.hive_table, heartbeat_s, runtime.clock, runtime.process)


def _implicit_key(request: LockRequest) -> str:
    """The key that Hudi derives from the table's base path, in which ``s3a`` counts as ``s3``."""
    location = request.storage.location
    if location.startswith("s3a://"):
        location = "s3://" + location.removeprefix("s3a://")
    return xxhash.xxh64(location.encode(), seed=_HUDI_SEED).hexdigest().upper()


_SERVERS: Mapping[str, Callable[[LockRequest], LockServer]] = {
    "sql": _sql,
    "zookeeper": _zookeeper,
    "zookeeper_implicit": partial(_zookeeper, implicit=True),
    "dynamodb": _dynamodb,
    "dynamodb_implicit": partial(_dynamodb, implicit=True),
    "hive_metastore": _hive_metastore,
}


def open_instants(request: LockRequest) -> Clock | None:
    """The source of instants that ``pyhudi.time.generator`` names; None is the machine's clock. Raises as `open_lock`."""
    generator = request.generator
    _refuse_incomplete(request, GENERATOR, generator)
    if generator == "zookeeper":
        from pyhudi_core.lock.zookeeper import ZooKeeperCounter  # noqa: PLC0415

        path = f"{_zookeeper_path(request, implicit=False)}.time"
        return ServerClock(ZooKeeperCounter(_zookeeper_servers(request), path), request.runtime.clock)
    if generator == "dynamodb":
        from pyhudi_core.lock.dynamodb import DynamoDbCounter  # noqa: PLC0415

        key = f"{request.server.dynamodb_key or request.name}.time"
        return ServerClock(DynamoDbCounter(_dynamodb_table(request), key), request.runtime.clock)
    return None


def _refuse_incomplete(request: LockRequest, key: str, server: str) -> None:
    refuse_incomplete(key, server, partial(_is_given, request), request.storage.location)


def _is_given(request: LockRequest, attribute: str) -> object:
    return getattr(request.server, attribute.partition(".")[2])
