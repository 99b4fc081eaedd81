"""The gate is asked under the lock, just before the decision, and may not keep other writers waiting."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.homes import StandingClock, home_at, make_at, runtime_with

import pyhudi_core as hudi
from pyhudi_core.errors import CommitAbortedError

ROWS = pa.table({"id": [1], "day": ["a"], "price": [1.0]})


def test_the_gate_is_asked_while_the_lock_is_held_and_its_time_does_not_count_as_held(location: str) -> None:
    clock = StandingClock(tick_ms=0)
    table = make_at(home_at(location, runtime_with(clock=clock)), ROWS.schema)
    seen: list[bool] = []

    def gate() -> bool:
        seen.append((table._opened.storage.head(".hoodie/lock")) is not None)
        clock.time_ms += 1_500
        return True

    with table.begin("upsert") as write:
        commit = write.write(ROWS).commit(gate=gate)
    assert seen == [True]
    assert 0 <= commit.lock_held < 1


def test_a_gate_that_was_slow_once_is_asked_again_without_the_lock_and_then_with_it(location: str) -> None:
    """A busy machine, or the first connection to a database, must not cost the commit."""
    clock = StandingClock(tick_ms=0)
    table = make_at(home_at(location, runtime_with(clock=clock)), ROWS.schema)
    locked: list[bool] = []

    def gate() -> bool:
        locked.append(table._opened.storage.head(".hoodie/lock") is not None)
        clock.time_ms += 2_500 if len(locked) == 1 else 100
        return True

    with table.begin("upsert") as write:
        commit = write.write(ROWS).commit(gate=gate)
    assert locked == [True, False, True]
    assert 0 <= commit.lock_held < 1
    assert table.scan().to_arrow().num_rows == 1


def test_a_slow_gate_that_then_refuses_gives_the_commit_up(location: str) -> None:
    clock = StandingClock(tick_ms=0)
    table = make_at(home_at(location, runtime_with(clock=clock)), ROWS.schema)
    answers = iter([True, False])

    def gate() -> bool:
        clock.time_ms += 2_500
        return next(answers)

    with table.begin("upsert") as write, pytest.raises(CommitAbortedError, match="The gate refused the commit"):
        write.write(ROWS).commit(gate=gate)
    assert table.scan().to_arrow().num_rows == 0


def test_a_gate_that_always_takes_too_long_gives_the_commit_up(location: str) -> None:
    clock = StandingClock(tick_ms=0)
    table = make_at(home_at(location, runtime_with(clock=clock)), ROWS.schema)
    asked: list[int] = []

    def gate() -> None:
        asked.append(clock.time_ms)
        clock.time_ms += 2_500

    with table.begin("upsert") as write, pytest.raises(CommitAbortedError, match="took 2.5 s at each of 3 times"):
        write.write(ROWS).commit(gate=gate)
    assert len(asked) == 5, "three times under the lock, twice without it"
    assert table.scan().to_arrow().num_rows == 0
    assert isinstance(table, hudi.HudiTable)
