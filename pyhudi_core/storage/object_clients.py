"""The connection to a bucket of Google Cloud Storage or a container of Azure, through obstore.

obstore never repeats a request here: requests are repeated by `Clients.ask` and ``settling``, which wait for a busy store and know whether a
repetition is safe. obstore repeats only the parts of a large upload. Until the store has answered once, a missing connection is an immediate error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

from obstore import store as obstore_stores

from pyhudi_core.errors import HudiError, InvalidOptionError, ObjectNotFoundError, StorageError
from pyhudi_core.model.masking import masked_text
from pyhudi_core.storage.certificates import CA_BUNDLE, advice, checking
from pyhudi_core.storage.clear_text import warn_of_clear_text
from pyhudi_core.storage.object_errors import ERRORS, Failure, error_of, failure_of, verdict_on
from pyhudi_core.storage.settling import BUSY_HINT, AskedObject, Busy, RequestEnd, Settler, Silence

T = TypeVar("T")
_CONNECT = "3500ms"
_FIRST, _LONG = "7s", "120s"
"""Time limits for one complete request: before the store has ever answered, and for an object or a piece of one. A question, or the answer with a
small object, has the time of the storage option `timeout`; a large answer may stall for so long.
"""
_FIRST_ATTEMPTS = 2
_PART_RETRIES = 8
_broken_by_fork = False
_used = False


@dataclass(frozen=True, slots=True)
class Provider:
    """A cloud, for the clients and for messages.

    Attributes:
        title: its name.
        client: the class of obstore.
        place: the cloud's word for a bucket.
        versions: whether conditions take the version of an object, not its tag.
        lists_after: whether it lists objects after a given one.
        environment: the prefix of its environment variables.
        rights, address: hints for wrong credentials and addresses.
        hosts: the endings of the cloud's own addresses.
        refused_letter: names must not have this letter, because the store confuses it with another letter.
    """

    title: str
    client: str
    place: str
    versions: bool
    lists_after: bool
    environment: str
    rights: str
    address: str
    hosts: tuple[str, ...]
    refused_letter: str = ""

    def own(self, endpoint: str) -> bool:
        """Return whether an address belongs to the cloud itself, and not to an emulator or another server."""
        return not endpoint or any(
            urlsplit(endpoint).hostname == name or endpoint.endswith(f".{name}") for name in self.hosts
        )

    def hint(self, found: Failure) -> str:
        """Return the advice for a failure."""
        if found.no_place:
            return f"Check the {self.place}'s name in the location; it is not made here."
        if found.tls:
            return advice(found.tls, CA_BUNDLE)
        if found.about_credentials or found.status in (401, 403):
            return self.rights
        if found.status == 400 and not found.code:
            return f"The store gives no reason: check the {self.place}'s name. {self.rights} {self.address}"
        if found.not_sent or found.kind:
            return ("Nothing was written. " if found.not_sent else "") + self.address
        return BUSY_HINT if found.is_busy else f"{self.rights} {self.address}"


@dataclass(frozen=True, slots=True)
class Account:
    """A bucket with the credentials for it; the values are not printed.

    ``hidden``: name and value of a credential that a variable of the environment would hide (`hidden_by_environment`).
    """

    provider: Provider
    bucket: str
    config: tuple[tuple[str, str], ...] = field(repr=False)
    endpoint: str = ""
    ca_bundle: str = ""
    timeout_s: float = 20.0
    hidden: tuple[str, str] = field(default=("", ""), repr=False)


class Clients:
    """The clients of one bucket. obstore reads the environment when a client is made; all clients are made with the same environment."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.busy = Busy()
        self._environment = _environment_of(account)
        self.reached = False
        self._silence = Silence()
        self._first = self._make(timeout=_FIRST)

    @property
    def short(self) -> Any:
        """Return the client for a question or a small object."""
        return self._short if self.reached else self._first

    @cached_property
    def _short(self) -> Any:
        return self._make(timeout=self._patience)

    @property
    def reads(self) -> Any:
        """Return the client for large answers."""
        return self._reads if self.reached else self._first

    @cached_property
    def _reads(self) -> Any:
        return self._make(timeout=_LONG, read_timeout=self._patience)

    @cached_property
    def long(self) -> Any:
        """Return the client for large requests."""
        return self._make(timeout=_LONG)

    @cached_property
    def parts(self) -> Any:
        """Return the client for the parts of a large object, which repeats requests."""
        return self._make(_PART_RETRIES, timeout=_LONG)

    @property
    def _patience(self) -> str:
        return f"{round(self.account.timeout_s * 1000)}ms"

    def _make(self, retries: int = 0, **timeouts: str) -> Any:
        account = self.account
        if changed := {name for name, _ in {*self._environment} ^ {*_environment_of(account)}}:
            names = ", ".join(sorted(changed))
            raise InvalidOptionError(
                f"The environment has other values of {names} than when this table of {account.provider.title} was opened",
                hint="Nothing was written. Open the table again: it then uses the values of now, for every request.",
            )
        options: dict[str, Any] = {"connect_timeout": _CONNECT, **timeouts}
        if account.endpoint.startswith("http:"):
            options["allow_http"] = True
        if account.ca_bundle:
            checking(account.ca_bundle, CA_BUNDLE.capitalize())
            with open(account.ca_bundle, "rb") as file:
                options["root_certificate"] = file.read()
        retry = {"max_retries": retries, "retry_timeout": timedelta(seconds=60)}
        make = getattr(obstore_stores, account.provider.client)
        name, value = account.hidden
        own = {"credential_provider": lambda: {name: value, "expires_at": None}} if name else {}
        try:
            return make(account.bucket, config=dict(account.config), client_options=options, retry_config=retry, **own)
        except (*ERRORS, ValueError) as error:
            text = masked_text(str(error).partition("\n\nDebug source:")[0], 400)
            raise InvalidOptionError(
                f"The client of {account.provider.title} does not take the storage options: {text}",
                hint=account.provider.rights,
            ) from None

    def ask(
        self,
        settler: Settler,
        target: AskedObject,
        call: Callable[[], T],
        *,
        changes: bool = False,
        of_object: bool = True,
    ) -> T:
        """Make a call that may be repeated, until it succeeds or repeating it does not help.

        Args:
            settler: controls the waits.
            target: the object.
            call: the call of obstore.
            changes: whether the call changes something. Then a missing answer means that the state is unknown.
            of_object: whether the call is about one object, which may be missing. A listing is not.
        """
        patience = settler.patience()
        attempts = 0
        while True:
            attempts += 1
            try:
                return self.call(call)
            except ERRORS as error:
                found = failure_of(error)
                if found.not_found and of_object:
                    raise ObjectNotFoundError(
                        "The object does not exist", table=target.table, path=target.path
                    ) from None
                if not self._again(found, attempts) or not patience.again(found.is_busy):
                    raise self.error(found, target, changes=changes) from None

    def _again(self, found: Failure, attempts: int) -> bool:
        if not self.reached:
            return found.not_sent and attempts < _FIRST_ATTEMPTS
        return verdict_on(found, reached=True) in (RequestEnd.UNCLEAR, RequestEnd.NO_EFFECT)

    def call(self, call: Callable[[], T]) -> T:
        """Make a call of obstore once, and record whether the store answers."""
        global _used  # noqa: PLW0603
        if _broken_by_fork:
            raise StorageError(
                f"This process was forked from one that had used {self.account.provider.title}, and its client does not work after that",
                hint="Start processes by spawn or forkserver (multiprocessing.set_start_method), or open the first table after the fork.",
            )
        _used = True
        if not self.reached:
            self._silence.raise_if_silent()
        try:
            result = call()
        except ERRORS as error:
            found = failure_of(error)
            self.reached = self.reached or found.is_answer
            if not self.reached and found.kind == "Timeout":
                self._silence.note(error)
            raise
        except ValueError as error:
            if isinstance(error, HudiError):
                raise
            raise self.no_name(masked_text(str(error), 300)) from None
        self.reached = True
        return result

    def no_name(self, why: str, target: AskedObject | None = None) -> StorageError:
        """Return the error for a name that the store cannot have."""
        return StorageError(
            f"{self.account.provider.title} has no object of this name: {why}",
            table=target.table if target else None,
            path=target.path if target else None,
            hint="Use other letters in names of partitions and files.",
        )

    def error(self, found: Failure, target: AskedObject, *, changes: bool = False) -> StorageError:
        """Return the error of this package."""
        hint = self.account.provider.hint(found)
        return error_of(found, target, self.account.endpoint, hint, unclear=changes and found.is_unclear)


@dataclass(frozen=True, slots=True)
class ObjectJudge:
    """Reads the errors of obstore (`settling.ErrorReader`). ``creates``: the object does not exist yet."""

    clients: Clients
    creates: bool = False

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return ERRORS

    def verdict(self, error: Exception) -> RequestEnd:
        return verdict_on(failure_of(error), reached=self.clients.reached, creates=self.creates)

    def is_busy(self, error: Exception) -> bool:
        return failure_of(error).is_busy

    def asked_wait(self, error: Exception) -> float:
        return 0.0  # obstore does not show the headers of an answer

    def refusal(self, error: Exception, target: AskedObject) -> StorageError:
        return self.clients.error(failure_of(error), target, changes=True)


def connect(account: Account) -> Clients:
    """Return the clients for a bucket; no request is sent. A client takes 40 ms to create, so clients are cached."""
    return _connect(account, _environment_of(account), os.getpid())


def _environment_of(account: Account) -> tuple[tuple[str, str], ...]:
    """Return the variables of the environment that the provider's client reads."""
    prefix = account.provider.environment
    return tuple(sorted((name, text) for name, text in os.environ.items() if name.startswith(prefix)))


@lru_cache(maxsize=16)
def _connect(account: Account, surroundings: tuple[tuple[str, str], ...], pid: int) -> Clients:
    warn_of_clear_text(account.endpoint, account.provider.title)
    return Clients(account)


def _forked() -> None:
    global _broken_by_fork  # noqa: PLW0603
    _broken_by_fork = _used


os.register_at_fork(after_in_child=_forked)
