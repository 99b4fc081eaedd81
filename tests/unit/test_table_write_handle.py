"""A write in steps: write, look, ask, commit through a gate, or leave and have it rolled back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.disk import contents, data_files, files
from support.tables import make, orders, rows

from pyhudi_core.errors import CommitAbortedError, InvalidOptionError, SchemaMismatchError
from pyhudi_core.model.instant import Action


def test_nothing_is_visible_before_the_commit(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0), (2, "a", 3.0)))
        assert rows(table, "id", "price") == [(1, 1.0)]
        assert (write.stats.rows_inserted, write.stats.rows_updated) == (1, 1)
        commit = write.commit()
    assert rows(table, "id", "price") == [(1, 2.0), (2, 3.0)]
    assert commit.instant == write.instant
    assert commit.token == write.token


def test_what_is_staged_can_be_read(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 2.0)))
    with table.begin("upsert") as write:
        write.write(orders((2, "a", 20.0), (3, "b", 30.0)))
        assert rows(write.staged(), "id", "price") == [(2, 20.0), (3, 30.0)]
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0)]


@pytest.mark.row("U7")
def test_would_commit_says_yes_or_why_not(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        assert write.would_commit()
        other = table.upsert(orders((1, "a", 3.0)))
        verdict = write.would_commit()
        assert not verdict
        assert other.instant in verdict.reason
    assert rows(table, "id", "price") == [(1, 3.0)]


def test_leaving_without_a_commit_removes_every_file(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = {name for name in contents(location) if not name.startswith(".hoodie/")}
    with table.begin("insert") as write:
        write.write(orders((2, "a", 2.0), (3, "a", 3.0)))
        assert len(data_files(location)) == 2
    assert {name for name in contents(location) if not name.startswith(".hoodie/")} == before
    assert [i.action for i in table.timeline] == [Action.COMMIT, Action.ROLLBACK]
    assert files(location + "/.hoodie/.temp") == []
    assert files(location + "/.hoodie/.heartbeat") == []
    assert not files(location + "/.hoodie/.aux/.pyhudi/staged")
    assert rows(table, "id") == [(1,)]


def test_an_error_inside_the_block_rolls_back_and_comes_out(location: str) -> None:
    table = make(location)
    with pytest.raises(ZeroDivisionError), table.begin("upsert") as write:  # noqa: PT012
        write.write(orders((1, "a", 1.0)))
        _ = 1 / 0
    assert data_files(location) == []
    assert rows(table) == []


def test_a_gate_that_agrees_lets_the_commit_through(location: str) -> None:
    table = make(location)
    asked = []
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        write.commit(gate=lambda: asked.append(rows(table)))
    assert asked == [[]], "the gate is asked once, before anything is visible"
    assert rows(table, "id") == [(1,)]


def test_a_gate_that_refuses_gives_the_commit_up(location: str) -> None:
    table = make(location)
    with pytest.raises(CommitAbortedError, match="gate refused"), table.begin("upsert") as write:  # noqa: PT012
        write.write(orders((1, "a", 1.0)))
        write.commit(gate=lambda: False)
    assert rows(table) == []
    assert data_files(location) == []


def test_a_gate_that_raises_gives_the_commit_up(location: str) -> None:
    table = make(location)

    def gate() -> None:
        raise PermissionError("not today")

    with pytest.raises(PermissionError, match="not today"), table.begin("upsert") as write:  # noqa: PT012
        write.write(orders((1, "a", 1.0)))
        write.commit(gate=gate)
    assert data_files(location) == []


def test_a_handle_takes_one_batch(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        with pytest.raises(InvalidOptionError, match="has written its batch already"):
            write.write(orders((2, "a", 1.0)))
        write.commit()
    assert rows(table, "id") == [(1,)]


def test_a_handle_commits_once(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        write.commit()
        with pytest.raises(InvalidOptionError, match="committed already"):
            write.commit()
    assert rows(table, "id") == [(1,)]


@pytest.mark.parametrize("verb", ["commit", "staged", "would_commit"])
def test_a_handle_that_wrote_nothing_says_so(location: str, verb: str) -> None:
    table = make(location)
    with table.begin("upsert") as write, pytest.raises(InvalidOptionError, match=r"Call write\(data\) first"):
        getattr(write, verb)()
    assert len(table.timeline) == 0


def test_bad_data_in_a_handle_leaves_it_unused(location: str) -> None:
    table = make(location)
    before = contents(location)
    with table.begin("upsert") as write:
        with pytest.raises(SchemaMismatchError):
            write.write(pa.table({"id": [1]}))
        assert write.instant is None
        assert write.token is None
    assert contents(location) == before


@pytest.mark.parametrize("name", ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"])
def test_every_operation_can_be_done_in_steps(location: str, name: str) -> None:
    table = make(location)
    with table.begin(name, extra_metadata={"who": "me"}) as write:
        write.write(orders((1, "a", 1.0)))
        commit = write.commit()
    assert commit.operation == name.upper()
    assert rows(table, "id") == [(1,)]
    assert table.commit_metadata(table.timeline[-1]).extra["who"] == "me"


def test_delete_can_be_done_in_steps(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 2.0)))
    with table.begin("delete") as write:
        write.write(pa.table({"id": [1], "day": ["a"]}))
        assert write.stats.rows_deleted == 1
        write.commit()
    assert rows(table, "id") == [(2,)]


def test_an_unknown_operation_is_refused_by_name(location: str) -> None:
    with pytest.raises(InvalidOptionError, match="'merge' is not an operation"):
        make(location).begin("merge")
