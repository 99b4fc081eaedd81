"""The matrix of table kinds, index sets and merge modes: this project writes, Hudi reads by the indexes and continues, then this project continues.

After each step a validator compares the metadata table with the files, the record index with the rows, and what both programs read with what must be
there. The metrics of Spark's plans show that Hudi used an index: how many files were scanned. A pairwise sample of the matrix runs with each release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from support.metadata_tables import assert_metadata_is_true

from pyhudi_core.errors import UnsupportedTableError

from .conftest import RELEASES
from .judges import JudgeProcess, Judges, assert_same_rows
from .matrix_cells import DAYS, Cell, Expected, all_cells, pairwise, rows

BY_INDEXES = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
BY_LISTING = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
CONDITIONS = {
    "stats": "price > 2062",
    "record": "id = 'k041'",
    "columns": "city = 'Wien'",
}
OWN_FILES = {"hoodie__parquet__small__file__limit": "0"}
EXPRESSION = "lower(label) = 'banana'"


@pytest.fixture(scope="module", params=[release for release in RELEASES if release != "hudi-rs"])
def release(request: pytest.FixtureRequest, judges: Judges) -> JudgeProcess:
    """Each release of Hudi for Spark in turn."""
    return judges(request.param)


@dataclass(slots=True)
class Relay:
    """A table of the matrix that goes from hand to hand."""

    cell: Cell
    path: Path
    judge: JudgeProcess
    expected: Expected
    second: JudgeProcess | None = None
    cleaned_by_hudi: bool = False

    def ours(self, *steps: tuple[str, pa.Table], **more: str) -> None:
        """This project writes."""
        for operation, given in steps:
            table = self.cell.open(self.path, **more)
            getattr(table, operation)(given.select(["id", "day"]) if operation == "delete" else given)
            self._expect(operation, given)
            self.validate()

    def hudis(self, *steps: tuple[str, pa.Table], **more: str) -> None:
        """Hudi writes."""
        for operation, given in steps:
            self.judge.write(self.path, given, operation, **self.cell.hudis(**more))
            self._expect(operation, given)
            self.validate()

    def service(self, run: Callable[[], object]) -> None:
        """A table service of this project, which changes no row."""
        done = run()
        assert done, done
        self.validate()

    def rebuild_after_a_clean_of_hudi(self) -> None:
        """A clean of Hudi writes logs of the expression index into the folder of column_stats. Our next write refuses them, and a rebuild mends it
        (docs/spec-deviations.md).
        """
        if not self.cell.has("columns"):
            return
        with pytest.raises(UnsupportedTableError, match="metadata LOCATION rebuild"):
            self.cell.open(self.path).upsert(rows([33], 390))
        assert self.cell.open(self.path).metadata_table.rebuild()
        self.cleaned_by_hudi = False
        self.validate()

    def validate(self) -> None:
        """Metadata table, listing, record index and rows agree, for this project, for Hudi, and for hudi-rs."""
        table = self.cell.open(self.path)
        assert {*table.config.metadata_partitions} == self.cell.listed
        assert_metadata_is_true(table, cleaned_by_hudi=self.cleaned_by_hudi)
        expected = self.expected.table()
        assert_same_rows(table.scan().to_arrow(), expected, by=["id"])
        for how in (BY_INDEXES, BY_LISTING):
            assert_same_rows(self.judge.read(self.path, **how), expected, by=["id"])
        if self.second is not None:
            assert_same_rows(self.second.read(self.path), expected, by=["id"])

    def assert_indexes_are_used(self) -> None:
        """Hudi scans fewer files by each index than without, and finds the rows that we find."""
        for indexes, condition in CONDITIONS.items():
            if self.cell.has(indexes):
                self._assert_skips(condition)
        if self.cell.has("columns"):
            self._assert_skips(EXPRESSION)

    def _assert_skips(self, condition: str) -> None:
        found = self.judge.read(self.path, condition=condition, **BY_INDEXES)
        assert found.num_rows, condition
        assert_same_rows(found, self.cell.open(self.path).scan(where=condition).to_arrow(), by=["id"])
        scanned = self.judge.files_scanned(self.path, condition, **BY_INDEXES)
        everything = self.judge.files_scanned(self.path, condition, **BY_LISTING)
        assert 0 < scanned < everything, f"{condition}: {scanned} of {everything} files"
        if condition == CONDITIONS["record"]:
            assert scanned == 1, "the record index names one file group"

    def _expect(self, operation: str, given: pa.Table) -> None:
        getattr(self.expected, "upsert" if operation == "insert" else operation)(given)


def reading_beside(release: JudgeProcess, second: JudgeProcess) -> JudgeProcess | None:
    """hudi-rs, where it can read: its release 0.5 does not read metadata tables to which Hudi 1.1 or 1.2 has written (docs/spec-deviations.md)."""
    return second if release.release == "1.0.2" else None


def make(cell: Cell, path: Path, judge: JudgeProcess, second: JudgeProcess | None = None) -> Relay:
    """A table of two file groups in each partition, with updates, a late row of each of three keys, and deletes."""
    cell.create(path)
    relay = Relay(cell, path, judge, Expected(cell), second)
    first, more = rows(range(60), 100), rows(range(60, 90), 100)
    cell.open(path).insert(first)
    cell.open(path, **OWN_FILES).insert(more)
    relay.expected.upsert(first)
    relay.expected.upsert(more)
    if cell.has("columns"):
        table = cell.open(path)
        table.indexes.create("idx_city", ["city"])
        table.indexes.create("by_label", ["label"], "column_stats", {"expr": "lower"})
    relay.validate()
    relay.ours(
        ("upsert", rows(range(30, 66), 200)),
        ("upsert", rows(range(40, 43), 150)),
        ("delete", rows(range(6), 200)),
    )
    return relay


def go_round(relay: Relay) -> None:
    """Hudi reads and continues, with its services; then we do."""
    cell = relay.cell
    relay.assert_indexes_are_used()
    relay.hudis(("upsert", rows([*range(33, 39), *range(90, 96)], 300)), ("delete", rows(range(12, 15), 300)))
    if cell.merges_on_read:
        compacting = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
        relay.hudis(("upsert", rows(range(21, 24), 310)), **compacting)
    clustering = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    relay.hudis(("upsert", rows(range(24, 27), 320)), **clustering)
    cleaning = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "40",
        "hoodie.keep.max.commits": "50",
    }
    relay.cleaned_by_hudi = True
    relay.hudis(("upsert", rows(range(27, 30), 330)), **cleaning)
    done = {str(instant.action) for instant in cell.open(relay.path).timeline if instant.is_completed}
    assert {"replacecommit", "clean"} <= done, "Hudi has clustered and cleaned"
    relay.rebuild_after_a_clean_of_hudi()
    relay.ours(("upsert", rows([*range(33, 39), *range(96, 102)], 400)), ("delete", rows(range(15, 18), 400)))
    if cell.merges_on_read:
        relay.service(cell.open(relay.path).compaction.run)
    relay.ours(("insert", rows(range(110, 120), 410)), **OWN_FILES)
    relay.service(cell.open(relay.path).clustering.run)
    relay.ours(("upsert", rows(range(60, 102), 500)), ("upsert", rows(range(60, 102), 510)))
    relay.service(cell.open(relay.path, hoodie__clean__commits__retained="1").cleaning.run)
    relay.hudis(("upsert", rows(range(99, 105), 600)))


def _skip_unknown(cell: Cell, release: JudgeProcess) -> None:
    if cell.version == 9 and release.release == "1.0.2":
        pytest.skip("Hudi 1.0.2 does not open tables of version 9")


@pytest.mark.one_in(3, first=2)
@pytest.mark.row("I1", "I2", "I3", "I4", "I5", "I7", "I8", "Q3")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cell", [*pairwise(), *pairwise(9)], ids=lambda cell: cell.name)
def test_a_table_of_each_kind_goes_from_hand_to_hand(
    release: JudgeProcess, second_reader: JudgeProcess, cell: Cell, tmp_path: Path
) -> None:
    _skip_unknown(cell, release)
    go_round(make(cell, tmp_path / "table", release, reading_beside(release, second_reader)))


@pytest.mark.slow
@pytest.mark.row("I1", "I2", "I3", "I5", "Q3")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "cell", [cell for n in (8, 9) for cell in pairwise(n) if cell.indexes == "record"], ids=lambda cell: cell.name
)
def test_twenty_commits_in_turn_keep_every_index_true(
    release: JudgeProcess, second_reader: JudgeProcess, cell: Cell, tmp_path: Path
) -> None:
    _skip_unknown(cell, release)
    relay = make(cell, tmp_path / "table", release, reading_beside(release, second_reader))
    for number in range(10):
        ts = 1000 + 10 * number
        relay.ours(("upsert", rows([*range(30 + number, 40 + number), 200 + number], ts)))
        relay.hudis(("upsert", rows([*range(35 + number, 45 + number), 300 + number], ts + 1)))
    relay.assert_indexes_are_used()


def test_the_sample_has_each_pair_of_values() -> None:
    pairs = lambda cells: {  # noqa: E731
        pair for c in cells for pair in ((c.kind, c.indexes), (c.kind, c.merge_mode), (c.indexes, c.merge_mode))
    }
    assert pairs(pairwise()) == pairs(all_cells())
    assert len(pairwise()) == len(all_cells()) / 2
    assert DAYS == len({row["day"] for row in rows(range(6), 1).to_pylist()})
