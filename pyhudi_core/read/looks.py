"""Check with one request whether a table has changed since the last look, and wait for the next commit.

Every decision of this package changes the commit record. So if the record is unchanged (If-None-Match, answered by 304), no writer of this package
has committed. Other programs do not change the record. Therefore the timeline is listed instead (also one request) in these cases: another program
made the newest commit; the record could not be read together with the files that it published; the storage has no tags; or the last listing is a
minute old.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256

from pyhudi_core.errors import CorruptionError, InvalidOptionError, ObjectNotFoundError
from pyhudi_core.model.instant import Instant
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.read.bounds import TimePoint, interval_bound
from pyhudi_core.storage.at_once import Ahead, both
from pyhudi_core.storage.base import Storage
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.timeline.layouts import Names
from pyhudi_core.transaction.begin import TOKEN_KEY
from pyhudi_core.transaction.record import Record, TaggedRecordStore

LISTED_MS = 60_000
"""For this time, the unchanged commit record alone shows that nothing changed."""


@dataclass(frozen=True, slots=True)
class TableLook:
    """The state of a table at a look.

    Attributes:
        folder: the timeline's folder.
        names: a digest of the names in the folder.
        listed_ms: when the folder was last listed.
        record: the tag of the commit record; empty if only a listing shows whether the table has changed.
    """

    folder: str
    names: str
    listed_ms: int
    record: str = ""

    def to_json(self) -> str:
        """Return the look as text, for a later process."""
        return json.dumps([self.folder, self.names, self.listed_ms, self.record], separators=(",", ":"))

    @classmethod
    def of(cls, text: object) -> TableLook | None:
        """Parse the text of `to_json`; None for any other text."""
        try:
            folder, names, listed_ms, record = json.loads(text)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            return None
        texts = all(isinstance(value, str) for value in (folder, names, record)) and folder
        return cls(folder, names, listed_ms, record) if texts and type(listed_ms) is int else None


def look(context: TableContext) -> tuple[Timeline, TableLook]:
    """List the timeline, and return it with the look."""
    folder, now = context.folder, context.runtime.clock.now_ms()
    tagged = context.root.capabilities.put_if_match
    timeline, record = both(
        context.root,
        context.runtime.executor,
        folder.load,
        lambda: Ahead.of(TaggedRecordStore(context.root).read) if tagged else None,
    )
    names = folder.listed
    seen = None if record is None or record.error is not None else record.get()
    return timeline, TableLook(folder.path, _digest(names), now, _tag(context, timeline, names, seen))


def still(storage: Storage, seen: TableLook, now_ms: int) -> TableLook | None:
    """Return the new look at an unchanged table; None if the table may have changed. Sends one request.

    ``storage``: the storage of the table's folder. Raises `StorageError`.
    """
    if seen.record and 0 <= now_ms - seen.listed_ms < LISTED_MS:
        try:
            found = storage.get_tagged(TaggedRecordStore(storage).path, seen.record)
        except ObjectNotFoundError:
            return None
        return seen if found is None else None
    if _digest(storage.list_names(seen.folder)) != seen.names:
        return None
    return replace(seen, listed_ms=now_ms)


def wait(opened: OpenedTable, after: TimePoint | None, timeout: float | None, every: float) -> Instant | None:
    """Wait for a commit; see `HudiTable.wait`."""
    for name, seconds in (("timeout", timeout), ("every", every)):
        if seconds is not None and not seconds >= 0:
            raise InvalidOptionError(f"{name} is {seconds} seconds", hint="Give zero or more seconds.")
    context = opened.context()
    clock = context.runtime.clock
    began = clock.monotonic()
    timeline, seen = look(context)
    bound = _newest(timeline) if after is None else _bound(context, timeline, after)
    while True:
        if _newest(timeline) > bound:
            return timeline.settled_commits[-1]
        left = float("inf") if timeout is None else timeout - (clock.monotonic() - began)
        if left <= 0:
            return None
        clock.sleep(min(every, left))
        again = still(context.root, seen, clock.now_ms())
        if again is None:
            context = opened.context()
            timeline, again = look(context)
        seen = again


def _bound(context: TableContext, timeline: Timeline, after: TimePoint) -> str:
    archived = lambda time: context.folder.archived(timeline, time)  # noqa: E731
    return interval_bound(after, timeline, archived, utc=context.utc, name="after")


def _newest(timeline: Timeline) -> str:
    commits = timeline.settled_commits
    return (commits[-1].completion_time or commits[-1].requested_time) if len(commits) else ""


def _tag(context: TableContext, timeline: Timeline, names: Names, record: Record | None) -> str:
    """Return the tag of the record if the record will show the next commit: this package made the newest commit, and the listing shows what was
    decided.
    """
    if record is None:
        return ""
    shown = set(names[0])
    places = [item.path.rpartition("/") for item in record.intent.publications]
    listed = [name in shown for folder, _, name in places if folder == context.folder.path]
    return record.position if listed and all(listed) and _is_ours(context, timeline) else ""


def _is_ours(context: TableContext, timeline: Timeline) -> bool:
    """Say whether this package made the newest commit."""
    try:
        return bool(timeline.commits) and TOKEN_KEY in context.folder.read_commit(timeline.commits[-1]).extra
    except (CorruptionError, ObjectNotFoundError):
        return False


def _digest(names: Names) -> str:
    return sha256("\n".join([*names[0], "", *names[1]]).encode()).hexdigest()[:32]
