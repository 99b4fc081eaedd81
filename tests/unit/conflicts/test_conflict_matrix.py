"""The conflict table: whole, symmetric, explained where it departs from the specification, and what the real table does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement

import pytest
from support.tables import make, orders, reopen

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import Concurrent, ConflictKind, Touched, find_conflict
from pyhudi_core.conflicts.matrix import MATRIX, NOTES, Condition, Line, Verdict, line_of
from pyhudi_core.errors import CommitAbortedError, CommitConflictError
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.operation import OPERATIONS, WRITERS, OperationType

pytestmark = pytest.mark.row("K5")

INSERTING = WRITERS - {OperationType.DELETE, OperationType.DELETE_PARTITION}
REPLACING = {OperationType.INSERT_OVERWRITE, OperationType.INSERT_OVERWRITE_TABLE, OperationType.DELETE_PARTITION}


def test_every_pair_of_the_seventeen_operations_has_one_line() -> None:
    assert len(OPERATIONS) == 17
    pairs = {(line.first, line.second) for line in MATRIX}
    assert len(MATRIX) == len(pairs) == 153
    assert pairs == set(combinations_with_replacement(OPERATIONS, 2))


def test_the_order_of_a_pair_does_not_matter() -> None:
    for one, other in combinations_with_replacement(OPERATIONS, 2):
        assert line_of(one, other) is line_of(other, one)
        if one is other or {one, other} <= WRITERS:
            line = line_of(one, other)
            assert line.first_later is line.second_later, line


def test_a_line_has_conditions_exactly_when_somebody_loses() -> None:
    for line in MATRIX:
        assert bool(line.conditions) == (line.verdict is not Verdict.COMMUTES), line
        assert len(set(line.conditions)) == len(line.conditions)


def test_what_is_not_one_of_the_seventeen_conflicts_with_everything() -> None:
    for operation in (*OPERATIONS, OperationType.UNKNOWN):
        line = line_of(operation, OperationType.UNKNOWN)
        assert line.conditions == (Condition.ALWAYS,)
        assert line.of(operation) is not Verdict.COMMUTES
    assert OperationType.of("BUCKET_RESCALE") is OperationType.of(None) is OperationType.UNKNOWN
    nothing = Touched(frozenset(), frozenset(), operation=OperationType.DELETE)
    theirs = CommitMetadata("BUCKET_RESCALE")
    found = find_conflict(nothing, Concurrent(((Instant("2", Action.COMMIT, State.COMPLETED, "3"), theirs),)))
    assert found is not None
    assert found.kind is ConflictKind.OPERATION


def _specified(one: OperationType, other: OperationType) -> set[Condition] | None:
    """What the specification says stands between a pair; None where it says nothing."""
    pair = {one, other}
    if pair <= WRITERS:
        return {Condition.SAME_GROUP, Condition.SAME_KEY}
    if pair & WRITERS and pair & {OperationType.COMPACT, OperationType.LOG_COMPACT}:
        return {Condition.PLAN_OVERLAP}
    if pair & WRITERS and OperationType.CLUSTER in pair:
        return {Condition.SAME_GROUP}
    if OperationType.CLEAN in pair and not pair & WRITERS:
        return set()
    if OperationType.INDEX in pair:
        return set()
    if pair == {OperationType.COMPACT, OperationType.CLUSTER}:
        return {Condition.PLAN_OVERLAP}
    return None


def test_every_departure_from_the_specification_says_why_and_nothing_else_does() -> None:
    departures = 0
    for line in MATRIX:
        specified = _specified(line.first, line.second)
        departs = specified is not None and set(line.conditions) != specified
        assert bool(line.why) == departs, f"{line.first} and {line.second}: {specified}, {line.conditions}"
        departures += departs
    assert departures > 40
    assert {note for line in MATRIX for note in line.notes} == set(NOTES), "a note that no line carries"


def test_a_line_reads_as_a_sentence() -> None:
    assert str(line_of(OperationType.UPSERT, OperationType.CLEAN)) == "upsert and clean commute"
    text = str(line_of(OperationType.CLUSTER, OperationType.UPSERT))
    assert "replan of upsert, abort of cluster" in text
    assert "same file group" in text


# --- the table does what the lines say: two handles on one table, in both orders

BASE = orders((1, "a", 1.0), (2, "b", 2.0))
WORDS = {operation: str(operation) for operation in WRITERS} | {OperationType.DELETE_PARTITION: "delete_partition"}


def _full(table: hudi.HudiTable) -> hudi.HudiTable:
    """Another handle, for which every file is full."""
    return reopen(table, hoodie__parquet__small__file__limit=0)


def _write(table: hudi.HudiTable, operation: OperationType, *rows: tuple[object, ...]) -> hudi.Write:
    handle = table.begin(WORDS[operation])
    if operation is OperationType.DELETE_PARTITION:
        return handle.drop(tuple(f"day={row[1]}" for row in rows))
    data = orders(*rows)
    return handle.write(data.select(["id", "day"]) if operation is OperationType.DELETE else data)


EARLIER, LATER = 1, 2


def _plan_for(condition: Condition, operation: OperationType, number: int) -> tuple[object, ...] | None:
    """A row that makes an operation take its part in a condition; None if it cannot.

    Key 1 lives in partition a, alone in its file group. To share a group, an insert takes it for a small file; else files count as full, so
    new keys come into groups of their own (a bulk insert makes its own always).
    """
    if condition is Condition.SAME_GROUP:
        if operation is OperationType.BULK_INSERT:
            return None
        return (50 + number, "a", 1.0) if operation is OperationType.INSERT else (1, "a", 10.0 + number)
    if condition is Condition.SAME_KEY:
        return (7, "new", 70.0 + number) if operation in INSERTING else None
    # Both write other keys into a new partition; the later one may replace it.
    if operation is OperationType.DELETE_PARTITION:
        return (0, "new") if number == LATER else None
    return (40 + number, "new", 1.0) if operation in INSERTING else None


def _bites(line: Line, later: OperationType, condition: Condition) -> bool:
    if condition is not Condition.SAME_PARTITION:
        return condition in line.conditions
    # A whole-table replacement covers every partition; others the one that they name.
    return condition in line.conditions and later in REPLACING


PAIRS = [pair for pair in combinations_with_replacement(OPERATIONS, 2) if set(pair) <= WRITERS]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
@pytest.mark.row("K4")
def test_conflict_matrix(one: OperationType, other: OperationType, location: str) -> None:
    line = line_of(one, other)
    seen = 0
    orders_of = [(one, other)] if one is other else [(one, other), (other, one)]
    for number, (earlier, later) in enumerate(orders_of):
        for condition in (Condition.SAME_GROUP, Condition.SAME_KEY, Condition.SAME_PARTITION):
            first, second = _plan_for(condition, earlier, EARLIER), _plan_for(condition, later, LATER)
            if first is None or second is None:
                continue
            place = f"{location}/{number}-{condition}"
            table = make(place)
            table.upsert(BASE)
            if condition is Condition.SAME_PARTITION and later is OperationType.DELETE_PARTITION:
                table.upsert(orders((60, "new", 1.0)))  # only what is there can be dropped
            opened = reopen if condition is Condition.SAME_GROUP else _full
            with _write(opened(table), later, second) as mine, _write(opened(table), earlier, first) as theirs:
                theirs.commit()
                found = _outcome(mine)
            expected = (
                line.of(later) if _bites(line, later, condition) or _covers_more(line, later) else Verdict.COMMUTES
            )
            assert found is expected, f"{later} after {earlier}, {condition}"
            seen += 1
    assert seen or {one, other} == {OperationType.BULK_INSERT, OperationType.DELETE}, (
        "a bulk insert shares no group with a delete"
    )


def _covers_more(line: Line, later: OperationType) -> bool:
    """A replaced partition holds the shared group or key too."""
    return Condition.SAME_PARTITION in line.conditions and later in REPLACING


def _outcome(write: hudi.Write) -> Verdict:
    dry_run = write.would_commit()
    try:
        write.commit()
    except CommitConflictError as error:
        assert not dry_run
        assert dry_run.explanation is not None
        assert dry_run.explanation.verdict is error.explanation.verdict is error.conflict.verdict
        return error.conflict.verdict
    assert dry_run
    return Verdict.COMMUTES


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
def test_what_has_nothing_in_common_commutes(one: OperationType, other: OperationType, location: str) -> None:
    table = _full(make(location))
    table.upsert(BASE)
    row = {OperationType.DELETE: (1, "a"), OperationType.UPSERT: (1, "a", 5.0)}
    elsewhere = {OperationType.DELETE: (2, "b"), OperationType.UPSERT: (2, "b", 5.0)}
    whole = OperationType.INSERT_OVERWRITE_TABLE
    with _write(table, other, elsewhere.get(other, (31, "b", 1.0))) as second:
        with _write(_full(table), one, row.get(one, (30, "a", 1.0))) as first:
            first.commit()
        expected = Verdict.COMMUTES if whole not in (one, other) else _of_whole_table(one, other)
        assert _outcome(second) is expected


def _of_whole_table(one: OperationType, other: OperationType) -> Verdict:
    """Replacing the table has something in common with every write but an insert of other keys into new groups after it."""
    fresh = other in {OperationType.INSERT, OperationType.BULK_INSERT}
    return Verdict.COMMUTES if fresh else Verdict.REPLAN


@pytest.mark.parametrize("operation", sorted(WRITERS), ids=str)
def test_a_write_that_is_rolled_back_is_given_up(operation: OperationType, location: str) -> None:
    assert line_of(operation, OperationType.ROLLBACK).of(operation) is Verdict.ABORT
    table = make(location)
    table.upsert(BASE)
    with _write(table, operation, (5, "a", 5.0) if operation in INSERTING else (1, "a")) as write:
        assert write.instant is not None
        reopen(table).rollback(write.instant)
        with pytest.raises(CommitAbortedError, match="rolled this write back"):
            write.commit()


def _after(table: hudi.HudiTable, action: Callable[[], object]) -> bool:
    with _write(table, OperationType.UPSERT, (2, "b", 9.0)) as write:
        action()
        return _outcome(write) is Verdict.COMMUTES


def test_a_rollback_of_another_write_stops_nobody(location: str) -> None:
    table = make(location)
    table.upsert(BASE)
    other = _write(table, OperationType.UPSERT, (1, "a", 5.0))
    assert other.instant is not None
    assert _after(table, lambda: reopen(table).rollback(str(other.instant)))
