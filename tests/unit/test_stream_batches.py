"""What becomes of a batch of a stream: a function of what the table remembers, and of the number, query and time of planning of the batch."""

from __future__ import annotations

import pytest

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.spark.batches import NOTHING, UNKNOWN, BatchVerdict, Mark, StreamBatch, refusal, verdict

A, B = "query-a", "query-b"
T = [f"2026013112000{second}000" for second in range(10)]
OLD = [Mark(5, instant=T[5], completed=T[6])]
"""The stream of an earlier release, which noted no query."""
OF_A = [Mark(number, A, T[number], T[number], T[number + 1]) for number in (5, 4, 2)]
"""Batches 2, 4 and 5 of a query; batches 0, 1 and 3 had no rows."""
WENT_BACK = [Mark(3, A, T[8], T[8], T[9]), *OF_A]
"""The same, after the checkpoint was restored from a copy that ended with batch 2; batch 3 had rows this time."""

CASES = {
    "the first batch of a new stream": ([], StreamBatch("s", 0, A, T[0]), BatchVerdict.NEW),
    "a checkpoint of another table": ([], StreamBatch("s", 7, A, T[7]), BatchVerdict.LATE),
    "a checkpoint of another table that may begin here": ([], StreamBatch("s", 7, A, T[7], NOTHING), BatchVerdict.NEW),
    "a number without a query, where nothing is known": ([], StreamBatch("s", 7), BatchVerdict.NEW),
    "the next batch": (OF_A, StreamBatch("s", 6, A, T[7]), BatchVerdict.NEW),
    "a batch after some without rows": (OF_A, StreamBatch("s", 9, A, T[7]), BatchVerdict.NEW),
    "a repeated batch": (OF_A, StreamBatch("s", 5, A, T[5]), BatchVerdict.REPEATED),
    "a repeated batch whose time of planning is not known": (OF_A, StreamBatch("s", 5, A), BatchVerdict.REPEATED),
    "a repeated batch of a restored checkpoint": (OF_A, StreamBatch("s", 4, A, T[4]), BatchVerdict.REPEATED),
    "the newest batch planned anew": (OF_A, StreamBatch("s", 5, A, T[8]), BatchVerdict.AGAIN),
    "an older batch planned anew": (OF_A, StreamBatch("s", 4, A, T[8]), BatchVerdict.AGAIN),
    "an older batch that had no rows before": (OF_A, StreamBatch("s", 3, A, T[8]), BatchVerdict.AGAIN),
    "an older batch whose time of planning is not known": (OF_A, StreamBatch("s", 4, A), BatchVerdict.AGAIN),
    "a batch planned anew in a table without keys": (
        OF_A, StreamBatch("s", 4, A, T[8], may_come_again=False), BatchVerdict.AGAIN_REFUSED,
    ),
    "a batch planned anew that may be doubled": (OF_A, StreamBatch("s", 4, A, T[8], A, False), BatchVerdict.AGAIN),
    "a repeated batch where a batch may be doubled": (OF_A, StreamBatch("s", 4, A, T[4], A, False), BatchVerdict.REPEATED),
    "the batch after one that was planned anew": (WENT_BACK, StreamBatch("s", 4, A, T[9]), BatchVerdict.NEW),
    "a repeated batch that was planned anew": (WENT_BACK, StreamBatch("s", 3, A, T[8]), BatchVerdict.REPEATED),
    "the copy restored a second time": (WENT_BACK, StreamBatch("s", 2, A, T[2]), BatchVerdict.REPEATED),
    "a new checkpoint": (OF_A, StreamBatch("s", 0, B, T[8]), BatchVerdict.OTHER_QUERY),
    "a foreign checkpoint that is ahead": (OF_A, StreamBatch("s", 9, B, T[8]), BatchVerdict.OTHER_QUERY),
    "a new checkpoint that begins anew": (OF_A, StreamBatch("s", 0, B, T[8], A), BatchVerdict.NEW),
    "the old checkpoint after another began anew": (
        [Mark(0, B, T[8], T[8], T[9]), *OF_A], StreamBatch("s", 6, A, T[9]), BatchVerdict.OTHER_QUERY,
    ),
    "a new checkpoint that replaces a third query": (OF_A, StreamBatch("s", 0, B, T[8], "query-c"), BatchVerdict.OTHER_QUERY),
    "a new checkpoint that replaces nothing": (OF_A, StreamBatch("s", 0, B, T[8], NOTHING), BatchVerdict.OTHER_QUERY),
    "an older release's stream goes on": (OLD, StreamBatch("s", 6, A, T[7]), BatchVerdict.NEW),
    "an older release's batch is repeated": (OLD, StreamBatch("s", 5, A, T[4]), BatchVerdict.REPEATED),
    "an older release's batch is repeated, at an unknown time": (OLD, StreamBatch("s", 5, A), BatchVerdict.REPEATED),
    "a batch that was planned after an older release had written its number": (
        OLD, StreamBatch("s", 5, A, T[8]), BatchVerdict.UNKNOWN_QUERY,
    ),
    "a new checkpoint after an older release": (OLD, StreamBatch("s", 0, A, T[8]), BatchVerdict.UNKNOWN_QUERY),
    "a new checkpoint after an older release that begins anew": (OLD, StreamBatch("s", 0, A, T[8], UNKNOWN), BatchVerdict.NEW),
    "numbers alone, the next": (OF_A, StreamBatch("s", 6), BatchVerdict.NEW),
    "numbers alone, an older one": (OLD, StreamBatch("s", 3), BatchVerdict.REPEATED),
}  # fmt: skip


RESTORED = {
    "a jump after a restore": (StreamBatch("s", 9, A, T[8]), BatchVerdict.UNDONE),
    "a jump after a restore that is accepted": (StreamBatch("s", 9, A, T[8], A), BatchVerdict.NEW),
    "the next batch after a restore": (StreamBatch("s", 6, A, T[8]), BatchVerdict.NEW),
    "another query after a restore": (StreamBatch("s", 9, B, T[8]), BatchVerdict.OTHER_QUERY),
}


@pytest.mark.parametrize("case", RESTORED)
@pytest.mark.parametrize("marks", [OF_A, OLD], ids=["known", "of an earlier release"])
def test_batches_that_a_restore_may_have_undone_are_not_passed_over(case: str, marks: list[Mark]) -> None:
    batch, expected = RESTORED[case]
    if marks is OLD and batch.query == B:
        expected = BatchVerdict.UNDONE
    assert verdict(marks, batch, T[7]) is expected
    assert verdict(marks, batch, T[5]) is not BatchVerdict.UNDONE


@pytest.mark.parametrize("case", CASES)
def test_a_batch_is_written_once_skipped_only_if_it_is_there_and_refused_otherwise(case: str) -> None:
    marks, batch, expected = CASES[case]
    assert verdict(marks, batch) is expected


REFUSED = {name: case for name, case in CASES.items() if case[2].is_refused}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_refusal_names_lets_the_batch_through(case: str) -> None:
    marks, batch, found = REFUSED[case]
    error = refusal(found, next(iter(marks), None), batch, "/lake/orders")
    assert isinstance(error, InvalidOptionError)
    named = str(error.hint).partition('replaces="')[2].partition('"')[0]
    again = StreamBatch(batch.stream, batch.number, batch.query, batch.planned, named, batch.may_come_again)
    assert verdict(marks, again).is_written
    assert error.table == "/lake/orders"
    assert A in str(error)


def test_only_the_newest_commit_is_read_while_the_numbers_go_up() -> None:
    def marks() -> object:
        yield OF_A[0]
        raise AssertionError("an older commit was read")

    assert verdict(marks(), StreamBatch("s", 6, A, T[7])) is BatchVerdict.NEW
    assert verdict(marks(), StreamBatch("s", 5, A, T[5])) is BatchVerdict.REPEATED
    assert verdict(marks(), StreamBatch("s", 0, B, T[7])) is BatchVerdict.OTHER_QUERY
