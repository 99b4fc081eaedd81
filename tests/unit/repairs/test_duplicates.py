"""`table.duplicates` and `pyhudi repair --duplicates`: of the rows of a key that other writers left twice in a partition, one stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.disk import contents
from support.duplicates import at_once, careless, careless_home, with_every_index
from support.metadata_tables import assert_metadata_is_true, build
from support.tables import orders, rows

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.doctor.kinds import FindingKind
from pyhudi_core.errors import CommitConflictError

TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def twice(location: str, kind: str = "COPY_ON_WRITE", **more: Any) -> hudi.HudiTable:
    """Keys 1 and 2 are in two file groups of a partition, key 3 in three; the highest ts is not always the last written."""
    table = careless(location, kind, **more)
    at_once(
        table,
        orders((1, "a", 1.0, 10), (2, "a", 1.0, 10), (3, "a", 1.0, 10), (8, "a", 1.0, 1)),
        orders((1, "a", 2.0, 5), (2, "a", 2.0, 20), (3, "a", 2.0, 30), (9, "b", 2.0, 1)),
        orders((3, "a", 3.0, 20), (7, "a", 3.0, 1)),
    )
    assert len(rows(table, "id")) == 10
    return table


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", TYPES)
def test_the_row_that_wins_the_merge_stays(location: str, kind: str) -> None:
    table = twice(location, kind)
    assert table.check().of(FindingKind.DUPLICATE_KEY)
    plan = table.duplicates.plan()
    assert dict(plan.figures) == {"keys": 3, "rows": 4, "file_groups": 3, "estimated_seconds": 0.106}
    assert "4 surplus rows of 3 keys ('" in str(plan)
    commit = table.duplicates.run()
    assert commit.stats.rows_deleted == 4
    expected = [(1, 1.0), (2, 2.0), (3, 2.0), (7, 3.0), (8, 1.0), (9, 2.0)]
    assert rows(table, "id", "price") == expected
    assert table.check().ok
    assert table.commit_metadata(table.timeline.commits[-1]).extra["pyhudi.repair"] == "duplicates"
    table.upsert(orders((1, "a", 9.0, 99), (3, "a", 9.0, 99)))
    assert [row for row in rows(table, "id", "price") if row[1] == 9.0] == [(1, 9.0), (3, 9.0)]


@pytest.mark.parametrize("kind", TYPES)
def test_without_ordering_the_row_that_was_written_last_stays(location: str, kind: str) -> None:
    table = twice(location, kind, ordering=None)
    table.duplicates.run()
    assert rows(table, "id", "price")[:3] == [(1, 2.0), (2, 2.0), (3, 3.0)]


def test_rows_in_logs_are_compared_as_they_are_read(location: str) -> None:
    table = twice(location, "MERGE_ON_READ")
    table.delete(pa.table({"id": [8], "day": ["a"]}))
    table.upsert(orders((1, "a", 5.0, 50), (7, "a", 5.0, 50)))
    kept = [row for row in rows(table, "id", "price", "ts") if row[0] == 1]
    assert (1, 5.0, 50) in kept
    table.duplicates.run()
    assert [row for row in rows(table, "id", "price") if row[0] in (1, 7, 8)] == [(1, 5.0), (7, 5.0)]


def test_a_plan_changes_nothing_and_a_table_without_duplicates_has_nothing_to_do(location: str) -> None:
    table = careless(location)
    table.insert(orders((1, "a", 1.0, 1), (1, "b", 1.0, 1)))
    before = contents(location)
    plan = table.duplicates.plan()
    assert not plan
    assert plan.why_not == "no partition has a record key in two file groups"
    commit = table.duplicates.run()
    assert not commit
    assert commit.reason == plan.why_not
    assert contents(location) == before


@pytest.mark.row("I5")
def test_indexes_are_true_after_it(location: str) -> None:
    table = twice(location)
    table.duplicates.run()
    build(table)
    table = hudi.HudiTable(careless_home(location))
    # Hudi's writers make such rows without telling the record index; here the index of the copies is what the first build says.
    assert_metadata_is_true(table)
    table.upsert(orders((1, "a", 7.0, 70)))
    assert_metadata_is_true(table)


def test_the_record_index_names_the_copy_that_stays(location: str) -> None:
    """Each of the two inserts told the index its own place, and the later one is in it; the earlier row wins by its ts."""
    table = careless(location)
    table.insert(orders((9, "b", 1.0, 1)))
    build(table)
    table = hudi.HudiTable(careless_home(location))
    at_once(table, orders((3, "a", 1.0, 30)), orders((3, "a", 2.0, 20), (4, "a", 2.0, 20)))
    commit = table.duplicates.run()
    assert commit.stats.rows_deleted == 1
    assert_metadata_is_true(table)
    assert rows(table.lookup(pa.table({"id": [3], "day": ["a"]})), "id", "price") == [(3, 1.0)]
    table.upsert(orders((3, "a", 7.0, 70)))
    assert_metadata_is_true(table)


@pytest.mark.row("I4", "I5", "I7", "I8")
@pytest.mark.parametrize("kind", TYPES)
def test_all_kinds_of_indexes_are_true_after_it(location: str, kind: str) -> None:
    table = with_every_index(location, kind)
    assert table.duplicates.run().stats.rows_deleted == 3
    assert_metadata_is_true(table)
    table.upsert(orders((3, "a", 7.0, 70), (5, "b", 1.0, 1)))
    assert_metadata_is_true(table)
    assert rows(table.scan(where="ts = 20"), "id") == [(2,), (4,)]
    assert table.check().ok


def test_a_table_that_wants_a_record_index_can_be_repaired_first(location: str) -> None:
    """The index cannot be built while keys are there twice; the next write builds it."""
    table = twice(location)
    wants = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}
    table = hudi.open_table(location, storage_options={"fsync": "false"}, options=wants)
    assert table.duplicates.run().stats.rows_deleted == 4
    table.upsert(orders((1, "a", 9.0, 99)))
    assert_metadata_is_true(hudi.open_table(location))


def test_a_writer_that_changes_a_copy_meanwhile_makes_it_plan_again(location: str) -> None:
    table = twice(location)
    service = table.duplicates
    other = hudi.open_table(location, storage_options={"fsync": "false"})
    seen = service.plan()
    other.delete(pa.table({"id": [2], "day": ["a"]}))
    assert dict(seen.figures) != dict(service.plan().figures)
    commit = service.run()
    assert commit.retries == 0
    assert [row[0] for row in rows(table, "id")].count(2) == 1


@pytest.mark.one_in(2, first=1)
@pytest.mark.parametrize("kind", TYPES)
def test_a_delete_of_the_copy_that_stays_is_a_conflict_with_an_open_repair(location: str, kind: str) -> None:
    table = twice(location, kind, **{"pyhudi.commit.retries": "0"})
    service = table.duplicates
    found = service._found

    def beside(*arguments: Any) -> Any:
        batch = found(*arguments)
        hudi.open_table(location, storage_options={"fsync": "false"}).upsert(orders((2, "a", 0.0, 99)))
        return batch

    service._found = beside  # type: ignore[method-assign]
    with pytest.raises(CommitConflictError):
        service.run()
    assert not table.timeline.pending
    assert len(rows(table, "id")) == 10
    assert not list(Path(location).rglob("*.marker.*"))


def test_after_a_conflict_the_duplicates_are_searched_in_the_newest_state(location: str) -> None:
    """The winner has written the copy of key 2 that lost before with a newer time, so now the other copy is the surplus one."""
    table = twice(location, **{"pyhudi.commit.retries": "1"})
    service, states = table.duplicates, []
    found = service._found

    def beside(*arguments: Any) -> Any:
        batch = found(*arguments)
        states.append(arguments[-1])
        if len(states) == 1:
            hudi.open_table(location, storage_options={"fsync": "false"}).upsert(orders((2, "a", 5.0, 99)))
        return batch

    service._found = beside  # type: ignore[method-assign]
    assert service.run().retries == 1
    assert len(states) == 2
    assert states[1].completion_time > states[0].completion_time
    assert [row for row in rows(table, "id", "price") if row[0] == 2] == [(2, 5.0)]
    assert table.check().ok


def two_copies(location: str, kind: str) -> hudi.HudiTable:
    """Key 1 is in two file groups; the one that was written later has the copy that stays."""
    table = careless(location, kind)
    at_once(table, orders((1, "a", 1.0, 10), (8, "a", 1.0, 1)), orders((1, "a", 2.0, 20), (7, "a", 1.0, 1)))
    return table


def test_a_planned_compaction_of_the_copy_that_stays_is_not_in_the_way(location: str) -> None:
    """Nothing is written to that file group, so the base file of the compaction lacks nothing."""
    table = two_copies(location, "MERGE_ON_READ")
    table.upsert(orders((7, "a", 7.0, 7)))
    assert table.compaction.schedule() is not None
    assert table.duplicates.run().stats.rows_deleted == 1
    table.compaction.execute()
    assert rows(table, "id", "price") == [(1, 2.0), (7, 7.0), (8, 1.0)]


@pytest.mark.parametrize("kind", TYPES)
def test_changes_do_not_say_that_a_key_was_deleted_of_which_a_row_stays(location: str, kind: str) -> None:
    """A program that applies changes by key would delete the row that stays."""
    table = two_copies(location, kind)
    before = table.timeline.commits[-1].completion_time
    table.duplicates.run()
    assert rows(table.changes(after=before)) == []
    table.upsert(orders((8, "a", 9.0, 9)))
    assert [row[0] for row in rows(table.changes(after=before), "op")] == ["u"]


def test_keys_that_one_file_has_twice_are_named_and_stay(location: str) -> None:
    table = careless(location, ordering=None)
    table.insert(orders((1, "a", 1.0, 1), (2, "a", 1.0, 1)))
    [stat] = table.commit_metadata(table.timeline.commits[0]).stats
    path = Path(location, stat.path)
    data = pq.read_table(path)
    pq.write_table(pa.concat_tables([data, data.slice(0, 1)]), path)
    plan = hudi.open_table(location).duplicates.plan()
    assert not plan
    assert "1 keys are in one file twice" in plan.why_not


def test_the_command_shows_the_plan_and_changes_nothing_until_it_is_told_to(location: str) -> None:
    twice(location)
    before = contents(location)
    shown = CliRunner().invoke(main, ["repair", location, "--duplicates"])
    assert shown.exit_code == 0, shown.output
    assert "4 surplus rows of 3 keys" in shown.output
    assert "Nothing was changed" in shown.output
    assert contents(location) == before
    done = CliRunner().invoke(main, ["repair", location, "--duplicates", "--run", "--json"])
    assert json.loads(done.output)["rows_deleted"] == 4
    assert len(rows(hudi.open_table(location), "id")) == 6
    assert CliRunner().invoke(main, ["repair", location]).exit_code == 2
