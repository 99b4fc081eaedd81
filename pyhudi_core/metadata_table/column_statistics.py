"""Records of ``column_stats`` and ``partition_stats``, made from the ranges of the written files.

Specification, "Column Statistics" and "Partition Statistics". The bounds of a record must include all values of its file, because readers skip files
by them. If a writer does not know a bound, the record has a bound outside all values of the type.

Statistics of a partition are only widened: their counts are added up, and their bounds grow (``isTightBound`` is false).

There are two forms (`StatisticsForm`), by the version of the index's definition. In the second form a record names the type of its values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.formats.avro.decimals import shortest_bytes
from pyhudi_core.metadata_table import names, value_types
from pyhudi_core.metadata_table.record_schema import SCHEMA, STATS_FIELD, TYPED_SCHEMA, VALUE_TYPE
from pyhudi_core.metadata_table.records import Records, RecordType, type_of
from pyhudi_core.metadata_table.value_types import HIGHEST_BYTES, HIGHEST_TEXT, MOST_MOMENT
from pyhudi_core.model.meta_fields import COMMIT_TIME, META_FIELDS, PARTITION_PATH, RECORD_KEY
from pyhudi_core.model.properties import V1, V2

_MOST_COLUMNS = 32
_META = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)
_DIGITS = 15


@dataclass(frozen=True, slots=True)
class BoundsKind:
    """How bounds of a type are stored: the wrapper's name, the type of its value, and bounds outside all values.

    ``value_type`` is the type as records of the second form store it: a number from `value_types`, and a text with details.
    """

    wrapper: str
    type: pa.DataType
    lowest: object
    highest: object
    value_type: tuple[int, str | None] | None = None


@dataclass(frozen=True, slots=True)
class StatisticsForm:
    """The form in which an index stores statistics of columns. Only its name is pickled, so it can be sent to tasks."""

    version: str

    def kind_of(self, column: pa.DataType) -> BoundsKind | None:
        """Return how the bounds of a column are stored; None if Hudi stores none for its type."""
        return _untyped(column) if self.version == V1 else _typed(column)

    def indexed_columns(self, schema: pa.Schema) -> list[str]:
        """Return the columns of a table that have statistics: three meta columns, and the first 32 others of a type with bounds."""
        data = [
            field.name for field in schema if field.name not in META_FIELDS and self.kind_of(field.type) is not None
        ]
        return [*_META, *data[:_MOST_COLUMNS]]


UNTYPED, TYPED = StatisticsForm(V1), StatisticsForm(V2)


def form_of(version: str) -> StatisticsForm:
    """Return the form of the statistics of an index, by the version of its definition."""
    return TYPED if version == V2 else UNTYPED


def _typed(column: pa.DataType) -> BoundsKind | None:
    types, value_type = pa.types, value_types.of(column)
    if value_type is None:
        return None
    if types.is_decimal(column):
        most = Decimal(f"{'9' * column.precision}e-{column.scale}")
        return BoundsKind("BytesWrapper", column, most.copy_negate(), most, value_type)
    if types.is_timestamp(column):
        return BoundsKind("LongWrapper", pa.int64(), -MOST_MOMENT, MOST_MOMENT, value_type)
    kind = _untyped(column)
    assert kind is not None, f"{column} has no wrapper"
    return replace(kind, wrapper="IntWrapper" if types.is_date32(column) else kind.wrapper, value_type=value_type)


def _untyped(column: pa.DataType) -> BoundsKind | None:
    types = pa.types
    if types.is_boolean(column):
        return BoundsKind("BooleanWrapper", pa.bool_(), False, True)
    if types.is_signed_integer(column):
        wide = column.bit_width == 64
        half = 1 << (63 if wide else 31)
        return BoundsKind("LongWrapper" if wide else "IntWrapper", pa.int64() if wide else pa.int32(), -half, half - 1)
    if types.is_float32(column) or types.is_float64(column):
        # NaN is greater than all numbers in Spark. But Hudi skips a NaN bound, so infinity replaces it.
        return BoundsKind("FloatWrapper" if column.bit_width == 32 else "DoubleWrapper", column, -math.inf, math.inf)
    if types.is_string(column):
        return BoundsKind("StringWrapper", pa.string(), "", HIGHEST_TEXT)
    if types.is_binary(column):
        return BoundsKind("BytesWrapper", pa.binary(), b"", HIGHEST_BYTES)
    if types.is_date32(column):
        return BoundsKind("DateWrapper", pa.int32(), -(1 << 31), (1 << 31) - 1)
    if types.is_timestamp(column) and column.unit == "us":
        return BoundsKind("LongWrapper", pa.int64(), -(1 << 63), (1 << 63) - 1)
    if types.is_decimal(column) and column.scale <= _DIGITS and column.precision - column.scale <= _DIGITS:
        most = f"{'9' * _DIGITS}.{'9' * _DIGITS}"
        return BoundsKind("DecimalWrapper", pa.decimal128(2 * _DIGITS, _DIGITS), Decimal(f"-{most}"), Decimal(most))
    return None


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Bounds in their stored type (null if all values are null), the number of nulls, and the number of values."""

    kind: BoundsKind
    low: pa.Array
    high: pa.Array
    nulls: pa.Array
    rows: pa.Array


@dataclass(frozen=True, slots=True)
class FileBounds:
    """The bounds of all columns of one kind; each row has the bounds of one column in one file or partition.

    Attributes:
        column: the column's name.
        place: the number of the file or the partition.
    """

    bounds: ColumnBounds
    column: pa.Array
    place: pa.Array


def bounds_of(
    ranges: pa.Table, rows: Sequence[int], columns: Sequence[str], form: StatisticsForm = UNTYPED
) -> list[FileBounds]:
    """Return the bounds of files. All columns of a kind are computed together, because a commit has few files and many columns.

    Args:
        ranges: one row per file: ``path``, and for each column a struct of ``min``, ``max`` and ``nulls`` (`Written.ranges`), null if the file does
            not have the column. The greatest value of a column with NaN is NaN; the greatest value is null if it is unknown whether the column has
            NaN.
        rows: the number of rows of each file.
        columns: the columns with statistics.
    """
    found: dict[BoundsKind, list[tuple[str, pa.Array, list[pa.Array]]]] = {}
    every = pa.array(np.arange(len(ranges)))
    for column in (name for name in columns if name in ranges.column_names):
        known, places = _one(ranges.column(column)), every
        if known.null_count:
            places = every.filter(known.is_valid())
            known = known.drop_null()
        kind = form.kind_of(known.type.field(0).type)
        assert kind is not None, f"{column} has no statistics"
        if len(known):
            low, high, nulls = known.flatten()
            found.setdefault(kind, []).append((column, places, [low.cast(kind.type), high.cast(kind.type), nulls]))
    counts = pa.array(rows, pa.int64())
    return [_bounds(kind, parts, counts) for kind, parts in found.items()]


def _bounds(kind: BoundsKind, parts: Sequence[tuple[str, pa.Array, list[pa.Array]]], counts: pa.Array) -> FileBounds:
    columns = pa.array(
        np.repeat([column for column, _, _ in parts], [len(places) for _, places, _ in parts]), pa.string()
    )
    places = pa.concat_arrays([places for _, places, _ in parts])
    low, high, nulls = (pa.concat_arrays([bounds[number] for _, _, bounds in parts]) for number in range(3))
    rows = counts.take(places)
    # Some nulls and some values, so that neither IS NULL nor IS NOT NULL skips a file with unknown counts.
    if nulls.null_count:
        rows = pc.if_else(nulls.is_null(), pc.max_element_wise(rows, 2), rows)
        nulls = pc.fill_null(nulls, 1)
    empty = pc.greater_equal(nulls, rows)
    low, high = _kept(low, kind, kind.lowest, empty), _kept(high, kind, kind.highest, empty)
    return FileBounds(ColumnBounds(kind, low, high, nulls, rows), columns, places)


def column_stats(bounds: Sequence[FileBounds], files: Sequence[str], partitions: Sequence[str]) -> Records:
    """Return the statistics of files, given by path and by partition path."""
    named = [path.rpartition("/")[2] for path in files]
    behind = [
        names.name_hash(names.partition_name(partition)) + names.file_hash(file)
        for partition, file in zip(partitions, named, strict=True)
    ]
    ends, shown = pa.array(behind, pa.string()), pa.array(named, pa.string())
    return _records(RecordType.COLUMN_STATS, bounds, ends, shown)


def column_stats_keys(files: Mapping[str, Sequence[str]], columns: Sequence[str]) -> pa.StringArray:
    """Return the keys of the statistics of files, given by name and partition path."""
    behind = [
        names.name_hash(names.partition_name(partition)) + names.file_hash(file)
        for partition, found in files.items()
        for file in found
    ]
    ends = pa.array(behind, pa.string())
    parts = [pc.binary_join_element_wise(names.name_hash(column), ends, "") for column in columns]
    return pa.concat_arrays(parts) if parts else ends.slice(0, 0)


def partition_stats(bounds: Sequence[FileBounds], partitions: Sequence[str]) -> Records:
    """Return the change of the statistics of partitions by files whose partition paths are given."""
    numbers = {path: number for number, path in enumerate(dict.fromkeys(partitions))}
    hashes = pa.array([names.name_hash(names.partition_name(path)) for path in numbers], pa.string())
    shown = pa.array([path or names.NON_PARTITIONED for path in numbers], pa.string())
    if len(numbers) < len(partitions):
        own = pa.array([numbers[path] for path in partitions], pa.int64())
        bounds = [_by_partition(each, own) for each in bounds]
    return _records(RecordType.PARTITION_STATS, bounds, hashes, shown)


def _by_partition(files: FileBounds, partitions: pa.Array) -> FileBounds:
    """Return the bounds of partitions; ``partitions`` has the partition number of each file."""
    bounds = files.bounds
    columns = [files.column, partitions.take(files.place), bounds.low, bounds.high, bounds.nulls, bounds.rows]
    table = pa.table(columns, names=["column", "place", "min", "max", "nulls", "rows"])
    sums = [("min", "min"), ("max", "max"), ("nulls", "sum"), ("rows", "sum")]
    found = table.group_by(["column", "place"], use_threads=False).aggregate(sums)
    low, high, nulls, rows = (_one(found.column(f"{name}_{function}")) for name, function in sums)
    merged = ColumnBounds(bounds.kind, low, high, nulls, rows)
    return FileBounds(merged, _one(found.column("column")), _one(found.column("place")))


def with_unknown(ranges: pa.Table, files: Sequence[str]) -> pa.Table:
    """Return ranges in which each of these files has every column. A missing column gets unknown bounds and an unknown number of nulls."""
    known = set(ranges.column("path").to_pylist())
    missing = pa.array([path for path in files if path not in known], pa.string())
    if not len(missing) and not any(column.null_count for column in ranges.columns):
        return ranges
    paths = pa.concat_arrays([_one(ranges.column("path")), missing])
    filled = pc.is_in(paths, pa.array(list(files), pa.string()))
    columns = [paths]
    for field in list(ranges.schema)[1:]:
        found = pa.concat_arrays([_one(ranges.column(field.name)), pa.nulls(len(missing), field.type)])
        absent = pc.and_(found.is_null(), pc.invert(filled))
        columns.append(pa.StructArray.from_arrays(found.flatten(), fields=list(field.type), mask=absent))
    return pa.table(columns, schema=ranges.schema)


@dataclass(frozen=True, slots=True)
class Subject:
    """The subjects of statistics: the column (one for all, or one for each), the keys of the records, and the names of files or partitions."""

    column: str | pa.Array
    keys: pa.Array
    names: pa.Array


def _kept(bounds: pa.Array, kind: BoundsKind, outside: object, empty: pa.Array) -> pa.Array:
    """Return bounds in their stored type, with ``outside`` instead of unknown bounds."""
    if pa.types.is_floating(kind.type):
        bounds = pc.if_else(pc.is_nan(bounds), pa.scalar(None, kind.type), bounds)
    if bounds.null_count:
        bounds = pc.fill_null(bounds, pa.scalar(outside, kind.type))
    return pc.if_else(empty, pa.scalar(None, kind.type), bounds) if empty.true_count else bounds


def _records(kind: RecordType, files: Sequence[FileBounds], ends: pa.Array, shown: pa.Array) -> Records:
    """Return the records of files or partitions. The numbers of the bounds refer to the given names and ends of keys.

    The kinds of all columns are put into one struct, because in a small commit each call costs more than its records.
    """
    if not files:
        return Records.together([])
    columns = pa.concat_arrays([each.column for each in files])
    places = pa.concat_arrays([each.place for each in files])
    different = columns.dictionary_encode()
    hashes = pa.array([names.name_hash(column) for column in different.dictionary.to_pylist()], pa.string())
    keys = pc.binary_join_element_wise(hashes.take(different.indices), ends.take(places), "")
    return statistics_records(kind, Subject(columns, keys, shown.take(places)), [each.bounds for each in files])


def statistics_records(
    kind: RecordType, subject: Subject, bounds: Sequence[ColumnBounds], sizes: tuple[pa.Array, pa.Array] | None = None
) -> Records:
    """Return the records of statistics. The bounds are ordered by the kind of their column.

    ``sizes``: bytes of the files, and bytes before compression; zeros if they are omitted.
    """
    count = len(subject.keys)
    zeros = pa.repeat(pa.scalar(0, pa.int64()), count)
    size, uncompressed = sizes or (zeros, zeros)
    typed = any(each.kind.value_type is not None for each in bounds)
    schema = TYPED_SCHEMA if typed else SCHEMA
    stats = type_of(STATS_FIELD, schema)
    no = pa.repeat(False, count)
    values = {
        "fileName": subject.names,
        "columnName": pa.repeat(subject.column, count) if isinstance(subject.column, str) else subject.column,
        "minValue": _wrapped([(each.kind, each.low) for each in bounds], stats.field("minValue").type),
        "maxValue": _wrapped([(each.kind, each.high) for each in bounds], stats.field("maxValue").type),
        "valueCount": pa.concat_arrays([each.rows for each in bounds]),
        "nullCount": pa.concat_arrays([each.nulls for each in bounds]),
        "totalSize": size,
        "totalUncompressedSize": uncompressed,
        "isDeleted": no,
        "isTightBound": no,
        **({VALUE_TYPE: _value_types(bounds, stats.field(VALUE_TYPE).type)} if typed else {}),
    }
    found = pa.StructArray.from_arrays(list(values.values()), fields=_fields(stats))
    return Records.of(subject.keys, kind, STATS_FIELD, found, schema)


def _value_types(bounds: Sequence[ColumnBounds], info: pa.DataType) -> pa.StructArray:
    """Return the type of values for each record."""
    said = [each.kind.value_type for each in bounds]
    fields = _fields(info)
    columns = [
        pa.concat_arrays([
            pa.repeat(pa.scalar(value_type and value_type[number], fields[number].type), len(each.rows))
            for value_type, each in zip(said, bounds, strict=True)
        ])
        for number in range(2)
    ]  # fmt: skip
    return pa.StructArray.from_arrays(columns, fields=fields)


def _wrapped(parts: Sequence[tuple[BoundsKind, pa.Array]], union: pa.DataType) -> pa.StructArray:
    """Return bounds as the branches of a union: a struct of all wrappers, of which one has a value in each row."""
    count = sum(len(bounds) for _, bounds in parts)
    wrappers = {kind.wrapper for kind, _ in parts}
    fields = _fields(union)
    branches = []
    for field in fields:
        if field.name not in wrappers:
            branches.append(pa.nulls(count, field.type))
            continue
        inner = _fields(field.type)
        values = [
            _stored(bounds, inner[0].type) if kind.wrapper == field.name else pa.nulls(len(bounds), inner[0].type)
            for kind, bounds in parts
        ]
        value = pa.concat_arrays(values)
        branches.append(pa.StructArray.from_arrays([value], fields=inner, mask=value.is_null()))
    absent = pa.concat_arrays([bounds.is_null() for _, bounds in parts])
    return pa.StructArray.from_arrays(branches, fields=fields, mask=absent)


def _stored(bounds: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return bounds in the type of their wrapper. Decimals in records that name the type of their values become bytes."""
    if not pa.types.is_decimal(bounds.type) or pa.types.is_decimal(kind):
        return bounds
    return shortest_bytes(bounds)


@cache
def _fields(struct: pa.DataType) -> list[pa.Field]:
    return list(struct)


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
