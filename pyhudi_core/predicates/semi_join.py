"""A condition: the value of a column is one of the given keys of a join. There may be millions of keys.

The condition replaces a `Predicate` in a read, and can have a `Predicate` as a second condition. Statistics are compared with the sorted keys by
bisection, so the cost per file hardly grows with the number of keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import PredicateError
from pyhudi_core.model.key_text import without_dictionary
from pyhudi_core.predicates.coercion import common_type, is_string
from pyhudi_core.predicates.predicate import Predicate
from pyhudi_core.predicates.pruning import ColumnStats
from pyhudi_core.predicates.tree import FunctionCall


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """Selects rows whose ``column`` is one of ``values`` (without nulls, ascending), and for which ``also`` is true."""

    column: str
    values: pa.Array
    schema: pa.Schema
    also: Predicate | None = None

    @classmethod
    def of(cls, keys: Any, on: str, schema: pa.Schema, also: Predicate | None) -> SemiJoin:
        """Create one from join keys: an Arrow array, or anything that `pyarrow.array` accepts.

        Raises `PredicateError` if the column does not exist, or the keys do not have its type.
        """
        if on not in schema.names:
            raise PredicateError(
                f"The table has no column {on!r} to join on", hint=f"It has: {', '.join(schema.names)}."
            )
        kind = schema.field(on).type
        try:
            values = _both_zeros(pc.unique(_as_type(_array(keys, kind), kind).drop_null()))
            ordered = values.take(pc.sort_indices(values))
        except (pa.ArrowException, TypeError, ValueError, OverflowError, PredicateError) as error:
            raise PredicateError(
                f"The join keys are not of the type of {on!r}, {kind}", hint="Cast them first."
            ) from error
        return cls(on, ordered, schema, also)

    @property
    def expression(self) -> pc.Expression:
        """The Arrow expression that keeps the matching rows."""
        own = pc.field(self.column).isin(self.values)
        return own if self.also is None else own & self.also.expression

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that the condition reads; None if unknown."""
        if self.also is None:
            return frozenset({self.column})
        return None if self.also.columns is None else self.also.columns | {self.column}

    @property
    def text(self) -> str | None:
        """The text of the second condition, as in `Predicate`."""
        return None if self.also is None else self.also.text

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        """The function calls of the second condition."""
        return () if self.also is None else self.also.calls

    def could_match(self, stats: Mapping[str, ColumnStats]) -> bool:
        """Return False only if no row with these statistics can match."""
        if self.also is not None and not self.also.could_match(stats):
            return False
        known = stats.get(self.column)
        return known is None or self._has_one_in(known)

    def to_spark(self) -> str | None:
        """Return None, because keys are not written as SQL text."""
        return None

    def _has_one_in(self, known: ColumnStats) -> bool:
        if known.all_null or not len(self.values):
            return False
        if known.min is None or pa.types.is_floating(self.values.type):
            return True
        try:
            place = bisect_left(_Values(self.values), known.min)
            if place == len(self.values):
                return False
            cut_off = known.truncated and isinstance(known.max, str | bytes)
            return known.max is None or cut_off or bool(self.values[place].as_py() <= known.max)
        except (TypeError, ValueError, OverflowError):
            # The column has another type in the file, or a key has no Python value.
            return True


def _array(keys: Any, kind: pa.DataType) -> pa.Array:
    """Convert keys to an Arrow array. Untyped values get the column's type, unless a value would change."""
    if isinstance(keys, pa.ChunkedArray):
        return keys.combine_chunks()
    if isinstance(keys, pa.Array):
        return keys
    cuts = pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return pa.array(keys) if cuts else pa.array(keys, kind)


def _as_type(keys: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast keys to the column's type, if each key stays equal. Raises `PredicateError` and Arrow's errors."""
    keys = without_dictionary(keys)
    source, test = keys.type, pa.types
    if source == kind or test.is_null(source):
        return keys.cast(kind)
    if test.is_timestamp(source) and test.is_timestamp(kind):
        if source.tz is not None and kind.tz is None:
            raise PredicateError("a timestamp with a zone is not a local time", hint="Cast it.")
    elif test.is_timestamp(source) and test.is_date(kind):
        raise PredicateError("a timestamp is not a date", hint="Cast it.")
    elif not (is_string(source) and test.is_date(kind)):
        common_type(source, kind)
    if test.is_floating(source) and not test.is_floating(kind) and not test.is_integer(kind):
        raise PredicateError("a floating-point number is not an exact decimal", hint="Cast it.")
    if test.is_floating(source) and test.is_float32(kind):
        narrow = keys.cast(kind, safe=False)
        return narrow.filter(pc.or_(pc.equal(narrow.cast(source), keys), pc.is_nan(keys)))
    return keys.cast(kind)


def _both_zeros(values: pa.Array) -> pa.Array:
    """Add -0.0 to 0.0: the two zeros are equal, but Arrow's search in a set distinguishes them."""
    if not pa.types.is_floating(values.type) or not pc.any(pc.equal(values, pa.scalar(0.0, values.type))).as_py():
        return values
    return pc.unique(pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)]))


@dataclass(frozen=True, slots=True)
class _Values:
    """An Arrow array as a sequence of Python values, for bisection."""

    array: pa.Array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: int) -> Any:
        return self.array[place].as_py()
