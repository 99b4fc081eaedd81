"""The eleven configurations of the study of Hudi's consistency model (J. Vanlightly, 2024), each on the shipped code.

Two writers, two keys, two file groups, two writes in all: fewer show too little (with one key or one file group, rows 2, 4 and 7 cannot fail as
described). A row that is safe must be clean in every schedule within the bound; a row that is not must be seen to fail, and in the way that
the study says. How the study's words are read here:

- put-if-absent: the requested, inflight and completed files are made once. Without it the reservation and the commit record, which rest on it too,
  are off in any case; the rows need neither, so they are off everywhere but in the rows "as shipped";
- salt: write tokens are unique, and a completed instant is told from another one of the same time by its token;
- optimistic: commits are checked and decided under the lock; pessimistic: the lock is held from before the merge target is read;
- monotonic: a provider gives 1, 2, 3, ..., or, as shipped, the reservation does; else the explorer chooses each begin time.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

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
from reliability.recording import KEPT

from pyhudi_core.testing import History, Report, explore
from pyhudi_core.transaction.protections import Protections

DEEPER = int(os.environ.get("PYHUDI_EXPLORE", "1")) > 1
ANY = None
TWO_WRITES = (writer(("a1", "k1.fg1")), writer(("b1", "")))
"""The names of keys and file groups mean nothing, so the first writer's may be fixed."""
ONE_GROUP = (writer(("a1", "k1.fg1")), writer(("b1", "k2.fg1")))
"""What loses a write without locking: two keys go to one group, and each writer finds it empty."""
THREE_WRITES = (writer(("a1", "k1.fg1"), ("a2", "")), writer(("b1", "")))


@dataclass(frozen=True, slots=True)
class Row:
    """One row; None is "any". ``fails`` is how it must fail, None if it is safe."""

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
        """The row with every value of what may be any."""
        open_fields = [
            name for name in ("put_if_absent", "salt", "monotonic", "key_check") if getattr(self, name) is ANY
        ]
        return [
            replace(self, **dict(zip(open_fields, values, strict=True)))
            for values in product((True, False), repeat=len(open_fields))
        ]

    def configuration(self) -> Configuration:
        """What it means for the shipped code."""
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
    """The check; of a row that must fail, failures of another kind are passed over, so that the one that is described is found."""

    def check(world: KvWorld, history: History) -> None:
        try:
            consistent(world, history)
        except AssertionError as error:
            if kind is None or isinstance(error, kind):
                raise

    return check


def run(
    row: Row, configuration: Configuration, writers=TWO_WRITES, preemptions: int | None = 1, name: str = ""
) -> Report:
    """Explore one variant, say what was found and keep it for the published table."""
    started = time.perf_counter()
    bounds = bounds_for(configuration, 3, preemptions)
    report = explore(lambda: kv_world(configuration), writers, looking_for(row.fails), bounds)
    seconds = time.perf_counter() - started
    found = type(report.violation.error).__name__ if report.violation else "none"
    facts = {
        **asdict(replace(row, fails=None)),
        "row": name or str(row.number),
        "writes": 3 if writers is THREE_WRITES else 2,
        "preemptions": preemptions,
        "expected": row.verdict,
        "failure": found,
        "states": report.states,
        "schedules": report.schedules,
        "exhausted": report.exhausted,
        "seconds": round(seconds, 2),
        "trace": list(report.violation.steps) if report.violation else [],
    }
    del facts["fails"], facts["number"]
    keep(facts)
    print(", ".join(f"{key} {value}" for key, value in facts.items() if key != "trace"))
    return report


_kept: list[dict[str, object]] = []


def keep(facts: dict[str, object]) -> None:
    """Write the table as it is so far, if PYHUDI_RECORD asks for it."""
    folder = os.environ.get("PYHUDI_RECORD", "")
    _kept.append(facts)
    if folder and folder != "0":
        path = (KEPT if folder == "1" else Path(folder)) / "eleven_rows.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_kept, indent=1) + "\n", encoding="utf-8")


def judge(row: Row, report: Report) -> None:
    """The verdict must be the study's."""
    if safe(row):
        report.assert_clean()
        assert report.exhausted, "not every schedule within the bound was tried"
        return
    assert report.violation is not None, f"row {row.number} did not fail: {row.verdict} was expected"
    print(report.violation.text())
    assert type(report.violation.error) in (row.fails, CollisionLostWrite if row.fails is LostWrite else row.fails)


@pytest.mark.row("K3")
@pytest.mark.row("K7")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row_{row.number}")
def test_eleven_rows(row: Row) -> None:
    for variant in row.variants():
        # One switch is enough to see an unsafe row fail; a safe one is tried further in the longer runs.
        preemptions = 2 if safe(row) and DEEPER else 1
        writers = ONE_GROUP if row.locking == "none" else TWO_WRITES
        judge(row, run(variant, variant.configuration(), writers, preemptions))


@pytest.mark.row("K1")
@pytest.mark.row("R5")
def test_the_safe_rows_as_shipped_with_every_protection_on() -> None:
    optimistic, pessimistic = ROWS[0].variants()[0], ROWS[2].variants()[0]
    depth = 2 if DEEPER else 1
    judge(optimistic, run(optimistic, Configuration(), preemptions=depth, name="1 as shipped"))
    held = Configuration(pessimistic=True, early_lock=True)
    judge(pessimistic, run(pessimistic, held, preemptions=None, name="3 as shipped"))


def test_pessimistic_writes_as_shipped_make_no_duplicates_even_without_the_key_check() -> None:
    """The study looks keys up before it locks; the shipped order locks first, so its row 4 cannot happen."""
    row = replace(ROWS[3].variants()[0], fails=None)
    configuration = Configuration(Protections(key_check=False), pessimistic=True, early_lock=True)
    judge(row, run(row, configuration, preemptions=None, name="4 as shipped"))


def test_the_lock_of_a_pessimistic_write_protects_its_merge_target_without_any_conflict_check() -> None:
    row = ROWS[2].variants()[0]
    protections = replace(row.configuration().protections, conflict_check=False)
    held = Configuration(protections, pessimistic=True, early_lock=True, provider=True)
    judge(row, run(row, held, preemptions=None, name="3 without conflict check"))


@pytest.mark.parametrize("number", [6, 7])
def test_a_requested_time_that_is_used_again_for_another_key_and_group_loses_a_write(number: int) -> None:
    """The shortest trace of row 7: the slices lie apart, and the second commit takes the place of the first on the timeline."""
    row = ROWS[number - 1]
    writers = (writer(("a1", "k1.fg1.1")), writer(("b1", "k2.fg2.1")))
    judge(row, run(row, row.configuration(), writers, name=f"{number}, other key and group"))


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row_{row.number}")
def test_eleven_rows_with_three_writes(row: Row) -> None:
    for variant in row.variants()[-1:] if safe(row) else row.variants():
        preemptions = 1 if safe(row) else 2
        judge(row, run(variant, variant.configuration(), THREE_WRITES, preemptions))
