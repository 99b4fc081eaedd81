"""Undo a write that will not complete: a failed one of ours, or that of a writer known to be dead.

Hudi's sequence (plan, inflight, delete the files, completed, then the write's own timeline files), fenced: the plan is put on the timeline under
the lock after the commit record was rolled forward, and from then on the write's own commit is refused (``commit.still_wanted``).
Another process may take over an unfinished rollback; every step can be done twice.
"""

from __future__ import annotations

from typing import Any

from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.formats.avro import encode_record
from pyhudi_core.model.file_names import parse_data_file, split
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin, heartbeat, layout, markers, removal
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.commit import finish, publish_intent
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.holding import holding_lock
from pyhudi_core.transaction.record import record_store
from pyhudi_core.transaction.rollback_plans import names_rolled_back, rolled_back_by

_OWN_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)


def roll_back(context: TableContext, requested_time: str) -> Instant | None:
    """Roll a pending write back; returns the completed rollback, or None if there is nothing pending to roll back.

    The caller knows that the writer is gone, or is the writer.
    """
    transaction = begin.reserve(context, Action.ROLLBACK)
    try:
        victim = _put_plan(transaction, requested_time)
        if victim is None:
            transaction.heartbeat.stop(context)
            return None
        return _execute(transaction, victim)
    except BaseException:
        transaction.heartbeat.handle.cancel()
        raise


def repair_by_policy(context: TableContext) -> list[str]:
    """What the failed-writes policy asks for before a new write: LAZY repairs after the dead, EAGER also rolls back what nobody says is alive.

    Raises `CommitAbortedError` under EAGER if another writer is alive, for that policy says that there is only one.
    """
    policy = context.options.failed_writes_policy
    if policy == "NEVER":
        return []
    done = repair(context)
    return done + _roll_back_the_unclaimed(context) if policy == "EAGER" else done


def _roll_back_the_unclaimed(context: TableContext) -> list[str]:
    """Roll back pending writes that keep no heartbeat, such as those of a Hudi writer with the EAGER policy; newest first, as Hudi does."""
    done: list[str] = []
    for instant in reversed(context.folder.load().pending.instants):
        if instant.action not in _OWN_WRITES:
            continue
        if context.storage.head(layout.heartbeat(instant.requested_time)) is not None:
            raise CommitAbortedError(
                "Another writer is alive, but the EAGER policy for failed writes says that there is only one",
                table=context.table,
                instant=instant.requested_time,
                hint="Wait for it, or set hoodie.clean.failed.writes.policy=LAZY, which several writers need.",
            )
        if roll_back(context, instant.requested_time) is not None:
            done.append(instant.requested_time)
    return done


def repair(context: TableContext) -> list[str]:
    """Finish what dead processes left: their rollbacks, their writes, their reservations. Returns the requested times rolled back."""
    timeline = context.folder.load()
    done: list[str] = []
    for instant in timeline.pending:
        if instant.action is Action.ROLLBACK and heartbeat.is_dead(context, instant):
            _resume(context, timeline, instant)
    timeline = context.folder.load()
    for instant in reversed(timeline.pending.instants):
        if instant.action in _OWN_WRITES and _is_rolled_back(context, timeline, instant):
            _forget(context, instant)
            continue
        dead = instant.action in _OWN_WRITES and heartbeat.is_dead(context, instant)
        if dead and roll_back(context, instant.requested_time) is not None:
            done.append(instant.requested_time)
    _sweep_reservations(context)
    return done


def _is_rolled_back(context: TableContext, timeline: Timeline, instant: Instant) -> bool:
    """Whether a completed rollback names the instant: its process died before it had removed the instant's own files."""
    return instant.requested_time in names_rolled_back(context, timeline.completed, instant.requested_time)


def _put_plan(transaction: Transaction, requested_time: str) -> Instant | None:
    """Fence the write: from here on it cannot commit. None if it is not pending (any more)."""
    context = transaction.context
    with holding_lock(context, f"roll back {requested_time}"):
        record = record_store(context.storage).read()
        if record is not None:
            publish_intent(context, record.intent)
        timeline = context.folder.load()
        victim = next(
            (i for i in timeline.pending if i.requested_time == requested_time and i.action in _OWN_WRITES), None
        )
        if victim is None or requested_time in names_rolled_back(context, timeline, requested_time):
            return None
        plan = encode_record("HoodieRollbackPlan", _plan(context, victim), sync_marker=transaction.sync_marker)
        begin.announce(transaction, plan, b"")
        return victim


def _execute(transaction: Transaction, victim: Instant) -> Instant:
    context = transaction.context
    paths = _files(context, victim.requested_time)
    removal.delete_data_files(context.storage, paths)
    metadata = _metadata(context, victim, paths)

    def encode(notes: object) -> bytes:
        return encode_record("HoodieRollbackMetadata", metadata, sync_marker=transaction.sync_marker)

    finished = finish(transaction, encode, check=lambda _timeline: None)
    _forget(context, victim)
    return finished.instant


def _resume(context: TableContext, timeline: Timeline, rollback: Instant) -> None:
    """Go on with a rollback whose process died."""
    victim_time = rolled_back_by(context, rollback.requested_time)
    victim = timeline.find(victim_time) if victim_time else None
    if victim_time is None or victim is None or not victim.is_pending:
        # Nothing is left to roll back; the unfinished rollback itself goes away.
        for state in (State.INFLIGHT, State.REQUESTED):
            context.storage.delete(context.folder.file(Instant(rollback.requested_time, Action.ROLLBACK, state)))
        context.storage.delete(layout.heartbeat(rollback.requested_time))
        return
    nonce = context.runtime.ids.uuid().replace("-", "")
    body = heartbeat.body(context, nonce)
    context.storage.put(layout.heartbeat(rollback.requested_time), body)
    beat = heartbeat.start(context, rollback.requested_time, body)
    requested = Instant(rollback.requested_time, Action.ROLLBACK, State.REQUESTED)
    transaction = Transaction(context, requested, nonce, timeline, beat)
    if rollback.state is State.REQUESTED:
        context.storage.put(context.folder.file(transaction.inflight), b"")
    _execute(transaction, victim)


def _files(context: TableContext, requested_time: str) -> list[str]:
    """The data files of an instant: from its markers, else by the time in the names of all files."""
    named = [path for path in markers.announced(context.storage, requested_time) if _is_of(path, requested_time)]
    if named:
        return named
    listed = (info.path for info in context.storage.list("") if not info.path.startswith(".hoodie/"))
    return [path for path in listed if _is_of(path, requested_time)]


def _is_of(path: str, requested_time: str) -> bool:
    name = parse_data_file(split(path)[1])
    return name is not None and name.requested_time == requested_time


def _plan(context: TableContext, victim: Instant) -> dict[str, Any]:
    requests: dict[str, list[str]] = {}
    for path in _files(context, victim.requested_time):
        requests.setdefault(split(path)[0], []).append(f"{context.table}/{path}")
    return {
        "instantToRollback": {"commitTime": victim.requested_time, "action": str(victim.action)},
        "RollbackRequests": [
            {"partitionPath": partition, "fileId": "", "latestBaseInstant": "", "filesToBeDeleted": files}
            for partition, files in sorted(requests.items())
        ],
    }


def _metadata(context: TableContext, victim: Instant, paths: list[str]) -> dict[str, Any]:
    partitions: dict[str, list[str]] = {}
    for path in paths:
        partitions.setdefault(split(path)[0], []).append(f"{context.table}/{path}")
    return {
        "startRollbackTime": context.now(),
        "timeTakenInMillis": 0,
        "totalFilesDeleted": len(paths),
        "commitsRollback": [victim.requested_time],
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "successDeleteFiles": files,
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition, files in sorted(partitions.items())
        },
        "instantsRollback": [{"commitTime": victim.requested_time, "action": str(victim.action)}],
    }


def _forget(context: TableContext, victim: Instant) -> None:
    """Remove the rolled-back write's own files; the completed rollback keeps its name."""
    for state in (State.INFLIGHT, State.REQUESTED):
        context.storage.delete(context.folder.file(Instant(victim.requested_time, victim.action, state)))
    markers.remove(context.storage, victim.requested_time)
    for info in context.storage.list(f"{layout.STAGED}/{victim.requested_time}-"):
        context.storage.delete(info.path)
    context.storage.delete(layout.heartbeat(victim.requested_time))


def _sweep_reservations(context: TableContext) -> None:
    """Remove heartbeats of dead processes that never came to announce their instant, or whose commit completed."""
    known = {instant.requested_time: instant for instant in context.folder.load()}
    for info in context.storage.list(f"{layout.HEARTBEATS}/"):
        time = info.path.rpartition("/")[2]
        instant = known.get(time)
        if instant is not None and instant.is_pending:
            continue
        if heartbeat.is_dead(context, Instant(time, Action.COMMIT, State.REQUESTED)):
            context.storage.delete(info.path)
