"""The real clock, chance, threads and timers do what their protocols say."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time

import pytest

from pyhudi_core.runtime import (
    Executor,
    RandomIds,
    SerialExecutor,
    SystemClock,
    ThreadExecutor,
    ThreadTimer,
    available_cores,
    system_runtime,
)
from pyhudi_core.runtime.held_settings import HeldSettings
from pyhudi_core.runtime.system import SystemProcess, start_time


@pytest.mark.parametrize(
    "executor", [SerialExecutor(), ThreadExecutor(1), ThreadExecutor(3), ThreadExecutor(50)], ids=repr
)
def test_results_come_in_the_order_of_the_items(executor: Executor) -> None:
    assert executor.map(lambda n: n * n, range(20)) == [n * n for n in range(20)]
    assert executor.map(str, iter("")) == []


def test_calls_run_at_the_same_time_up_to_the_number_of_workers() -> None:
    together = threading.Barrier(3)
    assert len(ThreadExecutor(3).map(lambda _: together.wait(10), range(3))) == 3


def test_the_first_error_by_item_is_raised_after_all_running_calls_ended() -> None:
    ended: list[int] = []
    started = threading.Barrier(2)

    def call(n: int) -> int:
        started.wait(10)
        if n == 1:
            raise ValueError("second item")
        time.sleep(0.05)
        ended.append(n)
        raise KeyError("first item")

    with pytest.raises(KeyError, match="first item"):
        ThreadExecutor(2).map(call, [0, 1])
    assert ended == [0]


def test_after_an_error_no_further_call_is_started() -> None:
    called: list[int] = []

    def call(n: int) -> None:
        called.append(n)
        if n == 0:
            raise ValueError("stop")
        time.sleep(0.02)

    with pytest.raises(ValueError, match="stop"):
        ThreadExecutor(2).map(call, range(100))
    assert len(called) < 100


def test_a_map_inside_a_map_does_not_block() -> None:
    executor = ThreadExecutor(2)
    assert executor.map(lambda n: sum(executor.map(lambda m: n * m, range(4))), range(4)) == [0, 6, 12, 18]


def test_executors_travel_between_processes() -> None:
    assert pickle.loads(pickle.dumps(ThreadExecutor(2))).map(abs, [-1, -2]) == [1, 2]


def test_a_timer_calls_until_it_is_cancelled() -> None:
    called = threading.Semaphore(0)
    handle = ThreadTimer().every(0.001, called.release, "beat")
    for _ in range(3):
        assert called.acquire(timeout=10)
    handle.cancel()
    while called.acquire(blocking=False):
        pass
    time.sleep(0.02)
    assert not called.acquire(blocking=False)
    handle.cancel()


def test_a_timer_survives_an_error_and_remembers_it() -> None:
    calls = threading.Semaphore(0)

    def fail() -> None:
        calls.release()
        raise RuntimeError("no route")

    handle = ThreadTimer().every(0.001, fail, "beat")
    assert calls.acquire(timeout=10)
    assert calls.acquire(timeout=10)
    handle.cancel()
    assert isinstance(handle.error, RuntimeError)


def test_a_call_that_went_well_clears_the_error() -> None:
    outcomes = iter([RuntimeError("once")])
    done = threading.Semaphore(0)

    def call() -> None:
        error = next(outcomes, None)
        done.release()
        if error:
            raise error

    handle = ThreadTimer().every(0.001, call, "beat")
    for _ in range(3):
        assert done.acquire(timeout=10)
    handle.cancel()
    assert handle.error is None


def test_cancel_does_not_wait_for_ever_for_a_call_that_hangs() -> None:
    """A heartbeat in a storage that does not answer must not keep a commit that stands from its caller."""
    entered, goes_on = threading.Event(), threading.Event()
    ended: list[bool] = []

    def hang() -> None:
        entered.set()
        goes_on.wait(60)
        ended.append(True)

    handle = ThreadTimer(patience_s=0.05).every(0.001, hang, "beat")
    assert entered.wait(10)
    handle.cancel()
    assert not ended, "it waited for the call"
    goes_on.set()


def test_cancel_waits_for_the_running_call() -> None:
    entered = threading.Event()
    ended: list[bool] = []

    def slow() -> None:
        entered.set()
        time.sleep(0.05)
        ended.append(True)

    handle = ThreadTimer().every(0.001, slow, "beat")
    assert entered.wait(10)
    handle.cancel()
    assert ended


def test_a_call_may_cancel_its_own_timer() -> None:
    cancelled = threading.Event()
    ready = threading.Event()

    def call() -> None:
        ready.wait(10)
        handle.cancel()
        cancelled.set()

    handle = ThreadTimer().every(0.001, call, "beat")
    ready.set()
    assert cancelled.wait(10)


def test_the_system_clock_and_ids_are_sound() -> None:
    clock, ids = SystemClock(), RandomIds()
    before = clock.monotonic()
    clock.sleep(0.01)
    clock.sleep(-1)
    assert clock.monotonic() - before >= 0.01
    earlier, now, later = int(time.time() * 1000), clock.now_ms(), time.time() * 1000
    assert earlier <= now <= later
    assert len({ids.uuid() for _ in range(100)}) == 100
    assert {ids.below(3) for _ in range(200)} == {0, 1, 2}


def test_the_system_runtime_uses_the_cores_of_the_process() -> None:
    assert system_runtime(4).executor == ThreadExecutor(4)
    assert system_runtime(1).executor == SerialExecutor()
    assert available_cores() >= 1


def test_a_forked_process_has_an_identity_of_its_own() -> None:
    here = SystemProcess().identity()  # what does not change is remembered now
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, SystemProcess().identity().encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as found:
        host, machine, pid, started = found.read().decode().split("|")
    os.waitpid(child, 0)
    assert [host, machine] == here.split("|")[:2]
    assert (int(pid), bool(started)) == (child, True)
    assert started != here.split("|")[3] or pid != here.split("|")[2]


def test_a_process_is_gone_when_it_has_ended_and_nobody_else_is() -> None:
    here = SystemProcess()
    host, machine, pid, started = here.identity().split("|")
    assert (int(pid), started) == (os.getpid(), start_time(os.getpid()))
    assert started
    assert not here.is_gone(here.identity())
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    assert start_time(ended.pid) is None
    assert here.is_gone(f"{host}|{machine}|{ended.pid}|{started}")
    assert here.is_gone(f"{host}|{machine}|{pid}|1"), "another process has got its number"
    for other in ("x", "", "\u0663", "-1", "9" * 11):
        assert not here.is_gone(f"{host}|{machine}|{other}|{started}")
    assert not here.is_gone(f"{host}|{machine}|{pid}|")
    assert not here.is_gone(f"elsewhere|{machine}|{pid}|1")
    assert not here.is_gone(f"{host}|elsewhere|{pid}|1")


def test_held_settings_are_as_before_when_the_last_of_several_users_leaves() -> None:
    held, store = HeldSettings(), Settings({"a": "before", "b": "other"})
    with held.under("session", store, {"a": "1"}):
        with held.under("session", store, {"a": "2", "b": "3"}):
            assert store.values == {"a": "2", "b": "3"}
        assert store.values == {"a": "2", "b": "other"}
    assert store.values == {"a": "before", "b": "other"}


class Settings:
    """Settings in memory."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    def get(self, key: str) -> str | None:
        return self.values.get(key)

    def set(self, key: str, value: str) -> None:
        self.values[key] = value
