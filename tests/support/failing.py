"""A storage whose calls fail when a test requests it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyhudi_core.errors import StorageError
from pyhudi_core.storage.base import Storage
from support.wrapping import WrappedStorage

Chooser = Callable[[str, str], bool]
WRITES = frozenset({"put", "put_if_absent", "put_if_match", "delete", "delete_if_match", "open_output"})


class FailingStorage(WrappedStorage):
    """Passes calls on to a storage; a call fails if `chooser(verb, path)` returns true.

    Args:
        storage: the real storage.
        chooser: asked before each call that changes something.
        after: the call is made, and its answer is lost.
        error: what the caller is told.
    """

    def __init__(
        self, storage: Storage, chooser: Chooser, *, after: bool = False, error: type[StorageError] = StorageError
    ) -> None:
        self._storage = storage
        self._chooser = chooser
        self._after = after
        self._error = error
        self.failures: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name not in WRITES:
            return real

        def call(path: str, *arguments: Any) -> Any:
            if not self._chooser(name, path):
                return real(path, *arguments)
            self.failures.append((name, path))
            if self._after:
                real(path, *arguments)
            raise self._error("The disk is full", path=path)

        return call


def nth_write(number: int) -> Chooser:
    """Selects the call with this number, counted from 1."""
    seen = 0

    def choose(verb: str, path: str) -> bool:
        nonlocal seen
        seen += 1
        return seen == number

    return choose
