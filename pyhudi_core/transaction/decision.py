"""One way to decide: commits, plans, rollbacks, savepoints, index builds and archival all change the timeline through `decide`.

Before the request for the lock, the commit record is read. If the record's intent only creates files, the missing files are published now, because
the process that decided the intent may have died before it published the files. An intent that replaces or changes files waits for the lock. These
steps are made under the lock, in this order and nowhere else:

1. read whether the record has changed; publish the record's intent if the record has changed, or if the intent has waited for the lock;
2. list the timeline once; the listing must show all files that are known to exist;
3. build the intent from the timeline: which files to create, to replace or to change, in which order;
4. check the commits that completed since the caller's start, and check that the lock is still held;
5. swap the intent into the commit record: this is the decision. Before the decision the caller may give up; after the decision the commit must be
   published;
6. publish, in the order of the publications.

Safety rests on the compare-and-swap of step 5, not on the lock. If the lock of a process expired, either the process loses the swap, or the next
writer publishes the decision of the process. After an unclear answer at step 5, the process reads the record, and then the timeline, to learn the
outcome.

Any process may finish step 6 for another process, any number of times. A file is created only once. A file is replaced only while two conditions
hold: the decision is the latest decision, and the later files of the intent do not exist. A replacement is conditional on unchanged content, so a
replacement never undoes a later change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyhudi_core.errors import (
    CommitAbortedError,
    CorruptionError,
    HudiError,
    ObjectNotFoundError,
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.lock.base import look_ahead as look_at_lock
from pyhudi_core.lock.base import was_free
from pyhudi_core.model.instant import Instant
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.at_once import Ahead, all_of, both, each
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import group, layout, locking, lost_completions, metadata_removal
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.freshness import load_showing, published
from pyhudi_core.transaction.locking import holding_lock
from pyhudi_core.transaction.publication import create_once, creating, replace_once
from pyhudi_core.transaction.record import Intent, Publication, PublicationKind, Record, record_store, swap_settled
from pyhudi_core.transaction.rollback_plans import names_rolled_back

_log = logging.getLogger(__name__)
_DECISIONS = 5
_PUBLISHED = "published record"
"""The key under which a table handle remembers the latest record that it has read, if everything that the record names is published."""
_RECENT_S = 1.0
"""For this many seconds after a listing of the timeline, a living writer publishes its own decision without another look at the timeline."""

Check = Callable[[Timeline], None]


class PreparationNeeded(Exception):  # noqa: N818  (not a failure: the check has to read something that takes longer than the lock should be held)
    """Raised by a check under the lock: the caller must release the lock, call ``prepare``, and decide again. ``prepare`` may raise `CommitError`."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        super().__init__()
        self.prepare = prepare


class OutcomeUnknown(Exception):  # noqa: N818  (each caller turns it into an error of its own)
    """The storage failed, and it is unknown whether the decision was made. With ``decided``, the decision was made, but is perhaps not published."""

    def __init__(self, error: StorageError | CorruptionError, decided: bool) -> None:
        super().__init__()
        self.error = error
        self.decided = decided


@dataclass(frozen=True, slots=True)
class StagedIntent:
    """An intent that is not decided yet.

    Attributes:
        bodies: the bytes of new files, by path. The bytes are also staged, for other processes.
        groups: the sizes of the groups of consecutive publications. The deciding process may make the publications of one group concurrently. If this
            is empty, the process makes one publication after the other.
        properties: the table's properties as they were read under the lock.
    """

    intent: Intent
    bodies: Mapping[str, bytes]
    groups: tuple[int, ...] = ()
    properties: properties_file.PropertiesSeen | None = None

    def in_groups(self) -> Iterator[tuple[Publication, ...]]:
        """Yield groups of publications that may be made concurrently."""
        rest = self.intent.publications
        for size in self.groups or (1,) * len(rest):
            yield rest[:size]
            rest = rest[size:]


def staged_intent(
    transaction: Transaction,
    publications: Sequence[Publication],
    bodies: Mapping[str, bytes],
    *,
    completion_time: str = "",
    inflight: str = "",
    companions: Sequence[str] = (),
    groups: tuple[int, ...] = (),
    properties: properties_file.PropertiesSeen | None = None,
    group: str = "",
) -> StagedIntent:
    """Return the intent of a transaction; ``bodies``, ``groups`` and ``properties`` as in `StagedIntent`.

    The intent counts only while the file ``inflight`` exists. If ``inflight`` is empty, this file is the transaction's reservation.

    A process that registers as an executor has no transaction yet, so ``plan_executors.py`` makes the intent of a registration itself.
    """
    requested = transaction.requested_time
    intent = Intent(
        requested,
        completion_time,
        str(transaction.requested.action),
        inflight or layout.heartbeat(requested),
        transaction.token,
        tuple(publications),
        tuple(companions),
        group,
    )
    return StagedIntent(intent, bodies, groups, properties)


BuildIntent = Callable[[Timeline], StagedIntent | None]
"""Builds the intent from the timeline found under the lock. Returns None if there is nothing (more) to decide."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions of a decision.

    Attributes:
        purpose: the reason why the lock is acquired, for messages.
        expected: instants that the listing of the timeline must show if their files exist.
        any_lock: whether the decision may be made under any lock, even an expired one. This is for rollbacks, which the record alone keeps safe.
        seems_alive: says, without a storage call, whether it is certain that all other processes consider the deciding process alive now.
        looked_ahead: whether the caller has called `look_ahead` just now.
        prepared: called after the swap, before anything is published, if the decision is part of a decision over several tables.
        look: reads the inputs of the intent other than the timeline. Called before each intent is built, concurrently with the listing of the
            timeline.
    """

    purpose: str
    expected: tuple[Instant, ...] = ()
    any_lock: bool = False
    seems_alive: Callable[[], bool] = lambda: False
    look: Callable[[], object] = lambda: None
    looked_ahead: bool = False
    prepared: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of `decide`.

    ``intent`` is None if nothing was decided. ``published`` says whether this process published the complete intent. ``lock_wait`` and ``lock_held``
    are in seconds.
    """

    intent: Intent | None
    published: bool
    lock_wait: float = 0.0
    lock_held: float = 0.0


def decide(
    context: TableContext,
    build_intent: BuildIntent,
    check: Check,
    terms: Terms,
    stage: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
) -> Decision:
    """Decide and publish the intent that ``build_intent`` returns, if ``check`` raises nothing; both run under the lock.

    ``stage`` writes the staged files before or during the wait for the lock. ``after`` runs when everything is published, concurrently with the
    release of the lock; ``after`` raises no `HudiError`. ``check`` may raise `PreparationNeeded`, a bounded number of times, if the check has to read
    something without the lock first.

    Raises what ``build_intent`` and ``check`` raise, `LockError` or `CommitAbortedError`, if nothing was decided. Raises `OutcomeUnknown` if the
    storage failed at the decision or after the decision.
    """
    clock = context.runtime.clock
    deciding = _Deciding(context, build_intent, check, terms, context.protocol.remembered.get(_PUBLISHED))
    storage, executor = context.root, context.runtime.executor
    waited = held = 0.0
    decision: Decision | None = None
    ahead: tuple[Callable[[], object], ...] = (stage,)
    while decision is None:
        needed: PreparationNeeded | None = None
        if not (ahead and terms.looked_ahead):
            all_of(storage, executor, *ahead, partial(look_at_lock, context.lock), deciding.look_ahead)
            ahead = ()
        beside = (*ahead, deciding.look_beside) if was_free(context.lock) and context.protections.lock else ahead
        ahead = ()
        asked = clock.monotonic()
        with holding_lock(context, terms.purpose, beside) as holding:
            acquired = clock.monotonic()
            deciding.as_seen = holding.taken_as_seen
            try:
                decision = deciding.run(holding.lease_left_s)
            except PreparationNeeded as found:
                needed = found
            if decision is not None and decision.published:
                holding.after.append(after)
        waited += acquired - asked
        held += holding.given_back - acquired
        if needed is not None:
            needed.prepare()
    if decision.intent is not None:
        record_store(context.root).sweep()
    return Decision(decision.intent, decision.published, waited, held)


def look_ahead(context: TableContext, seen: Timeline) -> None:
    """Read the commit record and the lock before a decision, concurrently with other work (`Terms.looked_ahead`). For storages with If-Match.

    ``seen``: a timeline that was listed before.
    """
    deciding = _Deciding(
        context, lambda _: None, lambda _: None, Terms(""), context.protocol.remembered.get(_PUBLISHED)
    )
    look = partial(deciding.look_ahead, seen)
    all_of(context.root, context.runtime.executor, partial(look_at_lock, context.lock), look)
    deciding.remember(deciding.known)


@dataclass(frozen=True, slots=True)
class _Found:
    """The findings of one round: the record, the timeline, other inputs of the intent, and the time when the round began."""

    record: Record | None
    timeline: Ahead[Timeline]
    begun: float


@dataclass(slots=True)
class _Deciding:
    """One call of `decide`.

    Attributes:
        known: the latest record that was read; everything that this record names is published.
        mine: the record that this call has written.
        beside: the inputs that were read during the request for the lock.
        as_seen: whether nobody held the lock from a look at the lock, before ``beside`` was read, until our acquisition of the lock.
    """

    context: TableContext
    build_intent: BuildIntent
    check: Check
    terms: Terms
    known: Record | None = None
    mine: Record | None = None
    beside: Ahead[_Found] | None = None
    as_seen: bool = False

    def look_ahead(self, seen: Timeline | None = None) -> None:
        """Read the record, and publish the record's intent, without the lock. Then one call under the lock shows that the record has not changed.

        The last file of the intent is not looked for if a timeline has shown it (``seen``).
        """
        protections = self.context.protections
        if not (protections.commit_record and protections.roll_forward):
            return
        record = record_store(self.context.root).read(self.known)
        if record is not None and record is not self.known and record.intent.only_creates:
            if seen is None or not _shows_last(self.context, seen, record.intent):
                publish_intent(self.context, record.intent, record.last_file)
            self.known = record

    def run(self, lease_left_s: Callable[[], float]) -> Decision:
        """Run steps 1 to 6. Repeat the steps if another writer, without a valid lock, decided between our look and our swap."""
        context = self.context
        in_doubt = False
        for attempt in range(_DECISIONS + 1):
            try:
                record, timeline, looked = self._latest()
                draft = self.build_intent(timeline)
            except (StorageError, CorruptionError) as error:
                if in_doubt:
                    raise OutcomeUnknown(error, decided=False) from error
                raise
            if draft is None:
                return Decision(None, False)
            if attempt == _DECISIONS:
                break
            self.check(timeline)
            if not self.terms.any_lock:
                locking.refuse_lost(context, lease_left_s)
            in_doubt = True
            made = self._swap(record, draft)
            if made is not None:
                self.terms.prepared()
                published_all = self._publish(draft, looked)
                self.remember(made if published_all else None)
                return Decision(draft.intent, published_all)
        raise CommitAbortedError(
            f"Other writers decided their commits {_DECISIONS} times while this one held the lock",
            table=context.table,
            hint="Give all writers of the table the same lock provider; nothing was published.",
        )

    def look_beside(self) -> None:
        """Read the inputs of the decision during the request for a free lock. They are used only if nobody has held the lock since."""
        self.beside = Ahead.of(self._found)

    def _found(self) -> _Found:
        """Read all inputs of the decision in one round."""
        root, executor = self.context.root, self.context.runtime.executor
        begun = self.context.runtime.clock.monotonic()
        return _Found(*both(root, executor, self._read, lambda: Ahead.of(self._look)), begun)

    def _found_under_lock(self) -> _Found:
        """Return the inputs that were read during the request for the lock, if nobody has held the lock since. Otherwise read the inputs again."""
        beside, self.beside = self.beside, None
        if beside is not None and self.as_seen and beside.error is None:
            found = beside.get()
            is_recent = self.context.runtime.clock.monotonic() - found.begun < _RECENT_S
            if found.timeline.error is None and is_recent:
                return found
        return self._found()

    def _latest(self) -> tuple[Record | None, Timeline, float]:
        """Return the record, whose intent is published, the current timeline, and the time when the timeline was read."""
        context, terms = self.context, self.terms
        looked: Timeline | None = None
        if context.root.capabilities.parallel_calls > 1:
            # The listing counts only if the record is the known record. Otherwise files of the record may have been published after the listing.
            found = self._found_under_lock()
            record, begun = found.record, found.begun
            looked = found.timeline.get() if record is self.known else None
        else:
            record = self._read()
        if not terms.any_lock:
            locking.refuse_foreign(context, record)
        if record is not None and record is not self.known and context.protections.roll_forward:
            publish_intent(context, record.intent, record.last_file)
        self.known = record
        if looked is None:
            begun = context.runtime.clock.monotonic()
            looked = self._look()
        return record, looked, begun

    def _read(self) -> Record | None:
        return record_store(self.context.root).read(self.known) if self.context.protections.commit_record else None

    def _look(self) -> Timeline:
        """List the timeline, and read the other inputs of the intent. The timeline must show the files of the records ``known`` and ``mine``."""
        context, terms = self.context, self.terms
        intents = [record.intent for record in (self.known, self.mine) if record is not None]
        decided = [instant for intent in intents for instant in published(context, intent)]
        expected = [*terms.expected, *decided]
        executor = context.runtime.executor
        return both(context.root, executor, lambda: load_showing(context, expected), terms.look)[0]

    def remember(self, record: Record | None) -> None:
        """Remember a record for the next decision of this table handle, if everything that the record names is published.

        Only a storage with entity tags shows later whether the record has changed.
        """
        capable = self.context.root.capabilities.put_if_match
        if record is not None and capable:
            self.context.protocol.remembered[_PUBLISHED] = record

    def _swap(self, record: Record | None, draft: StagedIntent) -> Record | None:
        """Make step 5: swap the intent into the commit record. The record keeps the completed file of a commit."""
        context, intent = self.context, draft.intent
        kept = draft.bodies[intent.publications[-1].path] if lost_completions.names_commit(intent) else b""
        lock = locking.recorded_lock(context, record, any_lock=self.terms.any_lock)
        self.mine = Record(intent, lock, last_file=kept)
        if not context.protections.commit_record:
            return self.mine
        try:
            return swap_settled(record_store(context.root), record, self.mine)
        except StorageStateUnknownError as error:
            raise OutcomeUnknown(error, decided=False) from error

    def _publish(self, draft: StagedIntent, looked: float) -> bool:
        """Make step 6: publish the intent.

        A living writer that has just listed the timeline need not list the timeline again: no process has rolled back the writer's instant.

        The writer has the bytes of the new files, so the writer creates the files without checking for existing files. Before each group of
        publications, the writer reads the record once. The writer may pause for a long time at any call. So the writer asks its clock before each
        file. After too long a pause, the writer publishes as any other process does.
        """
        context = self.context
        try:
            if not (context.protections.commit_record and self._is_recent(looked)):
                return publish_intent(context, draft.intent)
            groups = enumerate(draft.in_groups())
            return all(self._make_group(draft, looked, group, number == 0) for number, group in groups)
        except (StorageError, CorruptionError) as error:
            raise OutcomeUnknown(error, decided=True) from error

    def _make_group(self, draft: StagedIntent, looked: float, group: Sequence[Publication], is_first: bool) -> bool:
        """Make a group of publications of our own decision. Returns False if a path holds another process's file, which stays.

        The first group needs no look at the record: the swap has just shown that the decision is the latest decision.
        """
        context = self.context
        has_new = any(one.kind is PublicationKind.REPLACE and one.path in draft.bodies for one in group)
        wanted = has_new and (is_first or _is_wanted(context, draft.intent))

        def make(publication: Publication) -> bool:
            body = draft.bodies.get(publication.path)
            if publication.kind is PublicationKind.CREATE:
                assert body is not None, publication.path
                return creating(context.protections.completed_once)(context.root, publication.path, body)
            is_new = publication.kind is PublicationKind.REPLACE and not publication.replaces
            is_recent = self._is_recent(looked)
            known = wanted and is_new and body is not None and is_recent
            if not (known and create_once(context.root, publication.path, body or b"")):
                seen = draft.properties if is_recent else None
                _change(context, draft.intent, publication, partial(_is_wanted, context, draft.intent), seen)
            return True

        return all(each(context.root, context.runtime.executor, make, group))

    def _is_recent(self, looked: float) -> bool:
        """Say whether our last look at the timeline is so recent that no other process can consider us dead."""
        return self.context.runtime.clock.monotonic() - looked < _RECENT_S and self.terms.seems_alive()


def _shows_last(context: TableContext, timeline: Timeline, intent: Intent) -> bool:
    """Say whether a timeline shows the last file of an intent. Then all files of the intent exist."""
    last = intent.publications[-1].path
    return any(context.from_root(context.folder.file(instant)) == last for instant in timeline.completed)


def finish_decided(context: TableContext, record: Record) -> None:
    """Publish a decided intent for a process that does not hold the lock. If the intent replaces a file, this function acquires the lock."""
    if record.intent.only_creates:
        publish_intent(context, record.intent, record.last_file)
        return
    with holding_lock(context, f"publish the decision of {record.intent.requested_time}"):
        latest = record_store(context.root).read(record)
        if latest is not None:
            publish_intent(context, latest.intent, latest.last_file)


def publish_decided(context: TableContext, requested_time: str) -> None:
    """Publish the decision of another process for this requested time, if the commit record has it."""
    record = record_store(context.root).read()
    if record is not None and record.intent.requested_time == requested_time:
        finish_decided(context, record)


def publish_intent(context: TableContext, intent: Intent, last_file: bytes = b"") -> bool:
    """Make all missing publications of a decision. Any process may call this, any number of times.

    The caller must hold the table's lock if the intent replaces a file. ``last_file``: the bytes of the last file, for a completed file that is lost
    and no longer staged. Returns whether this call created all files.

    Raises `CorruptTimelineError` if the completed file of a published commit is lost, and ``last_file`` does not have its bytes.
    """
    if _is_there(context, intent.publications[-1]):
        return False  # then all earlier files of the intent exist, too
    created = _publish(context, intent, last_file)
    if intent.group and _is_there(context, intent.publications[-1]):
        _publish_others(context, intent)
    return created


def _publish_others(context: TableContext, intent: Intent) -> None:
    """Publish the other parts of a group after one part is published.

    A program that does not know the commit record may consider the unpublished parts as the leftovers of a dead writer.

    Parts that need the lock of another table, and parts that fail, are left to the next writer of the other table.
    """
    try:
        for place in group.others(context, intent):
            record = record_store(place.root).read()
            is_prepared = record is not None and record.intent.group == intent.group
            if record is not None and is_prepared and record.intent.only_creates:
                publish_intent(place, record.intent, record.last_file)
    except HudiError as error:
        _log.warning("could not publish the rest of a transaction of %s: %s", context.table, error)


def _publish(context: TableContext, intent: Intent, last_file: bytes) -> bool:
    """Publish an intent as `publish_intent` does, but only the part of this table."""
    create = creating(context.protections.completed_once)
    created = True
    for publication in intent.publications:
        if _is_there(context, publication):
            created = False
            continue
        if any(context.root.head(path) is None for path in (intent.inflight, *intent.companions)):
            return False  # the intent is void: its instant was rolled back, restored or archived
        place = _place_of(context, intent)
        if intent.requested_time in names_rolled_back(place, place.folder.load(), intent.requested_time):
            return False
        if intent.group and not group.is_committed(context, intent):
            return False  # the intent is void: the group was aborted in all tables
        if publication.kind is not PublicationKind.CREATE:
            _change(context, intent, publication, partial(_is_wanted, context, intent))
            continue
        try:
            data = context.root.get(publication.staged)
        except ObjectNotFoundError:
            if publication is not intent.publications[-1] or not _is_lost(context, intent):
                created = False  # the writer published the file and removed the staged bytes between our two calls
                continue
            if not last_file:
                raise lost_completions.error_for(context, intent.requested_time, publication.path) from None
            _log.warning(
                "%s of %s is lost, and is published again from the commit record", publication.path, context.table
            )
            data = last_file
        created = create(context.root, publication.path, data) and created
    return created


def _is_lost(context: TableContext, intent: Intent) -> bool:
    """Say whether the completed file of a commit without staged bytes is lost.

    A completed file is published before its staged bytes are removed. So without staged bytes, a missing completed file is a lost file.
    """
    if not lost_completions.names_commit(intent):
        return False
    return not _is_there(context, intent.publications[-1]) and context.root.head(intent.inflight) is not None


def _place_of(context: TableContext, intent: Intent) -> TableContext:
    """Return the table whose timeline the decision changes, among this table and its companions."""
    prefix = intent.inflight.rpartition("/.hoodie/")[0]
    for place in (context, *context.companions):
        if place.has(intent.inflight) or place.prefix == prefix == "":
            return place
    return context.below(prefix)


def _is_there(context: TableContext, publication: Publication) -> bool:
    """Say whether the file exists that the publication creates.

    Return False for a publication that replaces a file: only the content of the file shows whether the replacement was made.
    """
    return publication.kind is PublicationKind.CREATE and context.root.head(publication.path) is not None


def _is_wanted(context: TableContext, intent: Intent) -> bool:
    """Say whether a decision's replacements are still to be made: the decision is the latest decision, and is not completely published.

    Call this after the read of the content that is to be replaced. Then, after a later change by another process, the condition of our write fails,
    and the change is not undone.
    """
    if _is_there(context, intent.publications[-1]):
        return False
    if not context.protections.commit_record:
        return True
    record = record_store(context.root).read()
    return record is not None and record.intent == intent


def _change(
    context: TableContext,
    intent: Intent,
    publication: Publication,
    wanted: Callable[[], bool],
    seen: properties_file.PropertiesSeen | None = None,
) -> None:
    """Replace a file, or change the properties. ``seen``: the properties before the decision, if this process has just made the decision."""
    storage = context.root
    if publication.kind is PublicationKind.PROPERTIES:
        unlists = metadata_removal.unlists(publication.changes)
        what = metadata_removal.COMMENT if unlists else properties_file.COMMENT
        comment = f"{what} {intent.completion_time} {intent.token}"
        properties_file.apply(storage, dict(publication.changes), comment, wanted, context.runtime.executor, seen)
        if unlists and wanted():
            metadata_removal.remove_folder(storage)
        return
    try:
        body = publication.cut(storage.get(publication.staged))
    except ObjectNotFoundError:
        return  # the writer made the replacement and removed the staged bytes
    replace_once(storage, publication.path, body, publication.replaces, wanted)
