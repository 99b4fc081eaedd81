"""Non-blocking concurrency control with Hudi 1.0.2 beside us: both write the same file groups at the same time, and no write is planned again.

Event time decides which row of a key is seen, so the rows do not depend on who committed first. Both sides have the same mode, index and lock.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.index.bucket import file_id_of
from pyhudi_core.model.instant import Action

from .judges import JudgeProcess, assert_same_rows
from .side_by_side import ATTEMPTS, HUDIS, SAME_TIME

RELEASE = "1.0.2"
BUCKETS = 2
SCHEMA = pa.schema([("id", pa.string()), ("value", pa.string()), ("day", pa.string()), ("ts", pa.int64())])
OURS: dict[str, object] = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": BUCKETS,
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.wait_time_ms": 120_000,
    "pyhudi.commit.retries": 0,
}
THEIRS = HUDIS | {
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}


def rows(who: str, day: str, *keys_and_times: tuple[int, int]) -> pa.Table:
    """Rows of one writer: a key and its event time each."""
    made = [{"id": f"k{key}", "value": f"{who}-{at}", "day": day, "ts": at} for key, at in keys_and_times]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def opened(path: Path) -> hudi.HudiTable:
    return hudi.open_table(str(path), options=OURS)


def made(path: Path) -> hudi.HudiTable:
    return create_plain(
        str(path), SCHEMA, "id", "day", ordering="ts", table_type="MERGE_ON_READ", options=OURS, name="both"
    )


def agreed(judge: JudgeProcess, path: Path) -> dict[tuple[str, str], str]:
    """The value of each key and day, as both readers see it."""
    found = opened(path).scan().to_arrow()
    assert_same_rows(judge.read(path), found, by=["day", "id"])
    assert opened(path).check().ok, opened(path).check().findings
    return {(row["id"], row["day"]): row["value"] for row in found.select(SCHEMA.names).to_pylist()}


def refuse_others(judge: JudgeProcess) -> None:
    if judge.release != RELEASE:
        pytest.skip(f"only {RELEASE} runs beside us")


@pytest.mark.row("M2", "Q3")
@pytest.mark.timeout(300)
def test_hudi_and_we_begin_and_change_the_same_buckets_at_once(judge: JudgeProcess, tmp_path: Path) -> None:
    refuse_others(judge)
    path = tmp_path / "table"
    made(path).upsert(rows("ours", "a", (1, 10), (2, 10), (3, 10)))
    # Hudi's commit is between the files and the commit of ours: in buckets that are there, and in new ones.
    with opened(path).begin("upsert") as write:
        write.write(pa.concat_tables([rows("ours", "a", (1, 20), (2, 40), (4, 5)), rows("ours", "b", (1, 1), (2, 9))]))
        theirs = pa.concat_tables([rows("hudi", "a", (1, 30), (2, 30)), rows("hudi", "b", (1, 3), (2, 2), (3, 3))])
        judge.write(path, theirs, "upsert", **THEIRS)
        assert write.commit().retries == 0
    expected = {
        ("k1", "a"): "hudi-30", ("k2", "a"): "ours-40", ("k3", "a"): "ours-10", ("k4", "a"): "ours-5",
        ("k1", "b"): "hudi-3", ("k2", "b"): "ours-9", ("k3", "b"): "hudi-3",
    }  # fmt: skip
    assert agreed(judge, path) == expected
    ids = {piece.file_id for piece in opened(path).snapshot().view.all_slices()}
    assert ids == {file_id_of(bucket) for bucket in range(BUCKETS)}, "both give a bucket the same file id"
    # A compaction takes the logs that had completed; what completes later stays on top of it.
    with opened(path).begin("upsert") as write:
        write.write(rows("ours", "a", (1, 35), (3, 9)))
        assert opened(path).compaction.run()
        write.commit()
    judge.write(path, rows("hudi", "a", (4, 6)), "upsert", **THEIRS)
    assert agreed(judge, path) == expected | {("k1", "a"): "ours-35", ("k4", "a"): "hudi-6"}


@pytest.mark.slow
@pytest.mark.row("M2", "Q3")
@pytest.mark.timeout(600)
def test_hudi_compacts_what_both_have_logged_and_rows_of_equal_event_time_are_the_same_for_both(
    judge: JudgeProcess, tmp_path: Path
) -> None:
    refuse_others(judge)
    path = tmp_path / "table"
    made(path).upsert(rows("ours", "a", (1, 10), (2, 10)))
    with opened(path).begin("upsert") as write:
        write.write(rows("ours", "a", (1, 20), (2, 20)))
        judge.write(path, rows("hudi", "a", (1, 20), (3, 20)), "upsert", **THEIRS)
        write.commit()
    tied = agreed(judge, path)
    assert tied[("k1", "a")] == "hudi-20", "of equal event times the log of the later requested time wins"
    options = "hoodie.compact.inline.max.delta.commits=1,hoodie.payload.ordering.field=ts"
    judge.sql(f"CALL run_compaction(op => 'run', path => '{path}', options => '{options}')")
    [compaction] = [i for i in opened(path).timeline.commits if i.action is Action.COMMIT]
    assert compaction.is_completed
    assert agreed(judge, path) == tied
    assert not [piece for piece in opened(path).snapshot().view.all_slices() if piece.logs]


@pytest.mark.slow
@pytest.mark.row("M2", "Q3", "T4")
@pytest.mark.timeout(2400)
def test_hudi_and_we_write_the_same_file_groups_for_long(judge: JudgeProcess, tmp_path: Path) -> None:
    """Every row has an event time of its own, so the rows that must be there are known; ours also compacts meanwhile."""
    refuse_others(judge)
    path = tmp_path / "table"
    made(path).upsert(rows("ours", "a", *((key, 0) for key in range(8))))
    chance = random.Random(7)
    times = iter(chance.sample(range(1, 100_000), 4_000))
    newest = dict.fromkeys(range(8), (0, "ours-0"))

    def batch(who: str) -> pa.Table:
        return rows(who, "a", *((key, next(times)) for key in sorted(chance.sample(range(8), 3))))

    def count(written: pa.Table) -> None:
        for row in written.to_pylist():
            key = int(row["id"][1:])
            newest[key] = max(newest[key], (row["ts"], row["value"]))

    theirs = [batch("hudi") for _ in range(25)]
    told: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: told.extend(judge.write_each(path, theirs, ATTEMPTS, **THEIRS)))
    thread.start()
    commits = compactions = 0
    while thread.is_alive():
        written = batch("ours")
        try:
            assert opened(path).upsert(written).retries == 0
        except CommitAbortedError as aborted:
            assert SAME_TIME in aborted.message
            continue
        count(written)
        commits += 1
        if commits % 7 == 0:
            compactions += bool(opened(path).compaction.run())
        time.sleep(chance.uniform(0.1, 0.6))
    thread.join()
    assert [answer["ok"] for answer in told] == [True] * len(theirs), told
    assert [answer["conflicts"] for answer in told] == [0] * len(theirs), told
    for written in theirs:
        count(written)
    print(f"{len(theirs)} commits of Hudi's, {commits} of ours, {compactions} compactions, no conflict")
    assert commits > 5 and compactions
    assert agreed(judge, path) == {(f"k{key}", "a"): value for key, (_, value) in newest.items()}
    opened(path).compaction.run()
    assert agreed(judge, path) == {(f"k{key}", "a"): value for key, (_, value) in newest.items()}
