"""Cases of which the quick suite runs a part, and `make evidence` all.

`one_in` thins the values of one parameter. The marker `@pytest.mark.one_in(step, first=0)` thins all cases of a test, in the order in which pytest
lists them. With several parameters, choose a ``step`` that has no factor in common with the number of values of the one that changes from case to
case (its decorator is the first): then each value of each parameter stays in the quick suite.

`examples` does the same for random cases: the quick suite runs a part of the number, the part `fresh-cases` of `make evidence` all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest


def one_in(step: int, cases: Iterable[Any], first: int = 0) -> list[Any]:
    """All cases, as parameters of a test: each ``step``-th from number ``first`` on is quick, the others are marked `slow`."""
    return [
        case if number % step == first else pytest.param(case, marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]


def examples(number: int) -> int:
    """The number of random cases for Hypothesis: a quarter, or all if PYHUDI_CASES is ``all``."""
    return number if os.environ.get("PYHUDI_CASES") == "all" else max(1, number // 4)


def is_left_to_the_night(item: pytest.Item) -> bool:
    """Whether the marker `one_in` leaves this case of a test to `make evidence`. Raises `pytest.UsageError` for a test that has one case only."""
    marker = item.get_closest_marker("one_in")
    if marker is None:
        return False
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        raise pytest.UsageError(f"{item.nodeid} has no parameters, so it cannot be one in many cases")
    # Pytest numbers the cases through for all parameters that are given to the test itself, and the values of each fixture separately.
    place = max(callspec.indices.values())
    return bool(place % marker.args[0] != marker.kwargs.get("first", 0))
