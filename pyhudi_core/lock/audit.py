"""Record the holdings of the lock, with holder and times: one file of JSON lines for each holding, below ``.hoodie/.locks/audit/``.

Names and fields are those of Hudi 1.1's lock audit (``<start>_<owner>.jsonl``; states START, RENEW and END), so that its procedures can
validate these files; ``note`` and ``lock`` are added. An object store cannot append, so each new line rewrites the holding's file.

Invariants: a failed write of a record never fails the lock; at most `KEPT` files are kept, with at most `MOST_LINES` lines each; a read never fails
because of the content of a file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhudi_core.errors import ObjectNotFoundError, StorageError
from pyhudi_core.lock.base import LeasedSession, LockProvider, LockSession, lease_left_s
from pyhudi_core.lock.storage_lock_file import LOCK_FOLDER
from pyhudi_core.runtime.base import Clock
from pyhudi_core.storage.base import ObjectInfo, Storage

_log = logging.getLogger(__name__)

AUDIT_FOLDER = f"{LOCK_FOLDER}/audit"
KEPT = 1_000
MOST_LINES = 200
_MOST_BYTES = 1 << 20
_SWEEP_EVERY = 50


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One line: START, RENEW or END; times in epoch milliseconds of the holder's clock; 0 for a lock without an end."""

    state: str
    at_ms: int
    valid_until_ms: int


@dataclass(frozen=True, slots=True)
class AuditedHolding:
    """One holding of the lock.

    Attributes:
        path: the file.
        owner: the holding's token.
        lock: identity of the lock; empty if Hudi wrote the file.
        note: the purpose of the holding.
        started_ms: when the lock was acquired.
        events: START, RENEW and END, in order.
        damaged: lines (or complete files) that could not be parsed.
    """

    path: str
    owner: str
    lock: str
    note: str
    started_ms: int
    events: tuple[AuditEvent, ...]
    damaged: int

    @property
    def ended_ms(self) -> int | None:
        """Return when the lock was released; None if that is not recorded."""
        return next((event.at_ms for event in self.events if event.state == "END"), None)


def read(storage: Storage, limit: int = 100) -> tuple[AuditedHolding, ...]:
    """Return the newest recorded holdings, oldest first. Raises `StorageError` if the storage fails."""
    found = _files(storage)[-limit:] if limit > 0 else []
    return tuple(_read_one(storage, info) for info in found)


def _files(storage: Storage) -> list[ObjectInfo]:
    """Return the record's files, ordered by the time in their names; files with other names are ignored."""
    listed = [info for info in storage.list(f"{AUDIT_FOLDER}/") if info.path.endswith(".jsonl")]
    return sorted(
        (info for info in listed if _started(info.path) >= 0), key=lambda info: (_started(info.path), info.path)
    )


def _started(path: str) -> int:
    text = path.removeprefix(f"{AUDIT_FOLDER}/").partition("_")[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1


def _read_one(storage: Storage, info: ObjectInfo) -> AuditedHolding:
    owner = info.path.rpartition("/")[2].partition("_")[2].removesuffix(".jsonl")
    nothing = AuditedHolding(info.path, owner, "", "", _started(info.path), (), 1)
    if info.size > _MOST_BYTES:
        return nothing
    try:
        lines = storage.get(info.path).splitlines()
    except ObjectNotFoundError:
        return nothing
    parsed = [_parse(line) for line in lines]
    valid = [line for line in parsed if line is not None]
    events = tuple(AuditEvent(line["state"], line["timestamp"], line["lockExpiration"]) for line in valid)
    first: Mapping[str, object] = valid[0] if valid else {}
    lock, note = str(first.get("lock", "")), str(first.get("note", ""))
    return AuditedHolding(info.path, owner, lock, note, _started(info.path), events, len(parsed) - len(valid))


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("state") not in ("START", "RENEW", "END"):
        return None
    return found if all(type(found.get(name)) is int for name in ("timestamp", "lockExpiration")) else None


@dataclass(slots=True)
class AuditedLock:
    """A lock provider that records the holdings of another provider."""

    inner: LockProvider
    storage: Storage
    clock: Clock
    _ended: int = field(default=0)

    def __post_init__(self) -> None:
        # A record of the past need not wait for the disk.
        self.storage = self.storage.without_fsync()

    @property
    def identity(self) -> str:
        return self.inner.identity

    def acquire(self, timeout_s: float, note: str = "") -> AuditedSession:
        session = self.inner.acquire(timeout_s, note)
        try:
            return AuditedSession(self, session, note)
        except BaseException:  # after Ctrl-C nobody else would release the lock
            session.release()
            raise

    def sweep(self) -> None:
        """Remove the oldest files beyond `KEPT`. Checks at every fiftieth holding only."""
        self._ended += 1
        if self._ended % _SWEEP_EVERY != 1:
            return
        try:
            for info in _files(self.storage)[:-KEPT]:
                self.storage.delete(info.path)
        except StorageError as error:
            _log.warning("could not sweep the lock audit of %s: %s", self.storage.location, error)


class AuditedSession:
    """A held lock that writes a line for each of its events."""

    def __init__(self, provider: AuditedLock, inner: LockSession, note: str) -> None:
        self._provider = provider
        self._inner = inner
        self._note = note
        self._start_ms = provider.clock.now_ms()
        self._lines: list[str] = []
        self._over = False
        if isinstance(inner, LeasedSession):
            inner.on_renewed = lambda until_ms: self._record("RENEW", until_ms, held=True)
        self._record("START", self._end_ms(), held=True)

    @property
    def token(self) -> str:
        return self._inner.token

    def lease_left_s(self) -> float:
        """Return the lease of the recorded lock; infinite if it does not expire."""
        return lease_left_s(self._inner)

    def still_held(self) -> bool:
        return self._inner.still_held()

    def release(self) -> None:
        self._inner.release()
        if not self._over:
            self._over = True
            self._record("END", self._end_ms(), held=False)
            self._provider.sweep()

    def _end_ms(self) -> int:
        return self._inner.valid_until_ms if isinstance(self._inner, LeasedSession) else 0

    def _record(self, state: str, until_ms: int, *, held: bool) -> None:
        line = {
            "ownerId": self.token,
            "transactionStartTime": self._start_ms,
            "timestamp": self._provider.clock.now_ms(),
            "state": state,
            "lockExpiration": until_ms,
            "lockHeld": held,
            "note": self._note[:200],
            "lock": self._provider.identity,
        }
        if len(self._lines) >= MOST_LINES:
            del self._lines[1]  # keep the start and the latest renewals
        self._lines.append(json.dumps(line))
        path = f"{AUDIT_FOLDER}/{self._start_ms}_{self.token}.jsonl"
        try:
            self._provider.storage.put(path, ("\n".join(self._lines) + "\n").encode())
        except StorageError as error:
            _log.warning("could not record the lock's %s in %s: %s", state, path, error)
