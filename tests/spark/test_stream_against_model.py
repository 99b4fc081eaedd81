"""The stream's reader through chance: two writers, archival, replaced partitions, columns that are added, limits, restarts, repeated batches.

Without a Spark session: the reader is asked as Spark asks it, offsets go through JSON and partitions through pickles.
"""

from __future__ import annotations

import json
import pickle
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.archival import MANUAL
from support.tables import make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError

streaming = pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="PySpark 3.5 has no streaming data sources in Python"
)
STEPS, SEEDS = 14, 8


@dataclass(slots=True)
class Reading:
    """A stream that is stopped, started and repeated at will."""

    options: dict[str, str]
    offset: dict[str, str] | None = None
    reader: Any = None
    batches: list[tuple[dict[str, str], dict[str, str], list[dict[str, Any]]]] = field(default_factory=list)

    def restart(self) -> None:
        from pyhudi_core.spark.source import PyhudiSource

        source = PyhudiSource(self.options)
        self.reader = source.streamReader(source.schema())
        self.offset = self.offset or self.reader.initialOffset()

    def step(self) -> bool:
        """Read the next batch, if there is one."""
        if self.reader is None:
            self.restart()
        start, limit = self.offset or {}, self.reader.getDefaultReadLimit()
        end = json.loads(json.dumps(self.reader.latestOffset(start, limit)))
        if end == start:
            return False
        assert end["completed"] > start["completed"]
        self.batches.append((start, end, self.read(start, end)))
        self.offset = end
        return True

    def read(self, start: dict[str, str], end: dict[str, str]) -> list[dict[str, Any]]:
        parts = pickle.loads(pickle.dumps(self.reader.partitions(start, end)))
        batches = [batch for part in parts for batch in self.reader.read(part)]
        assert all(batch.schema.equals(self.reader.wanted) for batch in batches)
        return [row for batch in batches for row in batch.to_pylist()]

    def repeat(self, chance: random.Random) -> None:
        """A batch that is read again tells the same, whatever was committed since."""
        start, end, rows = chance.choice(self.batches)
        assert Counter(map(_told, self.read(start, end))) == Counter(map(_told, rows))

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for _, _, rows in self.batches for row in rows]


@dataclass(slots=True)
class Writing:
    """Writers of one table; ``held`` are writes that have begun and complete later than others that began after them."""

    table: hudi.HudiTable
    chance: random.Random
    next_id: int = 0
    held: list[Any] = field(default_factory=list)

    def step(self, number: int, archive: bool) -> None:
        kind = self.chance.choice(
            ["insert", "insert", "hold", "hold", "commit", "upsert", "overwrite", "grow", "archive"]
        )
        if kind == "commit" and self.held:
            self.finish(self.chance.randrange(len(self.held)))
        elif kind == "hold":
            write = reopen(self.table).begin("insert")
            write.write(self.fresh("d", number))
            self.held.append(write)
        elif kind == "upsert" and self.next_id:
            self.table.upsert(self.whole(orders((self.chance.randrange(self.next_id), "a", 1000.0 + number, number))))
        elif kind == "overwrite":
            self.table.insert_overwrite(self.fresh("b", number))
        elif kind == "grow":
            wider = self.fresh("c", number)
            name = f"more_{number}"
            self.table.insert(wider.append_column(name, pa.array(["x"] * wider.num_rows)))
        elif kind == "archive" and archive:
            self.table.archival.run()
        else:
            self.table.insert(self.fresh(self.chance.choice("abc"), number))

    def finish(self, number: int) -> None:
        # The table may have got a column, or lost the partition, since it began.
        try:
            self.held.pop(number).commit()
        except CommitConflictError:
            return

    def fresh(self, day: str, number: int) -> pa.Table:
        self.next_id += 2
        return self.whole(orders((self.next_id - 1, day, float(number), number), (self.next_id - 2, day, 0.5, number)))

    def whole(self, rows: pa.Table) -> pa.Table:
        for item in self.table.schema:
            if item.name not in rows.schema.names:
                rows = rows.append_column(item.name, pa.nulls(rows.num_rows, item.type))
        return rows


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("mode", ["incremental", "changes"])
def test_every_row_comes_once_and_changes_add_up_to_the_table(mode: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{mode} {seed}")
    table = make(str(tmp_path / "orders"), options=MANUAL)
    reading = Reading({"path": table.location, "mode": mode})
    if seed % 2:
        reading.options["max_commits_per_batch"] = str(chance.randint(1, 3))
    writing = Writing(table, chance)
    for number in range(STEPS):
        # Changes of commits that were archived are gone, which is an error of its own.
        writing.step(number, archive=mode == "incremental")
        if chance.random() < 0.4:
            reading.step()
        if chance.random() < 0.2:
            reading.restart()
        if reading.batches and chance.random() < 0.2:
            reading.repeat(chance)
    while writing.held:
        writing.finish(0)
    reading.restart()
    while reading.step():
        pass
    now = Counter(_place(row) for row in table.scan().to_arrow().to_pylist())
    if mode == "changes":
        told: Counter[Any] = Counter()
        for row in reading.rows:
            told.update([_place(row["after"])] if row["after"] else [])
            told.subtract([_place(row["before"])] if row["before"] else [])
        assert +told == now
    else:
        given = Counter(_place(row) for row in reading.rows)
        assert set(given.values()) == {1}
        assert set(now) <= set(given)
    assert len(reading.batches) > 1


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["id"], row["day"], row["price"]


def _told(row: dict[str, Any]) -> tuple[Any, ...]:
    """What does not depend on the columns that the table had when the stream was started."""
    if "op" not in row:
        return row["_hoodie_commit_seqno"], *_place(row)
    return row["op"], row["ts_ms"], *(_place(row[name]) if row[name] else None for name in ("before", "after"))
