"""``concurrency="pessimistic"``: the lock is held from before the write begins until after it has ended."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import LockTimeoutError
from pyhudi_core.model.instant import Action
from pyhudi_core.transaction.locking import hold


def lake(location: str) -> tuple[hudi.HudiTable, hudi.HudiTable]:
    """A pessimistic handle, and an optimistic one that does not wait."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    return reopen(table, concurrency="pessimistic"), reopen(table, hoodie__write__lock__wait_time_ms=0)


@pytest.mark.row("K3")
def test_nobody_else_commits_while_a_pessimistic_write_is_at_work(location: str) -> None:
    table, other = lake(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        with pytest.raises(LockTimeoutError):
            other.upsert(orders((1, "a", 3.0)))
        commit = write.commit()
    assert commit.retries == 0
    assert other.upsert(orders((1, "a", 4.0))).retries == 0
    assert rows(table, "id", "price") == [(1, 4.0)]


def test_reading_for_a_pessimistic_write_takes_the_lock_already(location: str) -> None:
    table, other = lake(location)
    with table.begin("upsert") as write:
        write.scan(["id"]).to_arrow()
        with pytest.raises(LockTimeoutError):
            other.upsert(orders((1, "a", 3.0)))
    other.upsert(orders((1, "a", 3.0)))


def test_a_pessimistic_write_waits_for_the_lock_as_long_as_the_option_says(location: str) -> None:
    table, _ = lake(location)
    waited: list[float] = []

    class Watched:
        def __init__(self, lock: Any) -> None:
            self._lock = lock

        def acquire(self, timeout_s: float, note: str = "") -> Any:
            waited.append(timeout_s)
            return self._lock.acquire(timeout_s, note)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._lock, name)

    context = reopen(table, hoodie__write__lock__wait_time_ms=2500)._opened.context()
    hold(context.with_lock(Watched(context.lock)), "a test").release()
    assert waited == [2.5]


def test_the_lock_is_given_back_when_the_write_is_left_or_fails(location: str) -> None:
    table, other = lake(location)

    def fail() -> None:
        with table.begin("upsert") as write:
            write.write(orders((1, "a", 2.0)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    other.upsert(orders((1, "a", 3.0)))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        write.rollback()
        other.upsert(orders((1, "a", 5.0)))
    assert rows(table, "id", "price") == [(1, 5.0)]


def test_the_commit_says_how_long_the_lock_was_held(location: str) -> None:
    table, _ = lake(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        threading.Event().wait(0.05)
        commit = write.commit()
    assert commit.lock_held >= 0.05


def test_writers_in_threads_that_hold_the_lock_never_plan_anew(location: str) -> None:
    table, _ = lake(location)
    commits: list[hudi.Commit] = []

    def work(number: int) -> None:
        mine = reopen(table, concurrency="pessimistic")
        commits.extend(mine.upsert(orders((1, "a", float(number)))) for _ in range(3))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [commit.retries for commit in commits] == [0] * 9
    assert len([i for i in table.timeline.commits if i.action is Action.COMMIT]) == 10
    assert not len(table.timeline.filter(Action.ROLLBACK))
