"""Recovery from names and footers: the rows are those of the last good state, and what nobody can tell is asked for or reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.archival import MANUAL, commits, filled
from support.disk import contents, data_files
from support.tables import FAST, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import HudiError, InvalidOptionError, StorageError, TableExistsError, UnsupportedTableError
from pyhudi_core.importing import recovery_plan
from pyhudi_core.storage.local import LocalStorage

pytestmark = pytest.mark.row("E8")

COW: dict[str, Any] = {"record_key": "id", "ordering": (), "table_type": "cow"}
MOR: dict[str, Any] = {"record_key": ["id"], "ordering": "ts"}


def _lose(table: hudi.HudiTable) -> None:
    shutil.rmtree(f"{table.location}/.hoodie")


def _recover(location: str, **answers: Any) -> hudi.HudiTable:
    return hudi.recover(location, storage_options=FAST, accept_unknown=True, **answers)


def _plan(location: str, **answers: Any) -> hudi.RecoveryPlan:
    return hudi.plan_recovery(location, storage_options=FAST, **answers)


def _noted(*given: tuple[Any, ...]) -> pa.Table:
    """Rows with a column that the table gets later."""
    return orders(*given).append_column("note", pa.array(["x"] * len(given)))


def _cow(location: str, **arguments: Any) -> hudi.HudiTable:
    table = make(location, **arguments)
    table.upsert(orders((1, "a", 1.0), (2, "a", 2.0), (3, "b c", 3.0)))
    table.upsert(_noted((1, "a", 1.5), (4, "d", 4.0)))
    table.delete(pa.table({"id": [2], "day": ["a"]}))
    return table


@pytest.mark.parametrize("arguments", [{}, {"partition_by": ()}, {"partition_by": ("day", "id")}])
def test_a_copy_on_write_table_has_the_rows_of_its_last_state(location: str, arguments: dict[str, Any]) -> None:
    table = _cow(location, **arguments)
    before, first = rows(table), table.timeline.commits[0]
    old = rows(table.scan(as_of=first))
    times = [commit.requested_time for commit in table.timeline.commits]
    _lose(table)
    found = _recover(location, **COW)
    assert rows(found) == before
    assert [commit.requested_time for commit in found.timeline.commits] == times
    assert rows(found.scan(as_of=found.timeline.commits[0])) == old
    assert found.check().ok
    found.upsert(_noted((1, "a", 9.0), (8, "e", 8.0)))
    assert (1, 9.0) in rows(found, "id", "price")
    assert found.size().size.rows == len(rows(found, "id"))


def test_a_merge_on_read_table_has_the_rows_of_its_last_state(location: str) -> None:
    table = make(location, ordering="ts", table_type="mor")
    table.upsert(orders((1, "a", 1.0, 1), (2, "a", 2.0, 1), (3, "b", 3.0, 1)))
    table.upsert(orders((1, "a", 1.5, 2), (3, "b", 3.5, 2)))
    table.compaction.run()
    table.upsert(orders((3, "b", 4.5, 3), (5, "c", 5.0, 3)))
    table.delete(pa.table({"id": [2], "day": ["a"]}))
    before = rows(table)
    _lose(table)
    plan = _plan(location, **MOR)
    assert plan
    assert any("merged in their newest base file" in text for text in plan.unknown)
    assert rows(_recover(location, **MOR)) == before


def test_what_the_files_do_not_say_is_asked_for_and_nothing_is_written(location: str) -> None:
    table = _cow(location, options={"hoodie.datasource.write.hive_style_partitioning": "false"})
    before = rows(table)
    _lose(table)
    files = contents(location)
    plan = _plan(location)
    assert not plan
    assert [text.rpartition("(")[2] for text in plan.questions] == [
        "record_key)",
        "ordering; empty for none)",
        "table_type)",
        "partition_by)",
    ]
    with pytest.raises(InvalidOptionError, match="which columns are the record key"):
        _recover(location)
    with pytest.raises(InvalidOptionError, match="writes that had not completed"):
        hudi.recover(location, **COW, partition_by="day", storage_options=FAST)
    assert contents(location) == files
    assert rows(_recover(location, **COW, partition_by="day")) == before


def test_answers_that_contradict_the_rows_are_refused(location: str) -> None:
    _lose(_cow(location))
    for wrong, what in (
        ({"record_key": "price"}, "record_key does not fit"),
        ({"partition_by": "id"}, "partition_by does"),
    ):
        plan = _plan(location, **{**COW, **wrong})
        assert not plan
        assert what in plan.questions[-1]
    assert "no column other" in _plan(location, **{**COW, "record_key": "other"}).questions[-1]


def test_a_replaced_file_group_is_asked_for(location: str) -> None:
    table = make(location)
    old = table.upsert(orders((1, "a", 1.0))).stats.files[0].file_id
    table.insert_overwrite(orders((1, "a", 2.0)))
    _lose(table)
    plan = _plan(location, **COW)
    assert not plan
    assert "1 keys are in several file groups of the partition 'day=a'" in plan.questions[0]
    assert old in plan.questions[0]
    assert rows(_recover(location, **COW, leave_out=old), "id", "price") == [(1, 2.0)]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [({"options": {"hoodie.populate.meta.fields": "false"}}, "no meta columns"), ({"record_key": ()}, "generated")],
)
def test_a_table_whose_rows_have_no_keys_is_refused_by_name(
    location: str, arguments: dict[str, Any], what: str
) -> None:
    table = make(location, **arguments)
    table.insert(orders((1, "a", 1.0)))
    table.bulk_insert(orders((2, "a", 2.0)))
    _lose(table)
    files = contents(location)
    for answers in ({}, COW):
        with pytest.raises(UnsupportedTableError, match=what):
            _plan(location, **answers)
    assert contents(location) == files


def test_an_unfinished_write_is_left_out_by_its_instant(location: str) -> None:
    table = _cow(location)
    before = rows(table)
    write = table.begin("upsert")
    write.write(_noted((1, "a", 100.0)))
    write._state.pending().heartbeat.handle.cancel()  # type: ignore[union-attr]
    _lose(table)
    assert str(write.instant) in _plan(location, **COW).instants  # no name says that it had not completed
    found = _recover(location, **COW, leave_out=[str(write.instant)])
    assert rows(found) == before


def test_two_files_of_one_write_and_a_file_without_a_footer_are_not_guessed_about(location: str) -> None:
    table = _cow(location)
    before = rows(table)
    newest = max(data_files(location), key=lambda path: path.rpartition("_")[2])
    file_id, _, time = newest.rpartition("/")[2].split("_")
    twin = f"{newest.rpartition('/')[0]}/{file_id}_9-9-9_{time}"
    shutil.copy(f"{location}/{newest}", f"{location}/{twin}")
    torn = "day=a/torn-0_1-1-1_20260101000000000.parquet"
    Path(location, torn).write_bytes(b"PAR1 torn")
    _lose(table)
    plan = _plan(location, **COW)
    assert f"which of {' and '.join(sorted([newest, twin]))} belongs" in plan.questions[0]
    assert f"{torn} is damaged" in plan.questions[1]
    assert not plan.left_out, "nothing is left out unless somebody says so"
    with pytest.raises(InvalidOptionError, match="torn-0"):
        _recover(location, **COW, leave_out=twin)
    assert list(_plan(location, **COW, leave_out=[torn, twin]).left_out) == sorted([torn, twin])
    assert rows(_recover(location, **COW, leave_out=[torn, twin])) == before


def test_a_file_that_the_storage_does_not_give_now_is_not_left_out(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _cow(location)
    before, refused = rows(table), data_files(location)[0]
    _lose(table)
    files, really = contents(location), LocalStorage.open_input

    def busy(storage: LocalStorage, path: str) -> Any:
        if path == refused:
            raise StorageError("503: slow down", path=path)
        return really(storage, path)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "open_input", busy)
        for call in (_plan, _recover):
            with pytest.raises(StorageError, match="slow down"):
                call(location, **COW)
    assert contents(location) == files
    assert rows(_recover(location, **COW)) == before


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", [0, 3, 6])
def test_what_was_left_out_is_neither_deleted_nor_shown_by_services(location: str, number: int) -> None:
    table, done = filled(location)
    _lose(table)
    first = rows(_recover(location, **COW, leave_out=done[number].instant))
    left = _files_of(location, done[number].instant)
    table = reopen(table, **{**MANUAL, "pyhudi.sweep.min.age.minutes": 0})
    late = commits(table, 4)
    before = rows(table)
    assert len(before) == len(first) + 4
    swept, archived = table.sweep.run(), table.archival.run()
    assert not swept
    assert "left out of a recovery" in swept.why_not
    assert "left out of a recovery" in archived.why_not
    assert all(Path(location, path).exists() for path in left)
    assert rows(reopen(table)) == before
    assert len(archived.instants) == max(0, number - 1), "the instants before it, but for one that hides the file"
    for path in left:
        Path(location, path).unlink()
    table.archival.run()
    assert [i.requested_time for i in table.timeline] == late[-2:]
    assert rows(reopen(table)) == before


def _files_of(location: str, time: str) -> list[str]:
    """The base files of an instant."""
    found = [path for path in data_files(location) if path.endswith(f"_{time}.parquet")]
    assert found
    return found


def test_a_recovery_that_died_is_done_again_and_ends_in_the_same_files(location: str) -> None:
    table = _cow(location)
    before = rows(table)
    _lose(table)
    _recover(location, **COW)
    complete = {path.name: path.read_bytes() for path in Path(location, ".hoodie/timeline").iterdir() if path.is_file()}
    names = sorted(complete)
    for kept in range(len(names) + 1):
        _lose(table)
        Path(location, ".hoodie/timeline").mkdir(parents=True)
        for name in names[:kept]:
            Path(location, ".hoodie/timeline", name).write_bytes(complete[name])
        with pytest.raises(HudiError, match="no Hudi table"):
            hudi.open_table(location)
        assert rows(_recover(location, **COW)) == before
    assert {p.name: p.read_bytes() for p in Path(location, ".hoodie/timeline").iterdir() if p.is_file()} == complete


def test_a_table_or_a_timeline_that_is_there_is_not_overwritten(location: str) -> None:
    table = _cow(location)
    with pytest.raises(TableExistsError, match="nothing to recover"):
        _recover(location, **COW)
    Path(location, ".hoodie/hoodie.properties").unlink()
    before = contents(location)
    with pytest.raises(TableExistsError, match="still there"):
        _recover(location, **COW)
    assert contents(location) == before
    assert table.location


def test_the_command_recovers_what_it_shows(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _lose(_cow(location))
    plan, planned = recovery_plan.plan_recovery, list[hudi.RecoveryPlan]()

    def noted(*arguments: Any) -> hudi.RecoveryPlan:
        planned.append(plan(*arguments))
        return planned[-1]

    monkeypatch.setattr(recovery_plan, "plan_recovery", noted)
    answers = ("--record-key", "id", "--no-ordering", "--table-type", "cow", "--accept-unknown", "--json")
    ran = CliRunner().invoke(main, ["recover", location, *answers])
    assert ran.exit_code == 0
    [only] = planned
    assert list(json.loads(ran.output)["instants"]) == list(only.instants)


def test_the_command_asks_plans_and_recovers(location: str) -> None:
    table = _cow(location)
    before = rows(table)
    _lose(table)
    files = contents(location)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["recover", location, "--storage-option", "fsync=false", *arguments])

    asked = run("--plan", "--json")
    assert asked.exit_code == 1
    assert len(json.loads(asked.output)["questions"]) == 3
    said = " ".join(run("--plan").output.split())
    assert all(f"({option}" in said for option in ("--record-key", "--ordering, or --no-ordering", "--table-type"))
    answers = ("--record-key", "id", "--no-ordering", "--table-type", "cow")
    planned, refused = run("--plan", *answers), run(*answers)
    assert planned.exit_code == 0
    assert "--accept-unknown" in " ".join(planned.output.split())
    assert refused.exit_code == 2
    assert "--leave-out" in " ".join(refused.output.split())
    assert "--accept-unknown" in " ".join(refused.output.split())
    assert "accept_unknown" not in refused.output
    assert contents(location) == files
    assert run(*answers, "--accept-unknown").exit_code == 0
    assert rows(reopen(table)) == before


def test_what_leave_out_names_must_be_there(location: str) -> None:
    table = _cow(location)
    [file] = table.timeline.commits[0:1]
    _lose(table)
    before = contents(location)
    with pytest.raises(InvalidOptionError, match="names nothing that is there: 20200101000000000, day=a/none"):
        _plan(location, **COW, leave_out=["20200101000000000", "day=a/none", file.requested_time])
    assert contents(location) == before


def test_an_answer_is_compared_with_the_rows_whatever_is_still_open(location: str) -> None:
    table = _cow(location)
    _lose(table)
    plan = _plan(location, record_key="price")  # ordering and type are not answered
    assert any("record_key does not fit the rows" in text for text in plan.questions), plan.questions
    assert any("(ordering; empty for none)" in text for text in plan.questions)
    wrong = _plan(location, partition_by="id")
    assert any("partition_by does not fit the rows" in text for text in wrong.questions), wrong.questions
    absent = _plan(location, ordering="nothing")
    assert any("no column nothing" in text for text in absent.questions), absent.questions
