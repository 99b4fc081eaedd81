"""A lock that cannot be given back: it is tried a few times, and what was decided under it stands."""

from __future__ import annotations

import pytest
from support.homes import context_of
from support.tables import make

from pyhudi_core.errors import LockError
from pyhudi_core.transaction.locking import give_back


class Stuck:
    """A held lock whose first releases fail."""

    token = "t"

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    def release(self) -> None:
        self.asked += 1
        if self.asked <= self.failures:
            raise LockError("the server does not answer")


@pytest.mark.parametrize(("failures", "asked", "warnings"), [(0, 1, 0), (2, 3, 0), (3, 3, 1), (9, 3, 1)])
def test_it_is_tried_three_times_and_then_told_once(
    location: str, caplog: pytest.LogCaptureFixture, failures: int, asked: int, warnings: int
) -> None:
    stuck = Stuck(failures)
    give_back(context_of(make(location)), stuck)  # type: ignore[arg-type]
    assert stuck.asked == asked
    assert caplog.text.count("could not give back the lock") == warnings
