"""What the lock and the times of DynamoDB do with its answers; `tests/locks/test_dynamodb.py` has a real server."""

from __future__ import annotations

import pytest
from support.fake_dynamodb import FakeDynamoDb
from support.homes import StandingClock, runtime_with

from pyhudi_core.errors import LockTimeoutError
from pyhudi_core.lock.clients import dynamodb
from pyhudi_core.lock.clients.dynamodb import DynamoDb
from pyhudi_core.lock.server import ServerLockProvider
from pyhudi_core.lock.servers.dynamodb import DynamoDbCounter, DynamoDbLockServer
from pyhudi_core.runtime.system import system_runtime

WHERE = DynamoDb("locks", "eu-west-1", "", 1.0, 1.0, "PAY_PER_REQUEST", (1, 1))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDynamoDb:
    made = FakeDynamoDb()
    monkeypatch.setattr(dynamodb, "_client", made.as_client)
    return made


@pytest.fixture
def provider(fake: FakeDynamoDb) -> ServerLockProvider:
    clock = StandingClock()
    server = DynamoDbLockServer(WHERE, "orders", 60_000, clock, system_runtime(1).process)
    return ServerLockProvider(server, runtime_with(clock=clock), "orders")


def test_a_lock_is_free_for_others_at_once_when_it_was_released(provider: ServerLockProvider) -> None:
    first = provider.acquire(0)
    assert first.still_held()
    first.release()
    second = provider.acquire(0)
    assert second.still_held()
    second.release()


def test_who_waits_in_vain_is_told_who_has_the_lock_and_for_what(provider: ServerLockProvider) -> None:
    held = provider.acquire(0, "the nightly load")
    with pytest.raises(LockTimeoutError, match="held by process .* for the nightly load, with a lease of 60000 ms"):
        provider.acquire(1)
    assert held.still_held()
    held.release()


def test_a_lock_that_another_tool_has_released_has_no_holder(provider: ServerLockProvider, fake: FakeDynamoDb) -> None:
    provider.acquire(0)
    fake.items["orders"]["isReleased"] = {"S": "1"}
    provider.acquire(0).release()
    assert not fake.items


def test_times_rise_whether_the_clock_or_the_counter_is_ahead(fake: FakeDynamoDb) -> None:
    counter = DynamoDbCounter(WHERE, "orders.time")
    assert [counter.next_from(least) for least in (100, 100, 50, 200)] == [100, 101, 102, 200]
