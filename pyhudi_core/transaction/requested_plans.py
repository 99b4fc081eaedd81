"""Put the plan of a table service on the timeline. A decision under the lock publishes the plan as a requested file.

The requested time is reserved first. Then the plan is made from the timeline that the reservation has read. A plan names the files that exist before
the plan's requested time. Later files are not part of the plan; they belong to the next file slice. Two facts make this safe. First, under the lock,
``check`` sees every commit that completed since the plan was made. Second, every later commit sees the requested file, so the completion time of
every later commit is above the plan's requested time.

The intent of a commit counts only while the inflight file exists. The intent of a plan counts only while the reservation (the heartbeat file) exists.
If the process dies between the decision and the requested file, the next process that finds the dead reservation publishes the plan
(``rollback.repair``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi_core.errors import CommitAbortedError, CommitConflictError
from pyhudi_core.model.bounded_json import PROTOCOL_BYTES, parse_json
from pyhudi_core.model.instant import Instant
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, layout
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.decision import Check, OutcomeUnknown, StagedIntent, decide, staged_intent
from pyhudi_core.transaction.publication import digest
from pyhudi_core.transaction.record import Publication, PublicationKind
from pyhudi_core.transaction.reserved_decision import deciding


def put_plan(transaction: Transaction, body: bytes, check: Check, before: Sequence[Publication] = ()) -> Instant:
    """Publish the plan of a transaction as the requested file, and end the transaction's reservation. Returns the pending instant.

    Args:
        body: the bytes of the requested file.
        check: raises `CommitError` if the plan conflicts with the timeline found under the lock.
        before: publications that the same decision makes before the requested file.

    Raises what ``check`` raises, `LockError` and `CommitAbortedError`. After such an error, nothing was published, and the attempt left no files.
    """
    context, time = transaction.context, transaction.requested_time
    staging = _Staging(transaction, body, tuple(before))
    staged = [staging.staged, *(publication.staged for publication in before if publication.staged)]
    what = f"plan {transaction.requested.action} {time}"
    try:
        with deciding(transaction, what, lambda: give_back(transaction, *staged)) as terms:
            context.root.put(staging.staged, body)
            decide(context, staging.intent, check, terms)
    except OutcomeUnknown as unknown:
        raise unknown.error from unknown
    return transaction.requested


def give_back(transaction: Transaction, *staged: str) -> None:
    """End the reservation, and remove the staged bytes. If an executor of the plan already uses the heartbeat file, the file stays."""
    context = transaction.context
    transaction.heartbeat.handle.cancel()
    context.root.delete_many(staged)
    if _is_reserved(transaction):
        context.root.delete(layout.heartbeat(transaction.requested_time))


def _is_reserved(transaction: Transaction) -> bool:
    """Say whether this process still has the reservation."""
    try:
        body = parse_json(heartbeat.read(transaction.context, transaction.requested_time) or b"{}", PROTOCOL_BYTES)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and body.get("nonce") == transaction.nonce


@dataclass(frozen=True, slots=True)
class _Staging:
    """A plan that is not published yet."""

    transaction: Transaction
    body: bytes
    before: tuple[Publication, ...] = ()

    @property
    def staged(self) -> str:
        """The staging path, from which any process can publish the plan."""
        return layout.staged(self.transaction.requested_time, self.transaction.nonce)

    def intent(self, timeline: Timeline) -> StagedIntent | None:
        """Return the decision to publish the plan. Return None if the plan is already published, because only the answer to an earlier swap was lost.

        Raises `CommitAbortedError` if the reservation is gone.
        """
        transaction = self.transaction
        context, requested = transaction.context, transaction.requested
        if timeline.find(requested.requested_time, requested.action) is not None:
            return None
        if not _is_reserved(transaction):
            raise CommitAbortedError(
                f"The reservation of this {requested.action} was taken for that of a dead process",
                table=context.table,
                instant=requested.requested_time,
                hint="Nothing was planned; plan again. If the process was alive, raise hoodie.client.heartbeat.interval_in_ms.",
            )
        self._refuse_changed()
        path = context.from_root(context.folder.file(requested))
        return staged_intent(transaction, [*self.before, Publication(path, self.staged)], {path: self.body})

    def _refuse_changed(self) -> None:
        """Raise `CommitConflictError` if a file that the decision would replace has changed."""
        context = self.transaction.context
        for publication in self.before:
            if publication.kind is not PublicationKind.REPLACE:
                continue
            there = context.root.head(publication.path) is not None
            if digest(context.root.get(publication.path) if there else None) != publication.replaces:
                raise CommitConflictError(
                    f"Another process changed {publication.path} at the same time",
                    table=context.table,
                    instant=self.transaction.requested_time,
                    hint="Nothing was planned; plan again.",
                )
