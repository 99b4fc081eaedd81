"""Cases of which the quick suite runs a part, and `make nightly` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(step: int, cases: Iterable[Any], first: int = 0) -> list[Any]:
    """All cases, as parameters of a test: each ``step``-th from number ``first`` on is quick, the others are marked `slow`."""
    return [
        case if number % step == first else pytest.param(case, marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]
