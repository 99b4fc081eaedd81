"""One table with a bucket index goes back and forth between Hudi and us: both put a key into the same file group, and none is made twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.tables import create_plain

import pyhudi_core as hudi

from .bucket_rows import SCHEMA, rows
from .judges import JudgeProcess, assert_same_rows

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
KINDS = [
    pytest.param("MERGE_ON_READ", "id"),
    pytest.param("COPY_ON_WRITE", "id", marks=pytest.mark.slow),
    pytest.param("MERGE_ON_READ", "id,part", marks=pytest.mark.slow),
]


def assert_all_agree(judge: JudgeProcess, path: Path, expected: pa.Table) -> None:
    table = hudi.open_table(str(path))
    assert_same_rows(table.scan().to_arrow(), expected, by=["id"])
    assert_same_rows(judge.read(path), expected, by=["id"])
    for partition in table.snapshot().view.partitions():
        numbers = [piece.file_id[:8] for piece in table.snapshot().view.slices(partition)]
        assert sorted(numbers) == [f"{bucket:08d}" for bucket in range(4)]


@pytest.mark.row("I12")
@pytest.mark.parametrize(("kind", "key"), KINDS)
@pytest.mark.timeout(600)
def test_a_bucket_index_goes_back_and_forth(judge: JudgeProcess, tmp_path: Path, kind: str, key: str) -> None:
    if not judge.writes:
        pytest.skip("hudi-rs does not write")
    path = tmp_path / "table"
    options = BUCKETS | {
        "hoodie.table.name": "both",
        "hoodie.datasource.write.recordkey.field": key,
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.bucket.index.hash.field": key,
        "hoodie.metadata.enable": "false",
    }
    ours = create_plain(
        str(path), SCHEMA, key.split(","), "day", ordering="ts", table_type=kind, options=BUCKETS, name="both"
    )
    ours.upsert(rows(0, 60, 1))
    judge.write(path, rows(40, 100, 2, "ba"), "upsert", **options)
    # A key of another partition is another row: from 40 on, Hudi's rows are beside ours.
    expected = pa.concat_tables([rows(0, 60, 1), rows(40, 100, 2, "ba")]).sort_by(
        [("id", "ascending"), ("ts", "ascending")]
    )
    found = hudi.open_table(str(path)).scan(columns=SCHEMA.names).to_arrow()
    assert found.sort_by([("id", "ascending"), ("ts", "ascending")]).equals(expected)
    again = hudi.open_table(str(path), options=BUCKETS)
    again.delete(rows(40, 60, 3).select(list(dict.fromkeys([*key.split(","), "day"]))))
    again.upsert(rows(60, 140, 4, "ba"))
    judge.write(path, rows(90, 160, 5, "ba"), "upsert", **options)
    left = [rows(0, 40, 1), rows(40, 60, 2, "ba"), rows(60, 90, 4, "ba"), rows(90, 160, 5, "ba")]
    assert_all_agree(judge, path, pa.concat_tables(left))
