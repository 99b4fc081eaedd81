"""Tables of version 9, which Hudi 1.1 and later make by default: the release writes and reads them, and the same rows are read here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import TableVersionError, UnsupportedTableError

from .judges import JudgeProcess, assert_same_rows

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
def test_a_table_of_version_9_is_read_as_hudi_reads_it(case: str, writer: JudgeProcess, tmp_path: Path) -> None:
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
    if case == "partial_update":
        with pytest.raises(UnsupportedTableError, match="IGNORE_DEFAULTS"):
            table.scan().to_arrow()
        assert_same_rows(
            table.scan(mode="read_optimized").to_arrow(),
            writer.read(path, **{"hoodie.datasource.query.type": "read_optimized"}),
            by=["_hoodie_record_key"],
        )
        return
    commits = list(table.timeline.commits)
    by = ["_hoodie_record_key"]
    assert_same_rows(table.scan().to_arrow(), writer.read(path), by=by)
    second = commits[1].requested_time
    assert_same_rows(table.scan(as_of=second).to_arrow(), writer.read_as_of(path, second), by=by)
    if case == "copy_on_write":  # of logs, Hudi's incremental query also returns rows that lost the merge
        since = commits[2].completion_time or ""
        assert_same_rows(table.incremental(after=since).to_arrow(), writer.read_since(path, since), by=by)
    assert not table.check().errors
    with pytest.raises(TableVersionError, match="does not write"):
        table.upsert(rows(0, 1, 99, "x", 1))
