"""Which instants archival takes: every limit by name, on timelines that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.options.compaction import CompactionOptions
from pyhudi_core.options.write_options import WriteOptions
from pyhudi_core.services.archival.limits import (
    ArchivalPlan,
    ArchivalRules,
    ArchivalState,
    MetadataTableInUse,
    plan_archival,
)
from pyhudi_core.services.compaction.compaction_rules import counted_from, trigger_of
from pyhudi_core.timeline.active import Timeline

RULES = ArchivalRules(keep_min=2, keep_max=4)


def time(number: int) -> str:
    return f"202601010000{number:05d}"


def done(number: int, action: Action = Action.COMMIT, completed: int | None = None) -> Instant:
    """An instant that began at ``number * 10`` and completed five later."""
    return Instant(time(number * 10), action, State.COMPLETED, time(completed or number * 10 + 5))


def pending(number: int, action: Action = Action.COMMIT, state: State = State.INFLIGHT) -> Instant:
    return Instant(time(number * 10), action, state)


def planned(*instants: Instant, rules: ArchivalRules = RULES, **state: object) -> list[int]:
    """The numbers of the instants that go."""
    plan = plan_archival(ArchivalState(Timeline.of(instants), **state), rules)  # type: ignore[arg-type]
    assert bool(plan) == bool(plan.instants)
    assert plan or plan.why_not, "a plan that is empty says why"
    return [int(instant.requested_time[-6:]) // 10 for instant in plan.instants]


NOW = time(9000)


def trigger(commits: int, name: str = "NUM_COMMITS", seconds: int = 3600) -> CompactionOptions:
    """The options of one trigger."""
    parsed = WriteOptions.parse({"hoodie.compact.inline.max.delta.commits": commits}).compaction
    return replace(parsed, trigger=name, max_delta_seconds=seconds)


SIX = [done(n) for n in range(1, 7)]


def test_nothing_goes_until_there_are_more_than_the_most() -> None:
    assert planned(*SIX[:4]) == []
    assert planned(*SIX[:5]) == [1, 2, 3]


def test_the_oldest_go_until_the_fewest_are_left() -> None:
    assert planned(*SIX) == [1, 2, 3, 4]


def test_a_run_that_was_asked_for_does_not_wait_for_the_most() -> None:
    assert planned(*SIX[:3], rules=ArchivalRules(keep_min=2, keep_max=None)) == [1]
    assert planned(*SIX[:2], rules=ArchivalRules(keep_min=2, keep_max=None)) == []


@pytest.mark.parametrize("action", [Action.CLEAN, Action.ROLLBACK, Action.SAVEPOINT, Action.INDEXING, Action.RESTORE])
def test_only_commits_count(action: Action) -> None:
    others = [done(n, action, n * 10 + 4) for n in range(20, 30)] if action is not Action.SAVEPOINT else []
    assert planned(*SIX[:4], *others) == []


def test_replacecommits_and_deltacommits_count_as_commits() -> None:
    mixed = [done(1, Action.REPLACECOMMIT), done(2, Action.DELTACOMMIT), *SIX[2:]]
    assert planned(*mixed) == [1, 2, 3, 4]


def test_what_cleaning_needs_stays_and_the_most_moves_along() -> None:
    # Four commits after time(20), and two more: six stay, and up to eight may be there.
    assert planned(*SIX, earliest_to_retain=time(20)) == []
    nine = [done(n) for n in range(1, 10)]
    assert planned(*nine, earliest_to_retain=time(50)) == [1, 2, 3]
    assert planned(*SIX, earliest_to_retain=time(60)) == [1, 2, 3, 4]


@pytest.mark.parametrize("action", [Action.COMMIT, Action.COMPACTION, Action.CLUSTERING, Action.LOGCOMPACTION])
@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_the_last_commit_before_the_earliest_pending_write_stays(action: Action, state: State) -> None:
    six = [done(1), done(2), pending(3, action, state), done(4), done(5), done(6), done(7)]
    assert planned(*six) == [1]


def test_nothing_goes_while_the_oldest_write_is_pending() -> None:
    assert planned(pending(1), *SIX[1:], done(7)) == []


def test_a_pending_rollback_counts_as_a_pending_write() -> None:
    assert planned(done(1), done(2), pending(3, Action.ROLLBACK), *SIX[3:], done(7)) == [1]


@pytest.mark.parametrize("number", [0, 3, 8])
def test_nothing_goes_while_a_restore_is_pending_because_it_may_undo_what_would_go(number: int) -> None:
    assert planned(pending(number, Action.RESTORE), *SIX[3:], *SIX[:3], done(7)) == []


def test_a_pending_clean_or_indexing_keeps_nothing() -> None:
    assert planned(pending(0, Action.CLEAN), pending(1, Action.INDEXING), *SIX) == [1, 2, 3, 4]


def test_a_time_that_is_reserved_and_not_announced_counts_as_pending() -> None:
    assert planned(*SIX, reserved=(time(31),)) == [1, 2]
    assert planned(*SIX, reserved=(time(5),)) == []


def test_a_replacecommit_whose_replaced_files_are_there_stays() -> None:
    six = [done(1), done(2, Action.REPLACECOMMIT), *SIX[2:]]
    assert planned(*six, uncleaned=frozenset({time(20)})) == [1]
    assert planned(*six, uncleaned=frozenset()) == [1, 2, 3, 4]


def test_enough_deltacommits_stay_to_trigger_a_compaction() -> None:
    deltas = [done(n, Action.DELTACOMMIT) for n in range(1, 10)]
    assert planned(*deltas, compaction_from=counted_from(Timeline.of(deltas), trigger(5), NOW)) == [1, 2, 3, 4]
    assert planned(*deltas, compaction_from=counted_from(Timeline.of(deltas), trigger(20), NOW)) == []
    since_compaction = [*deltas[:6], done(7), *deltas[7:]]
    assert planned(*since_compaction, compaction_from=counted_from(Timeline.of(since_compaction), trigger(5), NOW)) == [1, 2, 3, 4, 5, 6]  # fmt: skip


def test_a_deltacommit_that_completed_after_the_last_compaction_counts_wherever_it_began() -> None:
    overlapping = [done(1, Action.DELTACOMMIT, completed=85), done(2, Action.DELTACOMMIT), done(8)]
    assert counted_from(Timeline.of(overlapping), trigger(5), NOW) == time(10)
    assert counted_from(Timeline.of(overlapping[1:]), trigger(5), NOW) == time(80)


def triggers_by_history(options: CompactionOptions, numbers: list[int], compacted: set[int], now: str) -> None:
    """Whatever of a timeline is archived before that instant, the trigger says the same."""
    whole = [done(n, Action.COMMIT if n in compacted else Action.DELTACOMMIT) for n in numbers]
    first = counted_from(Timeline.of(whole), options, now)
    kept = [i for i in whole if first is None or i.requested_time >= first]
    assert trigger_of(Timeline.of(kept), options, now).due is trigger_of(Timeline.of(whole), options, now).due


@settings(derandomize=True, max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(["NUM_COMMITS", "NUM_AND_TIME", "NUM_OR_TIME", "TIME_ELAPSED"]),
    st.lists(st.integers(1, 400), min_size=1, max_size=9, unique=True),
    st.sets(st.integers(1, 400), max_size=2),
    st.integers(1, 5),
    st.integers(0, 5),
)
def test_archival_does_not_change_when_a_compaction_is_due(
    name: str, numbers: list[int], compacted: set[int], commits: int, seconds: int
) -> None:
    every = sorted({*numbers, *compacted})
    triggers_by_history(trigger(commits, name, seconds), every, compacted, time(4100))


def test_nothing_goes_until_the_metadata_table_has_compacted() -> None:
    assert planned(*SIX, metadata_table=MetadataTableInUse(None)) == []


def test_what_completed_after_the_metadata_tables_compaction_stays() -> None:
    assert planned(*SIX, metadata_table=MetadataTableInUse(time(30))) == [1, 2]


def test_the_first_savepoint_stops_it() -> None:
    assert planned(*SIX, done(3, Action.SAVEPOINT)) == [1, 2]


def test_beyond_a_savepoint_only_savepointed_commits_stay() -> None:
    rules = ArchivalRules(keep_min=2, keep_max=4, beyond_savepoint=True)
    assert planned(*SIX, done(3, Action.SAVEPOINT), rules=rules) == [1, 2, 4]


def test_completed_cleans_and_rollbacks_go_along_with_newer_commits() -> None:
    along = [done(2, Action.CLEAN, 22), done(3, Action.ROLLBACK, 32), done(5, Action.CLEAN, 52)]
    commits = [done(n) for n in (1, 4, 6, 7, 8)]
    assert planned(*commits, *along) == [1, 2, 3, 4, 5, 6]


def test_a_clean_newer_than_the_last_commit_that_goes_stays() -> None:
    assert planned(*SIX, done(50, Action.CLEAN, 502)) == [1, 2, 3, 4]


def test_the_newest_commit_without_a_savepoint_stays() -> None:
    few = ArchivalRules(keep_min=1, keep_max=2)
    assert planned(*SIX[:3], done(3, Action.SAVEPOINT), rules=few) == [1]
    assert planned(*SIX[:3], *(done(n, Action.SAVEPOINT) for n in (1, 2, 3)), rules=few) == []


@pytest.mark.parametrize("action", [Action.SAVEPOINT, Action.RESTORE, Action.INDEXING])
def test_savepoints_restores_and_indexing_stay(action: Action) -> None:
    rules = ArchivalRules(keep_min=2, keep_max=4, beyond_savepoint=True)
    assert done(1, action) not in plan_archival(ArchivalState(Timeline.of([*SIX, done(1, action)])), rules).instants


def test_the_greatest_completion_time_stays() -> None:
    late = [done(1), done(2, completed=9_999), *SIX[2:]]
    assert planned(*late) == [1]
    cleaned_late = [*SIX, done(2, Action.CLEAN, 9_999)]
    assert Action.CLEAN not in {
        i.action for i in plan_archival(ArchivalState(Timeline.of(cleaned_late)), RULES).instants
    }


def test_the_newest_commit_with_the_tables_columns_stays() -> None:
    assert planned(*SIX, schema_commit=time(30)) == [1, 2]


def test_completed_files_of_older_versions_stay() -> None:
    old = Instant(time(20), Action.COMMIT, State.COMPLETED, None)
    assert planned(SIX[0], old, *SIX[2:]) == [1]


def test_a_plan_says_what_kept_more_from_going() -> None:
    plan = plan_archival(ArchivalState(Timeline.of([*SIX, done(3, Action.SAVEPOINT)])), RULES)
    assert "savepoint" in plan.why_not
    assert "savepoint" in str(plan)
    assert "Archive 2 instants" in str(plan)
    assert str(ArchivalPlan(why_not="of this")) == "Nothing to archive: of this"


instants = st.lists(
    st.builds(
        lambda n, action, state, late: (
            done(n, action, n * 10 + late) if state is State.COMPLETED else pending(n, action, state)
        ),
        st.integers(1, 60),
        st.sampled_from([*[Action.COMMIT] * 6, Action.REPLACECOMMIT, Action.CLEAN, Action.ROLLBACK, Action.SAVEPOINT]),
        st.sampled_from([*[State.COMPLETED] * 8, State.INFLIGHT, State.REQUESTED]),
        st.integers(1, 200),
    ),
    max_size=40,
)


@settings(derandomize=True, deadline=None)
@given(instants, st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_whatever_is_on_the_timeline_what_goes_is_safe_to_go(
    found: list[Instant], keep_min: int, more: int, beyond: bool
) -> None:
    timeline = Timeline.of(found)
    plan = plan_archival(ArchivalState(timeline), ArchivalRules(keep_min, keep_min + more, beyond))
    for count in range(len(plan.instants) + 1):  # a run may end after any of them
        _is_safe_to_go(timeline, set(plan.instants[:count]), keep_min)


def _is_safe_to_go(timeline: Timeline, gone: set[Instant], keep_min: int) -> None:
    assert all(instant.is_completed and instant in timeline.instants for instant in gone)
    stay = [instant for instant in timeline if instant not in gone]
    if gone:
        assert len([i for i in stay if i in set(timeline.commits)]) >= keep_min
        assert Timeline(tuple(stay)).high_water_mark == timeline.high_water_mark, (
            "the next time must be above what went"
        )
        saved = {i.requested_time for i in stay if i.action is Action.SAVEPOINT}
        left = Timeline(tuple(i for i in stay if i.requested_time not in saved)).first_write
        times = [i.requested_time for i in gone if i.action in (Action.COMMIT, Action.REPLACECOMMIT)]
        assert left is not None
        assert max(times, default="") < left, "what is older than the first active write is archived"


def test_commits_without_row_changes_do_not_count() -> None:
    empty = frozenset({time(20), time(40), time(50)})
    assert planned(*SIX, empty=empty) == []
    assert planned(*SIX) == [1, 2, 3, 4]
    # Five that count are one too many: the newest two stay, with the one between them.
    eight = [*SIX, done(7), done(8)]
    assert planned(*eight, empty=frozenset({time(20), time(40), time(70)})) == [1, 2, 3, 4, 5]


def test_commits_without_row_changes_let_the_timeline_grow_to_twice_its_limits_and_no_further() -> None:
    many = [done(n) for n in range(1, 10)]
    empty = frozenset(time(n * 10) for n in range(2, 10))
    assert planned(*many[:8], empty=empty) == []
    assert planned(*many, empty=empty) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("empty", "more"), [(frozenset(), ""), (frozenset({time(20)}), ", where the 1 that changed no rows do not count")]
)
def test_the_reason_counts_commits_and_those_that_do_not_count(empty: frozenset[str], more: str) -> None:
    plan = plan_archival(ArchivalState(Timeline.of(SIX[:4]), empty=empty), RULES)
    assert plan.why_not == f"4 completed commits are on the active timeline, and 4 may be{more}"
