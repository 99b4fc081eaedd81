"""Conditions for the rows of some partitions. Each column is compared in its own type, so that files can be skipped.

Arrow evaluates nested conditions recursively, and thousands of nested conditions crash the process. Therefore the conditions are lists of values in a
few groups, and their depth does not grow with the number of partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi_core.lazy import lazy
from pyhudi_core.orchestration.partition_values import Value

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy("pyarrow.compute")

_NULL = "__HIVE_DEFAULT_PARTITION__"
_MOST_GROUPS = 32


@dataclass(frozen=True, slots=True)
class PartitionCondition:
    """The scan arguments for some partitions: ``semi_join`` for their first column, and an expression for the other columns."""

    semi_join: tuple[pa.Array, str] | None
    expression: pc.Expression | None


def condition_of(columns: Sequence[str], values: Collection[Value], schema: pa.Schema) -> PartitionCondition:
    """Return the condition for the rows with one of these values, in a table with this schema. A value has one text for each column."""
    typed = [_Column.of(name, {value[index] for value in values}, schema) for index, name in enumerate(columns)]
    leading, *others = typed
    parts = [each.is_one_of(each.texts) for each in (typed if leading.nulls else others)]
    groups = _groups(values) if len(others) == 1 else []
    if 1 < len(groups) <= _MOST_GROUPS:
        each = [leading.is_one_of(heads) & others[0].is_one_of(rests) for heads, rests in groups]
        parts.append(reduce(or_, each))
    elif others and not _is_product(typed, values):
        parts.append(_joined_text(typed, values))
    semi_join = None if leading.nulls else (leading.array(leading.texts), leading.name)
    return PartitionCondition(semi_join, reduce(and_, parts) if parts else None)


def _groups(values: Collection[Value]) -> list[tuple[list[str], frozenset[str]]]:
    """Group the texts of the first column by their sets of texts in the second column."""
    rests: dict[str, set[str]] = {}
    for head, rest in values:
        rests.setdefault(head, set()).add(rest)
    heads: dict[frozenset[str], list[str]] = {}
    for head, own in rests.items():
        heads.setdefault(frozenset(own), []).append(head)
    return [(each, rest) for rest, each in heads.items()]


def _is_product(columns: Sequence[_Column], values: Collection[Value]) -> bool:
    count = 1
    for column in columns:
        count *= len(column.texts)
    return count == len(set(values))


def _joined_text(columns: Sequence[_Column], values: Collection[Value]) -> pc.Expression:
    """Return a condition on the columns joined to one text. It cannot skip files, so it is combined with a condition on each column."""
    used = {character for column in columns for text in column.texts for character in text}
    between = next(character for character in map(chr, range(1, 0x10000)) if character not in used)
    texts = [pc.coalesce(pc.field(column.name).cast(pa.string()), pc.scalar(_NULL)) for column in columns]
    # An empty text is stored in the folder of nulls.
    folders = [pc.if_else(pc.equal(text, pc.scalar("")), pc.scalar(_NULL), text) for text in texts]
    return pc.binary_join_element_wise(*folders, pc.scalar(between)).isin(
        pa.array([between.join(value) for value in values], pa.string())
    )


@dataclass(frozen=True, slots=True)
class _Column:
    """A partition column: the wanted texts and their values; texts that the column cannot have are omitted."""

    name: str
    kind: pa.DataType
    texts: tuple[str, ...]
    values: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, texts: Collection[str], schema: pa.Schema) -> _Column:
        place = schema.get_field_index(name)
        kind = schema.field(place).type if place >= 0 else pa.string()
        ordered = tuple(sorted(texts))
        return cls(name, kind, ordered, _values([text for text in ordered if text != _NULL], kind))

    @property
    def nulls(self) -> bool:
        """Whether the folder of nulls is among the wanted folders."""
        return _NULL in self.texts

    def array(self, texts: Collection[str]) -> pa.Array:
        found = [self.values[text] for text in texts if text in self.values]
        return pa.array(found, self.kind)

    def is_one_of(self, texts: Collection[str]) -> pc.Expression:
        field = pc.field(self.name)
        array = self.array(texts)
        if _NULL not in texts:
            return field.isin(array)
        if pa.types.is_string(self.kind) or pa.types.is_large_string(self.kind):
            # The folder of nulls also contains the rows with an empty text, or with the name of this folder.
            array = pa.concat_arrays([array, pa.array(["", _NULL], self.kind)])
        return field.is_null() | field.isin(array)


def _values(texts: Sequence[str], kind: pa.DataType) -> dict[str, Any]:
    """Return the values of folder texts in a column's type, if each value has exactly this text: ``7`` is the text of 7, ``07`` is not."""
    try:
        given = pa.array(texts, pa.string())
        typed = pc.cast(given, kind)
        same = pc.equal(pc.cast(typed, pa.string()), given)
    except pa.ArrowException:
        if len(texts) < 2:
            return {}
        half = len(texts) // 2
        return {**_values(texts[:half], kind), **_values(texts[half:], kind)}
    pairs = zip(texts, typed.to_pylist(), same.to_pylist(), strict=True)
    return {text: value for text, value, is_same in pairs if is_same}
