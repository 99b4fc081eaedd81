"""Settings of an object that several threads use: changed while a thread needs it, and restored afterwards."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class SettingsStore(Protocol):
    """Settings by key, such as those of a Spark session."""

    def get(self, key: str, /) -> Any: ...

    def set(self, key: str, value: str, /) -> None: ...


@dataclass(slots=True)
class _Held:
    """The value of a setting before its first user, and the number of its users."""

    before: str
    users: int = 0


class HeldSettings:
    """Counts the users of each setting. The first user records the old value, and the last user restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[Hashable, str], _Held] = {}

    @contextmanager
    def under(self, owner: Hashable, settings: SettingsStore, values: Mapping[str, str]) -> Iterator[None]:
        """Apply these values inside the block. ``owner`` is the object with the settings; equal owners have the same settings.

        If users request different values of one key, the latest value applies to all of them. Changes by other code meanwhile are lost.
        """
        with ExitStack() as entered:
            for key, value in values.items():
                self._enter(owner, settings, key, value)
                entered.callback(self._leave, owner, settings, key)
            yield

    def _enter(self, owner: Hashable, settings: SettingsStore, key: str, value: str) -> None:
        with self._lock:
            held = self._held.get((owner, key)) or _Held(str(settings.get(key)))
            settings.set(key, value)
            held.users += 1
            self._held[owner, key] = held

    def _leave(self, owner: Hashable, settings: SettingsStore, key: str) -> None:
        with self._lock:
            held = self._held[owner, key]
            held.users -= 1
            if not held.users:
                del self._held[owner, key]
                settings.set(key, held.before)
