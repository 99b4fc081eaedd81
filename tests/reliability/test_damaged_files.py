"""Every file below ``.hoodie`` x {lost, empty, cut off, an old copy}: the rows are the same, or a typed error says what is wrong, or `check` names it.

`support/lost_files.py` makes the tables. The quick test takes some kinds of files with one damage each; the slow one takes all files with all damages.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from support.lost_files import DAMAGES, Outcome, Rich, judge, make_rich

TABLES = ["copy_on_write", "merge_on_read"]


@cache
def rich(table_type: str, pending: bool, metadata: bool) -> Rich:
    return make_rich(table_type, pending=pending, metadata=metadata)


def kind_of(path: str) -> str:
    """The name without times, numbers and random parts."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "U", path)
    return re.sub(r"\d+", "N", re.sub(r"\d{14,}", "T", text))


def breaches(outcomes: list[Outcome]) -> list[str]:
    """The damages that show other rows, or are written over, although no check names them."""
    return [str(one) for one in outcomes if one.is_silent]


@pytest.mark.parametrize("table_type", TABLES)
def test_a_file_is_lost_or_damaged_and_no_row_is_wrong_in_silence(table_type: str) -> None:
    table = rich(table_type, False, True)
    kinds = {kind_of(path): path for path in table.paths if "/metadata/" not in path}  # the newest of each kind
    chosen = list(kinds.values())[TABLES.index(table_type) :: 6]
    found = [one for number, path in enumerate(chosen) if (one := judge(table, path, DAMAGES[number % 2])) is not None]
    assert len(found) > len(chosen) / 2
    assert not breaches(found)


@pytest.mark.slow
@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("table_type", TABLES)
def test_every_file_is_lost_or_damaged_and_no_row_is_wrong_in_silence(
    table_type: str, pending: bool, metadata: bool
) -> None:
    table = rich(table_type, pending, metadata)
    outcomes = [judge(table, path, damage) for path in table.paths for damage in DAMAGES]
    found = [one for one in outcomes if one is not None]
    assert len(found) > len(table.paths)
    assert not breaches(found)
