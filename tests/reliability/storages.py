"""Storages for a table: the simulated object stores, and S3 over real sockets with the real client library.

A test of conditional writes runs at all of them. `Place.lose` and its sisters say what goes wrong in words that both kinds understand; what only one
kind can do is skipped by name (`Place.needs`). Whatever is opened at one place sees the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import count
from typing import Any, Literal

import boto3
import pytest
from moto.server import ThreadedMotoServer
from support.emulated_s3 import one_request_at_a_time
from support.tables import ORDERS, orders
from support.wrapping import WrappedStorage

import pyhudi_core as hudi
from pyhudi_core.errors import CommitStateUnknownError, HudiError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import create_at
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.runtime.system import RandomIds, SerialExecutor, SystemClock, ThreadTimer
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.s3 import S3Storage
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Fault, Profile, SimOptions, SimWorld
from pyhudi_core.testing.lost_ack_proxy import LostAckProxy

CREDENTIALS = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret"}
OPTIONS: Mapping[str, object] = {
    "hoodie.time.generator.max_expected_clock_skew_ms": 0,
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.bloom.index.filter.dynamic.max.entries": 100,
}
COMPLETED = ".hoodie/timeline/*_*.commit"
RECORD = ".hoodie/.aux/.pyhudi/commit_record*"
LOCK_FILE = ".hoodie/.locks/table_lock.json"

Trouble = Literal["lost_ack", "412_after", "409", "503"]
"""What goes wrong with a conditional write: it happens, and the answer is lost, or says that somebody else was first; it does not happen, because
another write is under way, or because there are too many.
"""

BEFORE = orders((1, "a", 1.0), (2, "b", 2.0))
BATCH = orders((1, "a", 10.0), (3, "a", 3.0))
OLD = [(1, 1.0), (2, 2.0)]
NEW = [(1, 10.0), (2, 2.0), (3, 3.0)]

_numbers = count()


class Place:
    """One storage. ``name`` is its kind; ``is_simulated`` says whether it is simulated."""

    name: str
    is_simulated: bool
    storage: Storage
    runtime: Runtime

    def home(self, storage: Storage | None = None, lock: LockProvider | None = None, **options: object) -> OpenedTable:
        """What one process knows of the table; dots in option keys are written as double underscores."""
        given = {key.replace("__", "."): value for key, value in options.items()}
        return OpenedTable(storage or self.storage, self.runtime, {**OPTIONS, **given}, lock)

    def make(self, lock: LockProvider | None = None, **options: object) -> HudiTable:
        """Make the table."""
        return create_at(self.home(None, lock, **options), ORDERS, "id", partition_by="day")

    def table(self, storage: Any = None, lock: LockProvider | None = None, **options: object) -> HudiTable:
        """The table as another process opens it, perhaps through a wrapper around the place's storage."""
        return HudiTable(self.home(storage, lock, **options))

    def goes_wrong(self, how: Trouble, path: str, times: int = 1, verb: str = "put_if_absent") -> None:
        """Plan a fault for the next conditional writes of a verb on matching paths (a shell pattern without ``?`` and ``[``)."""
        raise NotImplementedError

    def writes(self, path: str) -> int:
        """The number of write requests to a path (or to paths that contain this text) that reached the store since the last `forget`."""
        raise NotImplementedError

    def forget(self) -> None:
        """Forget the requests so far, and planned faults that did not happen."""
        raise NotImplementedError


_FAULTS = {
    "lost_ack": Fault.LOST_ACK,
    "412_after": Fault.FALSE_PRECONDITION,
    "409": Fault.CONFLICT,
    "503": Fault.THROTTLED,
}


class SimulatedPlace(Place):
    """A simulated object store. Its adapter does not repeat calls, so one fault is final."""

    is_simulated = True

    def __init__(self, profile: Profile) -> None:
        self.name = profile.value
        self.sim = SimWorld(SimOptions(profile=profile))
        self.storage = Counting(self.sim.storage)  # type: ignore[assignment]
        self.runtime = self.sim.runtime

    def goes_wrong(self, how: Trouble, path: str, times: int = 1, verb: str = "put_if_absent") -> None:
        self.sim.storage.inject(_FAULTS[how], verb, path, times)

    def writes(self, path: str) -> int:
        return sum(path in seen for verb, seen in self.storage.calls if verb.startswith("put"))  # type: ignore[attr-defined]

    def forget(self) -> None:
        self.storage.calls.clear()  # type: ignore[attr-defined]
        self.sim.storage.injections.clear()


class Counting(WrappedStorage):
    """Records the verbs and paths of the calls that change something."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.calls: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name not in ("put", "put_if_absent", "put_if_match", "delete", "delete_if_match", "open_output"):
            return real

        def call(path: str, *rest: Any) -> Any:
            self.calls.append((name, path))
            return real(path, *rest)

        return call


class NoWaiting(SystemClock):
    """A clock whose waits between attempts return at once."""

    def sleep(self, seconds: float) -> None:
        return


class EchoingProxy(LostAckProxy):
    """A proxy that can also repeat a successful write, as a store's load balancer may do, and return the second response."""

    def __init__(self, store_url: str) -> None:
        super().__init__(store_url)
        self.echoes: list[str] = []
        self.drops: Callable[[str, str, dict[str, str]], bool] = lambda method, path, headers: False
        self.missing_is = 404

    def ask_store(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        answer = super().ask_store(method, path, body, headers)
        conditional = any(name.lower() in ("if-none-match", "if-match") for name in headers)
        if method in ("PUT", "POST", "DELETE") and conditional:
            if self.echoes and _matches(self.echoes[0], path):
                self.echoes.pop(0)
                return super().ask_store(method, path, body, headers)
            if answer[0] == 404 and self.missing_is == 412:
                return 412, [("Content-Type", "application/xml")], b"<Error><Code>PreconditionFailed</Code></Error>"
            if answer[0] < 300 and self.drops(method, path, headers):
                return 503, [("Content-Type", "application/xml")], b"<Error><Code>SlowDown</Code></Error>"
        return answer


def _matches(pattern: str, path: str) -> bool:
    """Whether a path contains the parts of a shell pattern in their order."""
    position = 0
    for part in pattern.split("*"):
        found = path.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


class S3Place(Place):
    """A bucket behind a proxy, with the shipped adapter, which repeats what may be repeated."""

    name = "moto"
    is_simulated = False

    def __init__(self, proxy: EchoingProxy) -> None:
        self.proxy = proxy
        self.forget()
        self.runtime = Runtime(NoWaiting(), RandomIds(), SerialExecutor(), ThreadTimer())
        location = f"s3://lake/{next(_numbers)}/orders"
        self.storage = S3Storage(location, {"endpoint_url": proxy.url, **CREDENTIALS}, NoWaiting(), RandomIds())

    def goes_wrong(self, how: Trouble, path: str, times: int = 1, verb: str = "put_if_absent") -> None:
        if how == "412_after":
            self.proxy.echoes.extend([path] * times)
            return
        kind: Any = {"503": "503_before"}.get(how, how)
        # The proxy looks for a text, not for a pattern.
        self.proxy.plan(kind, "PUT", max(path.split("*"), key=len), times)

    def writes(self, path: str) -> int:
        return sum(method == "PUT" and path in seen for method, seen in self.proxy.seen)

    def forget(self) -> None:
        self.proxy.clear()
        self.proxy.echoes.clear()
        self.proxy.drops = lambda method, path, headers: False


@contextmanager
def s3_behind_a_proxy() -> Iterator[EchoingProxy]:
    """An S3 server with the bucket ``lake``, in threads of this process."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    url = f"http://127.0.0.1:{port}"
    boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="secret"
    ).create_bucket(Bucket="lake")
    try:
        with one_request_at_a_time(), EchoingProxy(url) as proxy:
            yield proxy
    finally:
        server.stop()


SIMULATED = (Profile.S3, Profile.GCS, Profile.AZURE)
KINDS = (*(profile.value for profile in SIMULATED), S3Place.name)


def place_of(kind: str, request: pytest.FixtureRequest) -> Place:
    """A new place of a kind, for a fixture with the parameters `KINDS`; S3 comes from the module's fixture ``s3_proxy``."""
    if kind == S3Place.name:
        return S3Place(request.getfixturevalue("s3_proxy"))
    return SimulatedPlace(Profile(kind))


class Interrupted(WrappedStorage):
    """A storage that calls a function before its first call of a verb on a matching path."""

    def __init__(self, storage: Storage, verb: str, path: str, meanwhile: Callable[[str], object]) -> None:
        self._storage = storage
        self._call = (verb, path)
        self._meanwhile: Callable[[str], object] | None = meanwhile

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name not in self._call[0].split("|"):
            return real

        def call(path: str, *rest: Any) -> Any:
            if self._meanwhile is not None and fnmatchcase(path, self._call[1]):
                meanwhile, self._meanwhile = self._meanwhile, None
                meanwhile(path)
            return real(path, *rest)

        return call


def upsert(table: hudi.HudiTable, data: Any = BATCH) -> tuple[bool, HudiError | None]:
    """Whether the upsert is committed, by what the table says of it, and what it raised."""
    try:
        return bool(table.upsert(data)), None
    except CommitStateUnknownError as unknown:
        return table.commit_status(unknown.token) is hudi.CommitStatus.COMMITTED, unknown
    except HudiError as error:
        return False, error


def completed(table: hudi.HudiTable) -> int:
    return len(table.timeline.commits)
