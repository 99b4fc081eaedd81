"""Two writers on one table: what commutes commits, what does not is found, and a plain verb plans anew by itself."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from support.disk import data_files
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import Concurrent, ConflictKind, Touched, find_conflict
from pyhudi_core.errors import CommitConflictError, SchemaMismatchError
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.write import write as writing
from pyhudi_core.write.attempt import CommitCheck
from pyhudi_core.write.retrying import Retries

BASE = orders((1, "a", 1.0), (2, "b", 2.0))


def _between(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Let something happen once, just before the next commit asks for the lock."""
    real = writing.check_before_lock
    pending = [action]

    def check(check: CommitCheck, retries: Retries) -> None:
        if pending:
            pending.pop()()
        real(check, retries)

    monkeypatch.setattr(writing, "check_before_lock", check)


def test_two_updates_of_one_file_group_conflict(location: str) -> None:
    table = make(location)
    table.upsert(BASE)
    with table.begin("upsert") as first, table.begin("upsert") as second:
        first.write(orders((1, "a", 10.0)))
        second.write(orders((1, "a", 20.0)))
        winner = second.commit()
        with pytest.raises(CommitConflictError, match="changed the same file groups") as caught:
            first.commit()
    assert caught.value.conflict.kind is ConflictKind.FILE_GROUP
    assert winner.instant in str(caught.value)
    assert "day=a" in str(caught.value)
    assert caught.value.hint is not None
    assert rows(table, "id", "price") == [(1, 20.0), (2, 2.0)]
    assert len(data_files(location)) == 3, "the loser's file is gone"


def test_a_verb_that_loses_plans_anew_from_the_state_that_the_other_left(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    table.upsert(BASE)
    _between(monkeypatch, lambda: reopen(table).upsert(orders((1, "a", 20.0), (3, "a", 3.0))))
    commit = table.upsert(orders((1, "a", 10.0), (4, "a", 4.0)))
    assert commit.retries == 1
    assert rows(table, "id", "price") == [(1, 10.0), (2, 2.0), (3, 3.0), (4, 4.0)]


def test_the_number_of_attempts_is_an_option(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(location)
    table.upsert(BASE)
    _between(monkeypatch, lambda: reopen(table).upsert(orders((1, "a", 20.0))))
    with pytest.raises(CommitConflictError):
        reopen(table, pyhudi__commit__retries=0).upsert(orders((1, "a", 10.0)))
    assert rows(table, "id", "price") == [(1, 20.0), (2, 2.0)]


def test_inserts_of_the_same_key_into_one_partition_conflict(location: str) -> None:
    table = make(location)
    with table.begin("insert") as first, table.begin("insert") as second:
        first.write(orders((1, "a", 1.0)))
        second.write(orders((1, "a", 2.0)))
        second.commit()
        with pytest.raises(CommitConflictError, match="inserted the same record keys, '1',"):
            first.commit()
    assert rows(table, "id", "price") == [(1, 2.0)]


def test_an_upsert_that_loses_to_an_insert_of_its_key_updates_it(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    _between(monkeypatch, lambda: reopen(table).insert(orders((1, "a", 1.0))))
    commit = table.upsert(orders((1, "a", 2.0)))
    assert rows(table, "id", "price") == [(1, 2.0)]
    assert (commit.stats.rows_inserted, commit.stats.rows_updated) == (0, 1)


def test_an_insert_that_loses_to_an_insert_of_its_key_finds_the_duplicate(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    _between(monkeypatch, lambda: reopen(table).insert(orders((1, "a", 1.0))))
    with pytest.raises(hudi.errors.DuplicateKeyError):
        table.insert(orders((1, "a", 2.0)))
    assert rows(table, "id", "price") == [(1, 1.0)]


def test_writes_to_different_partitions_commute(location: str) -> None:
    table = make(location)
    table.upsert(BASE)
    with table.begin("upsert") as first, table.begin("upsert") as second, table.begin("insert_overwrite") as third:
        first.write(orders((1, "a", 10.0)))
        second.write(orders((2, "b", 20.0)))
        third.write(orders((3, "c", 30.0)))
        for write in (third, second, first):
            assert write.would_commit()
            write.commit()
    assert rows(table, "id", "price") == [(1, 10.0), (2, 20.0), (3, 30.0)]


def test_an_overwrite_conflicts_with_an_insert_into_its_partition(location: str) -> None:
    table = make(location)
    with table.begin("insert_overwrite") as overwrite:
        overwrite.write(orders((1, "a", 1.0)))
        table.insert(orders((2, "a", 2.0)))
        with pytest.raises(CommitConflictError, match="partitions that this write replaces"):
            overwrite.commit()
    assert rows(table, "id") == [(2,)]


def test_an_overwrite_that_loses_replaces_what_the_other_wrote(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(location)
    table.upsert(BASE)
    _between(monkeypatch, lambda: reopen(table).insert(orders((5, "a", 5.0))))
    commit = table.insert_overwrite(orders((9, "a", 9.0)))
    assert commit.retries == 1
    assert rows(table, "id") == [(2,), (9,)]


def test_an_overwrite_of_the_table_conflicts_with_any_write(location: str) -> None:
    table = make(location)
    table.upsert(BASE)
    with table.begin("insert_overwrite_table") as overwrite:
        overwrite.write(orders((9, "z", 9.0)))
        table.insert(orders((5, "new", 5.0)))
        with pytest.raises(CommitConflictError):
            overwrite.commit()
    assert rows(table, "id") == [(1,), (2,), (5,)]


def test_an_update_conflicts_with_an_overwrite_that_took_its_group_away(location: str) -> None:
    table = make(location)
    table.upsert(BASE)
    with table.begin("upsert") as update:
        update.write(orders((1, "a", 10.0)))
        table.insert_overwrite(orders((9, "a", 9.0)))
        with pytest.raises(CommitConflictError):
            update.commit()
    assert rows(table, "id") == [(2,), (9,)]


def test_delete_partitions_that_loses_takes_the_new_rows_too(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(location)
    table.upsert(BASE)
    _between(monkeypatch, lambda: reopen(table).insert(orders((5, "a", 5.0))))
    table.delete_partitions(["day=a"])
    assert rows(table, "id") == [(2,)]


def test_a_delete_by_condition_does_not_take_a_row_that_changed_meanwhile(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 100.0), (2, "a", 200.0), (3, "a", 3.0)))
    _between(monkeypatch, lambda: reopen(table).upsert(orders((1, "a", 1.0))))
    commit = table.delete(where="price > 50")
    assert commit.retries == 1
    assert rows(table, "id", "price") == [(1, 1.0), (3, 3.0)]


def test_a_delete_by_condition_is_made_at_the_state_that_it_read(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 100.0), (2, "a", 200.0)))
    real = hudi.Write.write
    pending = [lambda: reopen(table).upsert(orders((1, "a", 1.0)))]

    def write(self: hudi.Write, data: object) -> object:
        if pending:
            pending.pop()()
        return real(self, data)

    monkeypatch.setattr(hudi.Write, "write", write)
    table.delete(where="price > 50")
    assert rows(table, "id", "price") == [(1, 1.0)]


def _wider(price: float) -> pa.Table:
    return orders((2, "b", price)).append_column("note", pa.array(["new"]))


@pytest.mark.row("D10")
def test_a_column_that_was_added_meanwhile_is_not_lost_to_a_writer_of_another_partition(location: str) -> None:
    table = make(location)
    table.upsert(BASE)
    with table.begin("upsert") as old:
        old.write(orders((1, "a", 10.0)))
        table.upsert(_wider(20.0))
        with pytest.raises(CommitConflictError, match="other columns") as caught:
            old.commit()
    assert caught.value.conflict.kind is ConflictKind.SCHEMA
    assert rows(table, "id", "price", "note") == [(1, 1.0, None), (2, 20.0, "new")]


@pytest.mark.row("D10")
def test_a_write_that_adds_a_column_comes_after_all_that_do_not_know_it(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    table.upsert(BASE)
    _between(monkeypatch, lambda: reopen(table).upsert(orders((1, "a", 10.0))))
    commit = table.upsert(_wider(20.0))
    assert commit.retries == 1, "else the other commit's requested time, which is greater, would take the column away"
    assert rows(table, "id", "price", "note") == [(1, 10.0, None), (2, 20.0, "new")]


@pytest.mark.row("D10")
def test_rows_for_the_old_columns_are_not_written_over_the_new_ones(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    table.upsert(BASE)
    _between(monkeypatch, lambda: reopen(table).upsert(_wider(20.0)))
    with pytest.raises(SchemaMismatchError, match="changed the table's columns"):
        table.upsert(orders((1, "a", 10.0)))
    assert rows(table, "id", "price", "note") == [(1, 1.0, None), (2, 20.0, "new")]


@pytest.mark.row("D10")
def test_a_delete_keeps_a_column_that_was_added_meanwhile(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0), (3, "b", 3.0)))
    _between(monkeypatch, lambda: reopen(table).upsert(_wider(20.0)))
    table.delete(pa.table({"id": [3, 1], "day": ["b", "a"]}))
    assert rows(table, "id", "price", "note") == [(2, 20.0, "new")]


def test_many_writers_of_one_group_all_get_through(location: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    table = make(location)
    table.upsert(orders((0, "a", 0.0)))

    def write(number: int) -> hudi.Commit:
        mine = hudi.open_table(location, {"fsync": "false"}, {"pyhudi.commit.retries": 100})
        return mine.upsert(orders((number, "a", float(number)), (0, "a", float(number))))

    with ThreadPoolExecutor(4) as pool:
        commits = list(pool.map(write, range(1, 7)))
    last = max(commits, key=lambda commit: commit.completion_time)
    found = dict(rows(table, "id", "price"))
    assert sorted(found) == list(range(7))
    assert found[0] == float(next(i for i, c in enumerate(commits, 1) if c is last))
    assert len({commit.instant for commit in commits}) == 6


# --- the rule itself, without a table


def _commit(
    *groups: tuple[str, str],
    inserts: int = 0,
    operation: str = "UPSERT",
    replaced: dict[str, tuple[str, ...]] | None = None,
) -> CommitMetadata:
    stats = tuple(WriteStat(file_id, f"{p}/{file_id}", p, inserts=inserts, updates=1) for p, file_id in groups)
    return CommitMetadata(operation, stats, {}, replaced or {})


def _replacing(partition: str) -> CommitMetadata:
    return _commit(operation="DELETE_PARTITION", replaced={partition: ("f",)})


def _logging(partition: str, file_id: str) -> CommitMetadata:
    stat = WriteStat(file_id, f"{partition}/.{file_id}_1.log.1_0-1-2", partition, updates=1)
    return CommitMetadata("UPSERT", (stat,), {})


def _at(commit: CommitMetadata) -> Concurrent:
    return Concurrent(((Instant("2", Action.COMMIT, State.COMPLETED, "3"), commit),))


@pytest.mark.parametrize(
    ("mine", "theirs", "kind"),
    [
        (_commit(("p", "f")), _commit(("p", "f")), ConflictKind.FILE_GROUP),
        (_commit(("p", "f")), _commit(("q", "f")), None),
        (_commit(("p", "f")), _commit(("p", "g")), None),
        (_commit(("p", "f"), inserts=1), _commit(("p", "g"), inserts=1), ConflictKind.RECORD_KEY),
        (_commit(("p", "f"), inserts=1), _commit(("p", "g")), None),
        (_commit(("p", "f"), inserts=1), _commit(("p", "g"), inserts=1, operation="CLUSTER"), None),
        (
            _commit(("p", "f")),
            _commit(("p", "g"), operation="CLUSTER", replaced={"p": ("f",)}),
            ConflictKind.FILE_GROUP,
        ),
        (_replacing("p"), _commit(("p", "g")), ConflictKind.REPLACED_PARTITION),
        (_replacing("p"), _commit(("q", "g")), None),
        (_commit(("p", "g")), _replacing("p"), None),
        (_commit(("p", "f")), _commit(("q", "g"), operation="ALTER_SCHEMA"), ConflictKind.OPERATION),
        (_commit(("p", "f")), _commit(("p", "f"), operation="COMPACT"), ConflictKind.FILE_GROUP),
        (_logging("p", "f"), _commit(("p", "f"), operation="COMPACT"), None),
        (_commit(("p", "f"), operation="COMPACT"), _logging("p", "f"), None),
        (_commit(("p", "f"), operation="COMPACT"), _commit(("p", "f")), ConflictKind.FILE_GROUP),
    ],
)
def test_which_commits_conflict(mine: CommitMetadata, theirs: CommitMetadata, kind: ConflictKind | None) -> None:
    found = find_conflict(Touched.by(mine), _at(theirs))
    assert (found.kind if found else None) is kind


def test_the_check_of_keys_can_be_left_to_others() -> None:
    mine, theirs = _commit(("p", "f"), inserts=1), _commit(("p", "g"), inserts=1)
    assert find_conflict(Touched.by(mine), _at(theirs), key_check=False) is None


def test_a_pending_clustering_keeps_its_groups_for_itself() -> None:
    plan = Instant("2", Action.CLUSTERING, State.INFLIGHT)
    concurrent = Concurrent((), ((plan, frozenset({("p", "f")})),))
    found = find_conflict(Touched.by(_commit(("p", "f"))), concurrent)
    assert found is not None
    assert found.kind is ConflictKind.PENDING_CLUSTERING
    assert "plans to rewrite" in found.describe()
    assert find_conflict(Touched.by(_commit(("p", "g"))), concurrent) is None
