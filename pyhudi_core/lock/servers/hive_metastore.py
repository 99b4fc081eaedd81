"""The lock of Hudi's HiveMetastoreBasedLockProvider, so that Java and Python writers exclude each other through a Hive Metastore.

Hudi asks the metastore for an exclusive lock on a table's name; no such table has to exist. The metastore queues requests in order: a waiting request
blocks later ones. A request without a heartbeat for ``metastore.txn.timeout`` (5 minutes by default) counts as abandoned. A metastore removes such
requests only if its housekeeping threads run (``metastore.housekeeping.threads.on``), and by default they do not. So a waiting writer also removes an
earlier request if its heartbeat has not changed for that time.

A waiting request is never checked again with ``check_lock``, because on Derby that can block for minutes (decision 0094). In one transaction, the
metastore would write the heartbeat, and then wait for its turn to read all requests; but the process whose turn it is waits for this heartbeat.
Instead, a waiting writer reads the queue. When its request is the first, it withdraws the request and makes a new one. A writer that sees a waiting
request makes none.

Each acquisition has its own connection, which is opened again after a failure.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyhudi_core.errors import InvalidOptionError, LockServerError
from pyhudi_core.lock.base import LockProvider
from pyhudi_core.lock.clients.hive_metastore import HiveConnection, HiveMetastore, NoSuchLock, servers_of
from pyhudi_core.lock.kind import LockKind, LockRequest, lock_option, served
from pyhudi_core.lock.observing import Observed
from pyhudi_core.lock.server import Acquisition, Contender, describe_holder
from pyhudi_core.model.option import words
from pyhudi_core.runtime.base import Clock, Process

_TIMEOUT_KEY, _DEFAULT_TIMEOUT = "hive.txn.timeout", "300s"
_UNITS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_LONG_UNITS = {"day": "d", "hour": "h", "min": "m", "sec": "s", "msec": "ms", "usec": "us", "nsec": "ns"}
_MARK = "pyhudi "
_LONGEST_TEXT = 128
"""The length of the metastore's columns for the agent and the host of a lock."""
_KEYS = "hoodie.write.lock.hivemetastore."
_OWN = "pyhudi.lock.hivemetastore."


@dataclass(frozen=True, slots=True)
class HiveOptions:
    """Where the metastores are, and the name that is locked."""

    uris: str = lock_option(
        f"{_KEYS}uris", "",
        "The metastores, such as `thrift://host1:9083,thrift://host2:9083`; they share one database.")  # fmt: skip
    database: str = lock_option(
        f"{_KEYS}database", "", "The database in the locked name. Hive ignores the case of the name."
    )
    table: str = lock_option(f"{_KEYS}table", "", "The table in the locked name. Such a table need not exist.")
    heartbeat_ms: int = lock_option(
        "hoodie.write.lock.heartbeat_interval_ms", 60_000,
        "Milliseconds between two heartbeats of a `hive_metastore` lock; at most a quarter of the metastore's `metastore.txn.timeout`.",
        minimum=10)  # fmt: skip
    tls: bool = lock_option(
        f"{_OWN}tls", False, "Encrypt the connections, and check the certificates and names of the metastores."
    )
    ca: str = lock_option(
        f"{_OWN}tls.ca",
        "",
        "A file with the authorities that may sign these certificates; by default those of the machine.",
    )
    sasl: str = lock_option(
        f"{_OWN}sasl", "none", "SASL and Kerberos are refused: no maintained library has them.",
        choices=words("none"), not_yet=("plain", "gssapi", "kerberos", "digest-md5"))  # fmt: skip

    def __post_init__(self) -> None:
        if self.ca and not self.tls:
            raise InvalidOptionError(
                f"{_OWN}tls.ca is given, and {_OWN}tls is not true",
                hint="Set it to true, so that the connection is encrypted; or omit the file.",
            )


@dataclass(frozen=True, slots=True)
class HiveLockServer:
    """A lock on the name of a table.

    Args:
        where: the metastore.
        database, table: the name; case does not matter, as in Hive.
        heartbeat_s: longest time between two heartbeats of a holder.
        clock: measures the observation times.
        process: reports whether a holder of this machine has ended; its lock is removed at once.
        observed: the observed heartbeats of other writers.
    """

    where: HiveMetastore
    database: str
    table: str
    heartbeat_s: float
    clock: Clock
    process: Process
    observed: Observed = field(default_factory=Observed, repr=False)

    @property
    def identity(self) -> str:
        return f"hive_metastore:{self.where.address}/{self.database.lower()}.{self.table.lower()}"

    def acquisition(self, contender: Contender) -> Acquisition:
        return HiveAcquisition(self, contender)


class HiveAcquisition:
    """One acquisition: a connection, and the request in the metastore's queue."""

    def __init__(self, server: HiveLockServer, contender: Contender) -> None:
        self._server = server
        self._contender = contender
        self._connection = HiveConnection(server.where)
        self._types = self._connection.types
        self._lock_id: int | None = None
        self._lease_s: float | None = None
        self._next_heartbeat = 0.0
        self._asked = False
        self._may_have_more = False  # a request without an answer may have made a lock

    @property
    def lease_s(self) -> float:
        return _seconds(_DEFAULT_TIMEOUT) if self._lease_s is None else self._lease_s

    @property
    def renew_s(self) -> float:
        return min(self._server.heartbeat_s, self.lease_s / 4)

    def attempt(self) -> bool:
        if self._lease_s is None:
            self._lease_s = _seconds(self._call("get_config_value", _TIMEOUT_KEY, _DEFAULT_TIMEOUT))
        if self._may_have_more and self._adopt():
            return True
        if self._lock_id is None:
            if self._asked and any(self._waits(entry) for entry in self._others()):
                return False  # another writer has the only waiting position
            if self._enqueue():
                return True
        return self._advance()

    def renew(self) -> bool:
        self._next_heartbeat = self._server.clock.monotonic() + self.renew_s
        try:
            self._call("heartbeat", self._types.HeartbeatRequest(lockid=self._lock_id))
        except NoSuchLock:
            return False
        return True

    def release(self) -> None:
        try:
            if self._may_have_more:
                for entry in self._queue():
                    if self._is_mine(entry):
                        self._unlock(entry.lockid)
            elif self._lock_id is not None:
                self._unlock(self._lock_id)
            self._lock_id, self._may_have_more = None, False
        finally:
            self._connection.close()

    def holder(self) -> str:
        acquired = self._types.LockState.ACQUIRED
        for entry in self._queue():
            if entry.state == acquired and not self._is_mine(entry):
                return f"{_describe(entry)} (lock {entry.lockid})"
        return ""

    def _call(self, method: str, *arguments: object) -> Any:
        return self._connection.call(method, *arguments)

    def _enqueue(self) -> bool:
        """Ask for the lock, and return whether it is ours. If not, the request waits in the queue."""
        types, process = self._types, self._contender.process
        part = types.LockComponent(
            types.LockType.EXCLUSIVE, types.LockLevel.TABLE, self._server.database, self._server.table
        )
        agent = f"{_MARK}{self._contender.token} {self._contender.note}".rstrip()
        # A truncated process could look like another one.
        host = process if len(process) <= _LONGEST_TEXT else process.partition("|")[0]
        request = types.LockRequest([part], user="pyhudi", hostname=_cut_off(host), agentInfo=_cut_off(agent))
        self._may_have_more, before = True, self._may_have_more
        self._next_heartbeat = self._server.clock.monotonic() + self.renew_s
        answer = self._call("lock", request)
        self._lock_id, self._may_have_more, self._asked = int(answer.lockid), before, True
        return bool(answer.state == types.LockState.ACQUIRED)

    def _adopt(self) -> bool:
        """Find the requests that got no answer; return whether one of them has the lock. A waiting one becomes the request in the queue."""
        mine = [entry for entry in self._queue() if self._is_mine(entry)]
        acquired = [entry for entry in mine if not self._waits(entry)]
        self._lock_id = next((int(entry.lockid) for entry in [*acquired, *mine]), None)
        for entry in mine:
            if entry.lockid != self._lock_id:
                self._unlock(entry.lockid)  # an extra entry would block our request
        return bool(acquired) and self.renew()

    def _advance(self) -> bool:
        """Ask again if no other request is before the waiting own one; return whether the lock is ours.

        The waiting request is replaced by a new one (see the module's docstring). At most one request may wait, because two writers could replace
        theirs in turn endlessly. So a later request is withdrawn.
        """
        others = self._others()
        if self._lock_id is None:
            return False
        before = [entry for entry in others if entry.lockid < self._lock_id]
        if before and not any(self._waits(entry) for entry in before):
            if self._server.clock.monotonic() >= self._next_heartbeat and not self.renew():
                self._lock_id = None
            return False
        self._unlock(self._lock_id)
        self._lock_id = None
        return not before and self._enqueue()

    def _others(self) -> list[Any]:
        """Return the requests of other writers.

        Abandoned requests are removed: their process has ended, or they sent no heartbeat for the metastore's time.
        """
        server, queue = self._server, self._queue()
        now = server.clock.monotonic()
        server.observed.forget_others({entry.lockid for entry in queue})
        if all(entry.lockid != self._lock_id for entry in queue):
            self._lock_id = None  # the metastore has removed it
        living = []
        for entry in queue:
            still_s = server.observed.unchanged_s(entry.lockid, entry.lastheartbeat, now)
            if self._is_mine(entry):
                continue
            is_gone = _is_of_this_project(entry) and server.process.is_gone(str(entry.hostname))
            if not entry.txnid and (is_gone or still_s > self.lease_s):
                self._unlock(entry.lockid)
            else:
                living.append(entry)
        return living

    def _waits(self, entry: Any) -> bool:
        return bool(entry.state == self._types.LockState.WAITING)

    def _queue(self) -> list[Any]:
        """Return all requests for this lock, in their order."""
        database, table = self._server.database.lower(), self._server.table.lower()
        request = self._types.ShowLocksRequest(dbname=database, tablename=table)
        found = self._call("show_locks", request).locks or []
        own = [entry for entry in found if (entry.dbname, entry.tablename) == (database, table)]
        return sorted(own, key=lambda entry: int(entry.lockid))

    def _unlock(self, lock_id: int) -> None:
        with suppress(NoSuchLock):
            self._call("unlock", self._types.UnlockRequest(lockid=lock_id))

    def _is_mine(self, entry: Any) -> bool:
        return str(entry.agentInfo or "").startswith(f"{_MARK}{self._contender.token}")


def _seconds(text: str) -> float:
    """Parse a time as Hive writes it, such as ``300s``; without a unit it is in seconds. Raises `LockServerError`."""
    parts = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = parts[2] if parts else ""
    short = unit if unit in _UNITS_S else next((s for name, s in _LONG_UNITS.items() if unit.startswith(name)), "")
    if not parts or int(parts[1]) == 0 or (unit and not short):
        raise LockServerError(
            f"The Hive Metastore has {text[:50]!r} as its time after which locks end ({_TIMEOUT_KEY})",
            hint="Set metastore.txn.timeout of the metastore to a time such as 300s.",
        )
    return int(parts[1]) * _UNITS_S[short or "s"]


def _cut_off(text: str) -> str:
    """Return the text, truncated to the length of the metastore's columns."""
    return text.encode("ascii", "replace").decode()[:_LONGEST_TEXT]


def _is_of_this_project(entry: Any) -> bool:
    return str(entry.agentInfo or "").startswith(_MARK)


def _describe(entry: Any) -> str:
    """Describe the writer of a request."""
    if not _is_of_this_project(entry):
        return f"{entry.user}@{entry.hostname} (written by another tool)"[:300]
    _, _, note = str(entry.agentInfo).removeprefix(_MARK).partition(" ")
    return describe_holder(str(entry.hostname), note)


def _lock(request: LockRequest) -> LockProvider:
    given, runtime = request.lock.of(HiveOptions), request.runtime
    where = HiveMetastore(servers_of(given.uris), request.request_s, given.tls, given.ca)
    heartbeat_s = given.heartbeat_ms / 1000
    server = HiveLockServer(where, given.database, given.table, heartbeat_s, runtime.clock, runtime.process)
    return served(request, server)


LOCK = LockKind(
    {"hive_metastore": "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"},
    _lock,
    HiveOptions,
    needs={"hive_metastore": ("uris", "database", "table")},
    extra="hive",
    on_server=True,
)
