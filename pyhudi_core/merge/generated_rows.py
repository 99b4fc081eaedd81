"""Versions of rows made up for the checks of mergers: the same for the same seed, on every machine.

Values come out of small pools, so that versions often agree and often miss a value; ordering values out of smaller ones, so that ties are common. The
numbers are those of the generator SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import ConfigError

_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_DAY = dt.date(2024, 2, 28)
_NULLS_IN_TEN = 3


@dataclass(slots=True)
class RowGenerator:
    """Makes up rows of a schema."""

    seed: int

    def versions(
        self, schema: pa.Schema, record_key: Sequence[str], ordering: Sequence[str], count: int, rows: int
    ) -> list[pa.Table]:
        """``count`` tables of ``rows`` rows: row n of each has the same key. Raises `ConfigError` for a type that is not known."""
        keys = {
            name: [self._value(schema.field(name), few=False, null=False) for _ in range(rows)] for name in record_key
        }
        found = []
        for _ in range(count):
            columns = []
            for item in schema:
                made = keys.get(item.name)
                if made is None:
                    few = item.name in ordering
                    made = [self._value(item, few=few, null=item.nullable) for _ in range(rows)]
                columns.append(pa.array(made, item.type))
            found.append(pa.table(columns, schema=schema))
        return found

    def _next(self, below: int) -> int:
        self.seed = (self.seed + _STEP) & _WORD
        word = self.seed
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
        return (word ^ (word >> 31)) % below

    def _value(self, item: pa.Field, *, few: bool, null: bool) -> Any:
        if null and self._next(10) < _NULLS_IN_TEN:
            return None
        return self._of(item.type, self._next(3 if few else 5))

    def _of(self, kind: pa.DataType, number: int) -> Any:
        """The value of this number in the pool of a type; equal numbers give equal plain values."""
        types = pa.types
        if types.is_boolean(kind):
            return bool(number % 2)
        if types.is_integer(kind):
            return number
        if types.is_floating(kind):
            return [0.0, 1.0, 2.5, -1.0, float("nan")][number]
        if types.is_decimal(kind):
            return Decimal(number).scaleb(-min(kind.scale, 1)) if kind.scale >= 0 else Decimal(0)
        if types.is_string(kind) or types.is_large_string(kind):
            return ["", "a", "b", "ä", "zz"][number]
        if types.is_fixed_size_binary(kind):
            return bytes([number]) * kind.byte_width
        if types.is_binary(kind) or types.is_large_binary(kind):
            return bytes([number] * number)
        if types.is_date(kind):
            return _DAY + dt.timedelta(days=number)
        if types.is_timestamp(kind):
            zone = dt.UTC if kind.tz else None
            return dt.datetime(2024, 2, 28, 23, 59, 57 - number, tzinfo=zone)
        if types.is_time(kind):
            return dt.time(23, 59, number)
        return self._nested(kind, number)

    def _nested(self, kind: pa.DataType, number: int) -> Any:
        types = pa.types
        if types.is_list(kind) or types.is_large_list(kind):
            return [self._value(kind.value_field, few=False, null=kind.value_field.nullable) for _ in range(number % 3)]
        if types.is_struct(kind):
            return {item.name: self._value(item, few=False, null=item.nullable) for item in kind}
        if types.is_map(kind):
            keys = [self._of(kind.key_type, place) for place in range(number % 3)]
            return [(key, self._value(kind.item_field, few=False, null=kind.item_field.nullable)) for key in keys]
        raise ConfigError(
            f"No values of the type {kind} can be made up to check a merger",
            hint="Leave the column out of the schema that the merger is registered with.",
        )
