"""The lock of a Hive Metastore, on a real server with Derby."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.tcp_proxy import TcpProxy
from support.waiting import until

from locks.server_cases import Lab, ServerCases, another_process
from locks.servers import Server, hive_metastore, scratch
from pyhudi_core.errors import LockServerError, LockTimeoutError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.hive_metastore import HiveMetastore
from pyhudi_core.lock.server import Contender
from pyhudi_core.lock.servers.hive_metastore import HiveAcquisition, HiveLockServer
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.testing.lock_kit import LockKit

pytestmark = pytest.mark.slow
LEASE_S = 8


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with scratch() as folder, hive_metastore(folder, LEASE_S).running() as running:
        yield running


def lab_at(server: Server, folder: Path) -> Lab:
    def options(port: int) -> dict[str, object]:
        return {
            "hoodie.write.lock.provider": "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
            "hoodie.write.lock.hivemetastore.uris": f"thrift://127.0.0.1:{port}",
            "hoodie.write.lock.hivemetastore.database": "Sales",
            "hoodie.write.lock.hivemetastore.table": folder.name,
            "pyhudi.lock.request.timeout.ms": 6_000,
            "hoodie.write.lock.wait_time_ms_between_retry": 50,
        }

    return Lab(server.port, options, float(LEASE_S), server.stopped, str(folder / "orders"))


@pytest.fixture
def lab(server: Server, tmp_path: Path) -> Lab:
    return lab_at(server, tmp_path)


@pytest.mark.row("O4", "T10")
class TestHiveMetastore(LockKit, ServerCases):
    @pytest.fixture
    def providers(self, lab: Lab) -> Callable[[], LockProvider]:
        return lab.provider

    def test_the_lease_is_the_time_of_the_metastore(self, lab: Lab) -> None:
        held = lab.provider().acquire(20)
        assert LEASE_S - 3 < held.lease_left_s() <= LEASE_S  # type: ignore[attr-defined]
        held.release()

    def test_the_next_of_several_metastores_is_asked_if_one_is_gone(self, lab: Lab) -> None:
        uris = f"thrift://127.0.0.1:1,thrift://127.0.0.1:{lab.port}"
        held = lab.provider(**{"hoodie.write.lock.hivemetastore.uris": uris}).acquire(20)
        with pytest.raises(LockTimeoutError):
            lab.provider().acquire(0)
        held.release()

    @pytest.mark.parametrize("tries_again", [True, False])
    def test_a_lock_whose_answer_is_lost_is_found_again(self, tries_again: bool, lab: Lab) -> None:
        """The metastore has made a lock, and the writer does not know its number."""
        proxy = TcpProxy(lab.port)
        acquisition = acquisition_at(proxy.port, lab)
        acquisition._lease_s = LEASE_S  # its answer is not the one that is dropped
        proxy.drop_next_answer()
        with pytest.raises(LockServerError):
            acquisition.attempt()
        with pytest.raises(LockTimeoutError, match="the note"):
            lab.provider().acquire(0)
        if tries_again:
            assert acquisition.attempt()
            assert len(acquisition._queue()) == 1
        acquisition.release()
        assert acquisition._queue() == []
        proxy.close()

    def test_a_request_that_the_metastore_has_removed_is_made_again(self, lab: Lab) -> None:
        held, waiting = lab.provider().acquire(20), acquisition_at(lab.port, lab)
        assert not waiting.attempt()
        waiting._unlock(waiting._lock_id)
        assert not waiting.attempt()
        held.release()
        until(waiting.attempt)
        waiting.release()

    def test_of_two_requests_of_one_writer_one_is_given_back(self, lab: Lab) -> None:
        """The first one came so late that the writer had made another one."""
        held, waiting = lab.provider().acquire(20), acquisition_at(lab.port, lab)
        assert not waiting._enqueue()
        assert not waiting._enqueue()
        waiting._may_have_more = True
        assert not waiting.attempt()
        assert len(waiting._queue()) == 2
        held.release()
        until(waiting.attempt)
        waiting.release()
        assert waiting._queue() == []

    def test_of_several_that_wait_one_has_a_place_in_the_queue(self, lab: Lab) -> None:
        held = lab.provider().acquire(20)
        waiting = [acquisition_at(lab.port, lab) for _ in range(3)]
        for _ in range(3):
            assert not any(acquisition.attempt() for acquisition in waiting)
        assert len(waiting[0]._queue()) == 2
        held.release()
        assert waiting[0].attempt()
        assert not waiting[1].attempt()
        waiting[0].release()
        until(waiting[2].attempt)
        for acquisition in waiting:
            acquisition.release()


def acquisition_at(port: int, lab: Lab) -> HiveAcquisition:
    where = HiveMetastore((("127.0.0.1", port),), 3.0)
    runtime = system_runtime(1)
    table = lab.options(port)["hoodie.write.lock.hivemetastore.table"]
    server = HiveLockServer(where, "sales", str(table), 60.0, runtime.clock, runtime.process)
    return HiveAcquisition(server, Contender(runtime.ids.uuid(), "the note", runtime.process.identity()))


@pytest.mark.row("O4")
def test_without_housekeeping_a_waiting_writer_removes_what_was_abandoned(tmp_path: Path) -> None:
    """By default a metastore never removes the lock of a dead writer, and so no waiting request of one."""
    with scratch() as folder, hive_metastore(folder, LEASE_S, housekeeping=False).running() as running:
        lab = lab_at(running, tmp_path)
        with another_process(lab) as holder:
            holder.kill()
            holder.wait()
            began = time.monotonic()
            lab.provider().acquire(5 * LEASE_S).release()
            assert time.monotonic() - began < LEASE_S, "the process of this machine is known to have ended"
        held = lab.provider().acquire(20)
        held._renewal.cancel()  # type: ignore[attr-defined]
        with pytest.raises(LockTimeoutError):
            lab.provider().acquire(LEASE_S / 4)
        lab.provider().acquire(5 * LEASE_S).release()
        until(lambda: not held.still_held())
