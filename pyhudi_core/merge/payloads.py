"""Hudi's payload classes as mergers of Arrow tables. A table that names one of these classes merges as Hudi does.

The rules are those of release 1.0.2's file group reader, which calls `combineAndGetUpdateValue` of the newer version both between entries of the
logs and over the base row. The ordering columns have decided about deletes before, so neither version is a delete. A payload may turn the pair into a
delete (``gone``). Then Hudi keeps the older of two log entries, and drops a base row. Debezium's payloads do the same if the older version is a row
with a delete flag.

If releases differ, the rule of 1.0 applies: with equal sequence numbers of MySQL the older version stays (1.2 takes the newer version).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.errors import DataError, UnsupportedTableError, columns_named
from pyhudi_core.merge.law import Mask, MergedPairs, TableMerger, compare, mask, none_of, not_lower
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.meta_fields import META_FIELDS

_TOASTED = "__debezium_unavailable_value"
_DMS_OPERATION = "Op"
_OPERATION = "_change_operation_type"
_SEQUENCE = "_event_seq"
_LSN = "_event_lsn"


@dataclass(frozen=True, slots=True)
class _Payload(TableMerger):
    """The common part of the payload classes."""

    ordering: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewerPayload(_Payload):
    """The newer version replaces the older one."""

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return the newer versions."""
        return MergedPairs(newer, none_of(newer))


@dataclass(frozen=True, slots=True)
class EventTimePayload(_Payload):
    """The version with the higher ordering value wins; with equal values the newer version wins."""

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return one complete version of each pair."""
        wins = not_lower(newer.select(self.ordering), older.select(self.ordering))
        return MergedPairs(choose(older, newer, wins), none_of(newer))


@dataclass(frozen=True, slots=True)
class FirstValuePayload(_Payload):
    """The version with the higher ordering value wins; with equal values the older version wins."""

    combines: ClassVar[bool] = True

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return one complete version of each pair."""
        wins = ~not_lower(older.select(self.ordering), newer.select(self.ordering))
        for name in self.ordering[:1]:
            wins |= mask(pc.is_null(older.column(name)))
        return MergedPairs(choose(older, newer, wins), none_of(newer))


@dataclass(frozen=True, slots=True)
class NonDefaultsPayload(_Payload):
    """The newer version wins. Its missing values come from the older version."""

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return rows with values of both versions."""
        return MergedPairs(filled(newer, older), none_of(newer))


@dataclass(frozen=True, slots=True)
class PartialUpdatePayload(_Payload):
    """The version with the higher ordering value wins. Its missing values come from the other version; its meta columns come from the newer version.

    ``in_logs``: whether both versions are in logs. In logs, Hudi stores ordering values of some types in two Java classes, which it cannot compare.
    """

    in_logs: bool = True

    combines: ClassVar[bool] = True

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return rows with values of both versions."""
        late = self._late(older, newer)
        upper, lower = choose(newer, older, late), choose(older, newer, late)
        rows = filled(upper, lower)
        columns = [(newer if name in META_FIELDS else rows).column(name) for name in rows.column_names]
        return MergedPairs(pa.table(columns, schema=newer.schema), none_of(newer))

    def _late(self, older: pa.Table, newer: pa.Table) -> Mask:
        """Return which newer versions have a lower ordering value. Java compares only values of the same class, and uses 0 for a missing value."""
        if not self.ordering:
            return none_of(newer)
        new, old = newer.column(self.ordering[0]), older.column(self.ordering[0])
        if self.in_logs and not _same_class_in_spark(new.type):
            return none_of(newer)
        known = pc.is_valid(new)
        if pa.types.is_int32(new.type):
            new, known = pc.fill_null(new, pa.scalar(0, new.type)), pc.true_unless_null(new)
        _, higher = compare(old, new)
        return higher & mask(pc.is_valid(old)) & mask(pc.fill_null(known, True))


@dataclass(frozen=True, slots=True)
class DmsPayload(_Payload):
    """The newer version wins; a ``D`` in its column ``Op`` is a delete."""

    can_delete: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = (_DMS_OPERATION,)

    def deletes(self, rows: pa.Table) -> Mask:
        """Return which rows are deletes if there is no older version."""
        return _says(rows, _DMS_OPERATION, "d")

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return the newer versions."""
        return MergedPairs(newer, _says(newer, _DMS_OPERATION, "d"))


@dataclass(frozen=True, slots=True)
class MySqlPayload(_Payload):
    """The version with the higher ``_event_seq`` (file and position in the source's log) wins; with equal values the older version wins."""

    can_delete: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = (_SEQUENCE, _OPERATION)
    fails_without: ClassVar[bool] = True

    def deletes(self, rows: pa.Table) -> Mask:
        """Return which rows are deletes if there is no older version."""
        return _says(rows, _OPERATION, "d")

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return one complete version of each pair."""
        _refuse_absent(self.needs, newer)
        _require(newer.column(_SEQUENCE), _SEQUENCE)
        new, old = _sequences(newer), _sequences(older)
        known = mask(pc.is_valid(older.column(_SEQUENCE)))
        higher = (new[0] > old[0]) | ((new[0] == old[0]) & (new[1] > old[1]))
        wins = ~known | higher
        gone = (wins & _says(newer, _OPERATION, "d")) | _says(older, _OPERATION, "d")
        return MergedPairs(choose(older, newer, wins), gone)


@dataclass(frozen=True, slots=True)
class PostgresPayload(_Payload):
    """The version with the higher ``_event_lsn`` wins; with equal values the newer version wins. Values that the source omits do not change."""

    can_delete: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = (_LSN, _OPERATION)
    fails_without: ClassVar[bool] = True

    def deletes(self, rows: pa.Table) -> Mask:
        """Return which rows are deletes if there is no older version."""
        return _says(rows, _OPERATION, "d")

    def merge(self, older: pa.Table, newer: pa.Table) -> MergedPairs:
        """Return rows with values of both versions."""
        _refuse_absent(self.needs, newer)
        new, old = newer.column(_LSN), older.column(_LSN)
        _require(new, _LSN)
        lower, _ = compare(new, old)
        wins = ~lower | mask(pc.is_null(old))
        rows = choose(older, newer, wins)
        columns = [available(rows.column(name), older.column(name)) for name in rows.column_names]
        gone = (wins & _says(newer, _OPERATION, "d")) | _says(older, _OPERATION, "d")
        return MergedPairs(pa.table(columns, schema=newer.schema), gone)


_MODEL = "org.apache.hudi.common.model"
PAYLOADS: Mapping[str, Callable[[tuple[str, ...]], TableMerger]] = MappingProxyType(
    {
        f"{_MODEL}.OverwriteWithLatestAvroPayload": NewerPayload,
        f"{_MODEL}.HoodieAvroPayload": NewerPayload,
        f"{_MODEL}.DefaultHoodieRecordPayload": EventTimePayload,
        f"{_MODEL}.EventTimeAvroPayload": EventTimePayload,
        f"{_MODEL}.FirstValueAvroPayload": FirstValuePayload,
        f"{_MODEL}.OverwriteNonDefaultsWithLatestAvroPayload": NonDefaultsPayload,
        f"{_MODEL}.PartialUpdateAvroPayload": PartialUpdatePayload,
        f"{_MODEL}.AWSDmsAvroPayload": DmsPayload,
        "org.apache.hudi.payload.AWSDmsAvroPayload": DmsPayload,
        f"{_MODEL}.debezium.MySqlDebeziumAvroPayload": MySqlPayload,
        f"{_MODEL}.debezium.PostgresDebeziumAvroPayload": PostgresPayload,
    }
)


def choose(first: pa.Table, second: pa.Table, take_second: Mask) -> pa.Table:
    """Return for each pair the row of the second table if the mask says so, otherwise the row of the first table."""
    if not take_second.any():
        return first
    if take_second.all():
        return second
    columns = [_either(a, b, take_second) for a, b in zip(first.columns, second.columns, strict=True)]
    return pa.table(columns, schema=second.schema)


def _either(first: pa.ChunkedArray, second: pa.ChunkedArray, take_second: Mask) -> pa.ChunkedArray:
    both = pa.chunked_array([*first.chunks, *second.chunks], second.type)
    places = np.arange(len(take_second))
    return both.take(pa.array(np.where(take_second, places + len(first), places)))


def filled(upper: pa.Table, lower: pa.Table) -> pa.Table:
    """Return the upper rows; missing values come from the lower rows."""
    columns = [
        column if column.null_count == 0 else _either(column, lower.column(number), mask(pc.is_null(column)))
        for number, column in enumerate(upper.columns)
    ]
    return pa.table(columns, schema=upper.schema)


def available(values: pa.ChunkedArray, before: pa.ChunkedArray, unavailable_word: str = _TOASTED) -> pa.ChunkedArray:
    """Return the values. If the source did not repeat a value, take the value of ``before``."""
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        return values
    unavailable = mask(pc.fill_null(pc.equal(values, pa.scalar(unavailable_word).cast(values.type)), False))
    return _either(values, before, unavailable) if unavailable.any() else values


def _says(rows: pa.Table, column: str, word: str) -> Mask:
    """Return which rows have the word in the column; case does not matter."""
    if column not in rows.column_names or not pa.types.is_string(rows.schema.field(column).type):
        return none_of(rows)
    return mask(pc.fill_null(pc.equal(pc.utf8_lower(rows.column(column)), word), False))


def _sequences(rows: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the file and the position of each sequence such as ``3.1024``; zeros if there is none."""
    values = pc.fill_null(rows.column(_SEQUENCE), "0.0")
    parts = pc.extract_regex(values, r"^(?P<file>[0-9]{1,18})\.(?P<position>[0-9]{1,18})(?:\..*)?$")
    if parts.null_count:
        wrong = values.filter(pc.is_null(parts))[0].as_py()
        raise DataError(
            f"{_SEQUENCE} is {wrong[:80]!r}, which is no file and position of MySQL's log",
            hint="Mend the row with Hudi: this payload class cannot merge it there either.",
        )
    file, position = (pc.cast(pc.struct_field(parts, name), pa.int64()).to_numpy() for name in ("file", "position"))
    return file, position


def unfit_kind(column: str, kind: pa.DataType, *, new: bool) -> str:
    """Return the type that a column should have for a payload class.

    Returns an empty text if the type fits, or if an existing table works without it, as in Hudi.
    """
    if column == _LSN:
        return "" if pa.types.is_integer(kind) else "a whole number"
    is_text = pa.types.is_string(kind) or (not new and column != _SEQUENCE)
    return "" if is_text else "a text"


def _refuse_absent(needs: tuple[str, ...], rows: pa.Table) -> None:
    absent = [name for name in needs if name not in rows.column_names]
    if absent:
        raise UnsupportedTableError(
            f"The table has no {columns_named(absent)}, by which its payload class merges rows (hoodie.compaction.payload.class)",
            hint='Read it with mode="read_optimized", or write the rows to a table that has the columns of the payload class. '
            + see("merging"),
        )


def _require(values: pa.ChunkedArray, name: str) -> None:
    if values.null_count:
        raise DataError(
            f"{name} is missing in {values.null_count} rows that the source sent",
            hint="Mend the rows with Hudi: this payload class cannot merge them there either.",
        )


def _same_class_in_spark(kind: pa.DataType) -> bool:
    """Return whether Spark's value and Avro's value of an ordering column have the same Java class.

    For strings, dates and decimals the classes differ.
    """
    types = pa.types
    return bool(
        types.is_int32(kind)
        or types.is_int64(kind)
        or types.is_floating(kind)
        or types.is_timestamp(kind)
        or types.is_boolean(kind)
    )
