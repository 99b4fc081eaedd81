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
        seen.append((table._home.storage.head(".hoodie/lock")) is not None)
        clock.time_ms += 1_500
        return True

    with table.begin("upsert") as write:
        commit = write.write(ROWS).commit(gate=gate)
    assert seen == [True]
    assert 0 <= commit.lock_held < 1


def test_a_gate_that_takes_too_long_gives_the_commit_up(location: str) -> None:
    clock = StandingClock(tick_ms=0)
    table = make_at(home_at(location, runtime_with(clock=clock)), ROWS.schema)

    def gate() -> None:
        clock.time_ms += 2_500

    with table.begin("upsert") as write, pytest.raises(CommitAbortedError, match="took 2.5 s"):
        write.write(ROWS).commit(gate=gate)
    assert table.scan().to_arrow().num_rows == 0
    assert isinstance(table, hudi.HudiTable)
