"""Writers that reserve their times need not wait for each other's clocks: no order of their steps loses anything, with clocks that differ by a minute
(and by an hour, in ``test_time.py``). Beside a writer that reserves nothing, they wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from reliability.compactions import AFTER, COMPACTION, upsert
from reliability.real_table import Row, TableWorld, rows_of
from reliability.service_runs import Act, budget, in_many_orders
from reliability.stories import Story, batch
from reliability.test_foreign_writer import JavaWriter

from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.testing import Bounds, History, Profile
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin

LONGEST_MS, MINUTE_MS = 200, 60_000
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


NEW: dict[str, tuple[bool, tuple[Row, ...]]] = {
    "an update of the group": (False, ((2, "a", 22.0),)),
    "an update and a new key, with a plan": (True, ((2, "a", 22.0), (7, "a", 7.0))),
}
"""The rows of the writer, and whether the compaction is planned before."""


@pytest.mark.row("R8", "L4")
@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("skew_ms", [MINUTE_MS, -MINUTE_MS])
def test_a_compaction_beside_a_writer_with_another_clock(name: str, skew_ms: int) -> None:
    """Completion times say which logs belong to which base file, so a time in the past would lose a log. The bound of these tables is 1 ms."""
    planned, new = NEW[name]
    setup = COMPACTION.setup_of(planned)
    setup = replace(setup, sim=replace(setup.sim, profile=Profile.S3, offsets_ms={"b": skew_ms}, one_machine=True))
    expected = tuple(sorted({row[0]: row for row in (*AFTER, *new)}.values()))

    def check(world: TableWorld, history: History) -> None:
        assert not list(history.of("failed")), history
        assert rows_of(world.table()) == expected
        world.wait()
        world.table().compaction.take_over()
        world.table().compaction.run()
        assert rows_of(world.table()) == expected

    acts: tuple[Act, Act] = (COMPACTION.execute if planned else COMPACTION.run, upsert(*new))
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
    waits.clear()
    ours.open().upsert(batch((2, "a", 20)))
    assert waits[:2] == [0, LONGEST_MS]
    assert story.now_ms - begun == LONGEST_MS


def test_on_one_disk_the_clock_is_shared() -> None:
    story = Story(Profile.LOCAL_POSIX)
    story.table((1, "a", 1))
    assert begin.skew_wait_ms(story.writer().home().context(), Timeline(())) == 1
