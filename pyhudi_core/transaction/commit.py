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
    HudiError,
    ObjectNotFoundError,
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.model.instant import Instant, State, time_after
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout, markers, metadata_removal
from pyhudi_core.transaction.begin import Transaction, check_skew
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.holding import holding_lock
from pyhudi_core.transaction.publication import create_once
from pyhudi_core.transaction.record import Intent, Publication, Record, RecordStore, record_store, swap_settled
from pyhudi_core.transaction.rollback_plans import names_rolled_back

_log = logging.getLogger(__name__)
_DECISIONS = 5

GATE_LIMIT_S = 2.0
"""How long a gate may take; its time does not count as time that the lock was held."""

Gate = Callable[[], object]
Encode = Callable[[Mapping[str, str]], bytes]
Check = Callable[[Timeline], None]


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
        check: raises `CommitError` if the commit may not stand on the timeline that was found under the lock.
        gate: asked under the lock, just before the decision; False, an exception or more than `GATE_LIMIT_S` gives the commit up.

    Raises `CommitAbortedError`, `CommitConflictError` (nothing published) or `CommitStateUnknownError`.
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

    asked = clock.monotonic()
    with holding_lock(context, f"commit {transaction.requested_time}"):
        acquired = clock.monotonic()
        completed = _decide(transaction, encode, checked, notes, staged)
    released = clock.monotonic()
    _clean_up(transaction, staged)
    return Finished(completed, acquired - asked, released - acquired - keeper.seconds)


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
        if record is not None and context.protections.roll_forward:
            publish_intent(context, record.intent)
        timeline = context.folder.load()
        ours = timeline.find(transaction.requested_time, transaction.requested.action)
        if ours is not None and ours.is_completed:
            return (
                ours  # decided before: by us in an earlier round, or by the dead process whose rollback we go on with
            )
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
    TableConfig.from_properties(found, table=context.table)
    return found


def _is_decided(transaction: Transaction, store: RecordStore, record: Record | None, intent: Intent) -> bool:
    """Step 5. Raises `CommitStateUnknownError` if the storage fails before it is known whether the swap happened."""
    context = transaction.context
    if not context.protections.commit_record:
        return True
    swapped: bool | None = None
    try:
        swapped = swap_settled(store, record, Record(intent, context.lock.identity))
        return swapped or _is_published(transaction)
    except StorageError as error:
        if swapped is None and not isinstance(error, StorageStateUnknownError):
            raise  # the storage refused the swap, and said so
        raise CommitStateUnknownError(
            "The storage failed while the commit was decided, and does not say whether it was",
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
    check_skew(context, highest)
    completion_time = max(context.now(), time_after(highest))
    completed = replace(transaction.requested, state=State.COMPLETED, completion_time=completion_time)
    return Intent(
        transaction.requested_time,
        completion_time,
        str(transaction.requested.action),
        context.folder.file(transaction.inflight),
        transaction.token,
        (Publication(context.folder.file(completed), staged),),
    )


def _is_published(transaction: Transaction) -> bool:
    """Whether our completed file is on the timeline: somebody rolled our decided commit forward."""
    found = transaction.context.folder.load().find(transaction.requested_time, transaction.requested.action)
    return found is not None and found.is_completed


def _publish(transaction: Transaction, intent: Intent) -> Instant:
    context = transaction.context
    try:
        publish_intent(context, intent)
        completed = context.folder.load().find(transaction.requested_time, transaction.requested.action)
    except StorageError as error:
        raise CommitStateUnknownError(
            "The commit is decided, but the storage failed while it was published",
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


def publish_intent(context: TableContext, intent: Intent) -> None:
    """Create every file that a decided commit names and that is not there yet. Any process may do it, any number of times."""
    for publication in intent.publications:
        if context.storage.head(publication.path) is not None:
            continue
        if context.storage.head(intent.inflight) is None:
            return  # void: rolled back, restored or archived
        if intent.requested_time in names_rolled_back(context, context.folder.load(), intent.requested_time):
            return
        try:
            data = context.storage.get(publication.staged)
        except ObjectNotFoundError:
            continue  # its writer published it and swept up between our two calls
        create_once(context.storage, publication.path, data)


def _clean_up(transaction: Transaction, staged: str) -> None:
    """What stays behind if this fails is harmless, so a failure must not make a commit look undone."""
    context = transaction.context
    try:
        transaction.heartbeat.stop(context)
        markers.remove(context.storage, transaction.requested_time)
        context.storage.delete(staged)
    except HudiError as error:
        _log.warning("could not sweep up after commit %s of %s: %s", transaction.requested_time, context.table, error)
