"""Check many tables concurrently. A table that has not changed since the last check costs one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from pyhudi_core.read import looks
from pyhudi_core.runtime import system_runtime
from pyhudi_core.storage.opening import open_storage
from pyhudi_core.storage.paths import is_catalog_address

if TYPE_CHECKING:
    from pyhudi_core.table import HudiTable
    from pyhudi_core.timeline.active import Timeline

T = TypeVar("T")
R = TypeVar("R")

MOST_AT_ONCE = 64


def at_once(call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results of a call for all items; at most `MOST_AT_ONCE` calls run concurrently."""
    return system_runtime().executor.at_least(MOST_AT_ONCE).map(call, items)


def seen_now(table: HudiTable) -> tuple[Timeline, str]:
    """Return a table's timeline, and the look at it as text for `unchanged`."""
    timeline, seen = looks.look(table._opened.context())
    return timeline, seen.to_json()


def unchanged(location: str, storage_options: Mapping[str, str], seen: str) -> str | None:
    """Return the new look at an unchanged table; None if the table may have changed, or if the text is not a look.

    Raises `StorageError` and `ConfigError`.
    """
    known = looks.TableLook.of(seen)
    if known is None or is_catalog_address(location):  # the folder of a table in a catalog is known when it is opened
        return None
    now = looks.still(open_storage(location, storage_options), known, system_runtime().clock.now_ms())
    return None if now is None else now.to_json()
