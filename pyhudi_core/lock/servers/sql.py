"""A lock in a row of an SQL database: SQLite (for the processes of one machine) or PostgreSQL.

The table ``pyhudi_locks`` has a row for each lock. One statement takes the row if it is free, expired, or this acquisition's own, and changes nothing
otherwise; in SQLite it runs after BEGIN IMMEDIATE. A test shows what happens without this: if the row is read first and written later, two
writers hold the lock.

Invariant: only the database's clock decides about expiry, so clocks of writers may differ. Hudi has no provider of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import LockServerError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.databases import Connection, Database, open_database
from pyhudi_core.lock.kind import LockKind, LockRequest, lock_option, served
from pyhudi_core.lock.server import Acquisition, Contender, LeasedAcquisition, LeasedTo
from pyhudi_core.runtime.base import Process

_CREATE = """CREATE TABLE IF NOT EXISTS pyhudi_locks (name VARCHAR(1024) PRIMARY KEY, token VARCHAR(64) NOT NULL, note VARCHAR(200) NOT NULL,
 process VARCHAR(400) NOT NULL, until_ms BIGINT NOT NULL)"""
_TAKE = """INSERT INTO pyhudi_locks (name, token, note, process, until_ms) VALUES (:name, :token, :note, :process, {now} + :lease_ms)
 ON CONFLICT (name) DO UPDATE SET token = excluded.token, note = excluded.note, process = excluded.process, until_ms = excluded.until_ms
 WHERE pyhudi_locks.token IN (:token, :gone) OR pyhudi_locks.until_ms <= {now}"""
_READ = "SELECT token, note, process, until_ms - {now} FROM pyhudi_locks WHERE name = :name"
_RENEW = (
    "UPDATE pyhudi_locks SET until_ms = {now} + :lease_ms WHERE name = :name AND token = :token AND until_ms > {now}"
)
_RELEASE = "DELETE FROM pyhudi_locks WHERE name = :name AND token = :token"


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """The location of the database, and the length of a lease. The address can contain a password, so it is not shown."""

    url: str = lock_option(
        "pyhudi.lock.sql.url", "",
        "The database of a `sql` lock: `sqlite:///path/locks.db` or `postgresql://user:password@host:5432/database`.", secret=True)  # fmt: skip
    lease_ms: int = lock_option(
        "pyhudi.lock.sql.lease.ms", 60_000,
        "Milliseconds after which others may take a `sql` lock that is not renewed; it is renewed three times in that time.",
        minimum=300)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SqlLockServer:
    """A lock's row.

    Args:
        database: the database with the row.
        name: the key of the row: the table's location.
        lease_s: seconds after which others may take a lock that is not renewed.
        process: reports whether a holder of this machine has ended; its lock is taken at once.
    """

    database: Database
    name: str
    lease_s: float
    process: Process

    @property
    def identity(self) -> str:
        return f"sql:{self.database.address}#{self.name}"

    def acquisition(self, contender: Contender) -> Acquisition:
        return LeasedAcquisition(self, contender, self.lease_s, self.process)

    def connect(self) -> Connection:
        return self.database.connect()

    def take(self, connection: Connection, contender: Contender, gone: str) -> bool:
        who = {"token": contender.token, "note": contender.note, "process": contender.process}
        return self.run(connection, _TAKE, **who, gone=gone, lease_ms=int(self.lease_s * 1000))[0] == 1

    def extend(self, connection: Connection, token: str) -> bool:
        return self.run(connection, _RENEW, token=token, lease_ms=int(self.lease_s * 1000))[0] == 1

    def free(self, connection: Connection, token: str) -> None:
        self.run(connection, _RELEASE, token=token)

    def read(self, connection: Connection) -> LeasedTo | None:
        rows = self.run(connection, _READ)[1]
        return LeasedTo(*rows[0]) if rows else None

    def run(self, connection: Connection, statement: str, **values: object) -> tuple[int, list[tuple[Any, ...]]]:
        """Execute a statement about the row, whose table is created if it is missing. Raises `LockServerError`."""
        text, values = statement.format(now=self.database.now), {"name": self.name, **values}
        try:
            return connection.run(text, values)
        except LockServerError as error:
            if not _says_no_table(error):
                raise
        try:
            connection.run(_CREATE, {})
        except LockServerError as error:
            if "already exists" not in error.message and "duplicate key" not in error.message:
                raise  # PostgreSQL raises this if two processes create the table at the same time
        return connection.run(text, values)


def _says_no_table(error: LockServerError) -> bool:
    """Say whether SQLite ("no such table: ...") or PostgreSQL (SQLSTATE 42P01) says that the table does not exist."""
    return "no such table" in error.message or "42P01" in error.message


def _lock(request: LockRequest) -> LockProvider:
    given = request.lock.of(SqlOptions)
    database = open_database(given.url, request.request_s)
    server = SqlLockServer(database, request.storage.location, given.lease_ms / 1000, request.runtime.process)
    return served(request, server)


LOCK = LockKind({"sql": None}, _lock, SqlOptions, needs={"sql": ("url",)}, extra="sql-lock", on_server=True)
