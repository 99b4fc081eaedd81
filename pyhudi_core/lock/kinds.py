"""All kinds of locks, by name: those of this folder, and each module of ``servers/``. A module is imported when the options name its lock or an
option of it.

The one list of a lock's names and options, for parsing (``options/``), for opening and for the pages. `open_lock` chooses the lock that the options
name, or the default lock of the storage; packages of servers are imported only if the options name their lock.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lazy import lazy_call, lazy_in
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.kind import LockKind, LockOptions, LockRequest
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.option import LateWords, Option, Scope, options_of
from pyhudi_core.runtime.base import Clock
from pyhudi_core.storage.base import Storage

if TYPE_CHECKING:
    from pyhudi_core.lock.audit import AuditedLock
    from pyhudi_core.lock.server_clock import ServerClock
else:
    AuditedLock = lazy_call("pyhudi_core.lock.audit", "AuditedLock")
    ServerClock = lazy_call("pyhudi_core.lock.server_clock", "ServerClock")


PROVIDER = "hoodie.write.lock.provider"
GENERATOR = "pyhudi.time.generator"
_MACHINE = "system"
"""The generator without a server: this machine's clock."""
_HERE = dict(
    zip(
        ("in_process", "file_system", "storage_based"),
        lazy_in("pyhudi_core.lock", "in_process", "file_system", "storage_based"),
        strict=True,
    )
)


@cache
def every_kind() -> tuple[LockKind, ...]:
    """Return all kinds. Kinds without a server come first."""
    servers = importlib.import_module("pyhudi_core.lock.servers")
    names = sorted(found.name for found in pkgutil.iter_modules(servers.__path__))
    modules = [*_HERE.values(), *(importlib.import_module(f"{servers.__name__}.{name}") for name in names)]
    return tuple(module.LOCK for module in modules)


def kind_of(name: str) -> LockKind:
    """Return the kind of lock that has this name."""
    if name in _HERE:
        kind: LockKind = _HERE[name].LOCK
        return kind
    return next(kind for kind in every_kind() if name in kind.names)


@cache
def own_options() -> Mapping[str, Option]:
    """Return the options that belong to one kind of lock, by their keys."""
    return {key: option for kind in every_kind() for option in kind.options() for key in (option.key, *option.aliases)}


def own_values(found: Mapping[str, Any]) -> tuple[object, ...]:
    """Return one value for each kind whose options were found. ``found`` has the options by attribute.

    Raises `InvalidOptionError` if two values contradict each other.
    """
    by_kind: dict[str, dict[str, Any]] = {}
    for attribute, value in found.items():
        kind, _, name = attribute.partition(".")
        by_kind.setdefault(kind, {})[name] = value
    return tuple(kind_of(kind).values(**given) for kind, given in by_kind.items())


@cache
def _words() -> Mapping[str, str]:
    names = [(name, of_hudi) for kind in every_kind() for name, of_hudi in kind.names.items()]
    return {name: name for name, _ in names} | {of_hudi.lower(): name for name, of_hudi in names if of_hudi}


@cache
def _generators() -> Mapping[str, str]:
    return {name: name for name in (_MACHINE, *(kind.name for kind in every_kind() if kind.counter))}


GENERATORS = LateWords(_generators, "`system`, or a lock with a counter")
"""The possible sources of times of instants: this machine, or a counter on the server of a lock."""
_ONLY_HUDI = "Accepted for Hudi's sake: here `hoodie.write.lock.wait_time_ms` alone bounds the wait."
LOCK_OPTIONS = (
    Option(PROVIDER, "lock.provider", str, None,
           "The lock that excludes other writers during a commit; Hudi's class names are accepted. By default `file_system` on a "
           "disk, `storage_based` in an object store, `in_process` in memory. A commit must use the same lock as the previous commit. "
           f"{see('locks')}.", Scope.LOCK, choices=LateWords(_words, "the name of a lock"), aliases=("lock",)),
    *options_of("lock", LockOptions),
    *(Option(f"hoodie.write.lock.{key}", "", str, "", _ONLY_HUDI, Scope.LOCK)
      for key in ("max_wait_time_ms_between_retry", "num_retries", "client.num_retries", "client.wait_time_ms_between_retry")),
)  # fmt: skip
"""The options of all kinds; `own_options` has the options of one kind."""


def refuse_incomplete(key: str, name: str, is_given: Callable[[str], object], table: str | None = None) -> None:
    """Raise `InvalidOptionError` if ``key`` names a server, for the lock or for times, and a required option of this server is missing.

    ``is_given`` says whether the option with an attribute has a value.
    """
    if name == _MACHINE:
        return
    kind = kind_of(name)
    missing = [option.key for option in _needed(kind, name) if not is_given(option.attribute)]
    if missing:
        raise InvalidOptionError(f"{key}={name} needs the option {missing[0]}", table=table, hint=see("locks"))


def refuse_without_provider(options: LockOptions, generator: str, table: str | None = None) -> None:
    """Raise `InvalidOptionError` if the options name the server of a lock but choose no lock, and the times of instants come from another server.

    Otherwise the storage's default lock would be used instead of the server, without a message.
    """
    for values in options.own:
        kind = next(kind for kind in every_kind() if kind.values is type(values))
        needed = _needed(kind, kind.name)
        given = [option.key for option in needed if getattr(values, option.attribute.partition(".")[2])]
        if given and generator not in kind.names:
            raise InvalidOptionError(
                f"{given[0]} belongs to the lock {kind.name}, but {PROVIDER} is not given",
                table=table,
                hint=f"Set {PROVIDER}={kind.name}, or remove the options of that lock.",
            )


def _needed(kind: LockKind, name: str) -> list[Option]:
    needs = kind.needs.get(name, ())
    by_field = {option.attribute.partition(".")[2]: option for option in kind.options()}
    return [by_field[each] for each in needs]


def open_lock(request: LockRequest) -> LockProvider:
    """Return the lock that the options name, or the default lock of the storage.

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
