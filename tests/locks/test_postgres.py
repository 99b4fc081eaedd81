"""The SQL lock on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from locks.server_cases import SECRET, Lab, ServerCases, proxied
from locks.servers import Server, postgresql, scratch, secure_postgresql
from pyhudi_core.errors import LockServerError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.testing.lock_kit import LockKit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with scratch() as folder, postgresql(folder, SECRET).running() as running:
        yield running


@pytest.fixture
def lab(server: Server, tmp_path: Path) -> Lab:
    def options(port: int) -> dict[str, object]:
        return {
            "hoodie.write.lock.provider": "sql",
            "pyhudi.lock.sql.url": f"postgresql://hudi:{SECRET}@127.0.0.1:{port}/locks",
            "pyhudi.lock.sql.lease.ms": 6_000,
            "pyhudi.lock.request.timeout.ms": 2_000,
            "hoodie.write.lock.wait_time_ms_between_retry": 50,
        }

    return Lab(server.port, options, 6.0, server.stopped, str(tmp_path / "orders"))


@pytest.mark.row("T10")
class TestPostgres(LockKit, ServerCases):
    @pytest.fixture
    def providers(self, lab: Lab) -> Callable[[], LockProvider]:
        return lambda: lab.provider(**{"pyhudi.lock.sql.lease.ms": 60_000})

    def test_a_holding_has_one_connection_and_another_one_after_it_was_cut(self, lab: Lab) -> None:
        with proxied(lab) as proxy:
            held = lab.provider(port=proxy.port).acquire(20)
            assert held.still_held()
            assert held.still_held()
            assert proxy.connections == 1
            proxy.heal()
            assert held.still_held(), "a request without an answer is no lost lock"
            assert held.still_held()
            assert proxy.connections == 2
            held.release()
            assert proxy.connections == 2
        lab.provider().acquire(0).release()

    def test_a_missing_password_is_a_refusal_by_the_server(self, lab: Lab) -> None:
        url = f"postgresql://hudi@127.0.0.1:{lab.port}/locks"
        with pytest.raises(LockServerError, match="28P01"):
            lab.provider(**{"pyhudi.lock.sql.url": url}).acquire(0)

    def test_a_wrong_password_is_reported_without_the_password(self, lab: Lab) -> None:
        url = f"postgresql://hudi:{SECRET}x@127.0.0.1:{lab.port}/locks"
        with pytest.raises(LockServerError, match="28P01") as refused:
            lab.provider(**{"pyhudi.lock.sql.url": url}).acquire(0)
        assert SECRET not in str(refused.value)


@pytest.fixture(scope="module")
def secure() -> Iterator[Server]:
    with scratch() as folder, secure_postgresql(folder, SECRET).running() as running:
        yield running


@pytest.mark.row("T10")
@pytest.mark.parametrize(
    ("query", "with_certificate", "without"),
    [
        ("", True, True),
        ("?sslmode=disable", True, True),
        ("?sslmode=require", True, False),
        ("?sslmode=verify-full", False, False),
        ("?sslmode=verify-full&sslrootcert={ca}", True, False),
    ],
)
def test_a_server_with_a_certificate_and_one_without_are_taken_as_sslmode_says(
    query: str, with_certificate: bool, without: bool, lab: Lab, server: Server, secure: Server
) -> None:
    """The certificate is for localhost, and no known authority has signed it."""
    given = query.replace("{ca}", str(secure.folder / "server.pem"))
    for one, taken in ((secure, with_certificate), (server, without)):
        provider = lab.provider(
            **{"pyhudi.lock.sql.url": f"postgresql://hudi:{SECRET}@localhost:{one.port}/locks{given}"}
        )
        if taken:
            provider.acquire(20).release()
        else:
            with pytest.raises(LockServerError, match="SSL|certificate"):
                provider.acquire(0)
