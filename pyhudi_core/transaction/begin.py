"""Begin an instant: reserve the requested time, announce the instant on the timeline, and keep the heartbeat young.

The reservation is the heartbeat file. The file is created with put-if-absent, and has the same name for every action, so two writers can never hold
one requested time. The requested time is greater than every time on the timeline and every other reservation. After the reservation, the writer
checks again that the requested time is the greatest time. So everything that the write reads is earlier than the requested time, and the order of the
times does not rest on clocks.

Requested times are even milliseconds, and completion times are odd milliseconds. Without this rule, a commit could complete in the millisecond of a
reservation that the commit cannot see, and the same time would identify two states.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from pyhudi_core.errors import (
    ClockSkewError,
    CommitAbortedError,
    CorruptionError,
    HudiError,
    InvalidOptionError,
    ObjectNotFoundError,
    StorageStateUnknownError,
)
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State, epoch_ms, format_time, is_time, time_after
from pyhudi_core.opened_table.table_context import METADATA_TABLE, TableContext
from pyhudi_core.storage.at_once import all_of, both, each
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, layout, markers
from pyhudi_core.transaction.heartbeat import Heartbeat
from pyhudi_core.transaction.late_tasks import InCharge, LateFiles
from pyhudi_core.transaction.publication import creating

_log = logging.getLogger(__name__)
_ATTEMPTS = 50
_DIGITS = 17
_MOST_READ = 32
"""How many commits a writer reads at most to find out which program made them. Every write reads the newest 20. By default a timeline has no more
commits.
"""
_EVEN, _ODD = "02468", "13579"

TOKEN_KEY = "pyhudi.commit_token"  # noqa: S105  (a name, not a secret)
"""The key in the extra metadata of a commit under which the token of the attempt stands that made the commit."""


@dataclass(frozen=True, slots=True)
class TableSeen:
    """The state of a table that a writer reads before the writer reserves a time.

    The state has the timelines of the table and of the companion tables, and the reserved times.

    ``hashed`` as in `Snapshot`.
    """

    timeline: Timeline
    companions: tuple[Timeline, ...]
    heartbeats: tuple[ObjectInfo, ...]
    hashed: bool | None = None

    @classmethod
    def nothing(cls) -> TableSeen:
        """Return the state of a table that was created just now."""
        return cls(Timeline(()), (), ())


def look(context: TableContext, timeline: Timeline | None = None) -> TableSeen:
    """Read the timelines and the heartbeats of a table concurrently. ``timeline``: the table's timeline, if the caller has just listed it."""
    storage, executor = context.root, context.runtime.executor
    timelines, heartbeats = both(
        storage,
        executor,
        lambda: timelines_of(context) if timeline is None else (timeline, *timelines_of(context, own=False)),
        lambda: storage.list(f"{layout.HEARTBEATS}/"),
    )
    return TableSeen(timelines[0], timelines[1:], tuple(heartbeats))


def timelines_of(context: TableContext, *, own: bool = True) -> tuple[Timeline, ...]:
    """Return the current timelines of the table (``own``) and of its companion tables."""
    places = (context, *context.companions) if own else context.companions
    return tuple(each(context.root, context.runtime.executor, lambda place: place.folder.load(), places))


def metadata_timeline(context: TableContext, companions: Sequence[Timeline]) -> Timeline | None:
    """Return the metadata table's timeline among the companion timelines; None if there is no metadata table, or if the companion timelines were not
    listed.
    """
    found = zip(context.companions, companions, strict=False)
    return next((timeline for place, timeline in found if place.prefix == METADATA_TABLE), None)


@dataclass(slots=True)
class Transaction:
    """A pending instant of this process. ``token`` identifies the attempt to commit permanently.

    Attributes:
        start: the timeline that the write of the transaction reads.
        companions: the timelines of the companion tables, loaded together with ``start``.
        markers: the marker files, if only this process creates marker files, and listed them after the last marker file was created.
        tasks_apart: whether tasks of the transaction run in other processes, and may outlive it.
        late: what the commit removes of such tasks.
        swept: whether the staged bytes are removed.
    """

    context: TableContext
    requested: Instant
    nonce: str
    start: Timeline
    heartbeat: Heartbeat
    companions: tuple[Timeline, ...] = ()
    markers: tuple[str, ...] | None = None
    tasks_apart: bool = False
    late: LateFiles | None = None
    swept: bool = False

    @property
    def requested_time(self) -> str:
        return self.requested.requested_time

    @property
    def token(self) -> str:
        return f"{self.requested_time}-{self.nonce}"

    @property
    def in_charge(self) -> InCharge | None:
        """Return this process, as tasks in other processes see it; None without such tasks."""
        return InCharge(self.requested_time, self.nonce) if self.tasks_apart else None

    @property
    def inflight(self) -> Instant:
        return Instant(self.requested_time, self.requested.action, State.INFLIGHT)

    @property
    def sync_marker(self) -> bytes:
        """16 bytes for the Avro files of this transaction on the timeline. The bytes are the nonce."""
        return bytes.fromhex(self.nonce)


def reserve(context: TableContext, action: Action, seen: TableSeen | None = None, at: str | None = None) -> Transaction:
    """Reserve a requested time and start its heartbeat. The timeline does not change yet.

    ``seen`` is the state that the caller has just read; this state is not read again. After the reservation, the requested time is compared again
    with all other times. ``at`` fixes the requested time, for the first instant of a table.

    Raises `ClockSkewError` if the timeline is ahead of the clock by more than the bound. Raises `InvalidOptionError` on a storage that cannot keep
    several writers apart. Raises `UnsupportedTableError` for a table that this release reads and does not write.
    """
    context.config.refuse_writing(context.table)
    _refuse_racy_storage(context)
    nonce = context.runtime.ids.uuid().replace("-", "")
    content = heartbeat.body(context, nonce)
    for attempt in range(1 if at else _ATTEMPTS):
        known, seen = look(context) if seen is None else seen, None
        # A writer that was overtaken takes a time ahead of the clock, and waits until the clock shows this time. Commits that complete during the
        # wait have earlier times.
        waited = _longest_wait_ms(context) if attempt else skew_wait_ms(context, known.timeline, known.heartbeats)
        requested_time = at or _candidate(context, known, waited)
        reserve_file = creating(context.protections.reservation)
        if not reserve_file(context.root, layout.heartbeat(requested_time), content):
            continue
        beat = heartbeat.start(context, requested_time, content)
        try:
            context.runtime.clock.sleep(waited / 1000)
            start, *companions = timelines_of(context)
            more = skew_wait_ms(context, start, known.heartbeats) - waited
            if more > 0:  # another program has begun to write since the look
                context.runtime.clock.sleep(more / 1000)
                start, *companions = timelines_of(context)
        except BaseException:
            beat.handle.cancel()  # no other code would stop the heartbeat; the file expires
            raise
        highest = max(timeline.high_water_mark for timeline in (start, *companions))
        if highest < requested_time or not context.protections.monotonic_times:
            requested = Instant(requested_time, action, State.REQUESTED)
            return Transaction(context, requested, nonce, start, beat, tuple(companions))
        beat.stop(context)
    if at:
        raise CommitAbortedError(
            f"The requested time {at} is that of the first instant of a table, and this table has instants",
            table=context.table,
            hint="Another process has made it, or has begun to. Nothing was written.",
        )
    raise CommitAbortedError(
        f"No requested time could be reserved in {_ATTEMPTS} attempts",
        table=context.table,
        hint="Other writers commit faster than this one can begin; try again.",
    )


def announce(transaction: Transaction, requested_body: bytes | None, inflight_body: bytes) -> None:
    """Put the requested file and the inflight file on the timeline. If ``requested_body`` is None, the requested file exists already.

    Raises `CommitAbortedError` if another process created one of the files.
    """
    context = transaction.context
    for instant, body, once in (
        (transaction.requested, requested_body, context.protections.requested_once),
        (transaction.inflight, inflight_body, context.protections.inflight_once),
    ):
        if body is not None and not creating(once)(context.storage, context.folder.file(instant), body):
            raise CommitAbortedError(
                "Another writer uses the same requested time",
                table=context.table,
                instant=transaction.requested_time,
                hint="Try again; if it recurs, give all writers of the table the same clock or lock provider.",
            )
    transaction.heartbeat.revive(context)


def begin_write(
    context: TableContext,
    action: Action,
    operation: str,
    seen: TableSeen | None = None,
    at: str | None = None,
    beside: Callable[[Transaction], object] = lambda _transaction: None,
) -> Transaction:
    """Reserve and announce a commit, deltacommit or replacecommit; ``seen`` and ``at`` as in `reserve`.

    ``beside`` runs concurrently with the announcement, and must not depend on the announcement.
    """
    transaction = reserve(context, action, seen, at)
    requested = b""
    if action is Action.REPLACECOMMIT:
        requested = encode_record("HoodieRequestedReplaceMetadata", {}, sync_marker=transaction.sync_marker)
    inflight = inflight_body(transaction, operation)
    try:
        all_of(
            context.root,
            context.runtime.executor,
            lambda: announce(transaction, requested, inflight),
            lambda: beside(transaction),
        )
    except CommitAbortedError:
        transaction.heartbeat.stop(context)
        raise
    except StorageStateUnknownError:
        # A file of the announcement may appear after the withdrawal. So the heartbeat stays and expires, and then other writers repair the table.
        transaction.heartbeat.handle.cancel()
        raise
    except BaseException:
        transaction.heartbeat.handle.cancel()
        _withdraw(transaction)
        raise
    return transaction


def inflight_body(transaction: Transaction, operation: str) -> bytes:
    """Return the content of the inflight file of a write. The content has a map of files, even if the map is empty, because Hudi's rollback by
    listing needs the map.
    """
    begun = {"partitionToWriteStats": {}, "operationType": operation, "extraMetadata": {TOKEN_KEY: transaction.token}}
    return encode_record("HoodieCommitMetadata", begun, sync_marker=transaction.sync_marker)


def withdraw(transaction: Transaction) -> None:
    """Remove an announced instant whose files nobody needs, as if the instant had never begun. The timeline gets no rollback.

    Only the writer of the instant may call this, before the writer starts the commit. After a crash in this function, the usual repair cleans up.
    """
    context, requested_time = transaction.context, transaction.requested_time
    transaction.heartbeat.handle.cancel()
    markers.remove_at_companions(context, requested_time)
    markers.remove_leaks(context, requested_time)
    markers.remove(context.storage, requested_time)
    _withdraw(transaction)


def _withdraw(transaction: Transaction) -> None:
    """Remove a half announced instant from the timeline.

    If the removal fails, too, the heartbeat of the instant stays until it expires. Then other writers repair the table.
    """
    context = transaction.context
    try:
        for instant in (transaction.inflight, transaction.requested):
            context.storage.delete(context.folder.file(instant))
        transaction.heartbeat.stop(context)
    except HudiError as error:
        _log.warning("could not withdraw %s of %s: %s", transaction.requested_time, context.table, error)


def _candidate(context: TableContext, seen: TableSeen, waits_ms: int) -> str:
    """Return the next free time: the time at the end of the wait for clock skew, or the next time above every known time."""
    if not context.protections.monotonic_times:
        return context.now()
    now = format_time((context.runtime.instant_ms() + waits_ms) // 2 * 2, utc=context.utc)
    reserved = (info.path.rpartition("/")[2] for info in seen.heartbeats)
    marks = (timeline.high_water_mark for timeline in (seen.timeline, *seen.companions))
    highest = max([*marks, *(name for name in reserved if is_time(name))])
    check_skew(context, seen.timeline, highest)
    return _or_next(max(now, time_after(highest)) if highest else now, _EVEN)


def companions_high_water_mark(context: TableContext) -> str:
    """Return the greatest time on the timelines of the companion tables; empty if there is none. Companion tables use the clock of the table."""
    return max((timeline.high_water_mark for timeline in timelines_of(context, own=False)), default="")


def completion_time_after(context: TableContext, highest: str) -> str:
    """Return the completion time of an instant that is published now, above the greatest known time."""
    return _or_next(max(context.now(), time_after(highest)), _ODD)


def least_time_after(highest: str) -> str:
    """Return the least completion time above a time."""
    return _or_next(time_after(highest), _ODD)


def _or_next(time: str, wanted: str) -> str:
    """Return the time if its last digit is in ``wanted``, otherwise the next millisecond. A time without milliseconds, as in old tables, is returned
    unchanged.
    """
    return time if len(time) != _DIGITS or time[-1] in wanted else time_after(time)


def check_skew(context: TableContext, timeline: Timeline, highest: str) -> None:
    """Check how far the timeline is ahead of the clock. If the timeline is ahead, this machine's clock or the clock of another writer is wrong.

    Pyhudi's writers choose a time above all known times, so a wrong clock of a pyhudi writer only produces times that are ahead. Hudi's writers trust
    their clocks. If the timeline has instants of a Hudi writer, a time far ahead would make the next commits of the Hudi writer look too old.

    Raises `ClockSkewError` if the timeline is ahead by more than the bound, unless pyhudi wrote the complete timeline. Raises `ClockSkewError` if no
    time is left above the newest time.
    """
    if not highest:
        return
    latest, has_next = _epoch_ms_and_next(context, highest)
    if not has_next:
        raise ClockSkewError(
            f"No time sorts after the timeline's newest one, {highest}",
            table=context.table,
            instant=highest,
            hint="A writer with a broken clock made it; remove its instant (roll it back, or restore the table) before you write again.",
        )
    bound = max(context.options.clock.max_ahead_ms, context.options.clock.max_skew_ms)
    if latest is None or latest - context.runtime.clock.now_ms() <= bound:
        return
    if context.storage.capabilities.put_if_absent and all(_is_ours(context, instant) for instant in timeline):
        _log.warning(
            "the timeline of %s is ahead of this clock (%s); new times continue from there", context.table, highest
        )
        return
    raise ClockSkewError(
        f"The timeline's newest time {highest} is ahead of this machine's clock by more than {bound} ms",
        table=context.table,
        hint="Set this machine's clock, or wait until it has passed that time. On a table with hoodie.table.timeline.timezone=LOCAL all writers"
        " have to be in one time zone.",
    )


def _epoch_ms_and_next(context: TableContext, highest: str) -> tuple[int | None, bool]:
    """Return the time in milliseconds (None if the text is not a date), and whether a later instant is possible."""
    try:
        return epoch_ms(highest, utc=context.utc), max(context.now(), time_after(time_after(highest))) > highest
    except (OverflowError, ValueError):
        return None, False


def _is_ours(context: TableContext, instant: Instant) -> bool:
    """Say whether pyhudi made the instant. Return True for each clean, and for each completed instant without data."""
    if instant.action is Action.CLEAN:
        return True  # a clean puts no data on the timeline, and our plan of a clean has no heartbeat while it waits
    if instant.is_completed:
        return instant.action not in DATA_ACTIONS or TOKEN_KEY in context.folder.read_commit(instant).extra
    if heartbeat.is_ours(context, instant):
        return True
    # The writer removes the heartbeat last. So an instant of ours without a heartbeat has ended since the timeline was loaded.
    now = context.folder.load().find(instant.requested_time, instant.action)
    return now is None or (now.is_completed and _is_ours(context, now))


def _refuse_racy_storage(context: TableContext) -> None:
    if context.storage.capabilities.put_if_absent or context.options.conflict.concurrency == "single_writer":
        return
    raise InvalidOptionError(
        "The storage cannot create an object only if there is none, so two writers would overwrite each other's commits",
        table=context.table,
        hint='If there will never be a second writer, say concurrency="single_writer"; else keep the table on a storage with conditional writes.'
        " Nothing was written.",
    )


def skew_wait_ms(context: TableContext, timeline: Timeline, heartbeats: Sequence[ObjectInfo] = ()) -> int:
    """Return for how many milliseconds a writer waits between the reservation of a time and the read of the timeline.

    ``heartbeats``: the listed heartbeat files.

    A reservation separates pyhudi's writers, even if their clocks differ. Hudi's writers make no reservation. So if the timeline has instants of a
    Hudi writer, the writer waits until no clock shows an earlier time. On a local disk all writers share one clock.
    """
    longest = _longest_wait_ms(context)
    beating = {info.path.rpartition("/")[2] for info in heartbeats if info.size}  # Hudi's heartbeats are empty
    needed = context.storage.capabilities.one_clock or (longest and has_others(context, timeline, beating))
    return longest if needed else 0


def _longest_wait_ms(context: TableContext) -> int:
    return 1 if context.storage.capabilities.one_clock else context.options.clock.max_skew_ms


def has_others(context: TableContext, timeline: Timeline, beating: Set[str]) -> bool:
    """Say whether another program may write to the table: one of the instants is not ours, or the origin of too many instants is unknown.

    ``beating``: the requested times of our pending instants.
    """
    asked = [i for i in timeline if not (i.is_pending and i.requested_time in beating)]
    unknown = context.folder.unread(i for i in timeline.completed if i.action in DATA_ACTIONS)
    if len(unknown) > _MOST_READ:
        return True
    try:
        context.folder.read_commits(unknown)
        return not all(_is_ours(context, instant) for instant in asked)
    except (CorruptionError, ObjectNotFoundError):
        return True
