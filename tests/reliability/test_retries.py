"""A write that lost to another commit is planned again automatically: up to its limit, after random waits that grow."""

from __future__ import annotations

from itertools import pairwise

import pytest
from reliability.stories import Story, Writer, batch, rows_of

from pyhudi_core.errors import CommitConflictError
from pyhudi_core.testing import Profile

NO_CLAIMS: dict[str, object] = {"pyhudi.commit.reserve.after": 0, "hoodie.time.generator.max_expected_clock_skew_ms": 1}
"""A writer that lost often would else go first."""
FIRST_MS, LONGEST_MS = 20, 5_000
OTHER_MS = 20
"""What else takes time between two attempts: reservations wait for the skew of clocks, a few milliseconds each."""


def overtaken(story: Story, writer: Writer, times: int) -> list[int]:
    """Let others commit to the same file group just before the writer decides, so often; returns the times of its attempts to decide."""
    attempts: list[int] = []
    has_written = False

    def reached(verb: str, path: str) -> None:
        nonlocal has_written
        has_written = has_written or (verb == "put" and ".marker." in path)
        if verb == "acquire" and has_written:  # rollbacks take the lock too
            has_written = False
            attempts.append(story.now_ms)
            if len(attempts) <= times:
                story.writer(options=NO_CLAIMS).open().upsert(batch((1, "a", len(attempts))))

    writer.watch(reached)
    return attempts


@pytest.mark.row("K12")
@pytest.mark.parametrize("budget", [0, 1, 3])
def test_a_write_is_planned_anew_as_often_as_its_budget_says(budget: int) -> None:
    for times in (budget, budget + 1):
        story = Story(Profile.LOCAL_POSIX)
        table = story.table((1, "a", 0), (2, "a", 0))
        writer = story.writer(options={**NO_CLAIMS, "pyhudi.commit.retries": budget})
        attempts = overtaken(story, writer, times)
        if times == budget:
            commit = writer.open().upsert(batch((2, "a", 9)))
            assert commit.retries == budget
            assert rows_of(table) == [(1, "a", times), (2, "a", 9)], "what the winners wrote and what the loser wrote"
        else:
            with pytest.raises(CommitConflictError):
                writer.open().upsert(batch((2, "a", 9)))
            assert rows_of(table) == [(1, "a", times), (2, "a", 0)], "nothing of a write that gave up"
        assert len(attempts) == budget + 1
        assert len(table.timeline.commits) == 1 + times + (times == budget)


@pytest.mark.row("K12", "T5")
def test_the_waits_between_attempts_are_random_and_their_bound_doubles() -> None:
    """Eight writers lose nine times each. No wait is above its bound, the bounds double up to 5 s, and no two writers wait alike."""
    lost, waits = 9, []
    for number in range(8):
        story = Story(Profile.LOCAL_POSIX)
        story.table((1, "a", 0), (2, "a", 0))
        writer = story.writer(f"loser-{number}", options={**NO_CLAIMS, "pyhudi.commit.retries": lost})
        attempts = overtaken(story, writer, lost)
        writer.open().upsert(batch((2, "a", 9)))
        waits.append([later - earlier for earlier, later in pairwise(attempts)][:lost])
    bounds = [min(FIRST_MS * 2**n, LONGEST_MS) for n in range(lost)]
    for place, bound in enumerate(bounds):
        of_all = [waited[place] for waited in waits]
        assert max(of_all) <= bound + OTHER_MS
        if bound >= 8 * OTHER_MS:
            assert max(of_all) > bound / 2, "waits do not grow with the number of lost attempts"
            assert min(of_all) < bound / 2, "a wait may be short: full jitter"
            assert len(set(of_all)) == len(of_all), f"some writers waited alike: {of_all}"
