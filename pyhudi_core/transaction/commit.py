"""The commit completes an instant: a write, a clean, a rollback or a restore. Writers and table services use the same functions.

First the bytes of the completed file are staged. Then the instant is decided and published (``decision`` has the steps under the lock). At the end,
the files that only this process needed are removed.

Under the lock, a commit checks three things. First: the instant of the commit is inflight, and no rollback names it. Second: the table still has the
version that it had when the write began (Hudi 1.1 and newer upgrade tables by default). Third: no listed metadata table hides the new rows from
readers. If a metadata table would hide the rows, the commit is refused, or, if allowed, the commit unlists the metadata table. Then the commit
chooses a completion time above every time on the timeline, checks for conflicts with commits that completed since the start of the write, and asks
the gate.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    CommitStateUnknownError,
    CorruptionError,
    DeletesFailedError,
    HudiError,
    StorageError,
)
from pyhudi_core.model.commit import UNSHOWN_KEYS
from pyhudi_core.model.instant import DATA_ACTIONS, Action, Instant, State
from pyhudi_core.model.properties import TableConfig, rules_said_by
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.at_once import Ahead, all_of, both, each
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout, markers, metadata_removal, plan_executors
from pyhudi_core.transaction.begin import (
    TOKEN_KEY,
    Transaction,
    check_skew,
    completion_time_after,
    least_time_after,
)
from pyhudi_core.transaction.companion import CompanionCommit, notes_of
from pyhudi_core.transaction.decision import (
    Check,
    Decision,
    OutcomeUnknown,
    PreparationNeeded,
    StagedIntent,
    Terms,
    decide,
    staged_intent,
)
from pyhudi_core.transaction.freshness import load_showing, published
from pyhudi_core.transaction.group import Member
from pyhudi_core.transaction.metadata_removal import Kept
from pyhudi_core.transaction.record import Publication, PublicationKind, RecordedChanges
from pyhudi_core.transaction.rollback_plans import names_rolled_back

_log = logging.getLogger(__name__)
_SHOWN = 5
"""The maximum number of objects in a warning."""
GATE_LIMIT_S = 2.0
"""The longest time that a gate may take to answer. The time of the gate does not count as time for which the lock was held."""
_SLOW_ANSWERS = 3
"""After this many slow answers of the gate, the commit is abandoned. A single slow answer may come from a busy machine or a first call."""

Gate = Callable[[], object]
Encode = Callable[[Mapping[str, str]], bytes]


def ask_gate(gate: Gate | None, context: TableContext, what: str) -> None:
    """Ask the gate of a service. The service calls this before it makes further changes.

    Raises `CommitAbortedError` if the gate answers False, and whatever the gate raises.
    """
    if gate is not None and gate() is False:
        raise CommitAbortedError(
            f"The gate refused {what}",
            table=context.table,
            hint="Nothing more was changed; ask whoever set the gate why.",
        )


@dataclass(frozen=True, slots=True)
class Finished:
    """A published instant.

    Attributes:
        lock_wait, lock_held: for how long the commit waited for the lock, and held the lock; in seconds.
        notes: the entries that the protocol added to the commit's extra metadata.
        clean_up: removes the files that only this process needed. Call this function once.
    """

    instant: Instant
    lock_wait: float
    lock_held: float
    notes: tuple[tuple[str, str], ...] = ()
    clean_up: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file in the table's folder, which a commit publishes just before its own completed file.

    The file must not exist yet. ``path`` is relative to the table.
    """

    path: str
    body: bytes


def finish(
    transaction: Transaction,
    encode: Encode,
    check: Check,
    gate: Gate | None = None,
    companions: Sequence[CompanionCommit] = (),
    *,
    kept: Kept = frozenset(),
    may_remove: bool | None = None,
) -> Finished:
    """Publish the transaction's completed file and clean up, or raise and publish nothing. Arguments and errors are those of `complete`."""
    finished = complete(transaction, encode, check, gate, companions, kept=kept, may_remove=may_remove)
    finished.clean_up()
    return finished


def complete(
    transaction: Transaction,
    encode: Encode,
    check: Check,
    gate: Gate | None = None,
    companions: Sequence[CompanionCommit] = (),
    attachments: Sequence[Attachment] = (),
    *,
    kept: Kept = frozenset(),
    may_remove: bool | None = None,
    looked_ahead: bool = False,
    changes: RecordedChanges = (),
    by_rules: bool = False,
    member: Member | None = None,
) -> Finished:
    """Publish the transaction's completed file, or raise and publish nothing. The caller cleans up (`Finished.clean_up`).

    Args:
        encode: returns the completed file's bytes; the argument has the entries that the protocol adds to the commit's extra metadata.
        check: raises `CommitError` if the commit conflicts with the timeline found under the lock, and `PreparationNeeded`, a bounded number of
            times, if it has to read first.
        companions: staged commits of companion tables. This decision publishes them before the transaction's own commit.
        attachments: other files that this decision publishes.
        gate: asked under the lock, just before the decision. If the gate returns False or raises, the commit is abandoned. After an answer that took
            more than `GATE_LIMIT_S`, the gate is asked without the lock, and then with the lock. At the third slow answer, the commit is abandoned.
        kept: partitions of a metadata table that stay correct, in addition to the partitions that the companions' commits update.
        may_remove: whether the commit may unlist a metadata table that does not stay correct; None: the options decide.
        looked_ahead: as in `Terms`.
        changes: changes of the table's properties, which this decision makes just before the completed file.
        by_rules: whether the commit depends on the rules of the table, and is refused if the rules have changed.
        member: the part of this table in a decision over several tables.

    Raises `CommitAbortedError`, `CommitConflictError`, `LockError` (nothing published) or `CommitStateUnknownError`.
    """
    context = transaction.context
    keeper = _GateKeeper(transaction, gate)
    kept = None if kept is None else kept.union(*(companion.keeps for companion in companions))
    needed = {**metadata_removal.notes(context.config, kept), **notes_of(companions)}
    needed |= {} if member is None else member.group.note
    allowed = context.options.metadata.remove_unkept if may_remove is None else may_remove
    finishing = _Finishing(
        transaction,
        encode,
        needed,
        tuple(companions),
        kept,
        tuple(attachments),
        changes,
        by_rules,
        member,
        may_remove=allowed,
    )
    finishing.encode_body()

    def checked(timeline: Timeline) -> None:
        check(timeline)
        keeper.ask()

    terms = Terms(
        f"commit {transaction.requested_time}",
        (transaction.inflight,),
        any_lock=transaction.requested.action is Action.ROLLBACK,
        seems_alive=lambda: transaction.heartbeat.is_young(context),
        look=finishing.look,
        looked_ahead=looked_ahead,
    )
    if member is not None:
        terms = replace(terms, prepared=member.prepared, seems_alive=member.seems_alive)
    try:
        decision = decide(
            context, finishing.intent, checked, terms, finishing.stage, partial(_sweep, transaction, finishing)
        )
    except OutcomeUnknown as unknown:
        raise _state_unknown(transaction, unknown) from unknown.error
    completed = finishing.completed or _published(transaction, decision)
    if decision.published:
        context.folder.published(completed, finishing.body)
    notes = tuple(sorted((name, text) for name, text in finishing.notes.items() if name not in UNSHOWN_KEYS))
    held = decision.lock_held - keeper.seconds
    return Finished(completed, decision.lock_wait, held, notes, partial(_clean_up, transaction, finishing))


@dataclass(slots=True)
class _GateKeeper:
    """Asks the gate, and counts the time of the gate apart from the time of the protocol."""

    transaction: Transaction
    gate: Gate | None
    seconds: float = 0.0
    slow: int = 0

    def ask(self) -> None:
        """Ask the gate under the lock.

        Raise `CommitAbortedError` if the gate refuses, or is slow too often. Raise `PreparationNeeded` if the gate was slow: other writers get the
        lock before the gate is asked again.
        """
        if self.gate is None:
            return
        clock = self.transaction.context.runtime.clock
        asked = clock.monotonic()
        self._ask_once()
        took = clock.monotonic() - asked
        self.seconds += took
        if took <= GATE_LIMIT_S:
            return
        self.slow += 1
        if self.slow == _SLOW_ANSWERS:
            raise self._refusal(
                f"The gate took {took:.1f} s at each of {_SLOW_ANSWERS} times, and it is asked while other writers wait for the lock",
                f"let it answer within {GATE_LIMIT_S:g} s",
            )
        raise PreparationNeeded(self._ask_once)

    def _ask_once(self) -> None:
        if self.gate is not None and self.gate() is False:
            raise self._refusal("The gate refused the commit", "ask whoever set the gate why")

    def _refusal(self, message: str, hint: str) -> CommitAbortedError:
        time = self.transaction.requested_time
        table = self.transaction.context.table
        return CommitAbortedError(message, table=table, instant=time, hint=f"Nothing was published; {hint}.")


@dataclass(slots=True)
class _Finishing:
    """The intent of one commit. ``completed`` is the instant of this transaction, if the instant is completed already. ``swept`` says whether the
    markers and the staged bytes are removed; None if nobody has tried to remove them.
    """

    transaction: Transaction
    encode: Encode
    notes: Mapping[str, str]
    companions: tuple[CompanionCommit, ...] = ()
    kept: Kept = frozenset()
    attachments: tuple[Attachment, ...] = ()
    changes: RecordedChanges = ()
    by_rules: bool = False
    member: Member | None = None
    body: bytes = b""
    completed: Instant | None = None
    may_remove: bool = False
    swept: bool | None = None
    _properties: Ahead[dict[str, str]] | None = None
    _marks: Ahead[list[str]] | None = None

    @property
    def staged(self) -> str:
        return layout.staged(self.transaction.requested_time, self.transaction.nonce)

    def encode_body(self) -> None:
        """Make the bytes of the completed file."""
        self.body = self.encode(self.notes)

    def stage(self) -> None:
        """Write the bytes to their staging paths, from which any process can publish them."""
        context = self.transaction.context
        bodies = [(self.attached(number), attachment.body) for number, attachment in enumerate(self.attachments)]
        bodies.append((self.staged, self.body))
        own = [partial(self._put, *body) for body in bodies]
        all_of(context.root, context.runtime.executor, *(companion.write for companion in self.companions), *own)

    def _put(self, path: str, body: bytes) -> None:
        self.transaction.context.root.put(path, body)

    def look(self) -> None:
        """Read the other inputs of the intent: the table's properties, and the timelines of the companions."""
        context = self.transaction.context
        storage, executor = context.root, context.runtime.executor
        self._properties, self._marks = both(
            storage,
            executor,
            lambda: Ahead.of(partial(_properties, context)),
            lambda: Ahead.of(lambda: each(storage, executor, CompanionCommit.high_water_mark, self.companions)),
        )

    def attached(self, number: int) -> str:
        """Return the staging path of an attachment."""
        return f"{self.staged}.{number}"

    def intent(self, timeline: Timeline) -> StagedIntent | None:
        """Return the intent of this commit on this timeline. Return None if the instant of this commit is completed already.

        Raises `CommitAbortedError` if the instant was rolled back.
        """
        transaction = self.transaction
        context, folder = transaction.context, transaction.context.folder
        self.completed = _completed(transaction, timeline)
        if self.completed is not None:
            return None
        still_wanted(transaction, timeline)
        assert self._properties is not None, "look comes first"
        assert self._marks is not None, "look comes first"
        if self.by_rules:
            _refuse_other_rules(transaction, self._properties.get())
        found = metadata_removal.notes_of(self._properties.get(), self.kept)
        if found and (self.companions or not self.may_remove):
            raise CommitConflictError(
                f"The metadata table was made, or given another partition, while this write ran ({', '.join(found.values())})",
                table=context.table,
                instant=transaction.requested_time,
                hint="Nothing was published. Write again; the new partition is written, too, if this release knows its kind.",
            )
        if found.keys() - self.notes.keys():
            self.notes = {**self.notes, **found}
            self.encode_body()
            self.stage()
        publications: list[Publication] = []
        bodies: dict[str, bytes] = {}
        if found:
            # Readers that trust a metadata table must stop using the metadata table before rows exist that the metadata table does not know.
            publications.append(metadata_removal.removal())
        number = len(self.companions) + 1
        *parts, time = _completion_times(transaction, timeline, self._marks.get(), number, self.member)
        for companion, part in zip(self.companions, parts, strict=True):
            path = companion.completed_path(part)
            publications.append(Publication(path, companion.staged))
            bodies[path] = companion.body
        for number, attachment in enumerate(self.attachments):
            path = context.from_root(attachment.path)
            publications.append(Publication(path, self.attached(number)))
            bodies[path] = attachment.body
        if self.changes:  # no row that violates a new rule may come after the commit that adds the rule
            publications.append(
                Publication(properties_file.PATH, "", PublicationKind.PROPERTIES, changes=tuple(sorted(self.changes)))
            )
        completed = _completed_as(transaction, time)
        path = context.from_root(folder.file(completed))
        publications.append(Publication(path, self.staged))
        bodies[path] = self.body
        return staged_intent(
            transaction,
            publications,
            bodies,
            completion_time=time,
            inflight=context.from_root(folder.file(transaction.inflight)),
            companions=[companion.inflight_path for companion in self.companions],
            group="" if self.member is None else self.member.group.reference,
        )


def _properties(context: TableContext) -> dict[str, str]:
    """Return the table's current properties. Raises `TableError` if another writer made the table unsuitable for this release."""
    found = properties_file.read(context.storage)
    if context.protections.version_gate:
        TableConfig.from_properties(found, table=context.table).refuse_writing(context.table, context.config)
    return found


def _refuse_other_rules(transaction: Transaction, properties: Mapping[str, str]) -> None:
    """Raise `CommitConflictError` if the table's rules for rows changed after the write read the properties."""
    context = transaction.context
    if rules_said_by(properties) != rules_said_by(context.config.raw):
        raise CommitConflictError(
            "The rules of the table were changed while this write ran",
            table=context.table,
            instant=transaction.requested_time,
            hint="Nothing was published. Write again; table.rules has the rules of now.",
        )


def _completion_times(
    transaction: Transaction, timeline: Timeline, others: Sequence[str], number: int, member: Member | None
) -> list[str]:
    """Return ascending completion times, above every time on the timeline and on the companions' timelines. The last time is the completion time of
    the commit.

    Raises `CommitConflictError` if the common completion time of a group of tables is not above these times.
    """
    context = transaction.context
    highest = max(timeline.high_water_mark, transaction.requested_time, *others)
    check_skew(context, timeline, highest)
    after = partial(completion_time_after, context) if member is None else least_time_after
    times = [after(highest) if context.protections.completion_watermark else context.now()]
    while len(times) < number:
        times.append(after(times[-1]))
    if member is None:
        return times
    time = member.time(times[-1])
    if times[-1] > time:
        raise CommitConflictError(
            "Another commit of the table completed after the time that all tables of the transaction were to have",
            table=context.table,
            instant=transaction.requested_time,
            hint="Nothing was published. Write again.",
        )
    return [*times[:-1], time]


def still_wanted(transaction: Transaction, timeline: Timeline) -> None:
    """Raise `CommitAbortedError` if the transaction's instant is not inflight, or if a rollback names it."""
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


def _completed(transaction: Transaction, timeline: Timeline) -> Instant | None:
    """Return our instant if the instant is completed, otherwise None.

    The instant may be completed by this process, by a process that published our decision, or by the dead process whose rollback we continue.

    Raises `CommitAbortedError` if the completed instant belongs to a writer that took our requested time and ignored our reservation.
    """
    context = transaction.context
    requested = transaction.requested
    found = timeline.find(requested.requested_time, requested.action)
    if found is None:
        found = context.folder.archived(timeline, requested.requested_time, requested.action)
    if found is None or not found.is_completed or not context.protections.look_up_before_abort:
        return None
    distinguishable = context.protections.salt and found.action in DATA_ACTIONS
    if distinguishable and context.folder.read_commit(found).extra.get(TOKEN_KEY) != transaction.token:
        raise CommitAbortedError(
            "Another writer has completed a commit with the same requested time",
            table=context.table,
            instant=transaction.requested_time,
            hint="Nothing was published; write again. Give all writers of the table the same clock or lock provider.",
        )
    return found


def _completed_as(transaction: Transaction, completion_time: str) -> Instant:
    """Return the instant as the timeline shows it after its completion."""
    requested = transaction.requested
    return Instant(requested.requested_time, requested.action.completes_as, State.COMPLETED, completion_time)


def _published(transaction: Transaction, decision: Decision) -> Instant:
    """Return our completed instant after the decision. Raises `CommitStateUnknownError` and `CommitAbortedError`."""
    context, intent = transaction.context, decision.intent
    assert intent is not None
    if decision.published:
        return _completed_as(transaction, intent.completion_time)
    try:
        completed = _completed(transaction, load_showing(context, published(context, intent)))
    except (StorageError, CorruptionError) as error:
        raise _state_unknown(transaction, OutcomeUnknown(error, decided=True)) from error
    if completed is None or not completed.is_completed:
        raise CommitAbortedError(
            "A writer that does not know the commit record rolled the decided commit back",
            table=context.table,
            instant=transaction.requested_time,
            hint="Give Hudi's own writers the LAZY failed-writes policy and the table's lock provider, then write again.",
        )
    return completed


def _state_unknown(transaction: Transaction, unknown: OutcomeUnknown) -> CommitStateUnknownError:
    """Return the error for a commit whose outcome is unknown."""
    what = "The storage failed while the commit was decided, and does not say whether it was"
    until = (
        "Ask table.commit_status(token) when the storage answers again, until it says something else than undecided."
    )
    if unknown.decided:
        what = "The commit is decided, but could not be published"
        until = "The next writer publishes it; ask table.commit_status(token) until it says committed."
    return CommitStateUnknownError(
        f"{what}: {unknown.error.message}",
        token=transaction.token,
        table=transaction.context.table,
        path=unknown.error.path,
        instant=transaction.requested_time,
        hint=until,
    )


def tidy_up(what: str, table: str, remove: Callable[[], object]) -> bool:
    """Call ``remove``, which removes unneeded files after a decision. If the storage fails, log one warning: the decision stands, and nobody reads
    the files.

    Return whether the files are removed.
    """
    try:
        remove()
    except HudiError as error:
        failed = [*error.failed] if isinstance(error, DeletesFailedError) else [error.path or "its files"]
        more = f" and {len(failed) - _SHOWN:,} more" if len(failed) > _SHOWN else ""
        _log.warning(
            "could not sweep up after '%s' in %s, which stands; this stays until a later write or `pyhudi sweep` removes it: %s%s. %s. Check that "
            "this process may delete objects of the table.",
            what,
            table,
            ", ".join(failed[:_SHOWN]),
            more,
            error.message,
        )
        return False
    return True


def _clean_up(transaction: Transaction, finishing: _Finishing) -> None:
    """Clean up after the commit. Leftovers are harmless, so a failure of the clean-up must not make the commit look undone."""
    context = transaction.context
    if finishing.swept is None:
        _sweep(transaction, finishing)
    if not finishing.swept:
        return

    def remove() -> None:
        if transaction.requested.action in plan_executors.PLANNED:
            plan_executors.forget(context, transaction.requested_time)
        # The heartbeat is removed last: after a crash of this clean-up, the heartbeat leads the next writer to the leftovers.
        transaction.heartbeat.stop(context)
        if transaction.late is not None:
            transaction.late.remove(context, transaction.requested_time)

    tidy_up(_named(transaction), context.table, remove)


def _sweep(transaction: Transaction, finishing: _Finishing) -> None:
    """Remove the markers and the staged bytes of a commit. Call this once, when everything is published."""
    context = transaction.context
    marked = [companion for companion in finishing.companions if companion.has_markers]
    known = [(companion.context, companion.markers) for companion in marked] + [(context, transaction.markers)]
    places = [place for place, found in known if found is None]
    storage, executor = context.root, context.runtime.executor

    def remove() -> None:
        transaction.heartbeat.handle.cancel()
        listed = each(storage, executor, lambda place: markers.files_below(place, transaction.requested_time), places)
        if transaction.late is not None:
            transaction.late.note(context, transaction.requested_time, listed[-1])  # the table itself is the last place
        listed += [[place.from_root(path) for path in found or ()] for place, found in known]
        staged = [finishing.staged, *map(finishing.attached, range(len(finishing.attachments)))]
        staged += [companion.staged for companion in finishing.companions]
        storage.delete_many([*(path for paths in listed for path in paths), *staged])
        for place in (context, *(companion.context for companion in finishing.companions)):
            markers.remove_folder(place.storage, transaction.requested_time)

    finishing.swept = tidy_up(_named(transaction), context.table, remove)


def _named(transaction: Transaction) -> str:
    return f"{transaction.requested.action} {transaction.requested_time}"
