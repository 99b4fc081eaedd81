"""Undo a write that will not complete: a failed write of this process, or the write of a dead writer.

A rollback has Hudi's steps: the plan, the inflight file, the deletion of the data files, the completed file, and the deletion of the write's timeline
files. The plan is decided by a swap of the commit record, after the previous decision is published. After the swap, the write's commit is refused
(``commit.still_wanted``). Another process may take over an unfinished rollback, because every step can be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyhudi_core.errors import CommitAbortedError, InvalidOptionError, TableVersionError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.instant import Action, Instant, State, is_time, parse_time
from pyhudi_core.opened_table.opened_table import reopened
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, group, heartbeat, late_tasks, layout, markers, plan_executors, removal
from pyhudi_core.transaction.begin import TableSeen, Transaction
from pyhudi_core.transaction.commit import finish
from pyhudi_core.transaction.decision import OutcomeUnknown, StagedIntent, Terms, decide, publish_decided, staged_intent
from pyhudi_core.transaction.freshness import load_showing
from pyhudi_core.transaction.markers import WRITES
from pyhudi_core.transaction.record import Publication
from pyhudi_core.transaction.rollback_plans import metadata_record, names_rolled_back, plan_record, rolled_back_by

_DECISIONS = 5
_UNDOABLE = (*WRITES, Action.CLUSTERING)
"""The actions that can be rolled back: writes and clusterings. A pending clustering blocks writes to its file groups."""


def roll_back(context: TableContext, requested_time: str) -> Instant | None:
    """Roll a pending write back. Returns the completed rollback, or None if no such write is pending.

    The caller is the writer, or knows that the writer is gone. Raises `InvalidOptionError` if the text is not a time.
    """
    if not isinstance(requested_time, str) or not is_time(requested_time):
        raise InvalidOptionError(
            f"{str(requested_time)[:80]!r} is not the requested time of an instant",
            table=context.table,
            hint="Give one of table.timeline.pending, or its requested time (digits alone).",
        )
    transaction = begin.reserve(context, Action.ROLLBACK)
    try:
        victim = put_plan(transaction, requested_time)
        if victim is None:
            transaction.heartbeat.stop(context)
            return None
        return _execute(transaction, victim)
    except BaseException:
        transaction.heartbeat.handle.cancel()
        raise


def repair_by_policy(context: TableContext, seen: TableSeen | None = None) -> list[str]:
    """Repair the table before a new write, as the failed-writes policy requires.

    LAZY rolls back the writes of dead writers. EAGER also rolls back writes without a heartbeat.

    ``seen`` is the state that the caller has just read. If nothing is pending in ``seen``, nothing is listed again.

    Raises `CommitAbortedError` under EAGER if another writer is alive, because EAGER allows only one writer. Raises `TableVersionError` if a dead
    process had decided to change the table's version. The decision of the dead process is published now, before the new write creates any file.
    """
    policy = context.options.heartbeat.failed_writes_policy
    if policy == "NEVER":
        return []
    done, found_dead = _repair(context, seen)
    if found_dead:
        reopened(context)
    return done + _roll_back_the_unclaimed(context) if policy == "EAGER" else done


def _roll_back_the_unclaimed(context: TableContext) -> list[str]:
    """Roll back pending writes without a heartbeat, such as writes of Hudi with the EAGER policy. The newest write is rolled back first, as Hudi
    does.
    """
    done: list[str] = []
    for instant in reversed(context.folder.load().pending.instants):
        if instant.action not in _own_writes(context):
            continue
        if context.root.head(layout.heartbeat(instant.requested_time)) is not None:
            raise CommitAbortedError(
                "Another writer is alive, but the EAGER policy for failed writes says that there is only one",
                table=context.table,
                instant=instant.requested_time,
                hint="Wait for it, or set hoodie.clean.failed.writes.policy=LAZY, which several writers need.",
            )
        if roll_back(context, instant.requested_time) is not None:
            done.append(instant.requested_time)
    return done


def repair(context: TableContext, seen: TableSeen | None = None) -> list[str]:
    """Finish or remove the rollbacks, writes and reservations of dead processes. Returns the requested times that were rolled back.

    If nothing is pending, the timeline is listed once; the timeline is not listed if ``seen``, the state that the caller has just read, shows that
    nothing is pending.
    """
    return _repair(context, seen)[0]


def _repair(context: TableContext, seen: TableSeen | None) -> tuple[list[str], bool]:
    """Do the work of `repair`, and also return whether a reservation of a dead process was found.

    Such a reservation may belong to a decision without an instant.
    """
    quiet = seen if seen is not None and not len(seen.timeline.pending) else None
    timeline = context.folder.load() if quiet is None else quiet.timeline
    if len(timeline.pending):
        _resume_the_dead(context)
        timeline = context.folder.load()
    done: list[str] = []
    overtaken = False
    for instant in reversed(timeline.pending.instants):
        undoable = instant.action in _own_writes(context) or instant.action is Action.CLUSTERING
        if undoable and _is_rolled_back(context, timeline, instant):
            _forget(context, instant)
            continue
        if instant.action in _own_writes(context) and _is_dead(context, instant):
            rolled_back = roll_back(context, instant.requested_time) is not None
            done.extend([instant.requested_time] if rolled_back else [])
            overtaken = overtaken or not rolled_back
        elif instant.action is Action.CLUSTERING and _is_expired(context, instant):
            done.extend([instant.requested_time] if roll_back(context, instant.requested_time) is not None else [])
    if overtaken:
        # A dead process had decided to roll this write back, and the plan reached the timeline only now.
        _resume_the_dead(context)
    heartbeats = None if quiet is None else quiet.heartbeats
    found_dead, announced = _sweep_reservations(context, None if len(timeline.pending) else timeline, heartbeats)
    if announced:
        _resume_the_dead(context)
    _sweep_temporaries(context, everywhere=found_dead or overtaken or bool(done))
    return done, found_dead


def _own_writes(context: TableContext) -> tuple[Action, ...]:
    """Return the actions of the writes that a repair of this table rolls back.

    For a metadata table, there are none: writes of a metadata table belong to writes of the data table, and are removed together with the data
    table's writes.
    """
    return () if context.prefix else WRITES


def _resume_the_dead(context: TableContext) -> None:
    """Continue the rollbacks of dead processes."""
    timeline = context.folder.load()
    for instant in timeline.pending:
        if instant.action is Action.ROLLBACK and _is_dead(context, instant):
            resume(context, timeline, instant)


def _is_dead(context: TableContext, instant: Instant) -> bool:
    """Say whether the writer is dead. The death of a writer is recorded before the traces that show the death are removed."""
    dead = heartbeat.is_dead(context, instant, ask_storage=True)
    if dead:
        _remember_dead(context, instant.requested_time)
    return dead


def _is_expired(context: TableContext, plan: Instant) -> bool:
    """Say whether a planned clustering is older than the options allow, and no process executes the clustering.

    A pending clustering blocks writes to its file groups.
    """
    options = context.options.clustering
    planned, now = parse_time(plan.requested_time), parse_time(context.now())
    if not options.expires or planned is None or now is None:
        return False
    return now - planned > timedelta(minutes=options.expires_after_minutes) and plan_executors.is_free(context, plan)


def _is_rolled_back(context: TableContext, timeline: Timeline, instant: Instant) -> bool:
    """Say whether a completed rollback names the instant: the process of the rollback died before it removed the instant's files."""
    return instant.requested_time in names_rolled_back(context, timeline.completed, instant.requested_time)


def put_plan(transaction: Transaction, requested_time: str) -> Instant | None:
    """Decide the plan to roll a write back. After the decision, the write cannot commit.

    Returns the write to roll back, or None if the write is not pending (any more).

    The plan is decided by a swap of the commit record, as a commit is, and then published. So either the write or the rollback of the write is
    decided, never both, whichever process holds the lock. (The writer may be alive with an expired lock.)
    """
    context = transaction.context
    fence = _Fence(transaction, requested_time, [])
    # The plan is staged before the lock is requested, because without markers the complete table is listed. The executing process lists the files
    # again.
    fence.stage(fence.find_victim(context.folder.load()))
    pending = tuple(Instant(requested_time, action, State.INFLIGHT) for action in _UNDOABLE)
    alive = lambda: transaction.heartbeat.is_young(context)  # noqa: E731
    terms = Terms(f"roll back {requested_time}", pending, any_lock=True, seems_alive=alive)
    try:
        for _ in range(_DECISIONS):
            decision = decide(context, fence.intent, lambda _timeline: None, terms)
            if decision.intent is not None:
                fence.is_decided = context.storage.head(context.folder.file(transaction.requested)) is not None
            if decision.intent is None or fence.is_decided:
                context.root.delete(fence.staged)
                return fence.announced()
    except OutcomeUnknown as unknown:
        raise unknown.error from unknown
    raise CommitAbortedError(
        f"Others removed the plan of the rollback {_DECISIONS} times",
        table=context.table,
        instant=requested_time,
        hint="Another program rolls the same write back; look at the timeline.",
    )


@dataclass(slots=True)
class _Fence:
    """The decision of one rollback plan. ``is_decided``: the plan is on the timeline, so the victim (the write to roll back) cannot commit."""

    transaction: Transaction
    victim_time: str
    files: list[str]
    victim: Instant | None = None
    plan: bytes = b""
    staged: str = ""
    is_decided: bool = False

    def find_victim(self, timeline: Timeline) -> Instant | None:
        """Return the pending write or clustering that is to be rolled back; None if the write or clustering has ended."""
        writes = (i for i in timeline.pending if i.requested_time == self.victim_time and i.action in _UNDOABLE)
        return next(writes, None)

    def stage(self, victim: Instant | None) -> None:
        """Encode the plan and stage it, so that any process can publish it."""
        context = self.transaction.context
        if not self.staged:
            # The plan is not staged under the transaction's own name, because the rollback's completed file is staged under that name.
            self.staged = layout.staged(self.transaction.requested_time, context.runtime.ids.uuid().replace("-", ""))
            self.files = markers.files_of(context, self.victim_time)
        self.victim = victim
        if victim is not None:
            plan = plan_record(context, victim, self.files)
            self.plan = encode_record("HoodieRollbackPlan", plan, sync_marker=self.transaction.sync_marker)
            context.root.put(self.staged, self.plan)

    def intent(self, timeline: Timeline) -> StagedIntent | None:
        """Return the decision to put the plan on the timeline; None if there is no write to roll back, or if the plan is on the timeline already."""
        transaction = self.transaction
        context = transaction.context
        victim = self.find_victim(timeline)
        # An earlier round may have decided the plan: the outcome of its swap was unknown, and another process published the plan.
        ours = timeline.find(transaction.requested_time, Action.ROLLBACK)
        self.is_decided = ours is not None and ours.is_pending
        if victim is None and self.is_decided:
            # A Hudi writer has removed the heartbeat. A plan without a heartbeat would never count as dead.
            _take_back(context, transaction.requested_time)
            self.is_decided = False
        if victim is None or self.is_decided:
            return None
        if self.victim_time in names_rolled_back(context, timeline, self.victim_time):
            return None
        if victim != self.victim:
            self.stage(victim)
        path = context.from_root(context.folder.file(transaction.requested))
        pending = context.from_root(context.folder.file(victim))
        return staged_intent(transaction, [Publication(path, self.staged)], {path: self.plan}, inflight=pending)

    def announced(self) -> Instant | None:
        """Write the remaining files of the rollback, and return the victim. Return None if the plan is not on the timeline."""
        if not self.is_decided:
            return None
        begin.announce(self.transaction, None, b"")
        return self.victim


def undo_write(context: TableContext, requested: Instant) -> None:
    """Roll back a write of this process that did not commit, even if another program has changed the table's version since the write began."""
    time = requested.requested_time
    try:
        if roll_back(context, time) is None:
            sweep_late_files(context, requested)
    except TableVersionError:
        now = reopened(context, any_version=True)
        timeline = now.folder.load()
        for begun in timeline.pending:
            if begun.action is Action.ROLLBACK and rolled_back_by(now, begun.requested_time) == time:
                resume(now, timeline, begun)
                now.root.delete_many([f.path for f in now.root.list(f"{layout.STAGED}/{begun.requested_time}-")])
        if roll_back(now, time) is None:
            sweep_late_files(now, requested)


def sweep_late_files(context: TableContext, requested: Instant) -> None:
    """Remove files that were written after another process rolled the write back. The writer of the files calls this."""
    timeline = context.folder.load()
    found = timeline.find(requested.requested_time, requested.action)
    if found is None:
        found = context.folder.archived(timeline, requested.requested_time, requested.action)
    if found is not None:
        return  # the write completed after all, or the rollback has not ended: the process of the rollback sweeps at the end
    removal.delete_given_up(context.storage, markers.files_of(context, requested.requested_time))
    markers.remove(context.storage, requested.requested_time)
    there = context if context.companions else reopened(context)
    markers.remove_late_at_companions(there, requested.requested_time)


def _execute(transaction: Transaction, victim: Instant) -> Instant:
    context = transaction.context
    # A metadata table may have been made after this process began. A write that never completed does not change the content of the metadata table.
    there = context if context.companions else reopened(context)
    markers.remove_at_companions(there, victim.requested_time, completed=True)
    paths = markers.files_of(context, victim.requested_time)
    removal.delete_given_up(context.storage, paths)
    metadata = metadata_record(context, victim, paths)

    def encode(notes: object) -> bytes:
        return encode_record("HoodieRollbackMetadata", metadata, sync_marker=transaction.sync_marker)

    finished = finish(transaction, encode, check=lambda _timeline: None, kept=None)
    _forget(context, victim)
    return finished.instant


def _take_back(context: TableContext, requested_time: str) -> None:
    """Remove an unfinished rollback that has nothing left to roll back."""
    for state in (State.INFLIGHT, State.REQUESTED):
        context.storage.delete(context.folder.file(Instant(requested_time, Action.ROLLBACK, state)))
    context.root.delete(layout.heartbeat(requested_time))


def resume(context: TableContext, timeline: Timeline, rollback: Instant) -> None:
    """Continue a rollback whose process died."""
    victim_time = rolled_back_by(context, rollback.requested_time)
    victim = timeline.find(victim_time) if victim_time else None
    if victim_time is None or victim is None or not victim.is_pending:
        _take_back(context, rollback.requested_time)
        return
    nonce = context.runtime.ids.uuid().replace("-", "")
    body = heartbeat.body(context, nonce)
    context.root.put(layout.heartbeat(rollback.requested_time), body)
    beat = heartbeat.start(context, rollback.requested_time, body)
    requested = Instant(rollback.requested_time, Action.ROLLBACK, State.REQUESTED)
    transaction = Transaction(context, requested, nonce, timeline, beat)
    try:
        if rollback.state is State.REQUESTED:
            context.storage.put(context.folder.file(transaction.inflight), b"")
        _execute(transaction, victim)
    except BaseException:
        beat.handle.cancel()  # otherwise the heartbeat would run as long as this process does; the file expires
        raise


def _forget(context: TableContext, victim: Instant) -> None:
    """Remove the timeline files of a rolled-back write, and the files that only the process of the write needed.

    The completed rollback still names the write.
    """
    time = victim.requested_time
    unwanted = markers.announced(context.storage, time)
    for state in (State.INFLIGHT, State.REQUESTED):
        context.storage.delete(context.folder.file(Instant(time, victim.action, state)))
    _sweep_own(context, time)
    late_tasks.remove_again(context, time, unwanted)


def _sweep_own(context: TableContext, requested_time: str) -> None:
    """Remove the files that only the process of an instant needed. The heartbeat is removed last, because the heartbeat leads to the other files."""
    for place in (context, *context.companions):
        markers.remove(place.storage, requested_time)
    plan_executors.forget(context, requested_time)
    context.root.delete(layout.heartbeat(requested_time))


def sweep_late_bytes(context: TableContext, archived_until: str) -> None:
    """Remove staged bytes that were stored after the clean-up of their instant, and decisions over several tables that nobody needs any more.

    Archival calls this.

    An archived instant, or an instant older than archived instants, can no longer be decided (``concurrent``), so its staged bytes are not needed.
    """
    group.sweep(context)
    limit = context.options.heartbeat.expires_after_ms
    now = context.runtime.clock.now_ms()
    for info in context.root.list(f"{layout.STAGED}/"):
        time = info.path.rpartition("/")[2].partition("-")[0]
        if is_time(time) and time <= archived_until and now - info.modified_ms > limit:
            _sweep_own(context, time)


def _sweep_reservations(
    context: TableContext, seen: Timeline | None, heartbeats: Sequence[ObjectInfo] | None
) -> tuple[bool, bool]:
    """Remove leftovers of dead processes that never announced their instant, or whose commit completed.

    ``seen`` and ``heartbeats`` may be older: each instant that they do not show as pending is checked again.

    Returns whether there were leftovers, and whether one of these processes had announced its instant after all.
    """
    found_dead = announced = False
    known = {instant.requested_time: instant for instant in (context.folder.load() if seen is None else seen)}
    for info in context.root.list(f"{layout.HEARTBEATS}/") if heartbeats is None else heartbeats:
        time = info.path.rpartition("/")[2]
        instant = known.get(time)
        if instant is not None and instant.is_pending:
            _sweep_planning(context, instant)
            continue
        if any(time == other.requested_time for place in context.companions for other in place.folder.load().pending):
            continue  # the instant is pending in a companion table; the repair of the data table handles it
        # `_is_announced` looks after the death of the process. The process may have announced, and even decided, its instant since the timeline was
        # loaded.
        if not _is_dead(context, Instant(time, Action.COMMIT, State.REQUESTED)):
            continue
        if _is_announced(context, time):
            announced = True
            continue
        body = heartbeat.read(context, time)
        _sweep_own(context, time)
        found_dead = True
        if _is_announced(context, time):
            # The writer was alive but slow. Without its heartbeat file, other writers could never detect its death.
            context.root.put(info.path, body)
    return found_dead, announced


def _sweep_planning(context: TableContext, pending: Instant) -> None:
    """Remove the leftovers of the process that planned a table service, if the process died before any process began to execute the plan.

    The plan stays.
    """
    if pending.action in plan_executors.PLANNED and pending.state is State.REQUESTED and _is_dead(context, pending):
        # The newest executor is read after the death of the process, because an executor may have registered since the timeline was loaded. The next
        # executor removes the leftovers of that executor.
        publish_decided(context, pending.requested_time)
        if plan_executors.newest_executor(context, pending.requested_time) is None:
            _sweep_own(context, pending.requested_time)


def _is_announced(context: TableContext, time: str) -> bool:
    """Say whether an instant with this requested time is pending. A plan that its process decided and did not publish is published first."""
    publish_decided(context, time)
    expected = [Instant(time, action, State.INFLIGHT) for action in WRITES]
    expected += [
        Instant(time, action, State.REQUESTED) for action in (Action.ROLLBACK, *sorted(plan_executors.PLANNED))
    ]
    return any(instant.requested_time == time for instant in load_showing(context, expected).pending)


def _remember_dead(context: TableContext, requested_time: str) -> None:
    """Record that the process of an instant is dead, and may have left hidden files that are still too young to be swept."""
    storage = context.root
    if storage.capabilities.temporaries:
        storage.put(f"{layout.UNSWEPT}/{requested_time}", b"")


def _sweep_temporaries(context: TableContext, everywhere: bool) -> list[str]:
    """Remove hidden files that killed processes left on a disk, if the files are older than a heartbeat may be.

    A search of all folders lists the complete table. So the search runs only when a trace shows that a dead process has written. Without such a
    trace, only ``.hoodie`` and the folder of the heartbeats are searched. Files of a process that has just died look like files of running processes.
    So `_remember_dead` records the death in a small file. The small file stays until the death is longer ago than any write may take.
    """
    storage = context.root
    if not storage.capabilities.temporaries:
        return []
    limit = context.options.heartbeat.expires_after_ms
    now = context.runtime.clock.now_ms()
    due = [info.path for info in storage.list(f"{layout.UNSWEPT}/") if now - info.modified_ms > limit]
    if not (everywhere or due):
        hoodie = storage.sweep_temporaries(".hoodie", limit, now, deep=False)
        return hoodie + storage.sweep_temporaries(layout.HEARTBEATS, limit, now, deep=False)
    swept = storage.sweep_temporaries("", limit, now)
    storage.delete_many(due)
    return swept
