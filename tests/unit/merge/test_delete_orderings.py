"""Which deletes of a block can be compared with rows, and by which values: the same as one by one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.formats.log.contents import SEVERAL, DeleteRecord, write_deletes
from pyhudi_core.formats.log.delete_columns import DeleteColumns, read_delete_columns
from pyhudi_core.merge.delete_orderings import _classes_of, comparable

COLUMNS = [
    pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.date32(), pa.binary(), pa.time64("us"),
    pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC"), pa.timestamp("s"),
    pa.decimal128(5, 2), pa.decimal128(38, 0), pa.decimal128(20, 18), pa.decimal128(38, 15), pa.decimal128(2, 5),
    pa.decimal256(60, 20), pa.large_string(), pa.int16(),
]  # fmt: skip


def one_by_one(record: DeleteRecord, columns: Sequence[pa.DataType]) -> tuple[Any, ...] | None:
    """The rule for a delete: its values in the columns' types; None for one that wins outright."""
    if record.kind is None or not columns:
        return None
    parts = record.ordering if record.kind == SEVERAL else ((record.kind, record.ordering),)
    if len(parts) != len(columns) or parts == (("IntWrapper", 0),):
        return None
    found = []
    for part, column in zip(parts, columns, strict=True):
        if part is not None and part[0] not in _classes_of(column):
            return None
        try:
            found.append(pa.scalar(None, column) if part is None else in_column(part[1], column))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return None
    return tuple(found)


def in_column(value: Any, column: pa.DataType) -> pa.Scalar:
    """A value in the column's type; Spark's dates are ints, the days since 1970."""
    days = pa.types.is_date32(column) and isinstance(value, int)
    return (pa.scalar(value, pa.int32()) if days else pa.scalar(value)).cast(column)


VALUES: list[tuple[str, Any]] = [
    ("BooleanWrapper", True), ("BooleanWrapper", False), ("IntWrapper", 0), ("IntWrapper", 7), ("IntWrapper", -(2**31)), ("LongWrapper", 0),
    ("LongWrapper", 2**62), ("LongWrapper", -1_700_000_000_000_001), ("FloatWrapper", 1.5), ("FloatWrapper", float("inf")), ("DoubleWrapper", 1e300),
    ("BytesWrapper", b"x"), ("StringWrapper", ""), ("StringWrapper", "ä"), ("DateWrapper", dt.date(2020, 1, 2)), ("DateWrapper", dt.date.min),
    ("TimeMicrosWrapper", dt.time(1, 2, 3, 4)), ("TimestampMicrosWrapper", dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
    ("TimestampMicrosWrapper", dt.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)), ("TimestampMicrosWrapper", dt.datetime(9000, 1, 1, tzinfo=dt.UTC)),
    *(("DecimalWrapper", Decimal(text)) for text in (
        "0", "1.5", "-999.99", "999.994", "1000", "-123456789012345.5", "0.000000000000001", "0.00099", "0.001", "999999999999999.999999999999999")),
]  # fmt: skip
ONE = st.sampled_from(VALUES)
ITEM = st.one_of(st.none(), ONE, st.just(("LocalDateWrapper", 18_263)))
ORDERING = st.one_of(st.just((None, None)), ONE, st.tuples(st.just(SEVERAL), st.lists(ITEM, max_size=3).map(tuple)))


@pytest.mark.row("J2")
@settings(max_examples=examples(800))
@given(st.lists(ORDERING, max_size=12), st.lists(st.sampled_from(COLUMNS), max_size=3))
def test_deletes_are_compared_as_they_are_one_by_one(
    orderings: list[tuple[str | None, Any]], columns: list[pa.DataType]
) -> None:
    check(orderings, columns)


@pytest.mark.row("J2")
@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_every_wrapper_meets_every_type_of_column(column: pa.DataType) -> None:
    check([*VALUES, (None, None)], [column])
    for value in VALUES:
        check([value, value], [column])
        check([(SEVERAL, (value,)), value], [column])
        check([(SEVERAL, (value, None)), (SEVERAL, (None, value)), (SEVERAL, (value, value)), value], [column, column])


def check(orderings: Sequence[tuple[str | None, Any]], columns: Sequence[pa.DataType]) -> None:
    records = [DeleteRecord(f"k{n}", "p", value, kind) for n, (kind, value) in enumerate(orderings)]
    expected = [one_by_one(record, columns) for record in records]
    read = list(read_delete_columns(pa.py_buffer(write_deletes(records)), "f"))
    for deletes in (DeleteColumns.of_records(records), *read):
        values, compared = comparable(deletes, columns)
        assert compared.tolist() == [known is not None for known in expected]
        for number, (column, found) in enumerate(zip(columns, values, strict=True)):
            assert found.type == column
            nothing = pa.scalar(None, column)
            assert list(found) == [nothing if known is None else known[number] for known in expected]


def test_numbers_that_hudi_cannot_have_written_are_compared_if_the_column_holds_them() -> None:
    wide = Decimal(10) ** 20
    records = [
        DeleteRecord("a", "p", wide, "DecimalWrapper"),
        DeleteRecord("b", "p", wide * 10**10, "DecimalWrapper"),
        DeleteRecord("c", "p", Decimal("1.5"), "DecimalWrapper"),
    ]
    values, compared = comparable(DeleteColumns.of_records(records), [pa.decimal128(24, 2)])
    assert values[0].to_pylist() == [wide, None, Decimal("1.50")]
    assert compared.tolist() == [True, False, True]
    records = [DeleteRecord("a", "p", 2**40, "IntWrapper"), DeleteRecord("b", "p", 7, "IntWrapper")]
    for column, expected in ((pa.int32(), [None, 7]), (pa.date32(), [None, dt.date(1970, 1, 8)])):
        values, compared = comparable(DeleteColumns.of_records(records), [column])
        assert values[0].to_pylist() == expected
        assert compared.tolist() == [False, True]
