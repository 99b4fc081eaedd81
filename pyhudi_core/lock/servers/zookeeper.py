"""The lock of Hudi's ZookeeperBasedLockProvider, so that Java and Python writers exclude each other; and times from ZooKeeper.

Hudi uses Curator's InterProcessMutex: each writer creates an ephemeral, sequential node ``_c_<unique>-lock-<number>`` below the lock's node,
and the lowest number has the lock. An ephemeral node ends with the session of its writer, so a dead writer's lock ends by itself.

Each acquisition has a session of its own. A renewal is a write to its own node, not a read. A server that has lost its leader still answers reads,
although the leader may have ended the session meanwhile.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyhudi_core.errors import InvalidOptionError, LockServerError
from pyhudi_core.lazy import lazy
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.zookeeper import Login, Tls, ZooKeeper, ZooKeeperSession, hosts_of
from pyhudi_core.lock.kind import LockKind, LockRequest, lock_option, served
from pyhudi_core.lock.server import Acquisition, Contender, describe_holder
from pyhudi_core.model.option import words

kazoo_errors: Any = lazy("kazoo.exceptions")

_MARK = "-lock-"
_KEYS = "hoodie.write.lock.zookeeper."
_OWN = "pyhudi.lock.zookeeper."
_PACKAGE = "org.apache.hudi.client.transaction.lock."


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """Where the servers and the lock's node are, and how long to wait."""

    url: str = lock_option(f"{_KEYS}url", "", "ZooKeeper's servers, such as `zk1:2181,zk2:2181`.")
    port: int = lock_option(
        f"{_KEYS}port", 2181, "The port of servers that `url` names without one.", minimum=1, maximum=65_535
    )
    base_path: str = lock_option(f"{_KEYS}base_path", "", "The node below which the locks are, such as `/hudi`.")
    lock_key: str = lock_option(
        f"{_KEYS}lock_key", "", "The lock's node below `base_path`; by default the table's name."
    )
    session_ms: int = lock_option(
        f"{_KEYS}session_timeout_ms", 60_000,
        "Milliseconds without a message from a writer after which ZooKeeper releases its lock. The server may limit this number.",
        minimum=100)  # fmt: skip
    connection_ms: int = lock_option(
        f"{_KEYS}connection_timeout_ms", 15_000,
        "Milliseconds to wait for a connection to ZooKeeper, and for each answer.", minimum=10)  # fmt: skip
    tls: bool = lock_option(
        f"{_OWN}tls",
        False,
        "Encrypt the connections, and check the certificates and names of the servers (`secureClientPort`).",
    )
    ca: str = lock_option(
        f"{_OWN}tls.ca",
        "",
        "A file with authorities that may sign these certificates, in addition to the authorities of the machine.",
    )
    certificate: str = lock_option(f"{_OWN}tls.certificate", "", "A file with the certificate of this client.")
    key: str = lock_option(
        f"{_OWN}tls.key", "", "A file with the key of this certificate. The key must not be encrypted."
    )
    auth: str = lock_option(
        f"{_OWN}auth", "digest",
        "How the client authenticates: `digest`, ZooKeeper's scheme of this name; `sasl`, DIGEST-MD5, which needs the package pure-sasl.",
        choices=words("digest", "sasl"), not_yet=("gssapi", "kerberos"))  # fmt: skip
    user: str = lock_option(f"{_OWN}user", "", "The user. Without it, the client does not authenticate.")
    password: str = lock_option(f"{_OWN}password", "", "The password of this user.", secret=True)

    def __post_init__(self) -> None:
        files = {f"{_OWN}tls.{name}": getattr(self, name) for name in ("ca", "certificate", "key")}
        given = [key for key, value in files.items() if value]
        if given and not self.tls:
            raise InvalidOptionError(
                f"{given[0]} is given, and {_OWN}tls is not true",
                hint="Set it to true, so that the connection is encrypted; or omit the file.",
            )
        if bool(self.certificate) != bool(self.key):
            raise InvalidOptionError(
                f"Of {_OWN}tls.certificate and {_OWN}tls.key only one is given", hint="Give both, or neither."
            )
        if bool(self.user) != bool(self.password):
            raise InvalidOptionError(
                f"Of {_OWN}user and {_OWN}password only one is given", hint="Give both, or neither."
            )


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

    def acquisition(self, contender: Contender) -> Acquisition:
        return ZooKeeperAcquisition(self, contender)


class ZooKeeperAcquisition(Acquisition):
    """One acquisition: a session, and the node that it has in the queue."""

    def __init__(self, server: ZooKeeperLockServer, contender: Contender) -> None:
        self._server = server
        self._contender = contender
        self._session: ZooKeeperSession | None = None
        self._node = ""
        self._unreleased: LockServerError | None = None

    @property
    def lease_s(self) -> float:
        session = self._session  # read once: another thread may open a new one
        return session.granted_s if session is not None else self._server.servers.session_s

    def attempt(self) -> bool:
        session = self._open()
        queue = self._queue(session)
        mine = [name for name in queue if self._contender.token in name]
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
        session = self._open()
        try:
            session.call("set", self._node, self._content())
        except kazoo_errors.NoNodeError:
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
                    if self._contender.token in name:
                        self._delete(session, name)
            except LockServerError as error:
                # The node ends with the session, whose client is closed.
                self._unreleased = None if session.has_expired else error
            finally:
                session.close()
        if self._unreleased is not None:
            raise self._unreleased

    def holder(self) -> str:
        session = self._open()
        for name in self._queue(session):
            if self._contender.token in name:
                continue
            try:
                content, stat = session.call("get", f"{self._server.path}/{name}")
            except kazoo_errors.NoNodeError:
                continue
            return f"{_describe(content)} (session {stat.ephemeralOwner:#x})"
        return ""

    def _open(self) -> ZooKeeperSession:
        last = self._session
        if last is not None and last.has_expired:
            self._session = None
        session = self._session = self._server.servers.connect(last)
        return session

    def _queue(self, session: ZooKeeperSession) -> list[str]:
        """Return the nodes of the holder and of all waiting writers, in the order of their numbers."""
        try:
            names = session.call("get_children", self._server.path)
        except kazoo_errors.NoNodeError:
            return []
        return sorted((name for name in names if _MARK in name), key=lambda name: name.rpartition(_MARK)[2])

    def _enqueue(self, session: ZooKeeperSession) -> str:
        node = f"{self._server.path}/_c_{self._contender.token}{_MARK}"
        create = partial(session.call, "create", node, self._content(), ephemeral=True, sequence=True)
        try:
            return str(create())
        except kazoo_errors.NoNodeError:
            session.make_path(self._server.path)
            return str(create())

    def _delete(self, session: ZooKeeperSession, name: str) -> None:
        with suppress(kazoo_errors.NoNodeError):
            session.call("delete", f"{self._server.path}/{name}")

    def _content(self) -> bytes:
        return json.dumps({"process": self._contender.process, "note": self._contender.note}).encode()


class ZooKeeperCounter:
    """Times that rise over all processes: a node with the latest time, replaced on condition of its version."""

    def __init__(self, servers: ZooKeeper, path: str) -> None:
        self._servers = servers
        self._path = path
        self._session: ZooKeeperSession | None = None

    def next_from(self, least: int) -> int:
        """Return a time above every time that was returned before, and at least ``least``. Raises `LockServerError`."""
        last, self._session = self._session, None
        session = self._session = self._servers.connect(last)
        while True:
            try:
                # A read may come from a server that lags behind, but then the condition of the write fails.
                content, stat = session.call("get", self._path)
                found = max(least, int(content or b"0") + 1)
                session.call("set", self._path, str(found).encode(), version=stat.version)
            except kazoo_errors.BadVersionError:
                session.call("sync", self._path)
                continue
            except kazoo_errors.NoNodeError:
                with suppress(kazoo_errors.NodeExistsError):
                    session.make_path(self._path)
                continue
            return found

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _describe(content: bytes) -> str:
    """Describe the writer of a node; Curator's nodes contain its address."""
    try:
        found = json.loads(content)
        return describe_holder(str(found["process"]), str(found["note"] or ""))
    except (ValueError, TypeError, KeyError):
        return f"{content[:100].decode(errors='replace') or 'an unknown process'} (written by another tool)"


def _servers(request: LockRequest) -> ZooKeeper:
    given = request.lock.of(ZooKeeperOptions)
    hosts = hosts_of(given.url, given.port)
    tls = Tls(given.ca, given.certificate, given.key) if given.tls else None
    login = Login(given.auth, given.user, given.password) if given.user else None
    return ZooKeeper(hosts, given.session_ms / 1000, given.connection_ms / 1000, tls, login)


def _path(request: LockRequest) -> str:
    """Return the node that the options name."""
    given = request.lock.of(ZooKeeperOptions)
    return f"/{given.base_path.strip('/')}/{given.lock_key or request.name}".replace("//", "/")


def _lock(request: LockRequest) -> LockProvider:
    """Return the lock at the node that Hudi's provider of this name chooses."""
    is_implicit = request.lock.provider == "zookeeper_implicit"
    path = f"/tmp/{request.implicit_key()}/lock_key" if is_implicit else _path(request)  # noqa: S108 (a node, not a file)
    return served(request, ZooKeeperLockServer(_servers(request), path))


def _counter(request: LockRequest) -> ZooKeeperCounter:
    return ZooKeeperCounter(_servers(request), f"{_path(request)}.time")


LOCK = LockKind(
    {
        "zookeeper": f"{_PACKAGE}ZookeeperBasedLockProvider",
        "zookeeper_implicit": f"{_PACKAGE}ZookeeperBasedImplicitBasePathLockProvider",
    },
    _lock,
    ZooKeeperOptions,
    needs={"zookeeper": ("url", "base_path"), "zookeeper_implicit": ("url",)},
    extra="zookeeper",
    on_server=True,
    counter=_counter,
)
