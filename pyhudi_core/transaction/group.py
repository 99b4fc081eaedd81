"""One decision over several tables: an object that is written once says commit or abort for all of them.

Each table's commit record first gets an intent that names the object (it is *prepared*). Nothing of such an intent is published before the object
says commit. A process that meets a prepared intent asks the object. If there is none, the process waits as long as the writer lives, and then writes
abort itself, unless somebody was faster. So nobody waits longer than a heartbeat for a dead writer, and all tables have one outcome for ever.

Invariant: a prepared intent is replaced only after the object is there, because every decision publishes what the record names before it swaps the
record (``decision.py``), and publishing asks here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from pyhudi_core.errors import ObjectNotFoundError
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import Storage
from pyhudi_core.transaction import heartbeat, layout
from pyhudi_core.transaction.publication import create_once
from pyhudi_core.transaction.record import Intent

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.01, 1.0
_ABORT = b'{"decision": "abort"}'


@dataclass(frozen=True, slots=True)
class Group:
    """A decision over several tables, as the process that makes it knows it.

    Attributes:
        storage: that of the table that has the object.
        name: of the object.
        nonce: tells our decision to commit from any other.
    """

    storage: Storage
    name: str
    nonce: str

    @property
    def reference(self) -> str:
        """How an intent names the object."""
        return f"{self.name} {self.storage.location}"

    def commit(self) -> bool:
        """Decide to commit; False if somebody has aborted it. Raises `StorageStateUnknownError`."""
        body = json.dumps({"decision": "commit", "nonce": self.nonce}).encode()
        return create_once(self.storage, _path(self.name), body)

    def abort(self) -> bool:
        """Decide to abort; False if it was decided to commit. Raises `StorageStateUnknownError`."""
        return create_once(self.storage, _path(self.name), _ABORT)

    def forget(self) -> None:
        """Remove the object, when all tables have published their part."""
        self.storage.delete(_path(self.name))


@dataclass(frozen=True, slots=True)
class Member:
    """The part of one table in a decision over several.

    Attributes:
        time: the completion time, the same in all tables.
        prepared: called when the intent of this table is in its record. Raises if the group is not committed.
    """

    group: Group
    time: str
    prepared: Callable[[], None] = field(repr=False)


def is_void(context: TableContext, intent: Intent) -> bool:
    """Say whether the group of an intent is aborted, or may still be. Changes nothing, and waits for nobody."""
    name, storage = _object(context, intent)
    decided = _read(storage, name)
    if decided is None:
        decided = _has_ended(context, intent) and _was_committed(context, intent)
    return not decided


def is_committed(context: TableContext, intent: Intent) -> bool:
    """Say whether the group of a prepared intent is committed. Waits for a living writer; aborts the group of a dead one."""
    name, storage = _object(context, intent)
    writer = Instant(intent.requested_time, Action(intent.action), State.INFLIGHT)
    wait_s = _FIRST_WAIT_S
    while True:
        decided = _read(storage, name)
        if decided is not None:
            return decided
        if _has_ended(context, intent):
            return _was_committed(context, intent)
        if heartbeat.is_dead(context, writer, ask_storage=True):
            create_once(storage, _path(name), _ABORT)
        else:
            context.runtime.clock.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _object(context: TableContext, intent: Intent) -> tuple[str, Storage]:
    """Return the name of the object that decides, and the storage that has it."""
    name, _, location = intent.group.partition(" ")
    return name, context.root if location == context.root.location else context.protocol.open_beside(location)


def _read(storage: Storage, name: str) -> bool | None:
    """Return whether the object says commit; None if it is not there. An object that says nothing sensible says no."""
    try:
        return bool(json.loads(storage.get(_path(name))).get("decision") == "commit")
    except ObjectNotFoundError:
        return None
    except (ValueError, AttributeError, RecursionError):
        return False


def _has_ended(context: TableContext, intent: Intent) -> bool:
    return context.root.head(layout.heartbeat(intent.requested_time)) is None


def _was_committed(context: TableContext, intent: Intent) -> bool:
    """Say what a writer that has ended did, and forgot: who aborts takes the inflight file away before the heartbeat, and who commits leaves it."""
    return context.root.head(intent.inflight) is not None


def _path(name: str) -> str:
    return f"{layout.GROUPS}/{name}"
