"""The critique's stories of consumers that miss rows or stop: a consumer that follows a table by completion time receives every commit once
(promise P6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reliability.stories import Died, Story, Writer, batch, dying, rows_of
from support.golden import unpack
from support.tables import rows

import pyhudi_core as hudi
from pyhudi_core.source_transactions import transaction_watermark, transactions
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Fault

HOUR_MS = 3_600_000


class Consumer:
    """Follows a table by completion time, and counts the commits that it receives."""

    def __init__(self, table: HudiTable) -> None:
        self._table = table
        self._cursor: str | None = None
        self.seen: list[int] = []

    def poll(self) -> list[int]:
        """The ids of the rows that changed since the last time."""
        scan = self._table.incremental(after=self._cursor)
        found = sorted(scan.to_arrow().column("id").to_pylist())
        self._cursor = scan.completion_time or self._cursor
        self.seen += found
        return found


def late_requested(event_of: Callable[[Story], object], clock_ms: int = 0) -> tuple[Story, Consumer, Writer]:
    """A writer whose requested file is delayed: other writers commit, and a consumer reads, between its choice of an instant and this file."""
    story = Story()
    consumer = Consumer(story.table((1, "a", 1)))
    consumer.poll()
    late = story.writer(clock_ms=clock_ms)

    def meanwhile() -> None:
        event_of(story)
        story.writer().open().upsert(batch((2, "b", 2)))
        assert consumer.poll() == [2]

    late.pause_before("put_if_absent", ".commit.requested", meanwhile)
    return story, consumer, late


def sees_all_once(consumer: Consumer) -> None:
    assert consumer.poll() == [3], "the commit whose requested file came late was missed, or came twice"
    assert consumer.poll() == []
    assert consumer.seen == [1, 2, 3]


@pytest.mark.row("R8")
def test_incremental_late_requested_503() -> None:
    """The store answers 503 for a while; the writer repeats its request, and its instant is then older than the consumer's position."""
    story, consumer, late = late_requested(lambda story: story.pass_time(20))
    story.storage.inject(Fault.UNKNOWN, "put_if_absent", "*.commit.requested", times=2)
    late.open().upsert(batch((3, "c", 3)))
    sees_all_once(consumer)


@pytest.mark.row("R8")
def test_incremental_late_requested_gc() -> None:
    """The writer pauses for longer than its heartbeat is valid. It is rolled back or it commits, never half of both."""
    _, consumer, late = late_requested(lambda story: story.pass_time(600))
    late.open().upsert(batch((3, "c", 3)))
    sees_all_once(consumer)


@pytest.mark.row("R8")
@pytest.mark.parametrize("clock_ms", [-150, 150, -200_000, 200_000])
def test_incremental_late_requested_skew(clock_ms: int) -> None:
    """The writer's clock is wrong, by less or by more than the expected skew."""
    _, consumer, late = late_requested(lambda story: None, clock_ms)
    late.open().upsert(batch((3, "c", 3)))
    sees_all_once(consumer)


@pytest.mark.row("R8")
@pytest.mark.parametrize("hours", [-9, 2])
def test_incremental_late_requested_wrong_timezone(hours: int) -> None:
    """A clock that shows another zone's time, whichever of two writers has it: every time lies above all that came before, so nothing is missed."""
    story = Story()
    consumer = Consumer(story.table((1, "a", 1)))
    consumer.poll()
    wrong, right = story.writer(clock_ms=hours * HOUR_MS), story.writer()
    first, second = (wrong, right) if hours > 0 else (right, wrong)
    late = second.open()
    second.pause_before("put_if_absent", ".commit.requested", lambda: first.open().upsert(batch((2, "b", 2))))
    late.upsert(batch((3, "c", 3)))
    assert consumer.poll() == [2, 3]
    for number, writer in ((4, first), (5, second)):
        writer.open().upsert(batch((number, "d", number)))
        assert consumer.poll() == [number]
    assert consumer.poll() == []


@pytest.mark.row("R9")
def test_crashed_writer_does_not_block_consumer() -> None:
    """A consumer does not wait for a dead writer, whether it was rolled back or not."""
    story = Story()
    consumer = Consumer(story.table((1, "a", 1)))
    consumer.poll()
    crashed = story.writer()
    crashed.pause_before("acquire", "lock", dying(crashed))
    with pytest.raises(Died):
        crashed.open().upsert(batch((9, "z", 9)))
    never = {"hoodie.clean.failed.writes.policy": "NEVER"}
    for number in (2, 3):
        story.writer(options=never).open().upsert(batch((number, "b", number)))
        assert consumer.poll() == [number]
    assert len(story.writer().open().timeline.pending) == 1
    story.writer().open().upsert(batch((4, "b", 4)))
    assert not story.writer().open().timeline.pending.instants
    assert consumer.poll() == [4]
    assert consumer.seen == [1, 2, 3, 4]


@pytest.mark.row("R8")
def test_cdc_transaction_watermark_is_safe() -> None:
    """Two writers load the transactions of one source, and the later batch finishes first: the watermark waits for the earlier one."""
    story = Story()
    table = story.table()

    def load(first: int, last: int) -> hudi.Write:
        opened = story.writer().open()
        rows = batch(*((number, f"p{number // 10}", number) for number in range(first, last + 1)))
        return opened.begin("upsert", extra_metadata=transactions(opened, first, last)).write(rows)

    def is_safe() -> int:
        mark = transaction_watermark(table)
        assert set(range(1, mark + 1)) <= {row[0] for row in rows_of(table)}, "the watermark is ahead of the table"
        return mark

    assert is_safe() == 0
    load(1, 9).commit()
    assert is_safe() == 9
    early, late = load(10, 19), load(20, 29)
    assert is_safe() == 9
    late.commit()
    assert is_safe() == 9, "transactions 10 to 19 are not there yet"
    load(30, 39).commit()
    assert is_safe() == 9
    early.commit()
    assert is_safe() == 39
    given_up = load(40, 49)
    load(50, 59).commit()
    given_up.rollback()
    assert is_safe() == 39
    load(40, 49).commit()
    assert is_safe() == 59
    archiving = story.writer(options={"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}).open()
    for number in range(8):
        archiving.upsert(batch((1000, "other", number)))
        assert is_safe() == 59, "others have filled the timeline; what was loaded is still there"
    slow = load(60, 69)
    for first in (70, 80, 90):
        load(first, first + 9).commit()
    slow.commit()
    for number in range(8):
        archiving.upsert(batch((1000, "other", number)))
        assert is_safe() == 99
    load(100, 109).commit()
    newest = table.timeline.commits[-1]
    assert table.commit_metadata(newest).extra["pyhudi.transactions"] == "1-109"


@pytest.mark.row("D7", "R12")
def test_read_optimized_reports_phantom_state(location: str) -> None:
    """File groups are shown as of their own last compactions: rows that the table never had together. The scan says so, and may be refused."""
    table = hudi.open_table(unpack("hudi-1.0.2/mor_event_delete", location))
    scan = table.scan(mode="read_optimized")
    what = ("_hoodie_record_key", "_hoodie_commit_time")
    states = [rows(table.scan(as_of=commit.completion_time), *what) for commit in table.timeline.commits]
    shown = rows(scan, *what)
    assert rows(table, *what) in states
    assert shown not in states, "a state that there never was"
    left_out = scan.staleness()
    assert not left_out.is_current
    assert (left_out.slices, left_out.all_slices, left_out.log_files, left_out.deletes) == (1, 2, 3, 30)
    logs = {log.name.requested_time for piece in table.scan().slices() for log in piece.logs}
    written = [commit.completion_time for commit in table.timeline.commits if commit.requested_time in logs]
    assert len(written) > 1
    assert left_out.oldest == min(written), "since when"
    assert f"30 deletes, since {left_out.oldest}" in str(left_out)
    assert {key for key, _ in shown} > {key for key, _ in rows(table, *what)}, "deleted rows are among them"
    with pytest.raises(hudi.errors.PendingDeletesError, match="30"):
        table.scan(mode="read_optimized", refuse_pending_deletes=True).to_arrow()
