"""What the sql lock says first to a PostgreSQL server, and what it thinks of the server's certificate. The server here knows only the first words."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.certificates import certificate

from pyhudi_core.errors import InvalidOptionError, LockServerError
from pyhudi_core.lock.clients.databases import open_database

pytest.importorskip("pg8000", reason="the driver is an extra")

ASKS_FOR_TLS = bytes.fromhex("00000008 04d2162f")
"""The request of TLS in PostgreSQL's protocol; anything else is the start of a session in clear text."""


class Server:
    """Accepts one connection, and remembers what it was told first. ``tls`` None: it has no certificate, and says so."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.first = b""
        self.later = b""
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self.socket.accept()
        connection.settimeout(5)
        with connection:
            self.first = connection.recv(8)
            if self.first != ASKS_FOR_TLS:
                return
            connection.sendall(b"N" if self.tls is None else b"S")
            if self.tls is None:
                self.later = connection.recv(1_000)
                return
            try:
                with self.tls.wrap_socket(connection, server_side=True) as secret:
                    self.later = secret.recv(1_000)
            except OSError:
                return  # the client did not like the certificate

    def close(self) -> None:
        self.thread.join(10)
        self.socket.close()


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    made: list[Server] = []
    yield made
    for one in made:
        one.close()


def said_to(server: Server, query: str, host: str = "127.0.0.1") -> str:
    """Connect, which fails in any case; return the error's text."""
    with pytest.raises(LockServerError) as failed:
        open_database(f"postgresql://u:very-secret@{host}:{server.port}/d{query}", 5.0).connect()
    server.close()
    assert "very-secret" not in str(failed.value)
    return str(failed.value)


def test_with_verify_full_nothing_is_said_in_clear_text(servers: list[Server]) -> None:
    servers.append(server := Server())
    assert "SSL" in said_to(server, "?sslmode=verify-full")
    assert (server.first, server.later) == (ASKS_FOR_TLS, b"")


@pytest.mark.parametrize(
    ("host", "trusted", "why"),
    [("localhost", False, "certificate verify failed"), ("another.host", True, "not valid for 'localhost'")],
)
def test_with_verify_full_a_server_has_to_show_a_trusted_certificate_of_its_own_name(
    host: str, trusted: bool, why: str, servers: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.append(server := Server(certificate(tmp_path, host)))
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    assert why in said_to(server, "?sslmode=verify-full", "localhost")
    assert (server.first, server.later) == (ASKS_FOR_TLS, b"")


def test_with_verify_full_a_trusted_certificate_of_the_servers_name_is_accepted(
    servers: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.append(server := Server(certificate(tmp_path, "localhost")))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    assert "certificate" not in said_to(server, "?sslmode=verify-full", "localhost")
    assert b"pyhudi" in server.later, "the session starts in TLS"


CHECKS = [  # sslmode, whether the authority is given, and whether a server of another authority, or with another name, is refused
    ("prefer", False, False, False),
    ("require", False, False, False),
    ("require", True, True, False),
    ("verify-ca", True, True, False),
    ("verify-full", True, True, True),
]


@pytest.mark.parametrize(("mode", "given", "refuses_other", "refuses_name"), CHECKS)
@pytest.mark.parametrize("which", ["the server", "another authority", "another name"])
def test_each_mode_checks_what_it_checks_in_libpq(
    mode: str, given: bool, refuses_other: bool, refuses_name: bool, which: str, servers: list[Server], tmp_path: Path
) -> None:
    for folder in ("own", "other"):
        (tmp_path / folder).mkdir()
    certificate(tmp_path / "other", "localhost")
    servers.append(
        server := Server(certificate(tmp_path / "own", "localhost" if which != "another name" else "another.host"))
    )
    authority = tmp_path / ("other" if which == "another authority" else "own") / "server.pem"
    said = said_to(server, f"?sslmode={mode}" + (f"&sslrootcert={authority}" if given else ""), "localhost")
    assert server.first == ASKS_FOR_TLS
    refuses = {"the server": False, "another authority": refuses_other, "another name": refuses_name}[which]
    assert ("certificate" in said) is refuses
    assert (b"pyhudi" in server.later) is not refuses, "the session starts in TLS, or nothing is said"


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_mode_that_needs_tls_says_nothing_to_a_server_without_it(mode: str, servers: list[Server]) -> None:
    servers.append(server := Server())
    assert "SSL" in said_to(server, f"?sslmode={mode}")
    assert (server.first, server.later) == (ASKS_FOR_TLS, b"")


def test_an_authority_that_is_no_file_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match=r"is no file: /no/such\.pem"):
        open_database("postgresql://u:very-secret@h/d?sslmode=verify-full&sslrootcert=/no/such.pem", 1.0).connect()


@pytest.mark.parametrize(("query", "asks"), [("?sslmode=disable", False), ("?sslmode=prefer", True), ("", True)])
def test_a_session_in_clear_text_starts_at_once_if_it_is_wanted_or_when_the_server_has_no_tls(
    query: str, asks: bool, servers: list[Server]
) -> None:
    servers.append(server := Server())
    said_to(server, query)
    assert (server.first == ASKS_FOR_TLS) is asks
    assert server.first
    assert (b"pyhudi" in server.later) is asks
