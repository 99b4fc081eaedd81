"""Begin an instant: reserve its requested time, announce it on the timeline, keep its heartbeat.

The reservation is the heartbeat file, created with put-if-absent, the same name for every action; so two writers can never hold one
requested time, whatever they do. The time is greater than every time on the timeline and every other reservation, which is checked again
after the reservation was made: what the write reads then lies before it, and strict monotonicity does not rest on clocks.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyhudi_core.errors import ClockSkewError, CommitAbortedError, HudiError
from pyhudi_core.formats.avro import encode_record
from pyhudi_core.model.instant import Action, Instant, State, epoch_ms, is_time, time_after
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import heartbeat, layout
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.heartbeat import Heartbeat
from pyhudi_core.transaction.publication import create_once

_log = logging.getLogger(__name__)
_ATTEMPTS = 50


@dataclass(slots=True)
class Transaction:
    """A pending instant of ours. ``start`` is the timeline that its write reads; ``token`` names the attempt for ever."""

    context: TableContext
    requested: Instant
    nonce: str
    start: Timeline
    heartbeat: Heartbeat

    @property
    def requested_time(self) -> str:
        return self.requested.requested_time

    @property
    def token(self) -> str:
        return f"{self.requested_time}-{self.nonce}"

    @property
    def inflight(self) -> Instant:
        return Instant(self.requested_time, self.requested.action, State.INFLIGHT)

    @property
    def sync_marker(self) -> bytes:
        """16 bytes for Avro timeline files, which thereby carry the nonce."""
        return bytes.fromhex(self.nonce)


def reserve(context: TableContext, action: Action) -> Transaction:
    """Reserve a requested time and start its heartbeat; nothing is on the timeline yet.

    Raises `ClockSkewError` if the timeline is ahead of the clock by more than the bound.
    """
    nonce = context.runtime.ids.uuid().replace("-", "")
    content = heartbeat.body(context, nonce)
    for _ in range(_ATTEMPTS):
        requested_time = _candidate(context)
        if context.protections.reservation and not create_once(
            context.storage, layout.heartbeat(requested_time), content
        ):
            continue
        beat = heartbeat.start(context, requested_time, content)
        _wait_for_skew(context)
        start = context.folder.load()
        if start.high_water_mark < requested_time or not context.protections.reservation:
            return Transaction(context, Instant(requested_time, action, State.REQUESTED), nonce, start, beat)
        beat.stop(context)
    raise CommitAbortedError(
        f"No requested time could be reserved in {_ATTEMPTS} attempts",
        table=context.table,
        hint="Other writers commit faster than this one can begin; try again.",
    )


def announce(transaction: Transaction, requested_body: bytes, inflight_body: bytes) -> None:
    """Put the requested and the inflight file on the timeline. Raises `CommitAbortedError` if somebody else's are there."""
    context = transaction.context
    for instant, body in ((transaction.requested, requested_body), (transaction.inflight, inflight_body)):
        if not create_once(context.storage, context.folder.file(instant), body):
            raise CommitAbortedError(
                "Another writer uses the same requested time",
                table=context.table,
                instant=transaction.requested_time,
                hint="Try again; if it recurs, give all writers of the table the same clock or lock provider.",
            )


def begin_write(context: TableContext, action: Action, operation: str) -> Transaction:
    """Reserve and announce a commit, deltacommit or replacecommit."""
    transaction = reserve(context, action)
    requested = b""
    record = "HoodieCommitMetadata"
    if action is Action.REPLACECOMMIT:
        requested = encode_record("HoodieRequestedReplaceMetadata", {}, sync_marker=transaction.sync_marker)
    inflight = encode_record(record, {"operationType": operation}, sync_marker=transaction.sync_marker)
    try:
        announce(transaction, requested, inflight)
    except CommitAbortedError:
        transaction.heartbeat.stop(context)
        raise
    except BaseException:
        transaction.heartbeat.handle.cancel()
        _withdraw(transaction)
        raise
    return transaction


def _withdraw(transaction: Transaction) -> None:
    """Take a half announced instant off the timeline; if that fails too, its heartbeat stays, expires, and others repair it."""
    context = transaction.context
    try:
        for instant in (transaction.inflight, transaction.requested):
            context.storage.delete(context.folder.file(instant))
        transaction.heartbeat.stop(context)
    except HudiError as error:
        _log.warning("could not withdraw %s of %s: %s", transaction.requested_time, context.table, error)


def _candidate(context: TableContext) -> str:
    """The next free time: the clock's, or just above everything that is known."""
    now = context.now()
    if not context.protections.reservation:
        return now
    reserved = (info.path.rpartition("/")[2] for info in context.storage.list(f"{layout.HEARTBEATS}/"))
    highest = max([context.folder.load().high_water_mark, *(name for name in reserved if is_time(name))])
    check_skew(context, highest)
    return max(now, time_after(highest)) if highest else now


def check_skew(context: TableContext, highest: str) -> None:
    """Refuse to go on when the timeline is far ahead of this clock: one of the two clocks is wrong."""
    latest = epoch_ms(highest, utc=context.utc) if highest else None
    bound = max(context.options.max_clock_ahead_ms, context.options.max_expected_clock_skew_ms)
    if latest is not None and latest - context.runtime.clock.now_ms() > bound:
        raise ClockSkewError(
            f"The timeline's newest time {highest} is ahead of this machine's clock by more than {bound} ms",
            table=context.table,
            hint="Set this machine's clock, or wait until it has passed that time.",
        )


def _wait_for_skew(context: TableContext) -> None:
    """Writers without reservations (Java) are only excluded by waiting; on one machine's disk they share the clock."""
    wait_ms = context.options.max_expected_clock_skew_ms if context.storage.supports_put_if_match else 1
    context.runtime.clock.sleep(wait_ms / 1000)
