"""Repair concurrent with a process that was considered dead, and with processes that publish its decided commit (promises P1, P2 and P7).

Somebody looks (this reservation is a dead process's, that file belongs to nobody) and then acts on it. In between the process goes on after all, or
another one publishes what it left. Whatever comes first, nothing that was acknowledged is lost, and nothing stays that nobody would ever repair.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import greenlet
import pytest
from reliability.stories import Died, Story, Writer, batch, dying, rows_of
from reliability.test_zombies import LONG_S, PROFILES, actions, assert_tidy, decides
from support.wrapping import WrappedStorage

from pyhudi_core.errors import (
    CommitAbortedError,
    CommitStateUnknownError,
    HudiError,
    StorageError,
    StorageStateUnknownError,
)
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile
from pyhudi_core.transaction.rollback import repair
from pyhudi_core.transaction.status import CommitStatus

SKEW = "hoodie.time.generator.max_expected_clock_skew_ms"
every_profile = pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)


class Asleep:
    """A process that stops before some of its calls until somebody lets it go on; its timers stand still meanwhile."""

    def __init__(self, writer: Writer, work: Callable[[], object]) -> None:
        self._writer = writer
        self._outside: Any = None
        self._greenlet = greenlet.greenlet(work)

    def stop_before(self, verb: str, part: str) -> None:
        self._writer.pause_before(verb, part, self._sleep)

    def _sleep(self) -> None:
        self._outside.switch()

    def go_on(self) -> Any:
        """Until it stops the next time, or ends; returns the result at the end."""
        self._outside = greenlet.getcurrent()
        return self._greenlet.switch()


@pytest.mark.one_in(2)
@every_profile
def test_a_rollback_whose_plan_is_published_while_its_reservation_is_swept_is_finished(profile: Profile) -> None:
    """Its process died when the plan was decided and not published. One process finds only the reservation, another publishes the plan."""
    number = 0
    while _published_at(number, profile):
        number += 1
    assert number > 5


def _published_at(number: int, profile: Profile) -> bool:
    """Publish before the sweeper's n-th call since it found the reservation; whether it makes so many."""
    story = Story(profile)
    table = story.table((1, "a", 1), (2, "b", 2))
    victim, undoer, sweeper, other = map(story.writer, ("victim", "undoer", "sweeper", "other"))
    with victim.open().begin("upsert") as write, other.open().begin("upsert") as later:
        write.write(batch((1, "a", 10)))
        later.write(batch((2, "b", 20)))
        undoer.pause_before("put_if_absent", ".rollback.requested", dying(undoer))
        with pytest.raises(Died):
            undoer.open().rollback(str(write.instant))
        reservation = max(info.path for info in story.storage.list(".hoodie/.heartbeat/"))
        left = [number]

        def watch(verb: str, path: str) -> None:
            if path == reservation or left[0] < number:
                left[0] -= 1
                if left[0] == -1:
                    later.commit()

        sweeper.watch(watch)
        repair(sweeper.home().context())
        if left[0] >= 0:
            later.commit()
        with suppress(CommitAbortedError):
            write.commit()
    assert rows_of(table) in ([(1, "a", 1), (2, "b", 20)], [(1, "a", 10), (2, "b", 20)])
    assert_tidy(story, table)
    return left[0] < 0


@every_profile
def test_a_writer_that_announces_itself_while_its_reservation_is_swept_keeps_a_heartbeat(profile: Profile) -> None:
    """Else nobody would ever find out that it died afterwards."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    zombie, other = story.writer("zombie"), story.writer("other")
    asleep = Asleep(zombie, lambda: zombie.open().upsert(batch((1, "a", 10))))
    asleep.stop_before("put_if_absent", ".commit.requested")
    asleep.go_on()
    story.pass_time(LONG_S)
    asleep.stop_before("put", ".marker")
    other.pause_before("delete", ".hoodie/.heartbeat/", asleep.go_on)
    other.open().upsert(batch((2, "b", 2)))
    assert len(table.timeline.pending), "it has announced itself"
    story.dead.add("zombie")
    story.pass_time(LONG_S)
    other.open().upsert(batch((2, "b", 3)))
    assert rows_of(table) == [(1, "a", 1), (2, "b", 3)]
    assert_tidy(story, table)


@every_profile
def test_archival_takes_no_file_of_a_writer_that_announced_itself_late_for_a_leak(profile: Profile) -> None:
    """It slept between its reservation and its announcement while others committed; archival was planned when it was not on the timeline yet."""
    options = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.archive.automatic": "false"}
    story = Story(profile)
    table = story.table((1, "a", 1))
    zombie, other = story.writer("zombie"), story.writer("other", options=options)
    asleep = Asleep(zombie, lambda: zombie.open().upsert(batch((1, "a", 10))))
    asleep.stop_before("put_if_absent", ".commit.requested")
    asleep.go_on()
    story.pass_time(LONG_S)
    for value in range(5):
        other.open().upsert(batch((2, "b", value)))
    asleep.stop_before("put", "/staged/")

    def before_the_whole_table_is_listed(verb: str, path: str) -> None:
        if verb == "list" and not path.startswith(".hoodie"):
            other._watchers.clear()
            asleep.go_on()

    other.watch(before_the_whole_table_is_listed)
    other.open().archival.run()
    assert not other._watchers, "archival has listed the table"
    try:
        asleep.go_on()
        committed = True
    except HudiError:
        committed = False
    assert rows_of(table) == [(1, "a", 10 if committed else 1), (2, "b", 4)]
    assert_tidy(story, table)


class NoAnswer(WrappedStorage):
    """A storage that answers no conditional write of some objects; the writes arrive when `arrive` is called."""

    def __init__(self, storage: Any, part: str) -> None:
        self._storage = storage
        self._part = part
        self._on_its_way: list[Callable[[], object]] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name != "put_if_absent":
            return real

        def call(path: str, data: bytes) -> Any:
            if self._part not in path:
                return real(path, data)
            self._on_its_way.append(lambda: real(path, data))
            raise StorageStateUnknownError("No answer", path=path)

        return call

    def arrive(self) -> None:
        for write in self._on_its_way:
            with suppress(StorageError):
                write()


@every_profile
@pytest.mark.parametrize("part", [".commit.requested", ".inflight"])
def test_an_announcement_that_arrives_after_its_writer_gave_up_is_repaired(profile: Profile, part: str) -> None:
    """The storage answered nothing, so the write failed; a moment later what it had sent shows on the timeline."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    home = story.writer("unlucky").home()
    home.storage = silent = NoAnswer(home.storage, part)  # type: ignore[assignment]
    with pytest.raises(StorageStateUnknownError):
        HudiTable(home).upsert(batch((1, "a", 10)))
    silent.arrive()
    assert len(table.timeline.pending)
    story.pass_time(LONG_S)
    story.writer("other").open().upsert(batch((2, "b", 2)))
    assert rows_of(table) == [(1, "a", 1), (2, "b", 2)]
    assert_tidy(story, table)


def test_a_commit_that_may_stand_behind_a_damaged_history_is_not_called_a_failure() -> None:
    """Its swap got no answer; others published it, archived it, and then the history was damaged: nobody can say, and nobody says no."""
    options = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    writer, other = story.writer("writer"), story.writer("other", options=options)
    home = writer.home()

    def meanwhile() -> None:
        story.paused.add("writer")
        story.pass_time(LONG_S)
        for value in range(6):
            other.open().upsert(batch((2, "b", value)))
        manifests = story.storage.list(".hoodie/timeline/history/manifest_")
        kept.update({info.path: story.storage.get(info.path) for info in manifests})
        for path in kept:
            story.storage.put(path, b"damaged")

    kept: dict[str, bytes] = {}
    home.storage = SwapWithoutAnswer(home.storage, meanwhile)  # type: ignore[assignment]
    with pytest.raises(CommitStateUnknownError) as unknown:
        HudiTable(home).upsert(batch((1, "a", 10)))
    for path, data in kept.items():
        story.storage.put(path, data)
    assert table.commit_status(unknown.value.token) is CommitStatus.COMMITTED
    assert rows_of(table) == [(1, "a", 10), (2, "b", 5)]


class SwapWithoutAnswer(WrappedStorage):
    """A storage that swaps the commit record once, lets something else happen, and does not say that it did."""

    def __init__(self, storage: Any, then: Callable[[], object], verb: str = "put_if_match") -> None:
        self._storage = storage
        self._then = [then]
        self._verb = verb

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name != self._verb:
            return real

        def call(path: str, *arguments: Any) -> Any:
            done = real(path, *arguments)
            if "commit_record" in path and self._then:
                self._then.pop()()
                raise StorageStateUnknownError("No answer", path=path)
            return done

        return call


@every_profile
def test_a_rollback_whose_plan_somebody_else_published_knows_it_for_its_own(profile: Profile) -> None:
    """Its lock expired while it decided, and another commit was decided before it heard that it had won. So it has to go on, as nobody else will."""
    story = Story(profile)
    table = story.table((1, "a", 1), (2, "b", 2))
    victim, undoer, other = map(story.writer, ("victim", "undoer", "other"))
    victim.pause_before(decides(profile), "commit_record", dying(victim))
    with other.open().begin("upsert") as write:
        write.write(batch((2, "b", 20)))
        with pytest.raises(Died):
            victim.open().upsert(batch((1, "a", 10)))

        def meanwhile() -> None:
            story.pass_time(61)
            write.commit()

        home = undoer.home()
        home.storage = SwapWithoutAnswer(home.storage, meanwhile, decides(profile))  # type: ignore[assignment]
        repair(home.context())
    assert not table.timeline.pending.instants
    assert actions(table) == ["commit", "commit", "rollback"]
    assert rows_of(table) == [(1, "a", 1), (2, "b", 20)]
    assert_tidy(story, table)


@every_profile
def test_a_plan_whose_write_a_hudi_writer_has_removed_meanwhile_is_taken_back(profile: Profile) -> None:
    """It was decided and published, and then there was nothing left to roll back: without a heartbeat nobody would ever take it for dead."""
    story = Story(profile)
    table = story.table((1, "a", 1), (2, "b", 2))
    undoer, other = map(story.writer, ("undoer", "other"))
    with story.writer("victim").open().begin("upsert") as write, other.open().begin("upsert") as later:
        write.write(batch((1, "a", 10)))
        later.write(batch((2, "b", 20)))

        def meanwhile() -> None:
            story.pass_time(61)
            later.commit()
            assert table.timeline.filter("rollback").instants, "it has published the plan"
            for info in story.storage.list(f".hoodie/timeline/{write.instant}."):
                story.storage.delete(info.path)

        home = undoer.home()
        home.storage = SwapWithoutAnswer(home.storage, meanwhile, decides(profile))  # type: ignore[assignment]
        assert not HudiTable(home).rollback(str(write.instant))
        assert not table.timeline.filter("rollback").instants
    assert rows_of(table) == [(1, "a", 1), (2, "b", 20)]
    assert_tidy(story, table)


@every_profile
def test_no_time_is_the_beginning_of_one_write_and_the_end_of_another(profile: Profile) -> None:
    """One reserves its requested time while the other is about to choose its completion time: a reader could not tell what a time means."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    first, second = (story.writer(name, options={SKEW: 1}) for name in ("first", "second"))
    begun = Asleep(second, lambda: second.open().upsert(batch((2, "b", 2))))
    begun.stop_before("put_if_absent", ".commit.requested")
    first.pause_before(decides(profile), "commit_record", begun.go_on)
    commit = first.open().upsert(batch((1, "a", 10)))
    before = rows_of(table.scan(as_of=commit.completion_time))
    begun.go_on()
    assert rows_of(table) == [(1, "a", 10), (2, "b", 2)]
    assert rows_of(table.scan(as_of=commit.completion_time)) == before == [(1, "a", 10)]
    begins = {instant.requested_time for instant in table.timeline}
    assert not begins & {instant.completion_time for instant in table.timeline}
