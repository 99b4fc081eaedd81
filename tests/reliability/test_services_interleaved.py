"""Every pair of a writer or table service beside another one, which no other file of this folder tries: a row each.

No row is lost, saved states stay readable, the doctor finds nothing, and the next process finishes what is left. The quick suite takes a few orders of
some pairs, chosen by a seed; the slow tests take far more, with crashes.
"""

from __future__ import annotations

import pytest
from reliability.service_pairs import INLINE, Pair
from reliability.service_runs import budget, in_many_orders
from reliability.stories import Story, batch
from reliability.stories import rows_of as rows_of_story

from pyhudi_core.errors import CommitConflictError, InvalidOptionError
from pyhudi_core.testing import Bounds, explore_randomly

PAIRS: tuple[tuple[str, str], ...] = (
    ("clean", "archival"),
    ("clean", "savepoint"),
    ("clean", "rollback"),
    ("clean", "indexing"),
    ("clean", "log compaction"),
    ("clean", "clustering"),
    ("indexing", "compaction"),
    ("indexing", "log compaction"),
    ("indexing", "clustering"),
    ("indexing", "archival"),
    ("indexing", "rollback"),
    ("indexing", "savepoint"),
    ("rollback", "compaction"),
    ("rollback", "log compaction"),
    ("rollback", "clustering"),
    ("rollback", "archival"),
    ("rollback", "savepoint of the newest"),
    ("rollback", "restore"),
    ("rollback", "rollback"),
    ("archival", "compaction"),
    ("archival", "log compaction"),
    ("archival", "clustering"),
    ("archival", "savepoint"),
    ("archival", "restore"),
    ("archival", "archival"),
    ("savepoint", "compaction"),
    ("savepoint", "log compaction"),
    ("savepoint", "clustering"),
    ("savepoint", "savepoint"),
    ("clustering", "compaction"),
    ("clustering", "log compaction"),
    ("restore", "log compaction"),
    ("restore", "indexing"),
    ("hold", "clean"),
    ("hold", "archival"),
    ("hold", "clustering"),
    ("hold", "restore"),
    ("upsert", "savepoint of the newest"),
    ("upsert", "rollback"),
    ("upsert", "archival"),
)
ONCE: tuple[tuple[str, str], ...] = tuple((f"upsert with {name}", name) for name in INLINE)
"""A service in a writer's commit, beside another process that runs the same service."""
ALL = [pytest.param(pair, id=" x ".join(pair)) for pair in (*PAIRS, *ONCE)]


def explored(pair: Pair, bounds: Bounds, seed: int) -> None:
    """The two processes in orders by chance."""
    report = explore_randomly(pair.world, pair.actors, pair.check, bounds, seed=seed, priorities=True).assert_clean()
    crashes = sum(report.crash_points.values())
    print(f"{pair}: {report.schedules} schedules, {crashes} crashes; did something: {dict(pair.effects)}")


@pytest.mark.row("K6", "L6")
@pytest.mark.parametrize("pair", ALL)
def test_two_services_side_by_side(pair: tuple[str, str]) -> None:
    explored(Pair(*pair), Bounds(schedules=budget(1)), seed=7)


@pytest.mark.slow
@pytest.mark.row("K6", "L6")
@pytest.mark.parametrize("pair", ALL)
def test_two_services_side_by_side_in_far_more_orders(pair: tuple[str, str]) -> None:
    tried = Pair(*pair)
    in_many_orders(str(tried), tried.stand.setup, tried.actors, tried.check, Bounds(preemptions=2, schedules=50), 50)
    assert tried.effects.keys() == {"a", "b"}, "each of the two did its work in some orders"


@pytest.mark.slow
@pytest.mark.row("K6", "K11", "L6")
@pytest.mark.parametrize("pair", ALL)
def test_one_of_two_services_dies(pair: tuple[str, str]) -> None:
    explored(Pair(*pair), Bounds(crashes=1, schedules=100), seed=11)


# --- orders that broke a promise once, as short stories


@pytest.mark.row("C10", "N15")
def test_a_rollback_of_the_newest_commit_undoes_no_commit_that_completed_meanwhile() -> None:
    story = Story()
    table = story.table((1, "a", 1))
    newest = table.upsert(batch((1, "a", 2))).instant
    slow, other = story.writer("slow"), story.writer("other")
    slow.pause_before("put_if_absent", ".heartbeat/", lambda: other.open().upsert(batch((2, "b", 2))))
    with pytest.raises(InvalidOptionError, match="1 commits completed after"):
        slow.open().rollback(newest, completed=True)
    assert rows_of_story(table) == [(1, "a", 2), (2, "b", 2)]
    assert table.check().ok
    story.writer("next").open().upsert(batch((3, "b", 3)))
    assert not table.timeline.pending.instants


@pytest.mark.row("K1", "N15")
def test_a_writer_whose_files_a_rollback_deletes_hears_of_the_rollback() -> None:
    story = Story()
    table = story.table((1, "a", 1))
    newest = table.upsert(batch((1, "a", 2))).instant
    slow, other = story.writer("slow"), story.writer("other")
    slow.pause_before("put_if_absent", ".commit.requested", lambda: other.open().rollback(newest, completed=True))
    with pytest.raises(CommitConflictError, match="came first: restore"):
        slow.open().upsert(batch((1, "a", 3)))
    assert rows_of_story(table) == [(1, "a", 1)]
    assert not table.timeline.pending.instants
    assert table.check().ok


@pytest.mark.row("C10", "N15")
def test_an_archival_plans_again_if_a_restore_undoes_a_commit_that_it_was_about_to_read() -> None:
    story = Story()
    table = story.table((1, "a", 1))
    first, newest = table.timeline.commits[-1], table.upsert(batch((1, "a", 2))).instant
    slow, other = story.writer("slow"), story.writer("other")
    slow.pause_before("get", f"{newest}_", lambda: other.open().restore(first.requested_time))
    slow.open().archival.run()
    assert rows_of_story(table) == [(1, "a", 1)]
    assert table.check().ok
