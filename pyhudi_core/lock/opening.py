"""Choose the lock of a table from its options, or the one that fits its storage.

A lock is imported when it is opened, and packages of servers only if the options name their lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyhudi_core.lazy import lazy_call
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.kind import LockRequest
from pyhudi_core.lock.kinds import GENERATOR, PROVIDER, kind_of, refuse_incomplete, refuse_without_provider
from pyhudi_core.runtime.base import Clock
from pyhudi_core.storage.base import Storage

if TYPE_CHECKING:
    from pyhudi_core.lock.audit import AuditedLock
    from pyhudi_core.lock.server_clock import ServerClock
else:
    AuditedLock = lazy_call("pyhudi_core.lock.audit", "AuditedLock")
    ServerClock = lazy_call("pyhudi_core.lock.server_clock", "ServerClock")


def open_lock(request: LockRequest) -> LockProvider:
    """Return the lock that the options name, or else the one that fits the storage.

    Raises `InvalidOptionError` if an option of the lock is missing, or a server is given without its lock, and `MissingExtraError` if the lock's
    package is not installed. No request is sent.
    """
    lock = _provider(request)
    return AuditedLock(lock, request.storage, request.runtime.clock) if request.lock.audit else lock


def ask_server(request: LockRequest) -> None:
    """Acquire and release the lock if it is on a server. Raises as `open_lock`, and `LockError` if the lock cannot be acquired."""
    provider = request.lock.provider
    if provider and kind_of(provider).on_server:
        _provider(request).acquire(request.lock.wait_ms / 1000, "create the table").release()


def open_instants(request: LockRequest) -> Clock | None:
    """Return the source of instants that ``pyhudi.time.generator`` names; None is the machine's clock. Raises as `open_lock`."""
    if request.generator == "system":
        return None
    _refuse_incomplete(request, GENERATOR, request.generator)
    counter = kind_of(request.generator).counter
    return ServerClock(counter(request), request.runtime.clock) if counter is not None else None


def _provider(request: LockRequest) -> LockProvider:
    name = request.lock.provider
    if not name:
        refuse_without_provider(request.lock, request.generator, request.storage.location)
        name = _default_kind(request.storage)
    _refuse_incomplete(request, PROVIDER, name)
    return kind_of(name).make(request)


def _default_kind(storage: Storage) -> str:
    can = storage.capabilities
    if can.one_process or not can.put_if_absent:
        return "in_process"
    return "storage_based" if can.put_if_match else "file_system"


def _refuse_incomplete(request: LockRequest, key: str, name: str) -> None:
    values = request.lock.of(kind_of(name).values)
    refuse_incomplete(
        key, name, lambda attribute: getattr(values, attribute.partition(".")[2]), request.storage.location
    )
