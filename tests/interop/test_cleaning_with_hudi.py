"""Cleaning with Hudi 1.0.2: it reads and continues after our clean, executes our plan, and we execute its plan, which is what ours would have been."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.metadata_tables import assert_metadata_is_true
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.metadata_table.names import FOLDER
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.timeline.active import TimelineFolder

from .judges import JudgeProcess, assert_same_rows
from .merge_on_read_cases import KEY, Case

CASE = Case(None, metadata=True)
COW = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", "hoodie.clean.automatic": "false"}


def make(path: Path, kind: str) -> hudi.HudiTable:
    options = {"hoodie.metadata.enable": "true"}
    made = create_plain(str(path), CASE.schema, "id", "day", table_type=kind, name="mor", options=options)
    made.insert(CASE.rows(*((number, 100, f"first {number}") for number in range(20))))
    return made


def update(path: Path, name: str, count: int = 1) -> None:
    for number in range(count):
        keeping(path).upsert(CASE.rows((2, 200, f"{name} {number}"), (4 + 2 * number, 200, name)))


def keeping(path: Path, commits: int = 2) -> hudi.HudiTable:
    return hudi.open_table(str(path), options={"hoodie.clean.commits.retained": commits})


def agree(judge: JudgeProcess, path: Path) -> None:
    """Hudi reads what we read, by its metadata table and by listing."""
    table = keeping(path)
    found = table.scan().to_arrow()
    for metadata in ("true", "false"):
        theirs = judge.read(path, **{"hoodie.metadata.enable": metadata, "hoodie.enable.data.skipping": metadata})
        assert_same_rows(theirs, found, by=KEY)
    assert_metadata_is_true(table)
    assert table.check().ok, table.check().findings


def cleans(path: Path) -> list[Instant]:
    return [instant for instant in keeping(path).timeline if instant.action is Action.CLEAN]


def plan_of(path: Path, clean: Instant) -> dict[str, object]:
    file = path / ".hoodie/timeline" / Instant(clean.requested_time, Action.CLEAN, State.REQUESTED).file_name()
    return decode_record(file.read_bytes(), "HoodieCleanerPlan")


def names(plan: dict[str, object]) -> dict[str, list[str]]:
    """The names of the files in a plan, by partition."""
    found = plan["filePathsToBeDeletedPerPartition"]
    assert isinstance(found, dict)
    return {
        part: sorted(info["filePath"].rpartition("/")[2] for info in infos) for part, infos in found.items() if infos
    }


@pytest.mark.row("C4", "L6", "N7", "Q3")
def test_hudi_reads_after_our_clean_executes_our_plan_and_we_execute_hudis(
    first_release: JudgeProcess, tmp_path: Path
) -> None:
    path, judge = tmp_path / "t", first_release
    theirs = {**CASE.hudis_options(), **COW}
    make(path, "COPY_ON_WRITE")
    update(path, "one", 4)
    assert keeping(path).cleaning.run().files > 0
    agree(judge, path)
    # Hudi's next commit executes our plan.
    update(path, "two", 3)
    planned = keeping(path).cleaning.schedule()
    assert planned is not None
    gone = names(plan_of(path, planned))
    judge.write(path, CASE.rows((7, 300, "hudi")), "upsert", **{**theirs, "hoodie.clean.automatic": "true"})
    done = next(clean for clean in cleans(path) if clean.requested_time == planned.requested_time)
    assert done.is_completed
    assert not [name for part, found in gone.items() for name in found if (path / part / name).exists()]
    agree(judge, path)
    # Hudi plans what we would plan: after its own commit it keeps one more. We execute its plan in a copy of the table.
    update(path, "three", 3)
    ours = keeping(path).cleaning.plan()
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    known = cleans(path)
    more = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "3"}
    judge.write(path, CASE.rows((9, 400, "last")), "upsert", **{**theirs, **more})
    [made] = [clean for clean in cleans(path) if clean not in known]
    found = plan_of(path, made)
    assert names(found) == {part: sorted(files) for part, files in ours.files.items()}
    assert ours.earliest is not None
    assert found["earliestInstantToRetain"]["timestamp"] == ours.earliest.requested_time  # type: ignore[index]
    requested = Instant(made.requested_time, Action.CLEAN, State.REQUESTED).file_name()
    shutil.copy(path / ".hoodie/timeline" / requested, copy / ".hoodie/timeline" / requested)
    result = keeping(copy).cleaning.execute()
    assert (result.files, result.kept) == (ours.figures["files"], 0)
    agree(judge, copy)
    judge.write(copy, CASE.rows((11, 500, "on")), "upsert", **theirs)
    agree(judge, copy)


UPKEEP = {
    "hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true", "hoodie.metadata.compact.max.delta.commits": 3,
    "hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4, "hoodie.clean.automatic": "true",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": 1,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.row("C4", "I1", "B9", "Q3")
def test_hudi_continues_a_table_whose_metadata_table_we_clean_and_archive(
    first_release: JudgeProcess, tmp_path: Path
) -> None:
    path, judge = tmp_path / "t", first_release
    table = create_plain(str(path), CASE.schema, "id", "day", name="mor", options=UPKEEP)
    for number in range(14):
        table.upsert(CASE.rows((2, 100 + number, f"ours {number}"), (4 + 2 * number, 200, "ours")))
    own = TimelineFolder(table._opened.storage, f"{FOLDER}/.hoodie/timeline").load()
    assert own.find("00000000000000000") is None, "the metadata table has archived its first instants"
    assert [i for i in own if i.action is Action.CLEAN]
    agree(judge, path)
    theirs = {**CASE.hudis_options(), **COW, "hoodie.metadata.record.index.enable": "true"}
    theirs |= {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.global.record.level.index.enable": "true"}
    for number in range(12):
        judge.write(
            path, CASE.rows((2, 300 + number, f"hudi {number}"), (101 + 2 * number, 300, "hudi")), "upsert", **theirs
        )
        if number % 4 == 3:
            hudi.open_table(str(path), options=UPKEEP).upsert(
                CASE.rows((2, 400 + number, f"ours {number}"), (6, 400, "ours"))
            )
            agree(judge, path)
