"""The frame of locks on servers: how a lease is counted, what a release that gets no answer does, and what options name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.homes import StandingClock, runtime_with

from pyhudi_core.errors import LockServerError
from pyhudi_core.lock.clients.zookeeper import ZooKeeper, ZooKeeperSession
from pyhudi_core.lock.kind import LockRequest
from pyhudi_core.lock.kinds import open_instants, open_lock
from pyhudi_core.lock.server import Contender, LeasedAcquisition, LeasedTo, ServerLockProvider
from pyhudi_core.lock.server_clock import ServerClock
from pyhudi_core.lock.servers.dynamodb import DynamoDbCounter
from pyhudi_core.lock.servers.hive_metastore import HiveLockServer
from pyhudi_core.lock.servers.zookeeper import ZooKeeperCounter
from pyhudi_core.options import WriteOptions


class Slow:
    """A server with a lease of 60 seconds, whose requests take as long as a test says; so many releases get no answer."""

    identity = "slow"
    lease_s, renew_s = 60.0, 1e6

    def __init__(self, clock: StandingClock, attempt_s: float = 0.0, unanswered: int = 0) -> None:
        self.clock = clock
        self.attempt_s = attempt_s
        self.renewal_s = 0.0
        self.unanswered = unanswered
        self.renewals = self.releases = 0

    def acquisition(self, contender: Contender) -> Slow:
        return self

    def attempt(self) -> bool:
        self.clock.sleep(self.attempt_s)
        return True

    def renew(self) -> bool:
        self.renewals += 1
        self.clock.sleep(self.renewal_s)
        return True

    def release(self) -> None:
        self.releases += 1
        if self.releases <= self.unanswered:
            raise LockServerError("No answer")

    def holder(self) -> str:
        return ""


def provider_of(server: Slow) -> ServerLockProvider:
    return ServerLockProvider(server, runtime_with(clock=server.clock), "orders")


@pytest.mark.parametrize(("attempt_s", "renewals"), [(1, 0), (29, 0), (31, 1)])
def test_a_lock_is_renewed_at_once_only_if_asking_for_it_took_half_of_the_lease(attempt_s: int, renewals: int) -> None:
    server = Slow(StandingClock(), attempt_s)
    held = provider_of(server).acquire(100)
    assert server.renewals == renewals
    assert held.lease_left_s() > 30
    held.release()


def test_a_renewal_that_is_answered_after_the_end_of_the_lease_extends_nothing() -> None:
    server = Slow(StandingClock())
    held = provider_of(server).acquire(0)
    end = held.valid_until_ms
    server.clock.sleep(10)
    server.renewal_s = 61
    assert not held.still_held()
    assert held.valid_until_ms == end
    server.renewal_s = 0
    assert not held.still_held()
    assert server.renewals == 1
    held.release()


def test_a_release_without_an_answer_is_tried_three_times() -> None:
    server = Slow(StandingClock(), unanswered=2)
    provider_of(server).acquire(0).release()
    assert server.releases == 3
    silent = Slow(StandingClock(), unanswered=9)
    with pytest.raises(LockServerError, match="No answer"):
        provider_of(silent).acquire(0).release()
    assert silent.releases == 3


class Line:
    """A connection to a server whose lock is an entry with a lease; a broken one answers nothing."""

    def __init__(self) -> None:
        self.broken = self.closed = False

    def close(self) -> None:
        self.closed = True


class Leased:
    """An entry with a lease of 60 seconds, and the connections to it; a process named ``gone`` has ended."""

    identity = "leased"

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.held: LeasedTo | None = None

    def acquisition(self, contender: Contender) -> LeasedAcquisition[Line]:
        process: Any = SimpleNamespace(is_gone=lambda identity: identity == "gone")
        return LeasedAcquisition(self, contender, 60.0, process)

    def connect(self) -> Line:
        self.lines.append(Line())
        return self.lines[-1]

    def take(self, connection: Line, contender: Contender, gone: str) -> bool:
        if self.read(connection) is None or self.held.token in (contender.token, gone):
            self.held = LeasedTo(contender.token, contender.note, contender.process, 60_000)
        return self.held.token == contender.token

    def extend(self, connection: Line, token: str) -> bool:
        found = self.read(connection)
        return found is not None and found.token == token

    def free(self, connection: Line, token: str) -> None:
        if self.extend(connection, token):
            self.held = None

    def read(self, connection: Line) -> LeasedTo | None:
        if connection.broken:
            raise LockServerError("No answer")
        return self.held


def test_an_acquisition_keeps_its_connection_and_opens_another_one_after_a_failure() -> None:
    server = Leased()
    one = server.acquisition(Contender("t", "", ""))
    assert one.attempt()
    assert one.renew()
    server.lines[0].broken = True
    with pytest.raises(LockServerError):
        one.renew()
    assert one.renew()
    assert [line.closed for line in server.lines] == [True, False]
    one.release()
    assert server.held is None
    assert [line.closed for line in server.lines] == [True, True]


def test_only_the_entry_of_a_process_that_has_ended_is_taken_before_its_lease_ends() -> None:
    server = Leased()
    assert server.acquisition(Contender("t1", "", "gone")).attempt()
    assert server.acquisition(Contender("t2", "the load", "alive")).attempt()
    third = server.acquisition(Contender("t3", "", "alive"))
    assert not third.attempt()
    assert third.holder() == "alive for the load (token t2, 60.0 s of its lease left)"
    third.release()
    assert third.holder() != ""


def test_the_note_and_the_process_of_a_holder_are_cut_off_once_for_all_servers() -> None:
    server = Leased()
    process = SimpleNamespace(identity=lambda: "p" * 500)
    runtime = runtime_with(clock=StandingClock(), process=process)
    held = ServerLockProvider(server, runtime, "orders").acquire(0, "n" * 500)
    assert server.held == LeasedTo(held.token, "n" * 200, "p" * 400, 60_000)
    held.release()


def request_of(location: str = "s3a://lake/orders", **options: object) -> LockRequest:
    found = WriteOptions.parse({name.replace("__", "."): value for name, value in options.items()})
    storage: Any = SimpleNamespace(location=location)
    generator = str(options.get("pyhudi__time__generator", "system"))
    return LockRequest(storage, runtime_with(), "orders", found.lock, generator)


def test_the_heartbeat_of_a_metastore_is_that_of_hudis_property() -> None:
    lock: Any = open_lock(
        request_of(
            lock="hive_metastore",
            hoodie__write__lock__hivemetastore__uris="thrift://h",
            hoodie__write__lock__hivemetastore__database="d",
            hoodie__write__lock__hivemetastore__table="t",
            hoodie__write__lock__heartbeat_interval_ms="30000",
        )
    )
    assert isinstance(lock._server, HiveLockServer)
    assert lock._server.heartbeat_s == 30


@pytest.mark.parametrize("location", ["s3a://lake/orders", "s3://lake/orders"])
def test_the_key_without_options_is_hudis_hash_of_the_base_path(location: str) -> None:
    """Another key would be another lock than that of Java writers; `tests/locks/test_with_hudi.py` asks Hudi."""
    servers = {"hoodie__write__lock__zookeeper__url": "h", "hoodie__write__lock__dynamodb__table": "locks"}
    zookeeper = open_lock(request_of(location, lock="zookeeper_implicit", **servers))
    dynamodb = open_lock(request_of(location, lock="dynamodb_implicit", **servers))
    assert zookeeper.identity == "zookeeper:h:2181/tmp/9BBEA24B29C16651/lock_key"
    assert dynamodb.identity == "dynamodb:us-east-1/locks/9BBEA24B29C16651"


def test_times_come_from_a_node_or_an_item_beside_the_lock_that_the_options_name() -> None:
    zookeeper = open_instants(
        request_of(
            pyhudi__time__generator="zookeeper",
            hoodie__write__lock__zookeeper__url="h",
            hoodie__write__lock__zookeeper__base_path="/hudi",
        )
    )
    dynamodb = open_instants(
        request_of(pyhudi__time__generator="dynamodb", hoodie__write__lock__dynamodb__table="locks")
    )
    assert isinstance(zookeeper, ServerClock)
    assert isinstance(dynamodb, ServerClock)
    assert isinstance(zookeeper.counter, ZooKeeperCounter)
    assert isinstance(dynamodb.counter, DynamoDbCounter)
    assert (zookeeper.counter._path, dynamodb.counter.key) == ("/hudi/orders.time", "orders.time")


@pytest.mark.parametrize(("granted_ms", "lease_s"), [(4_000, 6.0), (40_000, 10.0)])
def test_a_session_of_zookeeper_lasts_as_long_as_it_grants_and_no_longer_than_was_asked(
    granted_ms: int, lease_s: float
) -> None:
    """kazoo keeps two thirds of what the server granted."""
    client = SimpleNamespace(_connection=SimpleNamespace(_connect=lambda *_: (granted_ms, None)))
    session = ZooKeeperSession(ZooKeeper("h:2181", 10.0, 1.0), client)
    client._connection._connect("h", 2181)
    assert session.granted_s == lease_s
