"""Connections to a Hive Metastore, through Thrift: bounded requests, and errors without credentials."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyhudi_core.errors import LockServerError, from_extra
from pyhudi_core.lock.clients.addresses import invalid_address, parts_of
from pyhudi_core.storage.certificates import advice, checking
from pyhudi_core.storage.clear_text import warn_of_connection

_DEFAULT_PORT = 9083
_URIS, _FORM = "hoodie.write.lock.hivemetastore.uris", "thrift://host1:9083,thrift://host2:9083"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_LONGEST_ANSWER, _MOST_LOCKS = 1 << 20, 100_000


class NoSuchLock(Exception):  # noqa: N818 (the metastore's word)
    """The metastore says that a lock does not exist: it was released, or its lease has ended."""


@dataclass(frozen=True, slots=True)
class HiveMetastore:
    """The servers of one metastore, which share a database, and the time-outs for them.

    Attributes:
        servers: host and port of each.
        request_s: seconds to wait for a connection, and for each answer.
        tls, ca: whether connections are encrypted, and the file with the authorities; empty for the machine's authorities.
        ca_key: the option that has ``ca``, for errors.
        most: the maximum number of items in a list of an answer.
    """

    servers: tuple[tuple[str, int], ...]
    request_s: float
    tls: bool = False
    ca: str = ""
    ca_key: str = "pyhudi.lock.hivemetastore.tls.ca"
    most: int = _MOST_LOCKS

    @property
    def address(self) -> str:
        return ",".join(sorted(f"{host}:{port}" for host, port in self.servers))


class HiveConnection:
    """A connection that is opened on first use. After a failure, it is opened again, to the next server. ``settings`` of the metastore apply only to
    this connection. A metastore that does not know a setting keeps its own.
    """

    def __init__(
        self, where: HiveMetastore, what: str = "The hive_metastore lock", settings: Mapping[str, str] = _NOTHING
    ) -> None:
        with from_extra("hive", what):
            from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes  # noqa: PLC0415 (an extra)
        self._where, self._settings = where, settings
        self._make = ThriftHiveMetastore.Client
        self.types: Any = ttypes
        self._client: Any = None
        self._transport: Any = None
        self._turn = 0

    def call(self, method: str, *arguments: object) -> Any:
        """Send one request. After any failure except a missing lock, this closes the connection and raises `LockServerError`.

        Raises `NoSuchLock` if the metastore says that the lock does not exist.
        """
        try:
            return self.send(method, *arguments)
        except self.types.NoSuchLockException:
            raise NoSuchLock from None  # a context manager sets attributes of an exception, and the generated one is read-only
        except self.failures as error:
            text = self.failed(error)
            raise LockServerError(
                f"The Hive Metastore ({self._where.address}) failed: {text}",
                hint=advice(text, self._where.ca_key)
                or f"Check that the metastore runs, and {_URIS}. Kerberos is not supported.",
            ) from None

    def send(self, method: str, *arguments: object) -> Any:
        """Send one request. Raises the errors of Thrift's client: exceptions of the metastore, or the exceptions of `failures`."""
        if self._client is None:
            self._open()
        return getattr(self._client, method)(*arguments)

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """Return the classes of errors that a request raises."""
        from thrift.Thrift import TException  # noqa: PLC0415

        return (TException, OSError, EOFError, UnicodeError)

    def failed(self, error: Exception) -> str:
        """Close the connection after a failure, so that the next request goes to the next server. Return a text about the failure."""
        self.close()
        self._turn += 1
        return f"{type(error).__name__} {getattr(error, 'message', None) or error!s}".rstrip()

    def close(self) -> None:
        transport, self._transport, self._client = self._transport, None, None
        if transport is not None:
            transport.close()

    def _open(self) -> None:
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415
        from thrift.Thrift import TApplicationException  # noqa: PLC0415
        from thrift.transport import TSocket, TTransport  # noqa: PLC0415

        host, port = self._where.servers[self._turn % len(self._where.servers)]
        stream = TSocket.TSocket(host, port)
        stream.setTimeout(self._where.request_s * 1000)
        # Thrift's own way to connect logs an error for every failure.
        stream.setHandle(self._connected(host, port))
        self._transport = TTransport.TBufferedTransport(stream)
        limits = {"string_length_limit": _LONGEST_ANSWER, "container_length_limit": self._where.most}
        self._client = self._make(TBinaryProtocol(self._transport, **limits))
        for name, value in self._settings.items():
            with suppress(self.types.MetaException, TApplicationException):
                self._client.setMetaConf(name, value)

    def _connected(self, host: str, port: int) -> socket.socket:
        context = checking(self._where.ca, self._where.ca_key) if self._where.tls else None
        if context is None:
            warn_of_connection(host, port, "The Hive Metastore", f"set {self._where.ca_key.removesuffix('.ca')}")
        plain = socket.create_connection((host, port), self._where.request_s)
        if context is None:
            return plain
        try:
            return context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise


def servers_of(uris: str, key: str = _URIS) -> tuple[tuple[str, int], ...]:
    """Parse the addresses that the option ``key`` has. Raises `InvalidOptionError`, which does not show the value."""
    found = [parts_of(key, uri.strip(), _FORM, "thrift") for uri in uris.split(",") if uri.strip()]
    if not found or any("@" in parts.netloc or parts.path.strip("/") or parts.query for parts in found):
        raise invalid_address(key, _FORM)
    return tuple((parts.hostname or "", parts.port or _DEFAULT_PORT) for parts in found)
