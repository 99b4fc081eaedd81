"""The logical schema: from users' types, and through evolution."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.schema import floats_for_integers, normalise, reconcile, spark_incompatible

LOGICAL = [
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.decimal128(38, 10),
    pa.list_(pa.list_(pa.int32())),
    pa.map_(pa.string(), pa.struct([("x", pa.int64())])),
    pa.struct([("x", pa.struct([("y", pa.string())]))]),
]


def one(kind: pa.DataType, *, nullable: bool = True) -> pa.Schema:
    return pa.schema([pa.field("c", kind, nullable=nullable)])


def normalised(kind: pa.DataType) -> pa.DataType:
    return normalise(one(kind)).field("c").type


@pytest.mark.parametrize("kind", LOGICAL, ids=str)
def test_logical_types_stay_as_they_are(kind: pa.DataType) -> None:
    assert normalised(kind) == kind


@pytest.mark.parametrize(
    ("kind", "logical"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.uint8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.decimal32(5, 1), pa.decimal128(5, 1)),
        (pa.decimal256(38, 2), pa.decimal128(38, 2)),
        (pa.date64(), pa.date32()),
        (pa.time32("ms"), pa.time64("us")),
        (pa.time64("ns"), pa.time64("us")),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.large_list(pa.int8()), pa.list_(pa.int32())),
        (pa.list_(pa.int8(), 3), pa.list_(pa.int32())),
        (pa.list_view(pa.large_string()), pa.list_(pa.string())),
        (pa.large_list_view(pa.int8()), pa.list_(pa.int32())),
        (pa.map_(pa.large_string(), pa.uint8()), pa.map_(pa.string(), pa.int32())),
        (
            pa.struct([("x", pa.list_(pa.field("y", pa.int8(), nullable=False)))]),
            pa.struct([("x", pa.list_(pa.int32()))]),
        ),
    ],
    ids=str,
)
def test_other_types_become_the_nearest_logical_one(kind: pa.DataType, logical: pa.DataType) -> None:
    assert normalised(kind) == logical


def test_everything_is_nullable_and_without_metadata() -> None:
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    schema = pa.schema([pa.field("c", inner, nullable=False, metadata={"a": "b"})], metadata={"pandas": "{}"})
    made = normalise(schema)
    assert made.field("c").nullable
    assert made.field("c").type.field(0).nullable
    assert made.metadata is None
    assert made.field("c").metadata is None


@pytest.mark.row("E9")
def test_meta_columns_of_the_input_are_dropped() -> None:
    schema = with_meta_fields(one(pa.int32())).append(pa.field("_hoodie_operation", pa.string()))
    assert normalise(schema) == one(pa.int32())


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.decimal256(40, 2), "38 digits"),
        (pa.decimal128(5, -2), "scale"),
        (pa.null(), "no type"),
        (pa.duration("us"), "duration"),
        (pa.month_day_nano_interval(), "interval"),
        (pa.dense_union([pa.field("a", pa.int8())]), "union"),
        (pa.uuid(), "uuid"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "run_end"),
        (pa.map_(pa.int32(), pa.string()), "keys are strings"),
        (pa.struct([]), "without fields"),
        (pa.list_(pa.struct([("x", pa.duration("s"))])), "c.element.x"),
    ],
    ids=str,
)
def test_types_that_no_table_can_hold_are_refused_by_name(kind: pa.DataType, said: str) -> None:
    with pytest.raises(SchemaMismatchError, match=said) as raised:
        normalised(kind)
    assert "c" in raised.value.message
    assert raised.value.hint


def test_a_column_of_nulls_takes_the_type_that_the_table_knows() -> None:
    assert normalise(one(pa.null()), known=one(pa.decimal128(5, 2))) == one(pa.decimal128(5, 2))


INNER = pa.struct([("x", pa.int32()), ("y", pa.string())])


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (pa.list_(pa.null()), pa.list_(pa.string())),
        (pa.large_list(pa.list_(pa.null())), pa.list_(pa.list_(INNER))),
        (pa.struct([("x", pa.int32()), ("y", pa.null())]), INNER),
        (pa.struct([]), INNER),
        (pa.list_(pa.struct([("x", pa.null()), ("y", pa.string())])), pa.list_(INNER)),
        (pa.map_(pa.string(), pa.null()), pa.map_(pa.string(), INNER)),
    ],
)
def test_what_has_no_type_inside_of_a_column_takes_the_one_that_the_table_knows(
    given: pa.DataType, known: pa.DataType
) -> None:
    assert normalise(one(given), known=one(known)) == one(known)
    with pytest.raises(SchemaMismatchError, match=r"no type|without fields"):
        normalise(one(given))


def test_a_nested_column_of_nulls_that_the_table_does_not_know_is_refused_by_its_name() -> None:
    given = pa.struct([("x", pa.int32()), ("new", pa.null())])
    with pytest.raises(SchemaMismatchError, match=r"Column c\.new holds only nulls"):
        normalise(one(given), known=one(INNER))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a", "a"], "twice"),
        (["Id", "iD"], "case alone"),
        (["a b"], "cannot be written"),
        (["1a"], "cannot be written"),
        (["größe"], "cannot be written"),
        (["a\n"], "cannot be written"),
        ([""], "cannot be written"),
        ([], "no columns"),
    ],
)
def test_names_are_refused_with_a_way_out(names: list[str], said: str) -> None:
    with pytest.raises(SchemaMismatchError, match=said) as raised:
        normalise(pa.schema([pa.field(name, pa.int32()) for name in names]))
    assert raised.value.hint


def test_names_inside_structs_are_checked_too() -> None:
    with pytest.raises(SchemaMismatchError, match=r"s\.a and s\.A"):
        normalise(pa.schema([("s", pa.struct([("a", pa.int8()), ("A", pa.int8())]))]))


@pytest.mark.row("D10")
def test_new_columns_go_to_the_end_and_missing_ones_stay() -> None:
    table = pa.schema([("a", pa.int32()), ("b", pa.string())])
    incoming = pa.schema([("c", pa.float64()), ("a", pa.int32())])
    assert reconcile(table, incoming).names == ["a", "b", "c"]


@pytest.mark.row("D10")
@pytest.mark.parametrize(
    ("table", "incoming", "result"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.float32(), pa.int64(), pa.float32()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.float64(), pa.float32(), pa.float64()),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.decimal128(12, 2), pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.decimal128(2, 1), pa.decimal128(10, 2)),
        (pa.decimal128(10, 2), pa.decimal128(10, 0), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.decimal128(38, 1), pa.decimal128(38, 2)),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int64())),
        (
            pa.struct([("x", pa.int32()), ("y", pa.string())]),
            pa.struct([("z", pa.date32()), ("x", pa.int64())]),
            pa.struct([("x", pa.int64()), ("y", pa.string()), ("z", pa.date32())]),
        ),
    ],
    ids=str,
)
def test_types_become_the_wider_of_the_two(table: pa.DataType, incoming: pa.DataType, result: pa.DataType) -> None:
    assert reconcile(one(table), one(incoming)) == one(result)


def test_integers_for_which_the_data_has_floats_are_named_and_can_stay() -> None:
    table = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.int32())), ("c", pa.float64()), ("d", pa.int64())])
    incoming = pa.schema([("a", pa.float32()), ("b", pa.list_(pa.float64())), ("c", pa.float32()), ("d", pa.int32())])
    assert floats_for_integers(table, incoming) == {"a": pa.int64(), "b.element": pa.int32()}
    assert reconcile(table, incoming, {"a"}) == table.set(1, pa.field("b", pa.list_(pa.float64())))
    assert reconcile(table, incoming, {"a", "b.element"}) == table


@pytest.mark.row("D10")
@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (pa.string(), pa.binary()),
        (pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.decimal128(10, 2), pa.decimal128(10, 3)),
        (pa.int64(), pa.decimal128(10, 2)),
        (pa.bool_(), pa.int32()),
        (pa.list_(pa.int32()), pa.int32()),
        (pa.list_(pa.string()), pa.list_(pa.int32())),
    ],
    ids=str,
)
def test_types_that_cannot_meet_are_refused_with_both_named(table: pa.DataType, incoming: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError) as raised:
        reconcile(one(table), one(incoming))
    message = str(raised.value)
    assert "Column c" in message
    assert raised.value.hint


def test_a_nested_column_that_cannot_meet_is_named_by_its_path() -> None:
    table, incoming = (one(pa.struct([("x", pa.list_(kind))])) for kind in (pa.int32(), pa.bool_()))
    with pytest.raises(SchemaMismatchError, match=r"c\.x\.element is int32 in the table and bool in the data"):
        reconcile(table, incoming)


def test_a_new_column_that_differs_from_an_old_one_in_case_alone_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="case alone"):
        reconcile(pa.schema([("Id", pa.int32())]), pa.schema([("id", pa.int32())]))


@pytest.mark.parametrize("kind", LOGICAL, ids=str)
def test_reconciling_with_itself_changes_nothing(kind: pa.DataType) -> None:
    assert reconcile(one(kind), one(kind)) == one(kind)


def test_columns_that_spark_cannot_read_are_named() -> None:
    schema = pa.schema(
        [
            ("ok", pa.timestamp("us")),
            ("t", pa.time64("us")),
            ("s", pa.struct([("l", pa.list_(pa.time64("us"))), ("m", pa.map_(pa.string(), pa.time64("us")))])),
        ]
    )
    assert spark_incompatible(schema) == ["t", "s.l.element", "s.m.value"]
