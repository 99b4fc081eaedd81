"""The SQL lock in SQLite: the conformance suite, and what happens without its transaction."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, LockServerError, LockTimeoutError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.databases import Connection, SqliteDatabase, open_database
from pyhudi_core.lock.server import Contender, ServerLockProvider
from pyhudi_core.lock.servers.sql import SqlLockServer, SqlOptions
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.base import Process
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.testing.lock_kit import LockKit

RUNTIME = system_runtime(1)


def server(folder: Path, lease_s: float = 60.0, process: Process = RUNTIME.process) -> SqlLockServer:
    return SqlLockServer(SqliteDatabase(str(folder / "locks.db"), 20.0), "orders", lease_s, process)


@pytest.mark.row("T10")
class TestSqliteLock(LockKit):
    @pytest.fixture
    def providers(self, tmp_path: Path) -> Callable[[], LockProvider]:
        return lambda: ServerLockProvider(server(tmp_path), RUNTIME, "orders", longest_wait_ms=20)


def test_a_table_is_locked_by_the_key_of_its_options(tmp_path: Path) -> None:
    options = {"hoodie.write.lock.provider": "sql", "pyhudi.lock.sql.url": f"sqlite:///{tmp_path}/locks.db"}
    schema = pa.schema([("id", pa.int64())])
    table = hudi.create_table(str(tmp_path / "t"), schema, "id", options=options)
    table.upsert(pa.table({"id": [1]}, schema))
    held = ServerLockProvider(
        SqlLockServer(SqliteDatabase(f"{tmp_path}/locks.db", 1.0), str(tmp_path / "t"), 60.0, RUNTIME.process),
        RUNTIME,
        "t",
    ).acquire(0, "maintenance")
    waiting = hudi.open_table(str(tmp_path / "t"), options={**options, "hoodie.write.lock.wait_time_ms": 10})
    with pytest.raises(LockTimeoutError, match="maintenance"):
        waiting.upsert(pa.table({"id": [2]}, schema))
    held.release()
    waiting.upsert(pa.table({"id": [2]}, schema))


def test_the_lock_of_a_dead_process_of_this_machine_is_taken_at_once(tmp_path: Path) -> None:
    class Gone:
        def identity(self) -> str:
            return "me"

        def is_gone(self, identity: str) -> bool:
            return identity == "dead"

    provider = ServerLockProvider(server(tmp_path, process=Gone()), RUNTIME, "orders")
    assert server(tmp_path).acquisition(Contender("t1", "", "dead")).attempt()
    provider.acquire(0).release()
    assert server(tmp_path).acquisition(Contender("t2", "", "alive")).attempt()
    with pytest.raises(LockTimeoutError, match="alive"):
        provider.acquire(0)


def test_a_database_that_others_lock_is_given_up_in_time(tmp_path: Path) -> None:
    blocked = SqlLockServer(SqliteDatabase(str(tmp_path / "locks.db"), 0.05), "orders", 60.0, RUNTIME.process)
    with sqlite3.connect(tmp_path / "locks.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LockServerError, match="database is locked"):
            ServerLockProvider(blocked, RUNTIME, "orders").acquire(0.1)
        other.execute("ROLLBACK")
    ServerLockProvider(blocked, RUNTIME, "orders").acquire(0).release()


class Mutant(SqlLockServer):
    """Reads the row in one transaction and writes it in the next; the barrier is between them."""

    def take(self, connection: Connection, contender: Contender, gone: str) -> bool:
        found = self.read(connection)
        if found is not None and found.left_ms > 0:
            return False
        _barrier.wait(10)
        insert = "INSERT OR REPLACE INTO pyhudi_locks VALUES (:name, :token, '', '', {now} + 60000)"
        return self.run(connection, insert, token=contender.token)[0] == 1


_barrier = threading.Barrier(2)


@pytest.mark.parametrize("kind", [SqlLockServer, Mutant])
def test_reading_the_row_before_writing_it_loses_commits(kind: type[SqlLockServer], tmp_path: Path) -> None:
    """The commits are counted in a file, as two writers without a commit record would do it."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    read = threading.Barrier(2)
    sound = server(tmp_path)
    sound.acquisition(Contender("first", "", "")).attempt()
    sound.acquisition(Contender("first", "", "")).release()

    def commit() -> None:
        made = kind(sound.database, sound.name, sound.lease_s, sound.process)
        session = ServerLockProvider(made, RUNTIME, "orders", longest_wait_ms=20).acquire(20)
        before = int(counter.read_text())
        if kind is Mutant:
            read.wait(10)
        counter.write_text(str(before + 1))
        session.release()

    threads = [threading.Thread(target=commit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == ("1" if kind is Mutant else "2")


@pytest.mark.parametrize(
    "url",
    ["", "mysql://u:very-secret@h/d", "postgresql://u:very-secret@/", "postgresql://u:very-secret@h:x/d", "sqlite://h/x", "sqlite:///",
     "postgresql://u:very-secret@h/d?sslmode=allow", "postgresql://u:very-secret@h/d?sslrootcert=/x", "postgresql://u:very-secret@h/d?sslkey=/x"],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        open_database(url, 1.0)
    assert "very-secret" not in str(refused.value)


def test_the_password_is_in_no_representation_or_identity() -> None:
    options = WriteOptions.parse({"lock": "sql", "pyhudi.lock.sql.url": "postgresql://u:very-secret@h/d"})
    database = open_database(options.lock.of(SqlOptions).url, 1.0)
    made = SqlLockServer(database, "orders", 60.0, RUNTIME.process)
    assert made.identity == "sql:postgresql://h:5432/d#orders"
    assert "very-secret" not in f"{options!r} {made!r} {made.identity}"


def test_a_lock_without_its_address_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    hudi.create_table(str(tmp_path / "t"), schema, "id")
    with pytest.raises(InvalidOptionError, match=r"pyhudi\.lock\.sql\.url"):
        hudi.open_table(str(tmp_path / "t"), options={"lock": "sql"}).upsert(pa.table({"id": [1]}, schema))
