"""Commits without rows: every Hudi reads a table that has some, finds no change in them, and goes on writing after one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from support.tables import create_plain

import pyhudi_core as hudi

from .judges import JudgeProcess, assert_same_rows

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64()), ("ts", pa.int64())])
THEIRS = {
    "hoodie.table.name": "checkpoints",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
}
POSITION = {"pyhudi.checkpoint.orders": '{"copy":{"watermark":"20260101000000001"}}'}


def _rows(*ids: int, ts: int = 1) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "day": "ab"[i % 2], "price": float(ts), "ts": ts} for i in ids], SCHEMA)


def test_hudi_reads_and_continues_a_table_with_commits_without_rows(judge: JudgeProcess, tmp_path: Path) -> None:
    path = tmp_path / "checkpoints"
    table = create_plain(str(path), SCHEMA, "id", "day", "ts", name="checkpoints")

    def position() -> hudi.Commit:
        with table.begin("upsert", extra_metadata=POSITION, allow_empty=True) as write:
            return write.commit()

    position()
    table.upsert(_rows(1, 2))
    empty = position()
    expected = _rows(1, 2)
    assert_same_rows(judge.read(path), expected, by=["id"], columns=SCHEMA.names)
    assert_same_rows(judge.read_as_of(path, empty.instant), expected, by=["id"], columns=SCHEMA.names)

    before = table.timeline.commits[-2].completion_time
    assert before is not None
    assert judge.read_since(path, before if judge.stays_exclusive else str(int(before) + 1)).num_rows == 0
    assert table.incremental(after=before).to_arrow().num_rows == 0

    if judge.writes:
        judge.write(path, _rows(2, 3, ts=2), "upsert", **THEIRS)
        after = pa.concat_tables([_rows(1), _rows(2, 3, ts=2)])
        ours = hudi.open_table(str(path))
        assert_same_rows(ours.scan().to_arrow(), after, by=["id"], columns=SCHEMA.names)
        assert_same_rows(judge.read(path), after, by=["id"], columns=SCHEMA.names)
        assert ours.schema == SCHEMA
        found = next(iter(ours.commits_with("pyhudi.checkpoint.")))
        assert found[0].requested_time == empty.instant
