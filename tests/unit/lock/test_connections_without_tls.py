"""A connection to another machine in clear text, or to a server whose certificate nobody looks at, is said once."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress

import pytest

from pyhudi_core.errors import HudiError
from pyhudi_core.lock.clients.databases import PostgresDatabase
from pyhudi_core.lock.clients.hive_metastore import HiveConnection, HiveMetastore
from pyhudi_core.lock.clients.zookeeper import Tls, ZooKeeper
from pyhudi_core.storage.clear_text import _warn

Connects = Callable[[str, str], object]


def postgres(host: str, tls: str) -> None:
    PostgresDatabase(host, 5432, "d", "u", 1, tls, "", "very-secret").connect()


def metastore(host: str, tls: str) -> None:
    HiveConnection(HiveMetastore(((host, 9083),), 1, bool(tls)))._connected(host, 9083)


def zookeeper(host: str, tls: str) -> None:
    ZooKeeper(f"{host}:2181", 1, 1, Tls("", "", "") if tls else None)._security()


CASES = [
    (postgres, "disable", "PostgreSQL at {}:5432 is asked in clear text: set sslmode=verify-full"),
    (postgres, "prefer", "PostgreSQL at {}:5432 is asked without a look at its certificate: set sslmode=verify-full"),
    (postgres, "require", "PostgreSQL at {}:5432 is asked without a look at its certificate: set sslmode=verify-full"),
    (postgres, "verify-full", ""),
    (metastore, "", "The Hive Metastore at {}:9083 is asked in clear text: set pyhudi.lock.hivemetastore.tls"),
    (metastore, "tls", ""),
    (zookeeper, "", "ZooKeeper at {}:2181 is asked in clear text: set pyhudi.lock.zookeeper.tls"),
    (zookeeper, "tls", ""),
]


@pytest.mark.parametrize(("connects", "tls", "text"), CASES)
@pytest.mark.parametrize("host", ["server", "10.0.0.7", "127.0.0.1", "localhost"])
def test_a_server_on_another_machine_that_is_not_checked_is_said_once(
    connects: Connects,
    tls: str,
    text: str,
    host: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(socket, "create_connection", refuses)
    _warn.cache_clear()
    for _ in range(2):
        with suppress(HudiError, OSError):
            connects(host, tls)
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    is_here = host in ("127.0.0.1", "localhost")
    assert [one.partition(", unless")[0] for one in warned] == ([text.format(host)] if text and not is_here else [])
