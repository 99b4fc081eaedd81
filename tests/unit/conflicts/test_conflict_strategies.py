"""The strategies of ``hoodie.write.lock.conflict.resolution.strategy``: by our words and by Hudi's class names."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tables import make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.conflict import (
    BUCKET,
    PREFER_WRITER,
    SIMPLE,
    STRATEGIES,
    Concurrent,
    ConflictKind,
    Touched,
    find_conflict,
)
from pyhudi_core.conflicts.matrix import Verdict
from pyhudi_core.errors import CommitConflictError, InvalidOptionError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.operation import OperationType
from pyhudi_core.options import WriteOptions

pytestmark = pytest.mark.row("O8")

KEY = "hoodie.write.lock.conflict.resolution.strategy"
PACKAGE = "org.apache.hudi.client.transaction."
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("simple", "simple"),
        ("Prefer_Writer", "prefer_writer"),
        (f"{PACKAGE}SimpleConcurrentFileWritesConflictResolutionStrategy", "simple"),
        (f"{PACKAGE}PreferWriterConflictResolutionStrategy", "prefer_writer"),
        (f"{PACKAGE}BucketIndexConcurrentFileWritesConflictResolutionStrategy", "bucket"),
    ],
)
def test_words_and_class_names_are_understood(text: str, word: str) -> None:
    assert WriteOptions.parse({KEY: text}).conflict.strategy == word
    assert word in STRATEGIES


def test_the_default_is_simple_and_others_are_refused() -> None:
    assert WriteOptions.parse({}).conflict.strategy == "simple"
    with pytest.raises(InvalidOptionError):
        WriteOptions.parse({KEY: f"{PACKAGE}IngestionPrimaryWriterBasedConflictResolutionStrategy"})


def _wrote(file_id: str, operation: str = "UPSERT") -> CommitMetadata:
    return CommitMetadata(operation, (WriteStat(file_id, f"p/{file_id}_0-0-0_1.parquet", "p", updates=1),))


def _beside(commit: CommitMetadata) -> Concurrent:
    return Concurrent(((Instant("2", Action.COMMIT, State.COMPLETED, "3"), commit),))


@pytest.mark.parametrize(
    ("one", "other", "same_bucket"),
    [
        ("00000007-aaaa-0", "00000007-bbbb-0", True),
        ("00000007-aaaa-0", "00000008-aaaa-0", False),
        ("0000000x-aaaa-0", "0000000x-bbbb-0", False),
        ("1b3e-a", "1b3e-b", False),
    ],
)
def test_bucket_takes_the_number_in_front_of_a_file_id_for_the_group(one: str, other: str, same_bucket: bool) -> None:
    mine, theirs = Touched.by(_wrote(one)), _beside(_wrote(other))
    assert find_conflict(mine, theirs, strategy=SIMPLE) is None
    found = find_conflict(mine, theirs, strategy=BUCKET)
    assert (found.kind if found else None) is (ConflictKind.FILE_GROUP if same_bucket else None)


def test_bucket_still_sees_the_very_same_group() -> None:
    assert find_conflict(Touched.by(_wrote("f")), _beside(_wrote("f")), strategy=BUCKET) is not None


def test_under_prefer_writer_a_plan_stops_no_write() -> None:
    plan = (Instant("2", Action.CLUSTERING, State.REQUESTED), frozenset({("p", "f")}))
    pending = Concurrent(plans=(plan,))
    write, service = Touched.by(_wrote("f")), Touched.by(_wrote("f", "CLUSTER"))
    simple = find_conflict(write, pending)
    assert simple is not None
    assert simple.kind is ConflictKind.PENDING_CLUSTERING
    assert find_conflict(write, pending, strategy=PREFER_WRITER) is None
    of_service = find_conflict(service, pending, strategy=PREFER_WRITER)
    assert of_service is not None
    assert of_service.verdict is Verdict.ABORT


def _plan_on_timeline(table: hudi.HudiTable, file_id: str) -> None:
    """A pending clustering of one file group, as Hudi puts it on the timeline."""
    piece = {"partitionPath": "day=a", "fileId": file_id}
    plan = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": [piece]}]}}
    time = "20200101000000000"
    body = encode_record("HoodieRequestedReplaceMetadata", plan, sync_marker=bytes(16))
    Path(table.location, ".hoodie", "timeline", f"{time}.clustering.requested").write_bytes(body)


def test_a_write_and_a_pending_clustering_on_a_real_table(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    _plan_on_timeline(table, commit.stats.files[0].file_id)
    with table.begin("upsert") as write, pytest.raises(CommitConflictError, match="plans to rewrite") as caught:
        write.write(orders((1, "a", 2.0)))  # refused before it writes a file
    assert caught.value.explanation.theirs.operation is OperationType.CLUSTER
    preferring = reopen(table, **{KEY.replace(".", "__"): "prefer_writer"})
    assert preferring.upsert(orders((1, "a", 3.0))).retries == 0


@pytest.mark.parametrize(("strategy", "yields"), [("simple", False), ("prefer_writer", True)])
@pytest.mark.parametrize("alive", [True, False])
def test_a_service_yields_to_writes_that_are_running(location: str, strategy: str, yields: bool, alive: bool) -> None:
    table = reopen(make(location), **{KEY.replace(".", "__"): strategy})
    group = ("day=a", table.upsert(orders((1, "a", 1.0))).stats.files[0].file_id)
    context = table._opened.context()
    start = context.folder.load()
    service = Touched(frozenset({group}), frozenset(), frozenset(), OperationType.CLUSTER)

    def refused() -> bool:
        return _raises(
            lambda: concurrent.refuse_conflicts(context, start, context.folder.load(), "20990101000000000", service)
        )

    with reopen(table).begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        if not alive:
            _kill(location, str(write.instant))
        assert refused() is (yields and alive)
    assert not refused(), "the write was rolled back"


def _raises(call: Callable[[], object]) -> bool:
    try:
        call()
    except CommitConflictError:
        return True
    return False


def _kill(location: str, time: str) -> None:
    os.utime(Path(location, ".hoodie", ".heartbeat", time), (1, 1))


def test_the_page_shows_the_table_that_runs() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "conflict_table.py"))
    page = (ROOT / "docs" / "conflicts.md").read_text(encoding="utf-8")
    assert page == script["render"](), "run python scripts/generate_docs.py"
    assert page.count("\n| restore, restore |") == 1
