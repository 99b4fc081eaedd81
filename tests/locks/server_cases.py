"""The cases that every lock of a server passes, against the real server: expiry, lost and silent servers, partitions, clocks, secrets.

A test class inherits from `ServerCases` and gives it a fixture ``lab``.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.tcp_proxy import TcpProxy
from support.waiting import until

import pyhudi_core as hudi
from pyhudi_core.errors import LockIdentityError, LockServerError, LockTimeoutError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.kind import LockRequest
from pyhudi_core.lock.kinds import open_lock
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage import open_storage

SECRET = "very-secret-42"
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
HOURS_MS = 2 * 3_600_000
_GRACE_S = 30
"""What a bounded call may take beyond its bound on a busy machine."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A lock on a real server.

    Attributes:
        port: the server's port.
        options: Hudi's keys for a server at the given port; its lease is short.
        lease_s: the seconds after which the server gives an abandoned lock to others, at the latest.
        stopped: stops the server for the duration of a block.
    """

    port: int
    options: Callable[[int], dict[str, object]]
    lease_s: float
    stopped: Callable[[], Any]
    location: str

    def provider(self, runtime: Runtime | None = None, port: int | None = None, **more: object) -> LockProvider:
        """The provider as a table opens it."""
        options = WriteOptions.parse({**self.options(port or self.port), **more})
        storage = open_storage(self.location)
        return open_lock(LockRequest(storage, runtime or system_runtime(1), "orders", options.lock))


@dataclass
class WrongClock:
    """The machine's clock, but its time of day is wrong."""

    offset_ms: int

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.offset_ms

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@contextmanager
def proxied(lab: Lab) -> Iterator[TcpProxy]:
    """A proxy before the server."""
    proxy = TcpProxy(lab.port)
    try:
        yield proxy
    finally:
        proxy.close()


@contextmanager
def another_process(lab: Lab) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock."""
    command = [sys.executable, "-m", "locks.holding", lab.location, json.dumps(lab.options(lab.port))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            if process.stdin is not None:
                with suppress(BrokenPipeError):
                    process.stdin.close()


def ask(holder: subprocess.Popen[str]) -> str:
    """Whether the process believes that it holds the lock."""
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.write("\n")
    holder.stdin.flush()
    return holder.stdout.readline().strip()


class ServerCases:
    """See the module's docstring."""

    def test_a_renewed_lock_outlives_its_lease(self, lab: Lab) -> None:
        held = lab.provider().acquire(20, "long work")
        end = time.monotonic() + 1.6 * lab.lease_s
        while time.monotonic() < end:
            assert held.still_held()
            with pytest.raises(LockTimeoutError, match="held by"):
                lab.provider().acquire(0)
            time.sleep(0.1)
        held.release()
        lab.provider().acquire(20).release()

    def test_a_process_that_stands_still_loses_its_lock_and_knows_it_afterwards(self, lab: Lab) -> None:
        with another_process(lab) as holder:
            with pytest.raises(LockTimeoutError, match="another process"):
                lab.provider().acquire(0)
            holder.send_signal(signal.SIGSTOP)
            second = lab.provider().acquire(20 * lab.lease_s + _GRACE_S)
            holder.send_signal(signal.SIGCONT)
            assert ask(holder) == "False", "two writers believe that they hold the lock"
            assert second.still_held()
        assert second.still_held(), "the late release took the lock from its new holder"
        second.release()

    def test_the_lock_of_a_killed_process_goes_to_others(self, lab: Lab) -> None:
        with another_process(lab) as holder:
            assert ask(holder) == "True"
            holder.kill()
            lab.provider().acquire(20 * lab.lease_s + _GRACE_S).release()

    def test_a_writer_cut_off_from_the_server_knows_the_end_of_its_lock(self, lab: Lab) -> None:
        with proxied(lab) as proxy:
            held = lab.provider(port=proxy.port).acquire(20, "cut off")
            assert held.still_held()
            proxy.partition()
            second = lab.provider().acquire(20 * lab.lease_s + _GRACE_S)
            assert held.lease_left_s() == 0, "two writers believe that they hold the lock"  # type: ignore[attr-defined]
            assert not held.still_held()
            proxy.heal()
            assert not held.still_held()
            held.release()
            assert second.still_held()
            second.release()

    def test_a_short_partition_is_survived(self, lab: Lab) -> None:
        with proxied(lab) as proxy:
            held = lab.provider(port=proxy.port).acquire(20, "unlucky")
            proxy.refuse()
            time.sleep(lab.lease_s / 10)
            proxy.heal()
            until(lambda: held.still_held() or held.lease_left_s() == 0)  # type: ignore[attr-defined]
            with pytest.raises((LockTimeoutError, LockServerError)) if held.still_held() else _nothing():
                lab.provider().acquire(0)
            held.release()
            lab.provider().acquire(20 * lab.lease_s + _GRACE_S).release()

    def test_a_silent_server_is_given_up_in_time_and_named(self, lab: Lab) -> None:
        with proxied(lab) as proxy:
            proxy.partition()
            began = time.monotonic()
            with pytest.raises(LockServerError) as refused:
                lab.provider(port=proxy.port).acquire(1)
            assert time.monotonic() - began < 10 + _GRACE_S
            assert str(proxy.port) in str(refused.value)
            assert refused.value.hint
            assert refused.value.table == lab.location

    def test_a_lost_server_is_reported_and_its_return_is_used(self, lab: Lab, tmp_path: Path) -> None:
        options = {**lab.options(lab.port), "hoodie.table.name": "orders", "hoodie.write.lock.wait_time_ms": 4_000}
        with lab.stopped():
            with pytest.raises(LockServerError):
                lab.provider().acquire(0.2)
            with pytest.raises(LockServerError):
                hudi.create_table(str(tmp_path / "table"), SCHEMA, "id", options=options)
            assert not (tmp_path / "table").exists()
        lab.provider().acquire(60 + 20 * lab.lease_s).release()

    def test_a_lock_whose_server_goes_is_lost_to_its_holder(self, lab: Lab) -> None:
        held = lab.provider().acquire(20, "server dies")
        with lab.stopped():
            until(lambda: not held.still_held())
            with pytest.raises(LockServerError):
                held.release()
        lab.provider().acquire(60 + 20 * lab.lease_s).release()

    def test_clocks_that_are_hours_wrong_keep_the_exclusion(self, lab: Lab) -> None:
        for mine, theirs in ((HOURS_MS, -HOURS_MS), (-HOURS_MS, HOURS_MS)):
            early, late = (replace(system_runtime(1), clock=WrongClock(offset)) for offset in (mine, theirs))
            held = lab.provider(early).acquire(20)
            with pytest.raises(LockTimeoutError):
                lab.provider(late).acquire(lab.lease_s / 4)
            assert held.still_held()
            held.release()

    def test_commits_of_two_writers_are_under_the_lock_and_another_lock_is_refused(
        self, lab: Lab, tmp_path: Path
    ) -> None:
        location = str(tmp_path / "table")
        options = {**lab.options(lab.port), "hoodie.table.name": "orders"}
        hudi.create_table(location, SCHEMA, "id", options=options)
        errors: list[BaseException] = []

        def work(first: int) -> None:
            try:
                table = hudi.open_table(location, options=options)
                for n in range(first, first + 2):
                    table.upsert(pa.table({"id": [n], "n": [n]}, SCHEMA))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        table = hudi.open_table(location, options=options)
        assert table.scan().count() == 4
        with pytest.raises(LockIdentityError, match="do not exclude each other") as refused:
            hudi.open_table(location, options={"lock": "file_system"}).upsert(pa.table({"id": [1], "n": [1]}, SCHEMA))
        assert SECRET not in str(refused.value)
        assert _files_with(SECRET, tmp_path) == []

    def test_no_message_log_or_representation_shows_a_secret(
        self, lab: Lab, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        caplog.set_level(logging.DEBUG)
        shown: list[object] = [WriteOptions.parse(lab.options(lab.port))]
        with proxied(lab) as proxy:
            provider = lab.provider(port=proxy.port)
            held = provider.acquire(20, "note")
            shown += [provider, provider.identity, held, vars(provider), vars(held)]
            with pytest.raises(LockTimeoutError) as busy:
                lab.provider().acquire(0)
            shown.append(busy.value)
            held.release()
            proxy.refuse()
            with pytest.raises(LockServerError) as gone:
                lab.provider(port=proxy.port).acquire(0)
            shown += [gone.value, repr(gone.value.__cause__), repr(gone.value.__context__)]
        text = "\n".join([*(f"{value} {value!r}" for value in shown), caplog.text])
        assert SECRET not in text


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _files_with(text: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
