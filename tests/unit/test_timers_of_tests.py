"""What a test leaves running ends with the test."""

from __future__ import annotations

import threading

from support.tables import make, orders
from support.timers import cancelled_at_the_end


def test_the_heartbeat_of_a_write_that_was_left_open_ends_with_its_test(location: str) -> None:
    with cancelled_at_the_end():
        left = make(location).begin("upsert")
        left.write(orders((1, "a", 1.0)))
        beats = [thread for thread in threading.enumerate() if str(left.instant) in thread.name]
        assert beats
    assert not any(thread.is_alive() for thread in beats)
