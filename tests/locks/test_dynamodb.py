"""The lock and the times of DynamoDB, on Amazon's DynamoDB Local."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from locks.server_cases import SECRET, Lab, ServerCases
from locks.servers import Server, dynamodb, scratch
from locks.time_cases import CounterCases
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.dynamodb import DynamoDb
from pyhudi_core.lock.server_clock import Counter
from pyhudi_core.lock.servers.dynamodb import DynamoDbCounter
from pyhudi_core.testing.lock_kit import LockKit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with scratch() as folder, dynamodb(folder).running() as running:
        yield running


@pytest.fixture
def lab(server: Server, tmp_path: Path) -> Lab:
    def options(port: int) -> dict[str, object]:
        return {
            "hoodie.write.lock.provider": "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
            "hoodie.write.lock.dynamodb.table": "locks",
            "hoodie.write.lock.dynamodb.partition_key": tmp_path.name,
            "hoodie.write.lock.dynamodb.region": "eu-west-1",
            "hoodie.write.lock.dynamodb.endpoint_url": f"http://127.0.0.1:{port}",
            "hoodie.aws.access.key": "AKIDEXAMPLE",
            "hoodie.aws.secret.key": SECRET,
            "hoodie.write.lock.wait_time_ms": 12_000,
            "pyhudi.lock.request.timeout.ms": 2_000,
            "hoodie.write.lock.wait_time_ms_between_retry": 50,
        }

    return Lab(server.port, options, 6.0, server.stopped, str(tmp_path / "orders"))


@pytest.mark.row("O3", "T10")
class TestDynamoDb(LockKit, ServerCases):
    @pytest.fixture
    def providers(self, lab: Lab) -> Callable[[], LockProvider]:
        return lambda: lab.provider(**{"hoodie.write.lock.wait_time_ms": 60_000})

    def test_the_lock_of_hudis_implicit_provider_is_found_by_the_location(self, lab: Lab) -> None:
        provider = lab.provider(**{"hoodie.write.lock.provider": "dynamodb_implicit"})
        assert provider.identity.startswith(f"dynamodb:http://127.0.0.1:{lab.port}/locks/")
        session = provider.acquire(20)
        assert session.still_held()
        session.release()


@pytest.mark.row("T10")
class TestTimesOfDynamoDb(CounterCases):
    @pytest.fixture
    def counters(self, server: Server, tmp_path: Path) -> Callable[[], Counter]:
        where = DynamoDb(
            "locks", "eu-west-1", f"http://127.0.0.1:{server.port}", 5.0, 60.0, "PAY_PER_REQUEST", (1, 1), "x", SECRET
        )
        return lambda: DynamoDbCounter(where, f"{tmp_path.name}.time")

    @pytest.fixture
    def options(self, lab: Lab) -> dict[str, object]:
        return {**lab.options(lab.port), "pyhudi.time.generator": "dynamodb"}
