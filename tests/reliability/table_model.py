"""The model of `table_machine`: the possible contents of a table after operations whose outcome may be unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product

from reliability import real_table

import pyhudi_core as hudi

Rows = dict[int, tuple[str, float]]
State = frozenset[tuple[int, tuple[str, float]]]
"""Rows by their key, and partition and price."""

Branch = tuple[State, tuple["Operation", ...]]
"""A state that the table may be in, and what may still be published on top of it: decided by processes that vanished."""


@dataclass(frozen=True)
class Operation:
    """A verb and its rows; a key is always in the same partition."""

    verb: str
    rows: tuple[tuple[int, float], ...]

    def on(self, state: State) -> State | None:
        """The state after the operation; None if it must be refused in this state."""
        rows: Rows = dict(state)
        given: Rows = {key: (day_of(key), price) for key, price in self.rows}
        if self.verb == "insert" and rows.keys() & given.keys():
            return None
        if self.verb in ("upsert", "insert"):
            rows |= given
        elif self.verb == "delete":
            rows = {key: row for key, row in rows.items() if key not in given}
        elif self.verb != "archive":
            days = {day for day, _ in given.values()}
            rows = {key: row for key, row in rows.items() if row[0] not in days}
            rows |= given if self.verb == "insert_overwrite" else {}
        return frozenset(rows.items())

    def run(self, table: hudi.HudiTable) -> object:
        """Execute the operation; returns the reported outcome."""
        data = real_table.orders(*((key, day_of(key), price) for key, price in self.rows))
        if self.verb == "archive":
            return table.archival.run()
        if self.verb == "delete":
            return table.delete(data.select(["id", "day"]))
        if self.verb == "delete_partitions":
            return table.delete_partitions(sorted({f"day={day_of(key)}" for key, _ in self.rows}))
        return getattr(table, self.verb)(data)


def day_of(key: int) -> str:
    """The partition of a key."""
    return "abc"[key % 3]


def outcomes(branch: Branch, sure: Sequence[Operation], perhaps: Sequence[Operation]) -> Iterator[Branch]:
    """The possible results of operations in any order: all that succeeded, and any of those with unknown outcome."""
    state, decided = branch
    others = (*decided, *perhaps)
    for chosen in product((True, False), repeat=len(others)):
        taken = [operation for operation, is_taken in zip(others, chosen, strict=True) if is_taken]
        left = tuple(operation for operation, is_taken in zip(others, chosen, strict=True) if not is_taken)
        for order in permutations([*sure, *taken]):
            reached: State | None = state
            for operation in order:
                reached = None if reached is None else operation.on(reached)
            if reached is not None:
                yield reached, left
