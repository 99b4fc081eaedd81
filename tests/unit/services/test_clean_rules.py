"""Which slices a clean may take: every state that is promised stays complete, for commits that overlap in every way."""

from __future__ import annotations

import random

import pytest

from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.services.cleaning.clean_rules import (
    ANY,
    Readers,
    Retained,
    by_commits,
    by_time,
    by_versions,
    removable,
)
from pyhudi_core.timeline.active import Timeline

NOBODY = Readers()


def commit(requested: int, completed: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(f"{requested:03d}", action, State.COMPLETED, f"{completed:03d}")


def pending(requested: int, action: Action = Action.COMMIT, state: State = State.INFLIGHT) -> Instant:
    return Instant(f"{requested:03d}", action, state)


def timeline(*instants: Instant) -> Timeline:
    return Timeline(tuple(sorted(instants)))


TEN = tuple(commit(10 * n, 10 * n + 5) for n in range(1, 11))


@pytest.mark.row("N7")
def test_the_last_commits_stay_readable_and_the_state_before_them() -> None:
    kept = by_commits(timeline(*TEN), 3, NOBODY)
    assert (kept.before, kept.earliest) == ("080", TEN[7])
    # The state before commit 080 is what 080 changed: its slices are the newest ones below 080.
    assert removable(["010", "050", "070", "090"], kept.before) == {"010", "050"}


@pytest.mark.row("N7")
def test_too_few_commits_are_a_reason_to_clean_nothing() -> None:
    kept = by_commits(timeline(*TEN[:3]), 3, NOBODY)
    assert kept == Retained(why_not="the timeline has 3 commits, and the policy keeps the last 3", nothing=True)


@pytest.mark.row("N9")
def test_states_of_the_last_hours_stay_readable() -> None:
    assert by_time(timeline(*TEN), "066", NOBODY).before == "070"
    assert by_time(timeline(*TEN), "065", NOBODY).before == "070", "the state at 065 is that of commit 060"
    assert by_time(timeline(*TEN), "999", NOBODY).before == "100", "the changes of the newest commit stay"


@pytest.mark.row("N8")
def test_by_versions_the_number_of_slices_decides() -> None:
    kept = by_versions(timeline(*TEN), NOBODY)
    assert (kept.before, kept.earliest) == (ANY, None)
    assert removable(["010", "020", "030", "040"], kept.before, 2) == {"010", "020"}
    assert removable(["010"], kept.before, 2) == frozenset()


@pytest.mark.parametrize(
    "held",
    [pending(42), pending(42, Action.COMPACTION, State.REQUESTED), pending(42, Action.CLUSTERING), pending(42, Action.INDEXING)],
)  # fmt: skip
def test_what_a_pending_instant_may_read_stays_under_every_policy(held: Instant) -> None:
    found = timeline(*TEN, held)
    for kept in (by_commits(found, 1, NOBODY), by_time(found, "999", NOBODY), by_versions(found, NOBODY)):
        assert (kept.before, kept.earliest) == ("040", TEN[3])
        assert "042 is pending" in kept.why_not


def test_what_a_writer_reserved_and_did_not_announce_stays() -> None:
    assert by_commits(timeline(*TEN), 1, Readers(reserved=("042",))).before == "040"


def test_what_a_writer_that_reserved_the_time_of_a_commit_found_stays() -> None:
    """Its reservation may outlive its commit for a moment. What it found is the state before its time."""
    kept = by_commits(timeline(*TEN), 1, Readers(reserved=("040",)))
    assert (kept.before, kept.earliest) == ("030", TEN[2])


def test_a_write_that_is_older_than_the_timeline_keeps_everything() -> None:
    assert by_commits(timeline(*TEN, pending(4)), 1, NOBODY).nothing


def test_a_writer_that_began_after_the_newest_commit_reads_what_stays_anyway() -> None:
    assert by_versions(timeline(*TEN, pending(110)), NOBODY).before == ANY
    assert by_commits(timeline(*TEN, pending(110)), 3, NOBODY).before == "080"


def test_a_savepoint_that_is_being_made_keeps_its_state() -> None:
    assert by_commits(timeline(*TEN, pending(30, Action.SAVEPOINT)), 1, NOBODY).before == "040"


@pytest.mark.row("N9")
def test_slow_readers_keep_the_states_of_a_time_under_every_policy() -> None:
    slow = Readers(since="055")
    assert by_commits(timeline(*TEN), 1, slow).before == "060"
    assert by_versions(timeline(*TEN), slow).before == "060"


def test_a_commit_that_began_early_and_completed_late_holds_the_limit_back() -> None:
    found = timeline(commit(10, 15), commit(20, 95), commit(30, 35), commit(40, 45), commit(50, 55))
    assert by_commits(found, 1, NOBODY).before == "020"


def shown(slices: dict[str, str], at: str) -> str | None:
    """The slice of a group that a reader at a completion time sees; ``slices`` gives the completion time of each."""
    return max((time for time, completed in slices.items() if completed <= at), default=None)


@pytest.mark.row("L1", "N7")
def test_every_state_from_the_horizon_on_keeps_its_slices() -> None:
    """Random commits that overlap; commits of one group do not, because that is a conflict."""
    assert sum(map(looked_at, range(400))) > 5_000


def looked_at(seed: int) -> int:
    """Check the states of one random history; returns how many slices of states were looked at."""
    chance = random.Random(seed)
    times = iter(sorted(chance.sample(range(1, 400), 60)))
    groups: dict[int, dict[str, str]] = {n: {} for n in range(3)}
    instants, running = [], list[tuple[int, int]]()
    for time in times:
        free = [group for group in groups if all(group != other for other, _ in running)]
        if free and (not running or chance.random() < 0.55):
            running.append((chance.choice(free), time))
        else:
            group, begun = running.pop(chance.randrange(len(running)))
            groups[group][f"{begun:03d}"] = f"{time:03d}"
            instants.append(commit(begun, time))
    found = timeline(*instants, *(pending(begun) for _, begun in running))
    completed = [instant.completion_time or "" for instant in found.commits]
    many = chance.randint(1, max(1, len(completed) - 1))
    kept = by_commits(found, many, NOBODY)
    if kept.nothing:
        return 0
    promised = [*completed[-many - 1 :], *(f"{begun:03d}" for _, begun in running)]
    for slices in groups.values():
        gone = removable(sorted(slices), kept.before)
        for at in promised:
            assert shown(slices, at) not in gone, f"seed {seed}: the state at {at} misses a slice"
    return len(promised) * len(groups)
