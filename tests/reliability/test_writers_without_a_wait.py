"""Writers that reserve their times need not wait for each other's clocks: no order of their steps loses anything, with clocks that differ by an hour.
Beside a writer that reserves nothing, they wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from reliability.clocks import HOUR_MS
from reliability.real_table import TableWorld
from reliability.service_runs import Act, in_many_orders
from reliability.stories import Story, batch
from reliability.test_compaction_interleaved import BESIDE, execute, run, setup_of
from reliability.test_conflicts_interleaved import budget
from reliability.test_foreign_writer import JavaWriter

from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.testing import Bounds, Profile
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin

LONGEST_MS = 200
waits: list[int] = []


@pytest.fixture(autouse=True)
def _waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what writers wait for at their first try."""
    asked = begin.skew_wait_ms
    waits.clear()

    def kept(context: TableContext, timeline: Timeline, heartbeats: Sequence[ObjectInfo] = ()) -> int:
        waits.append(asked(context, timeline, heartbeats))
        return waits[-1]

    monkeypatch.setattr(begin, "skew_wait_ms", kept)


def without_a_wait(act: Act) -> Act:
    def checked(world: TableWorld) -> object:
        done = act(world)
        assert set(waits) == {0}
        return done

    return checked


@pytest.mark.row("R8", "L4")
@pytest.mark.parametrize("name", ["an update of the group", "an update and a new key, with a plan"])
@pytest.mark.parametrize("skew_ms", [HOUR_MS, -HOUR_MS])
def test_a_compaction_beside_a_writer_with_another_clock(name: str, skew_ms: int) -> None:
    """Completion times say which logs belong to which base file, so a time in the past would lose a log."""
    planned, other, check = BESIDE[name]
    setup = setup_of(planned)
    setup = replace(setup, sim=replace(setup.sim, profile=Profile.S3, offsets_ms={"b": skew_ms}, one_machine=True))
    acts = (without_a_wait(execute if planned else run), without_a_wait(other))
    in_many_orders(f"{name}, {skew_ms}", setup, acts, check, Bounds(preemptions=1, schedules=budget(10)), budget(3))


def wait_of_an_upsert(story: Story) -> int:
    waits.clear()
    begun = story.now_ms
    story.writer("ours").open().upsert(batch((2, "a", 20)))
    assert story.now_ms - begun in (0, LONGEST_MS), "nothing else takes time here"
    return story.now_ms - begun


def test_a_writer_waits_as_soon_as_another_program_is_seen() -> None:
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    assert wait_of_an_upsert(story) == 0
    java = JavaWriter(story)
    java.begin((1, "a", 10))
    assert wait_of_an_upsert(story) == LONGEST_MS, "its instant is pending"
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    java = JavaWriter(story)
    java.begin((1, "a", 10))
    java.publish()
    for _ in range(2):
        assert wait_of_an_upsert(story) == LONGEST_MS, "its commit is on the timeline"
    assert len(table.timeline.commits) == 4


def test_a_writer_waits_for_a_program_that_begins_while_it_reserves_its_time() -> None:
    story = Story(Profile.S3)
    story.table((1, "a", 1))
    java = JavaWriter(story)
    story.pass_time(1)
    ours = story.writer("ours")
    ours.pause_before("put_if_absent", ".heartbeat/", lambda: java.begin((1, "a", 10)))
    begun = story.now_ms
    ours.open().upsert(batch((2, "a", 20)))
    assert waits[:2] == [0, LONGEST_MS]
    assert story.now_ms - begun == LONGEST_MS


def test_on_one_disk_the_clock_is_shared() -> None:
    story = Story(Profile.LOCAL_POSIX)
    story.table((1, "a", 1))
    assert begin.skew_wait_ms(story.writer().home().context(), Timeline(())) == 1
