"""The contract of a record merger: the laws that it must obey, checked with generated versions of rows.

Specification, "Ordering field(s)": merging must be commutative, associative and idempotent, because writers, compactions and readers merge the
versions of a row in any grouping. A merger must also be a function of the pair alone: other rows must not change the result.

`RowGenerator` makes three versions of each of many rows. Its values come from small pools, so versions often agree and values are often missing;
ordering values come from smaller pools, so ties are common. Its numbers come from the generator SplitMix64 (Steele, Lea, Flood: Fast Splittable
Pseudorandom Number Generators), so a seed gives the same rows on every machine. The error for a broken law shows the smallest rows that break it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pyhudi_core.errors import ConfigError, HudiError, MergerContractError
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.printing import printable
from pyhudi_core.naming import set_module

_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_DAY = dt.date(2024, 2, 28)
_NULLS_IN_TEN = 3

SHAPE, KEYS, DETERMINISTIC, ROW_BY_ROW = "shape", "keys", "deterministic", "row_by_row"
IDEMPOTENT, ASSOCIATIVE, COMMUTATIVE = "idempotent", "associative", "commutative"
LAWS = MappingProxyType(
    {
        SHAPE: "one row for each pair, in the same columns and types",
        KEYS: "record keys stay as they are",
        DETERMINISTIC: "the same pair gives the same row again",
        ROW_BY_ROW: "a pair gives the same row alone and among others",
        IDEMPOTENT: "a version merged with itself is that version",
        ASSOCIATIVE: "(a, b), c gives the same row as a, (b, c)",
        COMMUTATIVE: "versions that differ in the ordering columns give the same row in either order",
    }
)


@set_module("pyhudi")
class RecordMerger(Protocol):
    """Makes one row out of two versions of a row.

    A merger has no state. It is sent to the executors of Spark, so it must be picklable.
    """

    def merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        """Return one row for each pair of rows, in their order.

        ``older`` and ``newer`` have the table's columns without Hudi's meta columns, and the same number of rows. Row n of both has the same record
        key, and ``newer`` was written later. The result has the same columns, types and keys.
        """
        ...


@dataclass(frozen=True, slots=True)
@printable
class Evidence:
    """The result of the check: the number of triples, the laws that held, and the waived laws."""

    triples: int
    seed: int
    laws: tuple[str, ...]
    waived: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Difference:
    """Rows that break a law: the inputs by name, and the two results that should be equal."""

    inputs: dict[str, pa.Table]
    results: dict[str, pa.Table]


def check_laws(
    name: str,
    merger: RecordMerger,
    schema: pa.Schema,
    record_key: tuple[str, ...],
    ordering: tuple[str, ...],
    waive: frozenset[str],
    triples: int,
    seed: int,
) -> Evidence:
    """Check all laws except the waived ones. Raises `MergerContractError` with a counterexample."""
    versions = RowGenerator(seed).versions(schema, record_key, ordering, 3, triples)
    checks = _Checks(name, merger, record_key, ordering, *versions)
    asked = [law for law in LAWS if law not in waive]
    for law in asked:
        checks.check(law)
    return Evidence(triples, seed, tuple(asked), tuple(law for law in LAWS if law in waive))


@dataclass(frozen=True, slots=True)
class _Checks:
    name: str
    merger: RecordMerger
    record_key: tuple[str, ...]
    ordering: tuple[str, ...]
    a: pa.Table
    b: pa.Table
    c: pa.Table

    def check(self, law: str) -> None:
        """Raise if generated rows break the law."""
        found: dict[str, Callable[[], Iterator[_Difference]]] = {
            SHAPE: self._shape,
            KEYS: self._keys,
            DETERMINISTIC: self._deterministic,
            ROW_BY_ROW: self._row_by_row,
            IDEMPOTENT: self._idempotent,
            ASSOCIATIVE: self._associative,
            COMMUTATIVE: self._commutative,
        }
        for difference in found[law]():
            worst = _smallest(difference)
            if worst is not None:
                self._fail(law, worst)

    def _merge(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        try:
            return self.merger.merge(older, newer)
        except HudiError:
            raise
        except Exception as error:
            raise MergerContractError(
                f"The merger {self.name} failed on generated rows: {type(error).__name__}: {error!s:.300}",
                hint="Mend the merger; it has to take any two versions of a row.",
            ) from error

    def _shape(self) -> Iterator[_Difference]:
        for older, newer in ((self.a, self.b), (self.a.slice(0, 0), self.b.slice(0, 0))):
            made = self._merge(older, newer)
            if (
                not isinstance(made, pa.Table)
                or made.num_rows != newer.num_rows
                or not _alike(made.schema, newer.schema)
            ):
                got = (
                    f"{made.num_rows} rows of {_listed(made.schema)}"
                    if isinstance(made, pa.Table)
                    else repr(type(made).__name__)
                )
                self._fail(SHAPE, f"{newer.num_rows} pairs of {_listed(newer.schema)} gave {got}")
        yield from ()

    def _keys(self) -> Iterator[_Difference]:
        keys = list(self.record_key)
        made = self._merge(self.a, self.b).select(keys)
        yield _Difference({"a": self.a, "b": self.b}, {"keys of a, b": self.b.select(keys), "keys of the result": made})

    def _deterministic(self) -> Iterator[_Difference]:
        yield _Difference(
            {"a": self.a, "b": self.b},
            {"first result": self._merge(self.a, self.b), "second result": self._merge(self.a, self.b)},
        )

    def _row_by_row(self) -> Iterator[_Difference]:
        whole = self._merge(self.a, self.b)
        order = pa.array(np.arange(len(self.a))[::-1])
        turned = self._merge(self.a.take(order), self.b.take(order)).take(order)
        yield _Difference({"a": self.a, "b": self.b}, {"with other rows": whole, "in another order": turned})
        some = min(20, len(self.a))
        alone = [self._merge(self.a.slice(row, 1), self.b.slice(row, 1)) for row in range(some)]
        if alone:
            inputs = {"a": self.a.slice(0, some), "b": self.b.slice(0, some)}
            yield _Difference(inputs, {"with other rows": whole.slice(0, some), "alone": pa.concat_tables(alone)})

    def _idempotent(self) -> Iterator[_Difference]:
        yield _Difference({"a": self.a}, {"a": self.a, "a, a": self._merge(self.a, self.a)})

    def _associative(self) -> Iterator[_Difference]:
        first = self._merge(self._merge(self.a, self.b), self.c)
        last = self._merge(self.a, self._merge(self.b, self.c))
        yield _Difference({"a": self.a, "b": self.b, "c": self.c}, {"(a, b), c": first, "a, (b, c)": last})

    def _commutative(self) -> Iterator[_Difference]:
        names = list(self.ordering)
        same = [
            _text(one) == _text(other) for one, other in zip(_rows(self.a, names), _rows(self.b, names), strict=True)
        ]
        differing = pa.array(np.flatnonzero(~np.array(same, bool)) if names else np.arange(len(self.a)))
        a, b = self.a.take(differing), self.b.take(differing)
        yield _Difference({"a": a, "b": b}, {"a, b": self._merge(a, b), "b, a": self._merge(b, a)})

    def _fail(self, law: str, what: str) -> None:
        raise MergerContractError(
            f"The merger {self.name} breaks the law {law!r} ({LAWS[law]}): {what}",
            hint=f"Correct the merger, or name the law in `waive` if the table can live with the consequences. {see('merging')}",
        )


def _smallest(difference: _Difference) -> str | None:
    """Return, as text, a row on which the results differ: the row with the fewest values."""
    names = list(difference.results)
    first, second = (_rows(difference.results[name]) for name in names)
    if len(first) != len(second):
        return f"{names[0]} are {len(first)} rows, {names[1]} {len(second)}"
    differing = [row for row, pair in enumerate(zip(first, second, strict=True)) if _text(pair[0]) != _text(pair[1])]
    if not differing:
        return None
    inputs = {name: _rows(rows) for name, rows in difference.inputs.items()}
    row = min(differing, key=partial(_size, inputs))
    shown = {name: rows[row] for name, rows in inputs.items()} | {names[0]: first[row], names[1]: second[row]}
    return "; ".join(f"{name} = {_text(value)}" for name, value in shown.items())


def _size(inputs: dict[str, list[dict[str, Any]]], row: int) -> int:
    return sum(len(_text(value)) for rows in inputs.values() for value in rows[row].values() if value is not None)


def _rows(table: pa.Table, names: list[str] | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (table if names is None else table.select(names)).to_pylist()
    return rows


def _text(value: object) -> str:
    """Return a text that is equal for equal values; here NaN equals NaN, and the two zeros differ."""
    return repr(value)


def _alike(made: pa.Schema, wanted: pa.Schema) -> bool:
    return bool(made.names == wanted.names and [item.type for item in made] == [item.type for item in wanted])


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{item.name} {item.type}" for item in schema)


@dataclass(slots=True)
class RowGenerator:
    """Generates rows of a schema."""

    seed: int

    def versions(
        self, schema: pa.Schema, record_key: Sequence[str], ordering: Sequence[str], count: int, rows: int
    ) -> list[pa.Table]:
        """Return ``count`` tables of ``rows`` rows: row n of each has the same key. Raises `ConfigError` for an unknown type."""
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
        """Return the value with this number in the pool of a type. Equal numbers give equal values, except in nested types."""
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
            f"No values of the type {kind} can be generated to check a merger",
            hint="Leave the column out of the schema that the merger is registered with.",
        )
