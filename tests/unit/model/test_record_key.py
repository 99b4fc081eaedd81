"""Record keys, against Hudi's own."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi_core.errors import InvalidRecordKeyError
from pyhudi_core.model.new_table import new_table_config
from pyhudi_core.model.properties import TableConfig, TableType
from pyhudi_core.model.record_key import record_keys

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "keys.json").read_text())


def table(record_key: list[str], partition_by: list[str] | None = None) -> TableConfig:
    return new_table_config("t", record_key, partition_by or [], [], TableType.COPY_ON_WRITE, None)


def with_generator(generator: str, fields: str = "id") -> TableConfig:
    raw = {**table(["id"], ["p"]).raw, "hoodie.table.keygenerator.type": generator}
    raw["hoodie.table.recordkey.fields"] = fields
    return TableConfig.from_properties(raw, table="t")


@pytest.mark.row("J7")
@pytest.mark.row("P14")
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_keys_equal_those_of_hudi(name: str) -> None:
    golden = GOLDEN[name]
    columns = list(zip(*golden["rows"], strict=True))
    batch = pa.record_batch({field: pa.array(columns[index]) for index, field in enumerate(golden["key"])})
    assert record_keys(batch, table(golden["key"], golden["partition"])).to_pylist() == list(columns[-2])


@pytest.mark.row("P5")
def test_several_fields_are_joined_with_marks_for_missing_parts() -> None:
    batch = pa.record_batch({"a": ["", None, "x"], "b": [1, 2, None]})
    assert record_keys(batch, table(["a", "b"])).to_pylist() == ["a:__empty__,b:1", "a:__null__,b:2", "a:x,b:__null__"]


@pytest.mark.row("P5")
@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([3], pa.int64()), "3"),
        (pa.array([True]), "true"),
        (pa.array(["x"], pa.large_string()), "x"),
        (pa.array(["x"]).dictionary_encode(), "x"),
        (pa.array([dt.date(2024, 1, 2)]), "2024-01-02"),
        (pa.array([2999999], pa.date32()), "+10183-09-20"),
        (pa.array([Decimal("1.20")]), "1.20"),
        (pa.array([Decimal("0E-10")], pa.decimal128(20, 10)), "0E-10"),
        (pa.array([dt.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("ms")), "1000000"),
        (pa.array([1_000_000], pa.timestamp("us", "Europe/Berlin")), "1000000"),
        (pa.array([2_000], pa.timestamp("ns", "UTC")), "2"),
    ],
)
def test_a_value_has_the_text_that_java_gives_it(column: pa.Array, text: str) -> None:
    keys = record_keys(pa.record_batch({"id": column}), table(["id"]))
    assert keys.type == pa.string()
    assert keys.to_pylist() == [text]


@pytest.mark.parametrize(
    "column", [pa.array([1.5]), pa.array([b"x"]), pa.array([[1]]), pa.array([1], pa.timestamp("ns"))]
)
def test_a_value_without_an_agreed_text_is_refused(column: pa.Array) -> None:
    with pytest.raises(InvalidRecordKeyError, match="'id'"):
        record_keys(pa.record_batch({"id": column}), table(["id"]))


@pytest.mark.parametrize("generator", ["SIMPLE", "COMPLEX", "NON_PARTITION", "CUSTOM", "SIMPLE_AVRO"])
def test_one_field_gives_its_plain_value_whatever_the_generator(generator: str) -> None:
    assert record_keys(pa.record_batch({"id": [7]}), with_generator(generator)).to_pylist() == ["7"]


def test_the_newer_encoding_of_a_single_complex_field_is_a_choice() -> None:
    batch = pa.record_batch({"id": [7]})
    assert record_keys(batch, with_generator("COMPLEX"), True).to_pylist() == ["id:7"]
    assert record_keys(batch, with_generator("SIMPLE"), True).to_pylist() == ["7"]


def test_null_and_empty_keys_are_counted_and_refused() -> None:
    batch = pa.record_batch({"id": ["a", None, "", None]})
    with pytest.raises(InvalidRecordKeyError, match=r"At least 3 .*'id'") as error:
        record_keys(batch, table(["id"]))
    assert error.value.hint


def test_a_composite_key_needs_one_part_at_least() -> None:
    batch = pa.record_batch({"a": ["", None, "x"], "b": pa.array([None, None, None], pa.string())})
    with pytest.raises(InvalidRecordKeyError, match="At least 2 of the rows"):
        record_keys(batch, table(["a", "b"]))


def test_a_missing_key_column_is_named_with_the_columns_there_are() -> None:
    with pytest.raises(InvalidRecordKeyError, match=r"'id'; it has x"):
        record_keys(pa.record_batch({"x": [1]}), table(["id"]))


def test_keys_may_lie_in_structs() -> None:
    batch = pa.record_batch({"s": pa.array([{"id": 4}])})
    assert record_keys(batch, table(["s.id"])).to_pylist() == ["4"]


def test_an_empty_batch_has_no_keys() -> None:
    batch = pa.record_batch({"a": pa.array([], pa.string()), "b": pa.array([], pa.int32())})
    assert record_keys(batch, table(["a", "b"])).to_pylist() == []
