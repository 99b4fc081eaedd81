"""Options of the lock: which one excludes other writers during a commit, where its server is, and how it is kept.

Keys that Hudi has keep Hudi's names, so that one properties file serves both; ``pyhudi.lock.*`` are this package's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyhudi_core.errors import InvalidOptionError, UnsafePathError
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.safe_path import safe_relative_path
from pyhudi_core.options.option import Option, Scope

PROVIDER = "hoodie.write.lock.provider"
GENERATOR = "pyhudi.time.generator"
_PACKAGE = "org.apache.hudi.client.transaction.lock."
_AWS_PACKAGE = "org.apache.hudi.aws.transaction.lock."
_CLASSES = {
    f"{_PACKAGE}InProcessLockProvider": "in_process",
    f"{_PACKAGE}FileSystemBasedLockProvider": "file_system",
    f"{_PACKAGE}StorageBasedLockProvider": "storage_based",
    f"{_PACKAGE}ZookeeperBasedLockProvider": "zookeeper",
    f"{_PACKAGE}ZookeeperBasedImplicitBasePathLockProvider": "zookeeper_implicit",
    f"{_AWS_PACKAGE}DynamoDBBasedLockProvider": "dynamodb",
    f"{_AWS_PACKAGE}DynamoDBBasedImplicitPartitionKeyLockProvider": "dynamodb_implicit",
    "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider": "hive_metastore",
}
_LOCKS = {
    **{word: word for word in (*_CLASSES.values(), "sql")},
    **{name.lower(): word for name, word in _CLASSES.items()},
}
_ZOOKEEPER = "hoodie.write.lock.zookeeper."
_DYNAMODB = "hoodie.write.lock.dynamodb."
_HIVE = "hoodie.write.lock.hivemetastore."
_ONLY_HUDI = "Accepted for Hudi's sake: here `hoodie.write.lock.wait_time_ms` alone bounds the wait."

LOCK_OPTIONS = (
    Option(PROVIDER, "lock.provider", str, None,
           "The lock that excludes other writers during a commit; Hudi's class names are accepted. By default `file_system` on a "
           "disk, `storage_based` in an object store, `in_process` in memory. A commit must use the same lock as the previous commit. "
           f"{see('locks')}.", Scope.LOCK,
           choices=_LOCKS, aliases=("lock",)),
    Option("hoodie.write.lock.wait_time_ms", "lock.wait_ms", int, 60_000, "Milliseconds to wait for the lock.", Scope.LOCK,
           minimum=0),
    Option("hoodie.write.lock.filesystem.path", "lock.path", str, ".hoodie",
           "Folder of the lock file, below the table; the default is Hudi's.", Scope.LOCK),
    Option("hoodie.write.lock.filesystem.expire", "lock.expire_minutes", int, 0,
           "Minutes after which a lock file of any writer counts as abandoned; 0 for never.", Scope.LOCK, minimum=0),
    Option("hoodie.write.lock.storage.validity.timeout.secs", "lock.validity_s", int, 300,
           "Seconds that a `storage_based` lock stays valid without renewal; at least ten times the renewal interval.", Scope.LOCK, minimum=10,
           maximum=86_400),
    Option("hoodie.write.lock.storage.renew.interval.secs", "lock.renew_s", int, 30,
           "Seconds between two renewals of a `storage_based` lock.", Scope.LOCK, minimum=1, maximum=3_600,
           aliases=("hoodie.write.lock.storage.heartbeat.poll.secs",)),
    Option(f"{_ZOOKEEPER}url", "lock_server.zookeeper_url", str, "",
           "ZooKeeper's servers, such as `zk1:2181,zk2:2181`.", Scope.LOCK),
    Option(f"{_ZOOKEEPER}port", "lock_server.zookeeper_port", int, 2181,
           "The port of servers that `url` names without one.", Scope.LOCK, minimum=1, maximum=65_535),
    Option(f"{_ZOOKEEPER}base_path", "lock_server.zookeeper_base_path", str, "",
           "The node below which the locks are, such as `/hudi`.", Scope.LOCK),
    Option(f"{_ZOOKEEPER}lock_key", "lock_server.zookeeper_lock_key", str, "",
           "The lock's node below `base_path`; by default the table's name.", Scope.LOCK),
    Option(f"{_ZOOKEEPER}session_timeout_ms", "lock_server.zookeeper_session_ms", int, 60_000,
           "Milliseconds after which ZooKeeper releases the lock of a writer that it does not hear of. The server has bounds of its own.",
           Scope.LOCK, minimum=100),
    Option(f"{_ZOOKEEPER}connection_timeout_ms", "lock_server.zookeeper_connection_ms", int, 15_000,
           "Milliseconds to wait for a connection to ZooKeeper, and for each answer.", Scope.LOCK, minimum=10),
    Option(f"{_DYNAMODB}table", "lock_server.dynamodb_table", str, "",
           "The DynamoDB table of the locks; it is created if it does not exist.", Scope.LOCK),
    Option(f"{_DYNAMODB}partition_key", "lock_server.dynamodb_key", str, "",
           "The lock's key in that table; by default the table's name.", Scope.LOCK),
    Option(f"{_DYNAMODB}region", "lock_server.dynamodb_region", str, "",
           "The region; by default AWS_REGION, else us-east-1.", Scope.LOCK),
    Option(f"{_DYNAMODB}endpoint_url", "lock_server.dynamodb_endpoint", str, "",
           "The address of another DynamoDB than Amazon's.", Scope.LOCK),
    Option(f"{_DYNAMODB}billing_mode", "lock_server.dynamodb_billing", str, "PAY_PER_REQUEST",
           "The billing mode of a table that is created.", Scope.LOCK,
           choices={"pay_per_request": "PAY_PER_REQUEST", "provisioned": "PROVISIONED"}),
    Option(f"{_DYNAMODB}read_capacity", "lock_server.dynamodb_reads", int, 20,
           "Read capacity of a table that is created with PROVISIONED.", Scope.LOCK, minimum=1),
    Option(f"{_DYNAMODB}write_capacity", "lock_server.dynamodb_writes", int, 10,
           "Write capacity of a table that is created with PROVISIONED.", Scope.LOCK, minimum=1),
    Option(f"{_DYNAMODB}table_creation_timeout", "lock_server.dynamodb_creation_ms", int, 600_000,
           "Milliseconds to wait for a table that is created.", Scope.LOCK, minimum=0),
    Option("hoodie.aws.access.key", "lock_server.aws_access_key", str, "",
           "The access key for DynamoDB. Without it boto3 finds the credentials (environment, profile, role).", Scope.LOCK,
           secret=True),
    Option("hoodie.aws.secret.key", "lock_server.aws_secret_key", str, "", "The secret key for DynamoDB.", Scope.LOCK,
           secret=True),
    Option("hoodie.aws.session.token", "lock_server.aws_session_token", str, "", "The session token for DynamoDB.", Scope.LOCK,
           secret=True),
    Option(f"{_HIVE}uris", "lock_server.hive_uris", str, "",
           "The metastores, such as `thrift://host1:9083,thrift://host2:9083`; they share one database.", Scope.LOCK),
    Option(f"{_HIVE}database", "lock_server.hive_database", str, "",
           "The database of the name that is locked; Hive reads it without case.", Scope.LOCK),
    Option(f"{_HIVE}table", "lock_server.hive_table", str, "",
           "The table of the name that is locked. It does not have to exist.", Scope.LOCK),
    Option("hoodie.write.lock.heartbeat_interval_ms", "lock_server.hive_heartbeat_ms", int, 60_000,
           "Milliseconds between two heartbeats of a `hive_metastore` lock; at most a quarter of the metastore's `metastore.txn.timeout`.",
           Scope.LOCK, minimum=10),
    Option("pyhudi.lock.sql.url", "lock_server.sql_url", str, "",
           "The database of a `sql` lock: `sqlite:///path/locks.db` or `postgresql://user:password@host:5432/database`.", Scope.LOCK,
           secret=True),
    Option("pyhudi.lock.sql.lease.ms", "lock_server.sql_lease_ms", int, 60_000,
           "Milliseconds after which others may take a `sql` lock that is not renewed; it is renewed three times in that time.", Scope.LOCK,
           minimum=300),
    Option("pyhudi.lock.request.timeout.ms", "lock_server.request_ms", int, 10_000,
           "Milliseconds to wait for each answer of the server of a `dynamodb`, `hive_metastore` or `sql` lock.", Scope.LOCK, minimum=10),
    Option("hoodie.write.lock.wait_time_ms_between_retry", "lock_server.retry_ms", int, 1_000,
           "Longest wait in milliseconds between two attempts at a server's lock; waits grow from 10 ms to this.", Scope.LOCK, minimum=1),
    Option("hoodie.write.lock.max_wait_time_ms_between_retry", "lock_server.ignored_max_wait", str, "", _ONLY_HUDI, Scope.LOCK),
    Option("hoodie.write.lock.num_retries", "lock_server.ignored_retries", str, "", _ONLY_HUDI, Scope.LOCK),
    Option("hoodie.write.lock.client.num_retries", "lock_server.ignored_client_retries", str, "", _ONLY_HUDI, Scope.LOCK),
    Option("hoodie.write.lock.client.wait_time_ms_between_retry", "lock_server.ignored_client_wait", str, "", _ONLY_HUDI, Scope.LOCK),
    Option("pyhudi.lock.change.from", "lock.change_from", str, "",
           "The identity of the previous lock, as the refusal shows it, when all writers change to the lock configured now. It works once: "
           "after the first commit under the new lock it has no effect.", Scope.LOCK),
    Option("pyhudi.lock.audit", "lock.audit", bool, False,
           "Record every holding of the lock (holder and times) as a file of JSON lines below `.hoodie/.locks/audit/`.", Scope.LOCK),
)  # fmt: skip

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "zookeeper": ("lock_server.zookeeper_url", "lock_server.zookeeper_base_path"),
    "zookeeper_implicit": ("lock_server.zookeeper_url",),
    "dynamodb": ("lock_server.dynamodb_table",),
    "dynamodb_implicit": ("lock_server.dynamodb_table",),
    "hive_metastore": ("lock_server.hive_uris", "lock_server.hive_database", "lock_server.hive_table"),
    "sql": ("lock_server.sql_url",),
}
"""The options without which a server cannot be reached, by their attributes."""


def refuse_incomplete(key: str, server: str, is_given: Callable[[str], object], table: str | None = None) -> None:
    """Raise `InvalidOptionError` if ``key`` names a server, for the lock or for times, and an option is missing that this server needs.

    ``is_given``: whether the option with this attribute has a value.
    """
    missing = [attribute for attribute in _NEEDED.get(server, ()) if not is_given(attribute)]
    if missing:
        needed = next(option.key for option in LOCK_OPTIONS if option.attribute == missing[0])
        raise InvalidOptionError(
            f"{key}={server} needs the option {needed}",
            table=table,
            hint=see("locks"),
        )


def refuse_without_provider(generator: str, is_given: Callable[[str], object], table: str | None = None) -> None:
    """Raise `InvalidOptionError` if the server of a lock is given, but no lock is chosen, and the source of times is on another server.

    The lock would be the one that fits the storage, and nobody would notice that the server is never asked.
    """
    for server, needed in _NEEDED.items():
        given = [option.key for option in LOCK_OPTIONS if option.attribute in needed and is_given(option.attribute)]
        if given and not server.startswith(generator):
            raise InvalidOptionError(
                f"{given[0]} belongs to the lock {server}, but {PROVIDER} is not given",
                table=table,
                hint=f"Set {PROVIDER}={server}, or remove the options of that lock.",
            )


@dataclass(frozen=True, slots=True)
class LockOptions:
    """Which lock excludes other writers during a commit, and how it is kept."""

    provider: str | None
    wait_ms: int
    path: str
    expire_minutes: int
    validity_s: int
    renew_s: int
    change_from: str
    audit: bool

    def __post_init__(self) -> None:
        if self.validity_s < 10 * self.renew_s:
            raise InvalidOptionError(
                f"hoodie.write.lock.storage.validity.timeout.secs ({self.validity_s}) is below ten times "
                f"hoodie.write.lock.storage.renew.interval.secs ({self.renew_s})",
                hint="A lock must outlive renewals that fail; increase the timeout or decrease the interval",
            )
        try:
            safe_relative_path(self.path)
        except UnsafePathError as error:
            raise InvalidOptionError(
                f"hoodie.write.lock.filesystem.path: {error.message}",
                hint="Give a folder below the table, such as .hoodie",
            ) from None


@dataclass(frozen=True, slots=True)
class LockServerOptions:
    """Where the server of a lock is, and how long to wait for it. Credentials are not shown."""

    zookeeper_url: str
    zookeeper_port: int
    zookeeper_base_path: str
    zookeeper_lock_key: str
    zookeeper_session_ms: int
    zookeeper_connection_ms: int
    dynamodb_table: str
    dynamodb_key: str
    dynamodb_region: str
    dynamodb_endpoint: str
    dynamodb_billing: str
    dynamodb_reads: int
    dynamodb_writes: int
    dynamodb_creation_ms: int
    aws_access_key: str = field(repr=False)
    aws_secret_key: str = field(repr=False)
    aws_session_token: str = field(repr=False)
    hive_uris: str
    hive_database: str
    hive_table: str
    hive_heartbeat_ms: int
    sql_url: str = field(repr=False)
    sql_lease_ms: int
    request_ms: int
    retry_ms: int
    ignored_max_wait: str
    ignored_retries: str
    ignored_client_retries: str
    ignored_client_wait: str

    def __post_init__(self) -> None:
        if "@" in self.dynamodb_endpoint:  # the message does not show the value, because it may have a password
            raise InvalidOptionError(
                f"{_DYNAMODB}endpoint_url has a user or a password, which DynamoDB does not take there",
                hint="Write it as https://host:port, and the credentials as hoodie.aws.access.key and hoodie.aws.secret.key.",
            )
