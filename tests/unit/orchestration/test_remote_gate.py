"""A write in another process asks before it takes the table's lock; under the lock it only looks whether the permission still stands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from support.homes import StandingClock

import pyhudi_core as hudi
from pyhudi_core import orchestration
from pyhudi_core.errors import (
    CommitAbortedError,
    InvalidOptionError,
    InvalidRecordKeyError,
    LockTimeoutError,
    StorageError,
)
from pyhudi_core.orchestration.remote_gate import VALID_S, RemoteGate
from pyhudi_core.storage import open_storage

ROWS = pa.table({"id": [1]})


class Sleeper(StandingClock):
    """A clock that does something in each sleep, after the time has passed."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__(tick_ms=0)
        self.meanwhile = meanwhile

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.meanwhile()


class FailsOnce:
    """A storage whose first write fails."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def put(self, path: str, body: bytes) -> Any:
        if not self.failed:
            self.failed = True
            raise StorageError("the storage is busy")
        return self.storage.put(path, body)


def both_sides(
    location: str, meanwhile: Callable[[RemoteGate, StandingClock], object]
) -> tuple[RemoteGate, RemoteGate, Sleeper]:
    """The writer's side, the other one, and their clock; ``meanwhile`` runs in each sleep of the writer."""
    storage = open_storage(location, {})
    clock = Sleeper(lambda: meanwhile(other, clock))
    other = RemoteGate(storage, clock)
    return RemoteGate(storage, clock), other, clock


def grants(other: RemoteGate, _: StandingClock) -> None:
    if other.question() is not None:
        other.answer()


def test_a_permission_stands_for_a_minute(location: str) -> None:
    writer, _, clock = both_sides(location, grants)
    writer.ask({}, 120)
    clock.time_ms += round((VALID_S - 1) * 1000)
    assert writer.is_valid()
    clock.time_ms += 2_000
    assert not writer.is_valid()
    writer.ask({}, 120)
    assert writer.is_valid()


def test_an_answer_that_comes_later_than_a_minute_is_asked_for_again_however_long_the_writer_waits(
    location: str,
) -> None:
    asked = []

    def pauses_once(other: RemoteGate, clock: StandingClock) -> None:
        if (question := other.question()) is not None:
            other.answer()
            asked.append(question)
            clock.time_ms += 110_000 if len(asked) == 1 else 0

    writer, _, _ = both_sides(location, pauses_once)
    writer.ask({}, 120)
    assert len(asked) == 2
    assert writer.is_valid()


def test_nobody_waits_longer_than_the_limit_for_answers_that_always_come_too_late(location: str) -> None:
    def pauses(other: RemoteGate, clock: StandingClock) -> None:
        if other.question() is not None:
            other.answer()
            clock.time_ms += 110_000

    writer, _, _ = both_sides(location, pauses)
    with pytest.raises(CommitAbortedError, match="Nobody permitted the commit within 120 s"):
        writer.ask({}, 120)


def test_a_permission_that_was_taken_back_is_refused(location: str) -> None:
    writer, other, _ = both_sides(location, grants)
    writer.ask({}, 120)
    other.close()
    with pytest.raises(CommitAbortedError, match="taken back"):
        writer.is_valid()


def test_an_answer_that_could_not_be_stored_is_given_again(location: str) -> None:
    storage = open_storage(location, {})
    writer, other = RemoteGate(storage, Sleeper(lambda: None)), RemoteGate(FailsOnce(storage), StandingClock())  # type: ignore[arg-type]
    with pytest.raises(CommitAbortedError, match="Nobody"):
        writer.ask({"rows": 1}, 0)
    with pytest.raises(StorageError):
        other.answer()
    assert other.question() == {"rows": 1}
    other.answer()
    assert other.question() is None


def request(location: str, **more: Any) -> orchestration.WriteRequest:
    return orchestration.WriteRequest(f"{location}/t", f"{location}/p", "upsert", ("id",), **{"wait_s": 20.0, **more})


@contextmanager
def step(location: str, answer: Callable[[orchestration.RemoteGate], object]) -> Iterator[None]:
    """The other side in a thread: calls ``answer`` when there is a question, and again for each further one."""
    gate, ended = orchestration.open_gate(f"{location}/p"), threading.Event()

    def answering() -> None:
        while not ended.wait(0.05):
            if gate.question() is not None:
                answer(gate)

    thread = threading.Thread(target=answering)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def other_writer(location: str) -> hudi.HudiTable:
    """A handle that does not wait for the lock."""
    return hudi.open_table(f"{location}/t", options={"hoodie.write.lock.wait_time_ms": "0"})


def test_an_answer_may_take_as_long_as_the_request_allows_and_nobody_waits_for_the_lock_meanwhile(
    location: str,
) -> None:
    hudi.create_table(f"{location}/t", schema=ROWS.schema, record_key=["id"])
    others: list[hudi.Commit] = []

    def slow(gate: orchestration.RemoteGate) -> None:
        others.append(other_writer(location).upsert(pa.table({"id": [9]})))
        threading.Event().wait(2.2)  # more than a gate may take under the lock
        gate.answer()

    with step(location, slow):
        assert hudi.commit_for(request(location), ROWS)
    assert len(others) == 1
    assert sorted(other_writer(location).scan().to_arrow()["id"].to_pylist()) == [1, 9]


def test_a_write_that_nobody_permits_keeps_nobody_from_the_table(location: str) -> None:
    hudi.create_table(f"{location}/t", schema=ROWS.schema, record_key=["id"])
    ended: list[BaseException] = []

    def orphan() -> None:
        with pytest.raises(CommitAbortedError) as caught:
            hudi.commit_for(request(location, wait_s=1.5), ROWS)
        ended.append(caught.value)

    thread = threading.Thread(target=orphan)
    thread.start()
    watched = orchestration.open_gate(f"{location}/p")
    while watched.question() is None:
        threading.Event().wait(0.02)
    try:
        assert other_writer(location).upsert(pa.table({"id": [9]}))
    except LockTimeoutError as error:
        pytest.fail(f"the waiting write holds the lock: {error}")
    finally:
        thread.join()
    assert "within 1.5 s" in str(ended[0])
    assert other_writer(location).scan().to_arrow()["id"].to_pylist() == [9]


def test_a_permission_that_grew_old_while_the_lock_was_awaited_is_asked_for_again(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[int] = []
    monkeypatch.setattr("pyhudi_core.orchestration.remote_gate.VALID_S", 1.0)

    def grant(gate: orchestration.RemoteGate) -> None:
        gate.answer()
        answered.append(1)

    hudi.create_table(f"{location}/t", schema=ROWS.schema, record_key=["id"])

    def slow(_: object) -> None:
        threading.Event().wait(1.1)

    with step(location, grant):
        assert hudi.commit_for(request(location), ROWS, pre_commit=[slow])
    assert len(answered) == 2


def test_a_permission_that_is_taken_back_before_the_lock_is_held_publishes_nothing(location: str) -> None:
    hudi.create_table(f"{location}/t", schema=ROWS.schema, record_key=["id"])

    def step_ends(_: object) -> None:
        orchestration.open_gate(f"{location}/p").close()

    with (
        step(location, lambda gate: gate.answer()),
        pytest.raises(CommitAbortedError, match="taken back"),
    ):
        hudi.commit_for(request(location), ROWS, pre_commit=[step_ends])
    assert other_writer(location).scan().count() == 0


SECRETS = {
    "pyhudi.lock.sql.url": "postgresql://user:pass-word@host:5432/locks",
    "hoodie.aws.access.key": "pass-word-1",
    "hoodie.aws.secret.key": "pass-word-2",
    "hoodie.aws.session.token": "pass-word-3",
}


def test_a_request_has_no_secrets(location: str) -> None:
    asked = request(location, options={**SECRETS, "hoodie.write.lock.provider": "sql"})
    assert asked.to_json()["options"] == {"hoodie.write.lock.provider": "sql"}
    assert "pass-word" not in repr(asked) + repr(asked.to_json())


def test_the_process_that_writes_gives_the_secrets_itself(location: str) -> None:
    with step(location, lambda gate: gate.answer()):
        asked = request(location, options={"hoodie.write.lock.provider": "sql"}).to_json()
        url = {"pyhudi.lock.sql.url": f"sqlite:///{location}/locks.db"}
        assert hudi.commit_for(asked, ROWS, options=url)
        assert hudi.commit_for(asked, pa.table({"id": [2]}), options=url)
    assert hudi.open_table(f"{location}/t").scan().count() == 2


def test_a_first_write_that_is_refused_leaves_no_table(location: str) -> None:
    with pytest.raises(InvalidOptionError, match="no record_key was given"):
        hudi.commit_for(replace(request(location), record_key=()), ROWS)
    with pytest.raises(InvalidRecordKeyError):
        hudi.commit_for(request(location), pa.table({"id": pa.array([None], pa.int64())}))
    assert not hudi.table_exists(request(location).table)
