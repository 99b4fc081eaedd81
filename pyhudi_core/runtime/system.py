"""The real runtime: the machine's clock, randomness, threads, timers and processes, and the facts about this process in its commits.

Executors hold no threads between calls, so Spark can send them to its workers, and they need no shutdown.
"""

from __future__ import annotations

import logging
import os
import pwd
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyhudi_core.errors import ConfigError
from pyhudi_core.lazy import lazy
from pyhudi_core.runtime.base import R, Runtime, T

if TYPE_CHECKING:
    import secrets
    import uuid
    from concurrent import futures as pools
else:
    secrets, uuid = (lazy("secrets"), lazy("uuid"))
    pools = lazy("concurrent.futures")


def system_runtime(workers: int | None = None) -> Runtime:
    """Return the machine's clock, randomness, threads and timers.

    Args:
        workers: the maximum number of concurrent calls; None is the number of cores that this process may use.
    """
    width = workers if workers is not None else available_cores()
    executor = SerialExecutor() if width <= 1 else ThreadExecutor(width)
    return Runtime(SystemClock(), RandomIds(), executor, ThreadTimer(), SystemProcess(), writer=system_writer)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


class RandomIds:
    """Identifiers from the operating system's source of randomness."""

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)


@dataclass(frozen=True, slots=True)
class SerialExecutor:
    """Runs the calls one after the other, in the calling thread."""

    @property
    def workers(self) -> int:
        return 1

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        return [fn(item) for item in items]

    def at_least(self, calls: int) -> SerialExecutor:
        return self


@dataclass(frozen=True, slots=True)
class ThreadExecutor:
    """Runs up to ``workers`` calls at once. After an error it starts no further call."""

    workers: int

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        work = list(items)
        width = min(self.workers, len(work))
        if width <= 1:
            return list(map(fn, work))
        failed = threading.Event()

        def run(item: T) -> R | None:
            if failed.is_set():
                return None
            try:
                return fn(item)
            except BaseException:
                failed.set()
                raise

        with pools.ThreadPoolExecutor(width, thread_name_prefix="pyhudi") as pool:
            futures = [pool.submit(run, item) for item in work]
        # The pool is empty here: all calls have ended. A skipped call comes with an error, which result() raises first
        # or later.
        for future in futures:
            error = future.exception()
            if error is not None:
                raise error
        return [future.result() for future in futures]  # type: ignore[misc]

    def at_least(self, calls: int) -> ThreadExecutor:
        return self if calls <= self.workers else ThreadExecutor(calls)


_log = logging.getLogger(__name__)

PATIENCE_S = 10.0
"""Seconds that `cancel` waits for a running call; a call to a storage may hang for minutes."""


class ThreadTimerHandle:
    """A repeating call in a daemon thread."""

    def __init__(self, seconds: float, fn: Callable[[], None], name: str, patience_s: float = PATIENCE_S) -> None:
        self._seconds = seconds
        self._patience_s = patience_s
        self._fn = fn
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def error(self) -> BaseException | None:
        """The error of the latest call; None if it succeeded. An error does not stop later calls."""
        return self._error

    def cancel(self) -> None:
        """Stop the calls. Returns when no call is running, or when the waiting time is over. The call itself may cancel, too."""
        self._stop.set()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(self._patience_s)
        if self._thread.is_alive():
            _log.warning(
                "%s is still running after %g s; cancel does not wait any longer", self._thread.name, self._patience_s
            )

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._fn()
                self._error = None
            except Exception as error:  # noqa: BLE001 (the next call must happen after any error)
                self._error = error


class ThreadTimer:
    """Starts one daemon thread for each repeating call, so that a slow call cannot delay another.

    Args:
        patience_s: seconds that `cancel` waits for a running call.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s

    def every(self, seconds: float, fn: Callable[[], None], name: str) -> ThreadTimerHandle:
        return ThreadTimerHandle(seconds, fn, name, self._patience_s)


_ENDED = ("Z", "X")
"""States of an ended process whose exit code was not read yet."""


@dataclass(frozen=True, slots=True)
class SystemProcess:
    """The operating system's processes; identities are ``<host>|<machine>|<pid>|<start time>``."""

    def identity(self) -> str:
        pid = os.getpid()
        return f"{socket.gethostname()}|{machine()}|{pid}|{own_start_time()}"

    def is_gone(self, identity: str) -> bool:
        parts = identity.split("|")
        if len(parts) != 4 or parts[:2] != [socket.gethostname(), machine()] or not parts[1]:
            return False
        pid, started = parts[2:]
        return pid.isascii() and pid.isdigit() and len(pid) <= 10 and bool(started) and has_ended(int(pid), started)


_known: dict[str, str] = {}
"""Facts that do not change while this process runs, cached because each writer needs them several times. A fork clears them."""
os.register_at_fork(after_in_child=_known.clear)


def machine() -> str:
    """Return the boot and the process namespace; empty if the system does not provide them."""
    found = _known.get("machine") or _machine()
    if found:  # a failed read may succeed later
        _known["machine"] = found
    return found


def own_start_time() -> str:
    """Return the start time of this process; empty if the system does not provide it."""
    found = _known.get("started") or start_time(os.getpid()) or ""
    if found:
        _known["started"] = found
    return found


def _machine() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def start_time(pid: int) -> str | None:
    """Return the start time of a running process, in the kernel's unit; None if it does not run, or the system does not provide the time."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in _ENDED else fields[19]


def has_ended(pid: int, started: str) -> bool:
    """Return whether the process with this number and start time (empty: any) is known to have ended."""
    fields = _stat(pid)
    if fields is not None:
        return fields[0] in _ENDED or (bool(started) and fields[19] != started)
    # A failed read of /proc proves nothing: too many files may be open, or the system may hide other users' processes.
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def _stat(pid: int) -> list[str] | None:
    """Return the fields after the name in /proc/<pid>/stat, the state first; None if the file cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


_RUN_OF_AIRFLOW = ("AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_TASK_ID", "AIRFLOW_CTX_DAG_RUN_ID")
"""Variables that Airflow sets while a task runs."""


def system_writer() -> Mapping[str, str]:
    """Return user, host, program, and the run of Airflow if there is one.

    Arguments of the command are not included, because they may contain secrets.
    """
    run = "/".join(filter(None, map(os.environ.get, _RUN_OF_AIRFLOW)))
    found = {"user": _user(), "host": socket.gethostname(), "program": _program(), "run": run and f"airflow {run}"}
    return {name: text for name, text in found.items() if text}


def _user() -> str:
    """Return the name of the process's user, or the number if the system has no name for it, as in many containers."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _program() -> str:
    """Return the name of the running script or package, without its folder; ``python`` if there is none."""
    folder, name = os.path.split(sys.argv[0] if sys.argv else "")
    if name == "__main__.py":  # a package that runs as ``python -m package``
        name = os.path.basename(folder)
    return "python" if name in ("", "-", "-c", "-m") else name


PAGE_BYTES = "PYHUDI_MAX_PAGE_BYTES"
"""The environment variable for the maximum inflated bytes of the pages of a Parquet row group in memory."""


def page_bytes() -> int | None:
    """Return the maximum inflated bytes of pages from the environment variable `PAGE_BYTES`; None if the variable is not set.

    Raises `ConfigError` if the value is not a number.
    """
    text = os.environ.get(PAGE_BYTES)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ConfigError(
            f"The environment variable {PAGE_BYTES} is {text!r:.40}", hint="Set it to a number of bytes, or remove it."
        )
    return int(text)
