"""The conformance suite is worth something: each of these locks has one flaw, and a test of the suite finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyhudi_core.lock.base import LockProvider, LockSession
from pyhudi_core.lock.storage_based import StorageBasedLockProvider, _Acquisition
from pyhudi_core.lock.storage_lock_file import LOCK_FILE
from pyhudi_core.lock.storage_session import StorageBasedLockSession
from pyhudi_core.testing import SimWorld
from pyhudi_core.testing.lock_kit import SharedLockKit


class _Kit(SharedLockKit):
    lease_s = 301.0

    def __init__(self, provider: Callable[[SimWorld], LockProvider]) -> None:
        self._provider = provider

    def provider(self, world: SimWorld) -> LockProvider:
        return self._provider(world)


def sound(world: SimWorld) -> LockProvider:
    return StorageBasedLockProvider(world.storage, world.runtime, retry_wait_ms=(5_000, 50_000))


class LetsEverybodyIn:
    """Writes the lock without a condition."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self.identity = "open"

    def acquire(self, timeout_s: float, note: str = "") -> LockSession:
        self._world.storage.put(LOCK_FILE, b'{"expired": true, "validUntil": 0, "owner": "x"}')
        return sound(self._world).acquire(timeout_s, note)


def believes_the_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Acquisition, "_adopt", lambda *_: None)
    monkeypatch.setattr(_Acquisition, "give_up", lambda *_: None)


def never_notices_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StorageBasedLockSession, "still_held", lambda _: True)


def releases_whatever_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def release(self: Any) -> None:
        self._renewal.cancel()
        self._runtime.clock.now_ms()
        self._lock._storage.put(LOCK_FILE, self._lock.content(self._grant.owner, expired_at_ms=0).to_bytes())

    monkeypatch.setattr(StorageBasedLockSession, "release", release)


def forgets_to_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StorageBasedLockSession, "release", lambda self: self._renewal.cancel())


def test_the_sound_lock_passes_what_the_flawed_ones_fail() -> None:
    kit = _Kit(sound)
    kit.test_two_actors_never_hold_the_lock_together()
    kit.test_a_release_after_a_takeover_spares_the_new_holder()


def test_a_lock_that_lets_everybody_in_is_found() -> None:
    with pytest.raises(AssertionError, match="two actors held the lock"):
        _Kit(LetsEverybodyIn).test_two_actors_never_hold_the_lock_together()


@pytest.mark.row("U2")
@pytest.mark.parametrize(
    ("flaw", "test", "says"),
    [
        (believes_the_first_answer, "test_an_unclear_answer_keeps_the_exclusion_and_leaves_no_lock_behind", "of its own lock"),
        (never_notices_its_end, "test_a_holder_that_paused_past_its_lease_detects_it_and_spares_the_next_holder", "did not detect"),
        (never_notices_its_end, "test_a_clock_that_is_hours_ahead_does_not_mislead_the_holder", "still holds"),
        (releases_whatever_is_there, "test_a_release_after_a_takeover_spares_the_new_holder", None),
        (forgets_to_release, "test_two_actors_never_hold_the_lock_together", "LockTimeout"),
    ],
)  # fmt: skip
def test_a_flawed_lock_is_found(
    flaw: Callable[[pytest.MonkeyPatch], None], test: str, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaw(monkeypatch)
    arguments = ("lost_ack",) if "unclear" in test else ()
    with pytest.raises(AssertionError, match=says):
        getattr(_Kit(sound), test)(*arguments)
