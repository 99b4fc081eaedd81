"""Precedence: a writer with too many lost attempts reserves its file groups, so that short writes do not overtake a long write repeatedly.

After ``pyhudi.commit.reserve.after`` attempts that lost or waited, a writer writes a claim into the table's folder. The claim names the file groups
and partitions that its latest attempt touched. If another writer is about to commit to one of them, it ends its attempt, waits until the claim is
removed, and plans again. A claim is valid while its writer rewrites the file, as a heartbeat, and until the time that it names. Of two claims, the
older one is served first.

Claims make writes finish, but safety does not depend on them. They are read before the lock is taken, and Hudi's writers ignore them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Touched
from pyhudi_core.errors import ObjectNotFoundError, StorageError
from pyhudi_core.model.instant import Action, Instant, State, format_time
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.runtime.base import TimerHandle
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.transaction.layout import CLAIMS

_log = logging.getLogger(__name__)

_LARGEST = 4 << 20


@dataclass(frozen=True, slots=True)
class Claim:
    """The reservation of a writer. ``touched.replaced`` None means the complete table. Times are in epoch milliseconds.

    Claims are ordered by ``since_ms`` and name; the first claim has precedence.
    """

    name: str
    process: str
    since_ms: int
    until_ms: int
    touched: Touched

    @property
    def rank(self) -> tuple[int, str]:
        return self.since_ms, self.name

    def encode(self) -> bytes:
        replaced = None if self.touched.replaced is None else sorted(self.touched.replaced)
        body = {
            "process": self.process,
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
            "file_groups": sorted(self.touched.file_groups),
            "inserted": sorted(self.touched.inserted),
            "replaced": replaced,
        }
        return json.dumps(body, sort_keys=True).encode()

    @classmethod
    def decode(cls, name: str, data: bytes) -> Claim | None:
        """Parse the claim in a file; None if it is incomplete, because an unreadable claim reserves nothing."""
        try:
            body: dict[str, Any] = json.loads(data)
            replaced = body["replaced"]
            touched = Touched(
                frozenset((str(partition), str(file_id)) for partition, file_id in body["file_groups"]),
                frozenset(map(str, body["inserted"])),
                None if replaced is None else frozenset(map(str, replaced)),
            )
            since_ms = int(body["since_ms"])
            format_time(since_ms, utc=True)  # a writer that yields to it says since when
            return cls(name, str(body["process"]), since_ms, int(body["until_ms"]), touched)
        except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
            return None


@dataclass(slots=True)
class Holding:
    """A claim of this writer, kept alive by a timer."""

    claim: Claim
    path: str
    handle: TimerHandle

    def give_up(self, context: TableContext) -> None:
        """Remove the claim, after the write has committed or failed. A claim that cannot be removed expires, so this raises no error."""
        self.handle.cancel()
        try:
            context.root.delete(self.path)
        except StorageError as error:
            _log.warning("could not remove the claim %s of %s: %s", self.claim.name, context.table, error)


def claim(context: TableContext, touched: Touched, lasts_ms: int, previous: Holding | None = None) -> Holding:
    """Reserve the touched file groups for at most ``lasts_ms``; a previous claim keeps its rank."""
    now = context.runtime.clock.now_ms()
    if previous is not None:
        previous.handle.cancel()
    name = previous.claim.name if previous else context.runtime.ids.uuid()
    since = previous.claim.since_ms if previous else now
    made = Claim(name, context.runtime.process.identity(), since, now + lasts_ms, touched)
    path = f"{CLAIMS}/{name}.json"
    body = made.encode()
    context.root.put(path, body)

    def beat() -> None:
        # Another process removed the claim for a reason, so the claim must not come back.
        if context.root.head(path) is not None:
            context.root.put(path, body)

    interval_s = context.options.heartbeat.interval_ms / 1000
    return Holding(made, path, context.runtime.timer.every(interval_s, beat, f"claim {name}"))


def standing(context: TableContext) -> list[Claim]:
    """Return the valid claims in the order of precedence. Removes claims of dead writers."""
    found: list[Claim] = []
    for info in context.root.list(f"{CLAIMS}/"):
        made = _read(context, info)
        if made is None or _is_over(context, made, info):
            context.root.delete(info.path)
        else:
            found.append(made)
    return sorted(found, key=lambda made: made.rank)


def goes_first(context: TableContext, mine: Touched, own: Holding | None) -> Conflict | None:
    """Return the claim of another writer to which this write must yield, as a conflict with that writer."""
    for made in standing(context):
        if own is not None and made.rank >= own.claim.rank:
            return None
        if overlap(mine, made.touched):
            time = format_time(made.since_ms, utc=context.utc)
            partitions = {p for p, _ in made.touched.file_groups} | made.touched.inserted
            return Conflict(
                ConflictKind.PRECEDENCE, Instant(time, Action.COMMIT, State.REQUESTED), (), tuple(sorted(partitions))
            )
    return None


def overlap(one: Touched, other: Touched) -> bool:
    """Return whether two writes change the same file group or partition."""
    if one.file_groups & other.file_groups or one.inserted & other.inserted:
        return True
    return _replaces(one, other) or _replaces(other, one)


def _replaces(one: Touched, other: Touched) -> bool:
    written = other.inserted | {partition for partition, _ in other.file_groups} | (other.replaced or frozenset())
    if one.replaced is None:
        return bool(written) or other.replaced is None
    return _any_in(one.replaced, written)


def _any_in(partitions: Iterable[str], among: frozenset[str]) -> bool:
    return any(partition in among for partition in partitions)


def _read(context: TableContext, info: ObjectInfo) -> Claim | None:
    if info.size > _LARGEST:
        return None
    try:
        data = context.root.get(info.path)
    except ObjectNotFoundError:
        return None
    return Claim.decode(info.path.rpartition("/")[2].removesuffix(".json"), data)


def _is_over(context: TableContext, made: Claim, info: ObjectInfo) -> bool:
    now = context.runtime.clock.now_ms()
    limit = context.options.heartbeat.expires_after_ms
    if now > made.until_ms or now - info.modified_ms > limit:
        return True
    return bool(made.process) and context.runtime.process.is_gone(made.process)
