"""Apache Hudi reads and continues every kind of table that writers of this project leave behind, dead ones included, and nobody loses a row."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from reliability import processes
from reliability.real_table import SCHEMA, orders

import pyhudi_core as hudi
from pyhudi_core.model.instant import Action

from .judges import JudgeError, JudgeProcess, assert_same_rows
from .left_behind import PUBLISHED, STATES, Row, State, open_table

QUICK = ("marker", "files", "decided", "published", "rollback_half_done", "archival_half_done", "claims", "lost_answer")
"""The states between them are a file more or less."""
BY_STATE = [pytest.param(state, marks=() if state.name in QUICK else pytest.mark.slow) for state in STATES]
PENDING = [given for given, state in zip(BY_STATE, STATES, strict=True) if state.pending]
BY_NAME = {state.name: state for state in STATES}
WITH_METADATA_TABLE = ("files", "rollback_half_done", "archived")
"""These states are continued by Hudi's defaults to the letter; the others without a metadata table, which takes most of Hudi's time."""
CONTINUED_AFTER_A_REPAIR = ("files", "decided", "overwrite_decided", "pessimistic", "rollback_half_done")

DEFAULTS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.clean.automatic": "true",
    "hoodie.archive.automatic": "true",
}
"""What a user has to give; the services run as they do by default, and failed writes are rolled back by the next one (EAGER)."""
ALONE = {"hoodie.metadata.enable": "false"}
SEVERAL_WRITERS = {
    **ALONE,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.num_retries": "2",
    "hoodie.write.lock.wait_time_ms_between_retry": "20",
    "hoodie.write.lock.client.num_retries": "2",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "20",
}
THEIRS: tuple[Row, ...] = ((1, "a", 100.0), (50, "a", 50.0))
OURS: tuple[Row, ...] = ((1, "a", 101.0), (60, "h", 60.0))


@dataclass
class Left:
    """A table that was left behind, and what everybody must read of it."""

    path: Path
    judge: JudgeProcess
    rows: dict[tuple[int, str], Row] = field(default_factory=dict)

    @property
    def table(self) -> hudi.HudiTable:
        """As a new process opens it."""
        return open_table(str(self.path))

    @property
    def pending(self) -> list[str]:
        """Requested times of unfinished instants."""
        return [instant.requested_time for instant in self.table.timeline.pending]

    def made(self, state: State) -> None:
        """Bring the table into the state."""
        state.make(str(self.path))
        self.holds(state.rows)
        assert bool(self.pending) == state.pending

    def holds(self, rows: tuple[Row, ...]) -> None:
        """These rows are expected from now on."""
        self.rows = {row[:2]: row for row in rows}

    def by_hudi(self, rows: tuple[Row, ...] = THEIRS, **more: str) -> None:
        """Hudi upserts the rows."""
        self.judge.write(self.path, orders(*rows), "upsert", **{**DEFAULTS, **more})
        self.rows.update({row[:2]: row for row in rows})

    def by_us(self, rows: tuple[Row, ...] = OURS) -> None:
        """We upsert the rows, and the doctor finds nothing wrong."""
        self.table.upsert(orders(*rows))
        self.rows.update({row[:2]: row for row in rows})
        report = self.table.check()
        assert report.ok, str(report)

    def is_read_by_both(self) -> None:
        """Both see what is expected."""
        expected = orders(*self.rows.values())
        for found in (self.judge.read(self.path), self.table.scan().to_arrow()):
            assert_same_rows(found, expected, by=["id"], columns=SCHEMA.names)

    def staged(self) -> str | None:
        """The token of the commit that was staged last, if its bytes are still there."""
        return next((path.name for path in (self.path / ".hoodie/.aux/.pyhudi/staged").glob("*-*")), None)

    def files_of(self, time: str) -> list[Path]:
        """Data files of an instant."""
        return list(self.path.glob(f"*/*_{time}.parquet"))


@pytest.fixture
def left(judge: JudgeProcess, tmp_path: Path) -> Left:
    return Left(tmp_path / "table", judge)


@pytest.mark.one_in(2)
@pytest.mark.row("B1")
@pytest.mark.parametrize("state", BY_STATE, ids=lambda state: state.name)
def test_hudi_continues_what_was_left_and_we_go_on(left: Left, state: State) -> None:
    left.made(state)
    pending, token = left.pending, left.staged()
    left.is_read_by_both()
    if not left.judge.writes:
        return
    left.by_hudi(**({} if state.name in WITH_METADATA_TABLE else ALONE))
    left.is_read_by_both()
    assert not left.pending, "Hudi rolls back what has failed, before its own write"
    assert not [path for time in pending for path in left.files_of(time)]
    if state.repaired is not None:
        assert token is not None
        assert left.table.commit_status(token) is hudi.CommitStatus.NOT_COMMITTED, "the rollback made the intent void"
    left.by_us()
    left.is_read_by_both()


@pytest.mark.parametrize("state", PENDING, ids=lambda state: state.name)
def test_we_repair_what_was_left_and_hudi_goes_on(left: Left, state: State) -> None:
    left.made(state)
    token = left.staged()
    if state.repaired is not None:
        assert token is not None
        assert left.table.commit_status(token) is hudi.CommitStatus.COMMITTED, "to ask publishes what was decided"
        left.holds(state.repaired)
        left.is_read_by_both()
    left.by_us()
    assert not left.pending
    left.is_read_by_both()
    if left.judge.writes and state.name in CONTINUED_AFTER_A_REPAIR:
        left.by_hudi(**ALONE)
        left.is_read_by_both()


def test_lazy_hudi_leaves_a_young_write_alone_and_rolls_back_an_old_one(left: Left) -> None:
    if not left.judge.writes:
        pytest.skip("hudi-rs does not write")
    left.made(BY_NAME["files"])
    [dead] = left.pending
    left.by_hudi(**SEVERAL_WRITERS)
    assert left.pending == [dead], "its heartbeat is young, so it may live"
    left.is_read_by_both()
    _age(left.path / ".hoodie/.heartbeat" / dead)
    left.by_hudi(((51, "a", 51.0),), **SEVERAL_WRITERS, **{"hoodie.clean.commits.retained": "1"})
    left.is_read_by_both()
    assert dead not in left.pending
    assert not left.files_of(dead)
    assert [i for i in left.table.timeline if i.action is Action.ROLLBACK and i.is_completed]
    left.by_us()
    left.is_read_by_both()


def test_our_decided_commit_stands_beside_a_hudi_that_could_not_get_the_lock(left: Left) -> None:
    """Release 1.0.2 then removes the lock file of others (docs/spec-deviations.md); later releases leave it."""
    if not left.judge.writes:
        pytest.skip("hudi-rs does not write")
    left.made(BY_NAME["decided"])
    lock = left.path / ".hoodie/lock"
    with pytest.raises(JudgeError, match="lock"):
        left.by_hudi(**SEVERAL_WRITERS)
    left.is_read_by_both()
    assert lock.exists() == (left.judge.release != "1.0.2")
    lock.unlink(missing_ok=True)
    left.holds(PUBLISHED)
    left.by_us()
    left.by_hudi(**SEVERAL_WRITERS)
    left.is_read_by_both()
    lock.write_bytes(b"a holder on another machine")
    _age(lock)
    left.by_hudi(((52, "a", 52.0),), **SEVERAL_WRITERS, **{"hoodie.write.lock.filesystem.expire": "1"})
    assert not lock.exists()
    left.is_read_by_both()


@pytest.mark.row("T4")
def test_hudi_continues_what_two_processes_wrote_at_once(left: Left, tmp_path: Path) -> None:
    options = {**processes.OPTIONS, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 4}
    storage = {"fsync": "false"}
    table = processes.make_table(str(left.path), storage, options)
    journal = tmp_path / "journal"
    jobs = [
        processes.Job(table.location, n, str(journal), 0, 8, False, 3, storage_options=storage, options=options)
        for n in range(2)
    ]
    processes.finish([processes.start(job) for job in jobs], 100)
    verdict = processes.judge(table, processes.journals(journal))
    assert verdict.acknowledged == verdict.rows == 16
    assert table.timeline.has_history
    rows = table.scan().to_arrow()
    names = processes.SCHEMA.names
    assert_same_rows(left.judge.read(left.path), rows, by=["id"], columns=names)
    if not left.judge.writes:
        return
    given = rows.select(names).slice(0, 3)
    name = {"hoodie.table.name": "table", "hoodie.datasource.write.partitionpath.field": "part"}
    left.judge.write(left.path, given, "upsert", **{**DEFAULTS, **ALONE, **name})
    assert_same_rows(left.table.scan().to_arrow(), rows, by=["id"], columns=names)
    table.delete(given.select(["id", "part"]))
    after = table.scan().to_arrow()
    assert after.num_rows == rows.num_rows - 3
    assert_same_rows(left.judge.read(left.path), after, by=["id"], columns=names)


def _age(path: Path) -> None:
    """Make the file look as if nobody had touched it for long."""
    old = time.time() - 3600
    os.utime(path, (old, old))
