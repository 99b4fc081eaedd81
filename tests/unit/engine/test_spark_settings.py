"""Settings of a Spark session while jobs run: jobs in several threads leave the session as it was."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import permutations
from threading import Barrier
from typing import Any

import pytest

from pyhudi_core.engine.spark_settings import under_settings

SIZE, MERGE = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.adaptive.coalescePartitions.enabled"
BEFORE = {SIZE: "64MB", MERGE: "true"}


@dataclass
class Conf:
    """Settings of a session, of which some may not be set."""

    values: dict[str, str] = field(default_factory=lambda: dict(BEFORE))
    refused: set[str] = field(default_factory=set)
    delay_s: float = 0.0

    def isModifiable(self, key: str) -> bool:  # Spark's name
        return key in self.values

    def get(self, key: str) -> str:
        value = self.values[key]
        time.sleep(self.delay_s)
        return value

    def set(self, key: str, value: str) -> None:
        if key in self.refused:
            raise ValueError(key)
        self.values[key] = value


@dataclass
class Session:
    """A Python object of a session; several of them may stand for one session of the JVM."""

    conf: Conf = field(default_factory=Conf)
    _jsparkSession: object = field(default_factory=object)  # Spark's name


def under(session: Session, settings: Mapping[str, str]) -> Any:
    return under_settings(session, settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", permutations(range(3)))
def test_the_last_job_that_ends_puts_the_settings_back(order: tuple[int, ...]) -> None:
    session = Session()
    jobs = [under(session, {SIZE: "1"}), under(session, {MERGE: "false", SIZE: "1"}), under(session, {SIZE: "1"})]
    for job in jobs:
        job.__enter__()
    for number, ended in enumerate(order):
        assert session.conf.values[SIZE] == "1", f"after {number} jobs"
        assert session.conf.values[MERGE] == ("true" if 1 in order[:number] else "false")
        jobs[ended].__exit__(None, None, None)
    assert session.conf.values == BEFORE
    session.conf.values[SIZE] = "128MB"  # what the user sets afterwards counts for the next job
    with under(session, {SIZE: "1"}):
        pass
    assert session.conf.values[SIZE] == "128MB"


def test_objects_of_one_session_are_counted_together_and_those_of_others_are_not() -> None:
    one, other = Session(), Session()
    again = Session(one.conf, one._jsparkSession)
    first, second = under(one, {SIZE: "1"}), under(again, {SIZE: "1"})
    first.__enter__()
    second.__enter__()
    with under(other, {SIZE: "1"}):
        pass
    assert other.conf.values == BEFORE
    first.__exit__(None, None, None)
    assert one.conf.values[SIZE] == "1"
    second.__exit__(None, None, None)
    assert one.conf.values == BEFORE


def test_jobs_in_threads_leave_the_session_as_it_was() -> None:
    session, together = Session(Conf(delay_s=0.001)), Barrier(4)

    def run(number: int) -> set[str]:
        seen = set()
        for _ in range(20):
            together.wait(10)  # all of them enter at once, and leave in any order
            with under(session, {SIZE: "1", MERGE: "false"}):
                seen |= {session.conf.values[SIZE], session.conf.values[MERGE]}
        return seen

    with ThreadPoolExecutor(4) as threads:
        assert set.union(*threads.map(run, range(4))) == {"1", "false"}
    assert session.conf.values == BEFORE


def test_after_a_failure_the_settings_are_put_back() -> None:
    session = Session()
    with pytest.raises(ZeroDivisionError), under(session, {SIZE: "1", MERGE: "false"}):
        raise ZeroDivisionError
    assert session.conf.values == BEFORE
    session.conf.refused.add(MERGE)
    with pytest.raises(ValueError, match=MERGE), under(session, {SIZE: "1", MERGE: "false"}):
        pytest.fail("a job ran without its settings")
    assert session.conf.values == BEFORE
    session.conf.refused.clear()
    with under(session, {SIZE: "1", MERGE: "false"}):
        assert session.conf.values == {SIZE: "1", MERGE: "false"}
    assert session.conf.values == BEFORE


def test_settings_that_a_release_does_not_know_are_left_alone() -> None:
    session = Session(Conf({MERGE: "true"}))
    with under(session, {SIZE: "1", MERGE: "false"}):
        assert session.conf.values == {MERGE: "false"}
    assert session.conf.values == {MERGE: "true"}
