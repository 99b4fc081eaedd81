"""A commit that changes no rows, asked for by name: it keeps extra metadata, and readers find nothing in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from support.archival import MANUAL, everything
from support.disk import data_files
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    InvalidOptionError,
)


def empty_commit(table: hudi.HudiTable, **extra: str) -> hudi.Commit:
    with table.begin("upsert", extra_metadata=extra, allow_empty=True) as write:
        return write.commit()


def newest(table: hudi.HudiTable) -> hudi.CommitMetadata:
    return table.commit_metadata(table.timeline.commits[-1])


def test_it_keeps_its_metadata_and_changes_no_rows(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    before, files = rows(table), data_files(location)

    commit = empty_commit(table, position="17")

    assert newest(table).extra["position"] == "17"
    assert newest(table).is_empty
    assert not table.commit_metadata(table.timeline.find(first.instant)).is_empty
    assert (commit.stats.rows_written, commit.stats.files) == (0, ())
    assert rows(table) == before
    assert data_files(location) == files
    assert table.commit_status(commit.token) is hudi.CommitStatus.COMMITTED
    assert not table.check().findings


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "delete"])
def test_a_batch_without_rows_makes_one_if_that_is_allowed_and_none_otherwise(location: str, operation: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin(operation, allow_empty=True) as write:
        write.write(orders())
        write.commit()
    assert len(table.timeline.commits) == 2
    assert rows(table, "id") == [(1,)]


def test_without_the_word_a_commit_before_any_write_is_refused(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as write, pytest.raises(InvalidOptionError, match="Nothing was written"):
        write.commit()
    assert not list(table.timeline)


def test_rows_that_were_rolled_back_do_not_become_an_empty_commit(location: str) -> None:
    table = make(location)
    with table.begin("upsert", allow_empty=True) as write:
        write.write(orders((1, "a", 1.0)))
        write.rollback()
        with pytest.raises(InvalidOptionError, match="Nothing was written"):
            write.commit()
    assert not list(table.timeline.commits)


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table", "delete_partition"])
def test_operations_that_take_rows_away_cannot_be_empty(location: str, operation: str) -> None:
    table = make(location)
    with pytest.raises(InvalidOptionError, match="allow_empty"):
        table.begin(operation, allow_empty=True)


def test_incremental_reads_and_changes_find_nothing_in_it(location: str) -> None:
    table = make(location)
    first = table.upsert(orders((1, "a", 1.0)))
    commit = empty_commit(table, position="17")

    assert table.incremental(after=first.completion_time).to_arrow().num_rows == 0
    assert list(table.changes(after=first.completion_time).to_batches()) == []
    assert rows(table.incremental(), "id") == [(1,)]
    assert table.scan().completion_time == commit.completion_time
    assert rows(table.scan(as_of=commit.instant), "id") == [(1,)]


def test_it_can_be_the_first_commit_of_a_table(location: str) -> None:
    table = make(location)
    empty_commit(table, position="1")
    assert rows(table) == []
    table.upsert(orders((1, "a", 1.0)))
    assert rows(table, "id") == [(1,)]


def test_it_stands_beside_a_write_of_rows_at_the_same_time(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        empty_commit(table, position="17")
        write.commit()
    with table.begin("upsert", allow_empty=True, extra_metadata={"position": "18"}) as write:
        write.write(orders())
        table.insert_overwrite_table(orders((5, "a", 5.0)))
        write.commit()
    assert rows(table, "id") == [(5,)]
    assert newest(table).extra["position"] == "18"


def test_it_does_not_take_back_columns_that_another_commit_added_meanwhile(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    wider = orders((2, "a", 2.0)).append_column("note", pa.array(["new"]))
    with table.begin("upsert", allow_empty=True) as write:
        write.write(orders())
        table.upsert(wider)
        with pytest.raises(CommitConflictError) as refused:
            write.commit()
        write.again(refused.value)
        write.commit()
    assert "note" in table.schema.names
    assert newest(table).is_empty


def test_the_gate_of_an_empty_commit_is_asked(location: str) -> None:
    table = make(location)
    with table.begin("upsert", allow_empty=True) as write, pytest.raises(CommitAbortedError):
        write.commit(gate=lambda: False)
    assert not list(table.timeline.commits)


def test_reads_answer_the_same_with_empty_commits_in_between(location: str) -> None:
    table = make(location, options=MANUAL)
    done: list[Any] = []
    for number in range(1, 4):
        done.append(table.upsert(orders((number, "a", 1.0, number))))
        empty_commit(table, position=str(number))
    answers = everything(table, done)
    table.archival.run()
    assert table.timeline.has_history
    assert everything(table, done) == answers


def test_empty_commits_do_not_push_others_off_the_active_timeline(location: str) -> None:
    table = make(location, options={**MANUAL, "hoodie.archive.automatic": True})
    kept = [table.upsert(orders((number, "a", 1.0))).instant for number in range(4)]
    for number in range(4):
        empty_commit(table, position=str(number))
    assert [i.requested_time for i in table.timeline.commits][:4] == kept
    for number in range(40):
        empty_commit(table, position=str(number))
    assert len(table.timeline.commits) <= 8


Search = Callable[..., list[str]]


@pytest.fixture
def found() -> Search:
    def search(table: hudi.HudiTable, key: str, after: str = "") -> list[str]:
        return [commit.extra[key] for _, commit in table.commits_with(key, after)]

    return search


def test_commits_are_found_by_a_key_on_both_timelines_newest_first(location: str, found: Search) -> None:
    table = make(location, options=MANUAL)
    for number in range(6):
        table.upsert(orders((number, "a", 1.0)), extra_metadata={"mine": str(number)} if number % 2 else {})
    before = found(table, "mine")
    assert before == ["5", "3", "1"]
    done = table.archival.run()
    assert len(done.instants) == 4
    assert found(hudi.open_table(location), "mine") == before
    third = next(i for i, commit in table.commits_with("mine") if commit.extra["mine"] == "3")
    assert found(table, "mine", third.completion_time) == ["5"]
    assert [c.extra["mine"] for _, c in table.commits_with("mi")] == before


def test_a_search_stops_at_the_first_answer_and_does_not_read_the_history_behind_it(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyhudi_core.formats.history_file import HistoryFileReader

    table = make(location, options=MANUAL)
    for number in range(4):  # a file of the history for each
        table.upsert(orders((number, "a", 1.0)), extra_metadata={"mine": str(number)})
        for other in range(2):
            table.upsert(orders((100 + other, "a", 1.0)))
        table.archival.run()
    read: list[str] = []
    real = HistoryFileReader.rows_holding
    monkeypatch.setattr(
        HistoryFileReader, "rows_holding", lambda self, text: read.append(self._path) or real(self, text)
    )
    _, commit = next(iter(hudi.open_table(location).commits_with("mine")))
    assert commit.extra["mine"] == "3"
    assert len(read) == 1


def test_an_archived_commit_that_completed_late_comes_in_its_order(location: str, found: Search) -> None:
    table = make(location, options=MANUAL)
    with table.begin("upsert", extra_metadata={"mine": "late"}) as write:
        write.write(orders((1, "late", 1.0)))
        for number in range(3):
            table.upsert(orders((number, "a", 1.0)), extra_metadata={"mine": str(number)})
        write.commit()
    table.upsert(orders((9, "a", 1.0)), extra_metadata={"mine": "last"})
    table.upsert(orders((9, "a", 1.0)))
    before = found(table, "mine")
    assert before == ["last", "late", "2", "1", "0"]
    assert table.archival.run()
    assert found(table, "mine") == before


def test_without_the_word_an_empty_batch_makes_no_commit(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as write:
        write.write(orders())
        assert not write.commit()
    assert not list(table.timeline)


def test_rows_that_change_nothing_make_one_if_that_is_allowed_and_add_no_columns(location: str) -> None:
    table = make(location, ordering="ts")
    table.upsert(orders((1, "a", 1.0, 5)))
    older = orders((1, "a", 2.0, 4)).append_column("note", pa.array(["lost"]))
    with table.begin("upsert", allow_empty=True) as write:
        write.write(older)
        assert write.commit()
    assert newest(table).is_empty
    assert rows(table, "id", "price") == [(1, 1.0)]
    assert "note" not in table.schema.names
