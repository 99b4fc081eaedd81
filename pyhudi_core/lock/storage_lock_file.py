"""The lock file of Hudi's StorageBasedLockProvider (1.1 and newer): its content and its owner.

``.hoodie/.locks/table_lock.json`` is a JSON object of three fields, all required by Hudi's reader, which ignores others:
``expired`` (the lock was released), ``validUntil`` (epoch milliseconds until which it counts as held) and ``owner`` (any text). The file is
never removed, only replaced on condition of its entity tag (RFC-91).

This package's owner text is ``pyhudi|<holding>|<revision>|<since>|<note>|<process>``. The revision counts the writes of
one holding, so that
no two writes have equal bytes: if the entity tag is a hash of the content, equal bytes would make an old tag valid again.

Invariant: for any content, `parse` returns a complete lock or None, in bounded time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

LOCK_FOLDER = ".hoodie/.locks"
LOCK_FILE = f"{LOCK_FOLDER}/table_lock.json"
MOST_BYTES = 65_536
"""A lock file above this size is damaged; it is not read."""

_MARK = "pyhudi"
_LONGEST = 200
_YEAR_9999_MS = 253_402_300_799_000


@dataclass(frozen=True, slots=True)
class Owner:
    """The writer of the file.

    Attributes:
        holding: identifies one holding of the lock.
        revision: the number of the write within that holding.
        since_ms: when the lock was requested, in epoch milliseconds of the holder's clock.
        note: the purpose of the holding.
        process: the holder's process, from `Process.identity`.
    """

    holding: str
    revision: int
    since_ms: int
    note: str
    process: str

    def to_text(self) -> str:
        """Return the ``owner`` field."""
        note = self.note.replace("|", "/")[:_LONGEST]
        return f"{_MARK}|{self.holding}|{self.revision}|{self.since_ms}|{note}|{self.process}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Parse an owner text of this package; None for another tool's text."""
        parts = text.split("|", 5)
        if len(parts) != 6 or parts[0] != _MARK or not parts[1] or not all(map(_is_count, parts[2:4])):
            return None
        return cls(parts[1], int(parts[2]), int(parts[3]), parts[4], parts[5])

    def describe(self) -> str:
        """Describe the owner for messages."""
        host, _, rest = self.process.partition("|")
        pid = rest.split("|")[1] if rest.count("|") == 2 else ""
        who = f"process {pid} on {host}" if pid else self.process or "an unknown process"
        return f"{who} since {shown(self.since_ms)}" + (f" for {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class LockFile:
    """The file's content."""

    expired: bool
    valid_until_ms: int
    owner: str

    def to_bytes(self) -> bytes:
        return json.dumps({"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}).encode()

    @classmethod
    def parse(cls, content: bytes) -> LockFile | None:
        """Parse the file; None if its content is not valid for Hudi's reader either."""
        if len(content) > MOST_BYTES:
            return None
        try:
            found = json.loads(content.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict) or not found.keys() >= {"expired", "validUntil", "owner"}:
            return None
        expired, until, owner = found["expired"], found["validUntil"], found["owner"]
        is_valid = isinstance(expired, bool) and type(until) is int and isinstance(owner, str)
        return cls(expired, until, owner) if is_valid and -(2**63) <= until < 2**63 else None

    def describe(self) -> str:
        """Describe for messages the holder, and until when the lock is valid."""
        ours = Owner.parse(self.owner)
        who = ours.describe() if ours else f"the owner {self.owner[:_LONGEST]!r} (written by another tool)"
        return f"{who}, valid until {shown(self.valid_until_ms)}"


def shown(epoch_ms: int) -> str:
    """Format a time for messages; a number that is no calendar time stays a number."""
    if not 0 <= epoch_ms <= _YEAR_9999_MS:
        return f"{epoch_ms} ms"
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate field")
    return found


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
