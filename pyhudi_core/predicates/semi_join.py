"""A condition that a column's value is among given ones: the keys of a join, which may be very many.

It is used where a `Predicate` is; beside one, both must hold. Statistics are compared with the sorted values by bisection, so the work for a
file does not grow with the number of keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import PredicateError
from pyhudi_core.predicates.predicate import Predicate
from pyhudi_core.predicates.pruning import ColumnStats
from pyhudi_core.predicates.tree import Call


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """Rows whose ``column`` is one of ``values`` (without nulls, ascending), and for which ``also`` holds."""

    column: str
    values: pa.Array
    schema: pa.Schema
    also: Predicate | None = None

    @classmethod
    def of(cls, keys: Any, on: str, schema: pa.Schema, also: Predicate | None) -> SemiJoin:
        """Make one of join keys: an Arrow array, or whatever `pyarrow.array` takes.

        Raises `PredicateError` if the table has no such column, or the keys are not of its type.
        """
        if on not in schema.names:
            raise PredicateError(
                f"The table has no column {on!r} to join on", hint=f"It has: {', '.join(schema.names)}."
            )
        kind = schema.field(on).type
        try:
            given = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
            array = given.cast(kind) if isinstance(given, pa.Array) else pa.array(given, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise PredicateError(
                f"The join keys are not of the type of {on!r}, {kind}", hint="Cast them first."
            ) from error
        values = pc.unique(array.drop_null())
        return cls(on, values.take(pc.sort_indices(values)), schema, also)

    @property
    def expression(self) -> pc.Expression:
        """Keeps the rows for which the condition is true."""
        own = pc.field(self.column).isin(self.values)
        return own if self.also is None else own & self.also.expression

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that it reads; None if that cannot be told."""
        if self.also is None:
            return frozenset({self.column})
        return None if self.also.columns is None else self.also.columns | {self.column}

    @property
    def calls(self) -> tuple[Call, ...]:
        """The functions that the condition beside it calls."""
        return () if self.also is None else self.also.calls

    def could_match(self, stats: Mapping[str, ColumnStats]) -> bool:
        """Return False only if no row with these statistics can match."""
        if self.also is not None and not self.also.could_match(stats):
            return False
        known = stats.get(self.column)
        return known is None or self._has_one_in(known)

    def to_spark(self) -> str | None:
        """None: the keys do not become text."""
        return None

    def _has_one_in(self, known: ColumnStats) -> bool:
        if known.all_null or not len(self.values):
            return False
        if known.min is None or pa.types.is_floating(self.values.type):
            return True
        place = bisect_left(_Values(self.values), known.min)
        if place == len(self.values):
            return False
        cut_off = known.truncated and isinstance(known.max, str | bytes)
        return known.max is None or cut_off or bool(self.values[place].as_py() <= known.max)


@dataclass(frozen=True, slots=True)
class _Values:
    """An Arrow array as a sequence of Python values, for bisection."""

    array: pa.Array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: int) -> Any:
        return self.array[place].as_py()
