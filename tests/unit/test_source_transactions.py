"""Which numbered transactions of a source a table holds: the watermark names only what is visible, in whatever order commits came."""

from __future__ import annotations

import itertools

import pytest
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptTimelineError, InvalidOptionError
from pyhudi_core.source_transactions import TRANSACTIONS_KEY, held_transactions, transaction_watermark, transactions


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    return make(location)


def hold(table: hudi.HudiTable, first: int, last: int) -> None:
    table.upsert(orders((first, "a", 1.0)), extra_metadata=transactions(table, first, last))


@pytest.mark.parametrize("order", list(itertools.permutations([(1, 3), (4, 4), (6, 9)])))
def test_transactions_that_follow_each_other_are_one_interval_in_whatever_order_they_come(
    table: hudi.HudiTable, order: tuple[tuple[int, int], ...]
) -> None:
    for first, last in order:
        hold(table, first, last)
    assert held_transactions(table) == [(1, 4), (6, 9)]
    marks = [transaction_watermark(table, first) for first in (1, 2, 4, 5, 6, 9, 10)]
    assert marks == [4, 4, 4, 4, 9, 9, 9]


def test_transactions_that_overlap_and_lie_in_each_other_are_counted_once(table: hudi.HudiTable) -> None:
    for first, last in ((10, 20), (0, 2), (12, 13), (15, 25)):
        hold(table, first, last)
    assert held_transactions(table) == [(0, 2), (10, 25)]
    assert transaction_watermark(table, 0) == 2


def test_a_table_without_transactions_holds_none(table: hudi.HudiTable) -> None:
    table.upsert(orders((1, "a", 1.0)))
    assert held_transactions(table) == []
    assert transaction_watermark(table) == 0


@pytest.mark.parametrize("numbers", [(-1, 1), (2, 1)])
def test_numbers_that_are_no_transactions_are_refused(table: hudi.HudiTable, numbers: tuple[int, int]) -> None:
    with pytest.raises(InvalidOptionError, match="are not transactions"):
        transactions(table, *numbers)
    assert transactions(table, 0, 0)[TRANSACTIONS_KEY] == "0-0"


@pytest.mark.parametrize("said", ["", "1", "1-x", "2-1", "-1-2", "1-2,"])
def test_a_commit_that_says_no_intervals_is_an_error_and_no_lower_watermark(table: hudi.HudiTable, said: str) -> None:
    table.upsert(orders((1, "a", 1.0)), extra_metadata={TRANSACTIONS_KEY: said})
    with pytest.raises(CorruptTimelineError, match="does not hold intervals"):
        transaction_watermark(table)
