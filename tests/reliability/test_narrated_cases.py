"""The five cases that the study of Hudi's consistency model describes, with its parameters, and the rows that its readers see.

The study's views are by begin time; ours are by completion time. The last tests show both.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from reliability.kv_table import (
    CollisionLostWrite,
    Configuration,
    DuplicateRows,
    KvWorld,
    LostWrite,
    Rows,
    What,
    bounds_for,
    consistent,
    kv_world,
    put,
    rows,
    stage,
    writer,
)

from pyhudi_core.errors import CommitAbortedError, CommitConflictError
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.testing import Bounds, History, Report, explore
from pyhudi_core.timeline.active import Timeline

NO_LOCKING = {"lock": False, "conflict_check": False, "commit_record": False}
NO_PUT_IF_ABSENT = {
    "requested_once": False,
    "inflight_once": False,
    "completed_once": False,
    "reservation": False,
    "commit_record": False,
}
ANY_BEGIN_TIME = {"monotonic_times": False, "reservation": False}

DEPTH = min(3, int(os.environ.get("PYHUDI_EXPLORE", "1")))
"""Preemptions to try where nothing must be found."""
TWO_KEYS, ONE_KEY = ("k1", "k2"), ("k1",)
ONE_GROUP, TWO_GROUPS = ("fg1",), ("fg1", "fg2")


class Outcomes:
    """The check of an exploration that also remembers how the runs ended."""

    def __init__(self, check: Callable[[KvWorld, History], None] = consistent) -> None:
        self._check = check
        self.acknowledged: set[int] = set()
        self.refusals: set[str] = set()

    def __call__(self, world: KvWorld, history: History) -> None:
        self._check(world, history)
        self.acknowledged.add(sum(len(event.value) for event in history.of("ok")))
        self.refusals |= {f"{type(error).__name__}: {error.message}" for error in world.failures}


def told(
    configuration: Configuration, check: Callable[[KvWorld, History], None] = consistent, preemptions: int = 2
) -> Report:
    """Two writers, one write each; every key, group and begin time that there may be."""
    writers = (writer(("A", "k1")), writer(("B", "")))
    report = explore(lambda: kv_world(configuration), writers, check, bounds_for(configuration, 2, preemptions))
    print(
        f"{report.schedules} schedules, {report.states} states, at most {preemptions} preemptions, exhausted {report.exhausted}"
    )
    if report.violation is not None:
        print(report.violation.text())
    return report


def lost_for_good(world: KvWorld, history: History) -> None:
    """Of writes of different keys, none may be lost; two writes of one key are not looked at."""
    if len({wrote.key for event in history.of("ok") for wrote in event.value}) == 2:
        consistent(world, history)


@pytest.mark.parametrize("put_if_absent", [True, False])
def test_case_1_without_concurrency_control_a_write_is_lost(put_if_absent: bool) -> None:
    once = {} if put_if_absent else {**NO_PUT_IF_ABSENT, "monotonic_times": False}
    protections = Protections(**{**once, **NO_LOCKING})
    configuration = Configuration(protections, provider=not put_if_absent, keys=TWO_KEYS, groups=ONE_GROUP)
    report = told(configuration, lost_for_good)
    assert report.violation is not None
    assert type(report.violation.error) is LostWrite, "times are monotonic: no collision can be the reason"


@pytest.mark.row("K5")
@pytest.mark.parametrize("keys", [ONE_KEY, TWO_KEYS], ids=["one_key", "two_keys_as_its_title_says"])
def test_case_2_with_optimistic_control_the_second_write_fails_its_check(keys: tuple[str, ...]) -> None:
    outcomes = Outcomes()
    report = told(Configuration(keys=keys, groups=ONE_GROUP), outcomes, DEPTH)
    report.assert_clean()
    assert report.exhausted
    assert outcomes.acknowledged == {1, 2}, "alone both succeed, side by side one does"
    assert any(refusal.startswith(CommitConflictError.__name__) for refusal in outcomes.refusals)


@pytest.mark.row("K7")
def test_case_3_without_the_key_check_a_key_is_in_two_file_groups() -> None:
    report = told(Configuration(Protections(key_check=False), keys=ONE_KEY, groups=TWO_GROUPS))
    assert report.violation is not None
    assert type(report.violation.error) is DuplicateRows


def test_case_4_a_begin_time_used_twice_overwrites_the_slice_of_a_committed_write() -> None:
    protections = Protections(**NO_PUT_IF_ABSENT, monotonic_times=False, salt=False)
    report = told(Configuration(protections, keys=ONE_KEY, groups=ONE_GROUP))
    assert report.violation is not None
    assert type(report.violation.error) is CollisionLostWrite
    slices = [line.split()[-1] for line in report.violation.steps if " put p=x/" in line]
    assert len(slices) == 2
    assert len(set(slices)) == 1, "both writes wrote one file"


def test_case_5_with_put_if_absent_the_second_writer_stops_at_its_first_file() -> None:
    outcomes = Outcomes()
    protections = Protections(**ANY_BEGIN_TIME, salt=False, commit_record=False)
    report = told(Configuration(protections, keys=ONE_KEY, groups=ONE_GROUP), outcomes, DEPTH)
    report.assert_clean()
    assert report.exhausted
    assert f"{CommitAbortedError.__name__}: Another writer uses the same requested time" in outcomes.refusals


# --- what readers see: out of order, different keys in different file groups


def out_of_order(world: KvWorld) -> tuple[str, ...]:
    """k1=A at 1, k2=X at 2; then k1=B begins at 3 and k2=Y at 4, and the one that began later completes first."""
    first, second = put(world, "A", "k1.fg1"), put(world, "X", "k2.fg2")
    third = stage(world, world.context(), What("k1", "B"))
    fourth = stage(world, world.context(), What("k2", "Y")).finish()
    return (first.requested, second.requested, third.finish().requested, fourth.requested)


def by_begin_time(context: TableContext, timeline: Timeline, bound: str) -> Rows:
    """The study's view: everything that began at or before the bound and has completed."""
    return rows(context, Timeline(tuple(i for i in timeline if i.requested_time <= bound)))


def by_completion_time(context: TableContext, timeline: Timeline, bound: str) -> Rows:
    """Ours: everything that completed at or before the bound."""
    return rows(context, timeline, bound)


View = Callable[[TableContext, Timeline, str], Rows]
Sequence = list[tuple[str, str]]


def begin_and_completion_times() -> tuple[list[str], list[str]]:
    """The times of the four writes; they are the same in every run."""
    world = kv_world(Configuration())
    begun = out_of_order(world)
    completed = {i.requested_time: i.completion_time or "" for i in world.context().folder.load().commits}
    return list(begun), [completed[time] for time in begun]


def distinct(found: Sequence) -> Sequence:
    """The sequence without repetitions."""
    return [state for n, state in enumerate(found) if n == 0 or found[n - 1] != state]


def state(found: Rows) -> tuple[str, str]:
    return found.get("k1", ""), found.get("k2", "")


def seen_at_every_step(view: View, bound: str) -> Sequence:
    """What a reader sees that asks again after each single call of the writer."""
    world = kv_world(Configuration())
    found: Sequence = []

    def look(world: KvWorld, _history: History | None = None) -> None:
        context = world.context()
        found.append(state(view(context, context.folder.load(), bound)))

    world.scheduler.on_step = lambda _choice, _call: look(world)
    world.scheduler.run([("a", lambda: out_of_order(world))], lambda decision: decision.options[0], Bounds().of_run())
    world.scheduler.on_step = None
    look(world)
    return distinct(found)


def seen_by_readers(view: View, bound: str) -> tuple[set[tuple[tuple[str, str], ...]], Report]:
    """What a reader sees that asks three times, under every schedule within the bound: its calls are interleaved, too."""
    sequences: set[tuple[tuple[str, str], ...]] = set()

    def reader(world: KvWorld) -> Sequence:
        context = world.context()
        return [state(view(context, context.folder.load(), bound)) for _ in range(3)]

    def remember(world: KvWorld, history: History) -> None:
        sequences.add(tuple(distinct(history.result("b"))))

    report = explore(lambda: kv_world(Configuration()), (out_of_order, reader), remember, Bounds(preemptions=DEPTH))
    print(
        f"{report.schedules} schedules, {report.states} states, {len(sequences)} sequences, exhausted {report.exhausted}"
    )
    report.assert_clean()
    assert report.exhausted
    return sequences, report


def is_part_of(part: tuple[tuple[str, str], ...], whole: Sequence) -> bool:
    left = iter(whole)
    return all(item in left for item in part)


NOTHING, A, AX, BX, AY, BY = ("", ""), ("A", ""), ("A", "X"), ("B", "X"), ("A", "Y"), ("B", "Y")
LISTED = {
    ("begin", 3): [NOTHING, A, AX, BX],
    ("begin", 4): [NOTHING, A, AX, AY, BY],
    # By completion time the third write comes last, and what is as of the fourth never changes again.
    ("completion", 3): [NOTHING, A, AX, AY, BY],
    ("completion", 4): [NOTHING, A, AX, AY],
}


@pytest.mark.one_in(2)
@pytest.mark.row("R7")
@pytest.mark.row("R10")
@pytest.mark.parametrize(("kind", "number"), list(LISTED))
def test_readers_see_exactly_the_listed_sequences(kind: str, number: int) -> None:
    begun, completed = begin_and_completion_times()
    assert begun == sorted(begun)
    assert completed[3] < completed[2], "the write that began last completed first"
    view, bound = (by_begin_time, begun[number - 1]) if kind == "begin" else (by_completion_time, completed[number - 1])
    listed = LISTED[kind, number]
    assert seen_at_every_step(view, bound) == listed
    sequences, _ = seen_by_readers(view, bound)
    assert all(is_part_of(sequence, listed) for sequence in sequences), sequences
    assert {item for sequence in sequences for item in sequence} == set(listed)
