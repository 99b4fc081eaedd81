"""Keys that move between partitions under a global index: what we do in the middle gives the same table as if Hudi had written all of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.metadata_tables import assert_metadata_is_true

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("price", pa.float64())])
Row = tuple[str, str, int, float]
FIRST: tuple[Row, ...] = tuple((f"k{n}", "abc"[n % 3], 5, float(n)) for n in range(9))
OURS: tuple[Row, ...] = (
    ("k0", "b", 6, 10.0),  # moves
    ("k1", "c", 5, 11.0),  # moves: of two rows with one ordering value the newer wins
    ("k2", "a", 4, 12.0),  # is older than the stored row, so it stays
    ("k3", "a", 6, 13.0),  # is in its partition already
    ("k9", "d", 6, 19.0),  # is new
)
LAST: tuple[Row, ...] = (("k0", "a", 7, 20.0), ("k1", "c", 7, 21.0), ("k9", "b", 7, 29.0), ("k4", "d", 7, 24.0))
KINDS = [
    pytest.param("COPY_ON_WRITE", "RECORD_INDEX", True),
    pytest.param("COPY_ON_WRITE", "RECORD_INDEX", False, marks=pytest.mark.slow),
    pytest.param("COPY_ON_WRITE", "GLOBAL_SIMPLE", True, marks=pytest.mark.slow),
    pytest.param("COPY_ON_WRITE", "GLOBAL_BLOOM", False, marks=pytest.mark.slow),
    pytest.param("MERGE_ON_READ", "GLOBAL_SIMPLE", True, marks=pytest.mark.slow),
    pytest.param("MERGE_ON_READ", "GLOBAL_BLOOM", True, marks=pytest.mark.slow),
]


def table_of(rows: tuple[Row, ...]) -> pa.Table:
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


@pytest.mark.slow
@pytest.mark.row("K14", "Q3")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("index", ["SIMPLE", "RECORD_INDEX"])
def test_hudi_continues_a_table_whose_updates_moved_to_other_file_groups(
    judge: JudgeProcess, tmp_path: Path, index: str
) -> None:
    if not judge.writes:
        pytest.skip("hudi-rs does not write")
    path = tmp_path / "table"
    options = {"hoodie.index.type": index, "hoodie.metadata.record.index.enable": str(index == "RECORD_INDEX").lower()}
    theirs = options | {
        "hoodie.table.name": "moves",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.metadata.enable": "true",
    }
    judge.write(path, table_of(FIRST), "upsert", mode="overwrite", **theirs)
    expected = {row[0]: row for row in FIRST}
    for ts in (10, 20):
        moved = tuple((key, day, ts, float(ts)) for key, day, *_ in FIRST[:5])
        hudi.open_table(str(path), options=options | {"pyhudi.update.moves.rows": True}).upsert(table_of(moved))
        back = tuple((key, day, ts + 1, float(ts + 1)) for key, day, *_ in FIRST[3:7])
        judge.write(path, table_of(back), "upsert", **theirs)
        expected |= {row[0]: row for row in (*moved, *back)}
        rows = table_of(tuple(expected.values()))
        assert_same_rows(judge.read(path), rows, by=["id"])
        assert_same_rows(hudi.open_table(str(path)).scan().to_arrow(), rows, by=["id"])
        assert_metadata_is_true(hudi.open_table(str(path)))


@pytest.mark.row("I5", "I10", "I11")
@pytest.mark.parametrize(("kind", "index", "moves"), KINDS)
@pytest.mark.timeout(600)
def test_rows_that_change_their_partition_end_where_hudi_puts_them(
    judge: JudgeProcess, tmp_path: Path, kind: str, index: str, moves: bool
) -> None:
    if not judge.writes:
        pytest.skip("hudi-rs does not write")
    of_index = {"GLOBAL_SIMPLE": "simple", "GLOBAL_BLOOM": "bloom", "RECORD_INDEX": "record"}[index]
    how = {"hoodie.index.type": index, f"hoodie.{of_index}.index.update.partition.path": str(moves).lower()}
    options = how | {
        "hoodie.table.name": "moves",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": str(index == "RECORD_INDEX").lower(),
    }
    alone, mixed = tmp_path / "alone", tmp_path / "mixed"
    for path in (alone, mixed):
        judge.write(path, table_of(FIRST), "upsert", mode="overwrite", **options)
    judge.write(alone, table_of(OURS), "upsert", **options)
    hudi.open_table(str(mixed), options=how).upsert(table_of(OURS))
    names = ["id", "_hoodie_partition_path", "ts", "price"]
    expected = judge.read(alone).select(names)
    assert_same_rows(judge.read(mixed), expected, by=["id"])
    assert_same_rows(hudi.open_table(str(mixed)).scan().to_arrow(), expected, by=["id"])
    for path in (alone, mixed):
        judge.write(path, table_of(LAST), "upsert", **options)
    expected = judge.read(alone).select(names)
    assert_same_rows(judge.read(mixed), expected, by=["id"])
    assert_same_rows(hudi.open_table(str(mixed)).scan().to_arrow(), expected, by=["id"])
