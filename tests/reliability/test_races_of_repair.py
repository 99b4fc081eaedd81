"""Repair beside a process that was taken for dead, and beside others that publish what it had decided: promises P1, P2 and P7.

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
from reliability.test_zombies import LONG_S, PROFILES, assert_tidy

from pyhudi_core.errors import CommitAbortedError, HudiError, StorageError, StorageStateUnknownError
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Profile
from pyhudi_core.transaction.rollback import repair

every_profile = pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)


class Asleep:
    """A process that stops before some of its calls until somebody lets it go on; its timers stand still meanwhile."""

    def __init__(self, writer: Writer, work: Callable[[], object]) -> None:
        self._writer = writer
        self._outside: Any = None
        self._greenlet = greenlet.greenlet(work)

    def stop_before(self, verb: str, part: str) -> None:
        self._writer.pause_before(verb, part, lambda: self._outside.switch())

    def go_on(self) -> Any:
        """Until it stops the next time, or ends; returns the result at the end."""
        self._outside = greenlet.getcurrent()
        return self._greenlet.switch()


@every_profile
def test_a_rollback_whose_plan_is_published_while_its_reservation_is_swept_is_finished(profile: Profile) -> None:
    """Its process died when the plan was decided and not published. One process finds only the reservation, another publishes the plan."""
    story = Story(profile)
    table = story.table((1, "a", 1), (2, "b", 2))
    victim, undoer, sweeper, other = map(story.writer, ("victim", "undoer", "sweeper", "other"))
    with victim.open().begin("upsert") as write, other.open().begin("upsert") as later:
        write.write(batch((1, "a", 10)))
        later.write(batch((2, "b", 20)))
        undoer.pause_before("put_if_absent", ".rollback.requested", dying(undoer))
        with pytest.raises(Died):
            undoer.open().rollback(str(write.instant))
        sweeper.pause_before("list", "/staged/", lambda: later.commit())
        repair(sweeper.home().context())
        with suppress(CommitAbortedError):
            write.commit()
    assert rows_of(table) in ([(1, "a", 1), (2, "b", 20)], [(1, "a", 10), (2, "b", 20)])
    assert_tidy(story, table)


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
        if (verb, path) == ("list", ""):
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
