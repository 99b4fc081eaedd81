"""Tables of version 9, which Hudi 1.1 and later make by default: Hudi makes or raises them and we continue, or we make them and Hudi continues.

`test_matrix` has our tables of version 9 with each set of indexes; here are the tables of Hudi, those that it raised from version 8, and the types of
columns in statistics.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from support.metadata_tables import assert_metadata_is_true

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows
from .matrix_cells import Cell
from .test_matrix import BY_INDEXES, BY_LISTING, Relay, go_round, make

_MODEL = "org.apache.hudi.common.model"
BASE = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.write.table.version": "9",
    "hoodie.write.auto.upgrade": "true",
    "hoodie.parquet.small.file.limit": "0",
}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
CASES = {
    "copy_on_write": {"hoodie.metadata.record.index.enable": "true"},
    "merge_on_read": MERGE_ON_READ,
    "commit_time": {**MERGE_ON_READ, "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"},
    "non_defaults": {
        **MERGE_ON_READ,
        "hoodie.datasource.write.payload.class": f"{_MODEL}.OverwriteNonDefaultsWithLatestAvroPayload",
    },
    "partial_update_in_base_files": {"hoodie.datasource.write.payload.class": f"{_MODEL}.PartialUpdateAvroPayload"},
    "partial_update": {**MERGE_ON_READ, "hoodie.datasource.write.payload.class": f"{_MODEL}.PartialUpdateAvroPayload"},
}


@pytest.fixture(scope="module", params=["1.1.1", "1.2.0"])
def writer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeProcess]:
    with JudgeProcess(request.param, tmp_path_factory.mktemp("judge") / "version-9.log") as running:
        yield running


def rows(first: int, last: int, ts: int, a: str | None, b: int | None) -> pa.Table:
    numbers = range(first, last)
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "day": [f"d{number % 2}" for number in numbers],
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "a": pa.array([a] * len(numbers), pa.string()),
            "b": pa.array([b] * len(numbers), pa.int32()),
        }
    )


@pytest.mark.slow
@pytest.mark.row("Q2", "J4")
@pytest.mark.parametrize("case", CASES)
def test_a_table_of_version_9_is_read_and_continued(case: str, writer: JudgeProcess, tmp_path: Path) -> None:
    path, options = tmp_path / case, BASE | CASES[case]
    steps = [
        ("upsert", rows(0, 10, 5, "first", 1)),
        ("upsert", rows(2, 6, 7, "newer", None)),
        ("upsert", rows(4, 8, 3, None, 3)),
        ("delete", rows(0, 1, 9, "gone", 0)),
        ("upsert", rows(9, 12, 8, None, 8)),
    ]
    for number, (operation, data) in enumerate(steps):
        writer.write(path, data, operation, mode="append" if number else "overwrite", **options)
    table = hudi.open_table(path)
    assert table.config.version == 9
    commits = list(table.timeline.commits)
    by = ["_hoodie_record_key"]
    assert_same_rows(table.scan().to_arrow(), writer.read(path), by=by)
    second = commits[1].requested_time
    assert_same_rows(table.scan(as_of=second).to_arrow(), writer.read_as_of(path, second), by=by)
    if case == "copy_on_write":  # of logs, Hudi's incremental query also returns rows that lost the merge
        since = commits[2].completion_time or ""
        assert_same_rows(table.incremental(after=since).to_arrow(), writer.read_since(path, since), by=by)
    assert not table.check().errors
    table.upsert(rows(3, 6, 20, "ours", None))
    table.upsert(rows(1, 3, 4, "late", 5))
    table.upsert(rows(5, 10, 21, None, 9))
    table.delete(rows(7, 9, 20, "", 0).select(["id", "day"]))
    table.insert(rows(20, 24, 20, "new", 6))
    _assert_equal(table, writer, path)
    if "hoodie.datasource.write.table.type" in CASES[case]:
        assert table.compaction.run()
        _assert_equal(table, writer, path)
    writer.write(path, rows(4, 22, 30, None, 7), "upsert", **options)
    _assert_equal(hudi.open_table(path), writer, path)


def _assert_equal(table: hudi.HudiTable, writer: JudgeProcess, path: Path) -> None:
    """Both read the same, Hudi by the indexes and by a listing; the doctor finds nothing."""
    for how in (BY_INDEXES, BY_LISTING):
        assert_same_rows(
            table.scan(meta=False).to_arrow(),
            writer.read(path, **how),
            by=["id"],
            columns=["id", "day", "ts", "a", "b"],
        )
    assert_metadata_is_true(table)
    assert not table.check().errors


@pytest.mark.slow
@pytest.mark.row("Q2")
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_that_hudi_raised_to_version_9_goes_from_hand_to_hand(
    kind: str, writer: JudgeProcess, tmp_path: Path
) -> None:
    """Its statistics and indexes keep version 1: each index is written in the version of its definition."""
    cell = Cell(kind, "columns", "EVENT_TIME_ORDERING")
    relay: Relay = make(cell, tmp_path / "table", writer)
    relay.cell = _Raising(kind, "columns", "EVENT_TIME_ORDERING", 9)
    go_round(relay)
    assert relay.cell.open(relay.path).config.version == 9


class _Raising(Cell):
    """Hudi may raise the table."""

    def hudis(self, **more: str) -> dict[str, str]:
        return super().hudis(**more) | {"hoodie.write.auto.upgrade": "true"}


TYPED = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.string()),
        ("ts", pa.int64()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("single", pa.float32()),
        ("price", pa.decimal128(12, 2)),
        ("big", pa.decimal128(38, 20)),
        ("born", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("data", pa.binary()),
        ("nothing", pa.string()),
    ]
)
CONDITIONS = (
    "small > 30",
    "single < -2",
    "price >= 12.50",
    "price < -3",
    "big > 1000000000000000000",
    "born = DATE '2020-02-05'",
    "born < DATE '2020-01-04'",
    "at > TIMESTAMP '1970-01-02 12:00:00'",
    "at < TIMESTAMP '1969-12-31 03:00:00'",
    "nothing IS NOT NULL",
    "nothing IS NULL AND small = 3",
    "flag AND small = 4",
)


def typed(numbers: range, ts: int) -> pa.Table:
    first, zero = dt.datetime(1969, 12, 31, tzinfo=dt.UTC), Decimal("12345678901234567.25")
    found = [
        {
            "id": f"k{n:03d}", "day": f"d{n // 10}", "ts": ts, "flag": n % 2 == 0, "small": n, "single": (n - 20) / 8,
            "price": Decimal(n - 20) / 2, "big": zero * (n - 20), "born": dt.date(2020, 1, 1) + dt.timedelta(n),
            "at": first + dt.timedelta(hours=n), "wall": dt.datetime(1969, 12, 31) + dt.timedelta(hours=n),
            "data": bytes([n, 255]), "nothing": None,
        }
        for n in numbers
    ]  # fmt: skip
    return pa.Table.from_pylist(found, TYPED)


@pytest.mark.slow
@pytest.mark.row("I2", "I3")
@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_hudi_skips_files_by_our_statistics_of_every_type(kind: str, writer: JudgeProcess, tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = hudi.create_table(path, TYPED, "id", "day", "ts", kind, name="orders", version=9)
    table.upsert(typed(range(40), 1))
    table.upsert(typed(range(5, 45, 4), 2))
    for condition in CONDITIONS:
        ours = table.scan(where=condition).to_arrow()
        for how in (BY_INDEXES, BY_LISTING):
            theirs = writer.read(path, condition=condition, **how)
            assert sorted(theirs.column("id").to_pylist()) == sorted(ours.column("id").to_pylist()), (condition, how)
    skipping = writer.files_scanned(path, "price >= 12.50", **BY_INDEXES)
    assert skipping < writer.files_scanned(path, "price >= 12.50", **BY_LISTING) or kind == "merge_on_read"
    options = {key: value for key, value in BASE.items() if "small.file" not in key} | {
        "hoodie.datasource.write.table.type": kind.upper(), "hoodie.metadata.index.column.stats.enable": "true"
    }  # fmt: skip
    writer.write(path, typed(range(38, 50), 3), "upsert", **options)
    table.upsert(typed(range(3), 4))
    for condition in CONDITIONS:
        ours = table.scan(where=condition).to_arrow()
        theirs = writer.read(path, condition=condition, **BY_INDEXES)
        assert sorted(theirs.column("id").to_pylist()) == sorted(ours.column("id").to_pylist()), condition
    assert_metadata_is_true(table)
