"""A lock server that does not answer: what it costs a write, and that no table is made without it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.homes import StandingClock, runtime_with
from support.ports import free_port
from support.tables import ORDERS

import pyhudi_core as hudi
from pyhudi_core.errors import LockServerError
from pyhudi_core.lock.base import LockProvider, LockSession
from pyhudi_core.lock.in_process import InProcessLockProvider
from pyhudi_core.lock.server import Contender, ServerLockProvider
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import create_whole
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage import open_storage
from pyhudi_core.table import HudiTable

SCHEMA = pa.schema([("id", pa.int64())])
WAIT_S = 60.0


class Dying:
    """A lock whose server goes after some acquisitions. ``waits``: how long each later one was ready to wait."""

    def __init__(self, lock: LockProvider) -> None:
        self.lock = lock
        self.answers = 1_000
        self.waits: list[float] = []

    @property
    def identity(self) -> str:
        return self.lock.identity

    def acquire(self, timeout_s: float, note: str = "") -> LockSession:
        if self.answers:
            self.answers -= 1
            return self.lock.acquire(timeout_s, note)
        self.waits.append(timeout_s)
        raise LockServerError("The server does not answer")


@pytest.fixture
def lock() -> Dying:
    return Dying(InProcessLockProvider("memory://orders", system_runtime(1).ids, "me"))


@pytest.fixture
def table(lock: Dying, tmp_path: Path) -> HudiTable:
    home = OpenedTable(open_storage(f"memory://{tmp_path.name}"), system_runtime(1), {}, lock)
    made = create_whole(home, SCHEMA, "id")
    made.upsert(_rows(1))
    return made


@pytest.mark.row("T10")
@pytest.mark.parametrize(
    ("answers", "work"),
    [
        (0, lambda table: table.upsert(_rows(2))),
        (3, lambda table: table.indexes.create("record_index")),
    ],
    ids=["the commit of a write", "the second decision of an index"],
)
def test_a_failed_step_waits_for_its_server_once_and_asks_once_to_clean_up(
    answers: int, work: Callable[[HudiTable], object], table: HudiTable, lock: Dying, caplog: pytest.LogCaptureFixture
) -> None:
    lock.answers = answers
    with pytest.raises(LockServerError) as failed:
        work(table)
    assert lock.waits == [WAIT_S, 0]
    assert len(failed.value.__notes__) == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == [], "it is said by the error"


def test_what_could_not_be_removed_disturbs_no_later_write(table: HudiTable, lock: Dying) -> None:
    lock.answers = 0
    with pytest.raises(LockServerError, match="does not answer"):
        table.upsert(_rows(2))
    assert len(table.timeline.pending) == 1
    lock.answers = 1_000
    table.upsert(_rows(3))
    assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [1, 3]


@pytest.mark.row("T10")
@pytest.mark.parametrize(
    "options",
    [
        {"lock": "sql", "pyhudi.lock.sql.url": "postgresql://u:p@127.0.0.1:{port}/d"},
        {"lock": "sql", "pyhudi.lock.sql.url": "postgresql://u:p@127.0.0.1:{port}/d", "hoodie.metadata.enable": "false"},
        {
            "lock": "file_system",
            "pyhudi.time.generator": "zookeeper",
            "hoodie.write.lock.zookeeper.url": "127.0.0.1:{port}",
            "hoodie.write.lock.zookeeper.base_path": "/x",
            "hoodie.write.lock.zookeeper.connection_timeout_ms": "300",
        },
    ],
    ids=["a lock", "a lock without a metadata table", "a source of times"],
)  # fmt: skip
def test_a_table_is_not_created_while_its_server_cannot_be_reached(options: dict[str, str], tmp_path: Path) -> None:
    place, port = tmp_path / "t", free_port()
    given = {key: value.replace("{port}", str(port)) for key, value in options.items()}
    with pytest.raises(LockServerError, match=str(port)):
        hudi.create_table(place, ORDERS, "id", options={**given, "hoodie.write.lock.wait_time_ms": 200})
    assert not place.exists()


class Silent:
    """A server that answers no request; each takes 20 seconds of a clock that nobody waits for."""

    identity = "silent"
    lease_s = renew_s = 60.0

    def __init__(self, clock: StandingClock) -> None:
        self.clock = clock

    def acquisition(self, contender: Contender) -> Silent:
        return self

    def attempt(self) -> bool:
        self.clock.sleep(20)
        raise LockServerError("No answer")

    def renew(self) -> bool:
        return self.attempt()

    def release(self) -> None: ...

    def holder(self) -> str:
        return ""


def test_the_message_says_how_long_the_last_request_took_if_it_was_longer_than_the_wait() -> None:
    clock = StandingClock()
    lock = ServerLockProvider(Silent(clock), runtime_with(clock=clock), "orders")
    with pytest.raises(LockServerError, match=r"within 3 s \(the last request took until 20 s\): No answer"):
        lock.acquire(3)


def _rows(key: int) -> pa.Table:
    return pa.table({"id": [key]}, SCHEMA)
