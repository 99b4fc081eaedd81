"""A lock in a row of an SQL database: SQLite (for the processes of one machine) or PostgreSQL.

The table ``pyhudi_locks`` has a row for each lock. One statement takes the row if it is free, expired, or this claim's own, and changes nothing
otherwise; in SQLite it runs after BEGIN IMMEDIATE. A test shows what happens without this: if the row is read first and written later, two
writers hold the lock.

An acquisition keeps its connection to PostgreSQL until its release; after a failure it opens another one. A file of SQLite is opened for each
request: whoever kept it open would not notice that the file was replaced.

Invariant: only the database's clock decides about expiry, so clocks of writers may differ. Hudi has no provider of this kind.
"""

from __future__ import annotations

import sqlite3
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from pyhudi_core.errors import InvalidOptionError, LockServerError, from_extra
from pyhudi_core.lock.server import Claim, Claimant, describe_process
from pyhudi_core.runtime.base import Process

_URL_HINT = "Set pyhudi.lock.sql.url to sqlite:///path/locks.db or postgresql://user:password@host:5432/database."
_TLS = {"disable": False, "verify-full": True}
"""What ``sslmode`` asks for; see `PostgresDatabase`."""
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


class Connection(Protocol):
    """An open connection: statements of one transaction, which ends with `finish`."""

    def run(self, statement: str, values: Mapping[str, object]) -> tuple[int, list[tuple[Any, ...]]]:
        """Execute one statement; returns the number of changed rows, and the rows of the result."""
        ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


class Database(Protocol):
    """A kind of database. `connect` and the connection raise `LockServerError`; they wait for an answer for a bounded time."""

    @property
    def address(self) -> str:
        """The address without credentials."""
        ...

    @property
    def now(self) -> str:
        """The SQL expression of the database's clock in epoch milliseconds."""
        ...

    @property
    def keeps_connections(self) -> bool:
        """Whether a connection serves further requests."""
        ...

    def connect(self) -> Connection: ...


@dataclass(frozen=True, slots=True)
class SqliteDatabase:
    """A file on a local disk. SQLite's own locks do not work on every network file system."""

    path: str
    timeout_s: float
    now: str = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    keeps_connections: bool = False

    @property
    def address(self) -> str:
        return f"sqlite://{self.path}"

    def connect(self) -> Connection:
        with _errors(self.address, sqlite3.Error, OSError):
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)  # the folder of the first table, perhaps
            connection = sqlite3.connect(
                self.path, timeout=self.timeout_s, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("BEGIN IMMEDIATE")
            except BaseException:
                connection.close()
                raise
        return _SqliteConnection(connection, self.address)


@dataclass(frozen=True, slots=True)
class _SqliteConnection:
    connection: sqlite3.Connection
    address: str

    def run(self, statement: str, values: Mapping[str, object]) -> tuple[int, list[tuple[Any, ...]]]:
        with _errors(self.address, sqlite3.Error):
            cursor = self.connection.execute(statement, values)
            return cursor.rowcount, cursor.fetchall()

    def finish(self) -> None:
        with _errors(self.address, sqlite3.Error):
            self.connection.execute("COMMIT")

    def close(self) -> None:
        self.connection.close()


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """A PostgreSQL server, through pg8000, whose sockets have a time-out.

    ``encrypted``: True for TLS with a certificate that is checked, False for none. None takes TLS if the server offers it, and checks nothing.
    """

    host: str
    port: int
    database: str
    user: str
    timeout_s: float
    encrypted: bool | None = None
    password: str = field(default="", repr=False)
    now: str = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    keeps_connections: bool = True

    @property
    def address(self) -> str:
        return f"postgresql://{self.host}:{self.port}/{self.database}"

    def connect(self) -> Connection:
        native, errors = _pg8000()
        with _errors(self.address, *errors):
            connection = native.Connection(
                self.user,
                host=self.host,
                port=self.port,
                database=self.database,
                password=self.password,  # without one, pg8000 fails when the server asks for it
                timeout=self.timeout_s,
                ssl_context=ssl.create_default_context() if self.encrypted else self.encrypted,
                application_name="pyhudi",
            )
        return _PostgresConnection(connection, self.address, errors)


@dataclass(frozen=True, slots=True)
class _PostgresConnection:
    connection: Any
    address: str
    errors: tuple[type[Exception], ...]

    def run(self, statement: str, values: Mapping[str, object]) -> tuple[int, list[tuple[Any, ...]]]:
        with _errors(self.address, *self.errors):
            rows = self.connection.run(statement, **values)
            return self.connection.row_count, [tuple(row) for row in rows or ()]

    def finish(self) -> None:
        """Each statement is a transaction of its own."""

    def close(self) -> None:
        try:
            self.connection.close()
        except self.errors:
            return  # the server has gone, or the time is over: the socket is closed in any case


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

    def claim(self, claimant: Claimant) -> Claim:
        return SqlClaim(self, claimant)


class SqlClaim:
    """One acquisition of the row, with its connection."""

    def __init__(self, server: SqlLockServer, claimant: Claimant) -> None:
        self.server = server
        self.claimant = claimant
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
        """Take the row if it is free, expired, ours, or that of the claim ``gone``."""
        note, process = self.claimant.note[:200], self.claimant.process[:400]
        more = {"note": note, "process": process, "gone": gone, "lease_ms": self._lease_ms}
        return self.run(_TAKE, **self._row(), **more)[0] == 1

    def _row(self) -> dict[str, object]:
        return {"name": self.server.name, "token": self.claimant.token}

    @property
    def _lease_ms(self) -> int:
        return int(self.server.lease_s * 1000)


def open_database(url: str, timeout_s: float) -> Database:
    """Parse the address of a database. Raises `InvalidOptionError`, which does not show the address, because it may contain a password."""
    try:
        parts = urlsplit(url)
        port = parts.port or 5432
    except ValueError:
        raise InvalidOptionError("pyhudi.lock.sql.url is not a valid address", hint=_URL_HINT) from None
    if parts.scheme == "sqlite" and parts.path.startswith("/") and len(parts.path) > 1 and not parts.netloc:
        # SQLAlchemy writes an absolute path with one slash more; both are one file, so they are one lock.
        return SqliteDatabase("/" + unquote(parts.path).lstrip("/"), timeout_s)
    if url.count("@") > parts.netloc.count("@") or parts.netloc.count("@") > 1:
        # A part of the password would be taken for the host or the database, which messages show.
        raise InvalidOptionError(
            "pyhudi.lock.sql.url is not a valid address: it has an @ that does not end the password",
            hint="Percent-encode special characters of user and password: %40 for @, %2F for /, %3F for ?, %23 for #, %3A for :.",
        )
    query = dict(parse_qsl(parts.query))
    if parts.scheme not in ("postgresql", "postgres") or not parts.hostname or len(parts.path) < 2:
        raise InvalidOptionError("pyhudi.lock.sql.url is not a valid address", hint=_URL_HINT)
    if query.keys() - {"sslmode"} or query.get("sslmode", "disable") not in _TLS:
        raise InvalidOptionError(
            "pyhudi.lock.sql.url has parameters that are not supported",
            hint="Supported: sslmode=disable and sslmode=verify-full.",
        )
    return PostgresDatabase(
        parts.hostname,
        port,
        unquote(parts.path[1:]),
        unquote(parts.username or ""),
        timeout_s,
        encrypted=_TLS.get(query.get("sslmode", "")),
        password=unquote(parts.password or ""),
    )


def _says_no_table(error: LockServerError) -> bool:
    """Whether SQLite ("no such table: ...") or PostgreSQL (SQLSTATE 42P01) says that the table does not exist."""
    return "no such table" in error.message or "42P01" in error.message


def _pg8000() -> tuple[Any, tuple[type[Exception], ...]]:
    with from_extra("sql-lock", "The sql lock in PostgreSQL"):
        from pg8000 import native  # noqa: PLC0415 (an extra)
        from pg8000.exceptions import DatabaseError, InterfaceError  # noqa: PLC0415
    return native, (InterfaceError, DatabaseError, OSError)


@contextmanager
def _errors(address: str, *kinds: type[Exception]) -> Iterator[None]:
    """Convert the driver's errors."""
    try:
        yield
    except kinds as error:
        raise LockServerError(
            f"The database {address} of the lock failed: {_text(error)}",
            hint="Check that the database runs, its address, and user and password in pyhudi.lock.sql.url; PGPASSWORD is not read.",
        ) from None


def _text(error: Exception) -> str:
    """The driver's message; PostgreSQL's errors are mappings with the message as M and the SQLSTATE as C."""
    found = error.args[0] if error.args else ""
    if isinstance(found, Mapping):
        return f"{found.get('M', '')} (SQLSTATE {found.get('C', '')})"
    return str(error) or type(error).__name__
