"""Several tables change in one step, or none of them: `transaction`, and `snapshot`, which reads several tables as of one time.

Each write of a transaction is staged as every write is. Then the tables are prepared one inside the other: lock, checks, and the intent in the commit
record. They come in the order of their locations, so that no two transactions wait for each other. When all are prepared, one object decides
(``transaction/group.py``), and all publish. The completion time is the same in all tables, so the state as of it has the whole transaction.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    CommitStateUnknownError,
    HudiError,
    InvalidOptionError,
)
from pyhudi_core.model.instant import BEFORE_ALL, format_time
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.table import HudiTable
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import completion_time_after
from pyhudi_core.transaction.decision import finish_decided
from pyhudi_core.transaction.group import Group, Member
from pyhudi_core.transaction.record import record_store
from pyhudi_core.write.handle import Write
from pyhudi_core.write.result import Commit

if TYPE_CHECKING:
    from pyhudi_core.read.scan import Scan

_log = logging.getLogger(__name__)

TRANSACTION_KEY = "pyhudi.transaction"
"""In the extra metadata of a commit: the id of its transaction, and the locations of all of its tables."""
_MOST = 20
_AHEAD_MS = 20
"""So much later than now the tables complete: the time has to be above every commit that comes until the last one is prepared."""


@set_module("pyhudi")
@printable
class TableTransaction:
    """Writes to several tables that become visible together, when the ``with`` block ends without an error. Made by `transaction`."""

    def __init__(self, tables: Sequence[HudiTable]) -> None:
        self._tables = {table.location: table for table in _checked(tables)}
        self._writes: dict[str, Write] = {}
        self._handles = ExitStack()
        self._id = ""
        self._group: Group | None = None
        self.commits: dict[str, Commit] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with self._handles:
                if error is None:
                    self._commit()
        finally:
            # A write that could not be rolled back has its heartbeat, so others abort it again.
            self._forget(aborted=True)

    def __repr__(self) -> str:
        return f"TableTransaction of {len(self._tables)} tables, {len(self._writes)} written, {len(self.commits)} committed"

    def upsert(self, table: HudiTable, data: object, extra_metadata: Mapping[str, str] | None = None) -> None:
        """As `HudiTable.upsert`; the rows become visible when the block ends."""
        self._write(table, "upsert", data, extra_metadata)

    def insert(self, table: HudiTable, data: object, extra_metadata: Mapping[str, str] | None = None) -> None:
        """As `HudiTable.insert`."""
        self._write(table, "insert", data, extra_metadata)

    def insert_overwrite(self, table: HudiTable, data: object, extra_metadata: Mapping[str, str] | None = None) -> None:
        """As `HudiTable.insert_overwrite`."""
        self._write(table, "insert_overwrite", data, extra_metadata)

    def delete(self, table: HudiTable, keys: object, extra_metadata: Mapping[str, str] | None = None) -> None:
        """As `HudiTable.delete` by keys."""
        self._write(table, "delete", keys, extra_metadata)

    def _write(self, table: HudiTable, operation: str, data: object, extra: Mapping[str, str] | None) -> None:
        known = self._tables.get(table.location) if isinstance(table, HudiTable) else None
        if known is None:
            raise InvalidOptionError(
                "The table is not one of the transaction", hint="Give it to hudi.transaction([...])."
            )
        if table.location in self._writes:
            raise InvalidOptionError(
                "A transaction writes to a table once",
                table=table.location,
                hint="Write all rows in one call; for rows to change and rows to delete, use table.merge in a commit of its own.",
            )
        write = self._handles.enter_context(known.begin(operation, extra_metadata=extra or {}))
        self._id = self._id or write.context.runtime.ids.uuid()
        write.note({TRANSACTION_KEY: json.dumps({"id": self._id, "tables": sorted(self._tables)})})
        write.write(data)
        self._writes[table.location] = write

    def _commit(self) -> None:
        """Commit all, and again from the newest states as often as another commit comes first."""
        if not self._writes:
            return
        first = next(iter(self._writes.values()))
        while True:
            members = {location: write for location, write in sorted(self._writes.items()) if write.instant is not None}
            try:
                self._commit_once(members)
                break
            except CommitConflictError as conflict:
                for write in members.values():
                    write.give_up(conflict)
                self._forget()
                first.wait_after(conflict)
                for write in members.values():
                    write.write_again()
        changed = {location: members[location].follow() for location in members}
        self.commits = {
            location: changed[location] if location in changed else write.commit()
            for location, write in self._writes.items()
        }

    def _commit_once(self, members: Mapping[str, Write]) -> None:
        if len(members) < 2:
            for write in members.values():
                write.commit_in_group(None)
            return
        contexts = [write.context for write in members.values()]
        ids = contexts[0].runtime.ids
        self._group = Group(contexts[0].root, ids.uuid(), ids.uuid())
        _Coordinator(self._group, _time_for(contexts), tuple(members.values())).run()
        self._forget()

    def _forget(self, *, aborted: bool = False) -> None:
        """Remove the object that decided: every table has published its part, or has rolled it back. ``aborted``: only one that says abort."""
        group, self._group = self._group, None
        if group is not None:
            try:
                if not aborted or group.abort():
                    group.forget()
            except HudiError as error:
                _log.warning("could not remove the decision of a transaction: %s", error)


class _Coordinator:
    """One attempt to commit all members."""

    def __init__(self, group: Group, time: str, writes: Sequence[Write]) -> None:
        self.group, self.time, self.writes = group, time, writes
        self.late: HudiError | None = None

    def run(self) -> None:
        """Prepare, decide and publish. Raises what one of the tables raises, and then nothing of any table is published."""
        try:
            self._from(0)
        except CommitStateUnknownError as error:
            if self.group.abort():  # so it is known now
                raise _aborted(error) from error
            raise
        if self.late is not None:
            raise self.late

    def _from(self, number: int) -> None:
        if number == len(self.writes):
            if not self.group.commit():
                raise CommitAbortedError(
                    "Another writer aborted the transaction, because this process looked dead",
                    hint="Nothing was published; write again. If the process was alive, raise hoodie.client.heartbeat.interval_in_ms.",
                )
            return
        self.writes[number].commit_in_group(Member(self.group, self.time, partial(self._next, number + 1)))

    def _next(self, number: int) -> None:
        """Called when a table is prepared: go on with the next one. Raises if the group is aborted."""
        try:
            self._from(number)
        except HudiError as error:
            if self.group.abort():
                raise (_aborted(error) if isinstance(error, CommitStateUnknownError) else error) from error.__cause__
            self.late = error  # the group is committed, so this table is published, too
        except BaseException:
            self.group.abort()
            raise


def _aborted(error: HudiError) -> CommitAbortedError:
    return CommitAbortedError(
        f"The transaction was aborted after this: {error.message}", hint="Nothing was published; write again."
    )


def _checked(tables: Sequence[HudiTable]) -> Sequence[HudiTable]:
    """Return the tables, if one decision can be made about them. Raises `InvalidOptionError`."""
    if not isinstance(tables, Sequence) or not all(isinstance(table, HudiTable) for table in tables) or not tables:
        raise InvalidOptionError(
            "A transaction or snapshot takes a list of tables", hint="Write hudi.transaction([orders, lines])."
        )
    locations = [table.location for table in tables]
    twice = sorted({location for location in locations if locations.count(location) > 1})
    if twice:
        raise InvalidOptionError("A table is given twice", table=twice[0], hint="Give each table once.")
    if len(tables) > _MOST:
        raise InvalidOptionError(
            f"{len(tables)} tables are more than the {_MOST} that one transaction takes",
            hint="All locks are held until the last table is prepared. Write fewer tables at once.",
        )
    stores = {_store(location) for location in locations}
    if len(stores) > 1:
        raise InvalidOptionError(
            f"The tables are in several stores: {', '.join(sorted(stores))}",
            hint="One object decides for all tables, and every writer of one of them must reach it. Put the tables into one bucket, or on one disk.",
        )
    zones = {table.config.timeline_timezone for table in tables}
    if len(zones) > 1:
        raise InvalidOptionError(
            "The timelines of the tables are in UTC and in local time", hint="They cannot share a completion time."
        )
    return tables


def _store(location: str) -> str:
    """Return what two locations share that are in one bucket, or on one disk."""
    scheme, found, rest = location.partition("://")
    shared = {"memory": "memory", "file": "this disk"}.get(scheme, f"{scheme}://{rest.partition('/')[0]}")
    return shared if found else "this disk"


def _time_for(contexts: Sequence[TableContext]) -> str:
    """Return a completion time above all that is on the timelines, and a little later than now."""
    first = contexts[0]
    marks = [place.folder.load().high_water_mark for context in contexts for place in (context, *context.companions)]
    soon = format_time(first.runtime.instant_ms() + _AHEAD_MS, utc=first.utc)
    return completion_time_after(first, max(soon, *marks))


@set_module("pyhudi")
def transaction(tables: Sequence[HudiTable]) -> TableTransaction:
    """Return a transaction over tables: what is written in its ``with`` block becomes visible in all of them together, or in none.

    After a conflict in one table, all are written again from the newest states. ``commits`` then has the result for each location.

    Raises `InvalidOptionError` for tables without a common store, a table that is given twice, and more than 20 tables.
    """
    return TableTransaction(tables)


@set_module("pyhudi")
@printable
class TablesSnapshot:
    """The state of several tables as of one completion time, ``time``; every transaction is in all of them or in none. Made by `snapshot`."""

    def __init__(self, time: str, tables: Sequence[HudiTable]) -> None:
        self.time = time
        self._tables = {table.location: table for table in tables}

    def scan(self, table: HudiTable, columns: Sequence[str] | None = None, where: object = None) -> Scan:
        """Return a scan of one of the tables as of the time."""
        if table.location not in self._tables:
            raise InvalidOptionError("The table is not one of the snapshot", hint="Give it to hudi.snapshot([...]).")
        return self._tables[table.location].scan(columns, where, as_of=self.time)

    def __repr__(self) -> str:
        return f"TablesSnapshot of {len(self._tables)} tables as of {self.time}"


@set_module("pyhudi")
def snapshot(tables: Sequence[HudiTable]) -> TablesSnapshot:
    """Return the state of several tables as of one time, now. A transaction that is being published is published to its end before.

    A transaction whose writer has decided nothing yet is waited for, at most as long as its heartbeat is young.

    Raises as `transaction`.
    """
    contexts = [table._opened.context() for table in _checked(tables)]
    before = [context.folder.load().newest_completion for context in contexts]
    time = max(before)
    seen: set[str] = set()
    while True:
        # A transaction that one table shows is decided. So in the next round each of its tables shows it: by then the record of the table names the
        # transaction, and is published here, or has moved on.
        timelines = [_published(context) for context in contexts]
        time = time or max(timeline.newest_completion for timeline in timelines)
        each = zip(contexts, timelines, before, strict=True)
        found = {name for context, timeline, after in each for name in _transactions(context, timeline, after, time)}
        if found == seen:
            return TablesSnapshot(time or BEFORE_ALL, tables)
        seen = found


def _published(context: TableContext) -> Timeline:
    """Return the timeline, with what a transaction has decided."""
    record = record_store(context.root).read()
    if record is not None and record.intent.group:
        finish_decided(context, record)
    return context.folder.load()


def _transactions(context: TableContext, timeline: Timeline, after: str, until: str) -> Iterator[str]:
    """Yield the transactions that a table shows between two completion times."""
    for instant in timeline.commits:
        if after <= (instant.completion_time or "") <= until:
            text = context.folder.read_commit(instant).extra.get(TRANSACTION_KEY)
            if text:
                yield text
