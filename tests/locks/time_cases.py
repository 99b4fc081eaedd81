"""The cases that every source of instants passes on its real server: the external time generator of the specification."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import pyarrow as pa
import pytest
from reliability.kv_clock import KvClock
from reliability.kv_table import bounds_for, kv_world
from reliability.test_eleven_rows import ROWS, TWO_WRITES, looking_for

import pyhudi_core as hudi
from pyhudi_core.lock.server_clock import Counter, ServerClock
from pyhudi_core.model.instant import format_time
from pyhudi_core.runtime import SystemClock
from pyhudi_core.testing import explore

SCHEMA = pa.schema([("id", pa.int64())])
SCHEDULES = 20
"""Schedules of each variant: each asks the server for its times."""


class CounterCases:
    """Inherit, with the fixtures ``counters`` (each call opens the same counter again) and ``options`` (of a table that uses it)."""

    def test_times_rise_over_threads_that_ask_together(self, counters: Callable[[], Counter]) -> None:
        got: list[list[int]] = [[] for _ in range(4)]

        def ask(into: list[int]) -> None:
            with closing(counters()) as counter:
                into.extend(counter.next_from(0) for _ in range(25))

        threads = [threading.Thread(target=ask, args=(into,)) for into in got]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        everything = sorted(time for times in got for time in times)
        assert len(set(everything)) == 100
        assert all(times == sorted(times) for times in got)

    def test_a_machine_with_a_slow_clock_gets_later_times_than_the_others(
        self, counters: Callable[[], Counter]
    ) -> None:
        class Slow(SystemClock):
            def now_ms(self) -> int:
                return super().now_ms() - 3_600_000

        with closing(counters()) as one, closing(counters()) as other:
            first = ServerClock(one, SystemClock()).now_ms()
            assert abs(first - SystemClock().now_ms()) < 60_000
            assert ServerClock(other, Slow()).now_ms() == first + 1

    def test_instants_of_a_table_come_from_the_server(
        self, counters: Callable[[], Counter], options: dict[str, object], tmp_path: Path
    ) -> None:
        location = str(tmp_path / "table")
        hudi.create_table(location, SCHEMA, "id", options={**options, "hoodie.table.name": "orders"})
        table = hudi.open_table(location, options=options)
        with closing(counters()) as counter:
            ahead = format_time(counter.next_from(SystemClock().now_ms() + 60_000), utc=True)
        for n in range(3):
            table.upsert(pa.table({"id": [n]}, SCHEMA))
        commits = table.timeline.commits
        assert len(commits) == 3
        assert all(ahead < one.requested_time < (one.completion_time or "") for one in commits)
        assert table.scan().count() == 3

    @pytest.mark.parametrize("number", [1, 3])
    def test_rows_of_the_model_with_monotonic_times_are_safe(
        self, number: int, counters: Callable[[], Counter], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rows 1 (optimistic) and 3 (pessimistic) of the study, where the provider of times is the server."""
        with closing(counters()) as counter:
            _times_from(counter, monkeypatch)
            row = next(row for row in ROWS if row.number == number)
            for variant in row.variants():
                configuration = variant.configuration()
                bounds = replace(bounds_for(configuration, 2, 1), schedules=SCHEDULES)
                report = explore(lambda c=configuration: kv_world(c), TWO_WRITES, looking_for(None), bounds)  # type: ignore[misc]
                report.assert_clean()
                assert report.schedules > 5


def _times_from(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the model's provider be the counter; each schedule counts from the first time that it gets."""

    def next_time(self: KvClock) -> int:
        given = counter.next_from(0)
        if self.given == 0:
            bases[self] = given - 1
        return given - bases[self]

    bases: WeakKeyDictionary[KvClock, int] = WeakKeyDictionary()
    monkeypatch.setattr(KvClock, "next_time", next_time)
