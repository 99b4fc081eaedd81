"""What every lock provider must do, as tests to inherit from.

Subclass `LockKit` in a test module under a name that starts with ``Test`` and give it a fixture ``providers`` that
returns a function; each call of it makes one more provider for the same table, as another handle would have.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from pyhudi_core.errors import LockTimeoutError
from pyhudi_core.lock.base import LockProvider

Providers = Callable[[], LockProvider]


class LockKit:
    """The conformance suite; see the module's text."""

    def test_a_free_lock_is_taken_at_once(self, providers: Providers) -> None:
        session = providers().acquire(0)
        assert session.still_held()
        session.release()
        assert not session.still_held()

    def test_handles_of_one_table_have_one_identity(self, providers: Providers) -> None:
        assert providers().identity == providers().identity

    def test_a_held_lock_keeps_others_out(self, providers: Providers) -> None:
        session = providers().acquire(1)
        with pytest.raises(LockTimeoutError):
            providers().acquire(0)
        with pytest.raises(LockTimeoutError):
            providers().acquire(0.05)
        assert session.still_held()
        session.release()
        providers().acquire(0).release()

    def test_a_lock_is_not_reentrant(self, providers: Providers) -> None:
        provider = providers()
        session = provider.acquire(1)
        with pytest.raises(LockTimeoutError):
            provider.acquire(0)
        session.release()

    def test_a_time_out_names_the_holder(self, providers: Providers) -> None:
        session = providers().acquire(1, note="upsert 20260101000000000")
        with pytest.raises(LockTimeoutError, match="upsert 20260101000000000"):
            providers().acquire(0)
        session.release()

    def test_two_holdings_never_share_a_token(self, providers: Providers) -> None:
        tokens = set()
        for _ in range(20):
            session = providers().acquire(1)
            tokens.add(session.token)
            session.release()
        assert len(tokens) == 20

    def test_release_may_be_called_twice(self, providers: Providers) -> None:
        session = providers().acquire(1)
        session.release()
        session.release()
        providers().acquire(0).release()

    def test_a_late_release_spares_the_next_holder(self, providers: Providers) -> None:
        first = providers().acquire(1)
        first.release()
        second = providers().acquire(0)
        first.release()
        assert not first.still_held()
        assert second.still_held()
        with pytest.raises(LockTimeoutError):
            providers().acquire(0)
        second.release()

    def test_a_waiting_handle_gets_the_lock_when_it_is_given_back(self, providers: Providers) -> None:
        first = providers().acquire(1)
        got: list[bool] = []

        def wait() -> None:
            session = providers().acquire(20)
            got.append(session.still_held())
            session.release()

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.05)
        assert got == []
        first.release()
        waiting.join(20)
        assert got == [True]

    def test_only_one_thread_is_inside_at_a_time(self, providers: Providers) -> None:
        inside = 0
        most = 0
        count = 0

        def work() -> None:
            nonlocal inside, most, count
            provider = providers()
            for _ in range(10):
                session = provider.acquire(30)
                inside += 1
                most = max(most, inside)
                seen = count
                time.sleep(0.0005)
                count = seen + 1
                inside -= 1
                session.release()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert (most, count) == (1, 40)
