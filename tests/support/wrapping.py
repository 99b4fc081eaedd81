"""A base class for storages that wrap another storage, so that no call bypasses the wrapper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyhudi_core.storage.base import delete_each


class WrappedStorage:
    """Base of storages that pass calls on by ``__getattr__``: a storage for short-lived objects is the wrapper too, and each of many deletions is a
    call of its own.
    """

    def without_fsync(self) -> Any:
        return self

    def opening_once(self) -> Any:
        return self

    def delete_many(self, paths: Iterable[str]) -> None:
        delete_each(self.delete, paths, "the wrapped table")  # type: ignore[attr-defined]
