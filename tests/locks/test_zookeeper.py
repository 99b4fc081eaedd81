"""The lock and the times of ZooKeeper, on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from locks.server_cases import SECRET, Lab, ServerCases
from locks.servers import Server, scratch, secure_zookeeper, zookeeper
from locks.time_cases import CounterCases
from pyhudi_core.errors import LockServerError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.zookeeper import ZooKeeper
from pyhudi_core.lock.server import Contender
from pyhudi_core.lock.server_clock import Counter
from pyhudi_core.lock.servers.zookeeper import ZooKeeperCounter, ZooKeeperLockServer
from pyhudi_core.testing.lock_kit import LockKit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with scratch() as folder, zookeeper(folder).running() as running:
        yield running


@pytest.fixture
def lab(server: Server, tmp_path: Path) -> Lab:
    def options(port: int) -> dict[str, object]:
        return {
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url": "127.0.0.1",
            "hoodie.write.lock.zookeeper.port": port,
            "hoodie.write.lock.zookeeper.base_path": f"/hudi/{tmp_path.name}",
            "hoodie.write.lock.zookeeper.session_timeout_ms": 6_000,
            "hoodie.write.lock.zookeeper.connection_timeout_ms": 2_000,
            "hoodie.write.lock.wait_time_ms_between_retry": 50,
        }

    return Lab(server.port, options, 6.0, server.stopped, str(tmp_path / "orders"))


@pytest.mark.row("O2", "T10")
class TestZooKeeper(LockKit, ServerCases):
    @pytest.fixture
    def providers(self, lab: Lab) -> Callable[[], LockProvider]:
        return lambda: lab.provider(**{"hoodie.write.lock.zookeeper.session_timeout_ms": 60_000})

    def test_the_lock_of_hudis_implicit_provider_is_found_by_the_location(self, lab: Lab) -> None:
        provider = lab.provider(**{"hoodie.write.lock.provider": "zookeeper_implicit"})
        assert provider.identity.startswith(f"zookeeper:127.0.0.1:{lab.port}/tmp/")
        session = provider.acquire(20)
        assert session.still_held()
        session.release()

    def test_a_lease_is_not_longer_than_the_session_that_the_server_grants(self, lab: Lab, tmp_path: Path) -> None:
        """This server grants 60 s at most."""
        server = ZooKeeperLockServer(ZooKeeper(f"127.0.0.1:{lab.port}", 300.0, 5.0), f"/granted/{tmp_path.name}")
        acquisition = server.acquisition(Contender("token", "", ""))
        assert acquisition.attempt()
        assert acquisition.lease_s == 60.0
        acquisition.release()


@pytest.mark.row("T10")
class TestTimesOfZooKeeper(CounterCases):
    @pytest.fixture
    def counters(self, server: Server, tmp_path: Path) -> Callable[[], Counter]:
        servers = ZooKeeper(f"127.0.0.1:{server.port}", 10.0, 5.0)
        return lambda: ZooKeeperCounter(servers, f"/hudi/{tmp_path.name}/orders.time")

    @pytest.fixture
    def options(self, lab: Lab) -> dict[str, object]:
        return {**lab.options(lab.port), "pyhudi.time.generator": "zookeeper"}


@pytest.fixture(scope="module")
def secure() -> Iterator[Server]:
    with scratch() as folder, secure_zookeeper(folder, "job", SECRET).running() as running:
        yield running


@pytest.fixture
def secure_lab(secure: Server, tmp_path: Path) -> Lab:
    def options(port: int) -> dict[str, object]:
        return {
            "lock": "zookeeper",
            "hoodie.write.lock.zookeeper.url": f"localhost:{port}",
            "hoodie.write.lock.zookeeper.base_path": f"/hudi/{tmp_path.name}",
            "hoodie.write.lock.zookeeper.connection_timeout_ms": 4_000,
            "hoodie.write.lock.wait_time_ms_between_retry": 50,
            "pyhudi.lock.zookeeper.tls": "true",
            "pyhudi.lock.zookeeper.tls.ca": str(secure.folder / "server.pem"),
            "pyhudi.lock.zookeeper.auth": "sasl",
            "pyhudi.lock.zookeeper.user": "job",
            "pyhudi.lock.zookeeper.password": SECRET,
        }

    return Lab(secure.port, options, 6.0, secure.stopped, str(tmp_path / "orders"))


@pytest.mark.row("T10")
class TestSecureZooKeeper(LockKit):
    """A server that speaks TLS only, and only with a user of SASL."""

    @pytest.fixture
    def providers(self, secure_lab: Lab) -> Callable[[], LockProvider]:
        return secure_lab.provider

    @pytest.mark.parametrize(
        "wrong",
        [
            {"pyhudi.lock.zookeeper.password": f"{SECRET}x"},
            {"pyhudi.lock.zookeeper.user": "", "pyhudi.lock.zookeeper.password": ""},
            {"pyhudi.lock.zookeeper.tls": "false", "pyhudi.lock.zookeeper.tls.ca": ""},
            {"pyhudi.lock.zookeeper.tls.ca": ""},
        ],
        ids=["a wrong password", "nobody", "clear text", "an unknown authority"],
    )
    def test_whoever_is_wrong_gets_no_lock(self, secure_lab: Lab, wrong: dict[str, object]) -> None:
        with pytest.raises(LockServerError) as refused:
            secure_lab.provider(**wrong).acquire(0)
        assert SECRET not in str(refused.value)
