"""THE commit: the one way to finish an instant, for writers and services alike.

Before the lock, the completed file's bytes are staged. Under the lock, in this order and nowhere else:

1. read the commit record and publish whatever its intent still names (a predecessor may have died between deciding and publishing);
2. load the timeline, see that our own instant is still wanted, check what completed since our start, and ask the gate;
3. see that the table still has version 8 (Hudi 1.1 and newer upgrade by default), and take the metadata table off the list if there is one
   (it would hide our rows from its readers);
4. choose the completion time: above every time on the timeline;
5. swap the intent into the commit record: this is the decision. Before it we may give up freely, after it there is only forward;
6. publish, release.

Safety rests on step 5's compare-and-swap, not on the lock: a writer whose lock expired loses the swap, or has its decided commit published by the
next one. After an unclear answer at step 5 the record, and then the timeline, are read to find out; only when neither shows our
commit is it given up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyhudi_core.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    CorruptionError,
    HudiError,
    ObjectNotFoundError,
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.model.instant import DATA_ACTIONS, Instant, State
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout, lock_checks, markers, metadata_removal
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction, check_skew, completion_time_after
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.freshness import load_showing, published
from pyhudi_core.transaction.holding import holding_lock
from pyhudi_core.transaction.publication import creating
from pyhudi_core.transaction.record import Intent, Publication, Record, RecordStore, record_store, swap_settled
from pyhudi_core.transaction.rollback_plans import names_rolled_back

_log = logging.getLogger(__name__)
_DECISIONS = 5

GATE_LIMIT_S = 2.0
"""How long a gate may take; its time does not count as time that the lock was held."""

Gate = Callable[[], object]
Encode = Callable[[Mapping[str, str]], bytes]
Check = Callable[[Timeline], None]


class ComeAgain(Exception):  # noqa: N818  (not a failure: the check has to read something that takes longer than the lock should be held)
    """Raised by a check under the lock: release it, call ``prepare``, and decide again. ``prepare`` may raise `CommitError`."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        super().__init__()
        self.prepare = prepare


@dataclass(frozen=True, slots=True)
class Finished:
    """A published instant; lock times in seconds."""

    instant: Instant
    lock_wait: float
    lock_held: float


def finish(transaction: Transaction, encode: Encode, check: Check, gate: Gate | None = None) -> Finished:
    """Publish the transaction's completed file, or raise and publish nothing.

    Args:
        encode: the completed file's bytes, given what the protocol adds to the commit's extra metadata.
        check: raises `CommitError` if the commit may not stand on the timeline that was found under the lock, and `ComeAgain` if it has to
            read first; it does that a bounded number of times.
        gate: asked under the lock, just before the decision; False, an exception or more than `GATE_LIMIT_S` gives the commit up.

    Raises `CommitAbortedError`, `CommitConflictError`, `LockError` (nothing published) or `CommitStateUnknownError`.
    """
    context = transaction.context
    clock = context.runtime.clock
    notes = metadata_removal.notes(context.config)
    staged = layout.staged(transaction.requested_time, transaction.nonce)
    context.storage.put(staged, encode(notes))
    keeper = _GateKeeper(transaction, gate)

    def checked(timeline: Timeline) -> None:
        check(timeline)
        keeper.ask()

    waited = held = 0.0
    completed: Instant | None = None
    while completed is None:
        again: ComeAgain | None = None
        asked = clock.monotonic()
        with holding_lock(context, f"commit {transaction.requested_time}") as lease_left_s:
            acquired = clock.monotonic()
            try:
                last = lock_checks.while_held(context, transaction.requested.action, lease_left_s, checked)
                completed = _decide(transaction, encode, last, notes, staged)
            except ComeAgain as found:
                again = found
        waited += acquired - asked
        held += clock.monotonic() - acquired
        if again is not None:
            again.prepare()
    _clean_up(transaction, staged)
    return Finished(completed, waited, held - keeper.seconds)


@dataclass(slots=True)
class _GateKeeper:
    """Asks the gate, and keeps the time that it takes apart from the protocol's own."""

    transaction: Transaction
    gate: Gate | None
    seconds: float = 0.0

    def ask(self) -> None:
        """Raise `CommitAbortedError` if the gate refuses, or takes so long that it keeps other writers from the lock."""
        if self.gate is None:
            return
        clock = self.transaction.context.runtime.clock
        asked = clock.monotonic()
        answer = self.gate()
        took = clock.monotonic() - asked
        self.seconds += took
        if answer is False:
            raise self._refusal("The gate refused the commit", "ask whoever set the gate why")
        if took > GATE_LIMIT_S:
            raise self._refusal(
                f"The gate took {took:.1f} s, and it is asked while other writers wait for the lock",
                f"let it answer within {GATE_LIMIT_S:g} s",
            )

    def _refusal(self, message: str, hint: str) -> CommitAbortedError:
        time = self.transaction.requested_time
        table = self.transaction.context.table
        return CommitAbortedError(message, table=table, instant=time, hint=f"Nothing was published; {hint}.")


def _decide(transaction: Transaction, encode: Encode, check: Check, notes: Mapping[str, str], staged: str) -> Instant:
    """Steps 1 to 6. Runs again when another writer decided between our read and our swap (it held no or an expired lock)."""
    context = transaction.context
    store = record_store(context.storage)
    for _ in range(_DECISIONS):
        record = store.read() if context.protections.commit_record else None
        lock_checks.refuse_foreign(context, record, transaction.requested.action)
        if record is not None and context.protections.roll_forward:
            publish_intent(context, record.intent)
        named = [publication.path for publication in record.intent.publications] if record is not None else []
        timeline = load_showing(context, [transaction.inflight, *published(named)])
        ours = _completed(transaction, timeline)
        if ours is not None:
            return ours
        still_wanted(transaction, timeline)
        check(timeline)
        found = metadata_removal.take_off_the_list(context, _properties(context))
        if found.keys() - notes.keys():
            notes = {**notes, **found}
            context.storage.put(staged, encode(notes))
        intent = _intent(transaction, timeline, staged)
        if _is_decided(transaction, store, record, intent):
            return _publish(transaction, intent)
    raise CommitAbortedError(
        f"Other writers decided their commits {_DECISIONS} times while this one held the lock",
        table=context.table,
        instant=transaction.requested_time,
        hint="Give all writers of the table the same lock provider; nothing was published.",
    )


def _properties(context: TableContext) -> dict[str, str]:
    """The table's properties as they are now. Raises `TableError` if another writer has made it a table that is not for us any more."""
    found = properties_file.read(context.storage)
    if context.protections.version_gate:
        TableConfig.from_properties(found, table=context.table)
    return found


def _is_decided(transaction: Transaction, store: RecordStore, record: Record | None, intent: Intent) -> bool:
    """Step 5. Raises `CommitStateUnknownError` if the storage fails before it is known whether the swap happened."""
    context = transaction.context
    if not context.protections.commit_record:
        return True
    swapped: bool | None = None
    try:
        lock = lock_checks.recorded_lock(context, record, transaction.requested.action)
        swapped = swap_settled(store, record, Record(intent, lock))
        return swapped or _completed(transaction, context.folder.load()) is not None
    except (StorageError, CorruptionError) as error:
        if swapped is None and not isinstance(error, StorageStateUnknownError):
            raise  # the storage refused the swap, and said so
        raise CommitStateUnknownError(
            f"The storage failed while the commit was decided, and does not say whether it was: {error.message}",
            token=transaction.token,
            table=context.table,
            instant=transaction.requested_time,
            hint="Ask table.commit_status(token) when the storage answers again, until it says something else than undecided.",
        ) from error


def still_wanted(transaction: Transaction, timeline: Timeline) -> None:
    """Raise `CommitAbortedError` unless our instant is inflight and no rollback names it."""
    context = transaction.context
    found = timeline.find(transaction.requested_time, transaction.requested.action)
    gone = found is None or found.state is not State.INFLIGHT
    if gone or transaction.requested_time in names_rolled_back(context, timeline, transaction.requested_time):
        raise CommitAbortedError(
            "Another writer rolled this write back, because it looked dead",
            table=context.table,
            instant=transaction.requested_time,
            hint="Nothing was published; write again. If the writer was alive, raise hoodie.client.heartbeat.interval_in_ms.",
        )


def _intent(transaction: Transaction, timeline: Timeline, staged: str) -> Intent:
    context = transaction.context
    highest = max(timeline.high_water_mark, transaction.requested_time)
    check_skew(context, timeline, highest)
    watermark = context.protections.completion_watermark
    completion_time = completion_time_after(context, highest) if watermark else context.now()
    completed = replace(transaction.requested, state=State.COMPLETED, completion_time=completion_time)
    return Intent(
        transaction.requested_time,
        completion_time,
        str(transaction.requested.action),
        context.folder.file(transaction.inflight),
        transaction.token,
        (Publication(context.folder.file(completed), staged),),
    )


def _completed(transaction: Transaction, timeline: Timeline) -> Instant | None:
    """Our instant if it is completed: by us before, by whoever rolled it forward, or by the dead process whose rollback we go on with.

    Raises `CommitAbortedError` if it is another write's, whose writer took our requested time without regard for the reservation.
    """
    context = transaction.context
    requested = transaction.requested
    found = timeline.find(requested.requested_time, requested.action)
    if found is None:
        found = context.folder.archived(timeline, requested.requested_time, requested.action)
    if found is None or not found.is_completed or not context.protections.look_up_before_abort:
        return None
    told_apart = context.protections.salt and found.action in DATA_ACTIONS
    if told_apart and context.folder.read_commit(found).extra.get(TOKEN_KEY) != transaction.token:
        raise CommitAbortedError(
            "Another writer has completed a commit with the same requested time",
            table=context.table,
            instant=transaction.requested_time,
            hint="Nothing was published; write again. Give all writers of the table the same clock or lock provider.",
        )
    return found


def _publish(transaction: Transaction, intent: Intent) -> Instant:
    context = transaction.context
    try:
        if publish_intent(context, intent):
            return replace(transaction.requested, state=State.COMPLETED, completion_time=intent.completion_time)
        named = published(publication.path for publication in intent.publications)
        completed = _completed(transaction, load_showing(context, named))
    except (StorageError, CorruptionError) as error:
        raise CommitStateUnknownError(
            f"The commit is decided, but could not be published: {error.message}",
            token=transaction.token,
            table=context.table,
            instant=transaction.requested_time,
            hint="The next writer publishes it; ask table.commit_status(token) until it says committed.",
        ) from error
    if completed is None or not completed.is_completed:
        raise CommitAbortedError(
            "A writer that does not know the commit record rolled the decided commit back",
            table=context.table,
            instant=transaction.requested_time,
            hint="Give Hudi's own writers the LAZY failed-writes policy and the table's lock provider, then write again.",
        )
    return completed


def publish_intent(context: TableContext, intent: Intent) -> bool:
    """Create every file that a decided commit names and that is not there yet. Any process may do it, any number of times.

    Returns whether all of them were created by this call.
    """
    create = creating(context.protections.completed_once)
    created = True
    for publication in intent.publications:
        if context.storage.head(publication.path) is not None:
            created = False
            continue
        if context.storage.head(intent.inflight) is None:
            return False  # void: rolled back, restored or archived
        if intent.requested_time in names_rolled_back(context, context.folder.load(), intent.requested_time):
            return False
        try:
            data = context.storage.get(publication.staged)
        except ObjectNotFoundError:
            created = False  # its writer published it and swept up between our two calls
            continue
        created = create(context.storage, publication.path, data) and created
    return created


def _clean_up(transaction: Transaction, staged: str) -> None:
    """What stays behind if this fails is harmless, so a failure must not make a commit look undone."""
    context = transaction.context
    try:
        transaction.heartbeat.handle.cancel()
        markers.remove(context.storage, transaction.requested_time)
        context.storage.delete(staged)
        transaction.heartbeat.stop(context)  # last: by the heartbeat the next writer finds what a crash here leaves
    except HudiError as error:
        _log.warning("could not sweep up after commit %s of %s: %s", transaction.requested_time, context.table, error)
