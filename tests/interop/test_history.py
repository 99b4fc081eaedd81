"""The archived timeline goes from hand to hand: Hudi reads ours, archives on top of it, and we go on from there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.formats.history_manifest import decode_manifest
from pyhudi_core.model.instant import Instant

from .judges import JudgeProcess, assert_same_rows

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64()), ("ts", pa.int64())])
OURS = {
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.timeline.compaction.batch.size": 3,
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
}
THEIRS = {
    "hoodie.table.name": "archived",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.archive.automatic": "true",
    "hoodie.archive.merge.enable": "false",
    "hoodie.metadata.enable": "false",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.timeline.compaction.batch.size": "3",
    "hoodie.commits.archival.batch": "2",
}
MERGE_ON_READ = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
"""A compaction after each second commit: until then its trigger keeps commits on the timeline."""
KEY = ["id"]


class Lake:
    """One table that both write, and what it must hold."""

    def __init__(self, path: Path, kind: str = "copy_on_write") -> None:
        self.path = path
        create_plain(str(path), SCHEMA, "id", "day", "ts", name="archived", table_type=kind)
        more = MERGE_ON_READ if kind == "merge_on_read" else {}
        self.ours = {**OURS, **more}
        self.theirs = {**THEIRS, **more, "hoodie.datasource.write.table.type": kind.upper()}
        self.rows: dict[int, dict[str, object]] = {}
        self.taken = 0
        self.known: dict[Instant, int] = {}

    @property
    def table(self) -> hudi.HudiTable:
        return hudi.open_table(str(self.path), options=self.ours)

    @property
    def expected(self) -> pa.Table:
        return pa.Table.from_pylist(list(self.rows.values()), schema=SCHEMA)

    def batch(self) -> pa.Table:
        self.taken += 1
        new = [
            {"id": key, "day": "ab"[key % 2], "price": float(self.taken), "ts": self.taken} for key in (0, self.taken)
        ]
        self.rows.update({int(str(row["id"])): row for row in new})
        return pa.Table.from_pylist(new, schema=SCHEMA)

    def by_us(self, times: int) -> None:
        for _ in range(times):
            self.table.upsert(self.batch())
            self.note()

    def by(self, judge: JudgeProcess, times: int) -> None:
        for _ in range(times):
            judge.write(self.path, self.batch(), "upsert", **self.theirs)
            self.note()

    def note(self) -> None:
        """Remember what every commit said while it was on the active timeline, and see that all of them are found."""
        table = self.table
        for instant in table.timeline.commits:
            self.known.setdefault(instant, sum(stat.rows for stat in table.commit_metadata(instant).stats))
        for instant, said in self.known.items():
            assert sum(stat.rows for stat in table.commit_metadata(instant).stats) == said, instant

    @property
    def archived(self) -> list[Instant]:
        active = set(self.table.timeline.commits)
        return sorted(instant for instant in self.known if instant not in active)

    @property
    def version(self) -> int:
        return int((self.path / ".hoodie/timeline/history/_version_").read_text())

    def layers(self) -> set[int]:
        data = (self.path / f".hoodie/timeline/history/manifest_{self.version}").read_bytes()
        return {file.layer for file in decode_manifest(data, "manifest")}


@pytest.mark.row("B7")
@pytest.mark.row("B8")
@pytest.mark.row("B9")
@pytest.mark.parametrize("kind", ["copy_on_write", pytest.param("merge_on_read", marks=pytest.mark.slow)])
def test_both_read_and_continue_one_archived_timeline(judge: JudgeProcess, tmp_path: Path, kind: str) -> None:
    lake = Lake(tmp_path / "archived", kind)
    lake.by_us(16)
    assert len(lake.archived) >= 12
    assert lake.layers() >= {0, 1} or lake.layers() >= {1, 2}
    assert_same_rows(judge.read(lake.path), lake.expected, by=KEY, columns=SCHEMA.names)
    for instant in (lake.archived[3], lake.archived[-1]):
        ours = lake.table.scan(as_of=instant.requested_time).to_arrow()
        assert_same_rows(judge.read_as_of(lake.path, instant.requested_time), ours, by=KEY, columns=SCHEMA.names)
    if not judge.writes:
        return  # hudi-rs does not read the archived timeline, so its incremental reads begin with the active one

    since = lake.archived[4]
    ours = lake.table.incremental(after=since.completion_time).to_arrow()
    begin = since.completion_time or ""
    theirs = judge.read_since(lake.path, begin if judge.stays_exclusive else f"{int(begin) + 1}")
    assert_same_rows(theirs, ours, by=KEY, columns=SCHEMA.names)

    _lists_archived_commits(judge, lake)
    ours_up_to = lake.version
    before = set(lake.archived)
    lake.by(judge, 7)
    assert lake.version > ours_up_to, "Hudi was expected to archive on top of ours"
    assert len(set(lake.archived) - before) >= 5
    assert_same_rows(lake.table.scan().to_arrow(), lake.expected, by=KEY, columns=SCHEMA.names)
    assert_same_rows(judge.read(lake.path), lake.expected, by=KEY, columns=SCHEMA.names)

    theirs_up_to = lake.version
    lake.by_us(7)
    assert lake.version > theirs_up_to
    assert_same_rows(judge.read(lake.path), lake.expected, by=KEY, columns=SCHEMA.names)
    lake.by(judge, 2)
    assert_same_rows(lake.table.scan().to_arrow(), lake.expected, by=KEY, columns=SCHEMA.names)
    _lists_archived_commits(judge, lake)


def _lists_archived_commits(judge: JudgeProcess, lake: Lake) -> None:
    """Hudi's own procedure shows the archived commits, each with what its metadata says."""
    name = f"archived_{judge.release.replace('.', '_')}"
    judge.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{lake.path}'")
    shown = judge.sql(
        f"CALL show_archived_commits(table => '{name}', limit => 1000, start_ts => '20000101000000000', end_ts => '99991231235959999')"
    )
    assert {instant.requested_time for instant in lake.archived} <= {row[0] for row in shown}, shown[:3]
