"""Two writers of one table at the same time: Apache Hudi in its JVM, this project in this process; and what must be there afterwards.

Every commit has a row of its own, and says in the row ``latest`` of its partition that it came last. Most commits go to a partition that only
their writer touches; every third goes to one that both touch, where both rewrite the same file group.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import CommitAbortedError, CommitConflictError

from .judges import JudgeProcess, assert_same_rows

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.string())])
BOTH, LATEST = "both", "latest"
ATTEMPTS = 5
"""How often either writer tries a commit that another one overtook."""
SAME_TIME = "Another writer uses the same requested time"
OURS: dict[str, object] = {
    "hoodie.index.bloom.num_entries": 1000,
    "hoodie.bloom.index.filter.dynamic.max.entries": 1000,
    "hoodie.write.lock.wait_time_ms": 120_000,
}
"""The lock is the one that tables on a disk have by default: the file ``.hoodie/lock`` of Hudi's FileSystemBasedLockProvider."""
HUDIS = {
    "hoodie.table.name": "both",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.client.num_retries": "500",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "20",
    "hoodie.write.lock.conflict.resolution.strategy": "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy",
    "hoodie.metadata.enable": "false",
}
"""Optimistic concurrency with the same lock; lazy about failed writes, because an eager Hudi rolls back any pending write of ours; and without a
metadata table, because our commits take it off the list (docs/decisions/0042). With Hudi's default conflict strategy, commits of Hudi's are lost that it
reported as successful (docs/spec-deviations.md, "Hudi's default conflict strategy"). We cannot prevent that, so the tests use the strategy
that compares with everything that completed after Hudi's requested time."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one commit ended, as its writer says.

    Attributes:
        label: of the commit, which is the key of its row.
        part: the partition that it wrote to.
        committed: whether the writer says that the commit succeeded.
        conflicts: how many attempts another commit had overtaken.
        taken: how many attempts ended before they began, because the other writer had just taken the same requested time.
        error: what the conflicts were, or the error of one that failed.
    """

    label: str
    part: str
    committed: bool
    conflicts: int = 0
    taken: int = 0
    error: str = ""


def part_of(writer: str, number: int) -> str:
    """Every third commit goes to the partition that both write to: the first of ours does, so that Hudi has its own to come."""
    return BOTH if number % 3 == (0 if writer == "ours" else 2) else writer


def rows_of(writer: str, number: int) -> pa.Table:
    """The rows of a commit."""
    label, part = f"{writer}-{number}", part_of(writer, number)
    return pa.Table.from_pylist([{"id": i, "part": part, "value": label} for i in (label, LATEST)], schema=SCHEMA)


def make_table(location: str, **options: object) -> hudi.HudiTable:
    """The table with a row in each partition, and so with the file groups that are rewritten."""
    table = create_plain(
        location, SCHEMA, "id", "part", name="both", storage_options={"fsync": "false"}, options={**OURS, **options}
    )
    first = [{"id": LATEST, "part": part, "value": "first-0"} for part in ("hudi", "ours", BOTH)]
    table.insert(pa.Table.from_pylist(first, schema=SCHEMA))
    return table


@dataclass
class SideBySide:
    """Both writers at work on one table.

    Attributes:
        judge: Hudi, in a process of its own.
        table: as this process opened it.
        outcomes: how the commits ended, in the order in which each writer made them.
    """

    judge: JudgeProcess
    table: hudi.HudiTable
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, commits: int, pause_s: tuple[float, float], **options: str) -> None:
        """Let Hudi make so many commits, and ours as many as they can meanwhile, with pauses within these bounds."""
        batches = [rows_of("hudi", number) for number in range(commits)]
        answers: list[list[dict[str, Any]]] = []
        failures: list[BaseException] = []

        def theirs() -> None:
            try:
                answers.append(self.judge.write_each(Path(self.table.location), batches, ATTEMPTS, **HUDIS, **options))
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=theirs)
        thread.start()
        chance = random.Random(11)
        number = 0
        while thread.is_alive():
            self.outcomes.append(self._commit(number, thread.is_alive))
            number += 1
            time.sleep(chance.uniform(*pause_s))
        thread.join()
        if failures:
            raise failures[0]
        for place, answer in enumerate(answers[0]):
            self.outcomes.append(Outcome(f"hudi-{place}", part_of("hudi", place), answer.pop("ok"), **answer))

    def _commit(self, number: int, hudi_writes: Callable[[], bool]) -> Outcome:
        """One commit of ours, begun anew if its requested time was taken."""
        for taken in range(ATTEMPTS):
            try:
                return self._attempts(number, taken, hudi_writes)
            except CommitAbortedError as aborted:
                if SAME_TIME not in aborted.message:
                    raise
        raise AssertionError(f"Hudi took our requested time {ATTEMPTS} times")

    def _attempts(self, number: int, taken: int, hudi_writes: Callable[[], bool]) -> Outcome:
        """One commit of ours, planned anew as often as a table's verb would do it, with what each conflict was.

        Until a first conflict was met, commits to the common partition let one of Hudi's go first, so that the conflict does not depend on the
        speed of the machine.
        """
        label, part = f"ours-{number}", part_of("ours", number)
        reasons: list[str] = []
        with self.table.begin("upsert") as write:
            before = self._latest_in_both()
            write.write(rows_of("ours", number))
            while part == BOTH and not self.met and hudi_writes() and self._latest_in_both() == before:
                time.sleep(0.05)
            while len(reasons) < ATTEMPTS:
                try:
                    write.commit()
                    return Outcome(label, part, True, len(reasons), taken, "; ".join(reasons))
                except CommitConflictError as conflict:
                    reasons.append(str(conflict))
                    if len(reasons) < ATTEMPTS:
                        write.again(conflict)
        return Outcome(label, part, False, len(reasons), taken, "; ".join(reasons))

    @property
    def met(self) -> bool:
        """Whether a commit of ours was overtaken by one of Hudi's."""
        return any(outcome.conflicts for outcome in self.outcomes)

    def _latest_in_both(self) -> str:
        """Which commit came last in the common partition, as a fresh reader sees it."""
        rows = hudi.open_table(self.table.location).scan(where=f"part = '{BOTH}' AND id = '{LATEST}'").to_arrow()
        return str(rows["value"][0].as_py())

    def by(self, writer: str) -> list[Outcome]:
        """The commits of one of the writers."""
        return [outcome for outcome in self.outcomes if outcome.label.startswith(writer)]

    def assert_nothing_is_lost_or_doubled(self) -> None:
        """Every commit is there whose writer says so, no other one, and the last of each partition is the last; both readers agree."""
        for outcome in self.outcomes:
            assert outcome.committed or "onflict" in outcome.error, (
                f"{outcome.label} failed for another reason: {outcome.error}"
            )
        fresh = hudi.open_table(self.table.location)
        found = fresh.scan().to_arrow()
        rows = found.select(["_hoodie_commit_time", *SCHEMA.names]).to_pylist()
        written = {outcome.label: outcome.part for outcome in self.outcomes if outcome.committed}
        theirs = [(row["id"], row["part"]) for row in rows if row["id"] != LATEST]
        assert len(theirs) == len(set(theirs)), f"doubled: {_twice(theirs)}"
        assert set(theirs) == set(written.items()), (
            f"lost: {sorted(set(written.items()) - set(theirs))}, nobody's: {sorted(set(theirs) - set(written.items()))}"
        )
        assert all(row["value"] == row["id"] for row in rows if row["id"] != LATEST)
        completed = completion_times(fresh)
        assert len(completed) == len(written) + 1, (
            f"{len(written) + 1} commits were said to succeed, {len(completed)} are there"
        )
        for part in ("hudi", "ours", BOTH):
            own = [row for row in rows if row["part"] == part]
            [latest] = [row for row in own if row["id"] == LATEST]
            last = max((row for row in own if row is not latest), key=lambda row: completed[row["_hoodie_commit_time"]])
            assert latest["value"] == last["id"], f"{part}: {latest['value']} won over {last['id']}, which came later"
            assert latest["_hoodie_commit_time"] == last["_hoodie_commit_time"]
        assert_same_rows(self.judge.read(Path(self.table.location)), found, by=["part", "id"])
        changed = fresh.incremental(after="0").to_arrow()
        assert_same_rows(changed, found, by=["part", "id"])


def completion_times(table: hudi.HudiTable) -> dict[str, str]:
    """When each commit completed, archived ones too, by requested time."""
    folder = table._opened.context().folder
    archived = folder.history.completed_between("", "9" * 17)
    return {i.requested_time: str(i.completion_time) for i in (*archived, *table.timeline.commits)}


def _twice(found: Iterable[Any]) -> Sequence[Any]:
    seen: set[Any] = set()
    return [item for item in found if item in seen or seen.add(item)]  # type: ignore[func-returns-value]
