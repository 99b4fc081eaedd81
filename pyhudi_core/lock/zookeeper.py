"""The lock of Hudi's ZookeeperBasedLockProvider, so that Java and Python writers exclude each other; and times from ZooKeeper.

Hudi uses Curator's InterProcessMutex: each writer creates an ephemeral, sequential node ``_c_<unique>-lock-<number>`` below the lock's node,
and the lowest number has the lock. An ephemeral node ends with the session of its writer, so a dead writer's lock ends by itself.

Each acquisition has a session of its own. A renewal is a write to the own node, not a read, because a server of an ensemble that has lost its
leader still answers reads: the leader could have ended the session meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyhudi_core.errors import InvalidOptionError, LockServerError, from_extra
from pyhudi_core.lock.server import Claim, Claimant, describe_process

_MARK = "-lock-"
_READ_SHARE = 1.5
"""kazoo waits two thirds of the session's time for an answer, and keeps only this value."""


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """The servers, and how long to wait for them.

    Attributes:
        hosts: servers with their ports, separated by commas.
        session_s: requested length of a session in seconds; the server may grant less.
        request_s: seconds to wait for a connection, and for each answer.
    """

    hosts: str
    session_s: float
    request_s: float

    @property
    def address(self) -> str:
        return ",".join(sorted(self.hosts.split(",")))

    def connect(self) -> ZooKeeperSession:
        """Open a session. Raises `LockServerError`."""
        with from_extra("zookeeper", "The zookeeper lock"):
            from kazoo.client import KazooClient  # noqa: PLC0415 (an extra)

        session = ZooKeeperSession(self, KazooClient(self.hosts, timeout=self.session_s))
        session.start()
        return session


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
        connect = client._connection._connect

        def connect_and_note(*arguments: Any) -> Any:
            waits = connect(*arguments)
            self.granted_s = min(self.granted_s, waits[0] * _READ_SHARE / 1000)
            return waits

        # kazoo does not tell which time the server has granted.
        client._connection._connect = connect_and_note

    def start(self) -> None:
        try:
            with self.errors():
                self._client.start(self._servers.request_s)
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call one of kazoo's asynchronous methods, and wait for the answer. Raises kazoo's errors about nodes as they are."""
        from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, SessionExpiredError  # noqa: PLC0415

        with self.errors(NoNodeError, NodeExistsError, BadVersionError):
            try:
                return getattr(self._client, f"{method}_async")(*arguments, **named).get(
                    timeout=self._servers.request_s
                )
            except SessionExpiredError:
                self.has_expired = True
                raise

    def make_path(self, path: str) -> None:
        """Create the node and its parents, as far as they are missing."""
        from kazoo.exceptions import NodeExistsError  # noqa: PLC0415

        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            with suppress(NodeExistsError):
                self.call("create", "/" + "/".join(parts[:count]))

    def close(self) -> None:
        """End the session; if the server does not answer, it ends by itself."""
        from kazoo.exceptions import KazooException  # noqa: PLC0415

        with suppress(KazooException):
            self._client.stop()
            self._client.close()

    @contextmanager
    def errors(self, *passed: type[Exception]) -> Iterator[None]:
        """Convert kazoo's errors, except the given ones."""
        from kazoo.exceptions import KazooException  # noqa: PLC0415
        from kazoo.handlers.threading import KazooTimeoutError  # noqa: PLC0415

        try:
            yield
        except passed:
            raise
        except (KazooException, KazooTimeoutError, OSError) as error:
            raise LockServerError(
                f"ZooKeeper ({self._servers.address}) failed: {type(error).__name__} {error}".rstrip(),
                hint="Check that ZooKeeper runs, and hoodie.write.lock.zookeeper.url; the log of kazoo.client has the reason.",
            ) from None


@dataclass(frozen=True, slots=True)
class ZooKeeperLockServer:
    """A lock's node.

    Args:
        servers: the servers.
        path: the node, such as ``/hudi/orders``; it is created if it is missing.
    """

    servers: ZooKeeper
    path: str

    @property
    def identity(self) -> str:
        return f"zookeeper:{self.servers.address}{self.path}"

    def claim(self, claimant: Claimant) -> Claim:
        return ZooKeeperClaim(self, claimant)


class ZooKeeperClaim:
    """One acquisition: a session, and the node that it has in the queue."""

    def __init__(self, server: ZooKeeperLockServer, claimant: Claimant) -> None:
        self._server = server
        self._claimant = claimant
        self._session: ZooKeeperSession | None = None
        self._node = ""
        self._unreleased: LockServerError | None = None

    @property
    def lease_s(self) -> float:
        return self._session.granted_s if self._session is not None else self._server.servers.session_s

    @property
    def renew_s(self) -> float:
        return self.lease_s / 4

    def attempt(self) -> bool:
        session = self._open()
        queue = self._queue(session)
        mine = [name for name in queue if self._claimant.token in name]
        if not mine:
            # Also after a session that ended: its node has gone with it.
            self._node = self._enqueue(session)
            queue = self._queue(session)
        else:
            self._node = f"{self._server.path}/{mine[0]}"
        is_first = bool(queue) and self._node == f"{self._server.path}/{queue[0]}"
        # The node may be from an earlier request, so the lease begins with a new write.
        return is_first and self.renew()

    def renew(self) -> bool:
        from kazoo.exceptions import NoNodeError  # noqa: PLC0415

        session = self._open()
        try:
            session.call("set", self._node, self._content())
        except NoNodeError:
            return False
        except LockServerError:
            if session.has_expired:
                return False
            raise
        return True

    def release(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                for name in self._queue(session):
                    if self._claimant.token in name:
                        self._delete(session, name)
            except LockServerError as error:
                # The node ends with the session, whose client is closed.
                self._unreleased = None if session.has_expired else error
            finally:
                session.close()
        if self._unreleased is not None:
            raise self._unreleased

    def holder(self) -> str:
        from kazoo.exceptions import NoNodeError  # noqa: PLC0415

        session = self._open()
        for name in self._queue(session):
            if self._claimant.token in name:
                continue
            try:
                content, stat = session.call("get", f"{self._server.path}/{name}")
            except NoNodeError:
                continue
            return f"{_describe(content)} (session {stat.ephemeralOwner:#x})"
        return ""

    def _open(self) -> ZooKeeperSession:
        if self._session is not None and self._session.has_expired:
            self._session.close()
            self._session = None
        if self._session is None:
            self._session = self._server.servers.connect()
        return self._session

    def _queue(self, session: ZooKeeperSession) -> list[str]:
        """The nodes of all who hold the lock or wait for it, in the order of their numbers."""
        from kazoo.exceptions import NoNodeError  # noqa: PLC0415

        try:
            names = session.call("get_children", self._server.path)
        except NoNodeError:
            return []
        return sorted((name for name in names if _MARK in name), key=lambda name: name.rpartition(_MARK)[2])

    def _enqueue(self, session: ZooKeeperSession) -> str:
        from kazoo.exceptions import NoNodeError  # noqa: PLC0415

        node = f"{self._server.path}/_c_{self._claimant.token}{_MARK}"
        create = partial(session.call, "create", node, self._content(), ephemeral=True, sequence=True)
        try:
            return str(create())
        except NoNodeError:
            session.make_path(self._server.path)
            return str(create())

    def _delete(self, session: ZooKeeperSession, name: str) -> None:
        from kazoo.exceptions import NoNodeError  # noqa: PLC0415

        with suppress(NoNodeError):
            session.call("delete", f"{self._server.path}/{name}")

    def _content(self) -> bytes:
        return json.dumps({"process": self._claimant.process, "note": self._claimant.note[:200]}).encode()


class ZooKeeperCounter:
    """Times that rise over all processes: a node with the latest time, replaced on condition of its version."""

    def __init__(self, servers: ZooKeeper, path: str) -> None:
        self._servers = servers
        self._path = path
        self._session: ZooKeeperSession | None = None

    def next_from(self, least: int) -> int:
        """Return a time above every time that was returned before, and at least ``least``. Raises `LockServerError`."""
        from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError  # noqa: PLC0415

        if self._session is not None and self._session.has_expired:
            self.close()
        if self._session is None:
            self._session = self._servers.connect()
        session = self._session
        while True:
            try:
                # A read may come from a server that lags behind, but then the condition of the write fails.
                content, stat = session.call("get", self._path)
                found = max(least, int(content or b"0") + 1)
                session.call("set", self._path, str(found).encode(), version=stat.version)
            except BadVersionError:
                session.call("sync", self._path)
                continue
            except NoNodeError:
                with suppress(NodeExistsError):
                    session.make_path(self._path)
                continue
            return found

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def hosts_of(url: str, port: int) -> str:
    """The servers of ``hoodie.write.lock.zookeeper.url``; those without a port get the given one. Raises `InvalidOptionError`."""
    hosts = [host.strip() for host in url.split(",") if host.strip()]
    if not hosts or any("/" in host or "@" in host for host in hosts):
        raise InvalidOptionError(
            "hoodie.write.lock.zookeeper.url is not a list of servers", hint="Write it as host1:2181,host2:2181."
        )
    return ",".join(host if ":" in host else f"{host}:{port}" for host in hosts)


def _describe(content: bytes) -> str:
    """Describe the writer of a node; Curator's nodes contain its address."""
    try:
        found = json.loads(content)
        what = f" for {found['note']}" if found["note"] else ""
        return f"{describe_process(str(found['process']))}{what}"
    except (ValueError, TypeError, KeyError):
        return f"{content[:100].decode(errors='replace') or 'an unknown process'} (written by another tool)"
