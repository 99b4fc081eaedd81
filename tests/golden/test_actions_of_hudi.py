"""The files on the timelines that Apache Hudi wrote, plans included: decoded, compared field by field with what is in them, and with the table itself.

What is in them is read by fastavro's own reader of container files, by the schema that Hudi put into the file.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import pytest
from support.golden import FIXTURES

from pyhudi_core.formats.avro.container import decode_record, encode_record, sync_marker_of
from pyhudi_core.model.commit import CommitMetadata

COMMIT, REPLACE, COMPACTION = "HoodieCommitMetadata", "HoodieReplaceCommitMetadata", "HoodieCompactionPlan"
RECORDS = {
    "commit": COMMIT, "inflight": COMMIT, "deltacommit": COMMIT, "deltacommit.inflight": COMMIT,
    "replacecommit": REPLACE, "replacecommit.inflight": COMMIT, "replacecommit.requested": "HoodieRequestedReplaceMetadata",
    "clustering.requested": "HoodieRequestedReplaceMetadata",
    "compaction.requested": COMPACTION, "logcompaction.requested": COMPACTION,
    "clean.requested": "HoodieCleanerPlan", "clean.inflight": "HoodieCleanerPlan", "clean": "HoodieCleanMetadata",
    "indexing.requested": "HoodieIndexPlan", "indexing": "HoodieIndexCommitMetadata",
    "rollback.requested": "HoodieRollbackPlan", "rollback": "HoodieRollbackMetadata",
    "restore.requested": "HoodieRestorePlan", "restore": "HoodieRestoreMetadata", "savepoint": "HoodieSavepointMetadata",
}  # fmt: skip
"""What a file holds, by what follows the times in its name."""


@dataclass(frozen=True, slots=True)
class Found:
    """One file of one table's active timeline."""

    table: str
    name: str
    data: bytes

    @property
    def kind(self) -> str:
        """What follows the times."""
        return self.name.partition(".")[2]

    @property
    def requested(self) -> str:
        """When the action was requested."""
        return self.name.partition(".")[0].partition("_")[0]

    def record(self) -> dict[str, Any]:
        """As this project decodes it."""
        return decode_record(self.data, RECORDS[self.kind], path=self.name)


@cache
def _table(name: str) -> tuple[dict[str, bytes], tuple[Found, ...]]:
    """The paths of a table with their contents (of timelines and properties; sizes of the rest), and its timeline."""
    contents: dict[str, bytes] = {}
    with zipfile.ZipFile(FIXTURES / name / "table.zip") as archive:
        for info in archive.infolist():
            path = info.filename
            if not path.endswith("/"):
                contents[path] = (
                    archive.read(info) if path.startswith((".hoodie/timeline/", ".hoodie/hoodie.")) else b""
                )
    timeline = [
        Found(name, Path(path).name, data)
        for path, data in contents.items()
        if path.startswith(".hoodie/timeline/") and path.count("/") == 2 and data
    ]
    return contents, tuple(sorted(timeline, key=lambda file: file.name))


TABLES = sorted(str(path.parent.relative_to(FIXTURES)) for path in FIXTURES.rglob("table.zip"))


def _files(*kinds: str) -> list[Found]:
    found = [file for name in TABLES for file in _table(name)[1] if file.kind in kinds]
    assert found, f"no table has {kinds}"
    return found


def _partner(file: Found, kind: str) -> dict[str, Any]:
    """The decoded file of the same requested time and another state."""
    [other] = [other for other in _table(file.table)[1] if other.requested == file.requested and other.kind == kind]
    return other.record()


def _as_written(data: bytes) -> dict[str, Any]:
    [record] = fastavro.reader(io.BytesIO(data))
    assert isinstance(record, dict)
    return record


def _differences(written: Any, decoded: Any, path: str = "") -> Iterator[str]:
    if isinstance(written, dict) and isinstance(decoded, dict):
        for name, value in written.items():
            if name not in decoded:
                yield f"{path}.{name} is missing"
            else:
                yield from _differences(value, decoded[name], f"{path}.{name}")
    elif isinstance(written, list) and isinstance(decoded, list) and len(written) == len(decoded):
        for number, (one, other) in enumerate(zip(written, decoded, strict=True)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif (type(written), written) != (type(decoded), decoded):
        yield f"{path}: {written!r} became {decoded!r}"


@pytest.mark.row("B6", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11")
@pytest.mark.parametrize("kind", RECORDS)
def test_every_field_of_every_file_is_decoded_and_survives_encoding(kind: str) -> None:
    for file in _files(kind):
        written, decoded = _as_written(file.data), file.record()
        assert list(_differences(written, decoded)) == [], f"{file.table} {file.name}"
        again = encode_record(RECORDS[kind], decoded, sync_marker=sync_marker_of(file.data))
        assert list(_differences(written, _as_written(again))) == [], f"{file.table} {file.name}, encoded again"


def test_no_kind_of_file_is_left_out() -> None:
    there = {file.kind for name in TABLES for file in _table(name)[1]}
    assert there == set(RECORDS)


# --- what the records say is what lies in the table


@pytest.mark.row("C1", "C2", "C3")
def test_the_statistics_of_a_commit_are_those_of_the_file() -> None:
    same = {"fileId": "file_id", "path": "path", "prevCommit": "prev_commit", "prevBaseFile": "prev_base_file", "numWrites": "rows",
            "numInserts": "inserts", "numUpdateWrites": "updates", "numDeletes": "deletes", "fileSizeInBytes": "size"}  # fmt: skip
    logs = 0
    for file in _files("commit", "deltacommit", "replacecommit"):
        written = _as_written(file.data)
        commit = CommitMetadata.from_avro(file.record())
        assert commit.operation == written["operationType"]
        assert commit.extra == {
            key: value for key, value in (written["extraMetadata"] or {}).items() if value is not None
        }
        replaced = written.get("partitionToReplaceFileIds") or {}
        assert commit.replaced == {partition: tuple(ids) for partition, ids in replaced.items()}
        stats = [(partition, stat) for partition, all_of in written["partitionToWriteStats"].items() for stat in all_of]
        assert [stat.partition for stat in commit.stats] == [partition for partition, _ in stats]
        for (_, stat), known in zip(stats, commit.stats, strict=True):
            assert {ours: getattr(known, ours) for ours in same.values()} == {
                ours: stat[theirs] for theirs, ours in same.items()
            }
            assert set(known.change_logs) == set(stat["cdcStats"] or ())
            logs += ".log." in known.path
    assert logs, "deltacommits write logs"


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]


def _commit_of(file: Found, *kinds: str) -> dict[str, Any]:
    [done] = [other for other in _table(file.table)[1] if other.requested == file.requested and other.kind in kinds]
    return done.record()


def _stats(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [stat for stats in record["partitionToWriteStats"].values() for stat in stats]


@pytest.mark.row("C5", "C6")
@pytest.mark.parametrize(
    ("plan", "done", "operation"),
    [("compaction.requested", "commit", "COMPACT"), ("logcompaction.requested", "deltacommit", "LOG_COMPACT")],
)
def test_a_compaction_wrote_the_file_groups_of_its_plan_from_the_logs_that_it_names(
    plan: str, done: str, operation: str
) -> None:
    for file in _files(plan):
        planned, commit = file.record()["operations"], _commit_of(file, done)
        assert commit["operationType"] == operation
        groups = {(one["partitionPath"], one["fileId"]) for one in planned}
        assert groups == {(stat["partitionPath"], stat["fileId"]) for stat in _stats(commit)}
        earlier = {
            (stat["fileId"], _base_name(stat["path"]))
            for other in _table(file.table)[1]
            if other.kind in {"commit", "deltacommit"} and other.requested < file.requested
            for stat in _stats(other.record())
        }
        for one in planned:
            assert one["deltaFilePaths"]
            assert {(one["fileId"], _base_name(path)) for path in one["deltaFilePaths"]} <= earlier
            base = one["dataFilePath"]
            assert base is None or (one["fileId"], _base_name(base)) in earlier
            assert base is None or _base_name(base).split("_")[2].partition(".")[0] == one["baseInstantTime"]


@pytest.mark.row("C4")
def test_a_clean_removed_the_files_of_its_plan_and_nothing_else() -> None:
    removed = 0
    for file in _files("clean.requested"):
        plan, done, contents = file.record(), _partner(file, "clean"), _table(file.table)[0]
        planned = {
            (partition, _base_name(one["filePath"]))
            for partition, files in (plan["filePathsToBeDeletedPerPartition"] or {}).items()
            for one in files
        }
        assert plan["policy"]
        assert done["startCleanTime"] == file.requested
        cleaned = {
            (partition, _base_name(path))
            for partition, what in done["partitionMetadata"].items()
            for path in what["successDeleteFiles"]
        }
        assert cleaned == planned
        assert done["totalFilesDeleted"] == len(cleaned)
        assert not cleaned & {(path.rpartition("/")[0], _base_name(path)) for path in contents}
        removed += len(cleaned)
        earliest = plan["earliestInstantToRetain"]
        assert done["earliestCommitToRetain"] == (earliest["timestamp"] if earliest else "")
    assert removed


@pytest.mark.row("C11")
def test_a_clustering_replaced_the_file_groups_of_its_plan() -> None:
    for file in _files("clustering.requested"):
        plan, done = file.record(), _commit_of(file, "replacecommit")
        slices = [one for group in plan["clusteringPlan"]["inputGroups"] for one in group["slices"]]
        assert slices
        assert {(one["partitionPath"], one["fileId"]) for one in slices} == {
            (partition, name) for partition, names in done["partitionToReplaceFileIds"].items() for name in names
        }
        assert plan["operationType"] == done["operationType"] == "CLUSTER"
        assert plan["clusteringPlan"]["strategy"]["strategyClassName"]


@pytest.mark.row("C7")
def test_an_index_was_built_up_to_the_instant_of_its_plan_and_is_listed() -> None:
    for file in _files("indexing"):
        plan, done = _partner(file, "indexing.requested"), file.record()
        text = _table(file.table)[0][".hoodie/hoodie.properties"].decode()
        [listed] = [
            line.partition("=")[2].split(",")
            for line in text.splitlines()
            if line.startswith("hoodie.table.metadata.partitions=")
        ]
        built = {one["metadataPartitionPath"]: one["indexUptoInstant"] for one in done["indexPartitionInfos"]}
        assert built == {one["metadataPartitionPath"]: one["indexUptoInstant"] for one in plan["indexPartitionInfos"]}
        assert set(built) <= set(listed)
        assert all(moment <= file.requested for moment in built.values())


@pytest.mark.row("C8")
def test_a_rollback_removed_the_files_of_its_plan() -> None:
    for file in _files("rollback.requested"):
        plan, done = file.record(), _partner(file, "rollback")
        victim = plan["instantToRollback"]
        assert done["startRollbackTime"] == file.requested
        assert done["commitsRollback"] == [victim["commitTime"]]
        assert done["instantsRollback"] == [victim]
        assert not [other for other in _table(file.table)[1] if other.requested == victim["commitTime"]]
        asked = {
            _base_name(path)
            for one in plan["RollbackRequests"]
            for path in (*one["filesToBeDeleted"], *one["logBlocksToBeDeleted"])
        }
        deleted = {
            _base_name(path) for what in done["partitionMetadata"].values() for path in what["successDeleteFiles"]
        }
        assert deleted
        assert deleted <= asked
        assert not deleted & {_base_name(path) for path in _table(file.table)[0]}


@pytest.mark.row("C9")
def test_the_files_of_a_savepoint_are_there() -> None:
    for file in _files("savepoint"):
        done = file.record()
        kept = {
            (partition, name)
            for partition, what in done["partitionMetadata"].items()
            for name in what["savepointDataFile"]
        }
        assert kept
        assert kept <= {(path.rpartition("/")[0], _base_name(path)) for path in _table(file.table)[0]}
        assert done["savepointedBy"] == ""
        assert done["savepointedAt"] > 1_600_000_000_000


@pytest.mark.row("C10")
def test_a_restore_took_the_instants_of_its_plan_off_the_timeline() -> None:
    for file in _files("restore.requested"):
        plan, done = file.record(), _partner(file, "restore")
        taken = [one["commitTime"] for one in plan["instantsToRollback"]]
        assert taken
        assert done["startRestoreTime"] == file.requested
        assert sorted(done["instantsToRollback"]) == sorted(taken)
        assert sorted(done["hoodieRestoreMetadata"]) == sorted(taken)
        assert [one["commitTime"] for one in done["restoreInstantInfo"]] == taken
        assert all(moment > plan["savepointToRestoreTimestamp"] for moment in taken)
        assert not [
            other for other in _table(file.table)[1] if other.requested in taken and "rollback" not in other.kind
        ]
