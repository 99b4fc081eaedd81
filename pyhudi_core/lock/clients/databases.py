"""Databases for locks: SQLite through the standard library, PostgreSQL through pg8000. Errors have no credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from pyhudi_core.errors import InvalidOptionError, LockServerError, from_extra
from pyhudi_core.lazy import lazy
from pyhudi_core.lock.clients.addresses import invalid_address, parts_of
from pyhudi_core.storage.certificates import advice, checking
from pyhudi_core.storage.clear_text import IN_CLEAR_TEXT, UNCHECKED, warn_of_connection

if TYPE_CHECKING:
    import sqlite3
    import ssl
else:
    sqlite3 = lazy("sqlite3")
    ssl = lazy("ssl")

_URL, _FORM = "pyhudi.lock.sql.url", "sqlite:///path/locks.db or postgresql://user:password@host:5432/database"
_CA = "sslrootcert of pyhudi.lock.sql.url"
_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
"""The values of ``sslmode``, from the weakest; see `PostgresDatabase`."""


class Connection(Protocol):
    """An open connection. Each statement is a separate transaction."""

    def run(self, statement: str, values: Mapping[str, object]) -> tuple[int, list[tuple[Any, ...]]]:
        """Execute one statement; returns the number of changed rows, and the rows of the result."""
        ...

    def close(self) -> None: ...


class Database(Protocol):
    """A kind of database. `connect` and the connection raise `LockServerError`; they wait a bounded time for an answer."""

    @property
    def address(self) -> str:
        """The address without credentials."""
        ...

    @property
    def now(self) -> str:
        """The SQL expression of the database's clock in epoch milliseconds."""
        ...

    def connect(self) -> Connection: ...


@dataclass(frozen=True, slots=True)
class SqliteDatabase:
    """A file on a local disk. SQLite's own locks do not work on every network file system.

    It is also the connection. It opens the file for each statement, because with an open file it would not notice a replaced file.
    """

    path: str
    timeout_s: float
    now: str = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

    @property
    def address(self) -> str:
        return f"sqlite://{self.path}"

    def connect(self) -> Connection:
        return self

    def run(self, statement: str, values: Mapping[str, object]) -> tuple[int, list[tuple[Any, ...]]]:
        with _errors(self.address, sqlite3.Error, OSError):
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)  # the folder of the first table, perhaps
            connection = sqlite3.connect(self.path, timeout=self.timeout_s, isolation_level=None)
            with closing(connection):
                connection.execute("BEGIN IMMEDIATE")
                cursor = connection.execute(statement, values)
                rows = cursor.fetchall()
                connection.execute("COMMIT")
                return cursor.rowcount, rows

    def close(self) -> None:
        """Do nothing: no file stays open."""


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """A PostgreSQL server, through pg8000, whose sockets have a time-out.

    ``tls`` has the meaning of libpq's ``sslmode``. ``disable``: clear text. ``prefer``: TLS if the server offers it, without a check.
    ``require``: TLS without a check. ``verify-ca``: the certificate is checked. ``verify-full``: the name, too. ``ca``: the file with authorities
    (``sslrootcert``); empty for the machine's authorities. With such a file ``require`` is ``verify-ca``, as in libpq.
    """

    host: str
    port: int
    database: str
    user: str
    timeout_s: float
    tls: str = "prefer"
    ca: str = ""
    password: str = field(default="", repr=False)
    now: str = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"

    @property
    def address(self) -> str:
        return f"postgresql://{self.host}:{self.port}/{self.database}"

    def connect(self) -> Connection:
        native, errors = _pg8000()
        if self.tls in ("disable", "prefer") or (self.tls == "require" and not self.ca):
            how = IN_CLEAR_TEXT if self.tls == "disable" else UNCHECKED
            warn_of_connection(self.host, self.port, "PostgreSQL", "set sslmode=verify-full", how)
        with _errors(self.address, *errors):
            connection = native.Connection(
                self.user,
                host=self.host,
                port=self.port,
                database=self.database,
                password=self.password,  # without one, pg8000 fails when the server asks for it
                timeout=self.timeout_s,
                ssl_context=self._context(),
                application_name="pyhudi",
            )
        return _PostgresConnection(connection, self.address, errors)

    def _context(self) -> ssl.SSLContext | bool | None:
        """Return pg8000's argument for TLS: None means TLS if the server offers it, False means clear text."""
        if self.tls in ("disable", "prefer"):
            return None if self.tls == "prefer" else False
        context = checking(self.ca, _CA)
        context.check_hostname = self.tls == "verify-full"
        if self.tls == "require" and not self.ca:
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class _PostgresConnection:
    connection: Any
    address: str
    errors: tuple[type[Exception], ...]

    def run(self, statement: str, values: Mapping[str, object]) -> tuple[int, list[tuple[Any, ...]]]:
        with _errors(self.address, *self.errors):
            rows = self.connection.run(statement, **values)
            return self.connection.row_count, [tuple(row) for row in rows or ()]

    def close(self) -> None:
        try:
            self.connection.close()
        except self.errors:
            return  # the server has gone, or the time is over: the socket is closed in any case


def open_database(url: str, timeout_s: float) -> Database:
    """Parse the address of a database. Raises `InvalidOptionError`, which does not show the address, because it may contain a password."""
    path = unquote(urlsplit(url).path).lstrip("/") if url.startswith("sqlite:///") else ""
    if path:
        # SQLAlchemy writes an absolute path with one more slash; both forms name one file, so they are one lock.
        return SqliteDatabase(f"/{path}", timeout_s)
    parts = parts_of(_URL, url, _FORM, "postgresql", "postgres")
    if len(parts.path) < 2:
        raise invalid_address(_URL, _FORM)
    query = dict(parse_qsl(parts.query))
    mode, ca = query.get("sslmode", "prefer"), query.get("sslrootcert", "")
    if query.keys() - {"sslmode", "sslrootcert"} or mode not in _MODES:
        raise InvalidOptionError(
            "pyhudi.lock.sql.url has parameters that are not supported",
            hint=f"Supported: sslmode with one of {', '.join(_MODES)}; and sslrootcert, the file with the authorities.",
        )
    if ca and mode in ("disable", "prefer"):
        raise InvalidOptionError(
            f"pyhudi.lock.sql.url has sslrootcert, and with sslmode={mode} no certificate is checked",
            hint="Set sslmode=verify-full.",
        )
    return PostgresDatabase(
        parts.hostname or "",
        parts.port or 5432,
        unquote(parts.path[1:]),
        unquote(parts.username or ""),
        timeout_s,
        tls=mode,
        ca=ca,
        password=unquote(parts.password or ""),
    )


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
        text = _text(error)
        raise LockServerError(
            f"The database {address} of the lock failed: {text}",
            hint=advice(text, _CA)
            or "Check that the database runs, its address, and user and password in pyhudi.lock.sql.url; PGPASSWORD is not read.",
        ) from None


def _text(error: Exception) -> str:
    """Return the driver's message; PostgreSQL's errors are mappings with the message as M and the SQLSTATE as C."""
    found = error.args[0] if error.args else ""
    if isinstance(found, Mapping):
        return f"{found.get('M', '')} (SQLSTATE {found.get('C', '')})"
    return str(error) or type(error).__name__
