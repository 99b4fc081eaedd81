"""A table with consistent hashing goes back and forth between Hudi 1.0.2 and us, also after Hudi has merged or split its buckets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.index.hashing_metadata import FIRST, load
from pyhudi_core.model.instant import Action

from .bucket_rows import SCHEMA, rows
from .judges import JudgeProcess, assert_same_rows

RELEASE = "1.0.2"
OURS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
}
_CLUSTERING = "org.apache.hudi.client.clustering"
RESIZING = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.bucket.index.max.num.buckets": "16",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.clustering.plan.strategy.class": f"{_CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": f"{_CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy",
    "hoodie.clustering.updates.strategy": f"{_CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy",
}
"""Small buckets are merged."""


def theirs(key: str) -> dict[str, str]:
    return OURS | {
        "hoodie.table.name": "both",
        "hoodie.datasource.write.recordkey.field": key,
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.bucket.index.hash.field": key,
        "hoodie.metadata.enable": "false",
    }


def opened(path: Path) -> hudi.HudiTable:
    return hudi.open_table(str(path), options=OURS)


def ring(path: Path, partition: str) -> list[str]:
    table = opened(path)
    completed = {instant.requested_time for instant in table.timeline.commits}
    found = load(table._opened.storage, partition, completed.__contains__)
    assert found is not None
    return [found.instant, *found.file_ids]


def agreed(judge: JudgeProcess, path: Path, expected: pa.Table) -> None:
    table = opened(path)
    assert_same_rows(table.scan().to_arrow(), expected, by=["id", "day"])
    assert_same_rows(judge.read(path), expected, by=["id", "day"])
    for partition in table.snapshot().view.partitions():
        ids = {piece.file_id for piece in table.snapshot().view.slices(partition)}
        assert ids <= set(ring(path, partition)[1:]), "a file group that no hash comes to"
    assert table.check().ok, table.check().findings


def back_and_forth(judge: JudgeProcess, path: Path, key: str, first: str) -> None:
    if judge.release != RELEASE:
        pytest.skip("Hudi's option for the engine is the same in all releases; one is enough")
    options = theirs(key)
    if first == "ours":
        made = create_plain(
            str(path),
            SCHEMA,
            key.split(","),
            "day",
            ordering="ts",
            table_type="MERGE_ON_READ",
            options=OURS,
            name="both",
        )
        made.upsert(rows(0, 60, 1))
    else:
        judge.write(path, rows(0, 60, 1), "upsert", mode="overwrite", **options)
        opened(path).upsert(rows(20, 60, 2))
    stayed = 60 if first == "ours" else 20
    judge.write(path, rows(stayed - 20, 100, 3), "upsert", **options)
    again = opened(path)
    again.upsert(rows(90, 140, 4))
    gone = rows(0, 5, 9).select(list(dict.fromkeys([*key.split(","), "day"])))
    assert again.delete(gone).stats.rows_deleted == 5
    changed = stayed - 20
    before = rows(5, max(5, changed), 1), rows(max(5, changed), 90, 3), rows(90, 140, 4)
    agreed(judge, path, pa.concat_tables(before))


@pytest.mark.row("I12", "Q3")
@pytest.mark.timeout(600)
def test_a_table_of_ours_with_consistent_hashing_goes_back_and_forth(judge: JudgeProcess, tmp_path: Path) -> None:
    back_and_forth(judge, tmp_path / "table", "id", "ours")


@pytest.mark.slow
@pytest.mark.row("I12", "Q3")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", ["ours", "hudi"])
def test_buckets_that_hudi_has_merged_are_continued(judge: JudgeProcess, tmp_path: Path, first: str) -> None:
    path, key = tmp_path / "table", "id,part"
    back_and_forth(judge, path, key, first)
    before = ring(path, "a" if first == "hudi" else opened(path).snapshot().view.partitions()[0])
    assert before[0] == FIRST
    opened(path).compaction.run()
    judge.write(path, rows(140, 150, 5), "upsert", **theirs(key), **RESIZING)
    clustered = [i for i in opened(path).timeline.commits if i.action is Action.REPLACECOMMIT]
    assert clustered
    [partition] = {p for p in opened(path).snapshot().view.partitions() if p.endswith("a")}
    assert ring(path, partition)[0] == clustered[-1].requested_time
    now = opened(path).scan(columns=SCHEMA.names).to_arrow()
    agreed(judge, path, now)
    opened(path).upsert(rows(130, 160, 6))
    judge.write(path, rows(155, 170, 7), "upsert", **theirs(key))
    kept = now.filter(pa.compute.less(now["ts"], 4))
    assert len(kept) == 85
    found = opened(path).scan(columns=SCHEMA.names).to_arrow()
    agreed(judge, path, found)
    expected = pa.concat_tables([kept, rows(90, 130, 4), rows(130, 155, 6), rows(155, 170, 7)])
    assert_same_rows(found, expected, by=["id", "day"])


SPLITTING = {
    "hoodie.bucket.index.max.num.buckets": "16",
    "hoodie.bucket.index.split.threshold": "0.000001",
    "hoodie.bucket.index.merge.threshold": "0",
}
MERGING = {"hoodie.bucket.index.min.num.buckets": "2"}


def resized(path: Path, options: dict[str, str]) -> int:
    """Cluster here; returns the number of buckets of the first partition."""
    table = hudi.open_table(str(path), options=OURS | options)
    assert table.clustering.run()
    return len(ring(path, table.snapshot().view.partitions()[0])) - 1


@pytest.mark.slow
@pytest.mark.row("I12", "N5", "Q3")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("key", ["id", "id,part"])
def test_buckets_that_we_have_split_and_merged_are_continued_by_hudi(
    judge: JudgeProcess, tmp_path: Path, key: str
) -> None:
    path = tmp_path / "table"
    back_and_forth(judge, path, key, "ours")
    now = opened(path).scan(columns=SCHEMA.names).to_arrow()
    assert resized(path, SPLITTING) == 8
    agreed(judge, path, now)
    judge.write(path, rows(100, 170, 6), "upsert", **theirs(key))
    changed = pa.concat_tables([now.filter(pa.compute.less(_number(now), 100)), rows(100, 170, 6)])
    agreed(judge, path, changed)
    opened(path).upsert(rows(150, 180, 7))
    assert resized(path, MERGING) == 2
    opened(path).archival.run()
    judge.write(path, rows(160, 190, 8), "upsert", **theirs(key))
    kept = changed.filter(pa.compute.less(_number(changed), 150))
    agreed(judge, path, pa.concat_tables([kept, rows(150, 160, 7), rows(160, 190, 8)]))


@pytest.mark.slow
@pytest.mark.row("I12", "N5", "Q3")
@pytest.mark.timeout(900)
def test_hudi_executes_our_plan_of_buckets_and_we_execute_hudis(judge: JudgeProcess, tmp_path: Path) -> None:
    if judge.release != RELEASE:
        pytest.skip("Hudi's plans of buckets are the same in all releases; one is enough")
    path = tmp_path / "table"
    made = hudi.create_table(
        str(path), SCHEMA, "id", "day", ordering="ts", table_type="MERGE_ON_READ", options=OURS, name="both"
    )
    made.upsert(rows(0, 100, 1))
    ours = hudi.open_table(str(path), options=OURS | SPLITTING).clustering.schedule()
    assert ours is not None
    cluster(judge, path, "execute", **SPLITTING)
    found = opened(path).timeline.find(ours.requested_time)
    assert found is not None
    assert found.is_completed
    [partition, *_] = opened(path).snapshot().view.partitions()
    assert len(ring(path, partition)) == 9
    opened(path).upsert(rows(80, 120, 2))
    expected = pa.concat_tables([rows(0, 80, 1), rows(80, 120, 2)])
    cluster(judge, path, "schedule", **MERGING)
    [plan] = [i for i in opened(path).timeline.pending if i.action is Action.CLUSTERING]
    assert opened(path).clustering.execute(plan).new_file_groups
    assert len(ring(path, partition)) < 9
    agreed(judge, path, expected)
    judge.write(path, rows(110, 130, 3), "upsert", **theirs("id"))
    agreed(judge, path, pa.concat_tables([rows(0, 80, 1), rows(80, 110, 2), rows(110, 130, 3)]))


def cluster(judge: JudgeProcess, path: Path, op: str, **options: str) -> None:
    """Hudi's procedure, with the strategies of consistent hashing."""
    given = {**theirs("id"), **RESIZING, **options, "hoodie.clustering.inline": "false"}
    listed = ",".join(f"{name}={value}" for name, value in given.items())
    judge.sql(f"CALL run_clustering(path => '{path}', op => '{op}', options => '{listed}')")


def _number(table: pa.Table) -> pa.ChunkedArray:
    return pa.compute.cast(pa.compute.utf8_slice_codeunits(table["id"], 1), pa.int64())
