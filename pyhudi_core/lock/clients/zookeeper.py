"""Sessions of ZooKeeper, through kazoo: bounded requests, and errors without credentials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyhudi_core.errors import InvalidOptionError, LockServerError, from_extra, needing
from pyhudi_core.lazy import lazy
from pyhudi_core.storage.certificates import advice, checking
from pyhudi_core.storage.clear_text import warn_of_connection

if TYPE_CHECKING:
    import ssl
else:
    ssl = lazy("ssl")

kazoo_errors: Any = lazy("kazoo.exceptions")
_CA = "pyhudi.lock.zookeeper.tls.ca"
_READ_SHARE = 1.5
"""The session's time divided by kazoo's wait for an answer. Kazoo stores only that wait."""


@dataclass(frozen=True, slots=True)
class Tls:
    """An encrypted connection: files with additional authorities, and with the certificate and key of this client; empty for none."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Login:
    """The user of the connection, and how the user is authenticated: ``digest`` or ``sasl``."""

    how: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """The servers, and the time-outs for them.

    Attributes:
        hosts: servers with their ports, separated by commas.
        session_s: requested length of a session in seconds; the server may grant less.
        request_s: seconds to wait for a connection, and for each answer.
        tls: None for clear text.
        login: None for no user.
    """

    hosts: str
    session_s: float
    request_s: float
    tls: Tls | None = None
    login: Login | None = None

    @property
    def address(self) -> str:
        return ",".join(sorted(self.hosts.split(",")))

    def connect(self, last: ZooKeeperSession | None = None) -> ZooKeeperSession:
        """Open a session, unless the last session is still open. Raises `LockServerError`."""
        if last is not None:
            if not last.has_expired:
                return last
            last.close()
        with from_extra("zookeeper", "The zookeeper lock"):
            from kazoo.client import KazooClient  # noqa: PLC0415 (an extra)

        session = ZooKeeperSession(self, KazooClient(self.hosts, timeout=self.session_s, **self._security()))
        session.start()
        return session

    def _security(self) -> dict[str, Any]:
        """Return kazoo's arguments for TLS and for the user."""
        given: dict[str, Any] = {}
        if self.tls is not None:
            files = {"ca": self.tls.ca, "certfile": self.tls.certificate, "keyfile": self.tls.key}
            checking(self.tls.ca, _CA, (self.tls.certificate, self.tls.key))
            given |= {"use_ssl": True, "verify_certs": True, "check_hostname": True}
            given |= {name: path for name, path in files.items() if path}
        else:
            for server in self.hosts.split(","):
                host, _, port = server.rpartition(":")
                warn_of_connection(
                    host.strip("[]"),
                    int(port) if port.isdecimal() else None,
                    "ZooKeeper",
                    "set pyhudi.lock.zookeeper.tls",
                )
        if self.login is not None and self.login.how == "sasl":
            with needing("pure-sasl", "A lock in ZooKeeper with SASL"):
                import puresasl  # noqa: F401, PLC0415 (kazoo uses it)

            user = {"username": self.login.user, "password": self.login.password}
            given["sasl_options"] = {"mechanism": "DIGEST-MD5", **user}
        elif self.login is not None:
            given["auth_data"] = [("digest", f"{self.login.user}:{self.login.password}")]
        return given


class ZooKeeperSession:
    """An open session; its calls wait for a bounded time, and raise `LockServerError`.

    Attributes:
        granted_s: the length of the session in seconds, as the server granted it.
        has_expired: the server has said that the session ended, and its nodes with it.
    """

    def __init__(self, servers: ZooKeeper, client: Any) -> None:
        self._servers = servers
        self._client = client
        self.granted_s = servers.session_s
        self.has_expired = False
        self._distrusted = ""
        connect = client._connection._connect

        def connect_and_note(*arguments: Any) -> Any:
            try:
                waits = connect(*arguments)
            except kazoo_errors.KazooException as error:
                if isinstance(error.__context__, ssl.SSLError):
                    self._distrusted = f" {error.__context__}"  # kazoo tries again, until the time is over
                if "Sasl" not in type(error).__name__ and "SASL" not in type(error).__name__:
                    raise
                # kazoo expects no other error of a refused user: its thread would end with a traceback.
                raise kazoo_errors.AuthFailedError(str(error)) from error
            self.granted_s = min(self.granted_s, waits[0] * _READ_SHARE / 1000)
            return waits

        # kazoo does not expose the time that the server has granted.
        client._connection._connect = connect_and_note

    def start(self) -> None:
        try:
            with self.errors():
                self._client.start(self._servers.request_s)
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call one of kazoo's asynchronous methods, and wait for the answer. Raises kazoo's errors about nodes unchanged."""
        with self.errors(kazoo_errors.NoNodeError, kazoo_errors.NodeExistsError, kazoo_errors.BadVersionError):
            try:
                return getattr(self._client, f"{method}_async")(*arguments, **named).get(
                    timeout=self._servers.request_s
                )
            except kazoo_errors.SessionExpiredError:
                self.has_expired = True
                raise

    def make_path(self, path: str) -> None:
        """Create the node and its missing parents."""
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            with suppress(kazoo_errors.NodeExistsError):
                self.call("create", "/" + "/".join(parts[:count]))

    def close(self) -> None:
        """End the session. If the server does not answer, the session expires."""
        with suppress(kazoo_errors.KazooException):
            self._client.stop()
            self._client.close()

    @contextmanager
    def errors(self, *passed: type[Exception]) -> Iterator[None]:
        """Convert kazoo's errors, except the given ones."""
        from kazoo.handlers.threading import KazooTimeoutError  # noqa: PLC0415

        try:
            yield
        except passed:
            raise
        except (kazoo_errors.KazooException, KazooTimeoutError, OSError) as error:
            text = f"{type(error).__name__} {error}{self._distrusted}".rstrip()
            raise LockServerError(
                f"ZooKeeper ({self._servers.address}) failed: {text}",
                hint=advice(text, _CA)
                or "Check that ZooKeeper runs, and hoodie.write.lock.zookeeper.url; the log of kazoo.client has the reason.",
            ) from None


def hosts_of(url: str, port: int) -> str:
    """Return the servers of ``hoodie.write.lock.zookeeper.url``; servers without a port get the given port. Raises `InvalidOptionError`."""
    hosts = [host.strip() for host in url.split(",") if host.strip()]
    if not hosts or any("/" in host or "@" in host for host in hosts):
        raise InvalidOptionError(
            "hoodie.write.lock.zookeeper.url is not a list of servers", hint="Write it as host1:2181,host2:2181."
        )
    return ",".join(host if ":" in host else f"{host}:{port}" for host in hosts)
