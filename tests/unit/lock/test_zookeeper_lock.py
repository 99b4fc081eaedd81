"""The lock and the times in ZooKeeper, with a small fake of kazoo's client; `tests/locks/test_zookeeper.py` has a real server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pyhudi_core.errors import LockServerError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.zookeeper import ZooKeeper
from pyhudi_core.lock.server import Contender, ServerLockProvider
from pyhudi_core.lock.servers.zookeeper import ZooKeeperCounter, ZooKeeperLockServer
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.testing.lock_kit import LockKit

client = pytest.importorskip("kazoo.client", reason="an extra")
errors = pytest.importorskip("kazoo.exceptions", reason="an extra")
SERVERS = ZooKeeper("h:2181", 60.0, 1.0)


class Tree:
    """The nodes of a server: content, version and session of each; a session that ended takes its nodes along."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int, int]] = {}
        self.sessions: list[Session] = []
        self.numbers = 0
        self.turn = threading.Lock()

    def expire(self, session: int) -> None:
        self.sessions[session - 1].expired = True
        self.nodes = {path: node for path, node in self.nodes.items() if node[2] != session}


class Session:
    """One session, in place of `kazoo.client.KazooClient`."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.expired = tree, False
        self._connection = SimpleNamespace(_connect=lambda *_: None)
        tree.sessions.append(self)
        self.number = len(tree.sessions)

    def start(self, timeout: float) -> None: ...

    def stop(self) -> None:
        self.tree.expire(self.number)

    def close(self) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self, f"_{name.removesuffix('_async')}")
        return lambda *given, **named: SimpleNamespace(get=lambda timeout: self._answer(method, given, named))

    def _answer(self, method: Callable[..., Any], given: Any, named: Any) -> Any:
        with self.tree.turn:
            if self.expired:
                raise errors.SessionExpiredError
            return method(*given, **named)

    def _node(self, path: str) -> tuple[bytes, int, int]:
        if path not in self.tree.nodes:
            raise errors.NoNodeError
        return self.tree.nodes[path]

    def _create(self, path: str, content: bytes = b"", ephemeral: bool = False, sequence: bool = False) -> str:
        parent = path.rpartition("/")[0]
        if parent:
            self._node(parent)
        if sequence:
            self.tree.numbers += 1
            path += f"{self.tree.numbers:010}"
        if path in self.tree.nodes:
            raise errors.NodeExistsError
        self.tree.nodes[path] = (content, 0, self.number if ephemeral else 0)
        return path

    def _get(self, path: str) -> tuple[bytes, Any]:
        content, version, owner = self._node(path)
        return content, SimpleNamespace(version=version, ephemeralOwner=owner)

    def _set(self, path: str, content: bytes, version: int = -1) -> None:
        _, now, owner = self._node(path)
        if version not in (-1, now):
            raise errors.BadVersionError
        self.tree.nodes[path] = (content, now + 1, owner)

    def _get_children(self, path: str) -> list[str]:
        self._node(path)
        return [each.rpartition("/")[2] for each in self.tree.nodes if each.rpartition("/")[0] == path]

    def _delete(self, path: str) -> None:
        self._node(path)
        del self.tree.nodes[path]


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree()
    monkeypatch.setattr(client, "KazooClient", lambda *_, **__: Session(made))
    return made


class TestZooKeeperLock(LockKit):
    @pytest.fixture
    def providers(self, tree: Tree) -> Callable[[], LockProvider]:
        server = ZooKeeperLockServer(SERVERS, "/hudi/orders")
        return lambda: ServerLockProvider(server, system_runtime(1), "orders", longest_wait_ms=20)


def test_a_session_that_ended_is_replaced_and_its_lock_is_lost(tree: Tree) -> None:
    one = ZooKeeperLockServer(SERVERS, "/hudi/orders").acquisition(Contender("t", "the load", "p"))
    assert one.attempt()
    assert one.renew()
    tree.expire(1)
    assert not one.renew()
    assert one.holder() == ""
    assert one.attempt()
    assert len(tree.sessions) == 2
    one.release()
    assert list(tree.nodes) == ["/hudi", "/hudi/orders"]


def test_a_waiting_writer_says_who_has_the_lock(tree: Tree) -> None:
    server = ZooKeeperLockServer(SERVERS, "/hudi/orders")
    first, second = (server.acquisition(Contender(token, "the load", "host|m|7|s")) for token in ("t1", "t2"))
    assert first.attempt()
    assert not second.attempt()
    assert second.holder() == "process 7 on host for the load (session 0x1)"
    first.release()
    assert second.attempt()
    second.release()


def test_times_rise_also_after_the_session_ended(tree: Tree) -> None:
    counter = ZooKeeperCounter(SERVERS, "/hudi/orders.time")
    assert [counter.next_from(least) for least in (100, 100, 50)] == [100, 101, 102]
    tree.expire(1)
    with pytest.raises(LockServerError):
        counter.next_from(0)
    assert counter.next_from(0) == 103
    counter.close()
