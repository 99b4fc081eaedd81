"""One rule for every write: where there is nothing to change there is no commit and no error, and the result is false and says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from support.disk import contents, files
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidOptionError, PartitionNotFoundError
from pyhudi_core.table import HudiTable

EMPTY = orders()
ABSENT = pa.table({"id": [7, 8], "day": ["a", "nowhere"]})
NO_KEYS = ABSENT.slice(0, 0)
Verb = Callable[[HudiTable], hudi.Commit]
NOTHING: dict[str, tuple[Verb, str]] = {
    "upsert of no rows": (lambda t: t.upsert(EMPTY), "the batch has no rows"),
    "insert of no rows": (lambda t: t.insert(EMPTY), "the batch has no rows"),
    "bulk_insert of no rows": (lambda t: t.bulk_insert(EMPTY), "the batch has no rows"),
    "insert_overwrite of no rows": (lambda t: t.insert_overwrite(EMPTY), "the batch has no rows"),
    "delete of no keys": (lambda t: t.delete(NO_KEYS), "the batch has no rows"),
    "delete of absent keys": (lambda t: t.delete(ABSENT), "none of the 2 keys is in the table"),
    "delete of an absent key in a partition of one file": (lambda t: t.delete(ABSENT.slice(0, 1)), "none of the 1 keys"),
    "delete where nothing is": (lambda t: t.delete(where="price > 100"), "no row matches the condition"),
    "upsert of older rows": (lambda t: t.upsert(orders((1, "a", 9.0, 1))), "each of the 1 rows is older than the table's row"),
    "delete_partitions that may be missing": (lambda t: t.delete_partitions(["day=x", "day=y"], missing_ok=True), "none of these partitions"),
    "empty columns that are new": (lambda t: t.upsert(EMPTY.append_column("new", pa.array([], pa.string()))), "the batch has no rows"),
}  # fmt: skip


@pytest.fixture
def table(location: str) -> HudiTable:
    made = make(location, ordering="ts")
    made.upsert(orders((1, "a", 1.0, 5), (2, "b", 2.0, 5)))
    return made


@pytest.mark.one_in(2)
@pytest.mark.parametrize("verb", NOTHING)
def test_nothing_to_change_is_no_commit_and_no_error(table: HudiTable, location: str, verb: str) -> None:
    call, reason = NOTHING[verb]
    before, schema, state = contents(location), table.schema, table.scan().completion_time
    result = call(table)
    assert not result
    assert result.changed is False
    assert reason in result.reason
    assert contents(location) == before, "not a file more or less, on the timeline or anywhere"
    assert table.schema == schema
    stats = result.stats
    assert (stats.rows_inserted, stats.rows_updated, stats.rows_deleted, stats.rows_replaced, stats.files) == (
        0,
        0,
        0,
        0,
        (),
    )
    assert (result.instant, result.token, result.completion_time) == ("", "", state)
    assert "nothing to change" in str(result)
    assert reason.partition("'")[0] in result._repr_html_()


def test_what_changes_something_is_true(table: HudiTable) -> None:
    commit = table.upsert(orders((1, "a", 2.0, 6)))
    assert commit
    assert (commit.changed, commit.reason) == (True, "")


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "delete", "insert_overwrite"])
def test_the_same_holds_in_steps(table: HudiTable, location: str, operation: str) -> None:
    before = contents(location)
    batch = NO_KEYS if operation == "delete" else EMPTY
    with table.begin(operation) as write:
        write.write(batch)
        assert (write.instant, write.token, write.stats.files) == (None, None, ())
        assert rows(write.staged()) == []
        verdict = write.would_commit()
        assert not verdict
        assert verdict.reason == "there is nothing to change: the batch has no rows"
        with pytest.raises(InvalidOptionError, match="written its batch already"):
            write.write(batch)
        with pytest.raises(InvalidOptionError, match="nothing to change"):
            write.conflict_side()
        result = write.commit(gate=lambda: pytest.fail("there is nothing to ask the gate about"))
        with pytest.raises(InvalidOptionError, match="committed already"):
            write.commit()
    assert not result
    assert contents(location) == before
    with table.begin(operation) as write:
        write.write(batch)
    assert contents(location) == before, "leaving without a commit has nothing to roll back"


def test_keys_that_are_not_there_leave_nothing_in_steps_either(table: HudiTable, location: str) -> None:
    before = contents(location)
    with table.begin("delete") as write:
        write.write(ABSENT)
        assert write.instant is None, "what was announced has been taken back"
        assert not write.would_commit()
        assert not write.commit()
    assert contents(location) == before
    assert [name for name in files(f"{location}/.hoodie") if "heartbeat" in name] == []


def test_inserts_of_which_all_are_left_out_change_nothing(table: HudiTable, location: str) -> None:
    dropping = reopen(table, **{"hoodie.datasource.write.insert.drop.duplicates": "true"})
    before = contents(location)
    for verb in (dropping.insert, dropping.bulk_insert):
        result = verb(orders((1, "a", 9.0, 9)))
        assert not result
        assert "a key that the table has already" in result.reason
    assert contents(location) == before
    assert dropping.insert(orders((1, "a", 9.0, 9), (3, "a", 3.0, 1))).stats.rows_inserted == 1


def test_overwriting_the_table_with_no_rows_empties_it_once(table: HudiTable) -> None:
    first = table.insert_overwrite_table(EMPTY)
    assert first
    assert first.stats.rows_replaced == 2
    assert rows(table) == []
    second = table.insert_overwrite_table(EMPTY)
    assert not second
    assert second.reason == "the batch has no rows"


@pytest.mark.row("C3", "D9")
def test_an_unknown_partition_is_an_error_that_names_what_is_there(table: HudiTable, location: str) -> None:
    table.upsert(orders((3, "2026-01-31", 1.0)))
    before = contents(location)
    for paths in (["day=2026-01-13"], ["day=a", "day=2026-01-13"]):
        with pytest.raises(
            PartitionNotFoundError, match=r"no partition 'day=2026-01-13'.*'day=2026-01-31'.*missing_ok=True"
        ) as caught:
            table.delete_partitions(paths)
        assert caught.value.table == location
    with table.begin("delete_partition") as write, pytest.raises(PartitionNotFoundError):
        write.drop(("day=2026-01-13",))
    assert contents(location) == before
    with pytest.raises(PartitionNotFoundError, match="There is 'day=2026-01-31'"):
        table.delete_partitions(["2026-01-31"])
    commit = table.delete_partitions(["day=a", "day=2026-01-13"], missing_ok=True)
    assert commit.stats.partitions == ("day=a",)
    assert rows(table, "id") == [(2,), (3,)]
    with pytest.raises(PartitionNotFoundError):
        table.delete_partitions(["day=a"])


@pytest.mark.row("C3")
@pytest.mark.parametrize("archived", [False, True])
def test_dropping_partitions_tells_how_many_rows_went(location: str, archived: bool) -> None:
    make(location)
    table = hudi.open_table(location, options={"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    table.upsert(orders(*((n, "abc"[n % 3], 1.0) for n in range(30))))
    table.delete(pa.table({"id": [0, 3], "day": ["a", "a"]}))
    for number in range(6 if archived else 0):
        table.upsert(orders((number, "z", 1.0)))
    commit = table.delete_partitions(["day=a", "day=b"])
    assert (commit.stats.rows_deleted, commit.stats.rows_replaced) == (18, 18)
    said = table.commit_metadata(table.timeline.commits[-1])
    assert (said.operation, said.rows_replaced) == ("DELETE_PARTITION", 18)
    assert hudi.CommitStats.of(said) == commit.stats
    over = table.insert_overwrite(orders((2, "c", 1.0)))
    assert (over.stats.rows_deleted, over.stats.rows_replaced, over.stats.rows_inserted) == (0, 10, 1)


def test_a_result_that_is_false_is_refused_where_a_commit_is_needed(table: HudiTable) -> None:
    nothing = table.upsert(EMPTY)
    other = table.upsert(orders((1, "a", 2.0, 6)))
    with pytest.raises(InvalidOptionError, match="changed nothing"):
        table.explain_conflict(nothing, other)


def test_nobody_waits_for_a_write_that_had_nothing_to_change(table: HudiTable) -> None:
    """It is not on the timeline, so it conflicts with no other write, and no claim or lock of it is left."""
    for concurrency in ("pessimistic", "optimistic"):
        patient = hudi.open_table(table.location, options={"concurrency": concurrency})
        patient.delete(ABSENT)
        patient.upsert(EMPTY)
        assert [instant.is_pending for instant in table.timeline] == [False] * len(table.timeline)
        assert table.upsert(orders((1, "a", 3.0, 9))).retries == 0


def test_the_rest_of_a_batch_is_written_as_ever(table: HudiTable) -> None:
    given: Any = pa.table({"id": [1, 7], "day": ["a", "a"]})
    assert table.delete(given).stats.rows_deleted == 1
    assert rows(table, "id") == [(2,)]
