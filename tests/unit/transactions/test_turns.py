"""Transactions that change the same tables at once take turns: who has lost once holds all locks for the next attempt, in one order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi_core import table_transactions
from pyhudi_core.conflicts import precedence
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.write.handle import Write

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])
NAMES = ("lines", "orders")


def rows(*values: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [key for key, _ in values], "value": [value for _, value in values]}, SCHEMA)


def opened(folder: Path, **options: object) -> list[hudi.HudiTable]:
    return [hudi.open_table(str(folder / name), options=options) for name in NAMES]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        hudi.create_table(str(tmp_path / name), SCHEMA, "id").upsert(rows((1, 0)))
    return tmp_path


def values(folder: Path) -> list[dict[int, int]]:
    return [{row["id"]: row["value"] for row in table.to_arrow().to_pylist()} for table in opened(folder)]


def lose_once(folder: Path, value: int, **options: object) -> hudi.TableTransaction:
    """Make a transaction whose first attempt is lost in the first table."""
    tables = opened(folder, **options)
    with hudi.transaction(tables) as changes:
        for table in tables:
            changes.upsert(table, rows((1, value)))
        opened(folder)[0].upsert(rows((1, -1)))
    return changes


def others_during_the_next_attempt(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[object]:
    """Let another writer act when the first write of a transaction begins its next attempt. Returns what it got."""
    found: list[object] = []
    again = Write.write_again

    def beside(write: Write) -> None:
        if not found and write.is_prepared:
            try:
                found.append(act())
            except hudi.HudiError as error:
                found.append(type(error))
        again(write)

    monkeypatch.setattr(Write, "write_again", beside)
    return found


@pytest.mark.row("T14")
def test_the_next_transactions_of_a_handle_that_has_lost_hold_all_locks_from_their_first_attempt_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_transactions, "_NEXT_TURNS", 2)
    tables = opened(folder)
    lost = []
    for value in range(5):
        with hudi.transaction(tables) as changes:
            for table in tables:
                changes.upsert(table, rows((1, value)))
            opened(folder)[value % 2].upsert(rows((1, -1)))  # a writer that commits while the block runs
        lost.append(sum(commit.retries for commit in changes.commits.values()))
        assert values(folder) == [{1: value}, {1: value}]
    assert lost == [1, 0, 0, 1, 0]
    with hudi.transaction(tables) as changes:  # many more rows are written in the block, without the locks
        for table in tables:
            changes.upsert(table, rows(*((key, 4) for key in range(1, 9))))
        opened(folder)[0].upsert(rows((1, -1)))
    assert changes.commits[tables[0].location].retries == 1
    with hudi.transaction(tables) as changes:  # a bad batch is refused when it comes, and leaves nothing
        changes.upsert(tables[0], rows((1, 5)))
        with pytest.raises(hudi.errors.DataError):
            changes.upsert(tables[1], pa.table({"id": [1]}))
        with pytest.raises(hudi.errors.DuplicateKeyError):
            changes.insert(tables[1], rows((1, 5)))
        changes.upsert(tables[1], rows((1, 5)))
    assert [found[1] for found in values(folder)] == [5, 5]
    for table in tables:
        assert all(finding.severity == "info" for finding in table.check().findings)


@pytest.mark.row("T14")
@pytest.mark.parametrize("name", NAMES)
def test_a_transaction_that_has_lost_cannot_lose_again_because_it_holds_all_locks(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = hudi.open_table(str(folder / name), options={"hoodie.write.lock.wait_time_ms": 30})
    found = others_during_the_next_attempt(monkeypatch, lambda: other.upsert(rows((1, 99))))
    changes = lose_once(folder, 5)
    assert found == [hudi.errors.LockTimeoutError]
    assert [commit.retries for commit in changes.commits.values()] == [1, 0]
    assert values(folder) == [{1: 5}, {1: 5}]
    for table in opened(folder):
        table.upsert(rows((2, 2)))  # the locks are free again
        assert all(finding.severity == "info" for finding in table.check().findings)  # what the other could not undo


def test_who_waits_short_for_locks_is_not_made_to_wait_by_the_long_attempts_of_transactions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = opened(folder)[1]
    found = others_during_the_next_attempt(monkeypatch, lambda: other.upsert(rows((1, 99))))
    changes = lose_once(folder, 5, **{"hoodie.write.lock.wait_time_ms": 100})  # an attempt takes more than a part of it
    assert isinstance(found[0], hudi.Commit)
    assert values(folder) == [{1: 5}, {1: 5}]
    assert changes.commits


def test_a_table_that_has_nothing_to_change_after_a_conflict_is_not_held(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = opened(folder)
    held: list[bool] = []
    again = Write.write_again

    def looked(write: Write) -> None:
        lost = write.is_prepared
        again(write)
        if lost:
            held.append(write.holds_lock)

    monkeypatch.setattr(Write, "write_again", looked)
    with hudi.transaction(tables) as changes:
        changes.upsert(tables[0], rows((1, 5)))
        changes.delete(tables[1], pa.table({"id": [1]}))
        for table in opened(folder):
            table.delete(pa.table({"id": [1]}))
    assert held == [True, False]
    assert values(folder) == [{1: 5}, {}]


def test_a_transaction_waits_for_a_claim_on_any_of_its_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = opened(folder)[1]._opened.context()
    claimed = precedence.claim(context, Touched(frozenset(), frozenset({""}), None), 60_000)
    waits: list[bool] = []
    goes_first = precedence.goes_first

    def asked(*given: object) -> object:
        found = goes_first(*given)  # type: ignore[arg-type]
        waits.append(found is not None)
        if waits.count(True) == 4:
            claimed.give_up(context)
        return found

    monkeypatch.setattr(precedence, "goes_first", asked)
    tables = opened(folder)
    with hudi.transaction(tables) as changes:
        for table in tables:
            changes.upsert(table, rows((1, 5)))
    # Once in the attempt; then in the wait, until the claim is gone, without further attempts.
    assert [commit.retries for commit in changes.commits.values()] == [0, 1]
    assert values(folder) == [{1: 5}, {1: 5}]


@pytest.mark.row("T14")
def test_pessimistic_transactions_that_write_their_tables_in_other_orders_do_not_wait_for_each_other(
    folder: Path,
) -> None:
    both = threading.Barrier(2)
    found: list[object] = []

    def write(value: int) -> None:
        tables = opened(
            folder, **{"hoodie.write.concurrency.mode": "pessimistic", "hoodie.write.lock.wait_time_ms": 20_000}
        )
        try:
            with hudi.transaction(tables) as changes:
                for number, table in enumerate(tables if value else reversed(tables)):
                    changes.upsert(table, rows((1, value)))
                    if number == 0:
                        both.wait(10)
            found.append(value)
        except (hudi.HudiError, threading.BrokenBarrierError) as error:
            found.append(error)

    threads = [threading.Thread(target=write, args=(value,)) for value in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {0, 1}
    assert values(folder) == [{1: found[-1]}, {1: found[-1]}]
