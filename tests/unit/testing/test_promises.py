"""The history checker finds each kind of broken promise, and nothing in a history that keeps them."""

from __future__ import annotations

import pytest

from pyhudi_core.errors import CommitConflictError, CommitStateUnknownError
from pyhudi_core.testing import History, PromiseBroken, Scheduler, attempt, check_promises
from pyhudi_core.testing.promises import BEGINS, FAILED, WROTE, Change

STATES = {"1": [("k", "a1")], "2": [("k", "a1"), ("m", "b1")]}


def history(*events: tuple[str, str, object]) -> History:
    made = History()
    for actor, kind, value in events:
        made.add(actor, kind, value)
    return made


def written(actor: str, change: Change, completed: str) -> list[tuple[str, str, object]]:
    return [(actor, BEGINS, change), (actor, WROTE, completed)]


A, B = written("a", {"k": "a1"}, "1"), written("b", {"m": "b1"}, "2")


def test_a_history_that_readers_see_keeps_every_promise() -> None:
    check_promises(history(*A, *B), ["1", "2"], STATES.__getitem__)


def test_deletes_and_rows_from_before_are_followed() -> None:
    deleted = written("a", {"old": None}, "1")
    check_promises(history(*deleted), ["1"], lambda time: [("k", "x")], before={"old": "y", "k": "x"})


@pytest.mark.parametrize(
    ("promise", "events", "times", "states"),
    [
        ("P1", A, [], {}),
        ("P1", [*A, *B], ["1", "2"], {**STATES, "2": [("m", "b1")]}),
        ("P2", [("a", BEGINS, {"k": "a1"}), ("a", FAILED, "no")], ["1"], STATES),
        ("P3", [("a", BEGINS, {"k": "a1", "l": "a2"})], ["1"], STATES),
        ("P4", A, ["1"], {"1": [("k", "a1"), ("k", "a1")]}),
        ("P6", [*B, *A], ["1", "2"], STATES),
    ],
    ids=[
        "lost commit",
        "lost update",
        "failed and there",
        "half of an unknown write",
        "duplicate key",
        "times go back",
    ],
)
def test_what_readers_see_and_writers_were_not_told_is_a_broken_promise(
    promise: str, events: list[tuple[str, str, object]], times: list[str], states: dict[str, list[tuple[str, str]]]
) -> None:
    with pytest.raises(PromiseBroken) as broken:
        check_promises(history(*events), times, states.__getitem__)
    assert broken.value.promise == promise


def test_a_state_that_reads_differently_the_second_time_is_a_broken_promise() -> None:
    answers = iter([[("k", "a1")], []])
    with pytest.raises(PromiseBroken, match="^P5"):
        check_promises(history(*A), ["1"], lambda time: next(answers))


@pytest.mark.parametrize("there", [True, False])
def test_a_write_of_unknown_outcome_is_there_as_a_whole_or_never(there: bool) -> None:
    unknown = ("b", BEGINS, {"m": "b1"})
    times = ["1", "2"] if there else ["1"]
    check_promises(history(*A, unknown), times, STATES.__getitem__)


def test_attempts_say_what_came_of_them() -> None:
    scheduler = Scheduler()

    def conflict() -> str:
        raise CommitConflictError("no")

    def silence() -> str:
        raise CommitStateUnknownError("who knows", token="t")

    assert attempt(scheduler, {"k": "a1"}, lambda: "1") == "1"
    with pytest.raises(CommitConflictError):
        attempt(scheduler, {"k": "a2"}, conflict)
    with pytest.raises(CommitStateUnknownError):
        attempt(scheduler, {"k": "a3"}, silence)
    kinds = [event.kind for event in scheduler.history.events]
    assert kinds == [BEGINS, WROTE, BEGINS, FAILED, BEGINS]
