"""The doctor during a write: whatever the writer does between two reads of the doctor, a healthy table gets no false alarm.

The writer stands still before one of its calls, goes on before one of the doctor's, and stands still again. Both are drawn by a seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import greenlet
import pytest
from reliability.stories import Story, Writer, batch

from pyhudi_core.errors import HudiError
from pyhudi_core.testing import Profile

FACTOR = int(os.environ.get("PYHUDI_EXPLORE", "1"))
RUNS = 20
ARCHIVING = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
NOT_ARCHIVING = {"hoodie.archive.automatic": "false"}


def upsert(writer: Writer) -> None:
    writer.open().upsert(batch((1, "a", 10)))


def first_rows_of_a_partition(writer: Writer) -> None:
    writer.open().insert(batch((7, "new", 7)))


def delete_partitions(writer: Writer) -> None:
    writer.open().delete_partitions(["part=a"])


def rollback(writer: Writer) -> None:
    with suppress(ZeroDivisionError), writer.open().begin("upsert") as write:
        write.write(batch((1, "a", 10)))
        raise ZeroDivisionError


class Stopping:
    """A writer that pauses before calls with these numbers until it is resumed."""

    def __init__(self, writer: Writer, work: Callable[[Writer], None]) -> None:
        self.calls = 0
        self.stops: tuple[int, ...] = ()
        self._outside: Any = None
        self._greenlet = greenlet.greenlet(lambda: work(writer))
        writer.watch(self._reached)

    def _reached(self, verb: str, path: str) -> None:
        if greenlet.getcurrent() is self._greenlet:
            self.calls += 1
            if self.calls in self.stops:
                self._outside.switch()

    def go_on(self) -> None:
        if not self._greenlet.dead:
            self._outside = greenlet.getcurrent()
            self._greenlet.switch()


class Scene:
    """A table with a few commits, a writer that is about to write, and a doctor."""

    def __init__(self, profile: Profile, work: Callable[[Writer], None], commits: int) -> None:
        self.story = Story(profile)
        self.story.table((1, "a", 1), (2, "b", 2))
        for value in range(commits):
            self.another_commit(value)
        self.writer = Stopping(self.story.writer("writer", options=ARCHIVING), work)
        self.doctor = self.story.writer("doctor")

    def another_commit(self, value: int) -> None:
        self.story.writer(options=NOT_ARCHIVING).open().upsert(batch((2, "b", value)))

    def check(self, at: int) -> Any:
        """Run the doctor; before its call number ``at`` the writer continues."""

        def watch(verb: str, path: str) -> None:
            if len(self.doctor.calls) == at:
                self.writer.go_on()

        self.doctor.watch(watch)
        return self.doctor.open().check()


def calls_of(profile: Profile, work: Callable[[Writer], None], commits: int) -> tuple[int, int]:
    """The numbers of calls of the writer and of the doctor."""
    scene = Scene(profile, work, commits)
    scene.writer.go_on()
    scene.check(0)
    return scene.writer.calls, len(scene.doctor.calls)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX], ids=lambda profile: profile.value)
@pytest.mark.parametrize("work", [upsert, first_rows_of_a_partition, delete_partitions, rollback])
def test_a_writer_at_work_is_no_alarm_wherever_it_stands(profile: Profile, work: Callable[[Writer], None]) -> None:
    chance = random.Random(f"{profile.value} {work.__name__}")
    commits = chance.choice((0, 5))
    writers, doctors = calls_of(profile, work, commits)
    for _ in range(RUNS * FACTOR):
        scene = Scene(profile, work, commits)
        stops = tuple(sorted(chance.sample(range(1, writers + writers // 3), 2)))
        at = chance.randint(1, doctors)
        scene.writer.stops = stops
        scene.writer.go_on()
        if chance.random() < 0.4:
            scene.another_commit(99)
        report = scene.check(at)
        assert report.ok, f"stops {stops}, at {at}: {report}"
        scene.writer.stops = ()
        with suppress(HudiError):  # the other commit may have come first
            scene.writer.go_on()
        again = scene.doctor.open().check()
        assert again.ok, f"stops {stops}, at {at}, and at the end: {again}"
