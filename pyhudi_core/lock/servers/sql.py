"""A lock in a row of an SQL database: SQLite (for the processes of one machine) or PostgreSQL.

The table ``pyhudi_locks`` has a row for each lock. One statement takes the row if it is free, expired, or this acquisition's own, and changes nothing
otherwise; in SQLite it runs after BEGIN IMMEDIATE. A test shows what happens without this: if the row is read first and written later, two
writers hold the lock.

An acquisition keeps its connection to PostgreSQL until its release; after a failure it opens another one. A file of SQLite is opened for each
request: whoever kept it open would not notice that the file was replaced.

Invariant: only the database's clock decides about expiry, so clocks of writers may differ. Hudi has no provider of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyhudi_core.errors import LockServerError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.databases import Connection, Database, open_database
from pyhudi_core.lock.kind import LockKind, LockRequest, lock_option, served
from pyhudi_core.lock.server import Acquisition, Contender, describe_process
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
    """Where the database is, and how long a lock lasts. The address can contain a password, so it is not shown."""

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
        database: where the row is.
        name: the row; the table's location.
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
        return SqlAcquisition(self, contender)


class SqlAcquisition:
    """One acquisition of the row, with its connection."""

    def __init__(self, server: SqlLockServer, contender: Contender) -> None:
        self.server = server
        self.contender = contender
        self._connection: Connection | None = None

    def run(self, statement: str, **values: object) -> tuple[int, list[tuple[Any, ...]]]:
        """Execute one statement in a transaction of its own. Raises `LockServerError`; the next statement then gets a new connection."""
        database = self.server.database
        if self._connection is None:
            self._connection = database.connect()
        connection, is_usable = self._connection, False
        try:
            try:
                found = connection.run(statement.format(now=database.now), values)
            except LockServerError as error:
                if not _says_no_table(error):
                    raise
                found = self._run_with_table(connection, statement, values)
            connection.finish()
            is_usable = database.keeps_connections
            return found
        finally:
            if not is_usable:
                self._close()

    def _run_with_table(
        self, connection: Connection, statement: str, values: Mapping[str, object]
    ) -> tuple[int, list[tuple[Any, ...]]]:
        try:
            connection.run(_CREATE, {})
        except LockServerError as error:
            if "already exists" not in error.message and "duplicate key" not in error.message:
                raise  # PostgreSQL reports two that create the table at the same time
        return connection.run(statement.format(now=self.server.database.now), values)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def lease_s(self) -> float:
        return self.server.lease_s

    @property
    def renew_s(self) -> float:
        return self.server.lease_s / 3

    def attempt(self) -> bool:
        if self._take(gone=""):
            return True
        for token, _, process, _ in self.run(_READ, name=self.server.name)[1]:
            if self.server.process.is_gone(process):
                return self._take(gone=token)
        return False

    def renew(self) -> bool:
        return self.run(_RENEW, **self._row(), lease_ms=self._lease_ms)[0] == 1

    def release(self) -> None:
        try:
            self.run(_RELEASE, **self._row())
        finally:
            self._close()

    def holder(self) -> str:
        for token, note, process, left_ms in self.run(_READ, name=self.server.name)[1]:
            if left_ms > 0:
                what = f" for {note}" if note else ""
                return f"{describe_process(process)}{what} (token {token}, {left_ms / 1000:.1f} s of its lease left)"
        return ""

    def _take(self, gone: str) -> bool:
        """Take the row if it is free, expired, ours, or that of the acquisition ``gone``."""
        note, process = self.contender.note[:200], self.contender.process[:400]
        more = {"note": note, "process": process, "gone": gone, "lease_ms": self._lease_ms}
        return self.run(_TAKE, **self._row(), **more)[0] == 1

    def _row(self) -> dict[str, object]:
        return {"name": self.server.name, "token": self.contender.token}

    @property
    def _lease_ms(self) -> int:
        return int(self.server.lease_s * 1000)


def _says_no_table(error: LockServerError) -> bool:
    """Say whether SQLite ("no such table: ...") or PostgreSQL (SQLSTATE 42P01) says that the table does not exist."""
    return "no such table" in error.message or "42P01" in error.message


def _lock(request: LockRequest) -> LockProvider:
    given = request.lock.of(SqlOptions)
    database = open_database(given.url, request.request_s)
    server = SqlLockServer(database, request.storage.location, given.lease_ms / 1000, request.runtime.process)
    return served(request, server)


LOCK = LockKind({"sql": None}, _lock, SqlOptions, needs={"sql": ("url",)}, extra="sql-lock", on_server=True)
