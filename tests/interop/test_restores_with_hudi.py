"""Restores with Hudi 1.0.2: it reads and continues what we restored, goes back to our savepoints, and finishes our plan; and we do the same with its."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest
from support.metadata_tables import assert_metadata_is_true
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.instant import Action, Instant, State

from .judges import JudgeError, JudgeProcess, assert_same_rows
from .merge_on_read_cases import KEY, Case

CASE = Case(None, metadata=True)
KINDS = ["copy_on_write", "merge_on_read"]
_names = count()


def make(path: Path, kind: str) -> hudi.HudiTable:
    """A table with a metadata table and four commits; the last one has a new file group."""
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    made = create_plain(str(path), CASE.schema, "id", "day", table_type=kind, name="mor", options=options)
    made.insert(CASE.rows(*((number, 100, f"first {number}") for number in range(10))))
    for number in range(3):
        made.upsert(CASE.rows((2, 200 + number, f"second {number}"), (100 + number, 200, "new")))
    return made


def theirs(kind: str, **more: str) -> dict[str, str]:
    options = {"hoodie.datasource.write.table.type": kind.upper(), "hoodie.clean.automatic": "false"}
    return CASE.hudis_options() | options | more


def agree(judge: JudgeProcess, path: Path) -> None:
    """Hudi reads what we read, by its metadata table and by listing, and the doctor finds nothing."""
    table = hudi.open_table(str(path))
    found = table.scan().to_arrow()
    for metadata in ("true", "false"):
        read = judge.read(path, **{"hoodie.metadata.enable": metadata, "hoodie.enable.data.skipping": metadata})
        assert_same_rows(read, found, by=KEY)
    assert table.check().ok, table.check().findings


def known(judge: JudgeProcess, path: Path) -> str:
    """The name under which Hudi's SQL knows the table."""
    name = f"restored_{next(_names)}"
    judge.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    return name


def times(path: Path) -> list[str]:
    return [instant.requested_time for instant in hudi.open_table(str(path)).timeline.commits]


@pytest.mark.row("C10", "N15", "Q3")
@pytest.mark.parametrize("kind", [pytest.param(KINDS[0], marks=pytest.mark.slow), KINDS[1]])
def test_hudi_reads_and_continues_a_table_that_we_restored(
    first_release: JudgeProcess, tmp_path: Path, kind: str
) -> None:
    path, judge = tmp_path / "t", first_release
    table = make(path, kind)
    if kind == "merge_on_read":
        table.compaction.run()
        table.upsert(CASE.rows((2, 300, "after the compaction")))
    point = times(path)[1]
    wanted = table.scan(as_of=table.timeline.find(point)).to_arrow()
    assert table.restore(point).commits >= 2
    assert_same_rows(hudi.open_table(str(path)).scan().to_arrow(), wanted, by=KEY)
    agree(judge, path)
    judge.write(path, CASE.rows((2, 400, "hudi"), (7, 400, "hudi"), (200, 400, "hudi")), "upsert", **theirs(kind))
    agree(judge, path)
    hudi.open_table(str(path)).upsert(CASE.rows((2, 500, "ours"), (200, 500, "ours")))
    agree(judge, path)
    if kind == "copy_on_write":
        assert_metadata_is_true(hudi.open_table(str(path)))


@pytest.mark.slow
@pytest.mark.row("C10", "N15", "Q3")
@pytest.mark.parametrize("kind", KINDS)
def test_hudi_reads_and_continues_a_table_after_a_restore_that_keeps_the_later_state(
    first_release: JudgeProcess, tmp_path: Path, kind: str
) -> None:
    path, judge = tmp_path / "t", first_release
    table = make(path, kind)
    point, later = times(path)[1], table.scan(meta=False).to_arrow()
    wanted = table.scan(as_of=table.timeline.find(point), meta=False).to_arrow()
    kept = table.restore(point, keep=True).kept
    found = (
        hudi.open_table(str(path)).scan(meta=False).to_arrow()
    )  # the rows are written again, so their meta columns differ
    assert found.sort_by("id").equals(wanted.sort_by("id"))
    agree(judge, path)
    assert [row[0] for row in judge.sql(f"CALL show_savepoints(table => '{known(judge, path)}')")] == [kept]
    judge.write(path, CASE.rows((2, 400, "hudi"), (7, 400, "hudi"), (200, 400, "hudi")), "upsert", **theirs(kind))
    agree(judge, path)
    hudi.open_table(str(path)).restore(kept)
    back = hudi.open_table(str(path)).scan(meta=False).to_arrow()
    assert back.sort_by("id").equals(later.sort_by("id"))
    agree(judge, path)


@pytest.mark.slow
@pytest.mark.row("C9", "C10", "N15", "Q3")
@pytest.mark.parametrize("kind", KINDS)
def test_hudi_goes_back_to_our_savepoint_and_we_to_hudis(
    first_release: JudgeProcess, tmp_path: Path, kind: str
) -> None:
    path, judge = tmp_path / "t", first_release
    table = make(path, kind)
    name = known(judge, path)
    saved = table.savepoints.create(times(path)[1])
    wanted = table.scan(as_of=table.timeline.find(saved.instant)).to_arrow()
    judge.sql(f"CALL rollback_to_savepoint(table => '{name}', instant_time => '{saved.instant}')")
    table = hudi.open_table(str(path))
    assert_same_rows(table.scan().to_arrow(), wanted, by=KEY)
    judge.sql(f"REFRESH TABLE {name}")
    agree(judge, path)
    # What Hudi restored is continued, and Hudi's own savepoint is a point of ours.
    table.upsert(CASE.rows((2, 600, "ours"), (7, 600, "ours")))
    agree(judge, path)
    judge.write(path, CASE.rows((2, 700, "hudi")), "upsert", **theirs(kind))
    point = times(path)[-1]
    judge.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{point}')")
    wanted = hudi.open_table(str(path)).scan().to_arrow()
    judge.write(path, CASE.rows((2, 800, "hudi"), (300, 800, "hudi")), "upsert", **theirs(kind))
    table = hudi.open_table(str(path))
    [_, theirs_saved] = list(table.savepoints)
    assert theirs_saved.instant == point
    assert table.restore(theirs_saved).commits == 1
    assert_same_rows(hudi.open_table(str(path)).scan().to_arrow(), wanted, by=KEY)
    agree(judge, path)
    judge.write(path, CASE.rows((2, 900, "hudi"), (7, 900, "hudi")), "upsert", **theirs(kind))
    agree(judge, path)


@pytest.mark.slow
@pytest.mark.row("C10", "Q3")
@pytest.mark.parametrize("kind", KINDS)
def test_hudi_executes_our_plan_and_we_execute_hudis_which_is_what_ours_would_have_been(
    first_release: JudgeProcess, tmp_path: Path, kind: str
) -> None:
    path, judge = tmp_path / "t", first_release
    table = make(path, kind)
    saved = table.savepoints.create(times(path)[1])
    wanted = table.scan(as_of=table.timeline.find(saved.instant)).to_arrow()
    ours = decode_record(table.restore.plan(saved).encode(b"0" * 16), "HoodieRestorePlan")
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    # Hudi makes a plan and executes it; we execute that plan in a copy of the table.
    judge.sql(f"CALL rollback_to_savepoint(table => '{known(judge, path)}', instant_time => '{saved.instant}')")
    [restore] = hudi.open_table(str(path)).timeline.filter(Action.RESTORE)
    requested = Instant(restore.requested_time, Action.RESTORE, State.REQUESTED).file_name()
    assert decode_record((path / ".hoodie/timeline" / requested).read_bytes(), "HoodieRestorePlan") == ours
    shutil.copy(path / ".hoodie/timeline" / requested, copy / ".hoodie/timeline" / requested)
    assert hudi.open_table(str(copy)).restore.run().commits == 2
    for place in (path, copy):
        assert_same_rows(hudi.open_table(str(place)).scan().to_arrow(), wanted, by=KEY)
        agree(judge, place)
    # We plan, and Hudi executes.
    again = tmp_path / "again"
    table = make(again, kind)
    saved = table.savepoints.create(times(again)[1])
    wanted = table.scan(as_of=table.timeline.find(saved.instant)).to_arrow()
    planned = table.restore.schedule(saved)
    assert planned is not None
    judge.sql(f"CALL rollback_to_savepoint(table => '{known(judge, again)}', instant_time => '{saved.instant}')")
    table = hudi.open_table(str(again))
    assert planned.requested_time in [i.requested_time for i in table.timeline.completed.filter(Action.RESTORE)]
    assert_same_rows(table.scan().to_arrow(), wanted, by=KEY)
    agree(judge, again)


@pytest.mark.slow
@pytest.mark.row("C8", "N11", "Q3")
def test_what_hudi_does_with_a_rollback_of_a_completed_commit(first_release: JudgeProcess, tmp_path: Path) -> None:
    """The facts on which the rollback of completed commits rests (docs/decisions/0048): Hudi undoes the newest one, and refuses an older one."""
    path, judge = tmp_path / "t", first_release
    make(path, "copy_on_write")
    name = known(judge, path)
    older, newest = times(path)[-2:]
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    with pytest.raises(JudgeError, match="Found commits after time"):
        judge.sql(f"CALL rollback_to_instant(table => '{known(judge, copy)}', instant_time => '{older}')")
    left = [i for i in hudi.open_table(str(copy)).timeline.pending if i.action is Action.ROLLBACK]
    assert left, "Hudi leaves the rollback that it refused on the timeline"
    judge.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{newest}')")
    assert times(path)[-1] == older
    assert [i.action for i in hudi.open_table(str(path)).timeline.completed][-1] is Action.ROLLBACK
    agree(judge, path)
    hudi.open_table(str(path)).rollback(older, completed=True)
    judge.sql(f"REFRESH TABLE {name}")
    agree(judge, path)
