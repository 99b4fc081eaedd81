"""`update`, `merge` and `replace` find the stored version of a row as the commit does: by its name, and by the merge law."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pyhudi_core as hudi
from pyhudi_core.errors import DataError, DuplicateKeyError, HudiError, PredicateError

KINDS = ["cow", "mor"]
IN_PARTITIONS = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
ORDERED = pa.schema([("id", pa.int64()), ("o", pa.int64()), ("v", pa.int64())])
SIMPLE = {"hoodie.index.type": "GLOBAL_SIMPLE"}
BY_RECORD_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"}
INDEXES: dict[str, dict[str, object]] = {
    "GLOBAL_SIMPLE": SIMPLE,
    "GLOBAL_SIMPLE whose rows stay": {**SIMPLE, "hoodie.simple.index.update.partition.path": False},
    "GLOBAL_BLOOM": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "RECORD_INDEX": BY_RECORD_INDEX,
    "RECORD_INDEX whose rows move": {**BY_RECORD_INDEX, "hoodie.record.index.update.partition.path": True},
    "a record index beside another one": {"hoodie.metadata.record.index.enable": True},
    "no global one": {},
}
STAY = {"GLOBAL_SIMPLE whose rows stay", "RECORD_INDEX"}


def made(location: str, rows: list[dict[str, Any]], schema: pa.Schema, kind: str, **given: Any) -> hudi.HudiTable:
    table = hudi.create_table(location, schema, record_key="id", table_type=kind, **given)
    fixed = {*(given["rules"].generated if "rules" in given else ())}
    own = pa.schema([field for field in schema if field.name not in fixed])
    table.insert(pa.Table.from_pylist(rows, own))
    return hudi.open_table(table.location, options=given.get("options"))


def found(table: hudi.HudiTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def unchanged(table: hudi.HudiTable, before: list[tuple[Any, ...]]) -> bool:
    return found(table) == before and len(table.timeline.commits) == 1 and not table.timeline.pending.instants


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", INDEXES)
def test_replace_keeps_a_new_row_whose_key_was_in_another_partition(location: str, kind: str, index: str) -> None:
    rows = [{"id": 1, "p": "a", "v": 1}, {"id": 2, "p": "a", "v": 1}]
    table = made(location, rows, IN_PARTITIONS, kind, partition_by=["p"], options=INDEXES[index])
    table.replace(pa.table({"id": [1], "p": ["b"], "v": [2]}), where="v > 0")
    assert found(table) == [(1, "a" if index in STAY else "b", 2)]
    assert not table.check().findings


UPDATES: dict[str, Callable[[hudi.HudiTable], object]] = {
    "update": lambda table: table.update({"v": "v + 10"}, where="w = 1"),
    "merge": lambda table: table.merge(pa.table({"w": [1]}), on="w").when_matched_update({"v": "target.v + 10"}).run(),
}
PLACES: dict[str, dict[str, Any]] = {
    "a partition": {
        "schema": pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64()), ("w", pa.int64())]),
        "rows": [{"id": 1, "v": 1, "w": 1}],
        "partition_by": "p",
        "rules": hudi.TableRules(generated={"p": "CASE WHEN v > 5 THEN 'hi' ELSE 'lo' END"}),
    },
    "a key": {
        "schema": pa.schema([("id", pa.string()), ("v", pa.int64()), ("w", pa.int64())]),
        "rows": [{"v": 1, "w": 1}],
        "rules": hudi.TableRules(generated={"id": "CAST(v AS STRING)"}),
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("verb", UPDATES)
def test_a_generated_column_that_would_give_a_row_another_name_is_refused(
    location: str, kind: str, place: str, verb: str
) -> None:
    table = made(location, kind=kind, **PLACES[place])
    before = found(table)
    name = "p" if place == "a partition" else "id"
    with pytest.raises(DataError, match=rf"(?s)gives {name} another value.*generates {name} of v"):
        UPDATES[verb](table)
    assert unchanged(table, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", UPDATES)
def test_a_generated_partition_that_stays_is_no_reason_to_refuse(location: str, kind: str, verb: str) -> None:
    table = made(location, kind=kind, **{**PLACES["a partition"], "rows": [{"id": 1, "v": 9, "w": 1}]})
    UPDATES[verb](table)
    assert found(table) == [(1, "hi", 19, 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_replaces_a_newer_one_outside_of_the_condition_is_refused(location: str, kind: str) -> None:
    rows = [{"id": 1, "o": 9, "v": 0}, {"id": 2, "o": 1, "v": 1}]
    table = made(location, rows, ORDERED, kind, ordering="o")
    before = found(table)
    with pytest.raises(DataError, match="lower o"):
        table.replace(pa.table({"id": [1], "o": [1], "v": [1]}), where="v = 1")
    assert unchanged(table, before)
    table.replace(pa.table({"id": [1, 3], "o": [9, -5], "v": [1, 1]}), where="v = 1")
    assert found(table) == [(1, 9, 1), (3, -5, 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_replace_finds_the_newer_version_in_another_partition_under_a_global_index(location: str, kind: str) -> None:
    schema = pa.schema([*IN_PARTITIONS, ("o", pa.int64())])
    rows = [{"id": 1, "p": "a", "v": 0, "o": 9}, {"id": 2, "p": "b", "v": 1, "o": 1}]
    table = made(location, rows, schema, kind, ordering="o", partition_by="p", options=SIMPLE)
    before = found(table)
    with pytest.raises(DataError, match="lower o"):
        table.replace(pa.table({"id": [1], "p": ["b"], "v": [1], "o": [1]}), where="p = 'b'")
    assert unchanged(table, before)


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_whose_generated_ordering_falls_is_refused(location: str, kind: str) -> None:
    rules = hudi.TableRules(generated={"o": "0 - v"})
    table = made(location, [{"id": 1, "v": 1}], ORDERED, kind, ordering="o", rules=rules)
    before = found(table)
    with pytest.raises(DataError, match="lower o"):
        table.update({"v": "v + 10"})
    assert unchanged(table, before)
    table.update({"v": "v - 10"})
    assert found(table) == [(1, 9, -9)]


@pytest.mark.parametrize("kind", KINDS)
def test_nan_is_the_highest_ordering_value_of_an_update(location: str, kind: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("o", pa.float64()), ("v", pa.int64())])
    table = made(location, [{"id": 1, "o": math.nan, "v": 0}], schema, kind, ordering="o")
    for given in ("5.0", math.inf, None):
        with pytest.raises(DataError, match="lower o"):
            table.update({"o": given, "v": 1})
    assert len(table.timeline.commits) == 1
    table.update({"o": math.nan, "v": 2})
    assert table.to_arrow()["v"].to_pylist() == [2]


@pytest.mark.parametrize("kind", KINDS)
def test_several_ordering_columns_are_compared_one_after_the_other(location: str, kind: str) -> None:
    schema = pa.schema([*ORDERED, ("b", pa.int64())])
    table = made(location, [{"id": 1, "o": 1, "v": 0, "b": 5}], schema, kind, ordering=["o", "b"])
    table.update({"o": 2, "b": 3, "v": 1})
    assert found(table) == [(1, 2, 1, 3)]
    table.replace(pa.table({"id": [1], "o": [3], "v": [1], "b": [0]}), where="v = 1")
    assert found(table) == [(1, 3, 1, 0)]
    for older in ({"o": 2, "b": 9}, {"b": -1}, {"b": None}):
        with pytest.raises(DataError, match=r"lower \(o, b\)"):
            table.update(older)
    assert found(table) == [(1, 3, 1, 0)]


def outcome(call: Callable[[], object]) -> type[BaseException] | None:
    try:
        call()
    except HudiError as error:
        return type(error)
    return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("where", [None, "true"])
def test_a_merge_of_the_form_of_an_upsert_moves_no_row(location: str, kind: str, index: str, where: str | None) -> None:
    rows = [{"id": 1, "p": "a", "v": 1}]
    table = made(location, rows, IN_PARTITIONS, kind, partition_by=["p"], options=INDEXES[index])
    merge = table.merge(pa.table({"id": [1], "p": ["b"], "v": [2]}), on=["id", "p"])
    merge = merge.when_matched_update_all().when_not_matched_insert_all(where=where)
    if index == "no global one":
        assert merge.plan().rows_inserted == merge.run().stats.rows_inserted == 1
        return
    assert outcome(merge.run) is DuplicateKeyError
    assert unchanged(table, found(table))
    with pytest.raises(DuplicateKeyError):
        merge.plan()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [None, "true"])
def test_a_merge_of_the_form_of_an_upsert_widens_no_column(location: str, kind: str, where: str | None) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int32())])
    table = made(location, [{"id": 1, "v": 1}], schema, kind)

    def merge(values: list[float]) -> Any:
        begun = table.merge(pa.table({"id": [1, 2], "v": values}), on="id")
        return begun.when_matched_update_all(where).when_not_matched_insert_all()

    assert (outcome(merge([1.5, 2.5]).plan), outcome(merge([1.5, 2.5]).run)) == (DataError, DataError)
    assert unchanged(table, [(1, 1)])
    merge([5.0, 6.0]).run()
    assert hudi.open_table(table.location).schema == schema
    assert found(table) == [(1, 5), (2, 6)]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_an_update_are_stored_exactly_or_as_the_nearest_floating_point_number(
    location: str, kind: str
) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("c", pa.decimal128(20, 10)), ("d", pa.float64()), ("m", pa.decimal128(9, 2))]
    )
    exact = [Decimal(number) / Decimal(10**7) for number in range(1_234_567, 1_237_567, 7)]
    table = made(location, [{"id": n, "c": c, "d": None, "m": None} for n, c in enumerate(exact)], schema, kind)
    table.update({"d": "c", "m": "id"})
    rows = table.to_arrow().sort_by("id")
    assert rows["d"].to_pylist() == [float(number) for number in exact]
    assert rows["m"].to_pylist() == [Decimal(number) for number in range(len(exact))]
    with pytest.raises(DataError, match="m cannot be computed or stored"):
        table.update({"m": "id * 1000000000"})
    for given in (np.float64(1.239), np.float32(1.5), np.float64(1e300)):
        with pytest.raises(PredicateError, match="Column m"):
            table.update({"m": given})
    assert len(table.timeline.commits) == 2
    table.update({"m": np.int16(7), "d": np.float32(0.5)})
    assert {*table.to_arrow()["m"].to_pylist()} == {Decimal(7)}


@pytest.mark.parametrize("partition", ["a", "b"])
def test_a_replace_sees_the_rows_that_others_commit_while_its_source_is_read(location: str, partition: str) -> None:
    table = made(location, [{"id": 1, "p": "a", "v": 1}], IN_PARTITIONS, "cow", partition_by="p")

    def source() -> Iterator[pa.RecordBatch]:
        hudi.open_table(location).upsert(pa.table({"id": [2], "p": [partition], "v": [2]}, IN_PARTITIONS))
        yield pa.record_batch([[3], ["a"], [3]], IN_PARTITIONS)

    commit = table.replace(pa.RecordBatchReader.from_batches(IN_PARTITIONS, source()), "v < 100")
    assert commit.retries == 0
    assert table.scan(meta=False).to_arrow().to_pylist() == [{"id": 3, "p": "a", "v": 3}]
