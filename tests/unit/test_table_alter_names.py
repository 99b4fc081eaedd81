"""Names of columns that mean another column after `table.alter`: no row gets values of the column that had the name before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.samples import examples
from support.tables import make, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.write import write as writing

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("day", pa.string()), ("a", pa.string()), ("b", pa.string())]
)


def rows(*values: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in values], schema)


def filled(location: str, kind: str, **more: Any) -> hudi.HudiTable:
    """A table with two rows of one file."""
    table = make(location, SCHEMA, ordering="ts", table_type=kind, **more)
    table.upsert(rows((1, 1, "d", "a1", "b1"), (2, 1, "d", "a2", "b2")))
    return table


def read(table: hudi.HudiTable, **how: Any) -> list[dict[str, Any]]:
    return table.scan(meta=False, **how).to_arrow().sort_by("id").to_pylist()


CHANGES: dict[str, dict[str, Any]] = {"dropped": {"drop": ["b"]}, "renamed": {"rename": {"b": "c"}}}


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("partial", [False, True])
def test_a_batch_that_brings_a_name_back_brings_a_new_column(
    location: str, kind: str, change: str, partial: bool
) -> None:
    table = filled(location, kind)
    table.alter(**CHANGES[change])
    renamed = {"c": "new c"} if change == "renamed" else {}
    # Key 3 goes into the small base file of a merge-on-read table, which is written again.
    data = [{"id": key, "ts": 2, "day": "d", "a": "new a", "b": "new b", **renamed} for key in (1, 3)]
    if partial:
        data = [{"id": 1, "ts": 2, "day": "d", "b": "new b"}]
    with table.begin("upsert", partial=partial) as write:
        write.write(pa.Table.from_pylist(data))
        staged = write.staged(write.schema.names).to_arrow().sort_by("id").to_pylist()
        write.commit()
    found = read(table)
    assert [row["b"] for row in found] == (["new b", None] if partial else ["new b", None, "new b"])
    if renamed:
        assert [row["c"] for row in found] == (["b1", "b2"] if partial else ["new c", "b2", "new c"])
    assert [row["a"] for row in found] == (["a1", "a2"] if partial else ["new a", "a2", "new a"])
    assert staged == [row for row in found if row["ts"] == 2]
    assert [row["id"] for row in read(table, where="b is null")] == [2]
    (table.compaction if kind == "MERGE_ON_READ" else table.clustering).run()
    assert read(table) == found
    assert table.check().findings == ()


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
def test_a_field_of_a_struct_that_comes_back_is_a_new_one(location: str, kind: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])
    table = make(location, schema, table_type=kind)
    table.upsert(rows((1, {"x": 1, "y": 2}), (2, {"x": 3, "y": 4}), schema=schema))
    table.alter(drop=["s.y"])
    table.upsert(rows((3, {"x": 5, "y": 6}), schema=schema))
    assert [row["s"] for row in read(table)] == [{"x": 1, "y": None}, {"x": 3, "y": None}, {"x": 5, "y": 6}]


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_stay_when_another_one_moves_get_no_old_values(location: str, kind: str) -> None:
    options = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": True}
    table = filled(location, kind, partition_by="day", options=options)
    table.alter(drop=["b"])
    with table.begin("upsert") as write:
        write.write(rows((1, 2, "e", "a1", "new b")))
        write.commit()
    assert [(row["day"], row["b"]) for row in read(table)] == [("e", "new b"), ("d", None)]
    # An older version of a row that is to move loses: the stored row stays, and is read for it.
    table.upsert(pa.Table.from_pylist([{"id": 2, "ts": 0, "day": "e", "a": "x", "b": "late"}], table.schema))
    assert [(row["day"], row["a"], row["b"]) for row in read(table)] == [("e", "a1", "new b"), ("d", "a2", None)]


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_do_not_hide_rows_whose_column_came_back(location: str, kind: str) -> None:
    options = {"hoodie.metadata.enable": True, "hoodie.metadata.index.column.stats.enable": True}
    table = filled(location, kind, partition_by="day", options=options)
    table.alter(drop=["b"])
    table.upsert(rows((3, 2, "e", "a3", "new b")))
    assert [row["id"] for row in read(table, where="b is null")] == [1, 2]
    assert [row["id"] for row in read(table, where="b = 'new b'")] == [3]
    assert read(table, where="b = 'b1'") == []
    assert table.check().findings == ()


def altering_once(monkeypatch: pytest.MonkeyPatch, alter: Callable[[], object]) -> None:
    """The first attempt that has its files written meets this change."""
    stage, done = writing.stage, []

    def staged(*given: Any) -> Any:
        end = stage(*given)
        if not done:
            done.append(True)
            alter()
        return end

    monkeypatch.setattr(writing, "stage", staged)


MEANWHILE: dict[str, dict[str, Any]] = {
    "swapped": {"rename": {"a": "b", "b": "a"}, "order": SCHEMA.names},
    "replaced": {"drop": ["b"], "add": {"b": pa.string()}},
    "dropped": {"drop": ["b"]},
}


@pytest.mark.row("D10", "L1")
@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("case", MEANWHILE)
def test_a_write_whose_columns_became_others_meanwhile_is_refused(
    location: str, monkeypatch: pytest.MonkeyPatch, case: str, earlier: bool
) -> None:
    table = filled(location, "COPY_ON_WRITE")
    if earlier:
        table.alter(rename={"a": "n"})
        table.alter(rename={"n": "a"})
    other = reopen(table)
    altering_once(monkeypatch, lambda: other.alter(**MEANWHILE[case]))
    with pytest.raises(SchemaMismatchError, match="changed the table's columns"):
        table.upsert(rows((3, 1, "d", "a3", "b3")))
    assert [row["id"] for row in read(table)] == [1, 2]
    changed = read(table)[0]
    expected = {"swapped": ("b1", "a1"), "replaced": ("a1", None), "dropped": ("a1", "gone")}[case]
    assert (changed["a"], changed.get("b", "gone")) == expected


@pytest.mark.row("D10", "L1")
def test_a_write_tries_again_if_its_columns_only_became_numbered(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(location, "COPY_ON_WRITE")
    other = reopen(table)
    altering_once(monkeypatch, lambda: (other.alter(rename={"b": "c"}), other.alter(rename={"c": "b"})))
    commit = table.upsert(rows((1, 2, "d", "new", "b3")))
    assert commit.retries
    assert [(row["a"], row["b"]) for row in read(table)] == [("new", "b3"), ("a2", "b2")]


NAMES = ["p", "q", "r", "v"]


@pytest.mark.row("D10")
@pytest.mark.parametrize("kind", KINDS)
def test_any_sequence_of_changes_and_writes_gives_the_rows_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    verbs = st.tuples(
        st.sampled_from(["write", "write", "bring", "add", "drop", "rename", "swap", "order", "rewrite"]),
        st.integers(0, 11),
    )

    @settings(max_examples=examples(24), deadline=None)
    @given(st.lists(verbs, min_size=3, max_size=8))
    @example([("drop", 0), ("bring", 10)])
    @example([("rename", 0), ("bring", 2), ("rewrite", 0)])
    def run(steps: list[tuple[str, int]]) -> None:
        schema = pa.schema([("id", pa.int64()), ("p", pa.int64()), ("q", pa.string())])
        table = make(str(tmp_path_factory.mktemp("t")), schema, table_type=kind)
        model: dict[int, dict[str, Any]] = {}
        for number, (verb, choice) in enumerate([("write", 0), *steps]):
            _step(table, model, verb, choice, number)
            assert {found.pop("id"): found for found in read(table)} == model
        assert table.check().findings == ()

    run()


def _step(table: hudi.HudiTable, model: dict[int, dict[str, Any]], verb: str, choice: int, number: int) -> None:
    """Do one step to the table and to the model."""
    data = [name for name in table.schema.names if name != "id"]
    free = [name for name in NAMES if name not in data]
    chosen = data[choice % len(data)]
    if verb in ("write", "bring"):
        schema = table.schema
        if verb == "bring" and free:
            schema = schema.append(pa.field(free[choice // 3 % len(free)], [pa.int64(), pa.string()][choice % 2]))
            for values in model.values():
                values[schema.names[-1]] = None
        kinds = {pa.int64(): number, pa.string(): str(number)}
        for key in {choice % 3, 3}:
            model[key] = {name: kinds[schema.field(name).type] for name in schema.names if name != "id"}
        table.upsert(pa.Table.from_pylist([{"id": key, **model[key]} for key in {choice % 3, 3}], schema))
    elif verb == "add" and free:
        table.alter(add={free[0]: [pa.int64(), pa.string()][choice % 2]})
        for values in model.values():
            values[free[0]] = None
    elif verb == "drop" and len(data) > 1:
        table.alter(drop=[chosen])
        for values in model.values():
            del values[chosen]
    elif verb == "rename" and free:
        table.alter(rename={chosen: free[-1]})
        for values in model.values():
            values[free[-1]] = values.pop(chosen)
    elif verb == "swap" and len(data) > 1:
        other = data[(choice + 1) % len(data)]
        table.alter(rename={chosen: other, other: chosen})
        for values in model.values():
            values[chosen], values[other] = values[other], values[chosen]
    elif verb == "order":
        table.alter(order=[chosen])
    elif verb == "rewrite":
        (table.compaction if table.config.table_type.value == "MERGE_ON_READ" else table.clustering).run()


@pytest.mark.row("D10")
def test_tasks_get_each_version_of_the_columns_once(location: str) -> None:
    table = filled(location, "COPY_ON_WRITE")
    table.alter(rename={"b": "c"})
    sizes = set()
    for number in range(4):
        table.upsert(pa.Table.from_pylist([{"id": 3, "ts": number, "day": "d", "a": "x", "c": "y"}], table.schema))
        evolution = table.snapshot().evolution
        assert evolution is not None
        sizes.add(len(evolution.versions))
    assert sizes == {2}
