"""Records of ``column_stats`` and ``partition_stats``: from the ranges that a file's writer knows.

Specification, "Column Statistics" and "Partition Statistics". A record must never claim less than its file holds, because readers omit files by
it. Where a writer does not know a bound, the record has one outside all values of the type.

Statistics of a partition are only widened: their counts are added up, and their bounds grow (``isTightBound`` is false).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.record_schema import STATS_FIELD
from pyhudi_core.metadata_table.records import Records, RecordType, type_of
from pyhudi_core.model.meta_fields import COMMIT_TIME, META_FIELDS, PARTITION_PATH, RECORD_KEY

_MOST_COLUMNS = 32
_META = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)
_DIGITS = 15
_HIGHEST_TEXT = "\U0010ffff" * 16
_HIGHEST_BYTES = b"\xff" * 64
"""These sort after every value that is not made to sort after them."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How bounds of a type are kept: the wrapper's name, the type of its value, and bounds outside all values."""

    wrapper: str
    type: pa.DataType
    lowest: object
    highest: object


def kind_of(column: pa.DataType) -> Kind | None:
    """How the bounds of a column are kept; None if Hudi keeps none for its type."""
    types = pa.types
    if types.is_boolean(column):
        return Kind("BooleanWrapper", pa.bool_(), False, True)
    if types.is_signed_integer(column):
        wide = column.bit_width == 64
        half = 1 << (63 if wide else 31)
        return Kind("LongWrapper" if wide else "IntWrapper", pa.int64() if wide else pa.int32(), -half, half - 1)
    if types.is_float32(column) or types.is_float64(column):
        # NaN is greater than all numbers in Spark. But Hudi skips what has NaN as a bound, so infinity stands for it.
        return Kind("FloatWrapper" if column.bit_width == 32 else "DoubleWrapper", column, -math.inf, math.inf)
    if types.is_string(column):
        return Kind("StringWrapper", pa.string(), "", _HIGHEST_TEXT)
    if types.is_binary(column):
        return Kind("BytesWrapper", pa.binary(), b"", _HIGHEST_BYTES)
    if types.is_date32(column):
        return Kind("DateWrapper", pa.int32(), -(1 << 31), (1 << 31) - 1)
    if types.is_timestamp(column) and column.unit == "us":
        return Kind("LongWrapper", pa.int64(), -(1 << 63), (1 << 63) - 1)
    if types.is_decimal(column) and column.scale <= _DIGITS and column.precision - column.scale <= _DIGITS:
        most = f"{'9' * _DIGITS}.{'9' * _DIGITS}"
        return Kind("DecimalWrapper", pa.decimal128(2 * _DIGITS, _DIGITS), Decimal(f"-{most}"), Decimal(most))
    return None


def indexed_columns(schema: pa.Schema) -> list[str]:
    """The columns of a table that have statistics: three meta columns, and the first 32 of the others whose type Hudi keeps bounds for."""
    data = [field.name for field in schema if field.name not in META_FIELDS and kind_of(field.type) is not None]
    return [*_META, *data[:_MOST_COLUMNS]]


def column_stats(ranges: pa.Table, partitions: Sequence[str], rows: Sequence[int], columns: Sequence[str]) -> Records:
    """The statistics of files.

    Args:
        ranges: a row a file: ``path``, and for each column a struct of ``min``, ``max`` and ``nulls`` (`Written.ranges`), null if the file does not
            have the column. The greatest value of a column with NaN is NaN; it is null if it is not known whether there is one.
        partitions: the partition path of each file.
        rows: how many rows each file has.
        columns: those to keep.
    """
    files = [path.rpartition("/")[2] for path in ranges.column("path").to_pylist()]
    behind = [
        names.name_hash(names.partition_name(partition)) + names.file_hash(file)
        for partition, file in zip(partitions, files, strict=True)
    ]
    named = pa.table({"name": files, "behind": behind, "rows": pa.array(rows, pa.int64())})
    parts = []
    for column, mask in _present(ranges, columns):
        inside = named.filter(mask)
        bounds = _bounds(ranges.column(column).filter(mask), _one(inside.column("rows")))
        keys = pc.binary_join_element_wise(names.name_hash(column), _one(inside.column("behind")), "")
        subject = Subject(column, keys, _one(inside.column("name")))
        parts.append(statistics_records(RecordType.COLUMN_STATS, subject, bounds))
    return Records.together(parts)


def column_stats_keys(files: Mapping[str, Sequence[str]], columns: Sequence[str]) -> pa.StringArray:
    """The keys of the statistics of files, given by name and partition path."""
    behind = [
        names.name_hash(names.partition_name(partition)) + names.file_hash(file)
        for partition, found in files.items()
        for file in found
    ]
    ends = pa.array(behind, pa.string())
    parts = [pc.binary_join_element_wise(names.name_hash(column), ends, "") for column in columns]
    return pa.concat_arrays(parts) if parts else ends.slice(0, 0)


def partition_stats(
    ranges: pa.Table, partitions: Sequence[str], rows: Sequence[int], columns: Sequence[str]
) -> Records:
    """What files add to the statistics of their partitions. Arguments as in `column_stats`."""
    placed = pa.table({"partition": partitions, "rows": pa.array(rows, pa.int64())})
    parts = []
    for column, mask in _present(ranges, columns):
        inside = placed.filter(mask)
        bounds = _bounds(ranges.column(column).filter(mask), _one(inside.column("rows")))
        merged, paths = _by_partition(inside, bounds)
        hashes = pa.array([names.name_hash(names.partition_name(path)) for path in paths.to_pylist()], pa.string())
        shown = pc.if_else(pc.equal(paths, ""), names.NON_PARTITIONED, paths)
        keys = pc.binary_join_element_wise(names.name_hash(column), hashes, "")
        parts.append(statistics_records(RecordType.PARTITION_STATS, Subject(column, keys, shown), merged))
    return Records.together(parts)


def with_unknown(ranges: pa.Table, files: Sequence[str]) -> pa.Table:
    """Ranges in which each of these files has every column: where nothing is known of it, its bounds and the number of its nulls are unknown."""
    known = set(ranges.column("path").to_pylist())
    missing = pa.array([path for path in files if path not in known], pa.string())
    paths = pa.concat_arrays([_one(ranges.column("path")), missing])
    filled = pc.is_in(paths, pa.array(list(files), pa.string()))
    columns = [paths]
    for field in list(ranges.schema)[1:]:
        found = pa.concat_arrays([_one(ranges.column(field.name)), pa.nulls(len(missing), field.type)])
        absent = pc.and_(found.is_null(), pc.invert(filled))
        columns.append(pa.StructArray.from_arrays(found.flatten(), fields=list(field.type), mask=absent))
    return pa.table(columns, schema=ranges.schema)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds in the type in which they are kept, null where all values are null; how many values are null, and how many values there are."""

    kind: Kind
    low: pa.Array
    high: pa.Array
    nulls: pa.Array
    rows: pa.Array


@dataclass(frozen=True, slots=True)
class Subject:
    """What statistics are about: the column, the keys of the records, and the names of files or partitions."""

    column: str
    keys: pa.Array
    names: pa.Array


def _present(ranges: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
    """The columns of which there are ranges, and which files have them."""
    for column in columns:
        if column in ranges.column_names:
            mask = _one(ranges.column(column)).is_valid()
            if mask.true_count:
                yield column, mask


def _by_partition(files: pa.Table, bounds: Bounds) -> tuple[Bounds, pa.Array]:
    """The bounds of each partition, and the partitions."""
    columns = [files.column("partition"), bounds.low, bounds.high, bounds.nulls, bounds.rows]
    table = pa.table(columns, names=["partition", "min", "max", "nulls", "rows"])
    sums = [("min", "min"), ("max", "max"), ("nulls", "sum"), ("rows", "sum")]
    found = table.group_by("partition", use_threads=False).aggregate(sums)
    low, high, nulls, rows = (_one(found.column(f"{name}_{function}")) for name, function in sums)
    return Bounds(bounds.kind, low, high, nulls, rows), _one(found.column("partition"))


def _bounds(ranges: pa.ChunkedArray, rows: pa.Array) -> Bounds:
    low, high, nulls = _one(ranges).flatten()
    kind = kind_of(low.type)
    assert kind is not None, f"{low.type} has no statistics"
    # Some nulls and some values, so that neither IS NULL nor IS NOT NULL skips what is not known.
    unknown = nulls.is_null()
    nulls = pc.fill_null(nulls, 1)
    rows = pc.if_else(unknown, pc.max_element_wise(rows, 2), rows)
    empty = pc.greater_equal(nulls, rows)
    return Bounds(kind, _kept(low, kind, kind.lowest, empty), _kept(high, kind, kind.highest, empty), nulls, rows)


def _kept(bounds: pa.Array, kind: Kind, outside: object, empty: pa.Array) -> pa.Array:
    """Bounds in their kept type, with ``outside`` where a bound is not known."""
    values = bounds.cast(kind.type)
    if pa.types.is_floating(kind.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, kind.type), values)
    outer = pa.scalar(outside, kind.type)
    return pc.if_else(empty, pa.scalar(None, kind.type), pc.fill_null(values, outer))


def statistics_records(
    kind: RecordType, subject: Subject, bounds: Bounds, sizes: tuple[pa.Array, pa.Array] | None = None
) -> Records:
    """The records of statistics. ``sizes``: bytes of the files, and bytes before compression; zeros if they are omitted."""
    count = len(bounds.low)
    zeros = pa.repeat(pa.scalar(0, pa.int64()), count)
    size, uncompressed = sizes or (zeros, zeros)
    stats = type_of(STATS_FIELD)
    values = {
        "fileName": subject.names,
        "columnName": pa.repeat(subject.column, count),
        "minValue": _wrapped(bounds.low, bounds.kind, stats.field("minValue").type),
        "maxValue": _wrapped(bounds.high, bounds.kind, stats.field("maxValue").type),
        "valueCount": bounds.rows,
        "nullCount": bounds.nulls,
        "totalSize": size,
        "totalUncompressedSize": uncompressed,
        "isDeleted": pa.repeat(False, count),
        "isTightBound": pa.repeat(False, count),
    }
    found = pa.StructArray.from_arrays(list(values.values()), fields=list(stats))
    return Records.of(subject.keys, kind, STATS_FIELD, found)


def _wrapped(bounds: pa.Array, kind: Kind, union: pa.DataType) -> pa.StructArray:
    """Bounds as the branch of a union: a struct of all wrappers, of which one has a value."""
    absent = bounds.is_null()
    branches = []
    for field in union:
        if field.name == kind.wrapper:
            branches.append(pa.StructArray.from_arrays([bounds], fields=list(field.type), mask=absent))
        else:
            branches.append(pa.nulls(len(bounds), field.type))
    return pa.StructArray.from_arrays(branches, fields=list(union), mask=absent)


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
