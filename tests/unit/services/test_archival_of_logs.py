"""The timeline of a merge-on-read table is archived, and readers of logs, of changes and of older states answer as before."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.archival import FAST
from support.cleanings import keeping
from support.samples import one_in
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import SnapshotExpiredError
from pyhudi_core.model.instant import Action

OPTIONS = {
    **FAST,
    "hoodie.archive.automatic": False,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.timeline.compaction.batch.size": 2,
    "hoodie.compact.inline.max.delta.commits": 2,
    "hoodie.log.compaction.blocks.threshold": 2,
}
KEPT = 3
"""So many states a clean keeps."""
DAYS = "ab"
COLUMNS = ("id", "day", "price", "ts")
Row = tuple[Any, ...]


@dataclass
class History:
    """A table, the rows after each commit, and which commit wrote each row last."""

    table: hudi.HudiTable
    taken: int = 0
    current: dict[int, Row] = field(default_factory=dict)
    writers: dict[int, int] = field(default_factory=dict)
    states: list[tuple[str, str, list[Row]]] = field(default_factory=list)
    horizon: str = ""

    def upsert(self, *keys: int) -> None:
        self.taken += 1
        batch = [(key, DAYS[key % 2], float(self.taken), self.taken) for key in keys]
        self._note(self.table.upsert(orders(*batch)), {row[0]: row for row in batch})

    def delete(self, key: int) -> None:
        gone = self.table.delete(pa.table({"id": [key], "day": [DAYS[key % 2]]}))
        if gone:
            self._note(gone, {key: None})

    def _note(self, commit: Any, changed: dict[int, Row | None]) -> None:
        for key, row in changed.items():
            self.writers[key] = len(self.states)
            if row is None:
                self.current.pop(key, None)
            else:
                self.current[key] = row
        self.states.append((commit.instant, commit.completion_time, sorted(self.current.values())))

    def check(self) -> None:
        """Each state is what it was, or is refused; the last ones are never refused. So are the changes since each commit."""
        table = hudi.open_table(self.table.location, options=OPTIONS)
        assert rows(table, *COLUMNS) == self.states[-1][2]
        first_active = min(i.completion_time or "" for i in table.timeline.commits)
        for number, (instant, completed, state) in enumerate(self.states):
            kept = completed >= self.horizon
            for point in (instant, completed):
                self._answers(lambda point=point: rows(table.scan(as_of=point), *COLUMNS), state, kept)
            since = [row for key, row in sorted(self.current.items()) if self.writers[key] > number]
            self._answers(
                lambda completed=completed: rows(table.incremental(after=completed), *COLUMNS), sorted(since), kept
            )
            told = self._changed(number)
            found = lambda completed=completed: self._net(table, completed)  # noqa: E731
            self._answers(found, told, kept and completed >= first_active)
        assert table.check().ok, table.check().findings

    def _changed(self, number: int) -> dict[int, Row | None]:
        before = {row[0]: row for row in self.states[number][2]}
        return {
            key: self.current.get(key) for key in {*before, *self.current} if before.get(key) != self.current.get(key)
        }

    def _net(self, table: hudi.HudiTable, after: str) -> dict[int, Row | None]:
        """What the changes after a commit come to: the row of each key before the first and after the last of them, where these differ."""
        first: dict[int, Row | None] = {}
        last: dict[int, Row | None] = {}
        for change in table.changes(after=after).to_arrow().to_pylist():
            before, now = (None if row is None else tuple(row.values()) for row in (change["before"], change["after"]))
            key = (before or now)[0]  # type: ignore[index]
            first.setdefault(key, before)
            last[key] = now
        return {key: row for key, row in last.items() if row != first[key]}

    def _answers(self, ask: Callable[[], Any], expected: Any, kept: bool) -> None:
        try:
            assert ask() == expected
        except SnapshotExpiredError:
            assert not kept


def step(history: History, name: str, chance: random.Random) -> None:
    table = hudi.open_table(history.table.location, options=OPTIONS)
    if name == "upsert":
        history.upsert(*chance.sample(range(8), 2))
    elif name == "delete":
        history.delete(chance.randrange(8))
    elif name == "compact":
        table.compaction.run()
    elif name == "plan a compaction":
        table.compaction.schedule()
    elif name == "log compact":
        table.log_compaction.run()
    elif name == "cluster":
        table.clustering.run()
    elif name == "clean":
        last = table.timeline.commits[-KEPT:]
        if keeping(table, KEPT).cleaning.run():
            history.horizon = last[0].completion_time or ""
    elif name == "roll back":
        with history.table.begin() as write:
            write.write(orders((chance.randrange(8), "a", -1.0, 99)))
    else:
        table.archival.run()


WEIGHTS = {"upsert": 8, "delete": 2, "compact": 2, "plan a compaction": 1, "log compact": 1, "cluster": 1, "clean": 2, "roll back": 1, "archive": 4}  # fmt: skip


@pytest.mark.row("B9", "N5")
@pytest.mark.parametrize("seed", one_in(60, range(60), 7))
def test_archival_of_a_table_with_logs_changes_no_answer(location: str, seed: int) -> None:
    chance = random.Random(seed)
    index = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"} if seed % 2 else {}
    history = History(make(location, table_type="MERGE_ON_READ", ordering="ts", options={**OPTIONS, **index}))
    history.upsert(*range(8))
    archived = 0
    for _ in range(16 if seed == 7 else 24):
        name = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        before = len(history.table.timeline.commits)
        step(history, name, chance)
        if name == "archive" and len(history.table.timeline.commits) < before:
            archived += 1
            history.check()
    history.check()
    print(f"{archived} archivals, {len(history.states)} commits, {len(history.table.timeline.commits)} active")


@pytest.mark.row("B9", "N5")
def test_logs_that_no_commit_names_are_swept_before_their_instant_is_archived(location: str) -> None:
    options = {**OPTIONS, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    table = make(location, table_type="MERGE_ON_READ", ordering="ts", options=options)
    for number in range(1, 7):
        table.upsert(orders((1, "a", float(number), number)))
    logs = [Path(location, stat.path) for i in table.timeline.commits for stat in table.commit_metadata(i).stats]
    # Attempts at tasks that failed. The instant of the second one is not archived, so readers leave it out.
    attempts = [log.with_name(f"{log.name.rpartition('_')[0]}_9-9-9") for log in (logs[1], logs[-1])]
    for attempt, log in zip(attempts, (logs[1], logs[-1]), strict=True):
        attempt.write_bytes(log.read_bytes())
    done = table.archival.run()
    assert [i.action for i in done.instants] == [Action.DELTACOMMIT] * 4
    assert done.swept == (str(attempts[0].relative_to(location)),)
    assert [log.exists() for log in logs] == [True] * 6
    assert rows(table, *COLUMNS) == [(1, "a", 6.0, 6)]
