"""A walk of `table_walk` on a disk, with a sync of the Iceberg metadata after each step: other engines read what this project reads.

A table whose names Iceberg's mapping cannot say is refused by name, and stays refused until its folder is made anew. Of every kept snapshot all files
are there after each step.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyiceberg.expressions import EqualTo, GreaterThan, IsNull
from reliability.table_walk import Vanished, Walk
from support.homes import runtime_with
from support.iceberg import column_ids, iceberg_rows, iceberg_table, in_order

import pyhudi_core as hudi
from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.runtime.base import Runtime
from pyhudi_core.storage.base import Storage
from pyhudi_core.storage.local import LocalStorage

Read = Callable[[str], list[dict[str, Any]]]


@dataclass(frozen=True)
class Life:
    """The only process that lives."""

    name: str

    def identity(self) -> str:
        return self.name

    def is_gone(self, identity: str) -> bool:
        return identity != self.name


@dataclass
class IcebergWalk(Walk):
    """A walk whose table is in ``folder``; ``readers`` read it in addition to pyiceberg."""

    folder: str = ""
    readers: tuple[Read, ...] = ()
    synced: int = 0
    refused: int = 0
    states: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    travelled: int = 0
    life: int = 0

    def place(self) -> Storage:
        return LocalStorage(self.folder, fsync=False)

    def handle(self, create: bool = False) -> hudi.HudiTable:
        given = dict(self.form.options)
        given["pyhudi.iceberg.snapshots"] = 3  # each of them is read after each step
        # A lock file would name this process, which lives, so a writer would wait for the one that vanished.
        given["hoodie.write.lock.provider"] = "in_process"
        self.form = replace(self.form, options=given)
        return super().handle(create)

    def runtime(self) -> Runtime:
        """A process whose predecessors are gone: the disk dates heartbeats by another clock, by which they would never expire."""
        self.life += 1
        return runtime_with(clock=self.clock, process=Life(str(self.life)))

    def check_more(self) -> None:
        """Nothing: `test_table_walks` does it, and takes half of the time for it."""

    def check(self, allowed: Any) -> None:
        super().check(allowed)
        if self.crashes and self.draw.random() < 0.4:
            self.storage.left = self.draw.randint(0, 12)
            try:
                self.table.iceberg.sync()
            except (Vanished, UnsupportedTableError):
                self.log.append("   the sync vanished")
            self.storage.left = None
            self.table = self.handle()
        try:
            self.log.append(f"   iceberg: {self.table.iceberg.sync()}")
        except UnsupportedTableError as error:
            assert "different columns" in error.message or "was changed from" in error.message, error
            self.refused += 1
            metadata = Path(self.folder) / "metadata"
            if metadata.exists():
                self.check_files()  # commits and cleans go on beside metadata that cannot follow
                if self.refused % 3:
                    return
                shutil.rmtree(metadata)  # as the hint says; a later sync may work, when older files are gone
            self.states.clear()
            return
        assert not self.table.iceberg.sync(), "a second sync finds nothing to do"
        self.compare()

    def compare(self) -> None:
        if not self.table.timeline.commits:
            return
        wanted = self.comparable(in_order(self.table.scan(mode="read_optimized", meta=False).to_arrow()))
        for read in (iceberg_rows, *self.readers):
            found = self.comparable(read(self.folder))
            assert found == wanted, (read, found, wanted)
        self.compare_conditions()
        column_ids(self.folder)
        self.synced += 1
        table = iceberg_table(self.folder)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        newest = max(self.table.timeline.commits, key=lambda i: i.completion_time or "")
        assert snapshot.summary["hudi.instant"] == newest.requested_time
        self.states[snapshot.snapshot_id] = wanted
        kept = [one.snapshot_id for one in table.snapshots()]
        assert len({one.summary["hudi.instant"] for one in table.snapshots()}) == len(kept)
        self.check_files()
        chosen = self.draw.choice(kept)
        if chosen in self.states:
            assert self.comparable(iceberg_rows(self.folder, chosen)) == self.states[chosen]
            self.travelled += chosen != snapshot.snapshot_id

    def comparable(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows; without the day if a row with another day stays in its partition. Readers of files then find the row's own day, and Hudi the folder's."""
        if self.moves or not self.form.partitioned:
            return rows
        return sorted(({name: value for name, value in row.items() if name != "day"} for row in rows), key=repr)

    def compare_conditions(self) -> None:
        """pyiceberg skips files by partition values and statistics, and no row that fits."""
        rows, price = iceberg_rows(self.folder), float(self.synced % 10)
        for condition, fits in (
            (EqualTo("day", "b"), lambda row: row["day"] == "b"),
            (GreaterThan(self.columns.price, price), lambda row: (row[self.columns.price] or -1.0) > price),
            (IsNull(self.columns.note), lambda row: row[self.columns.note] is None),
        ):  # fmt: skip
            found = iceberg_rows(self.folder, row_filter=condition)
            assert found == [row for row in rows if fits(row)], (condition, found, rows)

    def check_files(self) -> None:
        """Each file that a kept snapshot names is there."""
        table = iceberg_table(self.folder)
        for number in [one.snapshot_id for one in table.snapshots()]:
            for task in table.scan(snapshot_id=number).plan_files():
                assert Path(task.file.file_path).exists(), f"{task.file.file_path} of the snapshot {number}"
