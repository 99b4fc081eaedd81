"""The description of a kind of lock (`LockKind`), the request to open a lock (`LockRequest`), and the common options of all kinds (`LockOptions`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyhudi_core.lazy import lazy, lazy_call
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.model.option import Option, Scope, declared, options_of
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Storage

if TYPE_CHECKING:
    import xxhash

    from pyhudi_core.lock.server import LockServer, ServerLockProvider
    from pyhudi_core.lock.server_clock import Counter
else:
    xxhash = lazy("xxhash")
    ServerLockProvider = lazy_call("pyhudi_core.lock.server", "ServerLockProvider")

T = TypeVar("T")
_HUDI_SEED = 0xFFFFFFFFDABADABA

lock_option = partial(declared, scope=Scope.LOCK)
"""A field of the options of a lock, with its option: see `declared`."""


@dataclass(frozen=True, slots=True)
class LockOptions:
    """The options that all kinds of locks share, and the options of single kinds.

    ``provider`` is the name of the lock; None for the default lock of the storage. ``own``: one value for each kind whose options were given.
    """

    provider: str | None = None
    own: tuple[object, ...] = field(default=(), repr=False)
    wait_ms: int = lock_option(
        "hoodie.write.lock.wait_time_ms", 60_000, "Milliseconds to wait for the lock.", minimum=0
    )
    request_ms: int = lock_option(
        "pyhudi.lock.request.timeout.ms",
        10_000,
        "Milliseconds to wait for each answer of a lock's server, unless the lock has an option of its own for that.",
        minimum=10,
    )
    retry_ms: int = lock_option(
        "hoodie.write.lock.wait_time_ms_between_retry",
        1_000,
        "Longest wait in milliseconds between two attempts at a server's lock; waits grow from 10 ms to this.",
        minimum=1,
    )
    change_from: str = lock_option(
        "pyhudi.lock.change.from",
        "",
        "The identity of the previous lock, as the refusal shows it, when all writers change to the lock configured now. It works once: "
        "after the first commit under the new lock it has no effect.",
    )
    audit: bool = lock_option(
        "pyhudi.lock.audit", False,
        "Record every holding of the lock (holder and times) as a file of JSON lines below `.hoodie/.locks/audit/`.")  # fmt: skip

    def of(self, values: type[T]) -> T:
        """Return the options of one kind; its defaults if none was given."""
        return next((each for each in self.own if isinstance(each, values)), None) or values()


@dataclass(frozen=True, slots=True)
class LockRequest:
    """The request to open a lock.

    Attributes:
        storage, runtime: the table's.
        name: the table's name (``hoodie.table.name``), the default key of some locks.
        lock: the options.
        generator: the source of the times of instants.
    """

    storage: Storage
    runtime: Runtime
    name: str
    lock: LockOptions
    generator: str = "system"

    @property
    def request_s(self) -> float:
        """Seconds to wait for each answer of a server."""
        return self.lock.request_ms / 1000

    def implicit_key(self) -> str:
        """Return the key that Hudi derives from the table's base path. In it, ``s3a`` counts as ``s3``."""
        location = self.storage.location
        if location.startswith("s3a://"):
            location = "s3://" + location.removeprefix("s3a://")
        return xxhash.xxh64(location.encode(), seed=_HUDI_SEED).hexdigest().upper()


class NoOptions:
    """The options of a lock that has none."""


@dataclass(frozen=True, slots=True, eq=False)
class LockKind:
    """A kind of lock: all facts that the package knows about it, so that a lock is one module.

    Attributes:
        names: its names in ``hoodie.write.lock.provider``, each with Hudi's equivalent class, or None. The first one names the kind.
        make: returns the lock for a `LockRequest`. It sends nothing to a server, but imports the server's packages.
        values: the class of its options, whose fields are declared by `lock_option`. An option that can contain a password is ``secret=True``.
        needs: for each name, the fields that are required to reach its server.
        extra: the extra with the package of its server; empty if it needs none.
        on_server: whether a server keeps the lock.
        counter: makes a counter on the same server for the times of instants (``pyhudi.time.generator``); None if the server has none.
    """

    names: Mapping[str, str | None]
    make: Callable[[LockRequest], LockProvider]
    values: type[Any] = NoOptions
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra: str = ""
    on_server: bool = False
    counter: Callable[[LockRequest], Counter] | None = None

    @property
    def name(self) -> str:
        """Return the first of its names."""
        return next(iter(self.names))

    def options(self) -> tuple[Option, ...]:
        """Return the options of this kind of lock. Their attributes are ``name.field``."""
        return _options_of(self)


@cache
def _options_of(kind: LockKind) -> tuple[Option, ...]:
    return () if kind.values is NoOptions else options_of(kind.name, kind.values)


def served(request: LockRequest, server: LockServer) -> LockProvider:
    """Return the lock of a server for a request. The frame in ``server.py`` waits and renews."""
    lock: ServerLockProvider = ServerLockProvider(
        server, request.runtime, request.storage.location, longest_wait_ms=request.lock.retry_ms
    )
    return lock
