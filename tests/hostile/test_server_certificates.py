"""What is said if a server's certificate is not trusted: by each client that asks servers by TLS."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from support.accepting import AcceptingServer
from support.certificates import certificate

import pyhudi_core as hudi
from pyhudi_core.errors import HudiError, InvalidOptionError
from pyhudi_core.lock.kind import LockRequest
from pyhudi_core.lock.kinds import open_lock
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage import open_storage
from pyhudi_core.storage.certificates import advice

for extra in ("boto3", "obstore", "pg8000", "kazoo", "pymetastore"):
    pytest.importorskip(extra, reason="an extra")

AWS = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "very-secret"}
_HIVE = "hoodie.write.lock.hivemetastore."


class SecureServer(AcceptingServer):
    """Makes TLS connections, and ends them; of PostgreSQL it knows the answer to the question for TLS. ``tls`` None: it answers in clear text."""

    def __init__(self, tls: ssl.SSLContext | None, postgres: bool) -> None:
        self._tls, self._postgres = tls, postgres
        super().__init__(self._secure)

    def _secure(self, connection: socket.socket) -> None:
        if self._postgres:
            connection.recv(8)
            connection.sendall(b"S")
        if self._tls is None:
            connection.recv(1)
            connection.sendall(b"HTTP/1.1 400 Bad\r\n\r\n")
        else:
            self._tls.wrap_socket(connection, server_side=True).recv(1_000)


def _bundle(ca: str, key: str = "ca_bundle") -> dict[str, str]:
    return {key: ca} if ca else {}


def _s3(port: int, ca: str) -> None:
    open_storage("s3://lake/t", {**AWS, "endpoint_url": f"https://localhost:{port}", **_bundle(ca)}).get("a")


def _sts(port: int, ca: str) -> None:
    role = {"role_arn": "arn:aws:iam::123456789012:role/writer", "sts_endpoint_url": f"https://localhost:{port}"}
    open_storage("s3://lake/t", {**AWS, **role, **_bundle(ca)}).get("a")


def _google(port: int, ca: str) -> None:
    given = {"skip_signature": "true", "endpoint_url": f"https://localhost:{port}"}
    open_storage("gs://lake/t", {**given, **_bundle(ca)}).get("a")


def _azure(port: int, ca: str) -> None:
    given = {"skip_signature": "true", "endpoint_url": f"https://localhost:{port}/a"}
    open_storage("abfss://lake@a.dfs.core.windows.net/t", {**given, **_bundle(ca)}).get("a")


def _lock(**options: object) -> None:
    found = WriteOptions.parse({**options, "hoodie.write.lock.wait_time_ms": 10}).lock
    open_lock(LockRequest(open_storage("memory://locks"), system_runtime(1), "orders", found)).acquire(0)


def _postgres(port: int, ca: str) -> None:
    _lock(
        lock="sql",
        **{
            "pyhudi.lock.sql.url": f"postgresql://u:very-secret@localhost:{port}/d?sslmode=verify-full"
            + (f"&sslrootcert={ca}" if ca else "")
        },
    )


def _zookeeper(port: int, ca: str) -> None:
    where = {"url": f"localhost:{port}", "base_path": "/hudi", "connection_timeout_ms": 400}
    tls = {"pyhudi.lock.zookeeper.tls": "true", **_bundle(ca, "pyhudi.lock.zookeeper.tls.ca")}
    _lock(lock="zookeeper", **{f"hoodie.write.lock.zookeeper.{name}": value for name, value in where.items()}, **tls)


def _hive(port: int, ca: str) -> None:
    where = {"uris": f"thrift://localhost:{port}", "database": "d", "table": "t"}
    tls = {"pyhudi.lock.hivemetastore.tls": "true", **_bundle(ca, "pyhudi.lock.hivemetastore.tls.ca")}
    _lock(lock="hive_metastore", **{_HIVE + name: value for name, value in where.items()}, **tls)


def _dynamodb(port: int, ca: str) -> None:
    where = {"table": "t", "region": "us-east-1", "endpoint_url": f"https://localhost:{port}", "partition_key": "k"}
    with pytest.MonkeyPatch.context() as patch:
        _environment(patch, ca)
        _lock(lock="dynamodb", **{f"hoodie.write.lock.dynamodb.{name}": value for name, value in where.items()})


def _sync(**options: object) -> None:
    made = hudi.create_table(
        f"memory://{os.urandom(4).hex()}",
        pa.schema([("id", pa.int64())]),
        "id",
        options={
            f"hoodie.datasource.{key}" if key.startswith("hive_sync") else key: value for key, value in options.items()
        },
    )
    made.catalog.sync()


def _metastore(port: int, ca: str) -> None:
    tls = {"pyhudi.catalog.tls": True, **_bundle(ca, "pyhudi.catalog.tls.ca")}
    _sync(**{"hive_sync.metastore.uris": f"thrift://localhost:{port}"}, **tls)


def _glue(port: int, ca: str) -> None:
    where = {"hoodie.aws.glue.region": "us-east-1", "hoodie.aws.glue.endpoint": f"https://localhost:{port}"}
    with pytest.MonkeyPatch.context() as patch:
        _environment(patch, ca)
        _sync(**{"hive_sync.mode": "glue"}, **where)


def _environment(patch: pytest.MonkeyPatch, ca: str) -> None:
    patch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    if ca:
        patch.setenv("AWS_CA_BUNDLE", ca)


CLIENTS: Mapping[str, tuple[Callable[[int, str], None], str]] = {
    "s3": (_s3, "ca_bundle"),
    "sts": (_sts, "ca_bundle"),
    "google": (_google, "ca_bundle"),
    "azure": (_azure, "ca_bundle"),
    "postgres": (_postgres, "sslrootcert of pyhudi.lock.sql.url"),
    "zookeeper": (_zookeeper, "pyhudi.lock.zookeeper.tls.ca"),
    "hive": (_hive, "pyhudi.lock.hivemetastore.tls.ca"),
    "dynamodb": (_dynamodb, "AWS_CA_BUNDLE"),
    "metastore": (_metastore, "pyhudi.catalog.tls.ca"),
    "glue": (_glue, "AWS_CA_BUNDLE"),
}
"""By name: a request, and the option with the authorities."""
SERVERS = {  # the name in its certificate, whether that has ended, and whether its authority is given
    "of an unknown authority": ("localhost", False, False),
    "of another name": ("another.host", False, True),
    "of yesterday": ("localhost", True, True),
}


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Ask a server, which fails; returns the error's text."""
    servers: list[SecureServer] = []

    def failed(client: str, tls: ssl.SSLContext | None, ca: str) -> str:
        servers.append(SecureServer(tls, client == "postgres"))
        with pytest.raises(HudiError) as error:
            CLIENTS[client][0](servers[-1].port, ca)
        return str(error.value)

    yield failed
    for server in servers:
        server.close()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_certificate_is_named_with_the_option_of_its_authority(
    client: str, server: str, tmp_path: Path, ask: Callable[..., str]
) -> None:
    host, is_over, given = SERVERS[server]
    tls = certificate(tmp_path, host, authority=False, is_over=is_over)
    said = ask(client, tls, str(tmp_path / "server.pem") if given else "")
    assert "certificate has to be for this name, valid today, and signed by an authority" in said
    assert CLIENTS[client][1] in said
    assert "very-secret" not in said


@pytest.mark.one_in(4)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_that_does_not_speak_tls_is_called_so(client: str, ask: Callable[..., str]) -> None:
    assert "what answers there does not speak TLS" in ask(client, None, "")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("client", ["google", "azure"])
def test_an_authority_that_is_the_server_itself_is_called_so(
    client: str, tmp_path: Path, ask: Callable[..., str]
) -> None:
    said = ask(client, certificate(tmp_path, "localhost"), str(tmp_path / "server.pem"))
    assert "certificate is one of an authority, which is to sign another one for the server" in said


@pytest.mark.parametrize("client", [name for name in CLIENTS if name not in ("dynamodb", "glue")])
def test_a_file_without_certificates_is_refused_and_nobody_is_asked(client: str, tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    with pytest.raises(InvalidOptionError, match=r"has no certificates: .*no\.pem"):
        CLIENTS[client][0](1, str(tmp_path / "no.pem"))


def test_the_certificate_of_a_client_is_looked_at_before_zookeeper_is_asked(tmp_path: Path) -> None:
    certificate(tmp_path, "localhost")
    (tmp_path / "no.pem").write_text("no certificate")
    tls = {"pyhudi.lock.zookeeper.tls": "true", "pyhudi.lock.zookeeper.tls.certificate": str(tmp_path / "server.pem")}
    with pytest.raises(InvalidOptionError, match="not the certificate of this client and its key"):
        _lock(
            lock="zookeeper",
            **{"hoodie.write.lock.zookeeper.url": "localhost:1", "hoodie.write.lock.zookeeper.base_path": "/hudi"},
            **tls,
            **{"pyhudi.lock.zookeeper.tls.key": str(tmp_path / "no.pem")},
        )


def test_a_connection_to_glue_that_ends_is_an_error_of_the_catalog(tmp_path: Path, ask: Callable[..., str]) -> None:
    tls = certificate(tmp_path, "localhost")
    assert "did not do get_database: Connection was closed" in ask("glue", tls, str(tmp_path / "server.pem"))


@pytest.mark.parametrize(
    "text",
    [
        'certificate authentication failed for user "locks"',
        "connection requires a valid client certificate",
        "certificate required",
    ],
)
def test_a_server_that_asks_for_the_certificate_of_the_client_is_not_called_untrusted(text: str) -> None:
    assert advice(text, "the option ca") == ""
