"""One decision over several tables: an object that is written once says commit or abort for all tables.

Each table's commit record first gets an intent that names the object (the intent is *prepared*). Nothing of a prepared intent is published before the
object says commit. A process that finds a prepared intent reads the object. If there is no object, the process waits while the writer lives. If the
writer is dead, the process writes abort itself, unless another process was faster. So nobody waits longer than a heartbeat for a dead writer, and all
tables have the same outcome permanently.

Invariants:

- A prepared intent is replaced only after the object exists, because every decision publishes what the record names before the decision swaps the
  record (``decision.py``), and the publication asks this module.
- A program that does not know the commit record may roll a part back when the part's writer looks dead. After such a rollback, the decision to commit
  stands only if another part was published before the rollback; otherwise all parts are void. A process that publishes one part publishes the other
  parts, too, so the time between the publications is short.
- The object is removed when no part is pending and no part has a heartbeat, because nobody reads the object any more (`resolved`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from pyhudi_core.errors import (
    CorruptTimelineError,
    LockTimeoutError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsafePathError,
)
from pyhudi_core.model.bounded_json import parse_json
from pyhudi_core.model.instant import Action, Instant, State, is_time
from pyhudi_core.opened_table.opened_table import opened_beside
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.transaction import heartbeat, layout
from pyhudi_core.transaction.freshness import load_showing
from pyhudi_core.transaction.publication import create_once
from pyhudi_core.transaction.record import Intent
from pyhudi_core.transaction.rollback_plans import names_rolled_back

TRANSACTION_KEY = "pyhudi.transaction"
"""The key in the extra metadata of a commit for a transaction over several tables: its id, and its requested times by table location."""
_WRITABLE = "decisions can be written"
"""The key under which a table handle remembers that the write access was tested."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.01, 1.0


class PartFate(StrEnum):
    """The outcome of one table's part in a group. ``gone``: the part was rolled back. ``unknown``: the table does not exist any more."""

    PENDING = "pending"
    PUBLISHED = "published"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GroupPart:
    """The change of one table in a group. The change is an instant of the table."""

    location: str
    requested_time: str
    action: Action

    @property
    def inflight(self) -> Instant:
        return Instant(self.requested_time, self.action, State.INFLIGHT)


Parts = tuple[GroupPart, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A decision over several tables, in the process that makes the decision.

    Attributes:
        storage: the storage of the table that has the object.
        name: the name of the object.
        nonce: distinguishes our decision to commit from any other.
        parts: in the order of their locations.
    """

    storage: Storage
    name: str
    nonce: str
    parts: Parts

    @property
    def reference(self) -> str:
        """Return the text by which an intent names the object and the parts."""
        return json.dumps([self.name, self.storage.location, _texts(self.parts)])

    @property
    def note(self) -> dict[str, str]:
        """Return the extra metadata by which the commits name their transaction."""
        tables = {part.location: part.requested_time for part in self.parts}
        return {TRANSACTION_KEY: json.dumps({"id": self.name, "tables": tables}, sort_keys=True)}

    def commit(self) -> bool:
        """Decide to commit. Returns False if another process has aborted the group. Raises `StorageStateUnknownError`."""
        return create_once(self.storage, _path(self.name), _body("commit", self.parts, self.nonce))

    def abort(self) -> bool:
        """Decide to abort. Returns False if the group was committed. Raises `StorageStateUnknownError`."""
        return create_once(self.storage, _path(self.name), _body("abort", self.parts))

    def forget(self) -> None:
        """Remove the object, after all tables have published their part."""
        self.storage.delete(_path(self.name))


@dataclass(frozen=True, slots=True)
class Member:
    """The part of one table in a decision over several tables.

    Attributes:
        time: returns the completion time, the same in all tables; given the least time that this table allows.
        prepared: a function. The decision calls the function after the record of this table has the intent. The function must raise an error if the
            group is not committed; then nothing is published.
        seems_alive: whether it is certain that other processes consider the writer of every part alive now.
    """

    group: Group
    time: Callable[[str], str] = field(repr=False)
    prepared: Callable[[], None] = field(repr=False)
    seems_alive: Callable[[], bool] = field(repr=False)


def tables_of(note: str) -> dict[str, str]:
    """Return the requested times of a commit's transaction, by table location. Return an empty dictionary if the note is not readable."""
    try:
        found = json.loads(note)["tables"]
        return {str(location): str(time) for location, time in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def is_void(context: TableContext, intent: Intent) -> bool:
    """Say whether the group of an intent is aborted, or can still be aborted. Changes nothing and does not wait."""
    name, storage, parts = _named_by(context, intent)
    decided = _read(storage, name)
    if decided is None:
        return not (_has_ended(context, intent) and _was_committed(context, intent))
    return not (decided and _stands(context, parts))


def is_committed(context: TableContext, intent: Intent) -> bool:
    """Say whether the group of a prepared intent is committed. Waits for a living writer; aborts the group of a dead writer.

    Raises `LockTimeoutError` if a living writer has not decided within the caller's time limit for a lock: such a writer blocks the table as a lock
    does.
    """
    name, storage, parts = _named_by(context, intent)
    writer = Instant(intent.requested_time, Action(intent.action), State.INFLIGHT)
    clock, bound_s = context.runtime.clock, context.options.lock.wait_ms / 1000
    wait_s, began = _FIRST_WAIT_S, clock.monotonic()
    while True:
        decided = _read(storage, name)
        if decided is not None:
            return decided and _stands(context, parts)
        if _has_ended(context, intent):
            return _was_committed(context, intent)
        if heartbeat.is_dead(context, writer, ask_storage=True):
            create_once(storage, _path(name), _body("abort", parts))
        elif clock.monotonic() - began >= bound_s:
            raise _undecided(context, intent, bound_s)
        else:
            clock.sleep(min(wait_s, bound_s))
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _undecided(context: TableContext, intent: Intent, waited_s: float) -> LockTimeoutError:
    return LockTimeoutError(
        f"A transaction over several tables keeps this table, and its process, which is alive, has not decided within {waited_s:g} s",
        table=context.table,
        instant=intent.requested_time,
        hint="Nothing was changed; try again. If that process hangs, end it: when its heartbeat has expired, whoever comes aborts the transaction.",
    )


def others(context: TableContext, intent: Intent) -> Iterator[TableContext]:
    """Yield the other existing tables of a group. Raises as `OpenedTable.context`."""
    for part in _named_by(context, intent)[2]:
        place = None if context.root.is_at(part.location) else table_of(context, part.location)
        if place is not None:
            yield place


def table_of(context: TableContext, location: str) -> TableContext | None:
    """Return the table at a location, which may be this table. Return None if there is no table any more."""
    if not context.prefix and context.root.is_at(location):
        return context
    try:
        return opened_beside(context, location)
    except TableNotFoundError:
        return None


def fate_of(context: TableContext, part: GroupPart) -> PartFate:
    """Return the outcome of a part, of this table or of another one."""
    place = table_of(context, part.location)
    if place is None:
        return PartFate.UNKNOWN
    timeline = load_showing(place, [part.inflight])
    found = timeline.find(part.requested_time) or place.folder.archived(timeline, part.requested_time)
    if found is None:
        return PartFate.GONE
    if found.is_completed:
        return PartFate.PUBLISHED
    is_rolled_back = part.requested_time in names_rolled_back(place, timeline, part.requested_time)
    return PartFate.GONE if is_rolled_back else PartFate.PENDING


def refuse_unwritable(context: TableContext) -> None:
    """Write and remove a dummy decision, once for each table handle, to test write access. Raises `StorageError` if this process may not write."""
    remembered = context.protocol.remembered
    if _WRITABLE not in remembered:
        path = _path(f"none-{context.runtime.ids.uuid()}")
        try:
            context.root.put_if_absent(path, _body("abort", ()))
            context.root.delete(path)
        except StorageError as error:
            raise StorageError(
                f"The decision of a transaction cannot be written: {error.message}",
                table=context.table,
                path=path,
                hint="Give this process the right to create and delete objects there. Nothing was written.",
            ) from error
        remembered[_WRITABLE] = True


def resolved(context: TableContext) -> list[ObjectInfo]:
    """Return the decisions in this table that nobody needs any more. None of their parts is pending or has a heartbeat."""
    if context.prefix:
        return []
    return [info for info in context.root.list(f"{layout.GROUPS}/") if _is_resolved(context, info.path)]


def sweep(context: TableContext) -> None:
    """Remove the decisions that nobody needs any more. A coordinator that ended normally has removed its own decision."""
    context.root.delete_many([info.path for info in resolved(context)])


def _is_resolved(context: TableContext, path: str) -> bool:
    try:
        texts = parse_json(context.root.get(path))["parts"]
        return all(_has_left(context, part) for part in (_parts(texts) if texts else ()))
    except (ObjectNotFoundError, UnsafePathError, ValueError, KeyError, TypeError, RecursionError):
        return False  # also if it names a table that this process is not allowed to open


def _has_left(context: TableContext, part: GroupPart) -> bool:
    """Say whether a part does not need the decision any more, not even if the part's writer wakes up later."""
    place = table_of(context, part.location)
    if place is None:
        return True
    is_kept = place.root.head(layout.heartbeat(part.requested_time)) is not None
    return not is_kept and fate_of(context, part) is not PartFate.PENDING


def _stands(context: TableContext, parts: Parts) -> bool:
    """Say whether a decision to commit stands: a part is published, or no part was rolled back by a program that does not know the commit record.
    Parts are published from the last to the first, so the look at the last part usually answers.
    """
    gone = False
    for part in reversed(parts):
        fate = PartFate.PENDING if context.root.is_at(part.location) else fate_of(context, part)
        if fate is PartFate.PUBLISHED:
            return True
        gone = gone or fate is PartFate.GONE
    return not gone


def _named_by(context: TableContext, intent: Intent) -> tuple[str, Storage, Parts]:
    """Return the name of the object that decides, the storage that has it, and the parts of the group."""
    try:
        name, location, texts = parse_json(intent.group)
        parts = _parts(texts)
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptTimelineError(
            "The commit record names no group of tables that can be read",
            table=context.table,
            path=layout.COMMIT_RECORD,
            instant=intent.requested_time,
            hint="No commit is possible until it is repaired: restore the file, or remove it while no writer runs.",
        ) from error
    storage = context.root if context.root.is_at(str(location)) else context.protocol.open_beside(str(location))
    return str(name), storage, parts


def _read(storage: Storage, name: str) -> bool | None:
    """Return whether the object says commit; None if the object does not exist. An unreadable object counts as abort."""
    try:
        return bool(parse_json(storage.get(_path(name))).get("decision") == "commit")
    except ObjectNotFoundError:
        return None
    except (ValueError, AttributeError, RecursionError):
        return False


def _has_ended(context: TableContext, intent: Intent) -> bool:
    return context.root.head(layout.heartbeat(intent.requested_time)) is None


def _was_committed(context: TableContext, intent: Intent) -> bool:
    """Say whether a writer that has ended decided to commit. An abort removes the inflight file before the heartbeat; a commit keeps the inflight
    file.
    """
    return context.root.head(intent.inflight) is not None


def _texts(parts: Parts) -> list[list[str]]:
    return [[part.location, part.requested_time, str(part.action)] for part in parts]


def _parts(texts: list[list[str]]) -> Parts:
    """Return the parts. Raises `ValueError` or `TypeError` for texts that no release has written."""
    found = tuple(GroupPart(str(location), time, Action(action)) for location, time, action in texts)
    if not found or not all(isinstance(part.requested_time, str) and is_time(part.requested_time) for part in found):
        raise ValueError("a part without a requested time")
    return found


def _body(decision: str, parts: Parts, nonce: str = "") -> bytes:
    return json.dumps({"decision": decision, "nonce": nonce, "parts": _texts(parts)}).encode()


def _path(name: str) -> str:
    return f"{layout.GROUPS}/{name}"
