"""Run independent storage calls concurrently.

On a network storage, concurrent calls take the time of one call (`Capabilities.parallel_calls`). On any other storage they are made one after the
other, in the given order, and without a thread. The caller passes the executor: the simulator's is serial, so every call is still a separate step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from pyhudi_core.errors import HudiError
from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.base import Storage

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
R = TypeVar("R")


def each(storage: Storage, executor: Executor, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the result of the call for each item. Raises the first error, in the order of the items, after all calls have ended."""
    width = storage.capabilities.parallel_calls
    return [call(item) for item in items] if width <= 1 else executor.at_least(width).map(call, items)


def both(storage: Storage, executor: Executor, first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """Return the results of two calls. Raises as `each`."""
    one: list[A] = []
    other: list[B] = []
    steps: tuple[Callable[[], None], ...] = (lambda: one.append(first()), lambda: other.append(second()))
    each(storage, executor, _call, steps)
    return one[0], other[0]


def all_of(storage: Storage, executor: Executor, *steps: Callable[[], object]) -> None:
    """Run these steps. Raises as `each`."""
    each(storage, executor, _call, steps)


@dataclass(frozen=True, slots=True)
class Ahead(Generic[A]):
    """A value that is requested before it is needed. Its error is raised only when the value is needed."""

    value: A | None
    error: HudiError | None = None

    @classmethod
    def of(cls, make: Callable[[], A]) -> Ahead[A]:
        """Request the value now."""
        try:
            return cls(make())
        except HudiError as error:
            return cls(None, error)

    def get(self) -> A:
        """Return the value. Raises its error."""
        if self.error is not None:
            raise self.error
        return cast("A", self.value)


def _call(step: Callable[[], object]) -> None:
    step()
