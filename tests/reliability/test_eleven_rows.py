"""The eleven configurations of the study of Hudi's consistency model (J. Vanlightly, 2024), each on the shipped code.

Two writers, two keys, two file groups, two writes in all (two of each writer in the longer runs): fewer show too little (with one key or one file
group, rows 2, 4 and 7 cannot fail as described). A row that is safe must be clean in every schedule within the bound; a row that is not must be
seen to fail, and in the way that the study says. How the study's words are read here:

- put-if-absent: the requested, inflight and completed files are made once. Without it the reservation and the commit record, which rest on it too,
  are off in any case; the rows need neither, so they are off everywhere but in the rows "as shipped";
- salt: write tokens are unique, and a completed instant is told from another one of the same time by its token;
- optimistic: commits are checked and decided under the lock; pessimistic: the lock is held from before the merge target is read;
- monotonic: a provider gives 1, 2, 3, ..., or, as shipped, the reservation does; else the explorer chooses each begin time.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import pytest
from reliability.kv_table import (
    CollisionLostWrite,
    Configuration,
    DuplicateRows,
    KvWorld,
    LostWrite,
    bounds_for,
    consistent,
    kv_world,
    writer,
)

from benchmarks.recording import record
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.testing import Bounds, History, Report, explore, explore_all, explore_randomly

RECORDS_ITSELF = True
FACTOR = int(os.environ.get("PYHUDI_EXPLORE", "1"))
ANY = None
Check = Callable[[KvWorld, History], None]
Writers = tuple[Callable[[KvWorld], object], ...]
TWO_WRITES: Writers = (writer(("a1", "k1.fg1")), writer(("b1", "")))
"""The names of keys and file groups mean nothing, so the first writer's may be fixed."""
ONE_GROUP: Writers = (writer(("a1", "k1.fg1")), writer(("b1", "k2.fg1")))
"""What loses a write without locking: two keys go to one group, and each writer finds it empty."""
APART_AT_ONE_TIME: Writers = (writer(("a1", "k1.fg1.1")), writer(("b1", "k2.fg2.1")))
FOUR_WRITES: Writers = (writer(("a1", "k1.fg1"), ("a2", "")), writer(("b1", ""), ("b2", "")))
WRITES = {TWO_WRITES: 2, ONE_GROUP: 2, APART_AT_ONE_TIME: 2, FOUR_WRITES: 4}


@dataclass(frozen=True, slots=True)
class Row:
    """One row; None means any value. ``fails`` is the expected failure, None if the row is safe."""

    number: int
    put_if_absent: bool | None
    salt: bool | None
    locking: str
    monotonic: bool | None
    key_check: bool | None
    fails: type[AssertionError] | None = None

    @property
    def verdict(self) -> str:
        return {None: "OK", DuplicateRows: "duplicate rows", LostWrite: "lost write"}.get(
            self.fails, "lost write (timestamp collision)"
        )

    def variants(self) -> list[Row]:
        """The row with every combination of its open values."""
        open_fields = [
            name for name in ("put_if_absent", "salt", "monotonic", "key_check") if getattr(self, name) is ANY
        ]
        return [
            replace(self, **dict(zip(open_fields, values, strict=True)))
            for values in product((True, False), repeat=len(open_fields))
        ]

    def configuration(self) -> Configuration:
        """The settings of the shipped code for the row."""
        once = bool(self.put_if_absent)
        locking = self.locking != "none"
        protections = Protections(
            conflict_check=locking,
            lock=locking,
            key_check=bool(self.key_check),
            salt=bool(self.salt),
            requested_once=once,
            inflight_once=once,
            completed_once=once,
            commit_record=False,
            reservation=False,
            monotonic_times=False,
        )
        return Configuration(protections, pessimistic=self.locking == "pessimistic", provider=bool(self.monotonic))


ROWS = (
    Row(1, ANY, ANY, "optimistic", True, True),
    Row(2, ANY, ANY, "optimistic", True, False, DuplicateRows),
    Row(3, ANY, ANY, "pessimistic", True, True),
    Row(4, ANY, ANY, "pessimistic", True, False, DuplicateRows),
    Row(5, ANY, ANY, "none", ANY, ANY, LostWrite),
    Row(6, False, False, "optimistic", False, True, CollisionLostWrite),
    Row(7, False, False, "pessimistic", False, True, CollisionLostWrite),
    Row(8, True, False, "optimistic", False, True),
    Row(9, True, False, "pessimistic", False, True),
    Row(10, False, True, "optimistic", False, True),
    Row(11, False, True, "pessimistic", False, True),
)


def safe(row: Row) -> bool:
    return row.fails is None


def looking_for(kind: type[AssertionError] | None):
    """The check. For a row that must fail, other kinds of failures are ignored, so that the described one is found."""

    def check(world: KvWorld, history: History) -> None:
        try:
            consistent(world, history)
        except AssertionError as error:
            if kind is None or isinstance(error, kind):
                raise

    return check


@dataclass(frozen=True, slots=True)
class Depth:
    """The bound: the maximum number of preemptions; None: every order, except of independent steps."""

    preemptions: int | None = None

    def search(self, configuration: Configuration, writers: Writers, check: Check) -> Report:
        """Explore."""
        bounds = bounds_for(configuration, 4, self.preemptions)
        return (explore_all if self.preemptions is None else explore)(
            lambda: kv_world(configuration), writers, check, bounds
        )

    def __str__(self) -> str:
        return "every order" if self.preemptions is None else f"at most {self.preemptions} preemptions"


@dataclass(frozen=True, slots=True)
class Drawn:
    """So many draws of keys, groups and begin times for two writes of each writer; of each some random schedules."""

    seed: int
    draws: int
    schedules: int = 20

    def search(self, configuration: Configuration, writers: Writers, check: Check) -> Report:
        """Explore; the writers are drawn, too."""
        assert writers is FOUR_WRITES
        chance = random.Random(self.seed)
        schedules = states = 0
        for draw in range(self.draws):
            a, b, c, d = (chance.choice(configuration.choices()) for _ in range(4))
            drawn = (writer(("a1", a), ("a2", b)), writer(("b1", c), ("b2", d)))
            bounds = Bounds(schedules=self.schedules)
            report = explore_randomly(lambda: kv_world(configuration), drawn, check, bounds, draw, priorities=True)
            schedules, states = schedules + report.schedules, states + report.states
            if report.violation is not None:
                print(f"draw {draw}: {a} {b} {c} {d}")
                break
        return replace(report, schedules=schedules, states=states)

    def __str__(self) -> str:
        return f"{self.draws} draws, {self.schedules} random schedules each"


def run(row: Row, configuration: Configuration, writers: Writers, depth: Depth | Drawn, name: str = "") -> Report:
    """Explore one variant, and store the result for the published table."""
    started = time.process_time()
    report = depth.search(configuration, writers, looking_for(row.fails))
    seconds = time.process_time() - started
    facts = {
        **{
            field: said(getattr(row, field)) for field in ("put_if_absent", "salt", "locking", "monotonic", "key_check")
        },
        "writes": WRITES[writers],
        "bound": str(depth),
        "expected": row.verdict,
        "failure": type(report.violation.error).__name__ if report.violation else "none",
        "schedules": report.schedules,
        "states": report.states,
        "exhausted": report.exhausted,
        "seconds": round(seconds, 2),
    }
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    letters = "".join(str(facts[field])[0] for field in ("put_if_absent", "salt", "monotonic", "key_check"))
    record("eleven_rows", {f"{name or row.number}, {letters}, {facts['writes']} writes": facts})
    return report


def said(switch: bool | str | None) -> str:
    return switch if isinstance(switch, str) else "yes" if switch else "no"


def judge(row: Row, report: Report, whole: bool = True) -> None:
    """The result must be that of the study; ``whole``: every schedule within the bound must have been covered."""
    if safe(row):
        report.assert_clean()
        assert report.exhausted or not whole, "not every schedule within the bound was tried"
        return
    assert report.violation is not None, f"row {row.number} did not fail: {row.verdict} was expected"
    print(report.violation.text())
    assert type(report.violation.error) in (row.fails, CollisionLostWrite if row.fails is LostWrite else row.fails)


EVERY_ORDER, ONE_SWITCH = Depth(), Depth(preemptions=1)


@pytest.mark.row("K3", "X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8", "X9", "X10", "X11")
@pytest.mark.row("K7")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row_{row.number}")
def test_eleven_rows(row: Row) -> None:
    """At two writes, one of each writer, in the variant that is hardest to get right: a safe row with the least, an unsafe one with the most."""
    hardest = row.variants()[-1 if safe(row) else 0]
    judge_two_writes(row, hardest)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row_{row.number}")
def test_every_variant_of_the_eleven_rows(row: Row) -> None:
    for variant in row.variants():
        judge_two_writes(row, variant)


def judge_two_writes(row: Row, variant: Row) -> None:
    """One switch is enough to see an unsafe row fail; the safe ones are tried in every order below."""
    writers = ONE_GROUP if row.locking == "none" else TWO_WRITES
    judge(row, run(variant, variant.configuration(), writers, ONE_SWITCH))


@pytest.mark.row("K1")
@pytest.mark.row("R5")
def test_the_safe_rows_as_shipped_with_every_protection_on() -> None:
    optimistic, pessimistic = ROWS[0].variants()[0], ROWS[2].variants()[0]
    judge(optimistic, run(optimistic, Configuration(), TWO_WRITES, ONE_SWITCH, "1 as shipped"))
    held = Configuration(pessimistic=True, early_lock=True)
    judge(pessimistic, run(pessimistic, held, TWO_WRITES, EVERY_ORDER, "3 as shipped"))


def test_pessimistic_writes_as_shipped_make_no_duplicates_even_without_the_key_check() -> None:
    """The study looks keys up before it locks; the shipped order locks first, so its row 4 cannot happen."""
    row = replace(ROWS[3].variants()[0], fails=None)
    configuration = Configuration(Protections(key_check=False), pessimistic=True, early_lock=True)
    judge(row, run(row, configuration, TWO_WRITES, EVERY_ORDER, "4 as shipped"))


def test_the_lock_of_a_pessimistic_write_protects_its_merge_target_without_any_conflict_check() -> None:
    row = ROWS[2].variants()[0]
    protections = replace(row.configuration().protections, conflict_check=False)
    held = Configuration(protections, pessimistic=True, early_lock=True, provider=True)
    judge(row, run(row, held, TWO_WRITES, EVERY_ORDER, "3 without conflict check"))


@pytest.mark.parametrize("number", [6, 7])
def test_a_requested_time_that_is_used_again_for_another_key_and_group_loses_a_write(number: int) -> None:
    """The shortest trace of row 7: the slices lie apart, and the second commit takes the place of the first on the timeline."""
    row = ROWS[number - 1]
    judge(row, run(row, row.configuration(), APART_AT_ONE_TIME, ONE_SWITCH, f"{number}, other key and group"))


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if safe(row)], ids=lambda row: f"row_{row.number}")
def test_every_variant_of_the_safe_rows_in_every_order(row: Row) -> None:
    for variant in row.variants():
        judge(row, run(variant, variant.configuration(), TWO_WRITES, EVERY_ORDER))


@pytest.mark.slow
def test_the_first_row_as_shipped_in_every_order() -> None:
    row = ROWS[0].variants()[0]
    judge(row, run(row, Configuration(), TWO_WRITES, EVERY_ORDER, "1 as shipped, every order"))


@pytest.mark.one_in(4)
@pytest.mark.row("K3")
@pytest.mark.row("K7")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row_{row.number}")
def test_eleven_rows_with_two_writes_of_each_writer(row: Row) -> None:
    """Two writers, two keys, two file groups, two operations each: too many orders to try all of them. That the draws are good enough is seen in
    the rows that fail.
    """
    weakest = row.variants()[-1]
    draws = 5 if safe(row) else 40
    judge(row, run(weakest, weakest.configuration(), FOUR_WRITES, Drawn(row.number, draws)), whole=False)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row_{row.number}")
def test_every_variant_with_two_writes_of_each_writer(row: Row) -> None:
    for variant in row.variants():
        configuration = variant.configuration()
        judge(row, run(variant, configuration, FOUR_WRITES, Drawn(row.number, 100 * FACTOR)), whole=False)
        if safe(row) and configuration.provider:
            judge(row, run(variant, configuration, FOUR_WRITES, Depth(preemptions=0), f"{row.number}, whole writes"))
