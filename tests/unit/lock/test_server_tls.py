"""What the locks in ZooKeeper and in a Hive Metastore say first to a server, and what they think of its certificate."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.accepting import AcceptingServer
from support.certificates import certificate
from support.tables import ORDERS

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, LockServerError, MissingExtraError
from pyhudi_core.lock.kind import LockRequest
from pyhudi_core.lock.kinds import open_lock
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage import open_storage

pytest.importorskip("kazoo", reason="an extra")
pytest.importorskip("pymetastore", reason="an extra")
SECRET = "very-secret"


class Server(AcceptingServer):
    """Remembers what each connection says first: before TLS and inside it. It answers nothing."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self.first: list[bytes] = []
        self.inside: list[bytes] = []
        super().__init__(self._listen)

    def _listen(self, connection: socket.socket) -> None:
        self.first.append(connection.recv(5, socket.MSG_PEEK))
        if self.tls is not None:
            with self.tls.wrap_socket(connection, server_side=True) as secret:
                self.inside.append(secret.recv(100))


def zookeeper(port: int) -> dict[str, object]:
    return {
        "lock": "zookeeper",
        "hoodie.write.lock.zookeeper.url": f"localhost:{port}",
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.zookeeper.connection_timeout_ms": 1_500,
        "hoodie.write.lock.wait_time_ms": 10,
    }


def hive(port: int) -> dict[str, object]:
    names = {"database": "d", "table": "t", "uris": f"thrift://localhost:{port}"}
    return {
        "lock": "hive_metastore",
        **{f"hoodie.write.lock.hivemetastore.{name}": value for name, value in names.items()},
        "pyhudi.lock.request.timeout.ms": 1_500,
        "hoodie.write.lock.wait_time_ms": 10,
    }


KINDS: Mapping[str, tuple[Callable[[int], dict[str, object]], str, bytes]] = {
    "zookeeper": (zookeeper, "pyhudi.lock.zookeeper.tls", bytes([0, 0, 0])),  # the length of a request
    "hive_metastore": (hive, "pyhudi.lock.hivemetastore.tls", bytes([0x80, 1, 0, 1])),  # Thrift's version
}
IS_TLS = 0x16
"""The first byte of TLS: a record of the handshake."""


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    made: list[Server] = []
    yield made
    for one in made:
        one.close()


def refused(options: dict[str, object], folder: Path) -> str:
    """Ask for the lock, which fails in any case; return the error's text."""
    request = LockRequest(open_storage(folder), system_runtime(1), "orders", WriteOptions.parse(options).lock)
    with pytest.raises(LockServerError) as failed:
        open_lock(request).acquire(0)
    return str(failed.value)


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_option_a_session_is_in_clear_text(kind: str, servers: list[Server], tmp_path: Path) -> None:
    options, _, begin = KINDS[kind]
    servers.append(server := Server(None))
    refused(options(server.port), tmp_path)
    assert server.first[0].startswith(begin)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("host", "trusted"), [("localhost", False), ("another.host", True)])
def test_a_server_has_to_show_a_trusted_certificate_of_its_own_name(
    kind: str, host: str, trusted: bool, servers: list[Server], tmp_path: Path
) -> None:
    options, tls, _ = KINDS[kind]
    servers.append(server := Server(certificate(tmp_path, host)))
    ca = {f"{tls}.ca": str(tmp_path / "server.pem")} if trusted else {}
    refused({**options(server.port), tls: "true", **ca}, tmp_path)
    assert {first[0] for first in server.first} == {IS_TLS}
    assert b"".join(server.inside) == b"", "nothing was said to it"


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_starts_in_tls_with_a_server_of_the_given_authority(
    kind: str, servers: list[Server], tmp_path: Path
) -> None:
    options, tls, begin = KINDS[kind]
    servers.append(server := Server(certificate(tmp_path, "localhost")))
    refused({**options(server.port), tls: "true", f"{tls}.ca": str(tmp_path / "server.pem")}, tmp_path)
    assert server.first[0][0] == IS_TLS
    assert server.inside[0].startswith(begin)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_without_tls_gets_no_request(kind: str, servers: list[Server], tmp_path: Path) -> None:
    options, tls, _ = KINDS[kind]
    servers.append(server := Server(None))
    refused({**options(server.port), tls: "true"}, tmp_path)
    assert {first[0] for first in server.first} == {IS_TLS}


_ZK, _HIVE = "pyhudi.lock.zookeeper.", "pyhudi.lock.hivemetastore."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**zookeeper(1), f"{_ZK}tls.ca": "/x"}, "tls is not true"),
        ({**zookeeper(1), f"{_ZK}tls": "true", f"{_ZK}tls.key": "/x"}, "only one is given"),
        ({**zookeeper(1), f"{_ZK}password": SECRET}, "only one is given"),
        ({**zookeeper(1), f"{_ZK}auth": "kerberos"}, "kerberos is not supported in this release"),
        ({**zookeeper(1), f"{_ZK}tls": "true", f"{_ZK}tls.ca": "/no/such.pem"}, "is no file: /no/such.pem"),
        ({**hive(1), f"{_HIVE}tls.ca": "/x"}, "tls is not true"),
        ({**hive(1), f"{_HIVE}sasl": "kerberos"}, "kerberos is not supported in this release"),
        ({**hive(1), f"{_HIVE}sasl": "plain"}, "plain is not supported in this release"),
        ({**hive(1), f"{_HIVE}tls": "true", f"{_HIVE}tls.ca": "/no/such.pem"}, "is no file: /no/such.pem"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_a_table_is_made(given: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=said) as error:
        hudi.create_table(tmp_path / "t", ORDERS, "id", options=given)
    assert SECRET not in str(error.value)
    assert not (tmp_path / "t").exists()


def test_a_password_is_shown_nowhere(tmp_path: Path) -> None:
    options = {**zookeeper(1), f"{_ZK}user": "job", f"{_ZK}password": SECRET, f"{_ZK}auth": "sasl"}
    found = WriteOptions.parse(options)
    lock = open_lock(LockRequest(open_storage(tmp_path), system_runtime(1), "orders", found.lock))
    assert SECRET not in f"{found!r} {lock.identity} {lock._server!r}"  # type: ignore[attr-defined]


def test_sasl_without_its_package_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "puresasl", None)
    options = {**zookeeper(1), f"{_ZK}user": "job", f"{_ZK}password": SECRET, f"{_ZK}auth": "sasl"}
    request = LockRequest(open_storage(tmp_path), system_runtime(1), "orders", WriteOptions.parse(options).lock)
    with pytest.raises(MissingExtraError, match="needs pure-sasl"):
        open_lock(request).acquire(0)
