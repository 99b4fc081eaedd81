"""Change several tables in one step (`transaction`), and read several tables as of one time (`snapshot`).

Each write of a transaction is staged like every write. Then the tables are prepared, nested one in the other: lock, checks, and the intent in the
commit record. All transactions prepare tables in the order of their locations, so two transactions never wait for each other. When all tables are
prepared, one object decides (``transaction/group.py``), and all tables publish. The completion time is the same in all tables, so the state as of
that time has all of the transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self

from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    CommitStateUnknownError,
    HudiError,
    InvalidOptionError,
    TransactionTornError,
)
from pyhudi_core.model.instant import BEFORE_ALL
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.paths import parse_location
from pyhudi_core.storage.same_place import same_folder, see_same_object
from pyhudi_core.storage.sources import refuse_beside
from pyhudi_core.table import HudiTable
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction.begin import has_others
from pyhudi_core.transaction.commit import Gate
from pyhudi_core.transaction.common_time import CommonTime
from pyhudi_core.transaction.decision import finish_decided
from pyhudi_core.transaction.group import (
    TRANSACTION_KEY,
    Group,
    GroupPart,
    Member,
    PartFate,
    fate_of,
    refuse_unwritable,
    tables_of,
)
from pyhudi_core.transaction.record import record_store
from pyhudi_core.write.batch import UserRows
from pyhudi_core.write.handle import Write
from pyhudi_core.write.result import Commit

if TYPE_CHECKING:
    from pyhudi_core.read.scan import Scan

_log = logging.getLogger(__name__)

_MOST = 20
_SHORT = 1 / 10
"""An attempt is short if it takes at most this part of the wait for a lock: so many transactions can take turns before others give up."""
_TURNS, _NEXT_TURNS = "transactions in turn", 8
"""The key under which a handle remembers how many of its next transactions hold the locks from their first attempt on, after a lost attempt; and the
rows of that attempt."""


@set_module("pyhudi")
@printable
class TableTransaction:
    """Writes to several tables, made by `transaction`. They become visible together when the ``with`` block ends without an error."""

    def __init__(self, tables: Sequence[HudiTable]) -> None:
        self._tables = {table.location: table for table in checked(tables, written=True)}
        self._writes: dict[str, Write] = {}
        self._begun: dict[str, object] = {}
        self._handles = ExitStack()
        self._is_open = False
        self.commits: dict[str, Commit] = {}

    def __enter__(self) -> Self:
        if self._is_open or self._begun:
            raise InvalidOptionError(
                "A transaction has one block, and this one has begun it already",
                hint="Make another transaction for more rows: hudi.transaction([orders, lines]).",
            )
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        with CommitTogether() as together, self._handles:
            if error is None and self._writes:
                try:
                    together.commit(self._writes)
                finally:  # also if the services that follow are interrupted
                    self.commits = together.commits

    def __repr__(self) -> str:
        return f"TableTransaction of {len(self._tables)} tables, {len(self._writes)} written, {len(self.commits)} committed"

    def upsert(self, table: HudiTable, data: object, extra_metadata: Mapping[str, str] | None = None) -> None:
        """Write as `HudiTable.upsert`; the rows become visible when the block ends."""
        self._write(table, "upsert", data, extra_metadata)

    def insert(self, table: HudiTable, data: object, extra_metadata: Mapping[str, str] | None = None) -> None:
        """Write as `HudiTable.insert`."""
        self._write(table, "insert", data, extra_metadata)

    def insert_overwrite(self, table: HudiTable, data: object, extra_metadata: Mapping[str, str] | None = None) -> None:
        """Write as `HudiTable.insert_overwrite`."""
        self._write(table, "insert_overwrite", data, extra_metadata)

    def delete(self, table: HudiTable, keys: object, extra_metadata: Mapping[str, str] | None = None) -> None:
        """Delete as `HudiTable.delete` by keys."""
        self._write(table, "delete", keys, extra_metadata)

    def _write(self, table: HudiTable, operation: str, data: object, extra: Mapping[str, str] | None) -> None:
        if not self._is_open:
            raise _outside()
        known = _one_of(self._tables.values(), table)
        if known is None:
            raise InvalidOptionError(
                "The table is not one of the transaction", hint="Give it to hudi.transaction([...])."
            )
        mine = object()
        if self._begun.setdefault(known.location, mine) is not mine:  # in one step, because threads may write at once
            raise InvalidOptionError(
                "A transaction writes to a table once",
                table=table.location,
                hint="Write all rows in one call; for rows to change and rows to delete, use table.merge in a commit of its own.",
            )
        try:
            self._stage(known, operation, data, extra)
        except BaseException:
            del self._begun[known.location]  # the block may catch the error, and write other rows
            raise

    def _stage(self, table: HudiTable, operation: str, data: object, extra: Mapping[str, str] | None) -> None:
        with ExitStack() as handle:
            write = handle.enter_context(table.begin(operation, extra_metadata=extra or {}))
            if len(self._tables) > 1:
                write.note(together=True)
                refuse_unwritable(write.context)
            # An insert says at once that the table has one of its keys.
            most = _rows_in_turn(write) if len(self._tables) > 1 and operation != "insert" else 0
            if most == 0:
                write.write(data)
            else:
                write.prepare(UserRows(data))
                if write.rows > most:
                    write.write_again()
            _warn_of_others(write)
            if not self._is_open:
                raise _outside()
            self._writes[table.location] = write
            self._handles.push(handle.pop_all())


def _outside() -> InvalidOptionError:
    return InvalidOptionError(
        "A transaction takes rows only inside its block, at whose end they are committed",
        hint="Write `with hudi.transaction([orders, lines]) as changes:`. Nothing was written.",
    )


class CommitTogether:
    """Publishes the staged files of several writes, in all tables or in none. End its ``with`` block after the blocks of the writes, because its
    decision may roll back the writes. After the publication, ``commits`` has the commits by location.
    """

    def __init__(self) -> None:
        self.commits: dict[str, Commit] = {}
        self._group: Group | None = None
        self._late_ms = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A write that could not be rolled back has its heartbeat, so others abort it again.
        self._forget(aborted=True)

    def commit(
        self, writes: Mapping[str, Write], gates: Mapping[str, Gate] = MappingProxyType({})
    ) -> dict[str, Commit]:
        """Commit all writes, and return the commits by location. After a conflict in one table, all writes are repeated from the newest states.

        Args:
            writes: the writes by location; their tables must pass `checked`.
            gates: as in `Write.commit`, by location.

        Raises the error of a table; then nothing is published. Or raises `TransactionTornError`.
        """
        # All transactions take the tables in one order, however the locations are written. Otherwise two transactions could wait for each other.
        writes = dict(sorted(writes.items(), key=lambda item: item[1].context.root.real_location))
        if any(write.is_prepared for write in writes.values()):
            _hold(writes.values())
        while True:
            members = dict(writes)
            try:
                for write in writes.values():
                    if write.is_prepared:
                        write.write_again()
                members = {location: write for location, write in writes.items() if write.transaction is not None}
                self._commit_once(members, gates)
                break
            except CommitConflictError as conflict:
                for write in members.values():
                    write.give_up(conflict)
                self._forget()
                _wait_for_turn(tuple(members.values()), conflict)
        for location, write in writes.items():
            self.commits[location] = write._commit() if location in members else write.commit(gates.get(location))
        for location, write in members.items():
            self.commits[location] = write.follow()
        return self.commits

    def _commit_once(self, members: Mapping[str, Write], gates: Mapping[str, Gate]) -> None:
        if len(members) < 2:
            for location, write in members.items():
                write.commit_in_group(None, gates.get(location))
            return
        contexts = [write.context for write in members.values()]
        ids = contexts[0].runtime.ids
        self._group = Group(contexts[0].root, ids.uuid(), ids.uuid(), tuple(map(_part_of, members.values())))
        asked = [gates.get(location) for location in members]
        held = all(write.holds_lock for write in members.values())
        time = CommonTime.of(contexts, self._late_ms, held=held)
        coordinator = _Coordinator(self._group, time, tuple(members.values()), asked)
        try:
            coordinator.run()
        except CommitConflictError:
            self._late_ms = time.late_ms()
            raise
        self._forget()

    def _forget(self, *, aborted: bool = False) -> None:
        """Remove the deciding object, because every table has published its part, or rolled it back.

        ``aborted``: only if the decision is to abort.
        """
        group, self._group = self._group, None
        if group is not None:
            try:
                if not aborted or group.abort():
                    group.forget()
            except HudiError as error:
                _log.warning("could not remove the decision of a transaction: %s", error)


def _warn_of_others(write: Write) -> None:
    """Warn that the guarantee does not hold if another program writes to the table."""
    pending, context = write.transaction, write.context
    if pending is None:
        return
    # Plans of this package have no heartbeat, so among pending instants only commits show other writers.
    known = {instant.requested_time for instant in pending.start.pending.instants}
    if has_others(context, pending.start, known | {pending.requested_time}):
        _log.warning(
            "%s: a program that does not know the commit record has written to it. Such a program may roll a part of a transaction back when the "
            "heartbeat is old, and its readers may see one table before the other",
            context.table,
        )


def _part_of(write: Write) -> GroupPart:
    pending = write.transaction
    assert pending is not None, "only a write that has begun is a member"
    return GroupPart(write.context.root.location, pending.requested_time, pending.requested.action)


def _wait_for_turn(writes: Sequence[Write], conflict: CommitConflictError) -> None:
    """Wait after a lost attempt, and take the locks of all tables for the next one, if it will be short. So it is not lost to another commit.

    The next transactions with the same handles take the locks before their first attempt.
    """
    first = writes[0]
    loser = next((write for write in writes if write.context.table == conflict.table), first)
    # Only the first table gets a claim: with claims in several tables, two transactions could wait for each other.
    loser.wait_after(conflict, claims=loser is first)
    if loser.longest_ms <= first.context.options.lock.wait_ms * _SHORT:
        _hold(writes)
        for write in writes:
            write.context.protocol.remembered[_TURNS] = (_NEXT_TURNS, write.rows)


def _hold(writes: Iterable[Write]) -> None:
    """Take the locks of all tables that are still to be written, in the order in which tables are prepared: then nobody waits in a circle."""
    for write in writes:
        write.hold_lock()


def _rows_in_turn(write: Write) -> int:
    """Return how many rows this transaction may write under the locks, because one of the last with this handle lost an attempt. Counts it."""
    remembered = write.context.protocol.remembered
    left, rows = remembered.get(_TURNS, (0, 0))
    remembered[_TURNS] = (max(0, left - 1), rows)
    return 2 * rows if left else 0


class _Coordinator:
    """One attempt to commit all members."""

    def __init__(self, group: Group, time: CommonTime, writes: Sequence[Write], gates: Sequence[Gate | None]) -> None:
        self.group, self.time, self.writes, self.gates = group, time, writes, gates
        self.late: HudiError | None = None
        self.is_committed = False

    def run(self) -> None:
        """Prepare, decide and publish. Raises the error of a table, and then publishes nothing in any table."""
        try:
            self._from(0)
        except CommitStateUnknownError as error:
            if self.group.abort():  # so it is known now
                raise _aborted(error) from error
            raise
        except HudiError as error:
            if not self.is_committed:
                raise
            self.late = error
        if self.late is not None:
            raise self._torn(self.late) or self.late

    def _torn(self, late: HudiError) -> TransactionTornError | None:
        """Return the error if one table has its part, and another table has lost its part."""
        context = self.writes[0].context
        fates = {part.location: fate_of(context, part) for part in self.group.parts}
        there = [location for location, fate in fates.items() if fate is PartFate.PUBLISHED]
        gone = [location for location, fate in fates.items() if fate is PartFate.GONE]
        if not there or not gone or isinstance(late, CommitStateUnknownError):
            return None
        return torn(", ".join(there), gone[0])

    def _seems_alive(self) -> bool:
        pending = [(write.transaction, write.context) for write in self.writes]
        return all(one is not None and one.heartbeat.is_young(context) for one, context in pending)

    def _from(self, number: int) -> None:
        if number == len(self.writes):
            self.time.wait()
            self.is_committed = self.group.commit()
            if not self.is_committed:
                raise CommitAbortedError(
                    "Another writer aborted the transaction, because this process looked dead",
                    hint="Nothing was published; write again. If the process was alive, raise hoodie.client.heartbeat.interval_in_ms.",
                )
            return
        time = self.time.choose if number == 0 else self.time.chosen
        member = Member(self.group, time, partial(self._next, number + 1), self._seems_alive)
        self.writes[number].commit_in_group(member, self.gates[number])

    def _next(self, number: int) -> None:
        """Continue with the next table, after one table is prepared. Raises if the group is aborted."""
        try:
            self._from(number)
        except HudiError as error:
            if self.group.abort():
                raise (_aborted(error) if isinstance(error, CommitStateUnknownError) else error) from error.__cause__
            self.late = error  # the group is committed, so this table is published, too
        except BaseException:
            self.group.abort()
            raise


def torn(there: str, gone: str) -> TransactionTornError:
    """Return the error for a transaction that one table shows, and another table does not."""
    return TransactionTornError(
        f"A transaction is in {there}, and not in {gone}: a restore undid it there, or a program that does not know the commit record did",
        table=gone,
        hint=f"Write the rows of {gone} again, or restore the other tables to before the transaction. Give Hudi's own writers the LAZY policy for "
        "failed writes and a longer heartbeat than pauses of this process.",
    )


def refuse_torn(found: Mapping[str, Mapping[str, str] | None]) -> None:
    """Raise `TransactionTornError` if another table of the transaction lacks its commit.

    Args:
        found: the extra metadata of the commit in each table, by location; None if a table has no such commit.
    """
    for location, extra in found.items():
        for other in tables_of((extra or {}).get(TRANSACTION_KEY, "")):
            if other in found and found[other] is None:
                raise torn(location, other)


def _aborted(error: HudiError) -> CommitAbortedError:
    return CommitAbortedError(
        f"The transaction was aborted after this: {error.message}", hint="Nothing was published; write again."
    )


def checked(tables: Sequence[HudiTable], *, written: bool = False) -> Sequence[HudiTable]:
    """Return the tables if one decision can change all of them.

    Raises `InvalidOptionError` if not, and `TableVersionError` if a table that is ``written`` cannot be written.
    """
    if not isinstance(tables, Sequence) or not all(isinstance(table, HudiTable) for table in tables) or not tables:
        raise InvalidOptionError(
            "A transaction or snapshot takes a list of tables", hint="Write hudi.transaction([orders, lines])."
        )
    for table in tables if written else ():
        table.config.refuse_writing(table.location)
    # A handle with its own function to open other tables needs no storage options for them.
    by_options = [table._opened.storage for table in tables if table._opened.beside is None]
    _refuse_other_stores(by_options)
    real = [table._opened.storage.real_location for table in tables]  # a link may lead to the same table
    refuse_apart([table.location for table in tables], [table.config.timeline_timezone for table in tables], real)
    for storage, table in product(by_options if written else (), tables):
        if not storage.is_at(table.location):
            refuse_beside(storage, table.location)
    return tables


def _one_of(tables: Iterable[HudiTable], table: object) -> HudiTable | None:
    """Return the table in the list with the same location as ``table``, in any spelling; None if there is none."""
    if not isinstance(table, HudiTable):
        return None
    storage = table._opened.storage
    return next((one for one in tables if same_folder(one._opened.storage, storage, properties_file.PATH)), None)


def _refuse_other_stores(storages: Sequence[Storage]) -> None:
    """Raise `InvalidOptionError` if the accounts or the storage options of the tables lead to different stores.

    A process that finishes the transaction of a dead writer opens all its tables with the options of one table. An endpoint has several spellings, so
    a table whose options or account differ is opened with both.
    """
    network = [storage for storage in storages if storage.capabilities.parallel_calls > 1]
    for other in network[1:]:
        first = network[0]
        options = first.spec().options
        if other.spec().options == options and other.store == first.store:
            continue
        there = parse_location(other.location).in_store_of(parse_location(first.location))
        if not see_same_object(other, open_storage(there, options), properties_file.PATH):
            stores = (
                ""
                if other.store == first.store
                else f" ({other.store or 'of the cloud'}, and not {first.store or 'of the cloud'})"
            )
            raise InvalidOptionError(
                f"The tables are in several stores: with the storage options of {first.location}, {other.location} is another place{stores}",
                table=other.location,
                hint="Every writer of one of the tables must reach all of them. Put the tables into one bucket, and open them with the same options.",
            )


def refuse_apart(locations: Sequence[str], zones: Iterable[str], real: Sequence[str] | None = None) -> None:
    """Raise `InvalidOptionError` if tables cannot be changed in one step. The tables need not exist.

    Args:
        locations: the locations of the tables.
        zones: the zones of their timelines, ``UTC`` or ``LOCAL``.
        real: the targets of locations that are links.
    """
    given = [parse_location(location) for location in locations] if real is None else []
    places = [location.canonical for location in given] if real is None else real
    hosts = {location.host: location.text for location in given if location.host}
    if len(hosts) > 1:
        _refuse_stores(hosts.values())
    twice = [location for location, place in zip(locations, places, strict=True) if places.count(place) > 1]
    if twice:
        raise InvalidOptionError("A table is given twice", table=min(twice), hint="Give each table once.")
    if len(locations) > _MOST:
        raise InvalidOptionError(
            f"{len(locations)} tables are more than the {_MOST} that one transaction takes",
            hint="All locks are held until the last table is prepared. Write fewer tables at once.",
        )
    if len(stores := {_store(place) for place in places}) > 1:
        _refuse_stores(stores)
    if len(set(zones)) > 1:
        raise InvalidOptionError(
            "The timelines of the tables are in UTC and in local time", hint="They cannot share a completion time."
        )


def _refuse_stores(stores: Iterable[str]) -> None:
    raise InvalidOptionError(
        f"The tables are in several stores: {', '.join(sorted(stores))}",
        hint="One object decides for all tables, and every writer of one of them must reach it. Put the tables into one bucket, or on one disk.",
    )


def why_not_together(tables: Sequence[HudiTable]) -> str:
    """Return why these tables cannot be changed in one step; empty if they can be."""
    try:
        checked(tables, written=True)
    except HudiError as error:
        return error.message
    return ""


def _store(location: str) -> str:
    """Return a text that is equal for two locations in one bucket, or on one disk."""
    scheme, found, rest = location.partition("://")
    shared = {"memory": "memory", "file": "this disk"}.get(scheme, f"{scheme}://{rest.partition('/')[0]}")
    return shared if found else "this disk"


@set_module("pyhudi")
def transaction(tables: Sequence[HudiTable]) -> TableTransaction:
    """Return a transaction over tables. The writes in its ``with`` block become visible in all tables together, or in none.

    After a conflict in one table, all tables are written again from the newest states. ``commits`` then has the result for each location.

    Raises `InvalidOptionError` for tables without a common store, for a table that is given twice, and for more than 20 tables. Raises
    `TableVersionError` for a table that is only read.
    """
    return TableTransaction(tables)


@set_module("pyhudi")
@printable
class TablesSnapshot:
    """The state of several tables as of one completion time, ``time``; made by `snapshot`. Every transaction is in all tables or in none."""

    def __init__(self, time: str, tables: Sequence[HudiTable]) -> None:
        self.time = time
        self._tables = {table.location: table for table in tables}

    def scan(self, table: HudiTable, columns: Sequence[str] | None = None, where: object = None) -> Scan:
        """Return a scan of one of the tables as of the time."""
        known = _one_of(self._tables.values(), table)
        if known is None:
            raise InvalidOptionError("The table is not one of the snapshot", hint="Give it to hudi.snapshot([...]).")
        return known.scan(columns, where, as_of=self.time)

    def __repr__(self) -> str:
        return f"TablesSnapshot of {len(self._tables)} tables as of {self.time}"


@set_module("pyhudi")
def snapshot(tables: Sequence[HudiTable]) -> TablesSnapshot:
    """Return the newest state of several tables as of one time. First completes transactions that are being published. If the writer of a transaction
    has not decided yet, waits while its heartbeat is fresh.

    Raises as `transaction`, and `TransactionTornError` if a table has lost its part of a transaction that another table shows.
    """
    contexts = [table._opened.context() for table in checked(tables)]
    before = [context.folder.load().newest_completion for context in contexts]
    time = max(before)
    seen: set[str] = set()
    while True:
        # A transaction that one table shows is decided. So in the next round each of its tables shows it. Either the record of the table names the
        # transaction, and this process publishes it, or the record names a later commit.
        timelines = [_published(context) for context in contexts]
        time = time or max(timeline.newest_completion for timeline in timelines)
        each = zip(contexts, timelines, before, strict=True)
        found = {name for context, timeline, after in each for name in _transactions(context, timeline, after, time)}
        if found == seen:
            _refuse_torn(contexts, timelines, found)
            return TablesSnapshot(time or BEFORE_ALL, tables)
        seen = found


def _refuse_torn(contexts: Sequence[TableContext], timelines: Sequence[Timeline], notes: Iterable[str]) -> None:
    """Raise `TransactionTornError` if a table does not show its part of a transaction that another table shows."""
    looked = list(zip(contexts, timelines, strict=True))
    for note in notes:
        fates: dict[bool, str] = {}
        for location, requested_time in tables_of(note).items():
            for context, timeline in looked:
                if context.root.is_at(location):
                    found = timeline.commits.find(requested_time)
                    found = found or context.folder.archived(timeline, requested_time)
                    fates[found is not None] = location
        if len(fates) == 2:
            raise torn(fates[True], fates[False])


def _published(context: TableContext) -> Timeline:
    """Return the timeline, after the publication of decided transactions."""
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
