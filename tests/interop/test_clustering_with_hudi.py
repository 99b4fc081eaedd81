"""Clustering with Hudi 1.0.2: it reads and continues after our clustering, executes our plan, and we execute its plan, which is what ours would have been."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.metadata_tables import assert_metadata_is_true
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.instant import Action, Instant, State

from .judges import JudgeProcess, assert_same_rows
from .merge_on_read_cases import KEY, Case

CASE = Case(None, metadata=True)
SORT_KEY = "hoodie.clustering.plan.strategy.sort.columns"


def opened(path: Path, **more: object) -> hudi.HudiTable:
    """Our handle: new keys come into files of their own, so that there are small files to cluster."""
    options = {"hoodie.parquet.small.file.limit": 0, SORT_KEY: "name"} | {
        key.replace("__", "."): value for key, value in more.items()
    }
    return hudi.open_table(str(path), options=options)


def make(path: Path, kind: str) -> None:
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    made = create_plain(str(path), CASE.schema, "id", "day", table_type=kind, name="mor", options=options)
    made.insert(CASE.rows(*((number, 100, f"first {number}") for number in range(10))))
    fill(path, 10)


def fill(path: Path, first: int) -> None:
    opened(path).insert(CASE.rows(*((number, 100, f"more {-number}") for number in range(first, first + 10))))
    opened(path).upsert(CASE.rows((first, 200, "updated"), (first + 1, 200, "updated")))


def agree(judge: JudgeProcess, path: Path) -> None:
    """Hudi reads what we read, by its metadata table and by listing."""
    table = opened(path)
    found = table.scan().to_arrow()
    for metadata in ("true", "false"):
        theirs = judge.read(path, **{"hoodie.metadata.enable": metadata, "hoodie.enable.data.skipping": metadata})
        assert_same_rows(theirs, found, by=KEY)
    assert_metadata_is_true(table)
    assert table.check().ok, table.check().findings


def call(judge: JudgeProcess, path: Path, op: str, **more: str) -> None:
    given = "".join(f", {key} => '{value}'" for key, value in more.items())
    judge.sql(f"CALL run_clustering(path => '{path}', op => '{op}'{given})")


def plan_of(path: Path, instant: Instant) -> dict[str, object]:
    file = path / ".hoodie/timeline" / Instant(instant.requested_time, Action.CLUSTERING, State.REQUESTED).file_name()
    return decode_record(file.read_bytes(), "HoodieRequestedReplaceMetadata")


def pending(path: Path) -> Instant:
    [found] = [i for i in opened(path).timeline.pending if i.action is Action.CLUSTERING]
    return found


def relay(judge: JudgeProcess, path: Path, kind: str) -> None:
    """We cluster; Hudi executes our plan; we execute Hudi's; each with writes between."""
    theirs = {**CASE.hudis_options(), "hoodie.datasource.write.table.type": kind, "hoodie.compact.inline": "false"}
    make(path, kind)
    assert opened(path).clustering.run().file_groups == 4
    agree(judge, path)
    judge.write(path, CASE.rows((3, 300, "hudi"), (30, 300, "hudi")), "upsert", **theirs)
    agree(judge, path)
    # Hudi executes our plan.
    fill(path, 40)
    planned = opened(path).clustering.schedule()
    assert planned is not None
    call(judge, path, "execute", instants=planned.requested_time, order="name")
    found = opened(path).timeline.find(planned.requested_time)
    assert found is not None
    assert found.is_completed
    agree(judge, path)
    opened(path).upsert(CASE.rows((3, 400, "ours"), (40, 400, "ours")))
    agree(judge, path)
    # We execute Hudi's plan, which is what ours would have been.
    fill(path, 60)
    ours = opened(path).clustering.plan()
    call(judge, path, "schedule", order="name")
    plan = plan_of(path, pending(path))["clusteringPlan"]
    assert isinstance(plan, dict)
    groups = [group.to_avro(str(path)) for group in ours.groups]
    by_partition = lambda group: group["slices"][0]["partitionPath"]  # noqa: E731
    assert [(by_partition(g), g["numOutputFileGroups"], named(g)) for g in sorted(groups, key=by_partition)] == [
        (by_partition(g), g["numOutputFileGroups"], named(g)) for g in sorted(plan["inputGroups"], key=by_partition)
    ]
    assert plan["strategy"]["strategyParams"] == {SORT_KEY: "name"}
    assert opened(path).clustering.execute().file_groups == ours.figures["file_groups"]
    agree(judge, path)
    judge.write(path, CASE.rows((5, 500, "last"), (61, 500, "last"), (99, 1, "new")), "upsert", **theirs)
    agree(judge, path)


def named(group: dict[str, object]) -> set[tuple[str, str, tuple[str, ...]]]:
    """The slices of a group: absolute paths, without the scheme of a local file."""
    slices = group["slices"]
    assert isinstance(slices, list)
    plain = lambda path: path.removeprefix("file:")  # noqa: E731
    return {(s["fileId"], plain(s["dataFilePath"]), tuple(map(plain, s["deltaFilePaths"]))) for s in slices}


@pytest.mark.row("C11", "L6", "N5", "Q3")
def test_hudi_executes_our_clustering_plan_and_we_execute_hudis(first_release: JudgeProcess, tmp_path: Path) -> None:
    relay(first_release, tmp_path / "cow", "COPY_ON_WRITE")


@pytest.mark.slow
@pytest.mark.row("C11", "L6", "N5", "Q3")
def test_clusterings_of_merge_on_read_tables_go_from_hand_to_hand(first_release: JudgeProcess, tmp_path: Path) -> None:
    relay(first_release, tmp_path / "mor", "MERGE_ON_READ")
