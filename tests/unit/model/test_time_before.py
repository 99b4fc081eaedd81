"""The time just before an instant sorts before it, whatever number of digits it has."""

from __future__ import annotations

import pytest

from pyhudi_core.model.instant import time_before


@pytest.mark.parametrize(
    ("time", "before"),
    [
        ("20260101000000000", "20251231235959999"),
        ("20260101000000001", "20260101000000000"),
        ("20260101000000", "20251231235959999"),  # seconds, as releases before 0.10 made them
    ],
)
def test_the_time_before_an_instant_sorts_before_it(time: str, before: str) -> None:
    assert time_before(time) == before
    assert before < time
